/* run: the daemon, in the foreground. */
#include "cli/cli.h"

#include "base/log.h"
#include "relay/relay.h"

int cli_run(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file), CLI_OPTION_END};
	struct config *config;
	struct err err;
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	config = cli_load(file);
	if (config == NULL)
		return CLI_CONFIG;
	log_configure(config->log_level, config->log_format);
	exit_code = relay_run(config, &err);
	if (exit_code < 0) {
		LOG(LOG_ERROR, "start_failed", log_str("reason", err.text));
		exit_code = CLI_TEMPORARY;
	}
	config_free(config);
	return exit_code;
}
