/* The effective configuration as YAML, and the reference of all keys: both walk the key table. */
#include "config/config.h"
#include "config/keys.h"
#include "config/types.h"

#include <string.h>

static void print_section(struct buf *out, const struct section *section, const void *base, int depth,
			  const struct config *config);

static void print_name(struct buf *out, int depth, const char *name)
{
	buf_print(out, "%*s%s:", depth * 2, "", name);
}

static void print_headers(struct buf *out, const struct config_source *source, int depth)
{
	buf_add_string(out, source->n_headers == 0 ? " {}\n" : "\n");
	for (size_t i = 0; i < source->n_headers; i++) {
		buf_print(out, "%*s", depth * 2 + 2, "");
		types_print_text(out, source->headers[i].name);
		buf_add_string(out, ": ");
		types_print_text(out, source->headers[i].template_text);
		buf_add_char(out, '\n');
	}
}

static void print_properties(struct buf *out, const struct config_kafka *kafka, int depth)
{
	const struct config_property *property;

	buf_add_char(out, '\n');
	for (size_t i = 0; i < kafka->n_properties; i++) {
		property = &kafka->properties[i];
		buf_print(out, "%*s", depth * 2 + 2, "");
		types_print_text(out, property->name);
		buf_add_string(out, ": ");
		types_print_text(out, property->secret ? "***" : property->value);
		buf_add_char(out, '\n');
	}
}

static void print_sources(struct buf *out, const struct key *key, const struct config *config, int depth)
{
	size_t start;

	buf_add_char(out, '\n');
	for (size_t i = 0; i < config->n_sources; i++) {
		start = out->len;
		print_section(out, key->section, &config->sources[i], depth + 2, config);
		out->bytes[start + (size_t)depth * 2 + 2] = '-'; /* in the indentation of its first key */
	}
}

/* A source's own postgres and kafka stand there only where they differ from those at the top. */
static bool is_inherited(const struct key *key, const void *field, int depth, const struct config *config)
{
	const struct key *top = keys_find(&keys_top, key->name);
	struct buf own = {0}, inherited = {0};
	bool same;

	if (depth == 0 || top == NULL || top->section != key->section)
		return false;
	print_section(&own, key->section, field, 0, config);
	print_section(&inherited, key->section, (const char *)config + top->offset, 0, config);
	same = strcmp(buf_text(&own), buf_text(&inherited)) == 0;
	buf_free(&own);
	buf_free(&inherited);
	return same;
}

static void print_key(struct buf *out, const struct key *key, const void *field, int depth,
		      const struct config *config)
{
	if (key->type == KEY_SECTION && is_inherited(key, field, depth, config))
		return;
	print_name(out, depth, key->name);
	switch (key->type) {
	case KEY_SECTION:
		buf_add_char(out, '\n');
		print_section(out, key->section, field, depth + 1, config);
		return;
	case KEY_SOURCES:
		print_sources(out, key, config, depth);
		return;
	default:
		buf_add_char(out, ' ');
		types_print(out, key, field);
		buf_add_char(out, '\n');
	}
}

static void print_section(struct buf *out, const struct section *section, const void *base, int depth,
			  const struct config *config)
{
	const struct key *key;

	for (size_t i = 0; i < section->n_keys; i++) {
		key = &section->keys[i];
		if (key->type == KEY_HEADERS || key->type == KEY_PROPERTIES) {
			print_name(out, depth, key->name);
			if (key->type == KEY_HEADERS)
				print_headers(out, base, depth);
			else
				print_properties(out, base, depth);
		} else {
			print_key(out, key, (const char *)base + key->offset, depth, config);
		}
	}
}

void config_print(const struct config *config, FILE *out)
{
	struct buf text = {0};

	print_section(&text, &keys_top, config, 0, config);
	fputs(buf_text(&text), out);
	buf_free(&text);
}

static void print_reference_default(struct buf *out, const struct key *key)
{
	if (key->derived != NULL)
		buf_print(out, ", default %s", key->derived);
	else if (key->standard != NULL)
		buf_print(out, ", default %s", key->standard);
	else if (key->flags & KEY_NULLABLE)
		buf_add_string(out, ", default ~");
}

/* Folded at 100 columns. */
static void print_sentence(struct buf *out, const char *sentence)
{
	size_t column = SIZE_MAX / 2, word;

	for (; *sentence != '\0'; sentence += word + strspn(sentence + word, " ")) {
		word = strcspn(sentence, " ");
		if (column + 1 + word > 100) {
			buf_add_string(out, "\n   ");
			column = 3;
		}
		buf_add_char(out, ' ');
		buf_add(out, sentence, word);
		column += word + 1;
	}
	buf_add_char(out, '\n');
}

/* postgres and kafka stand in a source too: their keys are told once, at the top. */
static bool is_told_here(const struct section *section, const struct section *inner)
{
	return section == &keys_top || strncmp(inner->path, section->path, strlen(section->path)) == 0;
}

static void print_reference(struct buf *out, const struct section *section)
{
	const struct key *key;

	for (size_t i = 0; i < section->n_keys; i++) {
		key = &section->keys[i];
		buf_print(out, "%s%s%s\n    ", out->len > 0 ? "\n" : "", section->path, key->name);
		types_print_name(out, key);
		types_print_range(out, key);
		print_reference_default(out, key);
		buf_add_string(out, key->flags & KEY_RESTART ? ", needs a restart" : ", reloads");
		print_sentence(out, key->sentence);
		if (key->section != NULL && is_told_here(section, key->section))
			print_reference(out, key->section);
	}
}

void config_print_reference(FILE *out)
{
	struct buf text = {0};

	print_reference(&text, &keys_top);
	fputs(buf_text(&text), out);
	buf_free(&text);
}
