/* check: is the file good? */
#include "cli/cli.h"

int cli_check(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE;
	bool offline = false;
	const struct cli_option options[] = {
		CLI_OPTION_CONFIG(&file), {"offline", '\0', &offline, NULL, NULL}, CLI_OPTION_END};
	struct config *config;
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	if (!offline)
		return cli_usage_error(argv[0], "only --offline is there so far: the check of the file");
	config = cli_load(file);
	if (config == NULL)
		return CLI_CONFIG;
	printf("ok     %s: %zu source%s\n", file, config->n_sources, config->n_sources == 1 ? "" : "s");
	config_free(config);
	return CLI_OK;
}
