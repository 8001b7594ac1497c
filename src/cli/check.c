/* check: are the file, the databases, the tables and the brokers as they must be? A finding a line. */
#include "cli/cli.h"

#include "base/mem.h"
#include "cli/checksource.h"
#include "config/diff.h"
#include "core/checktable.h"
#include "io/judge.h"

#include <string.h>

/* ---- the file ---- */

/* Each mistake of the file is a finding. */
static void add_mistakes(struct check *check, char *problems)
{
	char *line = problems, *end;

	for (; *line != '\0'; line = end + 1) {
		end = strchrnul(line, '\n');
		if (*end == '\0')
			break;
		*end = '\0';
		check_add(check, CHECK_FILE_WRONG, NULL, NULL, "%s", line);
	}
}

/* For people mistakes are on stderr, as with every command. */
static struct config *load(struct check *check, const char *file, bool as_json)
{
	struct buf problems = {0};
	struct config *config;

	if (!as_json)
		return cli_load(file);
	config = judge_load(file, NULL, &problems);
	if (problems.len > 0)
		add_mistakes(check, problems.bytes);
	buf_free(&problems);
	return config;
}

/* ---- servers ---- */

static const struct checksource *same_database(const struct checksource *sources, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (diff_same_postgres(&sources[k].source->postgres, &sources[i].source->postgres))
			return &sources[k];
	return NULL;
}

static bool kafka_is_asked(const struct checksource *sources, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (diff_same_kafka(&sources[k].source->kafka, &sources[i].source->kafka))
			return true;
	return false;
}

static void ask_servers(struct check *check, const struct config *config)
{
	struct checksource *sources = MEM_NEW_ARRAY(config->n_sources, struct checksource);
	size_t i;

	for (i = 0; i < config->n_sources; i++) {
		sources[i].source = &config->sources[i];
		checktable_settings(check, sources[i].source);
		checksource_database(check, &sources[i], same_database(sources, i));
	}
	for (i = 0; i < config->n_sources; i++)
		if (!kafka_is_asked(sources, i))
			checksource_kafka(check, sources + i, config->n_sources - i);
	mem_free(sources);
}

/* ---- ---- */

static int conclude(const struct check *check, bool as_json)
{
	static const enum cli_exit exits[] = {[CHECK_UNREACHABLE] = CLI_UNAVAILABLE,
					      [CHECK_DENIED] = CLI_PERMISSION,
					      [CHECK_WRONG] = CLI_CONFIG,
					      [CHECK_NOBODY] = CLI_OK};
	json_t *array;

	if (as_json) {
		array = check_to_json(check);
		json_dumpf(array, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(array);
	} else {
		check_print(check, stdout);
	}
	return (int)exits[check_cause(check)];
}

static int check_all(const char *file, bool offline, bool as_json)
{
	struct check check;
	struct config *config;
	int exit_code;

	check_init(&check);
	config = load(&check, file, as_json);
	if (config != NULL) {
		check_add(&check, CHECK_FILE, NULL, NULL, "%s: %zu source%s", file, config->n_sources,
			  config->n_sources == 1 ? "" : "s");
		if (!offline)
			ask_servers(&check, config);
	}
	exit_code = conclude(&check, as_json);
	exit_code = config == NULL ? CLI_CONFIG : exit_code;
	check_free(&check);
	config_free(config);
	return exit_code;
}

int cli_check(int argc, char **argv)
{
	const char *file = CONFIG_DEFAULT_FILE;
	bool offline = false, as_json = false, reference = false;
	const struct cli_option options[] = {CLI_OPTION_CONFIG(&file),
					     {"offline", '\0', &offline, NULL, NULL},
					     {"json", '\0', &as_json, NULL, NULL},
					     {"reference", '\0', &reference, NULL, NULL},
					     CLI_OPTION_END};
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	if (!reference)
		return check_all(file, offline, as_json);
	check_print_reference(stdout);
	return CLI_OK;
}
