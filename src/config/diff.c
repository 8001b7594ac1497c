#include "config/diff.h"

#include "config/keys.h"

#include <stdio.h>
#include <string.h>

/* ---- the same or not ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_headers(const struct config_source *a, const struct config_source *b)
{
	size_t i;

	if (a->n_headers != b->n_headers)
		return false;
	for (i = 0; i < a->n_headers; i++)
		if (!same_text(a->headers[i].name, b->headers[i].name) ||
		    !same_text(a->headers[i].template_text, b->headers[i].template_text) ||
		    a->headers[i].optional != b->headers[i].optional)
			return false;
	return true;
}

static bool same_properties(const struct config_kafka *a, const struct config_kafka *b)
{
	size_t i;

	if (a->n_properties != b->n_properties)
		return false;
	for (i = 0; i < a->n_properties; i++)
		if (!same_text(a->properties[i].name, b->properties[i].name) ||
		    !same_text(a->properties[i].value, b->properties[i].value))
			return false;
	return true;
}

static bool same_scalar(const struct key *key, const void *a, const void *b)
{
	const struct config_http *left = a, *right = b;

	switch (key->type) {
	case KEY_INTEGER:
	case KEY_DURATION:
	case KEY_SIZE:
		return memcmp(a, b, sizeof(int64_t)) == 0;
	case KEY_NUMBER:
		return memcmp(a, b, sizeof(double)) == 0;
	case KEY_WORD:
		return memcmp(a, b, sizeof(unsigned)) == 0;
	case KEY_LISTEN:
		return same_text(left->host, right->host) && left->port == right->port;
	default:
		return same_text(*(const char *const *)a, *(const char *const *)b);
	}
}

static bool same_section(const struct section *section, const void *a, const void *b);

/* a, b: where the section begins that the key stands in. */
static bool same_key(const struct key *key, const void *a, const void *b)
{
	const char *left = (const char *)a + key->offset, *right = (const char *)b + key->offset;

	switch (key->type) {
	case KEY_SECTION:
		return same_section(key->section, left, right);
	case KEY_HEADERS:
		return same_headers(a, b);
	case KEY_PROPERTIES:
		return same_properties(a, b);
	case KEY_SOURCES: /* compared one by one, by name */
		return true;
	default:
		return same_scalar(key, left, right);
	}
}

static bool same_section(const struct section *section, const void *a, const void *b)
{
	size_t i;

	for (i = 0; i < section->n_keys; i++)
		if (!same_key(&section->keys[i], a, b))
			return false;
	return true;
}

/* A column that the file begins to name must exist from then on, though its name is the preset's. */
static bool same_requirements(const struct config_source *a, const struct config_source *b)
{
	return memcmp(a->column_required, b->column_required, sizeof(a->column_required)) == 0;
}

bool diff_same_source(const struct config_source *a, const struct config_source *b)
{
	return same_section(&keys_source, a, b) && same_requirements(a, b);
}

bool diff_same_postgres(const struct config_postgres *a, const struct config_postgres *b)
{
	return same_section(keys_find(&keys_top, "postgres")->section, a, b);
}

bool diff_same_kafka(const struct config_kafka *a, const struct config_kafka *b)
{
	return same_section(keys_find(&keys_top, "kafka")->section, a, b);
}

/* ---- the list of changes ---- */

struct walk {
	const struct config *before, *after;
	struct diff *diff;
	bool in_source;
};

static void add_name(struct buf *list, const char *prefix, const char *name)
{
	buf_print(list, "%s%s%s", list->len > 0 ? ", " : "", prefix, name);
}

/* A source that follows what changed at the top: it is told there. */
static bool is_inherited(const struct walk *walk, const struct key *outer, const struct key *key,
			 const void *before, const void *after)
{
	const struct key *top = walk->in_source && outer != NULL ? keys_find(&keys_top, outer->name) : NULL;

	if (top == NULL || top->section != outer->section)
		return false;
	return same_key(key, before, (const char *)walk->before + top->offset) &&
	       same_key(key, after, (const char *)walk->after + top->offset);
}

/* outer: the key of this section; NULL: a whole file or source. */
static void walk_section(struct walk *walk, const struct section *section, const struct key *outer,
			 const char *prefix, const void *before, const void *after)
{
	const struct key *key;
	char inner[200];
	size_t i;

	for (i = 0; i < section->n_keys; i++) {
		key = &section->keys[i];
		if (same_key(key, before, after) || is_inherited(walk, outer, key, before, after))
			continue;
		if (key->type == KEY_SECTION) {
			snprintf(inner, sizeof(inner), "%s%s.", prefix, key->name);
			walk_section(walk, key->section, key, inner, (const char *)before + key->offset,
				     (const char *)after + key->offset);
			continue;
		}
		add_name(&walk->diff->changed, prefix, key->name);
		if (key->flags & KEY_RESTART)
			add_name(&walk->diff->restart, prefix, key->name);
	}
}

static void walk_source(struct walk *walk, const struct config_source *before, const struct config_source *after)
{
	char prefix[100];

	snprintf(prefix, sizeof(prefix), "sources.%s.", after->name);
	walk_section(walk, &keys_source, NULL, prefix, before, after);
	if (!same_requirements(before, after) && same_key(keys_find(&keys_source, "columns"), before, after))
		add_name(&walk->diff->changed, prefix, "columns");
}

void diff_find(const struct config *before, const struct config *after, struct diff *diff)
{
	struct walk walk = {.before = before, .after = after, .diff = diff};
	const struct config_source *same;
	size_t i;

	walk_section(&walk, &keys_top, NULL, "", before, after);
	walk.in_source = true;
	for (i = 0; i < after->n_sources; i++) {
		same = config_find_source(before, after->sources[i].name);
		if (same == NULL)
			add_name(&diff->added, "", after->sources[i].name);
		else
			walk_source(&walk, same, &after->sources[i]);
	}
	for (i = 0; i < before->n_sources; i++)
		if (config_find_source(after, before->sources[i].name) == NULL)
			add_name(&diff->removed, "", before->sources[i].name);
}

void diff_free(struct diff *diff)
{
	buf_free(&diff->changed);
	buf_free(&diff->restart);
	buf_free(&diff->added);
	buf_free(&diff->removed);
}
