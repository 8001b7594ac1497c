/* cli/pgblocking on a real server: what one-shot commands do, and the exit code of every way to fail. */
#include "../unit/unit.h"
#include "pgrig.h"

#include "cli/pgblocking.h"
#include "core/pgarray.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct pgblocking *open_good(void)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=blocking"));
	enum cli_exit exit_code;
	struct pgblocking *pg;
	struct err err;

	pg = pgblocking_open(&config, &exit_code, &err);
	ck_assert_msg(pg != NULL, "%s", err.text);
	return pg;
}

START_TEST(test_runs_and_commits)
{
	struct pgblocking *pg = open_good();
	struct sql_statement insert = {.text = "INSERT INTO dbtest.one VALUES ($1::bytea), ($2) RETURNING v",
				       .n_params = 2};
	struct sql_statement settings = {
		.text = "SELECT current_setting('statement_timeout') || current_setting('enable_seqscan')"
			" || current_setting('transaction_isolation')"};
	struct slice values[] = {{"a\0b", 3}, SLICE_NULL};
	enum cli_exit exit_code;
	PGresult *result;
	struct err err;

	pgrig_sql("CREATE TABLE dbtest.one (v bytea)");
	result = pgblocking_run(pg, &insert, values, &exit_code, &err);
	ck_assert(result != NULL && PQntuples(result) == 2);
	ck_assert_int_eq(PQgetlength(result, 0, 0), 3);
	ck_assert_mem_eq(PQgetvalue(result, 0, 0), "a\0b", 3);
	ck_assert(PQgetisnull(result, 1, 0));
	PQclear(result);
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM dbtest.one"), 2);
	result = pgblocking_run(pg, &settings, NULL, &exit_code, &err);
	ck_assert_str_eq(PQgetvalue(result, 0, 0), "2soffread committed");
	PQclear(result);
	pgblocking_close(pg);
}
END_TEST

static const struct {
	const char *text;
	enum cli_exit exit_code;
	const char *says;
} failures[] = {
	{"SELECT * FROM dbtest.nothing", CLI_CONFIG, "relation \"dbtest.nothing\" does not exist"},
	{"SELECT 1 / 0", CLI_INTERNAL, "division by zero"},
	{"SET ROLE dbtest_nobody; SELECT 1", CLI_CONFIG, "cannot insert multiple commands"},
	{"DO $$ BEGIN SET LOCAL ROLE dbtest_nobody; PERFORM * FROM dbtest.one; END $$", CLI_PERMISSION,
	 "permission denied for schema dbtest"},
	{"SELECT pg_sleep(20)", CLI_TEMPORARY, "statement timeout"},
	{"INSERT INTO dbtest.one VALUES (1)", CLI_INTERNAL, "duplicate key"}, /* at the COMMIT */
	{"SELECT pg_terminate_backend(pg_backend_pid())", CLI_UNAVAILABLE, "the connection was lost"},
};

START_TEST(test_statement_failures)
{
	struct pgblocking *pg = open_good();
	struct sql_statement statement = {.text = failures[_i].text}, good = {.text = "SELECT 1"};
	enum cli_exit exit_code;
	PGresult *result;
	struct err err;

	pgrig_sql(
		"CREATE TABLE dbtest.one (v int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
		"INSERT INTO dbtest.one VALUES (1); DROP ROLE IF EXISTS dbtest_nobody; CREATE ROLE dbtest_nobody");
	ck_assert(pgblocking_run(pg, &statement, NULL, &exit_code, &err) == NULL);
	ck_assert_msg(exit_code == failures[_i].exit_code, "%d: %s", exit_code, err.text);
	ck_assert_msg(strstr(err.text, failures[_i].says) != NULL, "%s", err.text);
	result = pgblocking_run(pg, &good, NULL, &exit_code, &err);
	ck_assert((result != NULL) == (failures[_i].exit_code != CLI_UNAVAILABLE));
	PQclear(result);
	ck_assert_int_eq(pgrig_number("SELECT count(*) FROM dbtest.one"), 1);
	pgblocking_close(pg);
	pgrig_sql("DROP ROLE dbtest_nobody");
}
END_TEST

static void expect_refused(const struct config_postgres *config, enum cli_exit expected, const char *says)
{
	enum cli_exit exit_code = CLI_OK;
	struct err err = {""};

	ck_assert(pgblocking_open(config, &exit_code, &err) == NULL);
	ck_assert_msg(exit_code == expected, "%d: %s", exit_code, err.text);
	ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
	ck_assert_msg(strstr(err.text, "LOCATION") == NULL && strchr(err.text, '\n') == NULL, "%s", err.text);
}

START_TEST(test_connection_failures)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("dbname=dbtest_no_such"));

	expect_refused(&config, CLI_CONFIG, "FATAL: database \"dbtest_no_such\" does not exist");
	config.dsn = pgrig_dsn("user=dbtest_no_such");
	expect_refused(&config, CLI_PERMISSION, "FATAL: role \"dbtest_no_such\" does not exist");
	config.dsn = "host=127.0.0.1 port=1";
	expect_refused(&config, CLI_UNAVAILABLE, "Connection refused");
	config.dsn = "host=127.0.0.1 password=S3 cr3t";
	expect_refused(&config, CLI_CONFIG, "the connection string is malformed");
	config.dsn = pgrig_dsn("application_name=blocking");
	config.password_file = "/nonexistent/password";
	expect_refused(&config, CLI_CONFIG, "/nonexistent/password");
}
END_TEST

/* The kernel accepts, and nobody ever answers. */
static int listen_silently(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 8) == 0);
	ck_assert(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	*port = ntohs(address.sin_port);
	return fd;
}

START_TEST(test_F057d_silent_peer)
{
	struct config_postgres config = pgrig_config(NULL);
	enum cli_exit exit_code;
	struct pgblocking *pg;
	struct err err;
	int port, fd = listen_silently(&port);

	config.connect_timeout_us = 300000;
	config.dsn = pgrig_dsn("host=127.0.0.1 port=%d", port);
	expect_refused(&config, CLI_UNAVAILABLE, "no connection within 300 ms");
	config.dsn = pgrig_dsn("host=127.0.0.1,127.0.0.1 port=%d,%s", port, PQport(admin));
	pg = pgblocking_open(&config, &exit_code, &err);
	ck_assert_msg(pg != NULL, "%s", err.text);
	pgblocking_close(pg);
	close(fd);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("pgblocking");
	TCase *tests = tcase_create("pgblocking");

	tcase_add_test(tests, test_runs_and_commits);
	tcase_add_loop_test(tests, test_statement_failures, 0, sizeof(failures) / sizeof(failures[0]));
	tcase_add_test(tests, test_connection_failures);
	tcase_add_test(tests, test_F057d_silent_peer);
	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 60);
	suite_add_tcase(suite, tests);
	return suite;
}
