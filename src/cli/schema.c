/* schema: the SQL that makes a source's table, or what an existing one lacks. It connects to nothing. */
#include "cli/cli.h"
#include "core/sql.h"

static int print_schema(const struct config_source *source, bool adopt, bool drop_trigger)
{
	if (drop_trigger)
		sql_print_drop_trigger(source, stdout);
	else
		sql_print_schema(source, adopt, stdout);
	return CLI_OK;
}

int cli_schema(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE, *name = NULL;
	bool adopt = false, drop_trigger = false;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file),
					     {"source", '\0', NULL, &name, NULL},
					     {"adopt", '\0', &adopt, NULL, NULL},
					     {"drop-trigger", '\0', &drop_trigger, NULL, NULL},
					     CLI_OPTION_END};
	const struct config_source *source;
	struct config *config;
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	if (adopt && drop_trigger)
		return cli_usage_error(argv[0], "--adopt and --drop-trigger exclude each other");
	config = cli_load(file);
	if (config == NULL)
		return CLI_CONFIG;
	source = cli_source(argv[0], config, name);
	exit_code = source == NULL ? CLI_USAGE : print_schema(source, adopt, drop_trigger);
	config_free(config);
	return exit_code;
}
