/* What an existing table lacks: printed by `schema --adopt`. History is never sent again, and nothing that is there is changed. */
#include "core/sqlschema.h"

#include "base/mem.h"

static void print_regclass(const struct sqlschema *schema)
{
	sqlschema_print_literal(schema, schema->text.table);
	fputs("::regclass", schema->out);
}

/* "IF NOT EXISTS (SELECT FROM catalog WHERE <relation column> = table AND <condition> literal) THEN". */
static void print_guard(const struct sqlschema *schema, const char *select, const char *condition,
			const char *literal)
{
	fprintf(schema->out, "DO $outboxd$ BEGIN\n  IF NOT EXISTS (SELECT FROM %s = ", select);
	print_regclass(schema);
	fputs(condition, schema->out);
	sqlschema_print_literal(schema, literal);
	fputs(") THEN\n", schema->out);
}

static void print_guard_end(const struct sqlschema *schema)
{
	fputs("  END IF;\nEND $outboxd$;\n", schema->out);
}

/* History must never be sent again: whatever is in the table before it has a state counts as sent. */
static void print_adopt_status(const struct sqlschema *schema)
{
	fputs("-- Rows that are there before the column count as sent; those that come after are pending.\n",
	      schema->out);
	print_guard(schema, "pg_attribute WHERE attrelid",
		    " AND NOT attisdropped AND attname = ", schema->source->columns[COLUMN_STATUS]);
	sqlschema_print(schema, "    ALTER TABLE {table} ADD COLUMN {status} text NOT NULL DEFAULT {sent};\n"
				"    ALTER TABLE {table} ALTER COLUMN {status} SET DEFAULT {pending};\n");
	print_guard_end(schema);
}

/* Without created_at nobody could tell the age of what waits. What was there before gets the time of its coming. */
static bool is_adopted(const struct sqlschema *schema, const struct sqlschema_column *column)
{
	return (column->control || column->role == COLUMN_CREATED_AT) && column->role != COLUMN_STATUS &&
	       sqlschema_is_column(schema, column);
}

static void print_adopt_columns(const struct sqlschema *schema)
{
	size_t i;

	fputs("\n-- Columns the relay writes. None of these rewrites the table; each takes ACCESS EXCLUSIVE for a moment.\n",
	      schema->out);
	print_adopt_status(schema);
	for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {
		if (!is_adopted(schema, &sqlschema_columns[i]))
			continue;
		sqlschema_print(schema, "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS ");
		fprintf(schema->out, "%s %s;\n", schema->text.columns[sqlschema_columns[i].role],
			sqlschema_columns[i].type);
	}
	if (!sqlschema_has(schema, COLUMN_ORDER))
		return;
	sqlschema_print(
		schema,
		"\n-- The order of rows, for their id has none. STRONG: adding it writes the whole table anew, and nobody reads or\n-- writes it meanwhile. With much history, delete what is finished first.\n"
		"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {order} bigint GENERATED ALWAYS AS IDENTITY;\n"
		"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ");
	sqlschema_print_name(schema, "_order", false);
	sqlschema_print(schema, " ON {table} ({order});\n");
}

/* With its default at once the column would be filled for all rows, which writes the table anew. */
static void print_adopt_txid(const struct sqlschema *schema)
{
	if (!sqlschema_has(schema, COLUMN_TXID))
		return;
	sqlschema_print(schema, "\n-- The transaction that writes a row; NULL for those that are there.\n"
				"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {txid} xid8;\n"
				"ALTER TABLE {table} ALTER COLUMN {txid} SET DEFAULT pg_current_xact_id();\n");
}

/* Finished rows get a settled_at before its indexes are built, in pieces of the primary key, each a transaction of its own:
 * one UPDATE of a long history would hold its locks and keep its dead rows for hours. */
static void print_adopt_settled(const struct sqlschema *schema)
{
	if (!sqlschema_has(schema, COLUMN_SETTLED_AT))
		return;
	sqlschema_print(
		schema,
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

static void print_adopt_check(const struct sqlschema *schema)
{
	if (!sqlschema_has(schema, COLUMN_SETTLED_AT))
		return;
	fputs("\n-- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.\n",
	      schema->out);
	print_guard(schema, "pg_constraint WHERE conrelid", " AND conname = ", "outboxd_settled");
	sqlschema_print(
		schema,
		"    ALTER TABLE {table} ADD CONSTRAINT \"outboxd_settled\"\n"
		"      CHECK ({settled_at} IS NULL OR {status} NOT IN ({pending}, {in_flight})) NOT VALID;\n");
	print_guard_end(schema);
	sqlschema_print(schema, "ALTER TABLE {table} VALIDATE CONSTRAINT \"outboxd_settled\";\n");
}

static void print_adopt_trigger(const struct sqlschema *schema)
{
	struct buf name = {0};

	if (schema->source->notify == NULL)
		return;
	sqlschema_print_function(schema);
	fputs("-- SHARE ROW EXCLUSIVE for a moment: it waits for the transactions that are writing, and writers wait for it.\n",
	      schema->out);
	sqlschema_add_name(schema, "_notify", &name);
	print_guard(schema, "pg_trigger WHERE tgrelid", " AND tgname = ", buf_text(&name));
	sqlschema_print_trigger(schema, "    ");
	print_guard_end(schema);
	buf_free(&name);
}

void sqladopt_print(const struct sqlschema *schema)
{
	fprintf(schema->out,
		"-- What an existing table may lack for source %s. Run it with psql as the table's owner, outside of a transaction;\n"
		"-- what is there already is left as it is. When a statement fails on the lock timeout, run all of it again. An index\n"
		"-- that was interrupted stays behind INVALID: drop it first. On a partitioned table leave out CONCURRENTLY.\n"
		"SET lock_timeout = '2s';\n",
		schema->source->name);
	print_adopt_columns(schema);
	print_adopt_txid(schema);
	print_adopt_settled(schema);
	if ((schema->text.has & SQLTEXT_NULLABLE) != 0)
		sqlschema_print(
			schema,
			"\n-- The first index is for {available_at} that may be NULL. If it is NOT NULL, index the plain column instead.\n");
	else
		sqlschema_print(schema,
				"\n-- The first index is for {available_at} NOT NULL. If it may be NULL, index\n"
				"-- coalesce({available_at}, '-infinity') instead.\n");
	sqlschema_print_indexes(schema, "CREATE INDEX CONCURRENTLY IF NOT EXISTS");
	print_adopt_check(schema);
	sqlschema_print(
		schema,
		"\n-- Room for HOT updates in pages written from now on, and an early vacuum (a partitioned table takes these\n"
		"-- on its partitions only).\n"
		"ALTER TABLE {table} SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01,\n"
		"  autovacuum_vacuum_cost_delay = 0);\n");
	print_adopt_trigger(schema);
	sqlschema_print_grants(schema);
}
