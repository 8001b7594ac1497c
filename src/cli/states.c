/* states: a row's transitions, from the table that the relay itself obeys. */
#include "cli/cli.h"

#include "core/rowstate.h"

int cli_states(int argc, char **argv)
{
	bool json = false;
	const struct cli_option options[] = {{"json", '\0', &json, NULL, NULL}, CLI_OPTION_END};
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	row_print_table(stdout, json);
	return CLI_OK;
}
