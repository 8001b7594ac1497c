/* io/dbpool when connections are lost, refused, silent or of no use: what is outstanding is answered unknown, once, and the
 * pool comes back. One test crashes the server. */
#include "../unit/unit.h"
#include "pgrig.h"
#include "proxy.h"

#include "io/pgconn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

START_TEST(test_terminated_with_requests_outstanding)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(20)"};
	struct answer first, second;

	pgrig_wait_connected(2);
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
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=overlap"));

	pgrig_wait_connected(2);
	pgrig_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'overlap'");
	pgrig_wait_connected(4);
	ck_assert_int_eq(dbpool_losses(pool), 2);
	ck_assert_int_eq(pgrig_logged("event=postgres_down"), 1);
	ck_assert_int_ge(pgrig_logged("reason=\"terminating connection due to administrator command\""), 1);
	dbpool_free(pool);
}
END_TEST

/* One of the backends is killed: the server ends all sessions and recovers, as after a crash. */
START_TEST(test_F056_server_crash)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=overlap"));
	struct sql_statement slow = {.text = "SELECT pg_sleep(20)"};
	struct answer first, second;

	pgrig_wait_connected(2);
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
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=attrs target_session_attrs=standby"));

	pgrig_run(0.5);
	ck_assert(!dbpool_up(pool));
	ck_assert(strstr(dbpool_reason(pool), "hot standby") != NULL);
	dbpool_free(pool);
	pool = pgrig_pool(pgrig_dsn("application_name=attrs target_session_attrs=primary"));
	ck_assert_int_eq(pgrig_ask(pool, "SELECT 1").verdict, VERDICT_OK);
	dbpool_free(pool);
}
END_TEST

/* With several hosts a server that cannot be written to is passed over without being told. */
START_TEST(test_F056_two_hosts_mean_a_writable_one)
{
	struct dbpool *pool;

	make_reader();
	pool = pgrig_pool(pgrig_dsn("user=dbtest_reader host=%s,%s port=%s,%s", PQhost(admin), PQhost(admin),
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
	pool = pgrig_pool(pgrig_dsn("host=127.0.0.1 port=%d", proxy.port));
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
	files = pgrig_open_files();
	pgrig_run(4);
	ck_assert(cpu_seconds() - cpu < 0.2);
	ck_assert(!dbpool_up(pool));
	ck_assert_int_le(pgrig_open_files(), files);
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

static bool has_lost_one(void *pool)
{
	return dbpool_losses(pool) == 1;
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
	ck_assert(pgrig_run_until(has_lost_one, pool, 10));
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
	struct dbpool *pool = pgrig_pool(secret_dsns[_i]);

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
	tcase_add_test(tests, test_terminated_with_requests_outstanding);
	tcase_add_test(tests, test_an_idle_loss_is_noticed);
	tcase_add_test(tests, test_F056_server_crash);
	tcase_add_test(tests, test_F056_read_only_server_does_not_spin);
	tcase_add_test(tests, test_F056_target_session_attrs);
	tcase_add_test(tests, test_F056_two_hosts_mean_a_writable_one);
	tcase_add_test(tests, test_F013_commit_whose_answer_never_comes);
	tcase_add_test(tests, test_F057b_no_answer_at_all);
	tcase_add_test(tests, test_answer_is_read_before_its_deadline_is_looked_at);
	tcase_add_test(tests, test_F057d_silent_peer_while_connecting);
	tcase_add_test(tests, test_F063_closed_socket_does_not_spin);
	tcase_add_test(tests, test_F063_watcher_goes_with_its_socket);
	tcase_add_test(tests, test_password_file_is_read_on_each_connect);
	tcase_add_loop_test(tests, test_F088_no_secret_in_reasons, 0, sizeof(secret_dsns) / sizeof(secret_dsns[0]));
}

Suite *suite(void)
{
	Suite *suite = suite_create("dbloss");
	TCase *tests = tcase_create("dbloss");

	add_tests(tests);
	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 90);
	suite_add_tcase(suite, tests);
	return suite;
}
