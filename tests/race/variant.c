#include "race.h"

#include <stdlib.h>
#include <string.h>

const struct race_variant race_variants[] = {
	{.name = "standard", .owner = true, .settled = true, .key_index = true, .block = true},
	{.name = "continue", .owner = true, .settled = true, .key_index = true},
	{.name = "no-owner", .settled = true, .key_index = true, .block = true},
	{.name = "no-settled", .owner = true, .key_index = true, .block = true},
	{.name = "one-column", .one_column = true, .key_index = true, .block = true},
	{.name = "one-column-continue", .one_column = true, .key_index = true},
	{.name = "partitioned",
	 .owner = true,
	 .settled = true,
	 .partitioned = true,
	 .key_index = true,
	 .block = true},
	{.name = "view", .owner = true, .settled = true, .key_index = true, .block = true, .view = true},
	{.name = "no-key-index", .owner = true, .settled = true, .block = true},
	{.name = "delete", .owner = true, .settled = true, .key_index = true, .block = true, .delete = true},
	{.name = "delete-no-owner", .settled = true, .key_index = true, .block = true, .delete = true},
	{.name = "delete-partitioned",
	 .owner = true,
	 .settled = true,
	 .partitioned = true,
	 .key_index = true,
	 .block = true,
	 .delete = true},
	{.name = "where", .owner = true, .settled = true, .key_index = true, .block = true, .where = true},
	{.name = "txid", .owner = true, .settled = true, .key_index = true, .block = true, .txid = true},
	{.name = NULL},
};

const struct race_variant *race_find_variant(const char *name)
{
	const struct race_variant *variant;

	for (variant = race_variants; variant->name != NULL; variant++) {
		if (strcmp(variant->name, name) == 0)
			return variant;
	}
	return NULL;
}

struct config_source race_source(const struct race_variant *variant, const char *table)
{
	struct config_source source = server_source(table);

	source.on_failed = variant->block ? ON_FAILED_BLOCK : ON_FAILED_CONTINUE;
	source.on_delivered = variant->delete ? ON_DELIVERED_DELETE : ON_DELIVERED_MARK;
	source.retry.max_attempts = RACE_MAX_ATTEMPTS;
	source.columns[COLUMN_HEADERS] = source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_TYPE] = NULL;
	if (!variant->owner)
		source.columns[COLUMN_LEASE_OWNER] = NULL;
	if (!variant->settled)
		source.columns[COLUMN_SETTLED_AT] = NULL;
	if (variant->txid)
		source.columns[COLUMN_TXID] = "txid";
	if (variant->where)
		source.where = "id % 2 = current_setting('race.part')::int -- each worker's own";
	if (variant->one_column)
		source.columns[COLUMN_LEASE_UNTIL] = source.columns[COLUMN_AVAILABLE_AT];
	return source;
}

static void create_indexes(PGconn *conn, const struct race_variant *variant, const char *table)
{
	/* Where both times share a column it is NULL for new rows. */
	const char *due = variant->one_column ? "coalesce(available_at, '-infinity')" : "available_at";
	const char *unfinished = variant->settled ? "settled_at IS NULL" : "status IN ('PENDING', 'SENDING')";
	const char *failed = variant->settled || !variant->block
				     ? ""
				     : " OR (status = 'FAILED' AND (last_error LIKE 'skipped: %') IS NOT TRUE)";

	server_run(conn, "CREATE INDEX ON %s (%s, id) WHERE %s", table, due, unfinished);
	if (variant->key_index)
		server_run(conn, "CREATE INDEX ON %s (aggregate_id, id) WHERE %s%s", table, unfinished, failed);
}

void race_create_table(PGconn *conn, const struct race_variant *variant, const char *table)
{
	char *base = server_text(conn, "SELECT '%s%s'", table, variant->view ? "_base" : "");

	server_run(conn, "DROP TABLE IF EXISTS %s CASCADE", base);
	server_run(
		conn,
		"CREATE TABLE %s (id bigint %s, aggregate_id text, payload text, status text NOT NULL DEFAULT 'PENDING', "
		"attempts int NOT NULL DEFAULT 0, available_at timestamptz %s, last_error text, "
		"created_at timestamptz DEFAULT now()%s%s%s%s)%s",
		base, variant->partitioned ? "NOT NULL" : "GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		variant->one_column ? "" : "NOT NULL DEFAULT now()",
		variant->one_column ? "" : ", lease_until timestamptz", variant->owner ? ", lease_owner text" : "",
		variant->settled ? ", settled_at timestamptz" : "",
		variant->txid ? ", txid xid8 DEFAULT pg_current_xact_id()" : "",
		variant->partitioned ? " PARTITION BY HASH (aggregate_id)" : " WITH (fillfactor = 50)");
	if (variant->partitioned) {
		server_run(conn, "CREATE SEQUENCE %s_ids OWNED BY %s.id", base, base);
		server_run(conn, "ALTER TABLE %s ALTER id SET DEFAULT nextval('%s_ids')", base, base);
		server_run(conn, "CREATE TABLE %s_0 PARTITION OF %s FOR VALUES WITH (MODULUS 2, REMAINDER 0)", base,
			   base);
		server_run(conn, "CREATE TABLE %s_1 PARTITION OF %s FOR VALUES WITH (MODULUS 2, REMAINDER 1)", base,
			   base);
		server_run(conn, "CREATE INDEX ON %s (id)", base);
	}
	create_indexes(conn, variant, base);
	if (variant->view)
		server_run(conn, "CREATE VIEW %s AS SELECT * FROM %s", table, base);
	free(base);
}
