/* The DDL of a source's table. It is printed, not sent: whoever owns the table runs it. */
#include "core/sqlschema.h"

#include "base/mem.h"
#include "config/template.h"

#include <string.h>

const struct sqlschema_column sqlschema_columns[SQLSCHEMA_COLUMNS] = {
	{COLUMN_EVENT_ID, false, "uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE",
	 "Names the event for consumers, who drop repeats by it. Time-ordered values (UUIDv7) keep its index small."},
	{COLUMN_KEY, false, "text", "Kafka key; rows of one key are delivered in order."},
	{COLUMN_TYPE, false, "text NOT NULL", NULL},
	{COLUMN_PAYLOAD, false, "jsonb", "Kafka value; NULL is a tombstone."},
	{COLUMN_HEADERS, false, "jsonb", "More Kafka headers, as a JSON object."},
	{COLUMN_TOPIC, false, "text", "Kafka topic; NULL: the configuration's template."},
	{COLUMN_PARTITION, false, "integer", "Kafka partition; NULL: by the key."},
	{COLUMN_TIMESTAMP, false, "timestamptz", "Timestamp of the Kafka record; NULL: when it is published."},
	{COLUMN_STATUS, true, NULL, "Written by outboxd: see outboxd states."},
	{COLUMN_ATTEMPTS, true, "integer NOT NULL DEFAULT 0", "Claims so far, the present one included."},
	{COLUMN_MAX_ATTEMPTS, false, "integer", "Attempts before the row fails; NULL: the configuration's number."},
	{COLUMN_AVAILABLE_AT, true, "timestamptz NOT NULL DEFAULT now()",
	 "Not sent before; infinity holds the row; 9999-12-31 is written by outboxd."},
	{COLUMN_LEASE_UNTIL, true, "timestamptz",
	 "While in flight: until when the row belongs to the instance that claimed it."},
	{COLUMN_LEASE_OWNER, true, "text", "While in flight: the instance that claimed it."},
	{COLUMN_LAST_ERROR, true, "text", "Why the row was not delivered the last time."},
	{COLUMN_CREATED_AT, false, "timestamptz NOT NULL DEFAULT now()", NULL},
	{COLUMN_UPDATED_AT, true, "timestamptz NOT NULL DEFAULT now()", NULL},
	{COLUMN_SETTLED_AT, true, "timestamptz", "When the row was finished, sent or skipped; NULL: unfinished."},
	{COLUMN_TXID, false, "xid8 DEFAULT pg_current_xact_id()",
	 "The transaction that wrote the row; not to be set."},
};

bool sqlschema_has(const struct sqlschema *schema, enum config_column column)
{
	return (schema->text.has & SQLTEXT_HAS(column)) != 0;
}

void sqlschema_print(const struct sqlschema *schema, const char *text)
{
	struct buf buf = {0};

	sqltext_expand(&schema->text, text, &buf);
	fputs(buf_text(&buf), schema->out);
	buf_free(&buf);
}

void sqlschema_add_name(const struct sqlschema *schema, const char *suffix, struct buf *out)
{
	const char *name = schema->name.name;
	size_t room = TABLENAME_MAX_BYTES - strlen(suffix), len = strlen(name);

	if (len > room)
		len = room;
	while (name[len] != '\0' && len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80)
		len--; /* not inside a character */
	buf_add(out, name, len);
	buf_add_string(out, suffix);
}

void sqlschema_print_name(const struct sqlschema *schema, const char *suffix, bool qualified)
{
	struct buf name = {0}, sql = {0};

	if (qualified && schema->name.schema[0] != '\0') {
		sqltext_identifier(&sql, schema->name.schema);
		buf_add_char(&sql, '.');
	}
	sqlschema_add_name(schema, suffix, &name);
	sqltext_identifier(&sql, buf_text(&name));
	fputs(buf_text(&sql), schema->out);
	buf_free(&name);
	buf_free(&sql);
}

void sqlschema_print_literal(const struct sqlschema *schema, const char *text)
{
	struct buf sql = {0};

	sqltext_literal(&sql, text);
	fputs(buf_text(&sql), schema->out);
	buf_free(&sql);
}

/* Has an earlier role the same column? Then its DDL is there already. */
static bool is_repeated(const struct sqlschema *schema, enum config_column role)
{
	const char *const *columns = schema->text.columns;
	size_t i;

	if (strcmp(columns[role], columns[COLUMN_ID]) == 0 || strcmp(columns[role], columns[COLUMN_ORDER]) == 0)
		return true;
	for (i = 0; sqlschema_columns[i].role != role; i++) {
		if (sqlschema_has(schema, sqlschema_columns[i].role) &&
		    strcmp(columns[sqlschema_columns[i].role], columns[role]) == 0)
			return true;
	}
	return false;
}

bool sqlschema_is_column(const struct sqlschema *schema, const struct sqlschema_column *column)
{
	return sqlschema_has(schema, column->role) && !is_repeated(schema, column->role);
}

static bool is_mapped(const struct config_source *source, const char *column)
{
	int role;

	for (role = 0; role < CONFIG_COLUMNS; role++) {
		if (source->columns[role] != NULL && strcmp(source->columns[role], column) == 0)
			return true;
	}
	return false;
}

/* Columns that only a template names. */
static void print_template_columns(const struct sqlschema *schema, const char *text, struct buf *seen)
{
	struct arena *arena = arena_new();
	struct template template = {0};
	struct buf quoted = {0};
	size_t i;

	if (!template_parse(arena, text, &template, NULL))
		template.n_pieces = 0; /* the configuration has been checked */
	for (i = 0; i < template.n_pieces; i++) {
		if (template.pieces[i].column == NULL || is_mapped(schema->source, template.pieces[i].column))
			continue;
		buf_clear(&quoted);
		sqltext_identifier(&quoted, template.pieces[i].column);
		buf_add_string(&quoted, " text");
		if (strstr(buf_text(seen), buf_text(&quoted)) != NULL)
			continue;
		buf_add_string(seen, buf_text(&quoted));
		fprintf(schema->out, ",\n  %s", buf_text(&quoted));
	}
	buf_free(&quoted);
	arena_free(arena);
}

void sqlschema_print_indexes(const struct sqlschema *schema, const char *create)
{
	fprintf(schema->out, "\n-- What is due, and nothing else: each claim begins here.\n%s ", create);
	sqlschema_print_name(schema, "_due", false);
	sqlschema_print(schema, "\n  ON {table} ({due}, {order}) WHERE {unfinished};\n");
	if ((schema->text.has & SQLTEXT_AWAIT) != 0) {
		fprintf(schema->out, "-- What is in flight: each claim counts it.\n%s ", create);
		sqlschema_print_name(schema, "_in_flight", false);
		sqlschema_print(schema, "\n  ON {table} ({due}, {order}) WHERE {status} = {in_flight};\n");
	}
	if ((schema->text.has & SQLTEXT_KEYED) == 0)
		return;
	fprintf(schema->out, "-- The unfinished rows of a key, in order.\n%s ", create);
	sqlschema_print_name(schema, "_key", false);
	sqlschema_print(schema, "\n  ON {table} ({key}, {order}) WHERE {key_range};\n");
}

void sqlschema_print_function(const struct sqlschema *schema)
{
	fputs("\n-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it\n"
	      "-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.\n"
	      "CREATE OR REPLACE FUNCTION ",
	      schema->out);
	sqlschema_print_name(schema, "_notify", true);
	fputs("() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS\n"
	      "'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';\n",
	      schema->out);
}

void sqlschema_print_trigger(const struct sqlschema *schema, const char *indent)
{
	fprintf(schema->out, "%sCREATE TRIGGER ", indent);
	sqlschema_print_name(schema, "_notify", false);
	sqlschema_print(schema, " AFTER INSERT ON {table}\n");
	fprintf(schema->out, "%s  FOR EACH STATEMENT EXECUTE FUNCTION ", indent);
	sqlschema_print_name(schema, "_notify", true);
	fputs("(", schema->out);
	sqlschema_print_literal(schema, schema->source->notify);
	fputs(");\n", schema->out);
}

void sqlschema_print_grants(const struct sqlschema *schema)
{
	const char *comma = "";
	struct buf schema_name = {0};
	size_t i;

	fputs("\n-- A role that can relay and nothing else:\n-- CREATE ROLE outboxd LOGIN;\n", schema->out);
	if (schema->name.schema[0] != '\0') {
		sqltext_identifier(&schema_name, schema->name.schema);
		fprintf(schema->out, "-- GRANT USAGE ON SCHEMA %s TO outboxd;\n", buf_text(&schema_name));
		buf_free(&schema_name);
	}
	fprintf(schema->out, "-- GRANT SELECT%s ON ",
		schema->source->on_delivered == ON_DELIVERED_DELETE ? ", DELETE" : "");
	sqlschema_print(schema, "{table} TO outboxd;\n-- GRANT UPDATE (");
	for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {
		if (!sqlschema_columns[i].control || !sqlschema_is_column(schema, &sqlschema_columns[i]))
			continue;
		fprintf(schema->out, "%s%s", comma, schema->text.columns[sqlschema_columns[i].role]);
		comma = ", ";
	}
	sqlschema_print(schema, ") ON {table} TO outboxd;\n");
}

/* ---- a new table ---- */

static void print_ids(const struct sqlschema *schema)
{
	if (!sqlschema_has(schema, COLUMN_ORDER)) {
		sqlschema_print(schema, "  {id} bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY");
		return;
	}
	sqlschema_print(schema, "  {id} uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,\n"
				"  {order} bigint GENERATED ALWAYS AS IDENTITY UNIQUE");
}

static void print_columns(const struct sqlschema *schema)
{
	struct buf seen = {0};
	size_t i;

	print_ids(schema);
	print_template_columns(schema, schema->source->topic, &seen);
	for (i = 0; i < schema->source->n_headers; i++)
		print_template_columns(schema, schema->source->headers[i].template_text, &seen);
	for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {
		if (!sqlschema_is_column(schema, &sqlschema_columns[i]))
			continue;
		fprintf(schema->out, ",\n  %s ", schema->text.columns[sqlschema_columns[i].role]);
		if (sqlschema_columns[i].role == COLUMN_STATUS)
			sqlschema_print(schema,
					"text NOT NULL DEFAULT {pending}\n"
					"    CHECK ({status} IN ({pending}, {in_flight}, {sent}, {failed}))");
		else
			fputs(sqlschema_columns[i].type, schema->out);
	}
	buf_free(&seen);
}

static void print_comments(const struct sqlschema *schema)
{
	size_t i;

	sqlschema_print(
		schema,
		"\nCOMMENT ON TABLE {table} IS 'Outbox: rows written here in a transaction are published to Kafka by outboxd.';\n");
	for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {
		if (!sqlschema_is_column(schema, &sqlschema_columns[i]) || sqlschema_columns[i].comment == NULL)
			continue;
		sqlschema_print(schema, "COMMENT ON COLUMN {table}.");
		fprintf(schema->out, "%s IS ", schema->text.columns[sqlschema_columns[i].role]);
		sqlschema_print_literal(schema, sqlschema_columns[i].comment);
		fputs(";\n", schema->out);
	}
}

static void print_new(const struct sqlschema *schema)
{
	fprintf(schema->out,
		"-- The table of source %s. Run this as the role that owns the application's tables.\nBEGIN;\n\n",
		schema->source->name);
	sqlschema_print(schema, "CREATE TABLE {table} (\n");
	print_columns(schema);
	if (sqlschema_has(schema, COLUMN_SETTLED_AT)) {
		fputs(",\n  -- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.\n",
		      schema->out);
		sqlschema_print(
			schema,
			"  CONSTRAINT \"outboxd_settled\" CHECK ({settled_at} IS NULL OR {status} NOT IN ({pending}, {in_flight}))");
	}
	/* More than half of each page stays free for the rows' next versions, longer by lease and owner, so that claims are HOT;
	 * rows are updated twice or thrice soon after they were written, so vacuum comes early and is not slowed down. */
	fputs("\n) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);\n",
	      schema->out);
	print_comments(schema);
	sqlschema_print_indexes(schema, "CREATE INDEX");
	if (schema->source->notify != NULL) {
		sqlschema_print_function(schema);
		sqlschema_print_trigger(schema, "");
	}
	sqlschema_print_grants(schema);
	fputs("\nCOMMIT;\n", schema->out);
}

/* ---- ---- */

/* Whether available_at may be NULL decides on the index's expression. In a table of ours it may not; in the foreign one that
 * a preset stands for it is for new rows. */
static bool is_nullable(const struct config_source *source, bool adopt)
{
	return adopt && strcmp(source->preset, "message") == 0;
}

/* The table of these presets has whatever a relay needs; Debezium's has nothing of it. */
static bool is_complete(const struct config_source *source)
{
	return strcmp(source->preset, "outboxd") != 0 && strcmp(source->preset, "debezium") != 0;
}

/* A foreign table that can be relayed keeps its columns: what only the defaults map and it does not have is not added to it. Nor
 * is a column for the order of rows where none is asked for: that would write the table anew. */
static struct config_source own_columns(const struct config_source *source, bool adopt)
{
	static const enum config_column extras[] = {COLUMN_EVENT_ID, COLUMN_HEADERS, COLUMN_LEASE_OWNER,
						    COLUMN_SETTLED_AT};
	struct config_source copy = *source;
	size_t i;

	for (i = 0; is_complete(source) && i < sizeof(extras) / sizeof(extras[0]); i++) {
		if (!source->column_required[extras[i]])
			copy.columns[extras[i]] = NULL;
	}
	if (adopt && source->ordering != ORDERING_KEY && !source->column_required[COLUMN_ORDER])
		copy.columns[COLUMN_ORDER] = copy.columns[COLUMN_ID];
	return copy;
}

static bool fit(struct sqlschema *schema, bool adopt, struct arena *arena)
{
	if (!tablename_parse(schema->source->table, &schema->name, NULL) ||
	    !sqltext_fit(&schema->text, schema->source, NULL, NULL, arena, NULL))
		return false;
	if (!is_nullable(schema->source, adopt))
		schema->text.has &= ~SQLTEXT_NULLABLE;
	return true;
}

void sql_print_schema(const struct config_source *source, bool adopt, FILE *out)
{
	struct config_source own = own_columns(source, adopt);
	struct sqlschema schema = {.source = &own, .out = out};
	struct arena *arena = arena_new();

	if (!fit(&schema, adopt, arena))
		fprintf(out, "-- source %s has no usable mapping\n", source->name);
	else if (adopt)
		sqladopt_print(&schema);
	else
		print_new(&schema);
	arena_free(arena);
}

void sql_print_drop_trigger(const struct config_source *source, FILE *out)
{
	struct sqlschema schema = {.source = source, .out = out};
	struct arena *arena = arena_new();

	if (fit(&schema, false, arena)) {
		fputs("DROP TRIGGER IF EXISTS ", out);
		sqlschema_print_name(&schema, "_notify", false);
		sqlschema_print(&schema, " ON {table};\nDROP FUNCTION IF EXISTS ");
		sqlschema_print_name(&schema, "_notify", true);
		fputs("();\n", out);
	}
	arena_free(arena);
}
