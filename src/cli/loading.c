/* The configuration as every command gets it: loaded, and judged by the libraries as well. */
#include "cli/cli.h"

#include "io/judge.h"

#include <string.h>
#include <unistd.h>

/* Who has no file in the usual place may not know that there can be another. */
static void name_option(const char *file)
{
	if (strcmp(file, CONFIG_DEFAULT_FILE) == 0 && access(file, F_OK) != 0)
		fputs("-c FILE names another configuration\n", stderr);
}

struct config *cli_load(const char *file)
{
	struct buf problems = {0};
	struct config *config = judge_load(file, NULL, &problems);

	fputs(buf_text(&problems), stderr);
	if (config == NULL)
		name_option(file);
	buf_free(&problems);
	return config;
}

const struct config_source *cli_source(const char *command, const struct config *config, const char *name)
{
	const struct config_source *source;
	struct buf names = {0};

	if (name == NULL && config->n_sources == 1)
		return &config->sources[0];
	source = name == NULL ? NULL : config_find_source(config, name);
	if (source != NULL)
		return source;
	for (size_t i = 0; i < config->n_sources; i++)
		buf_print(&names, "%s %s", i > 0 ? "," : "", config->sources[i].name);
	if (name == NULL)
		fprintf(stderr, "%s: say with --source which one:%s\n", command, buf_text(&names));
	else
		fprintf(stderr, "%s: there is no source %s, but%s\n", command, name, buf_text(&names));
	buf_free(&names);
	return NULL;
}
