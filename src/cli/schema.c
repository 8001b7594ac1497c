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

static int schema_of_source(const char *command, const char *file, const char *name, bool adopt, bool drop_trigger)
{
	struct config *config = cli_load(file);
	const struct config_source *source;
	int exit_code;

	if (config == NULL)
		return CLI_CONFIG;
	source = cli_source(command, config, name);
	exit_code = source == NULL ? CLI_USAGE : print_schema(source, adopt, drop_trigger);
	config_free(config);
	return exit_code;
}

/* A consumer has no configuration of the relay's, so --inbox reads none. */
int cli_schema(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE, *name = NULL;
	bool adopt = false, drop_trigger = false, inbox = false;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file),
					     {"source", '\0', NULL, &name, NULL},
					     {"adopt", '\0', &adopt, NULL, NULL},
					     {"drop-trigger", '\0', &drop_trigger, NULL, NULL},
					     {"inbox", '\0', &inbox, NULL, NULL},
					     CLI_OPTION_END};
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	if (adopt + drop_trigger + inbox > 1)
		return cli_usage_error(argv[0], "--adopt, --drop-trigger and --inbox exclude each other");
	if (!inbox)
		return schema_of_source(argv[0], file, name, adopt, drop_trigger);
	sql_print_inbox(stdout);
	return CLI_OK;
}
