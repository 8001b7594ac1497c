/* on_delivered: await on a real server: rows stay in flight until their consumers have written a result, whatever relay and
 * consumers write at the same time. */
#include "../unit/unit.h"
#include "sqlbench.h"

#include <stdlib.h>
#include <string.h>

static const struct sqlbench_outcome delivered = {ROW_SENT, 0, 0, NULL};
static const struct sqlbench_outcome retried = {ROW_PENDING, 60000000, 0, "again"};

static struct config_source awaiting(const char *table)
{
	struct config_source source = server_source(table);

	source.ordering = ORDERING_NONE;
	source.on_delivered = ON_DELIVERED_AWAIT;
	source.result_timeout_us = INT64_C(600000000);
	source.lease_us = 60000000;
	return source;
}

/* Two time columns, an owner, settled_at. */
static struct sqlbench standard(void)
{
	struct config_source source = awaiting("event_outbox");

	sqlbench_make_table(&source);
	return sqlbench_open(source);
}

static const char columns[] =
	"id bigint, aggregate_id text, event_type text, payload text, status text DEFAULT 'PENDING', attempts int DEFAULT 0, "
	"available_at timestamptz NOT NULL DEFAULT now(), last_error text, updated_at timestamptz";

/* Without an index; updated_at tells whose time is over. */
static struct config_source task_source(const char *table)
{
	struct config_source source = awaiting(table);

	source.preset = "task";
	source.columns[COLUMN_LEASE_UNTIL] = "available_at";
	source.columns[COLUMN_LEASE_OWNER] = source.columns[COLUMN_SETTLED_AT] = source.columns[COLUMN_HEADERS] =
		NULL;
	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_CREATED_AT] = NULL;
	source.columns[COLUMN_UPDATED_AT] = "updated_at";
	source.columns[COLUMN_KEY] = "id";
	return source;
}

static struct sqlbench task(void)
{
	struct buf sql = {0};

	buf_print(&sql, "DROP TABLE IF EXISTS tasks; CREATE TABLE tasks (%s, PRIMARY KEY (id))", columns);
	sqlbench_run(buf_text(&sql));
	buf_free(&sql);
	return sqlbench_open(task_source("tasks"));
}

/* Rows have no ctid of their own. */
static struct sqlbench partitioned(void)
{
	struct buf sql = {0};

	buf_print(&sql,
		  "DROP TABLE IF EXISTS parts; CREATE TABLE parts (%s, PRIMARY KEY (id)) PARTITION BY HASH (id); "
		  "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
		  "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
		  columns);
	sqlbench_run(buf_text(&sql));
	buf_free(&sql);
	return sqlbench_open(task_source("parts"));
}

static const struct layout {
	struct sqlbench (*make)(void);
	const char *insert;
	/* The time of rows in flight has ended: of a lease, and of a result. */
	const char *lease_over, *result_over;
} layouts[] = {
	{standard, "INSERT INTO event_outbox (event_type) SELECT 't' FROM generate_series(1, 9)",
	 "available_at = now() - interval '1 s', lease_until = now() - interval '1 s', lease_owner = 'somebody'",
	 "available_at = now() - interval '1 s', lease_until = now() - interval '1 s', lease_owner = NULL"},
	{task, "INSERT INTO tasks (id) SELECT n FROM generate_series(1, 9) n",
	 "available_at = now() - interval '1 s', updated_at = now() - interval '61 s'",
	 "available_at = now() - interval '1 s', updated_at = now() - interval '601 s'"},
	{partitioned, "INSERT INTO parts (id) SELECT n FROM generate_series(1, 9) n",
	 "available_at = now() - interval '1 s', updated_at = now() - interval '61 s'",
	 "available_at = now() - interval '1 s', updated_at = now() - interval '601 s'"},
};

static struct sqlbench filled(const struct layout *layout)
{
	struct sqlbench bench = layout->make();

	sqlbench_run(layout->insert);
	return bench;
}

#define ROWS(bench, condition, ...) \
	NUMBER(bench, "SELECT count(*) FROM %s WHERE " condition, (bench)->source.table, ##__VA_ARGS__)
#define CHANGE(bench, changes, ...) RUN(bench, "UPDATE %s SET " changes, (bench)->source.table, ##__VA_ARGS__)

/* Its lease and its owner are gone, and it is due when the result is late. */
START_TEST(test_a_delivered_row_waits_for_its_result)
{
	struct sqlbench bench = filled(&layouts[_i]);
	const char *lease = bench.source.columns[COLUMN_LEASE_UNTIL];
	PGresult *claim;

	bench.limit = 4;
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), 4);
	ck_assert_int_eq(sqlbench_settle(&bench, claim, delivered), 4);
	ck_assert_int_eq(ROWS(&bench,
			      "status = 'SENDING' AND attempts = 1 AND available_at = %s AND "
			      "available_at - now() BETWEEN interval '595 s' AND interval '600 s'",
			      lease),
			 4);
	ck_assert_int_eq(sqlbench_settle(&bench, claim, delivered),
			 0); /* its answer was lost, and it is sent again */
	bench.limit = 100;
	ck_assert_int_eq(sqlbench_claim(&bench), 5);
	ck_assert_int_eq(sqlbench_claim(&bench), 0);
	if (_i == 0)
		ck_assert_int_eq(ROWS(&bench, "lease_owner IS NULL"), 4);
	PQclear(claim);
}
END_TEST

/* The consumer was faster than the settle: what it has written stays, and is nothing to complain of. */
static void finish_before_settle(struct sqlbench *bench, struct sqlbench_outcome outcome)
{
	PGresult *claim = sqlbench_ask(bench, SQL_CLAIM);
	char *before, *after;

	ck_assert_int_eq(sqlbench_claimed(claim), 9);
	CHANGE(bench, "status = 'SENT' WHERE id = 1");
	CHANGE(bench, "status = 'FAILED', last_error = 'mine' WHERE id = 2");
	CHANGE(bench, "status = 'PENDING', available_at = now() WHERE id = 3");
	RUN(bench, "DELETE FROM %s WHERE id = 4", bench->source.table);
	/* Somebody else's by now. */
	CHANGE(bench, "%s = now() + interval '1 h' WHERE id = 5", bench->source.columns[COLUMN_LEASE_UNTIL]);
	before = server_text(bench->conn, "SELECT string_agg(t::text, ' ' ORDER BY id) FROM %s t WHERE id <= 5",
			     bench->source.table);
	ck_assert_int_eq(sqlbench_settle(bench, claim, outcome), 8);
	after = server_text(bench->conn, "SELECT string_agg(t::text, ' ' ORDER BY id) FROM %s t WHERE id <= 5",
			    bench->source.table);
	ck_assert_str_eq(before, after);
	free(before);
	free(after);
	PQclear(claim);
}

START_TEST(test_what_a_consumer_has_written_is_not_overwritten)
{
	struct sqlbench bench = filled(&layouts[_i]);

	finish_before_settle(&bench, delivered);
	ck_assert_int_eq(ROWS(&bench, "id > 5 AND status = 'SENDING' AND available_at > now() + interval '9 min'"),
			 4);
}
END_TEST

START_TEST(test_nor_by_a_row_that_seemed_undelivered)
{
	struct sqlbench bench = filled(&layouts[_i]);

	finish_before_settle(&bench, retried);
	ck_assert_int_eq(ROWS(&bench, "id > 5 AND status = 'PENDING' AND last_error = 'again'"), 4);
}
END_TEST

/* Until a session waits for a lock. */
static void wait_for_lock(const struct sqlbench *bench, const struct sqlbench *waiting)
{
	int64_t tries = 0;

	while (NUMBER(bench, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
		      PQbackendPID(waiting->conn)) == 0)
		ck_assert_int_lt(tries++, 100000);
}

/* It writes while the settle is already under way. */
START_TEST(test_a_result_in_an_open_transaction)
{
	struct sqlbench bench = filled(&layouts[_i]), consumer = bench;
	struct server_values values = {0};
	struct settle *settle;
	PGresult *claim, *settled;

	consumer.conn = sqlbench_connect();
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	RUN(&consumer, "BEGIN");
	CHANGE(&consumer, "status = 'SENT' WHERE id = 1");
	CHANGE(&consumer, "last_error = 'half' WHERE id = 2");
	settle = sqlbench_outcomes(&bench, claim, delivered, &values);
	sqlbench_send(&bench, SQL_SETTLE_SENT, NULL, &values);
	wait_for_lock(&consumer, &bench);
	RUN(&consumer, "COMMIT");
	settled = server_finish(bench.conn);
	ck_assert_int_eq(PQntuples(settled), 9);
	ck_assert_int_eq(ROWS(&bench, "status = 'SENT'"), 1);
	ck_assert_int_eq(ROWS(&bench, "status = 'SENDING' AND available_at > now() + interval '9 min'"), 8);
	ck_assert_int_eq(ROWS(&bench, "last_error = 'half'"), 1);
	settle_free(settle);
	PQclear(settled);
	PQclear(claim);
}
END_TEST

/* A late one is taken with all others, however often it was sent; a lease that ran out may have been a crash. */
START_TEST(test_late_results_and_lost_leases)
{
	const struct layout *layout = &layouts[_i];
	struct sqlbench bench = filled(layout);
	PGresult *claim;
	int row;

	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(server_int4(claim, 1, SQL_C_TAKEN), SQL_TAKEN_PENDING);
	PQclear(claim);
	CHANGE(&bench, "attempts = 5, %s WHERE id <= 6", layout->result_over);
	CHANGE(&bench, "attempts = 2, %s WHERE id > 6", layout->lease_over);
	claim = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(claim, 0, SQL_N_SUSPECTS), 3);
	ck_assert_int_eq(server_int8(claim, 0, SQL_N_EXHAUSTED), 0);
	PQclear(claim);
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), 6);
	for (row = 1; row <= 6; row++) {
		ck_assert_int_eq(server_int4(claim, row, SQL_C_TAKEN), SQL_TAKEN_LATE);
		ck_assert_int_eq(server_int4(claim, row, SQL_C_ATTEMPTS), 6);
	}
	PQclear(claim);
	for (row = 0; row < 3; row++) {
		claim = sqlbench_ask(&bench, SQL_SUSPECT);
		ck_assert_int_eq(sqlbench_claimed(claim), 1);
		ck_assert_int_eq(server_int4(claim, 1, SQL_C_TAKEN), SQL_TAKEN_FOREIGN);
		PQclear(claim);
	}
	CHANGE(&bench, "attempts = 1, %s WHERE id = 7", layout->lease_over);
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), 1);
	ck_assert_int_eq(server_int4(claim, 1, SQL_C_TAKEN), SQL_TAKEN_FOREIGN);
	PQclear(claim);
}
END_TEST

START_TEST(test_after_the_last_attempt_the_row_says_why_it_failed)
{
	const struct layout *layout = &layouts[_i];
	struct sqlbench bench = filled(layout);
	PGresult *expired;
	int row, late = 0;

	bench.max_attempts = 5;
	ck_assert_int_eq(sqlbench_claim(&bench), 9);
	CHANGE(&bench, "attempts = 5, %s WHERE id <= 6", layout->result_over);
	CHANGE(&bench, "attempts = 5, %s WHERE id > 6", layout->lease_over);
	ck_assert_int_eq(sqlbench_claim(&bench), 0);
	expired = sqlbench_ask(&bench, SQL_COUNT);
	ck_assert_int_eq(server_int8(expired, 0, SQL_N_EXHAUSTED), 9);
	PQclear(expired);
	expired = sqlbench_ask(&bench, SQL_EXPIRE);
	ck_assert_int_eq(PQntuples(expired), 9);
	for (row = 0; row < 9; row++)
		late += server_int4(expired, row, 1);
	ck_assert_int_eq(late, 6);
	ck_assert_int_eq(
		ROWS(&bench,
		     "status = 'FAILED' AND id <= 6 AND last_error = 'no result within 10m, attempt 5 of 5'"),
		6);
	ck_assert_int_eq(
		ROWS(&bench, "status = 'FAILED' AND id > 6 AND last_error = 'lease expired, attempt 5 of 5'"), 3);
	PQclear(expired);
}
END_TEST

static int claimed(struct sqlbench *bench, int full)
{
	PGresult *claim = sqlbench_ask(bench, SQL_CLAIM);
	int n = sqlbench_claimed(claim);

	ck_assert_int_eq(server_int4(claim, 0, SQL_C_FULL), full);
	PQclear(claim);
	return n;
}

/* Whatever is in flight counts, and what is overdue goes first: it takes no more room than it has. */
START_TEST(test_no_more_than_max_in_flight)
{
	const struct layout *layout = &layouts[_i];
	struct sqlbench bench = filled(layout);

	bench.max_in_flight = 5;
	ck_assert_int_eq(claimed(&bench, 1), 5);
	ck_assert_int_eq(claimed(&bench, 1), 0);
	CHANGE(&bench, "status = 'SENT' WHERE id IN (SELECT id FROM %s WHERE status = 'SENDING' LIMIT 2)",
	       bench.source.table);
	ck_assert_int_eq(claimed(&bench, 1), 2);
	CHANGE(&bench, "%s WHERE status = 'SENDING'", layout->result_over);
	CHANGE(&bench, "available_at = now() - interval '1 h' WHERE status = 'PENDING'");
	bench.limit = 3;
	ck_assert_int_eq(claimed(&bench, 1), 3);
	ck_assert_int_eq(ROWS(&bench, "attempts = 2"), 3);
	bench.limit = 100;
	ck_assert_int_eq(claimed(&bench, 1), 2);
	ck_assert_int_eq(ROWS(&bench, "attempts = 2"), 5);
	bench.max_in_flight = 3; /* lowered meanwhile */
	ck_assert_int_eq(claimed(&bench, 1), 0);
	bench.max_in_flight = 100;
	ck_assert_int_eq(claimed(&bench, 0), 2);
}
END_TEST

/* Another claim is about to commit: what it takes is counted. */
START_TEST(test_claims_take_turns)
{
	struct sqlbench bench = filled(&layouts[_i]), other = bench;
	PGresult *claim;

	other.conn = sqlbench_connect();
	bench.max_in_flight = 5;
	RUN(&other, "BEGIN");
	RUN(&other, "%s", sql_statement(other.sql, SQL_CLAIM)->before);
	CHANGE(&other,
	       "status = 'SENDING', attempts = 1, available_at = now() + interval '1 min' WHERE id IN (SELECT id "
	       "FROM %s LIMIT 5)",
	       other.source.table);
	sqlbench_send(&bench, SQL_CLAIM, NULL, NULL);
	wait_for_lock(&other, &bench);
	RUN(&other, "COMMIT");
	claim = server_finish(bench.conn);
	ck_assert_int_eq(sqlbench_claimed(claim), 0);
	ck_assert_int_eq(server_int4(claim, 0, SQL_C_FULL), 1);
	ck_assert_int_eq(ROWS(&bench, "status = 'SENDING'"), 5);
	PQclear(claim);
}
END_TEST

/* A result_timeout as long as a lease: then nothing but an owner would tell them apart. */
START_TEST(test_without_a_sign_rows_are_late)
{
	struct sqlbench bench = filled(&layouts[1]);
	PGresult *claim;

	bench.source.result_timeout_us = bench.source.lease_us;
	bench = sqlbench_open(bench.source);
	ck_assert_int_eq(sqlbench_claim(&bench), 9);
	CHANGE(&bench, "attempts = 5, %s", layouts[1].lease_over);
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), 9);
	ck_assert_int_eq(server_int4(claim, 1, SQL_C_TAKEN), SQL_TAKEN_LATE);
	PQclear(claim);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql_await");
	TCase *tcase = tcase_create("sql_await");
	int n = (int)(sizeof(layouts) / sizeof(layouts[0]));

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_a_delivered_row_waits_for_its_result, 0, n);
	tcase_add_loop_test(tcase, test_what_a_consumer_has_written_is_not_overwritten, 0, n);
	tcase_add_loop_test(tcase, test_nor_by_a_row_that_seemed_undelivered, 0, n);
	tcase_add_loop_test(tcase, test_a_result_in_an_open_transaction, 0, n);
	tcase_add_loop_test(tcase, test_late_results_and_lost_leases, 0, n);
	tcase_add_loop_test(tcase, test_after_the_last_attempt_the_row_says_why_it_failed, 0, n);
	tcase_add_loop_test(tcase, test_no_more_than_max_in_flight, 0, n);
	tcase_add_loop_test(tcase, test_claims_take_turns, 0, n);
	tcase_add_test(tcase, test_without_a_sign_rows_are_late);
	suite_add_tcase(suite, tcase);
	return suite;
}
