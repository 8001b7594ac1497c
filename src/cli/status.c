/* The command: a row a source, counted in the database now, and what the daemon says of itself, which may be down. */
#include "cli/status.h"

#include "base/mem.h"
#include "cli/daemon.h"

/* The first failure decides. */
static int report_failures(const char *command, const struct status_row *rows, size_t n_rows)
{
	int exit_code = CLI_OK;
	size_t i;

	for (i = 0; i < n_rows; i++) {
		if (rows[i].exit_code == CLI_OK)
			continue;
		fprintf(stderr, "%s: source %s: %s\n", command, rows[i].source->name, rows[i].err.text);
		exit_code = exit_code == CLI_OK ? (int)rows[i].exit_code : exit_code;
	}
	return exit_code;
}

static int show(const char *command, const struct config *config, const struct config_source *only, bool as_json)
{
	size_t n_rows = only != NULL ? 1 : config->n_sources, i;
	struct status_row *rows = MEM_NEW_ARRAY(n_rows, struct status_row);
	struct err err = {""};
	json_t *view = config->http.host == NULL ? NULL : daemon_ask(&config->http, &err);
	int exit_code;

	for (i = 0; i < n_rows; i++) {
		rows[i].source = only != NULL ? only : &config->sources[i];
		status_count(&rows[i]);
	}
	if (as_json)
		status_print_json(view, rows, n_rows);
	else
		status_print_text(&config->http, view, &err, rows, n_rows);
	exit_code = report_failures(command, rows, n_rows);
	json_decref(view);
	mem_free(rows);
	return exit_code;
}

int cli_status(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE, *name = NULL;
	const struct config_source *only = NULL;
	bool as_json = false;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file),
					     {"source", '\0', NULL, &name, NULL},
					     {"json", '\0', &as_json, NULL, NULL},
					     CLI_OPTION_END};
	struct config *config;
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	config = cli_load(file);
	if (config == NULL)
		return CLI_CONFIG;
	if (name != NULL)
		only = cli_source(argv[0], config, name);
	exit_code = name != NULL && only == NULL ? CLI_USAGE : show(argv[0], config, only, as_json);
	config_free(config);
	return exit_code;
}
