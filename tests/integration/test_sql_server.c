/* The statements of core/sql on a real server: what each must do, one case after the other (tests/race has them all at once).
 * OUTBOXD_TEST_DSN names an empty database. */
#include "../unit/unit.h"
#include "sqlbench.h"

#include "base/mem.h"
#include "core/rowstate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void check_text(struct sqlbench *bench, const char *want, const char *sql)
{
	char *text = server_text(bench->conn, "%s", sql);

	ck_assert_str_eq(text, want);
	free(text);
}

/* ---- types and names ---- */

/* A whole life in each type of id and state: claimed and retried, claimed and released, claimed and failed, and sent. */
static void live(struct sqlbench *bench, const char *table)
{
	static const struct sqlbench_outcome outcomes[] = {
		{ROW_PENDING, 1, 0, "an error longer than ten characters"},
		{ROW_PENDING, 0, 1, NULL},
		{ROW_SENT, 0, 0, NULL}};
	PGresult *result;
	size_t i;

	for (i = 0; i < 3; i++) {
		result = sqlbench_ask(bench, SQL_CLAIM);
		ck_assert_int_eq(sqlbench_claimed(result), 3);
		ck_assert_int_eq(sqlbench_settle(bench, result, outcomes[i]), 3);
		PQclear(result);
		server_run(bench->conn, "SELECT pg_sleep(0.001)");
	}
	ck_assert_int_eq(
		server_number(
			bench->conn,
			"SELECT count(*) FROM %s WHERE status = '%s' AND attempts = 2 AND settled_at IS NOT NULL",
			table, bench->source.states[ROW_SENT]),
		3);
}

START_TEST(test_F004_F005_types)
{
	static const char *const ids[] = {
		"smallint GENERATED ALWAYS AS IDENTITY", "int GENERATED ALWAYS AS IDENTITY",
		"bigint DEFAULT nextval('big')",	 "uuid DEFAULT gen_random_uuid()",
		"text DEFAULT gen_random_uuid()::text",	 "varchar(40) DEFAULT gen_random_uuid()::text"};
	static const char *const states[] = {"text DEFAULT 'PENDING'", "varchar(10) DEFAULT 'PENDING'",
					     "\"the State\" DEFAULT 'PENDING'", "smallint DEFAULT 0"};
	struct config_source source = server_source("typed");
	struct sqlbench bench;
	char sql[1000];
	size_t i, j;

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_HEADERS] = source.columns[COLUMN_TYPE] = NULL;
	sqlbench_run("DROP TABLE IF EXISTS typed; DROP SEQUENCE IF EXISTS big; DROP TYPE IF EXISTS \"the State\"");
	sqlbench_run("CREATE TYPE \"the State\" AS ENUM ('PENDING', 'SENDING', 'SENT', 'FAILED')");
	sqlbench_run("CREATE SEQUENCE big START 9223372036854775801");
	for (i = 0; i < 6; i++) {
		for (j = 0; j < 4; j++) {
			snprintf(
				sql, sizeof(sql),
				"DROP TABLE IF EXISTS typed; SELECT setval('big', 9223372036854775800); CREATE TABLE typed (id %s PRIMARY KEY, aggregate_id text, payload jsonb, status %s, "
				"attempts smallint DEFAULT 0, available_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, "
				"lease_owner text, last_error varchar(10), created_at timestamp DEFAULT now(), settled_at timestamptz); "
				"INSERT INTO typed (aggregate_id) VALUES ('a'), ('a'), ('b')",
				ids[i], states[j]);
			sqlbench_run(sql);
			source.states[0] = j == 3 ? "0" : "PENDING";
			source.states[1] = j == 3 ? "1" : "SENDING";
			source.states[2] = j == 3 ? "2" : "SENT";
			source.states[3] = j == 3 ? "3" : "FAILED";
			bench = sqlbench_open(source);
			live(&bench, "typed");
		}
	}
}
END_TEST

START_TEST(test_F006_names)
{
	struct config_source source = server_source("\"Billing.X\".\"Out Box\"");
	struct sqlbench bench;
	PGresult *result;

	source.columns[COLUMN_ID] = source.columns[COLUMN_ORDER] = "RowId";
	source.columns[COLUMN_STATUS] = "Sta\"te";
	source.columns[COLUMN_KEY] = "id"; /* a name that is another role's word */
	source.columns[COLUMN_AVAILABLE_AT] = "order";
	source.columns[COLUMN_LEASE_UNTIL] = "due";
	source.columns[COLUMN_UPDATED_AT] = "r";
	source.states[1] = "it's \\ sent";
	sqlbench_run("DROP SCHEMA IF EXISTS \"Billing.X\" CASCADE; CREATE SCHEMA \"Billing.X\"");
	sqlbench_make_table(&source);
	sqlbench_run("INSERT INTO \"Billing.X\".\"Out Box\" (id, event_type) VALUES ('z', 't'), ('a', 't')");
	bench = sqlbench_open(source);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 2);
	ck_assert_str_eq(PQgetvalue(result, 1, SQL_C_ID), "1");
	ck_assert_str_eq(PQgetvalue(result, 1, SQL_C_KEY), "z");
	check_text(&bench, "it's \\ sent", "SELECT \"Sta\"\"te\" FROM \"Billing.X\".\"Out Box\" LIMIT 1");
	ck_assert_int_eq(sqlbench_settle(&bench, result, (struct sqlbench_outcome){ROW_FAILED, 0, 0, "no"}), 2);
	PQclear(sqlbench_ask(&bench, SQL_SUSPECT));
	PQclear(sqlbench_ask(&bench, SQL_EXPIRE));
	PQclear(sqlbench_ask(&bench, SQL_SWEEP));
	PQclear(sqlbench_ask(&bench, SQL_COUNT));
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM \"Billing.X\".\"Out Box\" WHERE r > \"created_at\""),
			 2);
}
END_TEST

static void check_refused(const char *columns, const char *want)
{
	struct config_source source = server_source("bad");
	PGconn *conn = sqlbench_connect();
	struct sql_table_facts *facts;
	struct err err = {""};

	server_run(conn, "SET client_min_messages = warning; DROP TABLE IF EXISTS bad; CREATE TABLE bad (%s)",
		   columns);
	facts = server_inspect(conn, &source);
	ck_assert_ptr_null(sql_new(&source, facts, NULL, &err));
	ck_assert_msg(strstr(err.text, want) != NULL, "%s", err.text);
	PQfinish(conn);
}

START_TEST(test_a_table_that_does_not_fit)
{
	static const char rest[] = ", aggregate_id text, attempts int, last_error text";
	char columns[400];

	check_refused("id bigint PRIMARY KEY, payload text",
		      "columns.key (\"aggregate_id\"), columns.status (\"status\")");
	snprintf(columns, sizeof(columns), "id bigint, payload text, status text, available_at timestamptz%s",
		 rest);
	check_refused(columns, "ALTER COLUMN \"id\" SET NOT NULL");
	snprintf(columns, sizeof(columns),
		 "id bigint PRIMARY KEY, payload text, status text, available_at timestamptz(3)%s", rest);
	check_refused(columns, "needs microseconds");
	snprintf(columns, sizeof(columns),
		 "id bigint PRIMARY KEY, payload text, status varchar(5), available_at timestamptz%s", rest);
	check_refused(columns, "\"PENDING\" does not fit");
	snprintf(columns, sizeof(columns), "id bigint PRIMARY KEY, payload text, status text, available_at text%s",
		 rest);
	check_refused(columns, "it must be timestamp with time zone");
	check_refused(
		"id bigint PRIMARY KEY, payload text, status text, available_at timestamptz, aggregate_id text, attempts int",
		"on_failed: block needs");
}
END_TEST

/* ---- values ---- */

START_TEST(test_F010_null_infinite_unknown)
{
	struct config_source source = server_source("loose");
	struct sqlbench bench;
	PGresult *result;
	int row;

	sqlbench_run(
		"DROP TABLE IF EXISTS loose; CREATE TABLE loose (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_id text, "
		"payload text, status text, attempts int, available_at timestamptz, lease_until timestamptz, lease_owner text, "
		"last_error text, created_at timestamptz, settled_at timestamptz)");
	sqlbench_run(
		"INSERT INTO loose (status, attempts, available_at, created_at) VALUES ('PENDING', NULL, NULL, NULL), "
		"('PENDING', 0, '-infinity', 'infinity'), ('PENDING', 2147483647, now(), '-infinity'), ('PENDING', 0, now(), now() - interval '1 h'), "
		"('PENDING', 0, 'infinity', now()), ('pending', 0, now(), now()), (' PENDING', 0, now(), now()), (NULL, 0, now(), now())");
	bench = sqlbench_open(source);
	result = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_PENDING), 4);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_PARKED), 1);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_UNKNOWN), 3);
	ck_assert_int_ge(server_int8(result, 0, SQL_N_OLDEST_US), INT64_C(3600000000));
	ck_assert_int_lt(server_int8(result, 0, SQL_N_OLDEST_US), INT64_C(3700000000));
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 4);
	for (row = 0; row < 4; row++)
		ck_assert_int_eq(PQgetisnull(result, row + 1, SQL_C_CREATED_AT), row == 0);
	ck_assert_int_eq(server_int8(result, 2, SQL_C_CREATED_AT), INT64_MAX);
	ck_assert_int_eq(server_int8(result, 3, SQL_C_CREATED_AT), INT64_MIN);
	ck_assert_int_eq(server_int4(result, 1, SQL_C_ATTEMPTS), 1);
	ck_assert_int_eq(server_int4(result, 3, SQL_C_ATTEMPTS), INT32_MAX);
	ck_assert_int_eq(
		NUMBER(&bench, "SELECT count(*) FROM loose WHERE id > 5 AND lease_until IS NULL AND attempts = 0"),
		3);
	PQclear(result);
}
END_TEST

START_TEST(test_payloads)
{
	struct config_source source = server_source("bytesbox");
	struct sqlbench bench;
	PGresult *result;

	sqlbench_run(
		"DROP TABLE IF EXISTS bytesbox; CREATE TABLE bytesbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_id text, "
		"payload bytea, status text DEFAULT 'PENDING', attempts int, available_at timestamptz DEFAULT now(), last_error text)");
	sqlbench_run("INSERT INTO bytesbox (payload) VALUES (NULL), (''), ('\\x00ff')");
	bench = sqlbench_open(source);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert(PQgetisnull(result, 1, SQL_C_PAYLOAD));
	ck_assert(!PQgetisnull(result, 2, SQL_C_PAYLOAD));
	ck_assert_int_eq(PQgetlength(result, 2, SQL_C_PAYLOAD), 0);
	ck_assert_mem_eq(PQgetvalue(result, 3, SQL_C_PAYLOAD), "\0\xff", 2);
	PQclear(result);
}
END_TEST

/* One at least, then as many as fit; the rest is for the next claim. */
START_TEST(test_bytes)
{
	struct sqlbench bench = sqlbench_standard();

	RUN(&bench, "ALTER TABLE event_outbox ALTER payload SET STORAGE EXTERNAL");
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, payload) SELECT 't', to_jsonb(repeat('x', n)) FROM unnest(ARRAY[5000, 10, 10, 900, 10]) n");
	bench.max_bytes = 1000;
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	ck_assert_int_eq(sqlbench_claim(&bench), 4);
	ck_assert_int_eq(sqlbench_claim(&bench), 0);
}
END_TEST

/* ---- who gets what ---- */

START_TEST(test_F012_late_commit)
{
	struct sqlbench bench = sqlbench_standard();
	PGconn *late = sqlbench_connect();

	server_run(late, "BEGIN; INSERT INTO event_outbox (event_type) VALUES ('late')");
	RUN(&bench, "INSERT INTO event_outbox (event_type) VALUES ('early')");
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	check_text(&bench, "2", "SELECT id FROM event_outbox WHERE status = 'SENDING'");
	server_run(late, "COMMIT");
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	PQfinish(late);
}
END_TEST

static void *claim_all(void *taken)
{
	struct sqlbench bench = sqlbench_open(server_source("event_outbox"));
	int *count = taken;
	PGresult *result;
	int n, row;

	bench.owner = "thread";
	bench.limit = 20;
	do {
		result = sqlbench_ask(&bench, SQL_CLAIM);
		n = sqlbench_claimed(result);
		for (row = 0; row < n; row++)
			__atomic_add_fetch(&count[atoll(PQgetvalue(result, row + 1, SQL_C_ID))], 1,
					   __ATOMIC_RELAXED);
		PQclear(result);
	} while (n > 0);
	PQfinish(bench.conn);
	return NULL;
}

START_TEST(test_F014_every_path_locks)
{
	static const int paths[][3] = {{380, 100, 20}, {500, 0, 0}, {0, 500, 0}, {0, 0, 500}};
	struct sqlbench bench = sqlbench_standard();
	pthread_t threads[3];
	int *taken, i;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, status, attempts, available_at, lease_until, lease_owner, last_error) "
	    "SELECT 't', 'PENDING', 0, now(), NULL::timestamptz, NULL, NULL FROM generate_series(1, %d) UNION ALL "
	    "SELECT 't', 'PENDING', 3, now() - interval '1 s', NULL, NULL, 'error' FROM generate_series(1, %d) UNION ALL "
	    "SELECT 't', 'SENDING', 1, now() - interval '1 m', now() - interval '1 s', 'dead', NULL FROM generate_series(1, %d)",
	    paths[_i][0], paths[_i][1], paths[_i][2]);
	taken = MEM_NEW_ARRAY(501, int);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, claim_all, taken), 0);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (i = 1; i <= 500; i++)
		ck_assert_msg(taken[i] == 1, "row %d was claimed %d times", i, taken[i]);
	mem_free(taken);
}
END_TEST

/* A row that somebody has locked is passed over, and its followers with it; nobody waits for it. */
START_TEST(test_locked_rows_are_passed_over)
{
	struct sqlbench bench = sqlbench_standard();
	PGconn *other = sqlbench_connect();

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id) VALUES ('t', 'k'), ('t', 'k'), ('t', 'l')");
	server_run(other, "BEGIN; SELECT FROM event_outbox WHERE id = 1 FOR UPDATE");
	RUN(&bench, "SET lock_timeout = '1s'");
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	check_text(&bench, "3", "SELECT string_agg(id::text, ' ') FROM event_outbox WHERE status = 'SENDING'");
	PQfinish(other);
}
END_TEST

START_TEST(test_F016_stale_owner_changes_nothing)
{
	struct sqlbench bench = sqlbench_standard();
	PGresult *stale, *fresh;

	RUN(&bench, "INSERT INTO event_outbox (event_type) VALUES ('t')");
	stale = sqlbench_ask(&bench, SQL_CLAIM);
	RUN(&bench, "UPDATE event_outbox SET lease_until = now() - interval '1 s'");
	fresh = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(server_int4(fresh, 1, SQL_C_TAKEN), 1);
	ck_assert_int_eq(server_int4(fresh, 1, SQL_C_ATTEMPTS), 2);
	ck_assert_int_eq(sqlbench_settle(&bench, stale, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 0);
	check_text(&bench, "SENDING 2 me",
		   "SELECT concat_ws(' ', status, attempts, lease_owner) FROM event_outbox");
	bench.owner = "another"; /* the same lease, named by somebody else */
	ck_assert_int_eq(sqlbench_settle(&bench, fresh, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 0);
	bench.owner = "me";
	ck_assert_int_eq(sqlbench_settle(&bench, fresh, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 1);
	ck_assert_int_eq(sqlbench_settle(&bench, fresh, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 0);
	PQclear(stale);
	PQclear(fresh);
}
END_TEST

START_TEST(test_F017_only_what_has_expired)
{
	struct sqlbench bench = sqlbench_standard(), other;
	PGresult *result;

	RUN(&bench, "INSERT INTO event_outbox (event_type) VALUES ('t')");
	bench.lease_us = 300000000;
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	other = sqlbench_open(server_source("event_outbox"));
	other.owner = "other";
	other.lease_us = 100000;
	ck_assert_int_eq(sqlbench_claim(&other), 0);
	PQclear(sqlbench_ask(&other, SQL_EXPIRE));
	ck_assert_int_eq(
		NUMBER(&bench, "SELECT count(*) FROM event_outbox WHERE lease_until > now() + interval '290 s'"),
		1);
	RUN(&bench, "UPDATE event_outbox SET lease_until = now()");
	result = sqlbench_ask(&other, SQL_CLAIM);
	ck_assert_int_eq(server_int4(result, 1, SQL_C_TAKEN), 2);
	PQclear(result);
}
END_TEST

/* Two attempts: left to the suspect claim, one a statement. The last one used: failed, with the reason. */
START_TEST(test_F029_suspects_and_exhausted)
{
	struct sqlbench bench = sqlbench_standard();
	PGresult *result;

	bench.max_attempts = 3;
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status, attempts, lease_until, lease_owner) SELECT 't', 'k' || n, "
	    "'SENDING', n, now() - interval '1 s', 'dead' FROM unnest(ARRAY[1, 2, 2, 3]) n");
	result = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_SUSPECTS), 2);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_EXHAUSTED), 1);
	PQclear(result);
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	result = sqlbench_ask(&bench, SQL_SUSPECT);
	ck_assert_int_eq(sqlbench_claimed(result), 1);
	ck_assert_int_eq(server_int4(result, 1, SQL_C_ATTEMPTS), 3);
	ck_assert_int_eq(server_int4(result, 1, SQL_C_TAKEN), 2);
	/* The other one has the same key: it is behind this one. */
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_SUSPECT);
	ck_assert_int_eq(sqlbench_claimed(result), 0);
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_EXPIRE);
	ck_assert_int_eq(PQntuples(result), 1);
	check_text(&bench, "lease expired, attempt 3 of 3",
		   "SELECT last_error FROM event_outbox WHERE status = 'FAILED'");
	PQclear(result);
}
END_TEST

/* ---- order ---- */

START_TEST(test_F037_equal_times)
{
	struct sqlbench bench = sqlbench_standard();
	PGresult *result;
	int row;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', 'k' FROM generate_series(1, 100)");
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 100);
	for (row = 0; row < 100; row++)
		ck_assert_int_eq(atoll(PQgetvalue(result, row + 1, SQL_C_ID)), row + 1);
	PQclear(result);
}
END_TEST

/* An id without an order, and a sequence that has one. */
START_TEST(test_F037_order_column)
{
	struct config_source source = server_source("sequenced");
	struct sqlbench bench;
	PGresult *result = NULL;
	char want[16];
	int row;

	source.columns[COLUMN_ORDER] = "seq";
	sqlbench_make_table(&source);
	sqlbench_run(
		"INSERT INTO sequenced (event_type, aggregate_id) SELECT 't', 'k' FROM generate_series(1, 30)");
	bench = sqlbench_open(source);
	ck_assert_int_eq(sql_order(bench.sql), SQL_ORDER_NUMBER);
	bench.limit = 10;
	for (row = 0; row < 30; row++) {
		if (row % 10 == 0)
			result = sqlbench_ask(&bench, SQL_CLAIM);
		snprintf(want, sizeof(want), "%d", row + 1);
		ck_assert_str_eq(PQgetvalue(result, row % 10 + 1, SQL_C_ORDER), want);
	}
	ck_assert_int_eq(sqlbench_settle(&bench, result, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 10);
}
END_TEST

/* Behind a head that waits the rows are parked once, to its time; behind one that has failed, without a date. */
START_TEST(test_F035_blocked_rows_are_parked_once)
{
	struct sqlbench bench = sqlbench_standard();
	PGresult *result;
	int i;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status, available_at, last_error) VALUES "
	    "('t', 'waits', 'PENDING', now() + interval '1 h', 'error'), ('t', 'failed', 'FAILED', '9999-12-31Z', 'error')");
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', k FROM generate_series(1, 300), unnest(ARRAY['waits', 'failed']) k");
	RUN(&bench, "INSERT INTO event_outbox (event_type, aggregate_id) VALUES ('t', 'free')");
	for (i = 0; i < 7; i++)
		PQclear(sqlbench_ask(&bench, SQL_CLAIM));
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM event_outbox WHERE status = 'SENDING'"), 1);
	ck_assert_int_eq(
		NUMBER(&bench,
		       "SELECT count(*) FROM event_outbox WHERE available_at = '9999-12-31Z' AND status = 'PENDING'"),
		300);
	ck_assert_int_eq(
		NUMBER(&bench,
		       "SELECT count(*) FROM event_outbox WHERE available_at BETWEEN now() + interval '4 m' AND now() + interval '5 m'"),
		300);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(server_int8(result, 0, SQL_C_CANDIDATES) + server_int8(result, 0, SQL_C_PARKED), 0);
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_PARKED), 300);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_FAILED), 1);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_BLOCKED_KEYS), 1);
	PQclear(result);
	/* Nothing to free while the head is there. */
	result = sqlbench_ask(&bench, SQL_SWEEP);
	ck_assert_int_eq(server_int8(result, 0, 0), 0);
	PQclear(result);
	RUN(&bench, "DELETE FROM event_outbox WHERE status = 'FAILED'");
	result = sqlbench_ask(&bench, SQL_SWEEP);
	ck_assert_int_eq(server_int8(result, 0, 0), 300);
	PQclear(result);
	ck_assert_int_eq(sqlbench_claim(&bench), 100);
}
END_TEST

/* In one column the time of a row in flight is its lease: parking behind it would make followers wait for the lease. */
START_TEST(test_one_column_head_in_flight)
{
	struct sqlbench bench = sqlbench_open(sqlbench_message_source());
	PGresult *head, *result;

	RUN(&bench, "INSERT INTO agent_message (task_id) VALUES ('k'), ('k')");
	bench.limit = 1;
	head = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(head), 1);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 0);
	ck_assert_int_eq(server_int8(result, 0, SQL_C_PARKED), 0);
	PQclear(result);
	ck_assert_int_eq(sqlbench_settle(&bench, head, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 1);
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
	PQclear(head);
}
END_TEST

/* A skipped row is failed and holds nothing back; a failed one does; the row's own limit of attempts counts. */
START_TEST(test_one_column_failed_and_skipped)
{
	struct sqlbench bench = sqlbench_open(sqlbench_message_source());
	PGresult *result;

	RUN(&bench,
	    "INSERT INTO agent_message (task_id, status, last_error, max_retry) VALUES ('k', 'FAILED', 'skipped: no', NULL), "
	    "('k', 'PENDING', NULL, 7), ('l', 'FAILED', NULL, NULL), ('l', 'PENDING', NULL, NULL)");
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 1);
	ck_assert_int_eq(server_int4(result, 1, SQL_C_MAX_ATTEMPTS), 7);
	ck_assert_int_eq(server_int8(result, 0, SQL_C_PARKED), 1);
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_FAILED), 1);
	ck_assert_int_eq(server_int8(result, 0, SQL_N_BLOCKED_KEYS), 1);
	ck_assert(PQgetisnull(result, 0, SQL_N_UNKNOWN));
	PQclear(result);
}
END_TEST

/* The head is due later than its followers, which fill every claim: it is drawn forward. Once it waits for its retry, once
 * its lease has ended, where that is later than the NULL of rows that were never claimed. */
START_TEST(test_heads_are_pulled)
{
	struct sqlbench bench = sqlbench_open(sqlbench_message_source());
	PGresult *result;

	bench.limit = 10;
	RUN(&bench,
	    "INSERT INTO agent_message (task_id, status, next_retry_time, attempts) VALUES ('k', '%s', now() - interval '1 s', 1)",
	    _i == 0 ? "PENDING" : "SENDING");
	RUN(&bench, "INSERT INTO agent_message (task_id) SELECT 'k' FROM generate_series(1, 200)");
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(result), 0);
	ck_assert_int_ge(server_int8(result, 0, SQL_C_PULLED), 1);
	PQclear(result);
	result = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_ge(sqlbench_claimed(result), 1);
	ck_assert_str_eq(PQgetvalue(result, 1, SQL_C_ID), "1");
	PQclear(result);
}
END_TEST

/* What the update does not reach makes the claim by id fail as a whole. */
START_TEST(test_raced_claim_by_id)
{
	struct config_source source = server_source("parts");
	struct sqlbench bench;
	PGresult *result;

	sqlbench_run(
		"DROP TABLE IF EXISTS parts; CREATE TABLE parts (id bigint, aggregate_id text, payload text, status text DEFAULT 'PENDING', attempts int DEFAULT 0, "
		"available_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, lease_owner text, last_error text, settled_at timestamptz, "
		"PRIMARY KEY (id, aggregate_id)) PARTITION BY HASH (aggregate_id); "
		"CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH "
		"(MODULUS 2, REMAINDER 1); INSERT INTO parts (id, aggregate_id) SELECT n, 'k' || n % 3 FROM generate_series(1, 9) n");
	sqlbench_run(
		"CREATE OR REPLACE FUNCTION parts_no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
		"CREATE TRIGGER no BEFORE UPDATE ON parts_0 FOR EACH ROW WHEN (OLD.id = 4) EXECUTE FUNCTION parts_no(); "
		"CREATE TRIGGER no BEFORE UPDATE ON parts_1 FOR EACH ROW WHEN (OLD.id = 4) EXECUTE FUNCTION parts_no()");
	bench = sqlbench_open(source);
	result = sqlbench_execute(&bench, SQL_CLAIM, NULL, NULL);
	ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "22P02");
	ck_assert_ptr_nonnull(strstr(PQresultErrorMessage(result), SQL_RACED_MARK));
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM parts WHERE status <> 'PENDING'"), 0);
	RUN(&bench, "DROP TRIGGER no ON parts_0; DROP TRIGGER no ON parts_1");
	ck_assert_int_eq(sqlbench_claim(&bench), 9);
	PQclear(result);
}
END_TEST

/* ---- the DDL ---- */

/* The commented GRANTs are exact: with them every statement runs, and no one of them can be left out. */
START_TEST(test_F009_grants)
{
	struct sqlbench bench = sqlbench_standard(), limited;
	PGresult *result;
	int kind;

	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', 'k' FROM generate_series(1, 5)");
	RUN(&bench,
	    "DO 'BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ''outboxd_test'') THEN CREATE ROLE outboxd_test; END IF; END'");
	RUN(&bench,
	    "GRANT SELECT ON event_outbox TO outboxd_test; GRANT UPDATE (status, attempts, available_at, lease_until, lease_owner, "
	    "last_error, settled_at) ON event_outbox TO outboxd_test");
	limited = sqlbench_open(server_source("event_outbox"));
	RUN(&limited, "SET ROLE outboxd_test");
	result = sqlbench_ask(&limited, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_settle(&limited, result, (struct sqlbench_outcome){ROW_PENDING, 0, 1, NULL}), 5);
	PQclear(result);
	result = sqlbench_ask(&limited, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_settle(&limited, result, (struct sqlbench_outcome){ROW_SENT, 0, 0, NULL}), 5);
	PQclear(result);
	for (kind = SQL_SUSPECT; kind < SQL_INSPECT; kind++) {
		if (kind != SQL_SETTLE && kind != SQL_SETTLE_SENT)
			PQclear(sqlbench_ask(&limited, kind));
	}
	RUN(&bench, "REVOKE UPDATE (lease_owner) ON event_outbox FROM outboxd_test");
	result = sqlbench_execute(&limited, SQL_CLAIM, NULL, NULL);
	ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "42501");
	PQclear(result);
}
END_TEST

/* A finished row set pending by hand fails loudly. */
START_TEST(test_finished_rows_stay_finished)
{
	struct sqlbench bench = sqlbench_standard();
	PGresult *result;

	RUN(&bench, "INSERT INTO event_outbox (event_type, status, settled_at) VALUES ('t', 'SENT', now())");
	result = PQexec(bench.conn, "UPDATE event_outbox SET status = 'PENDING'");
	ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "23514");
	PQclear(result);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql_server");
	TCase *tcase = tcase_create("sql_server");

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_F004_F005_types);
	tcase_add_test(tcase, test_F006_names);
	tcase_add_test(tcase, test_a_table_that_does_not_fit);
	tcase_add_test(tcase, test_F010_null_infinite_unknown);
	tcase_add_test(tcase, test_payloads);
	tcase_add_test(tcase, test_bytes);
	tcase_add_test(tcase, test_F012_late_commit);
	tcase_add_loop_test(tcase, test_F014_every_path_locks, 0, 4);
	tcase_add_test(tcase, test_locked_rows_are_passed_over);
	tcase_add_test(tcase, test_F016_stale_owner_changes_nothing);
	tcase_add_test(tcase, test_F017_only_what_has_expired);
	tcase_add_test(tcase, test_F029_suspects_and_exhausted);
	tcase_add_test(tcase, test_F037_equal_times);
	tcase_add_test(tcase, test_F037_order_column);
	tcase_add_test(tcase, test_F035_blocked_rows_are_parked_once);
	tcase_add_test(tcase, test_one_column_head_in_flight);
	tcase_add_test(tcase, test_one_column_failed_and_skipped);
	tcase_add_loop_test(tcase, test_heads_are_pulled, 0, 2);
	tcase_add_test(tcase, test_raced_claim_by_id);
	tcase_add_test(tcase, test_F009_grants);
	tcase_add_test(tcase, test_finished_rows_stay_finished);
	suite_add_tcase(suite, tcase);
	return suite;
}
