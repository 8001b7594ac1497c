/* The DDL of a source's table. It is printed, not sent: whoever owns the table runs it. */
#include "core/sqltext.h"

#include "base/mem.h"
#include "config/tablename.h"
#include "config/template.h"

#include <string.h>

static const struct column_ddl {
	enum config_column role;
	bool control; /* written by the relay: --adopt adds it, and the role may update it */
	const char *type, *comment;
} column_ddls[] = {
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
};

#define COLUMN_DDLS (sizeof(column_ddls) / sizeof(column_ddls[0]))

struct schema {
	const struct config_source *source;
	struct sqltext text;
	struct tablename name;
	FILE *out;
};

static bool has(const struct schema *schema, enum config_column column)
{
	return (schema->text.has & SQLTEXT_HAS(column)) != 0;
}

/* Prints SQL with the names filled in. */
static void print(const struct schema *schema, const char *text)
{
	struct buf buf = {0};

	sqltext_expand(&schema->text, text, &buf);
	fputs(buf_text(&buf), schema->out);
	buf_free(&buf);
}

/* The name of an index, trigger or function of the table: cut so that with the suffix it stays a legal name. */
static void add_name(const struct schema *schema, const char *suffix, struct buf *out)
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

static void print_name(const struct schema *schema, const char *suffix, bool qualified)
{
	struct buf name = {0}, sql = {0};

	if (qualified && schema->name.schema[0] != '\0') {
		sqltext_identifier(&sql, schema->name.schema);
		buf_add_char(&sql, '.');
	}
	add_name(schema, suffix, &name);
	sqltext_identifier(&sql, buf_text(&name));
	fputs(buf_text(&sql), schema->out);
	buf_free(&name);
	buf_free(&sql);
}

static void print_literal(const struct schema *schema, const char *text)
{
	struct buf sql = {0};

	sqltext_literal(&sql, text);
	fputs(buf_text(&sql), schema->out);
	buf_free(&sql);
}

/* Has an earlier role the same column? Then its DDL is there already. */
static bool is_repeated(const struct schema *schema, enum config_column role)
{
	const char *const *columns = schema->text.columns;
	size_t i;

	if (strcmp(columns[role], columns[COLUMN_ID]) == 0 || strcmp(columns[role], columns[COLUMN_ORDER]) == 0)
		return true;
	for (i = 0; column_ddls[i].role != role; i++) {
		if (has(schema, column_ddls[i].role) && strcmp(columns[column_ddls[i].role], columns[role]) == 0)
			return true;
	}
	return false;
}

/* The DDL of the role's column is to be printed. */
static bool is_column(const struct schema *schema, const struct column_ddl *ddl)
{
	return has(schema, ddl->role) && !is_repeated(schema, ddl->role);
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
static void print_template_columns(const struct schema *schema, const char *text, struct buf *seen)
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

/* ---- pieces that a new table and an existing one share ---- */

static void print_indexes(const struct schema *schema, const char *create)
{
	fprintf(schema->out, "\n-- What is due, and nothing else: each claim begins here.\n%s ", create);
	print_name(schema, "_due", false);
	print(schema, "\n  ON {table} ({due}, {order}) WHERE {unfinished};\n");
	if ((schema->text.has & SQLTEXT_KEYED) == 0)
		return;
	fprintf(schema->out, "-- The unfinished rows of a key, in order.\n%s ", create);
	print_name(schema, "_key", false);
	print(schema, "\n  ON {table} ({key}, {order}) WHERE {key_range};\n");
}

static void print_function(const struct schema *schema)
{
	fputs("\n-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it\n"
	      "-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.\n"
	      "CREATE OR REPLACE FUNCTION ",
	      schema->out);
	print_name(schema, "_notify", true);
	fputs("() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS\n"
	      "'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';\n",
	      schema->out);
}

static void print_trigger(const struct schema *schema, const char *indent)
{
	fprintf(schema->out, "%sCREATE TRIGGER ", indent);
	print_name(schema, "_notify", false);
	print(schema, " AFTER INSERT ON {table}\n");
	fprintf(schema->out, "%s  FOR EACH STATEMENT EXECUTE FUNCTION ", indent);
	print_name(schema, "_notify", true);
	fputs("(", schema->out);
	print_literal(schema, schema->source->notify);
	fputs(");\n", schema->out);
}

static void print_grants(const struct schema *schema)
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
	print(schema, "{table} TO outboxd;\n-- GRANT UPDATE (");
	for (i = 0; i < COLUMN_DDLS; i++) {
		if (!column_ddls[i].control || !is_column(schema, &column_ddls[i]))
			continue;
		fprintf(schema->out, "%s%s", comma, schema->text.columns[column_ddls[i].role]);
		comma = ", ";
	}
	print(schema, ") ON {table} TO outboxd;\n");
}

/* ---- a new table ---- */

static void print_ids(const struct schema *schema)
{
	if (!has(schema, COLUMN_ORDER)) {
		print(schema, "  {id} bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY");
		return;
	}
	print(schema, "  {id} uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,\n"
		      "  {order} bigint GENERATED ALWAYS AS IDENTITY UNIQUE");
}

static void print_columns(const struct schema *schema)
{
	struct buf seen = {0};
	size_t i;

	print_ids(schema);
	print_template_columns(schema, schema->source->topic, &seen);
	for (i = 0; i < schema->source->n_headers; i++)
		print_template_columns(schema, schema->source->headers[i].template_text, &seen);
	for (i = 0; i < COLUMN_DDLS; i++) {
		if (!is_column(schema, &column_ddls[i]))
			continue;
		fprintf(schema->out, ",\n  %s ", schema->text.columns[column_ddls[i].role]);
		if (column_ddls[i].role == COLUMN_STATUS)
			print(schema, "text NOT NULL DEFAULT {pending}\n"
				      "    CHECK ({status} IN ({pending}, {in_flight}, {sent}, {failed}))");
		else
			fputs(column_ddls[i].type, schema->out);
	}
	buf_free(&seen);
}

static void print_comments(const struct schema *schema)
{
	size_t i;

	print(schema,
	      "\nCOMMENT ON TABLE {table} IS 'Outbox: rows written here in a transaction are published to Kafka by outboxd.';\n");
	for (i = 0; i < COLUMN_DDLS; i++) {
		if (!is_column(schema, &column_ddls[i]) || column_ddls[i].comment == NULL)
			continue;
		print(schema, "COMMENT ON COLUMN {table}.");
		fprintf(schema->out, "%s IS ", schema->text.columns[column_ddls[i].role]);
		print_literal(schema, column_ddls[i].comment);
		fputs(";\n", schema->out);
	}
}

static void print_new(const struct schema *schema)
{
	fprintf(schema->out,
		"-- The table of source %s. Run this as the role that owns the application's tables.\nBEGIN;\n\n",
		schema->source->name);
	print(schema, "CREATE TABLE {table} (\n");
	print_columns(schema);
	if (has(schema, COLUMN_SETTLED_AT)) {
		fputs(",\n  -- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.\n",
		      schema->out);
		print(schema,
		      "  CONSTRAINT \"outboxd_settled\" CHECK ({settled_at} IS NULL OR {status} NOT IN ({pending}, {in_flight}))");
	}
	/* More than half of each page stays free for the rows' next versions, longer by lease and owner, so that claims are HOT;
	 * rows are updated twice or thrice soon after they were written, so vacuum comes early and is not slowed down. */
	fputs("\n) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);\n",
	      schema->out);
	print_comments(schema);
	print_indexes(schema, "CREATE INDEX");
	if (schema->source->notify != NULL) {
		print_function(schema);
		print_trigger(schema, "");
	}
	print_grants(schema);
	fputs("\nCOMMIT;\n", schema->out);
}

/* ---- an existing table ---- */

static void print_regclass(const struct schema *schema)
{
	print_literal(schema, schema->text.table);
	fputs("::regclass", schema->out);
}

/* "IF NOT EXISTS (SELECT FROM catalog WHERE <relation column> = table AND <condition> literal) THEN". */
static void print_guard(const struct schema *schema, const char *select, const char *condition, const char *literal)
{
	fprintf(schema->out, "DO $outboxd$ BEGIN\n  IF NOT EXISTS (SELECT FROM %s = ", select);
	print_regclass(schema);
	fputs(condition, schema->out);
	print_literal(schema, literal);
	fputs(") THEN\n", schema->out);
}

static void print_guard_end(const struct schema *schema)
{
	fputs("  END IF;\nEND $outboxd$;\n", schema->out);
}

/* History must never be sent again: whatever is in the table before it has a state counts as sent. */
static void print_adopt_status(const struct schema *schema)
{
	fputs("-- Rows that are there before the column count as sent; those that come after are pending.\n",
	      schema->out);
	print_guard(schema, "pg_attribute WHERE attrelid",
		    " AND NOT attisdropped AND attname = ", schema->source->columns[COLUMN_STATUS]);
	print(schema, "    ALTER TABLE {table} ADD COLUMN {status} text NOT NULL DEFAULT {sent};\n"
		      "    ALTER TABLE {table} ALTER COLUMN {status} SET DEFAULT {pending};\n");
	print_guard_end(schema);
}

static void print_adopt_columns(const struct schema *schema)
{
	size_t i;

	fputs("\n-- Columns the relay writes. None of these rewrites the table; each takes ACCESS EXCLUSIVE for a moment.\n",
	      schema->out);
	print_adopt_status(schema);
	for (i = 0; i < COLUMN_DDLS; i++) {
		if (!column_ddls[i].control || column_ddls[i].role == COLUMN_STATUS ||
		    !is_column(schema, &column_ddls[i]))
			continue;
		print(schema, "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS ");
		fprintf(schema->out, "%s %s;\n", schema->text.columns[column_ddls[i].role], column_ddls[i].type);
	}
	if (!has(schema, COLUMN_ORDER))
		return;
	print(schema,
	      "\n-- The order of rows, for their id has none. STRONG: adding it writes the whole table anew, and nobody reads or\n-- writes it meanwhile. With much history, delete what is finished first.\n"
	      "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {order} bigint GENERATED ALWAYS AS IDENTITY;\n"
	      "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ");
	print_name(schema, "_order", false);
	print(schema, " ON {table} ({order});\n");
}

/* Finished rows get a settled_at before its indexes are built, in pieces of the primary key, each a transaction of its own:
 * one UPDATE of a long history would hold its locks and keep its dead rows for hours. */
static void print_adopt_settled(const struct schema *schema)
{
	if (!has(schema, COLUMN_SETTLED_AT))
		return;
	print(schema,
	      "\n-- History is finished: 10000 rows a transaction. It may be stopped and run again. Failed rows are left alone: with\n"
	      "-- ordering by key they hold back the later rows of their keys until they are retried or skipped.\n"
	      "DO $outboxd$ DECLARE\n"
	      "  outboxd_from {table}.{id}%TYPE;\n"
	      "  outboxd_to {table}.{id}%TYPE;\n"
	      "BEGIN\n"
	      "  SELECT {id} INTO outboxd_from FROM {table} ORDER BY {id} LIMIT 1;\n"
	      "  WHILE outboxd_from IS DISTINCT FROM outboxd_to LOOP\n"
	      "    outboxd_from := coalesce(outboxd_to, outboxd_from);\n"
	      "    SELECT c.{id} INTO outboxd_to FROM (SELECT {id} FROM {table} WHERE {id} >= outboxd_from ORDER BY {id} LIMIT 10000) c\n"
	      "     ORDER BY c.{id} DESC LIMIT 1;\n"
	      "    UPDATE {table} SET {settled_at} = now()\n"
	      "     WHERE {id} BETWEEN outboxd_from AND outboxd_to AND {settled_at} IS NULL AND {status} = {sent};\n"
	      "    COMMIT;\n"
	      "  END LOOP;\n"
	      "END $outboxd$;\n");
}

static void print_adopt_check(const struct schema *schema)
{
	if (!has(schema, COLUMN_SETTLED_AT))
		return;
	fputs("\n-- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.\n",
	      schema->out);
	print_guard(schema, "pg_constraint WHERE conrelid", " AND conname = ", "outboxd_settled");
	print(schema,
	      "    ALTER TABLE {table} ADD CONSTRAINT \"outboxd_settled\"\n"
	      "      CHECK ({settled_at} IS NULL OR {status} NOT IN ({pending}, {in_flight})) NOT VALID;\n");
	print_guard_end(schema);
	print(schema, "ALTER TABLE {table} VALIDATE CONSTRAINT \"outboxd_settled\";\n");
}

static void print_adopt_trigger(const struct schema *schema)
{
	struct buf name = {0};

	if (schema->source->notify == NULL)
		return;
	print_function(schema);
	fputs("-- SHARE ROW EXCLUSIVE for a moment: it waits for the transactions that are writing, and writers wait for it.\n",
	      schema->out);
	add_name(schema, "_notify", &name);
	print_guard(schema, "pg_trigger WHERE tgrelid", " AND tgname = ", buf_text(&name));
	print_trigger(schema, "    ");
	print_guard_end(schema);
	buf_free(&name);
}

static void print_adopt(const struct schema *schema)
{
	fprintf(schema->out,
		"-- What an existing table may lack for source %s. Run it with psql as the table's owner, outside of a transaction;\n"
		"-- what is there already is left as it is. When a statement fails on the lock timeout, run all of it again. An index\n"
		"-- that was interrupted stays behind INVALID: drop it first. On a partitioned table leave out CONCURRENTLY.\n"
		"SET lock_timeout = '2s';\n",
		schema->source->name);
	print_adopt_columns(schema);
	print_adopt_settled(schema);
	if ((schema->text.has & SQLTEXT_NULLABLE) != 0)
		print(schema,
		      "\n-- The first index is for {available_at} that may be NULL. If it is NOT NULL, index the plain column instead.\n");
	else
		print(schema, "\n-- The first index is for {available_at} NOT NULL. If it may be NULL, index\n"
			      "-- coalesce({available_at}, '-infinity') instead.\n");
	print_indexes(schema, "CREATE INDEX CONCURRENTLY IF NOT EXISTS");
	print_adopt_check(schema);
	print(schema,
	      "\n-- Room for HOT updates in pages written from now on, and an early vacuum (a partitioned table takes these\n"
	      "-- on its partitions only).\n"
	      "ALTER TABLE {table} SET (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01,\n"
	      "  autovacuum_vacuum_cost_delay = 0);\n");
	print_adopt_trigger(schema);
	print_grants(schema);
}

/* ---- ---- */

/* Whether available_at may be NULL decides on the index's expression. In a table of ours it may not; in the foreign one that
 * a preset stands for it is for new rows. */
static bool is_nullable(const struct config_source *source, bool adopt)
{
	return adopt && strcmp(source->preset, "message") == 0;
}

/* A foreign table keeps its columns: what only the defaults map and it does not have is not added to it. */
static struct config_source own_columns(const struct config_source *source)
{
	static const enum config_column extras[] = {COLUMN_EVENT_ID, COLUMN_HEADERS, COLUMN_LEASE_OWNER,
						    COLUMN_UPDATED_AT, COLUMN_SETTLED_AT};
	struct config_source copy = *source;
	size_t i;

	for (i = 0; strcmp(source->preset, "outboxd") != 0 && i < sizeof(extras) / sizeof(extras[0]); i++) {
		if (!source->column_required[extras[i]])
			copy.columns[extras[i]] = NULL;
	}
	return copy;
}

static bool fit(struct schema *schema, bool adopt, struct arena *arena)
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
	struct config_source own = own_columns(source);
	struct schema schema = {.source = &own, .out = out};
	struct arena *arena = arena_new();

	if (!fit(&schema, adopt, arena))
		fprintf(out, "-- source %s has no usable mapping\n", source->name);
	else if (adopt)
		print_adopt(&schema);
	else
		print_new(&schema);
	arena_free(arena);
}

void sql_print_drop_trigger(const struct config_source *source, FILE *out)
{
	struct schema schema = {.source = source, .out = out};
	struct arena *arena = arena_new();

	if (fit(&schema, false, arena)) {
		fputs("DROP TRIGGER IF EXISTS ", out);
		print_name(&schema, "_notify", false);
		print(&schema, " ON {table};\nDROP FUNCTION IF EXISTS ");
		print_name(&schema, "_notify", true);
		fputs("();\n", out);
	}
	arena_free(arena);
}
