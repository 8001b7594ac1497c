#include "config/preset.h"

#include "config/types.h"

#include <stdio.h>
#include <string.h>

struct preset_value {
	const char *section, *name, *text; /* section NULL: the source itself; text NULL: none */
};

struct preset_header {
	const char *name;
	enum config_column column;
};

struct preset {
	const char *name;
	const struct preset_value
		*values; /* where they differ from the key table's; a NULL section and name end it */
	const struct preset_header *headers;
};

/* The key table's own defaults are those of this preset. */
static const struct preset_value outboxd_values[] = {{NULL, NULL, NULL}};
static const struct preset_header outboxd_headers[] = {{"event_id", COLUMN_EVENT_ID},
						       {"event_type", COLUMN_TYPE},
						       {"created_at", COLUMN_CREATED_AT},
						       {NULL, COLUMN_ID}};

static const struct preset_value message_values[] = {{NULL, "table", "agent_message"},
						     {"columns", "key", "task_id"},
						     {"columns", "type", "message_type"},
						     {"columns", "payload", "message_content"},
						     {"columns", "attempts", "retry_count"},
						     {"columns", "max_attempts", "max_retry"},
						     {"columns", "available_at", "next_retry_time"},
						     {"columns", "lease_until", "next_retry_time"},
						     {"columns", "last_error", "error_message"},
						     {"columns", "created_at", "create_time"},
						     {"states", "in_flight", "PROCESSING"},
						     {"states", "sent", "SUCCESS"},
						     {"states", "failed", "FAILED_PERMANENTLY"},
						     {"retry", "initial", "10s"},
						     {"retry", "multiplier", "2"},
						     {"retry", "max", "5m"},
						     {NULL, NULL, NULL}};
static const struct preset_header message_headers[] = {{"event_id", COLUMN_ID}, {NULL, COLUMN_ID}};

/* A row is its own key: tasks have no order, and all of a task's records go to one partition. */
static const struct preset_value task_values[] = {{NULL, "table", "task_execution"},
						  {"columns", "key", "id"},
						  {"columns", "type", "task_type"},
						  {"columns", "status", "state"},
						  {"columns", "available_at", "next_run_at"},
						  {"columns", "lease_until", "next_run_at"},
						  {"columns", "updated_at", "updated_at"},
						  {"states", "pending", "RUNABLE"},
						  {"states", "in_flight", "RUNNING"},
						  {"states", "sent", "SUCCESS"},
						  {NULL, "ordering", "none"},
						  {NULL, "on_delivered", "await"},
						  {NULL, NULL, NULL}};
static const struct preset_header task_headers[] = {
	{"event_id", COLUMN_ID}, {"attempt", COLUMN_ATTEMPTS}, {NULL, COLUMN_ID}};

/* What Debezium's outbox event router makes of the table, with its defaults. A uuid has no order: another column gives it. */
static const struct preset_value debezium_values[] = {
	{NULL, "table", "outbox"},	     {NULL, "topic", "outbox.event.{aggregatetype}"},
	{"columns", "order", "outboxd_seq"}, {"columns", "event_id", NULL},
	{"columns", "key", "aggregateid"},   {"columns", "type", "type"},
	{"columns", "headers", NULL},	     {NULL, NULL, NULL}};
static const struct preset_header debezium_headers[] = {{"id", COLUMN_ID}, {NULL, COLUMN_ID}};

static const struct preset presets[] = {
	{"outboxd", outboxd_values, outboxd_headers},
	{"message", message_values, message_headers},
	{"task", task_values, task_headers},
	{"debezium", debezium_values, debezium_headers},
};

static const struct preset *find(const char *name)
{
	size_t i = 0;

	while (strcmp(presets[i].name, name) != 0)
		i++;
	return &presets[i];
}

void preset_apply(struct load *load, const char *name, struct config_source *source)
{
	const struct preset_value *value;
	const struct section *section;
	const struct key *key;
	char *base;

	for (value = find(name)->values; value->name != NULL; value++) {
		section = &keys_source;
		base = (char *)source;
		if (value->section != NULL) {
			key = keys_find(section, value->section);
			section = key->section;
			base += key->offset;
		}
		key = keys_find(section, value->name);
		if (value->text == NULL)
			types_set_none(key, base + key->offset);
		else
			load_default(load, key, value->text, base);
	}
}

/* The template that is one column's value; a brace in the column's name cannot be written in one. */
static const char *column_template(struct load *load, const char *column)
{
	char text[128];

	if (column == NULL || strpbrk(column, "{}") != NULL)
		return NULL;
	snprintf(text, sizeof(text), "{%s}", column);
	return arena_copy_string(load->config->arena, text);
}

static void derive_topic(struct load *load, const struct yamltree_node *node, struct config_source *source)
{
	struct load_place type = load_place(yamltree_member(yamltree_member(node, "columns"), "type"));

	source->topic = column_template(load, source->columns[COLUMN_TYPE]);
	if (source->topic == NULL)
		load_conflict(load, type, (struct load_place){0}, load_place(node),
			      "topic is missing, and columns.type gives no default for it");
}

static void derive_headers(struct load *load, struct config_source *source)
{
	const struct preset_header *header = find(source->preset)->headers;
	const char *template_text;
	size_t count = 0;

	while (header[count].name != NULL)
		count++;
	source->headers = arena_take(load->config->arena, count, sizeof(*source->headers));
	for (; header->name != NULL; header++) {
		template_text = column_template(load, source->columns[header->column]);
		if (template_text != NULL)
			source->headers[source->n_headers++] = (struct config_header){
				.name = header->name, .template_text = template_text, .optional = true};
	}
}

static void derive_channel(struct load *load, const struct yamltree_node *node, struct config_source *source)
{
	struct load_place name = load_place(yamltree_member(node, "name"));
	const struct key *key = keys_find(&keys_source, "notify");
	char text[128];

	if (source->name == NULL)
		return;
	snprintf(text, sizeof(text), "outboxd_%s", source->name);
	if (strlen(text) > 63)
		load_conflict(
			load, name, (struct load_place){0}, name,
			"name is so long that %s, the default of notify, has %zu bytes: a channel has at most 63",
			text, strlen(text));
	else
		load_default(load, key, text, source);
}

static void derive_event_source(struct load *load, struct config_source *source)
{
	char text[128];

	if (source->name == NULL || strlen(source->name) > sizeof(text) - sizeof("//outboxd/"))
		return;
	snprintf(text, sizeof(text), "//outboxd/%s", source->name);
	load_default(load, keys_find(&keys_source, "cloudevents_source"), text, source);
}

void preset_derive(struct load *load, const struct yamltree_node *node, struct config_source *source)
{
	if (source->columns[COLUMN_ORDER] == NULL)
		source->columns[COLUMN_ORDER] = source->columns[COLUMN_ID];
	if (source->topic == NULL && yamltree_member(node, "topic") == NULL)
		derive_topic(load, node, source);
	if (yamltree_member(node, "headers") == NULL)
		derive_headers(load, source);
	if (yamltree_member(node, "cloudevents_source") == NULL)
		derive_event_source(load, source);
	if (yamltree_member(node, "notify") == NULL)
		derive_channel(load, node, source);
}
