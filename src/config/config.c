#include "config/config.h"

#include "base/mem.h"
#include "config/keys.h"
#include "config/load.h"

#include <errno.h>
#include <string.h>

const char *config_column_name(enum config_column column)
{
	const struct section *columns = keys_find(&keys_source, "columns")->section;
	size_t i = 0;

	while (columns->keys[i].offset != column * sizeof(const char *))
		i++;
	return columns->keys[i].name;
}

/* One byte more than allowed is read, so that yamltree sees that there is too much. */
static bool read_file(const char *file, struct buf *content, struct buf *problems)
{
	FILE *stream = fopen(file, "re");
	char bytes[8192];
	size_t got = 0;
	bool good;

	if (stream == NULL) {
		if (errno == ENOMEM)
			mem_exhausted();
		buf_print(problems, "%s: %s\n", file, strerror(errno));
		return false;
	}
	do {
		buf_add(content, bytes, got);
		got = fread(bytes, 1, sizeof(bytes), stream);
	} while (got > 0 && content->len <= YAMLTREE_MAX_BYTES);
	good = ferror(stream) == 0;
	if (!good)
		buf_print(problems, "%s: %s\n", file, strerror(errno));
	fclose(stream);
	return good;
}

static void load_content(struct load *load, const struct buf *content)
{
	struct arena *tree_arena = arena_new();

	load->root = yamltree_parse(tree_arena, buf_text(content), content->len, load->diag);
	if (load->root != NULL)
		load_file(load);
	arena_free(tree_arena);
}

struct config *config_load(const char *file, struct buf *problems)
{
	static const struct config_judge nobody = {0};

	return config_load_judged(file, &nobody, problems);
}

struct config *config_load_judged(const char *file, const struct config_judge *judge, struct buf *problems)
{
	struct diag diag = {.file = file};
	struct arena *arena = arena_new();
	struct config *config = arena_take(arena, 1, sizeof(*config));
	struct load load = {.config = config, .diag = &diag, .judge = judge};
	struct buf content = {0};
	bool good;

	config->arena = arena;
	config->users = 1;
	config->file = arena_copy_string(arena, file);
	good = read_file(file, &content, problems);
	if (good)
		load_content(&load, &content);
	good = good && diag.n_lines == 0;
	diag_print(&diag, problems);
	diag_free(&diag);
	buf_free(&content);
	if (good)
		return config;
	config_free(config);
	return NULL;
}

struct config *config_share(struct config *config)
{
	config->users++;
	return config;
}

void config_free(struct config *config)
{
	if (config != NULL && --config->users == 0)
		arena_free(config->arena);
}

const struct config_source *config_find_source(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_sources; i++)
		if (strcmp(config->sources[i].name, name) == 0)
			return &config->sources[i];
	return NULL;
}
