/* config: what is in effect, and what could be. */
#include "cli/cli.h"

int cli_config(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE;
	bool reference = false;
	const struct cli_option options[] = {
		CLI_OPTION_CONFIG(&file), {"reference", '\0', &reference, NULL, NULL}, CLI_OPTION_END};
	struct config *config;
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	if (reference) {
		config_print_reference(stdout);
		return CLI_OK;
	}
	config = cli_load(file);
	if (config == NULL)
		return CLI_CONFIG;
	config_print(config, stdout);
	config_free(config);
	return CLI_OK;
}
