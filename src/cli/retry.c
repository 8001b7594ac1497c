/* retry and skip: two decisions about rows that have failed, with the same selectors. */
#include "base/mem.h"
#include "cli/change.h"

#include <string.h>

/* Exactly one way to say which rows. CLI_OK when it is so. */
static int check_selectors(const struct change *change, bool all)
{
	int selectors = (change->ids.n > 0) + (change->key != NULL) + all;

	if (selectors == 0)
		return cli_usage_error(change->command, "say which rows: --id ID, --key KEY or --all");
	if (selectors > 1)
		return cli_usage_error(change->command, "--id, --key and --all exclude each other");
	return CLI_OK;
}

/* An id that comes twice is one. */
static void drop_repeats(struct cli_list *ids)
{
	size_t kept = 0, i, same;

	for (i = 0; i < ids->n; i++) {
		for (same = 0; same < kept && strcmp(ids->items[same], ids->items[i]) != 0; same++)
			;
		if (same == kept)
			ids->items[kept++] = ids->items[i];
	}
	ids->n = kept;
}

static int load_and_change(const char *file, const char *name, const struct change *change)
{
	struct config *config = cli_load(file);
	const struct config_source *source;
	int exit_code;

	if (config == NULL)
		return CLI_CONFIG;
	source = cli_source(change->command, config, name);
	exit_code = source == NULL ? CLI_USAGE : change_rows(source, change);
	config_free(config);
	return exit_code;
}

static int read_and_change(int argc, char **argv, struct change *change)
{
	const char *file = CONFIG_DEFAULT_FILE, *name = NULL;
	bool all = false;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file),
					     {"source", '\0', NULL, &name, NULL},
					     {"id", '\0', NULL, NULL, &change->ids},
					     {"key", '\0', NULL, &change->key, NULL},
					     {"all", '\0', &all, NULL, NULL},
					     {"error", '\0', NULL, &change->error, NULL},
					     {"dry-run", '\0', &change->dry_run, NULL, NULL},
					     {change->skip ? "reason" : NULL, '\0', NULL, &change->reason, NULL},
					     CLI_OPTION_END};
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	drop_repeats(&change->ids);
	exit_code = check_selectors(change, all);
	return exit_code == CLI_OK ? load_and_change(file, name, change) : exit_code;
}

static int decide(int argc, char **argv, bool skip)
{
	const char **ids = MEM_NEW_ARRAY((size_t)argc, const char *);
	struct change change = {.command = argv[0], .skip = skip, .ids = {ids, 0}};
	int exit_code = read_and_change(argc, argv, &change);

	mem_free(ids);
	return exit_code;
}

int cli_retry(int argc, char **argv)
{
	return decide(argc, argv, false);
}

int cli_skip(int argc, char **argv)
{
	return decide(argc, argv, true);
}
