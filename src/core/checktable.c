#include "core/checktable.h"

#include "base/mem.h"
#include "core/fingerprint.h"
#include "core/sqltext.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_DIFFERS_US INT64_C(2000000)
#define SNAPSHOT_OLD 20000		  /* transactions: a minute or so of a busy application */
#define SETTLE_MARGIN_US INT64_C(2000000) /* what a lease must outlast a delivery by when a row is handed over */

/* ---- the server ---- */

static void check_jit(struct check *check, const struct config_source *source, const struct check_server *server)
{
	if (server->jit_applies)
		check_add(check, CHECK_JIT_ON, source->name, "ALTER ROLE CURRENT_USER SET jit = off",
			  "jit is on in the relay's own transactions");
	else if (server->jit)
		check_add(check, CHECK_JIT, source->name, NULL,
			  "jit is on in this database, and switched off in each of the relay's transactions");
}

static void check_snapshot(struct check *check, const struct config_source *source,
			   const struct check_server *server)
{
	if (server->snapshot_age < SNAPSHOT_OLD)
		return;
	check_add(check, CHECK_SNAPSHOT_OLD, source->name,
		  server->holder_cure != NULL
			  ? server->holder_cure
			  : "look at pg_stat_activity, pg_prepared_xacts and pg_replication_slots as a superuser",
		  "%s holds a snapshot %" PRId64 " transactions old: no row that died since can be removed",
		  server->holder != NULL ? server->holder : "somebody", server->snapshot_age);
}

static void check_clock(struct check *check, const struct config_source *source, int64_t ahead_us)
{
	if (llabs((long long)ahead_us) < CLOCK_DIFFERS_US)
		return;
	check_add(check, CHECK_CLOCK_DIFFERS, source->name,
		  "synchronise both hosts' clocks, as with chrony or systemd-timesyncd",
		  "the database's clock is %" PRId64
		  " s %s this host's: leases go by the database's alone, records' "
		  "timestamps and logs by this one's",
		  (int64_t)llabs((long long)ahead_us) / 1000000, ahead_us > 0 ? "ahead of" : "behind");
}

bool checktable_server(struct check *check, const struct config_source *source, const struct check_server *server,
		       int64_t now_us)
{
	if (server->standby)
		check_add(check, CHECK_STANDBY, source->name,
			  "postgres.dsn: name all hosts, and add target_session_attrs=read-write",
			  "the server is a standby: rows can be claimed on the primary only");
	else if (server->read_only)
		check_add(check, CHECK_READ_ONLY, source->name,
			  "ALTER ROLE CURRENT_USER RESET default_transaction_read_only",
			  "transactions are read-only here (default_transaction_read_only)");
	else
		check_add(check, CHECK_DATABASE, source->name, NULL, "PostgreSQL %s answers, and can be written to",
			  server->version);
	check_jit(check, source, server);
	check_snapshot(check, source, server);
	check_clock(check, source, server->clock_us - now_us);
	return !server->standby && !server->read_only;
}

/* ---- the table ---- */

/* "`outboxd schema --source orders --adopt | psql`, which ...": what is too long for a line. */
static void add_adopt_cure(struct buf *cure, const struct config_source *source)
{
	buf_print(cure, "outboxd schema --source %s --adopt | psql", source->name);
}

/* The configuration has been checked: the name is well-formed. */
static void add_table(struct buf *out, const struct config_source *source)
{
	if (!sql_table_name(source->table, out, NULL))
		buf_add_string(out, source->table);
}

static const struct sql_column_facts *find(const struct sql_table_facts *facts, const char *name)
{
	size_t i;

	for (i = 0; name != NULL && i < facts->n_columns; i++)
		if (strcmp(facts->columns[i].name, name) == 0)
			return &facts->columns[i];
	return NULL;
}

static void check_left_out(struct check *check, const struct config_source *source,
			   const struct sql_table_facts *facts)
{
	struct buf names = {0}, cure = {0};
	int role;

	for (role = 0; role < CONFIG_COLUMNS; role++) {
		if (source->columns[role] == NULL || find(facts, source->columns[role]) != NULL)
			continue;
		buf_print(&names, "%scolumns.%s (\"%s\")", names.len > 0 ? ", " : "", config_column_name(role),
			  source->columns[role]);
	}
	add_adopt_cure(&cure, source);
	if (names.len > 0)
		check_add(check, CHECK_COLUMN_LEFT_OUT, source->name, buf_text(&cure),
			  "left out, for the table lacks them: %s", buf_text(&names));
	buf_free(&names);
	buf_free(&cure);
}

static void check_zones(struct check *check, const struct config_source *source,
			const struct sql_table_facts *facts)
{
	static const enum config_column times[] = {COLUMN_AVAILABLE_AT, COLUMN_LEASE_UNTIL, COLUMN_CREATED_AT};
	const struct sql_column_facts *column;
	struct buf cure = {0};
	size_t i;

	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		column = find(facts, source->columns[times[i]]);
		if (column == NULL || strstr(column->type, "without time zone") == NULL)
			continue;
		buf_add_string(&cure, "ALTER TABLE ");
		add_table(&cure, source);
		buf_add_string(&cure, " ALTER COLUMN ");
		sqltext_identifier(&cure, column->name);
		buf_add_string(&cure, " TYPE timestamp with time zone");
		check_add(check, CHECK_TIME_ZONE_MISSING, source->name, buf_text(&cure),
			  "\"%s\" is %s: the relay reads it as UTC, whatever those who write it mean", column->name,
			  column->type);
		break;
	}
	buf_free(&cure);
}

static bool is_random(const char *standard)
{
	return standard != NULL &&
	       (strstr(standard, "gen_random_uuid") != NULL || strstr(standard, "uuid_generate_v4") != NULL);
}

static void check_order(struct check *check, const struct config_source *source,
			const struct sql_table_facts *facts, const struct check_table *table)
{
	const struct sql_column_facts *order = find(facts, source->columns[COLUMN_ORDER]);
	const struct sql_column_facts *event_id = find(facts, source->columns[COLUMN_EVENT_ID]);
	bool time_ordered = table->order_default != NULL && strstr(table->order_default, "v7") != NULL;

	if (source->ordering == ORDERING_KEY && order != NULL && strcmp(order->type, "uuid") == 0 && !time_ordered)
		check_add(
			check, CHECK_ORDER_RANDOM, source->name,
			"columns.order: a column bigint GENERATED ALWAYS AS IDENTITY with a unique index, or UUIDv7 for the id",
			"rows of a key go in the order of \"%s\", a uuid: unless it is time-ordered (UUIDv7) that order is "
			"undefined, for the rows of one transaction too",
			order->name);
	if (event_id != NULL && strcmp(event_id->type, "uuid") == 0 && is_random(table->event_id_default))
		check_add(
			check, CHECK_EVENT_ID_RANDOM, source->name,
			"let the application write UUIDv7, or make the default a function that does",
			"\"%s\" is random by default: in a long table its unique index costs a quarter of the speed",
			event_id->name);
}

static void check_unique(struct check *check, const struct config_source *source, const struct check_table *table)
{
	enum config_column role = table->unique_id ? COLUMN_ORDER : COLUMN_ID;
	struct buf cure = {0};

	if (table->unique_id && table->unique_order)
		return;
	buf_add_string(&cure, "CREATE UNIQUE INDEX CONCURRENTLY ON ");
	add_table(&cure, source);
	buf_add_string(&cure, " (");
	sqltext_identifier(&cure, source->columns[role]);
	buf_add_char(&cure, ')');
	check_add(check, CHECK_ID_NOT_UNIQUE, source->name, buf_text(&cure),
		  "columns.%s: \"%s\" has no unique index", config_column_name(role), source->columns[role]);
	buf_free(&cure);
}

static void check_indexes(struct check *check, const struct config_source *source, const struct sql *sql,
			  const struct sql_table_facts *facts, const struct check_table *table)
{
	const long long mib = (long long)(table->bytes >> 20);
	struct buf cure = {0};

	if (!table->has_due_index)
		check_add(
			check, CHECK_DUE_INDEX_MISSING, source->name, sql_due_index(sql),
			"no index has what is due and nothing else: each claim reads the whole table (%lld rows, %lld MiB)",
			(long long)table->rows, mib);
	if (source->ordering == ORDERING_KEY && !facts->has_key_index)
		check_add(check, CHECK_KEY_INDEX_MISSING, source->name, sql_key_index(sql),
			  "no index begins with \"%s\": each claim reads all open rows%s to find those of its keys",
			  source->columns[COLUMN_KEY], table->has_due_index ? "" : ", by the whole table,");
	if (table->invalid_cure != NULL)
		check_add(check, CHECK_INDEX_INVALID, source->name, table->invalid_cure,
			  "an index was interrupted when it was made: it is not used, and costs all the same");
	if (!sql_has_column(sql, COLUMN_SETTLED_AT)) {
		buf_print(&cure, "columns: {settled_at: settled_at} in source %s, then ", source->name);
		add_adopt_cure(&cure, source);
		check_add(
			check, CHECK_SETTLED_AT_MISSING, source->name, buf_text(&cure),
			"no column settled_at: 16000 to 21000 rows a second where 32000 to 41000 were measured with it");
	}
	buf_free(&cure);
}

static void check_vacuum(struct check *check, const struct config_source *source, const struct check_table *table)
{
	if (!table->autovacuum)
		check_add(
			check, CHECK_AUTOVACUUM_OFF, source->name,
			"ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()",
			"autovacuum is off in the server");
	if (table->vacuum_cure != NULL)
		check_add(check, CHECK_AUTOVACUUM_OFF, source->name, table->vacuum_cure,
			  "autovacuum is off for the table");
	if (table->settings_cure != NULL)
		check_add(
			check, CHECK_TABLE_SETTINGS, source->name, table->settings_cure,
			"pages are filled to the brim, so that updates are not HOT, or vacuum waits for a fifth of the table");
	if (table->bloat_cure != NULL)
		check_add(check, CHECK_BLOAT, source->name, table->bloat_cure, "more dead rows than living ones");
}

void checktable_table(struct check *check, const struct config_source *source, const struct sql *sql,
		      const struct sql_table_facts *facts, const struct check_table *table)
{
	bool plain = facts->relkind == 'r' || facts->relkind == 'p';

	check_add(check, CHECK_TABLE, source->name, NULL, "%s.%s has the columns, types, states and privileges",
		  facts->schema, facts->name);
	check_left_out(check, source, facts);
	check_zones(check, source, facts);
	check_order(check, source, facts, table);
	if (facts->policed)
		check_add(check, CHECK_ROWS_POLICED, source->name,
			  "a policy with USING (true) for the relay's role",
			  "row-level security is on: rows that its policies hide from role %s are never sent",
			  facts->role);
	if (source->notify != NULL && !table->notifies)
		check_add(
			check, CHECK_TRIGGER_MISSING, source->name, NULL,
			"no trigger of the table notifies \"%s\": unless the application does, rows wait for the next poll; "
			"`outboxd schema --source %s` has the trigger, `notify: ~` does without",
			source->notify, source->name);
	if (!plain)
		return;
	check_unique(check, source, table);
	check_indexes(check, source, sql, facts, table);
	check_vacuum(check, source, table);
}

/* ---- rows ---- */

static void check_owner(struct check *check, const struct config_source *source, const char *owner)
{
	char own[FINGERPRINT_SIZE];
	const char *mark = strrchr(owner, '/');

	fingerprint_write(source, own);
	/* Others may write owners too. */
	if (mark == NULL || strlen(mark + 1) != strlen(own) || strcmp(mark + 1, own) == 0)
		return;
	check_add(
		check, CHECK_RELAYS_DIFFER, source->name,
		"give all relays of a table the same source, and reload them",
		"%s holds rows, and its source has other columns, states, topic, ordering, on_failed, on_delivered or "
		"max_attempts than this file's",
		owner);
}

void checktable_rows(struct check *check, const struct config_source *source, const struct check_rows *rows)
{
	json_t *states = json_loads(rows->states, 0, NULL), *owners = json_loads(rows->owners, 0, NULL), *entry;
	size_t i;

	json_array_foreach(states, i, entry)
	{
		check_add(check, CHECK_STATE_UNKNOWN, source->name,
			  "states: name it, or UPDATE these rows to a state that is",
			  "rows are in the state %s%s%s, which the source does not name",
			  json_is_string(entry) ? "\"" : "",
			  json_is_string(entry) ? json_string_value(entry) : "NULL",
			  json_is_string(entry) ? "\"" : "");
	}
	json_array_foreach(owners, i, entry)
	{
		check_owner(check, source, json_string_value(entry));
	}
	json_decref(states);
	json_decref(owners);
}

/* ---- settings ---- */

void checktable_settings(struct check *check, const struct config_source *source)
{
	const struct config_postgres *postgres = &source->postgres;
	int64_t least_us = source->kafka.message_timeout_us + SETTLE_MARGIN_US + postgres->statement_timeout_us;
	char cure[64];

	snprintf(cure, sizeof(cure), "lease: %" PRId64 "ms", least_us / 1000);
	if (source->lease_us < least_us)
		check_add(check, CHECK_LEASE_SHORT, source->name, cure,
			  "lease %" PRId64 " ms: a claim that takes as long as statement_timeout allows (%" PRId64
			  " ms) leaves less than a delivery may take (message_timeout %" PRId64
			  " ms, and 2 s), so its rows are "
			  "given back unsent",
			  source->lease_us / 1000, postgres->statement_timeout_us / 1000,
			  source->kafka.message_timeout_us / 1000);
	else
		check_add(check, CHECK_LEASE, source->name, NULL,
			  "lease %" PRId64 " ms outlasts message_timeout %" PRId64 " ms and a slow claim",
			  source->lease_us / 1000, source->kafka.message_timeout_us / 1000);
	if (source->on_delivered != ON_DELIVERED_DELETE)
		check_add(check, CHECK_HISTORY_KEPT, source->name,
			  "on_delivered: delete, or delete old rows in a job of your own",
			  "finished rows are kept for ever: nothing is deleted unless asked");
}
