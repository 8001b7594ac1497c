/* io/db and io/dbpool on a real server: what goes in and out, and the verdict of every way to fail. */
#include "../unit/unit.h"
#include "pgrig.h"

#include "base/mem.h"
#include "core/pgarray.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what goes in and out ---- */

START_TEST(test_bytes_arrive_as_they_are)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=bytes"));
	struct sql_statement statement = {
		.text = "SELECT $1::bytea, $2::text, $3::int8, $4::text, ($5::text[])[2], $5::text[] IS NULL",
		.n_params = 5};
	char all[256], int8[8] = {0x7f, -1, -1, -1, -1, -1, -1, -1};
	struct pgarray array = {0};
	struct slice values[5];
	struct answer answer;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	pgarray_begin(&array, PGOID_TEXT);
	pgarray_add_bytes(&array, SLICE_NULL);
	pgarray_add_bytes(&array, slice_of("\xc3\xa4 ' \" \\"));
	values[0] = (struct slice){all, sizeof(all)};
	values[1] = slice_of("");
	values[2] = (struct slice){int8, sizeof(int8)};
	values[3] = SLICE_NULL;
	values[4] = pgarray_end(&array);
	ck_assert(pgrig_run_until(pgrig_pool_free, pool, 10));
	pgrig_submit(pool, &statement, values, &answer);
	pgarray_free(&array);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 10));
	ck_assert_int_eq(answer.verdict, VERDICT_OK);
	ck_assert_str_eq(answer.sqlstate, "");
	ck_assert_int_gt(answer.duration_us, 0);
	ck_assert_int_eq(db_result_rows(answer.result), 1);
	ck_assert(slice_equal(db_result_cell(answer.result, 0, 0), (struct slice){all, sizeof(all)}));
	ck_assert(slice_equal(db_result_cell(answer.result, 0, 1), slice_of("")));
	ck_assert_int_eq(pg_get_int8(db_result_cell(answer.result, 0, 2)), INT64_MAX);
	ck_assert(slice_equal(db_result_cell(answer.result, 0, 3), SLICE_NULL));
	ck_assert(slice_equal(db_result_cell(answer.result, 0, 4), slice_of("\xc3\xa4 ' \" \\")));
	ck_assert(slice_equal(db_result_cell(answer.result, 0, 5), (struct slice){"\0", 1}));
	db_result_free(answer.result);
	dbpool_free(pool);
}
END_TEST

/* More than the socket takes at once, in both directions. */
START_TEST(test_large_values)
{
	static const size_t size = 20 << 20;
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=large"));
	struct sql_statement statement = {.text = "SELECT $1::bytea FROM generate_series(1, 3)", .n_params = 1};
	char *bytes = mem_new(size, 1);
	struct slice value = {bytes, size};
	struct answer answer;

	memset(bytes, 0xa5, size);
	ck_assert(pgrig_run_until(pgrig_pool_free, pool, 10));
	pgrig_submit(pool, &statement, &value, &answer);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 60));
	ck_assert_int_eq(answer.verdict, VERDICT_OK);
	for (int row = 0; row < 3; row++)
		ck_assert(slice_equal(db_result_cell(answer.result, row, 0), value));
	db_result_free(answer.result);
	mem_free(bytes);
	dbpool_free(pool);
}
END_TEST

/* A boolean SQL expression is true inside a request's transaction. */
static void expect_inside(struct dbpool *pool, const char *expression)
{
	char text[512];
	struct sql_statement statement = {.text = text};
	struct answer answer;

	snprintf(text, sizeof(text), "SELECT (%s)::int::int8", expression);
	ck_assert(pgrig_run_until(pgrig_pool_free, pool, 10));
	pgrig_submit(pool, &statement, NULL, &answer);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 10));
	ck_assert_msg(answer.verdict == VERDICT_OK, "%s: %s", expression, answer.message);
	ck_assert_msg(pg_get_int8(db_result_cell(answer.result, 0, 0)) == 1, "not so: %s", expression);
	db_result_free(answer.result);
}

START_TEST(test_F059_settings_end_with_the_transaction)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("connect_timeout=3"));
	struct dbpool *pool;
	static const char *const inside[] = {
		"current_setting('transaction_isolation') = 'read committed'",
		"current_setting('statement_timeout') = '2s'",
		"current_setting('lock_timeout') = '300ms'",
		"current_setting('jit') = 'off'",
		"current_setting('plan_cache_mode') = 'force_generic_plan'",
		"current_setting('enable_seqscan') = 'off'",
		"current_setting('enable_bitmapscan') = 'off'",
		"current_setting('enable_sort') = 'off'",
		"current_setting('application_name') = 'outboxd'",
		"current_setting('client_encoding') = 'UTF8'",
		"(SELECT count(*) FROM pg_prepared_statements WHERE name <> '') = 0",
	};

	config.connections = 1;
	pool = dbpool_new(loop, &config);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		expect_inside(pool, inside[i]);
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'outboxd' "
				      "AND datname = current_database()"
				      " AND state = 'idle' AND backend_xid IS NULL"),
			 1);
	dbpool_free(pool);
}
END_TEST

static int64_t ask_number(struct dbpool *pool, const struct sql_statement *statement)
{
	struct answer answer;
	int64_t number;

	pgrig_submit(pool, statement, NULL, &answer);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 10));
	ck_assert_msg(answer.verdict == VERDICT_OK, "%s: %s", answer.sqlstate, answer.message);
	number = pg_get_int8(db_result_cell(answer.result, 0, 0));
	db_result_free(answer.result);
	return number;
}

/* No pooler is in between: a frequent statement is prepared once, planned once, and forgotten after an error. */
START_TEST(test_F021_F059_prepared_in_a_session_of_its_own)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=prepared"));
	struct sql_statement named = {.text = "SELECT max(v)::int8 FROM dbtest.one", .name = "outboxd_named"};
	struct sql_statement plans = {
		.text = "SELECT coalesce(sum(generic_plans), -1)::int8 FROM pg_prepared_statements WHERE name = 'outboxd_named'"};
	struct dbpool *pool;
	struct answer answer;

	pgrig_sql("CREATE TABLE dbtest.one (v int); INSERT INTO dbtest.one VALUES (7)");
	config.connections = 1;
	pool = dbpool_new(loop, &config);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ask_number(pool, &named), 7);
	ck_assert_int_eq(ask_number(pool, &plans), 3);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1 / 0").fault, SQL_DATA);
	ck_assert_int_eq(ask_number(pool, &plans), 3);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT * FROM dbtest.nothing").fault, SQL_SOURCE);
	ck_assert_int_eq(ask_number(pool, &plans), -1);
	ck_assert_int_eq(ask_number(pool, &named), 7);
	/* Behind our back; the first request finds out, the next works. */
	ck_assert_int_eq(pgrig_ask(pool, "DEALLOCATE outboxd_named").verdict, VERDICT_OK);
	pgrig_submit(pool, &named, NULL, &answer);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 10));
	ck_assert_int_eq(answer.verdict, VERDICT_RETRY);
	ck_assert_str_eq(answer.sqlstate, "26000");
	ck_assert_int_eq(ask_number(pool, &named), 7);
	ck_assert_int_eq(dbpool_losses(pool), 0);
	dbpool_free(pool);
}
END_TEST

/* ---- verdicts ---- */

static const struct error_case {
	const char *text, *sqlstate;
	enum verdict verdict;
	enum sql_fault fault;
	bool same_session; /* the connection is kept */
} error_cases[] = {
	{"SELECT * FROM dbtest.nothing", "42P01", VERDICT_REJECT, SQL_SOURCE, true},
	{"SELECT 1 / 0", "22012", VERDICT_REJECT, SQL_DATA, true},
	{"INSERT INTO dbtest.one VALUES (1)", "23505", VERDICT_REJECT, SQL_DATA, true},
	{"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$", "40001", VERDICT_RETRY, SQL_PASSING,
	 true},
	{"UPDATE dbtest.locked SET id = 2", "55P03", VERDICT_RETRY, SQL_PASSING, true},
	{"SELECT pg_sleep(30)", "57014", VERDICT_RETRY, SQL_PASSING, true},
	{"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END $$", "25006", VERDICT_RETRY, SQL_CONNECTION,
	 false},
	{"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '57P03'; END $$", "57P03", VERDICT_RETRY, SQL_CONNECTION,
	 false},
	{"this is no SQL", "42601", VERDICT_REJECT, SQL_SOURCE, true},
};

static long only_session(const char *application)
{
	return pgrig_number("SELECT min(pid) FROM pg_stat_activity WHERE application_name = '%s'", application);
}

START_TEST(test_errors_and_their_verdicts)
{
	const struct error_case *each = &error_cases[_i];
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=errors"));
	struct dbpool *pool;
	struct answer answer;
	long session;

	config.connections = 1;
	pool = dbpool_new(loop, &config);
	pgrig_sql("CREATE TABLE dbtest.one (id int PRIMARY KEY); INSERT INTO dbtest.one VALUES (1);"
		  "CREATE TABLE dbtest.locked (id int); INSERT INTO dbtest.locked VALUES (1)");
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	session = only_session("errors");
	pgrig_sql("BEGIN; LOCK TABLE dbtest.locked");
	answer = pgrig_ask(pool, each->text);
	pgrig_sql("ROLLBACK");
	ck_assert_int_eq(answer.count, 1);
	ck_assert_str_eq(answer.sqlstate, each->sqlstate);
	ck_assert_int_eq(answer.verdict, each->verdict);
	ck_assert_int_eq(answer.fault, each->fault);
	ck_assert(answer.message[0] != '\0');
	/* Whatever it was, the next request works. */
	ck_assert_int_eq(pgrig_ask(pool, "INSERT INTO dbtest.one VALUES (2)").verdict, VERDICT_OK);
	ck_assert_int_eq(only_session("errors") == session, each->same_session);
	ck_assert_int_eq(dbpool_losses(pool), each->same_session ? 0 : 1);
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM dbtest.one"), 2);
	dbpool_free(pool);
}
END_TEST

START_TEST(test_detail_is_not_passed_on)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=detail"));
	struct answer answer;

	pgrig_sql("CREATE TABLE dbtest.one (id text PRIMARY KEY); INSERT INTO dbtest.one VALUES ('of a customer')");
	answer = pgrig_ask(pool, "INSERT INTO dbtest.one VALUES ('of a customer')");
	ck_assert_str_eq(answer.sqlstate, "23505");
	ck_assert(strstr(answer.message, "customer") == NULL);
	ck_assert_int_eq(pgrig_logged("customer"), 0);
	dbpool_free(pool);
}
END_TEST

START_TEST(test_deferred_constraint_fails_at_commit)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=deferred"));
	struct answer answer;

	pgrig_sql("CREATE TABLE dbtest.one (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
		  "INSERT INTO dbtest.one VALUES (1)");
	answer = pgrig_ask(pool, "INSERT INTO dbtest.one VALUES (1) RETURNING id");
	ck_assert_int_eq(answer.verdict, VERDICT_REJECT);
	ck_assert_int_eq(answer.fault, SQL_DATA);
	ck_assert_str_eq(answer.sqlstate, "23505");
	ck_assert_int_eq(pgrig_ask(pool, "INSERT INTO dbtest.one VALUES (2)").verdict, VERDICT_OK);
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM dbtest.one"), 2);
	ck_assert_int_eq(dbpool_losses(pool), 0);
	dbpool_free(pool);
}
END_TEST

/* ---- several at once ---- */

START_TEST(test_two_requests_overlap)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(0.8)"}, quick = {.text = "SELECT 1"};
	struct answer first, second;
	struct db_request third = {.statement = &quick, .on_answer = pgrig_keep, .context = NULL};

	pgrig_wait_connected(2);
	pgrig_submit(pool, &slow, NULL, &first);
	pgrig_submit(pool, &slow, NULL, &second);
	ck_assert(!dbpool_free_slot(pool));
	ck_assert(!dbpool_submit(pool, &third));
	ck_assert(pgrig_run_until(pgrig_answered, &first, 10) && pgrig_run_until(pgrig_answered, &second, 0.5));
	ck_assert_int_eq(first.verdict, VERDICT_OK);
	ck_assert_int_eq(second.verdict, VERDICT_OK);
	ck_assert_int_lt(first.duration_us + second.duration_us, 2400000);
	ck_assert_int_ge(first.duration_us, 800000);
	db_result_free(first.result);
	db_result_free(second.result);

	pgrig_submit(pool, &slow, NULL, &first);
	pgrig_submit(pool, &quick, NULL, &second);
	ck_assert(pgrig_run_until(pgrig_answered, &second, 0.7));
	ck_assert_int_eq(first.count, 0);
	db_result_free(second.result);
	pgrig_submit(pool, &slow, NULL, &second);
	dbpool_free(pool);
	ck_assert_int_eq(first.count, 1);
	ck_assert_int_eq(second.count, 1);
	ck_assert_int_eq(first.verdict, VERDICT_UNKNOWN);
	ck_assert_int_eq(second.verdict, VERDICT_UNKNOWN);
	ck_assert_int_lt(first.order, second.order);
}
END_TEST

static struct dbpool *chained_pool;
static int chain_left;

static void on_chain(void *context, struct db_answer *answer)
{
	struct db_request *again = context;

	ck_assert_int_eq(answer->verdict, VERDICT_OK);
	db_result_free(answer->result);
	if (--chain_left > 0)
		ck_assert(dbpool_submit(chained_pool, again));
}

static bool chain_ended(void *context)
{
	(void)context;
	return chain_left == 0;
}

START_TEST(test_an_answer_may_submit_the_next)
{
	struct sql_statement statement = {.text = "SELECT 1"};
	struct db_request request = {.statement = &statement, .on_answer = on_chain, .context = &request};

	chained_pool = pgrig_pool(pgrig_dsn("application_name=chain"));
	ck_assert(pgrig_run_until(pgrig_pool_free, chained_pool, 10));
	chain_left = 1000;
	ck_assert(dbpool_submit(chained_pool, &request));
	ck_assert(pgrig_run_until(chain_ended, NULL, 30));
	dbpool_free(chained_pool);
}
END_TEST

static void add_tests(TCase *tests)
{
	tcase_add_test(tests, test_bytes_arrive_as_they_are);
	tcase_add_test(tests, test_large_values);
	tcase_add_test(tests, test_F059_settings_end_with_the_transaction);
	tcase_add_test(tests, test_F021_F059_prepared_in_a_session_of_its_own);
	tcase_add_loop_test(tests, test_errors_and_their_verdicts, 0, sizeof(error_cases) / sizeof(error_cases[0]));
	tcase_add_test(tests, test_detail_is_not_passed_on);
	tcase_add_test(tests, test_deferred_constraint_fails_at_commit);
	tcase_add_test(tests, test_two_requests_overlap);
	tcase_add_test(tests, test_an_answer_may_submit_the_next);
}

Suite *suite(void)
{
	Suite *suite = suite_create("db");
	TCase *tests = tcase_create("db");

	add_tests(tests);
	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 90);
	suite_add_tcase(suite, tests);
	return suite;
}
