#include "config/load.h"

#include "config/preset.h"
#include "config/properties.h"
#include "config/rules.h"
#include "config/secret.h"
#include "config/template.h"
#include "config/types.h"
#include "config/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct load_place load_place(const struct yamltree_node *node)
{
	if (node == NULL)
		return (struct load_place){0};
	if (node->kind == YAMLTREE_NULL) /* an empty value is nowhere; its key is somewhere */
		return (struct load_place){node->key_line, node->key_column, node->refused};
	return (struct load_place){node->line, node->column, node->refused};
}

static bool is_later(struct load_place a, struct load_place b)
{
	return a.line > b.line || (a.line == b.line && a.column > b.column);
}

void load_conflict(struct load *load, struct load_place a, struct load_place b, struct load_place otherwise,
		   const char *format, ...)
{
	struct load_place place = is_later(a, b) ? a : b;
	char text[1024];
	va_list args;

	if (a.refused || b.refused)
		return;
	if (place.line == 0)
		place = otherwise;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	diag_add(load->diag, place.line, place.column, "%s", text);
}

/* path and name together are the setting's name. */
static void refuse(struct load *load, struct yamltree_node *node, const char *path, const char *name,
		   const char *message)
{
	struct load_place place = load_place(node);

	node->refused = true;
	diag_add(load->diag, place.line, place.column, "%s%s: %s", path, name, message);
}

static bool expect(struct load *load, struct yamltree_node *node, enum yamltree_kind kind, const char *path,
		   const char *name)
{
	char message[64];

	if (node->kind == kind)
		return true;
	snprintf(message, sizeof(message), "must be %s, not %s", yamltree_kind_name(kind),
		 yamltree_kind_name(node->kind));
	refuse(load, node, path, name, message);
	return false;
}

const char *load_text(struct load *load, struct yamltree_node *node, const char *path, const char *name)
{
	struct buf text = {0};
	const char *copy = NULL;
	struct err err;

	if (!expect(load, node, YAMLTREE_TEXT, path, name))
		return NULL;
	if (value_expand(node->text, &text, &err))
		copy = arena_copy_string(load->config->arena, buf_text(&text));
	else
		refuse(load, node, path, name, err.text);
	buf_free(&text);
	return copy;
}

void load_default(struct load *load, const struct key *key, const char *text, void *base)
{
	struct err err;

	if (!types_parse(load->config->arena, key, text, (char *)base + key->offset, &err))
		diag_add(load->diag, 1, 1, "%s: a default of outboxd itself: %s", key->name, err.text);
}

static void load_defaults(struct load *load, const struct section *section, void *base)
{
	const struct key *key;

	for (size_t i = 0; i < section->n_keys; i++) {
		key = &section->keys[i];
		if (key->type == KEY_SECTION)
			load_defaults(load, key->section, (char *)base + key->offset);
		else if (key->standard != NULL)
			load_default(load, key, key->standard, base);
	}
}

static void load_scalar(struct load *load, const struct section *section, const struct key *key,
			struct yamltree_node *node, void *base)
{
	const char *path = keys_short_path(section), *text;
	void *field = (char *)base + key->offset;
	struct err err;

	if (node->kind == YAMLTREE_NULL && (key->flags & KEY_NULLABLE)) {
		types_set_none(key, field);
		return;
	}
	text = load_text(load, node, path, key->name);
	if (text == NULL)
		return;
	if (!types_parse(load->config->arena, key, text, field, &err) ||
	    (key->type == KEY_DSN && load->judge->dsn != NULL && !load->judge->dsn(text, &err)))
		refuse(load, node, path, key->name, err.text);
}

static size_t count_children(const struct yamltree_node *node)
{
	size_t count = 0;

	for (node = node->children; node != NULL; node = node->next)
		count++;
	return count;
}

static void load_header(struct load *load, struct yamltree_node *node, struct config_header *header)
{
	struct template template;
	struct err err;

	header->name = arena_copy_string(load->config->arena, node->key);
	header->template_text = load_text(load, node, "headers.", node->key);
	if (header->template_text == NULL)
		header->template_text = "";
	else if (!template_parse(load->config->arena, header->template_text, &template, &err))
		refuse(load, node, "headers.", node->key, err.text);
}

static void load_headers(struct load *load, struct yamltree_node *map, struct config_source *source)
{
	if (map->kind == YAMLTREE_NULL || !expect(load, map, YAMLTREE_MAP, "", "headers"))
		return;
	source->headers = arena_take(load->config->arena, count_children(map), sizeof(*source->headers));
	source->n_headers = 0;
	for (struct yamltree_node *node = map->children; node != NULL; node = node->next)
		load_header(load, node, &source->headers[source->n_headers++]);
}

static void load_property(struct load *load, struct yamltree_node *map, struct yamltree_node *node,
			  struct config_kafka *kafka)
{
	const char *canonical = properties_canonical(node->key), *value;
	struct load_place place = load_place(node);
	struct err err;

	for (struct yamltree_node *other = map->children; other != node; other = other->next)
		if (strcmp(properties_canonical(other->key), canonical) == 0 && strcmp(other->key, node->key) != 0)
			diag_add(load->diag, node->key_line, node->key_column,
				 "kafka.properties: %s is another name of %s in line %d", node->key, other->key,
				 other->key_line);
	if (properties_instead(canonical) != NULL) {
		diag_add(load->diag, node->key_line, node->key_column, "kafka.properties: %s cannot be set: %s",
			 node->key, properties_instead(canonical));
		return;
	}
	value = load_text(load, node, "kafka.properties.", node->key);
	if (value == NULL)
		return;
	if (load->judge->property != NULL && !load->judge->property(node->key, value, &err)) {
		refuse(load, node, "kafka.properties.", node->key, err.text);
		return;
	}
	properties_set(load->config->arena, kafka,
		       &(struct config_property){.name = arena_copy_string(load->config->arena, node->key),
						 .value = value,
						 .secret = secret_is_property(node->key),
						 .line = place.line,
						 .column = place.column});
}

void load_properties(struct load *load, struct yamltree_node *map, struct config_kafka *kafka)
{
	if (map->kind == YAMLTREE_NULL || !expect(load, map, YAMLTREE_MAP, "kafka.", "properties"))
		return;
	for (struct yamltree_node *node = map->children; node != NULL; node = node->next)
		load_property(load, map, node, kafka);
}

static void report_unknown(struct load *load, const struct section *section, const struct yamltree_node *node)
{
	const struct section *elsewhere;
	const struct key *nearest = keys_nearest(section, node->key, &elsewhere);
	struct buf hint = {0};

	if (nearest != NULL && elsewhere != NULL) {
		buf_print(&hint, "it belongs elsewhere: %s%s", elsewhere->path, nearest->name);
	} else if (nearest != NULL) {
		buf_print(&hint, "did you mean %s?", nearest->name);
	} else {
		buf_add_string(&hint, "the keys here are");
		for (size_t i = 0; i < section->n_keys; i++)
			buf_print(&hint, "%s %s", i > 0 ? "," : "", section->keys[i].name);
	}
	diag_add(load->diag, node->key_line, node->key_column, "unknown key %s%s: %s", keys_short_path(section),
		 node->key, buf_text(&hint));
	buf_free(&hint);
}

static void load_section(struct load *load, const struct section *section, const char *name,
			 struct yamltree_node *map, void *base);

static void load_key(struct load *load, const struct section *section, const struct key *key,
		     struct yamltree_node *node, void *base)
{
	switch (key->type) {
	case KEY_SECTION:
		load_section(load, key->section, key->name, node, (char *)base + key->offset);
		return;
	case KEY_HEADERS:
		load_headers(load, node, base);
		return;
	case KEY_PROPERTIES:
		load_properties(load, node, base);
		return;
	case KEY_SOURCES: /* after everything that sources have from the top */
		return;
	default:
		load_scalar(load, section, key, node, base);
	}
}

static void load_section(struct load *load, const struct section *section, const char *name,
			 struct yamltree_node *map, void *base)
{
	const struct key *key;

	if (map->kind == YAMLTREE_NULL || !expect(load, map, YAMLTREE_MAP, "", name))
		return;
	for (struct yamltree_node *node = map->children; node != NULL; node = node->next) {
		key = keys_find(section, node->key);
		if (node->refused) /* the tree has told why */
			continue;
		if (key == NULL)
			report_unknown(load, section, node);
		else
			load_key(load, section, key, node, base);
	}
}

/* The preset is read before its turn, for everything else of the source stands on it. */
static void apply_preset(struct load *load, const struct yamltree_node *map, struct config_source *source)
{
	const struct yamltree_node *node = yamltree_member(map, "preset");
	struct buf text = {0};
	struct err err;

	if (node != NULL && node->kind == YAMLTREE_TEXT && value_expand(node->text, &text, &err) &&
	    types_parse(load->config->arena, keys_find(&keys_source, "preset"), buf_text(&text), &source->preset,
			&err))
		preset_apply(load, source->preset, source);
	buf_free(&text);
}

static void mark_required_columns(const struct yamltree_node *columns, struct config_source *source)
{
	static const enum config_column always[] = {COLUMN_ID, COLUMN_STATUS, COLUMN_PAYLOAD, COLUMN_ATTEMPTS,
						    COLUMN_AVAILABLE_AT};
	const struct yamltree_node *node;

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		source->column_required[always[i]] = true;
	for (int i = 0; i < CONFIG_COLUMNS; i++) {
		node = yamltree_member(columns, config_column_name((enum config_column)i));
		if (node != NULL && node->kind == YAMLTREE_TEXT)
			source->column_required[i] = true;
	}
}

static void load_source(struct load *load, struct yamltree_node *map, struct config_source *source)
{
	load_defaults(load, &keys_source, source);
	source->postgres = load->config->postgres;
	source->kafka = load->config->kafka;
	apply_preset(load, map, source);
	if (!expect(load, map, YAMLTREE_MAP, "", "sources[]"))
		return;
	load_section(load, &keys_source, "sources[]", map, source);
	mark_required_columns(yamltree_member(map, "columns"), source);
	rules_settle_kafka(load, yamltree_member(map, "kafka"), &source->kafka);
	preset_derive(load, map, source);
	rules_check_source(load, map, source);
	rules_check_kafka(load, map, source);
}

static void load_sources(struct load *load, struct yamltree_node *list)
{
	struct config *config = load->config;

	if (list->kind == YAMLTREE_NULL || !expect(load, list, YAMLTREE_LIST, "", "sources"))
		return;
	config->sources = arena_take(config->arena, count_children(list), sizeof(*config->sources));
	config->n_sources = 0;
	for (struct yamltree_node *node = list->children; node != NULL; node = node->next)
		load_source(load, node, &config->sources[config->n_sources++]);
}

void load_file(struct load *load)
{
	struct config *config = load->config;

	config->kafka = properties_standard(config->arena);
	load_defaults(load, &keys_top, config);
	load_section(load, &keys_top, "the file", load->root, config);
	rules_settle_kafka(load, yamltree_member(load->root, "kafka"), &config->kafka);
	for (struct yamltree_node *node = load->root->children; node != NULL; node = node->next)
		if (node->key != NULL && strcmp(node->key, "sources") == 0)
			load_sources(load, node);
	rules_check_required(load);
}
