/* The statements of the commands retry and skip on a real server: which rows they take, what becomes of them, and that what
 * was parked behind them follows at once. OUTBOXD_TEST_DSN names an empty database. */
#include "../unit/unit.h"
#include "../race/command.h"
#include "sqlbench.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void check_text(struct sqlbench *bench, const char *want, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void check_text(struct sqlbench *bench, const char *want, const char *format, ...)
{
	char sql[1000], *text;
	va_list args;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	text = server_text(bench->conn, "%s", sql);
	ck_assert_str_eq(text, want);
	free(text);
}

/* ---- a command, as cli/change.c has it ---- */

static void check_good(const PGresult *result)
{
	ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
}

/* Frees what is parked behind changed rows; how many. */
static int64_t unpark(struct sqlbench *bench, const PGresult *changed)
{
	PGresult *result = command_unpark(bench->conn, bench->sql, changed);
	int64_t freed;

	check_good(result);
	freed = server_int8(result, 0, 0);
	PQclear(result);
	return freed;
}

static PGresult *pick(struct sqlbench *bench, struct command command, int count)
{
	PGresult *picked = command_pick(bench->conn, bench->sql, &command);

	check_good(picked);
	ck_assert_int_eq(PQntuples(picked), count);
	return picked;
}

/* Changes what was picked, and frees what is parked; checks how many rows were changed, and how many freed. */
static void change(struct sqlbench *bench, struct command command, const PGresult *picked, int changed,
		   int64_t freed)
{
	PGresult *result;

	command.reason = "we say so";
	server_begin(bench->conn);
	result = command_change(bench->conn, bench->sql, &command, NULL, picked, 0, PQntuples(picked));
	check_good(result);
	ck_assert_int_eq(PQntuples(result), changed);
	if (freed >= 0)
		ck_assert_int_eq(unpark(bench, result), freed);
	PQclear(result);
	server_end(bench->conn);
}

static void run(struct sqlbench *bench, struct command command, int changed, int64_t freed)
{
	PGresult *picked = pick(bench, command, changed);

	change(bench, command, picked, changed, freed);
	PQclear(picked);
}

#define NOT_ASKED (-1)

/* ---- which rows, and what becomes of them ---- */

static const char one_of_each[] =
	"INSERT INTO event_outbox (event_type, aggregate_id, status, attempts, available_at, last_error, settled_at, lease_until) VALUES "
	"('t', 'a', 'FAILED', 5, '9999-12-31Z', 'too large', NULL, NULL), "
	"('t', 'b', 'FAILED', 5, now() - interval '1 h', 'no topic', NULL, NULL), "
	"('t', NULL, 'FAILED', 5, '9999-12-31Z', NULL, NULL, NULL), "
	"('t', 'a', 'FAILED', 5, '9999-12-31Z', 'skipped: x', now(), NULL), "
	"('t', 'c', 'PENDING', 0, now(), NULL, NULL, NULL), ('t', 'd', 'SENDING', 1, now(), NULL, NULL, now() + interval '1 h'), "
	"('t', 'e', 'SENT', 1, now(), NULL, now(), NULL), ('t', 'infinite', 'FAILED', 1, 'infinity', 'too large', NULL, NULL)";

static const struct {
	struct command command;
	const char *changed; /* ids */
} selections[] = {
	{{.ids = NULL}, "1 2 3 8"},
	{{.key = "a"}, "1"},
	{{.key = "c"}, ""},
	{{.key = "a' OR true --"}, ""},
	{{.error = "large"}, "1 8"},
	{{.error = "%"}, ""},
	{{.key = "b", .error = "large"}, ""},
	{{.ids = "1 2 3 4 5 6 7 8 99"}, "1 2 3 4 8"},
	{{.ids = "8 2", .error = "topic"}, "2"},
	{{.skip = true}, "1 2 3 8"},
	{{.skip = true, .key = "a"}, "1"},
	{{.skip = true, .ids = "1 2 3 4 5 6 7 8 99"}, "1 2 3 5 8"},
};

static int words(const char *text)
{
	int n = text[0] != '\0';

	for (; *text != '\0'; text++)
		n += *text == ' ';
	return n;
}

START_TEST(test_F027_only_what_was_selected_changes)
{
	struct sqlbench bench = sqlbench_standard();
	const struct command *command = &selections[_i].command;
	const char *changed = selections[_i].changed;

	RUN(&bench, "%s", one_of_each);
	RUN(&bench, "DROP TABLE IF EXISTS before; CREATE TABLE before AS SELECT * FROM event_outbox");
	run(&bench, *command, words(changed), NOT_ASKED);
	check_text(
		&bench, changed,
		"SELECT coalesce(string_agg(o.id::text, ' ' ORDER BY o.id), '') FROM event_outbox o JOIN before b USING (id) WHERE o::text <> b::text");
	if (command->skip)
		check_text(
			&bench, changed,
			"SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM event_outbox WHERE status = 'FAILED' AND "
			"settled_at IS NOT NULL AND last_error = 'skipped: we say so' AND lease_until IS NULL");
	else
		check_text(
			&bench, changed,
			"SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM event_outbox WHERE status = 'PENDING' AND attempts = 0 "
			"AND available_at <= now() AND settled_at IS NULL AND coalesce(last_error, '') NOT LIKE 'skipped%%' AND id <> 5");
}
END_TEST

/* What was picked is changed only if it is still so: somebody else has decided meanwhile, or a relay has taken it. */
START_TEST(test_two_people_at_once)
{
	struct sqlbench bench = sqlbench_standard();
	struct command command = {.skip = _i > 0};
	PGresult *picked;

	RUN(&bench, "%s", one_of_each);
	picked = pick(&bench, command, 4);
	RUN(&bench,
	    "UPDATE event_outbox SET settled_at = now() WHERE id = 1; UPDATE event_outbox SET status = 'SENDING' WHERE id = 2");
	RUN(&bench, "DELETE FROM event_outbox WHERE id = 3");
	RUN(&bench, "DROP TABLE IF EXISTS before; CREATE TABLE before AS SELECT * FROM event_outbox");
	change(&bench, command, picked, 1, NOT_ASKED);
	check_text(
		&bench, "8",
		"SELECT string_agg(o.id::text, ' ') FROM event_outbox o JOIN before b USING (id) WHERE o::text <> b::text");
	PQclear(picked);
}
END_TEST

/* ---- types and names ---- */

static void check_type(const char *id, const char *key, const char *status, const char *value)
{
	struct config_source source = server_source("typed");
	struct sqlbench bench;
	char sql[1200];

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_HEADERS] = source.columns[COLUMN_TYPE] = NULL;
	source.states[0] = strstr(status, "smallint") != NULL ? "0" : "PENDING";
	source.states[1] = strstr(status, "smallint") != NULL ? "1" : "SENDING";
	source.states[2] = strstr(status, "smallint") != NULL ? "2" : "SENT";
	source.states[3] = strstr(status, "smallint") != NULL ? "3" : "FAILED";
	snprintf(
		sql, sizeof(sql),
		"DROP TABLE IF EXISTS typed; CREATE TABLE typed (id %s PRIMARY KEY, aggregate_id %s, payload jsonb, status %s, "
		"attempts smallint DEFAULT 0, available_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, "
		"lease_owner text, last_error varchar(12), created_at timestamp DEFAULT now(), settled_at timestamptz); "
		"CREATE INDEX ON typed (aggregate_id, id) WHERE settled_at IS NULL; "
		"INSERT INTO typed (aggregate_id, status) VALUES ('%s', '%s'), ('%s', '%s')",
		id, key, status, value, source.states[3], value, source.states[3]);
	sqlbench_run(sql);
	bench = sqlbench_open(source);
	run(&bench, (struct command){.key = value}, 2, 0);
	ck_assert_int_eq(sqlbench_claim(&bench), 2);
	RUN(&bench, "UPDATE typed SET status = '%s', lease_until = NULL", source.states[3]);
	run(&bench, (struct command){.skip = true}, 2, 0);
	check_text(&bench, "skipped: we ", "SELECT DISTINCT last_error::text FROM typed");
	char *first = server_text(bench.conn, "SELECT id FROM typed ORDER BY id LIMIT 1");

	run(&bench, (struct command){.ids = first}, 1, 0);
	free(first);
	PQfinish(bench.conn);
}

START_TEST(test_F004_F005_types)
{
	static const char *const ids[] = {
		"smallint GENERATED ALWAYS AS IDENTITY",    "int GENERATED ALWAYS AS IDENTITY",
		"bigint GENERATED ALWAYS AS IDENTITY",	    "uuid DEFAULT gen_random_uuid()",
		"text DEFAULT gen_random_uuid()::text",	    "varchar(40) DEFAULT gen_random_uuid()::text",
		"char(40) DEFAULT gen_random_uuid()::text", "numeric(20, 0) DEFAULT nextval('typed_ids')"};
	static const char *const keys[][2] = {{"text", "k"},
					      {"varchar(8)", "k"},
					      {"char(8)", "k"},
					      {"bigint", "7"},
					      {"uuid", "6f2c1f0e-7f6e-4d1e-9d0a-0d2b0c6f3a11"}};
	static const char *const states[] = {"text", "varchar(10)", "\"the State\"", "smallint"};
	size_t i;

	sqlbench_run(
		"DROP TABLE IF EXISTS typed; DROP TYPE IF EXISTS \"the State\"; CREATE SEQUENCE IF NOT EXISTS typed_ids; "
		"CREATE TYPE \"the State\" AS ENUM ('PENDING', 'SENDING', 'SENT', 'FAILED')");
	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		check_type(ids[i], "text", "text", "k");
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		check_type(ids[2], keys[i][0], "text", keys[i][1]);
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		check_type(ids[2], "text", states[i], "k");
}
END_TEST

/* An id or a key longer than its column is nobody's, not that of the row whose name it begins with. */
START_TEST(test_nothing_is_cut_to_fit)
{
	struct config_source source = server_source("narrow");
	struct sqlbench bench;

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_HEADERS] = source.columns[COLUMN_TYPE] = NULL;
	sqlbench_run(
		"DROP TABLE IF EXISTS narrow; CREATE TABLE narrow (id varchar(3) PRIMARY KEY, aggregate_id varchar(3), payload text, status text, "
		"attempts int, available_at timestamptz, last_error text, settled_at timestamptz); "
		"INSERT INTO narrow (id, aggregate_id, status) VALUES ('abc', 'abc', 'FAILED')");
	bench = sqlbench_open(source);
	run(&bench, (struct command){.ids = "abcd"}, 0, NOT_ASKED);
	run(&bench, (struct command){.key = "abcd"}, 0, NOT_ASKED);
	run(&bench, (struct command){.ids = "abc"}, 1, NOT_ASKED);
}
END_TEST

static void check_refused(struct sqlbench *bench, struct command command, const char *sqlstate)
{
	PGresult *result = command_pick(bench->conn, bench->sql, &command);

	ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), sqlstate);
	PQclear(result);
}

START_TEST(test_an_id_that_is_none)
{
	struct sqlbench bench = sqlbench_standard();

	check_refused(&bench, (struct command){.ids = "1 x"}, "22P02");
	check_refused(&bench, (struct command){.ids = "99999999999999999999"}, "22003");
	check_refused(&bench, (struct command){.skip = true, .ids = "1.5"}, "22P02");
	check_refused(&bench, (struct command){.ids = "\xff"}, "22021");
}
END_TEST

START_TEST(test_F006_names)
{
	struct config_source source = server_source("\"Billing.X\".\"Out Box\"");
	struct sqlbench bench;

	source.columns[COLUMN_ID] = source.columns[COLUMN_ORDER] = "RowId";
	source.columns[COLUMN_STATUS] = "Sta\"te";
	source.columns[COLUMN_KEY] = "id"; /* a name that is another role's word */
	source.columns[COLUMN_AVAILABLE_AT] = "order";
	source.columns[COLUMN_LAST_ERROR] = "key";
	source.columns[COLUMN_UPDATED_AT] = "until";
	source.states[3] = "it's \\ over";
	sqlbench_run("DROP SCHEMA IF EXISTS \"Billing.X\" CASCADE; CREATE SCHEMA \"Billing.X\"");
	sqlbench_make_table(&source);
	bench = sqlbench_open(source);
	RUN(&bench,
	    "INSERT INTO \"Billing.X\".\"Out Box\" (id, event_type, \"Sta\"\"te\", until) VALUES ('z', 't', E'it''s \\\\ over', '-infinity')");
	RUN(&bench, "INSERT INTO \"Billing.X\".\"Out Box\" (id, event_type) VALUES ('z', 't')");
	ck_assert_int_eq(sqlbench_claim(&bench), 0);
	run(&bench, (struct command){.key = "z"}, 1, 1);
	ck_assert_int_eq(sqlbench_claim(&bench), 2);
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM \"Billing.X\".\"Out Box\" WHERE isfinite(until)"), 2);
}
END_TEST

/* ---- layouts: a failed head, the rows that wait for it, and another key ---- */

static struct sqlbench standard(void)
{
	return sqlbench_standard();
}

static struct sqlbench message(void)
{
	return sqlbench_open(sqlbench_message_source());
}

static struct sqlbench other_table(const char *table, const char *ddl)
{
	sqlbench_run(ddl);
	return sqlbench_open(server_source(table));
}

#define COLUMNS                                                                                                         \
	"(id bigint, aggregate_id text, payload text, status text DEFAULT 'PENDING', attempts int DEFAULT 0, "          \
	"available_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, lease_owner text, last_error text, " \
	"settled_at timestamptz, PRIMARY KEY (id, aggregate_id))"

static struct sqlbench partitioned(void)
{
	return other_table("parts",
			   "DROP TABLE IF EXISTS parts; CREATE TABLE parts " COLUMNS
			   " PARTITION BY HASH (aggregate_id); "
			   "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
			   "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1); "
			   "CREATE INDEX ON parts (aggregate_id, id) WHERE settled_at IS NULL");
}

static struct sqlbench view(void)
{
	return other_table("window_on", "DROP TABLE IF EXISTS base CASCADE; CREATE TABLE base " COLUMNS
					"; CREATE VIEW window_on AS SELECT * FROM base");
}

static const struct layout {
	struct sqlbench (*make)(void);
	const char *key, *due, *insert; /* n rows: id where the table does not number them, then key */
} layouts[] = {
	{standard, "aggregate_id", "available_at",
	 "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', k FROM"},
	{message, "task_id", "next_retry_time", "INSERT INTO agent_message (task_id) SELECT k FROM"},
	{partitioned, "aggregate_id", "available_at", "INSERT INTO parts (id, aggregate_id) SELECT n, k FROM"},
	{view, "aggregate_id", "available_at", "INSERT INTO window_on (id, aggregate_id) SELECT n, k FROM"},
};

#define LAYOUTS ((int)(sizeof(layouts) / sizeof(layouts[0])))

/* Rows 1 to 6: 1 of key "k" fails, 2 to 5 follow it, 6 is of another key. */
static struct sqlbench blocked(const struct layout *layout)
{
	struct sqlbench bench = layout->make();
	PGresult *claim;

	RUN(&bench, "%s %s", layout->insert,
	    "(SELECT n, CASE WHEN n < 6 THEN 'k' ELSE 'other' END AS k FROM generate_series(1, 6) n) v");
	bench.limit = 1;
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_settle(&bench, claim, (struct sqlbench_outcome){ROW_FAILED, 0, 0, "no"}), 1);
	PQclear(claim);
	bench.limit = 100;
	ck_assert_int_eq(sqlbench_claim(&bench), 1); /* the other key's */
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM %s WHERE %s = '9999-12-31Z' AND status = 'PENDING'",
				bench.source.table, layout->due),
			 4);
	return bench;
}

static void check_claim(struct sqlbench *bench, const char *want)
{
	PGresult *result = sqlbench_ask(bench, SQL_CLAIM);
	struct buf ids = {0};

	for (int row = 1; row < PQntuples(result); row++)
		buf_print(&ids, "%s%s", row > 1 ? " " : "", PQgetvalue(result, row, SQL_C_ID));
	ck_assert_str_eq(buf_text(&ids), want);
	buf_free(&ids);
	PQclear(result);
}

START_TEST(test_F034_what_was_blocked_follows_at_once)
{
	struct sqlbench bench = blocked(&layouts[_i % LAYOUTS]);
	bool skip = _i >= LAYOUTS;

	run(&bench, (struct command){.key = "k", .skip = skip}, 1, 4);
	check_claim(&bench, skip ? "2 3 4 5" : "1 2 3 4 5");
	/* There is nothing to do for a second one. */
	run(&bench, (struct command){.key = "k", .skip = skip}, 0, NOT_ASKED);
}
END_TEST

/* A second failed row still blocks: what is behind it stays where it is. */
START_TEST(test_F034_a_key_that_stays_blocked_is_left_alone)
{
	struct sqlbench bench = blocked(&layouts[_i]);

	RUN(&bench, "UPDATE %s SET status = 'FAILED' WHERE id = 3", bench.source.table);
	run(&bench, (struct command){.ids = "3"}, 1, 0);
	check_claim(&bench, "");
	RUN(&bench, "UPDATE %s SET status = 'FAILED' WHERE id = 3", bench.source.table);
	run(&bench, (struct command){.ids = "1"}, 1, 3);
	check_claim(&bench, "1 2");
}
END_TEST

/* A skipped row that is retried after all. */
START_TEST(test_a_decision_may_be_changed)
{
	struct sqlbench bench = blocked(&layouts[_i]);

	run(&bench, (struct command){.ids = "1", .skip = true}, 1, 4);
	run(&bench, (struct command){.ids = "1"}, 1, 0);
	check_text(&bench, "t", "SELECT last_error IS NULL FROM %s WHERE id = 1", bench.source.table);
	check_claim(&bench, "1 2 3 4 5");
}
END_TEST

/* A head that waits for its retry is skipped: its followers stand at its time, not at the sentinel. Those that the
 * application has put off itself keep their time. */
START_TEST(test_skipping_a_row_that_waits)
{
	const struct layout *layout = &layouts[_i];
	struct sqlbench bench = layout->make();
	PGresult *claim;

	RUN(&bench, "%s %s", layout->insert, "(SELECT n, 'k' AS k FROM generate_series(1, 4) n) v");
	RUN(&bench, "UPDATE %s SET %s = now() + interval '2 min' WHERE id = 4", bench.source.table, layout->due);
	bench.limit = 1;
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(
		sqlbench_settle(&bench, claim, (struct sqlbench_outcome){ROW_PENDING, 60000000, 0, "later"}), 1);
	PQclear(claim);
	bench.limit = 100;
	check_claim(&bench, "");
	run(&bench, (struct command){.ids = "1", .skip = true}, 1, 2);
	check_claim(&bench, "2 3");
	/* Row 4 was never tried: whoever put it off may have put off more until then. */
	RUN(&bench, "%s %s", layout->insert, "(SELECT 5 AS n, 'k' AS k) v");
	RUN(&bench, "UPDATE %s SET %s = (SELECT %s FROM %s WHERE id = 4) WHERE status = 'PENDING' AND %s = 'k'",
	    bench.source.table, layout->due, layout->due, bench.source.table, layout->key);
	run(&bench, (struct command){.ids = "4", .skip = true}, 1, 0);
}
END_TEST

/* Without an index on the key, and with neither settled_at nor an index of failed rows. */
START_TEST(test_tables_without_indexes)
{
	struct config_source source = server_source("bare");
	struct sqlbench bench;

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_HEADERS] = source.columns[COLUMN_TYPE] = NULL;
	source.on_failed = _i == 0 ? ON_FAILED_BLOCK : ON_FAILED_CONTINUE;
	sqlbench_run(
		"DROP TABLE IF EXISTS bare; CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
		"aggregate_id text, payload text, status text DEFAULT 'PENDING', attempts int DEFAULT 0, available_at timestamptz DEFAULT now(), "
		"last_error text)");
	bench = sqlbench_open(source);
	RUN(&bench,
	    "INSERT INTO bare (aggregate_id, status, last_error) VALUES ('k', 'FAILED', 'no'), ('k', 'PENDING', NULL), ('l', 'FAILED', 'skipped: x')");
	check_claim(&bench, _i == 0 ? "" : "2");
	run(&bench, (struct command){.key = "l"}, 0, NOT_ASKED);
	run(&bench, (struct command){.key = "k"}, 1, _i == 0 ? 1 : 0);
	check_claim(&bench, _i == 0 ? "1 2" : "1");
	run(&bench, (struct command){.ids = NULL}, 0, NOT_ASKED);
	run(&bench, (struct command){.ids = "3"}, 1, 0);
}
END_TEST

/* Nothing tells a skipped row from a failed one: there is no skip. Without a key column no row has a key. */
START_TEST(test_what_a_table_cannot_do)
{
	struct config_source source = server_source("poor");
	struct sqlbench bench;

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_HEADERS] = source.columns[COLUMN_TYPE] = NULL;
	source.columns[COLUMN_KEY] = NULL;
	source.ordering = ORDERING_NONE;
	sqlbench_run(
		"DROP TABLE IF EXISTS poor; CREATE TABLE poor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text, "
		"status text, attempts int, available_at timestamptz); INSERT INTO poor (status) VALUES ('FAILED'), ('FAILED')");
	bench = sqlbench_open(source);
	ck_assert(!sql_may_skip(bench.sql));
	ck_assert(!sql_has_column(bench.sql, COLUMN_KEY));
	run(&bench, (struct command){.key = "k"}, 0, NOT_ASKED);
	run(&bench, (struct command){.ids = "1"}, 1, NOT_ASKED);
	run(&bench, (struct command){.ids = NULL}, 1, NOT_ASKED);
	check_claim(&bench, "1 2");
}
END_TEST

/* ---- at the same time ---- */

static void wait_for_activity(struct sqlbench *bench, const char *condition)
{
	int64_t n = 0;

	for (int i = 0; i < 1000 && n == 0; i++)
		n = NUMBER(bench, "SELECT count(*) FROM (SELECT pg_sleep(0.01)) s, pg_stat_activity WHERE %s",
			   condition);
	ck_assert_int_gt(n, 0);
}

/* A claim has seen the failed head, and the head is skipped or retried before the claim parks anything behind it: nothing may
 * be left at the sentinel, for nobody would look there for a minute. */
START_TEST(test_F034_a_claim_that_began_before_the_command)
{
	struct sqlbench bench = layouts[_i % LAYOUTS].make(), claimer;
	const struct layout *layout = &layouts[_i % LAYOUTS];
	struct server_values values = {0};
	struct buf text = {0};
	const char *claim, *where;
	PGresult *result;

	RUN(&bench, "%s %s", layout->insert, "(SELECT n, 'k' AS k FROM generate_series(1, 3) n) v");
	RUN(&bench, "UPDATE %s SET status = 'FAILED', %s = '9999-12-31Z' WHERE id = 1", bench.source.table,
	    layout->due);
	claimer = sqlbench_open(bench.source);
	claim = sql_statement(claimer.sql, SQL_CLAIM)->text;
	where = strstr(claim, "\n   WHERE ");
	buf_print(&text, "%.*s\n   WHERE (SELECT pg_sleep(1))::text = '' AND %s", (int)(where - claim), claim,
		  where + strlen("\n   WHERE "));
	sqlbench_send(&claimer, SQL_CLAIM, buf_text(&text), &values);
	wait_for_activity(&bench,
			  "wait_event = 'PgSleep' AND query LIKE '%candidate%' AND pid <> pg_backend_pid()");
	run(&bench, (struct command){.key = "k", .skip = _i >= LAYOUTS}, 1, 0);
	result = server_finish(claimer.conn);
	ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
	ck_assert_int_eq(sqlbench_claimed(result), 0);
	PQclear(result);
	check_claim(&bench, _i >= LAYOUTS ? "2 3" : "1 2 3");
	buf_free(&text);
}
END_TEST

/* A claim that parks holds the head's lock: the command waits for it, and frees what it has parked. */
START_TEST(test_F034_a_command_that_waits_for_a_claim)
{
	struct sqlbench bench = sqlbench_standard(), parker = sqlbench_open(server_source("event_outbox"));
	struct server_values values = {0};
	struct pgarray ids = {0};
	char named[4];
	PGresult *result;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status) VALUES ('t', 'k', 'FAILED'), ('t', 'k', 'PENDING')");
	RUN(&parker, "BEGIN; SELECT FROM event_outbox WHERE id = 1 FOR NO KEY UPDATE; "
		     "UPDATE event_outbox SET available_at = '9999-12-31Z' WHERE id = 2");
	pgarray_begin(&ids, PGOID_TEXT);
	pgarray_add_bytes(&ids, slice_of("1"));
	values.values[SQL_P_IDS] = pgarray_end(&ids);
	values.values[SQL_P_NAMED] = pg_put_int4(named, 1);
	sqlbench_send(&bench, SQL_RETRY, NULL, &values);
	wait_for_activity(&parker, "wait_event_type = 'Lock' AND query LIKE '%unnest%'");
	RUN(&parker, "COMMIT");
	result = server_finish(bench.conn);
	ck_assert_int_eq(PQntuples(result), 1);
	ck_assert_int_eq(unpark(&bench, result), 1);
	PQclear(result);
	check_claim(&bench, "1 2");
	pgarray_free(&ids);
}
END_TEST

/* ---- costs ---- */

/* What is parked elsewhere, and history, cost nothing; what is parked here comes in bites. */
START_TEST(test_F035_a_hundred_thousand_parked_rows)
{
	struct sqlbench bench = sqlbench_standard();
	const struct command command = {.ids = "1"};
	PGresult *claim, *picked, *changed;
	int64_t freed, all = 0;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status, available_at) SELECT 't', 'k', 'FAILED', '9999-12-31Z'::timestamptz UNION ALL "
	    "SELECT 't', 'k', 'PENDING', '9999-12-31Z' FROM generate_series(1, 25000) UNION ALL SELECT 't', 'l', 'FAILED', '9999-12-31Z'");
	picked = pick(&bench, command, 1);
	server_begin(bench.conn);
	changed = command_change(bench.conn, bench.sql, &command, NULL, picked, 0, 1);
	check_good(changed);
	do {
		freed = unpark(&bench, changed);
		ck_assert_int_le(freed, SQL_SWEEP_LIMIT);
		all += freed;
	} while (freed == SQL_SWEEP_LIMIT);
	server_end(bench.conn);
	ck_assert_int_eq(all, 25000);
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), bench.limit);
	ck_assert_str_eq(PQgetvalue(claim, 1, SQL_C_ID), "1");
	PQclear(claim);
	PQclear(changed);
	PQclear(picked);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql_commands");
	TCase *tcase = tcase_create("sql_commands");

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_F027_only_what_was_selected_changes, 0,
			    (int)(sizeof(selections) / sizeof(selections[0])));
	tcase_add_loop_test(tcase, test_two_people_at_once, 0, 2);
	tcase_add_test(tcase, test_F004_F005_types);
	tcase_add_test(tcase, test_nothing_is_cut_to_fit);
	tcase_add_test(tcase, test_an_id_that_is_none);
	tcase_add_test(tcase, test_F006_names);
	tcase_add_loop_test(tcase, test_F034_what_was_blocked_follows_at_once, 0, 2 * LAYOUTS);
	tcase_add_loop_test(tcase, test_F034_a_key_that_stays_blocked_is_left_alone, 0, LAYOUTS);
	tcase_add_loop_test(tcase, test_a_decision_may_be_changed, 0, LAYOUTS);
	tcase_add_loop_test(tcase, test_skipping_a_row_that_waits, 0, LAYOUTS);
	tcase_add_loop_test(tcase, test_tables_without_indexes, 0, 2);
	tcase_add_test(tcase, test_what_a_table_cannot_do);
	tcase_add_loop_test(tcase, test_F034_a_claim_that_began_before_the_command, 0, 2 * LAYOUTS);
	tcase_add_test(tcase, test_F034_a_command_that_waits_for_a_claim);
	tcase_add_test(tcase, test_F035_a_hundred_thousand_parked_rows);
	suite_add_tcase(suite, tcase);
	return suite;
}
