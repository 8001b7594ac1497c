/* io/db and io/dbpool on a real server: every request is answered exactly once, whatever happens to the connection. */
#include "pgrig.h"
#include "proxy.h"

#include "base/mem.h"
#include "core/pgarray.h"
#include "io/pgconn.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	ck_assert(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static struct dbpool *pool_of(const char *dsn)
{
	struct config_postgres config = pgrig_config(dsn);

	return dbpool_new(loop, &config);
}

/* ---- what goes in and out ---- */

START_TEST(test_bytes_arrive_as_they_are)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=bytes"));
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
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=large"));
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
static void expect_inside(struct dbpool *pool, bool pin_plan, const char *expression)
{
	char text[512];
	struct sql_statement statement = {.text = text, .pin_plan = pin_plan};
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
		"current_setting('application_name') = 'outboxd'",
		"current_setting('client_encoding') = 'UTF8'",
		"(SELECT count(*) FROM pg_prepared_statements WHERE name <> '') = 0",
	};

	config.connections = 1;
	pool = dbpool_new(loop, &config);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		expect_inside(pool, false, inside[i]);
	expect_inside(pool, false, "current_setting('enable_seqscan') = 'on'");
	expect_inside(pool, true, "current_setting('enable_seqscan') = 'off'");
	expect_inside(pool, true, "current_setting('enable_bitmapscan') = 'off'");
	expect_inside(pool, false, "current_setting('enable_bitmapscan') = 'on'");
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'outboxd' "
				      "AND datname = current_database()"
				      " AND state = 'idle' AND backend_xid IS NULL"),
			 1);
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
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=detail"));
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
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=deferred"));
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

/* So many times was a connection made. */
static bool connected(void *times)
{
	return pgrig_logged("to=ready") >= *(int *)times;
}

static void wait_connected(int times)
{
	ck_assert(pgrig_run_until(connected, &times, 15));
}

START_TEST(test_two_requests_overlap)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(0.8)"}, quick = {.text = "SELECT 1"};
	struct answer first, second;
	struct db_request third = {.statement = &quick, .on_answer = pgrig_keep, .context = NULL};

	wait_connected(2);
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

	chained_pool = pool_of(pgrig_dsn("application_name=chain"));
	ck_assert(pgrig_run_until(pgrig_pool_free, chained_pool, 10));
	chain_left = 1000;
	ck_assert(dbpool_submit(chained_pool, &request));
	ck_assert(pgrig_run_until(chain_ended, NULL, 30));
	dbpool_free(chained_pool);
}
END_TEST

/* ---- losses ---- */

START_TEST(test_terminated_with_requests_outstanding)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(20)"};
	struct answer first, second;

	wait_connected(2);
	pgrig_submit(pool, &slow, NULL, &first);
	pgrig_submit(pool, &slow, NULL, &second);
	pgrig_run(0.1);
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'overlap'");
	ck_assert(pgrig_run_until(pgrig_answered, &first, 5) && pgrig_run_until(pgrig_answered, &second, 5));
	ck_assert_int_eq(first.verdict, VERDICT_UNKNOWN);
	ck_assert_int_eq(second.verdict, VERDICT_UNKNOWN);
	ck_assert_str_eq(first.sqlstate, "57P01");
	ck_assert_int_eq(dbpool_losses(pool), 2);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	ck_assert_int_eq(first.count + second.count, 2);
	ck_assert_int_eq(pgrig_logged("event=postgres_up"), 2);
	dbpool_free(pool);
}
END_TEST

START_TEST(test_an_idle_loss_is_noticed)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=overlap"));

	wait_connected(2);
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'overlap'");
	wait_connected(4);
	ck_assert_int_eq(dbpool_losses(pool), 2);
	ck_assert_int_eq(pgrig_logged("event=postgres_down"), 1);
	ck_assert_int_ge(pgrig_logged("reason=\"terminating connection due to administrator command\""), 1);
	dbpool_free(pool);
}
END_TEST

/* One of the backends is killed: the server ends all sessions and recovers, as after a crash. */
START_TEST(test_F056_server_crash)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(20)"};
	struct answer first, second;

	wait_connected(2);
	pgrig_submit(pool, &slow, NULL, &first);
	pgrig_submit(pool, &slow, NULL, &second);
	pgrig_run(0.1);
	PQclear(PQexec(admin, "DO $$ BEGIN EXECUTE format('COPY (SELECT 1) TO PROGRAM ''kill -9 %s''',"
			      " pg_backend_pid()); END $$"));
	ck_assert(pgrig_run_until(pgrig_answered, &first, 10) && pgrig_run_until(pgrig_answered, &second, 10));
	ck_assert_int_eq(first.verdict, VERDICT_UNKNOWN);
	ck_assert_int_eq(second.verdict, VERDICT_UNKNOWN);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	ck_assert(dbpool_up(pool));
	ck_assert_str_eq(dbpool_reason(pool), "");
	ck_assert_int_ge(pgrig_logged("event=postgres_down"), 1);
	dbpool_free(pool);
}
END_TEST

static void make_reader(void)
{
	pgrig_sql("DROP ROLE IF EXISTS dbtest_reader; CREATE ROLE dbtest_reader LOGIN SUPERUSER;"
		  "ALTER ROLE dbtest_reader SET default_transaction_read_only = on");
}

START_TEST(test_F056_read_only_server_does_not_spin)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=readonly"));
	struct sql_statement statement = {.text = "CREATE TABLE dbtest.never (id int)"};
	double end = ev_time() + 3;
	struct dbpool *pool;
	struct answer answer;
	int asked = 0;

	config.connections = 1;
	make_reader();
	config.dsn = pgrig_dsn("application_name=readonly user=dbtest_reader");
	pool = dbpool_new(loop, &config);
	for (; ev_time() < end; asked++) {
		if (!pgrig_run_until(pgrig_pool_free, pool, end - ev_time()))
			break;
		pgrig_submit(pool, &statement, NULL, &answer);
		ck_assert(pgrig_run_until(pgrig_answered, &answer, 5));
		ck_assert_str_eq(answer.sqlstate, "25006");
		ck_assert_int_eq(answer.verdict, VERDICT_RETRY);
		ck_assert_int_eq(answer.fault, SQL_CONNECTION);
	}
	ck_assert_int_ge(asked, 2);
	ck_assert_int_le(asked, 8);
	dbpool_free(pool);
	pgrig_sql("DROP ROLE dbtest_reader");
}
END_TEST

/* target_session_attrs is libpq's; that it works with our way of connecting is ours to see. */
START_TEST(test_F056_target_session_attrs)
{
	struct dbpool *pool = pool_of(pgrig_dsn("application_name=attrs target_session_attrs=standby"));

	pgrig_run(0.5);
	ck_assert(!dbpool_up(pool));
	ck_assert(strstr(dbpool_reason(pool), "hot standby") != NULL);
	dbpool_free(pool);
	pool = pool_of(pgrig_dsn("application_name=attrs target_session_attrs=primary"));
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	dbpool_free(pool);
}
END_TEST

/* With several hosts a server that cannot be written to is passed over without being told. */
START_TEST(test_F056_two_hosts_mean_a_writable_one)
{
	struct dbpool *pool;

	make_reader();
	pool = pool_of(pgrig_dsn("user=dbtest_reader host=%s,%s port=%s,%s", PQhost(admin), PQhost(admin),
				 PQport(admin), PQport(admin)));
	pgrig_run(0.5);
	ck_assert(!dbpool_up(pool));
	ck_assert_msg(strstr(dbpool_reason(pool), "session is read-only") != NULL, "%s", dbpool_reason(pool));
	pgrig_sql("ALTER ROLE dbtest_reader RESET default_transaction_read_only");
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	dbpool_free(pool);
	pgrig_sql("DROP ROLE dbtest_reader");
}
END_TEST

#define F061_ROUNDS 50

START_TEST(test_F061_neither_sessions_nor_descriptors_leak)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=leak"));
	struct dbpool *pool;
	int before = 0;

	config.connections = 1;
	pool = dbpool_new(loop, &config);
	for (int i = 0; i < F061_ROUNDS; i++) {
		ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
		if (i == 0)
			before = open_files();
		ck_assert(pgrig_run_until(pgrig_pool_free, pool, 10));
		ck_assert_int_eq(pgrig_number("SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity"
					      " WHERE application_name = 'leak'"),
				 1);
		if (i % 2 == 0)
			pgrig_run(0.02);
		else /* sent before the loss was noticed */
			ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_UNKNOWN);
	}
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	ck_assert_int_eq(open_files(), before);
	ck_assert_int_eq(dbpool_losses(pool), F061_ROUNDS);
	dbpool_free(pool);
}
END_TEST

static bool inserted(void *context)
{
	(void)context;
	return pgrig_number("SELECT count(*) FROM dbtest.one") == 1;
}

START_TEST(test_F013_commit_whose_answer_never_comes)
{
	struct sql_statement statement = {.text = "INSERT INTO dbtest.one VALUES (1) RETURNING id"};
	struct answer answer;
	struct dbpool *pool;
	struct proxy proxy;

	pgrig_sql("CREATE TABLE dbtest.one (id int)");
	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	pool = pool_of(pgrig_dsn("host=127.0.0.1 port=%d", proxy.port));
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	proxy.swallow_answers = true;
	pgrig_submit(pool, &statement, NULL, &answer);
	ck_assert(pgrig_run_until(inserted, NULL, 5));
	ck_assert_int_eq(answer.count, 0);
	proxy.swallow_answers = false;
	proxy_cut(&proxy);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 5));
	ck_assert_int_eq(answer.verdict, VERDICT_UNKNOWN);
	ck_assert(answer.result == NULL);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	ck_assert_int_eq(answer.count, 1);
	dbpool_free(pool);
	proxy_stop(&proxy);
}
END_TEST

/* The same, but nothing is reset: the client's own deadline ends it. */
START_TEST(test_F057b_no_answer_at_all)
{
	struct config_postgres config = pgrig_config(NULL);
	struct sql_statement statement = {.text = "SELECT 1"};
	struct answer answer;
	struct dbpool *pool;
	struct proxy proxy;

	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	config.dsn = pgrig_dsn("host=127.0.0.1 port=%d", proxy.port);
	config.statement_timeout_us = 100000;
	config.connections = 1;
	pool = dbpool_new(loop, &config);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	proxy.swallow_answers = true;
	pgrig_submit(pool, &statement, NULL, &answer);
	ck_assert(!pgrig_run_until(pgrig_answered, &answer, 4.5));
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 1.5));
	ck_assert_int_eq(answer.verdict, VERDICT_UNKNOWN);
	ck_assert_str_eq(answer.message, "no answer within 5100 ms");
	proxy.swallow_answers = false;
	proxy_cut(&proxy);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	dbpool_free(pool);
	proxy_stop(&proxy);
}
END_TEST

/* The process was suspended past the deadline: what had come in time counts. */
START_TEST(test_answer_is_read_before_its_deadline_is_looked_at)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=suspended"));
	struct sql_statement statement = {.text = "SELECT 1"};
	struct timespec longer = {.tv_sec = 5, .tv_nsec = 300000000};
	struct answer answer;
	struct dbpool *pool;

	config.statement_timeout_us = 100000;
	pool = dbpool_new(loop, &config);
	ck_assert(pgrig_run_until(pgrig_pool_free, pool, 10));
	pgrig_submit(pool, &statement, NULL, &answer);
	nanosleep(&longer, NULL);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 1));
	ck_assert_int_eq(answer.verdict, VERDICT_OK);
	db_result_free(answer.result);
	ck_assert_int_eq(dbpool_losses(pool), 0);
	dbpool_free(pool);
}
END_TEST

/* (d) the peer accepts and says nothing; of two hosts the second is reached although the first never answers. */
START_TEST(test_F057d_silent_peer_while_connecting)
{
	struct config_postgres config = pgrig_config(NULL);
	struct proxy silent, good;
	struct dbpool *pool;

	proxy_start(&silent, loop, PQhost(admin), PQport(admin));
	proxy_start(&good, loop, PQhost(admin), PQport(admin));
	silent.silent = true;
	config.connect_timeout_us = 300000;
	config.dsn = pgrig_dsn("host=127.0.0.1 port=%d", silent.port);
	pool = dbpool_new(loop, &config);
	pgrig_run(0.7);
	ck_assert(!dbpool_up(pool));
	ck_assert_str_eq(dbpool_reason(pool), "no connection within 300 ms");
	ck_assert_int_ge(silent.accepted, 2);
	silent.silent = false;
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	dbpool_free(pool);

	silent.silent = true;
	config.dsn = pgrig_dsn("host=127.0.0.1,127.0.0.1 port=%d,%d", silent.port, good.port);
	pool = dbpool_new(loop, &config);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	ck_assert_int_ge(good.accepted, 1);
	dbpool_free(pool);
	proxy_stop(&silent);
	proxy_stop(&good);
}
END_TEST

START_TEST(test_F063_closed_socket_does_not_spin)
{
	struct config_postgres config = pgrig_config(NULL);
	struct dbpool *pool;
	struct proxy proxy;
	double cpu;
	int files;

	config.connections = 1;
	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	config.dsn = pgrig_dsn("host=127.0.0.1 port=%d", proxy.port);
	pool = dbpool_new(loop, &config);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	proxy_cut(&proxy);
	proxy_stop(&proxy);
	cpu = cpu_seconds();
	files = open_files();
	pgrig_run(4);
	ck_assert(cpu_seconds() - cpu < 0.2);
	ck_assert(!dbpool_up(pool));
	ck_assert_int_le(open_files(), files);
	ck_assert(strstr(dbpool_reason(pool), "Connection refused") != NULL);
	ck_assert_int_eq(pgrig_logged("event=postgres_down"), 2); /* the loss, and one refusal of many */
	dbpool_free(pool);
}
END_TEST

static void on_nothing(void *context)
{
	(void)context;
}

static void on_lost(void *context, const char *reason, bool was_ready)
{
	struct pgconn *conn = context;

	(void)reason;
	ck_assert(was_ready);
	ck_assert(conn->pg == NULL);
	ck_assert(!ev_is_active(&conn->io));
}

static bool is_ready(void *conn)
{
	return ((struct pgconn *)conn)->state == PGCONN_READY;
}

static bool is_down(void *conn)
{
	return ((struct pgconn *)conn)->state == PGCONN_DOWN;
}

START_TEST(test_F063_watcher_goes_with_its_socket)
{
	static const struct pgconn_events events = {on_nothing, on_nothing, on_lost};
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=watcher"));
	struct pgconn conn;

	pgconn_start(&conn, loop, &config, &events, &conn);
	ck_assert(pgrig_run_until(is_ready, &conn, 10));
	ck_assert(ev_is_active(&conn.io));
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watcher'");
	ck_assert(pgrig_run_until(is_down, &conn, 5));
	ck_assert(pgrig_run_until(is_ready, &conn, 10));
	pgconn_stop(&conn);
	ck_assert(!ev_is_active(&conn.io));
}
END_TEST

/* ---- passwords ---- */

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Makes the server ask the role dbtest_secret for its password, everywhere. */
static void demand_password(void)
{
	pgrig_sql("DROP ROLE IF EXISTS dbtest_secret; CREATE ROLE dbtest_secret LOGIN PASSWORD 'S3cr3t!one'");
	pgrig_sql("CREATE TABLE dbtest.hba AS SELECT n, line FROM"
		  " unnest(string_to_array(pg_read_file(current_setting('hba_file')), E'\\n')) WITH ORDINALITY AS "
		  "t(line, n)"
		  " WHERE line NOT LIKE '%%dbtest_secret%%'");
	pgrig_sql("INSERT INTO dbtest.hba VALUES (-1, 'local all dbtest_secret scram-sha-256'),"
		  " (0, 'host all dbtest_secret all scram-sha-256')");
	pgrig_sql("DO $$ BEGIN EXECUTE format('COPY (SELECT line FROM dbtest.hba ORDER BY n) TO %%L',"
		  " current_setting('hba_file')); END $$");
	pgrig_sql("SELECT pg_reload_conf()");
	pgrig_run(0.2);
}

START_TEST(test_password_file_is_read_on_each_connect)
{
	char path[] = "/tmp/outboxd-password-XXXXXX";
	struct config_postgres config;
	struct dbpool *pool;

	close(mkstemp(path));
	demand_password();
	config = pgrig_config(pgrig_dsn("application_name=overlap user=dbtest_secret"));
	config.connections = 1;
	config.password_file = path;
	write_file(path, "S3cr3t!wrong\n");
	pool = dbpool_new(loop, &config);
	pgrig_run(0.5);
	ck_assert(!dbpool_up(pool));
	ck_assert(strstr(dbpool_reason(pool), "password authentication failed") != NULL);
	write_file(path, "S3cr3t!one\n");
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	pgrig_sql("ALTER ROLE dbtest_secret PASSWORD 'S3cr3t!two'");
	write_file(path, "S3cr3t!two\n");
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'dbtest_secret'");
	pgrig_run(0.02);
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	unlink(path);
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'dbtest_secret'");
	pgrig_run(0.5);
	ck_assert(strstr(dbpool_reason(pool), path) != NULL);
	ck_assert_int_eq(pgrig_logged("S3cr3t"), 0);
	dbpool_free(pool);
	pgrig_sql("DROP ROLE dbtest_secret");
}
END_TEST

/* Nothing of these may be seen in a reason or in the log. */
static const char *const secret_dsns[] = {
	"postgresql://u:S3cr3t%21@[::1/d",
	"postgresql://u:S3%zzcr3t@h/d",
	"host=127.0.0.1 password=S3 cr3t",
	"host=127.0.0.1 port=1 password=S3cr3t!",
	"postgresql://u:S3cr3t%21@127.0.0.1:1/d",
	"host=127.0.0.1 port=nonsense password=S3cr3t!",
	"host=127.0.0.1 password=S3cr3t! sslmode=S3cr3t!",
};

START_TEST(test_F088_no_secret_in_reasons)
{
	struct dbpool *pool = pool_of(secret_dsns[_i]);

	pgrig_run(0.3);
	ck_assert(!dbpool_up(pool));
	ck_assert_str_ne(dbpool_reason(pool), "");
	ck_assert_str_ne(dbpool_reason(pool), "not yet connected");
	ck_assert(strstr(dbpool_reason(pool), "cr3t") == NULL);
	ck_assert_int_ge(pgrig_logged("event=postgres_down"), 1);
	ck_assert_int_eq(pgrig_logged("cr3t"), 0);
	dbpool_free(pool);
}
END_TEST

static void add_tests(TCase *tests)
{
	tcase_add_test(tests, test_bytes_arrive_as_they_are);
	tcase_add_test(tests, test_large_values);
	tcase_add_test(tests, test_F059_settings_end_with_the_transaction);
	tcase_add_loop_test(tests, test_errors_and_their_verdicts, 0, sizeof(error_cases) / sizeof(error_cases[0]));
	tcase_add_test(tests, test_detail_is_not_passed_on);
	tcase_add_test(tests, test_deferred_constraint_fails_at_commit);
	tcase_add_test(tests, test_two_requests_overlap);
	tcase_add_test(tests, test_an_answer_may_submit_the_next);
	tcase_add_test(tests, test_terminated_with_requests_outstanding);
	tcase_add_test(tests, test_an_idle_loss_is_noticed);
	tcase_add_test(tests, test_F056_server_crash);
	tcase_add_test(tests, test_F056_read_only_server_does_not_spin);
	tcase_add_test(tests, test_F056_target_session_attrs);
	tcase_add_test(tests, test_F056_two_hosts_mean_a_writable_one);
	tcase_add_test(tests, test_F061_neither_sessions_nor_descriptors_leak);
	tcase_add_test(tests, test_F013_commit_whose_answer_never_comes);
	tcase_add_test(tests, test_F057b_no_answer_at_all);
	tcase_add_test(tests, test_answer_is_read_before_its_deadline_is_looked_at);
	tcase_add_test(tests, test_F057d_silent_peer_while_connecting);
	tcase_add_test(tests, test_F063_closed_socket_does_not_spin);
	tcase_add_test(tests, test_F063_watcher_goes_with_its_socket);
	tcase_add_test(tests, test_password_file_is_read_on_each_connect);
	tcase_add_loop_test(tests, test_F088_no_secret_in_reasons, 0, sizeof(secret_dsns) / sizeof(secret_dsns[0]));
}

int main(void)
{
	Suite *suite = suite_create("db");
	TCase *tests = tcase_create("db");
	SRunner *runner;
	int failed;

	add_tests(tests);
	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 90);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
