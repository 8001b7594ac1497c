/* io/db over and over: what fails again and again leaves neither memory nor descriptors nor sessions behind. */
#include "../unit/unit.h"
#include "pgrig.h"

#include <malloc.h>
#include <stdlib.h>

#define LEAK 32 /* the least that malloc can lose */

static size_t used_bytes(void)
{
	return mallinfo2().uordblks;
}

/* ---- statements ---- */

/* Refused by the parser, by the data, at run time with rows already computed, and at the COMMIT. */
static const char *const refused[] = {
	"SELEC 1",
	"SELECT 1 FROM dbtest.nowhere",
	"SELECT repeat('\"x''', 1000), 1 / (3 - n) FROM generate_series(1, 5) n",
	"INSERT INTO dbtest.one VALUES (1) RETURNING repeat('y', 3000)",
};
#define REFUSED (sizeof(refused) / sizeof(refused[0]))

static void ask_all(struct dbpool *pool, int times)
{
	size_t i;

	while (times-- > 0) {
		for (i = 0; i < REFUSED; i++)
			ck_assert_int_eq(pgrig_ask(pool, refused[i]).verdict, VERDICT_REJECT);
		ck_assert_int_eq(pgrig_ask(pool, "SELECT repeat('z', 3000) FROM generate_series(1, 10)").verdict,
				 VERDICT_OK);
	}
}

START_TEST(test_F046_failing_statements_leave_nothing_behind)
{
	struct dbpool *pool = pgrig_pool(pgrig_dsn("application_name=leak"));
	size_t before;

	pgrig_sql("CREATE TABLE dbtest.one (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
		  "INSERT INTO dbtest.one VALUES (1)");
	ask_all(pool, 50);
	before = used_bytes();
	ask_all(pool, 500);
	ck_assert_uint_lt(used_bytes(), before + 500 * (LEAK / 2));
	dbpool_free(pool);
}
END_TEST

/* ---- connections ---- */

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
			before = pgrig_open_files();
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
	ck_assert_int_eq(pgrig_open_files(), before);
	ck_assert_int_eq(dbpool_losses(pool), F061_ROUNDS);
	dbpool_free(pool);
}
END_TEST

static bool has_failed(void *times)
{
	return pgrig_logged("to=down") >= *(int *)times;
}

static void fail_to_connect(struct dbpool *pool, int times)
{
	int wanted = pgrig_logged("to=down");

	while (times-- > 0) {
		wanted++;
		dbpool_hurry(pool);
		ck_assert(pgrig_run_until(has_failed, &wanted, 10));
	}
}

/* By the network, by the server, by libpq itself; with a name that is found, and one that is not, which c-ares knows
 * without asking anybody; a thousand times when there is time for it. */
static const char *const useless[] = {"port=1", "dbname=nowhere", "sslmode=nonsense", "host=localhost port=1",
				      "host=nowhere.onion"};

START_TEST(test_F061_failed_connects_leave_nothing_behind)
{
	struct config_postgres config = pgrig_config(pgrig_dsn("application_name=leak %s", useless[_i]));
	struct dbpool *pool;
	size_t before;
	int files, times = getenv("OUTBOXD_LONG") == NULL ? 250 : 1000;

	config.connections = 1;
	pool = dbpool_new(loop, &config);
	fail_to_connect(pool, 30);
	before = used_bytes();
	files = pgrig_open_files();
	fail_to_connect(pool, times);
	ck_assert_int_eq(pgrig_open_files(), files);
	ck_assert_uint_lt(used_bytes(), before + (size_t)times * (LEAK / 2));
	ck_assert(!dbpool_up(pool));
	dbpool_free(pool);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("dbleaks");
	TCase *tests = tcase_create("dbleaks");

	tcase_add_test(tests, test_F046_failing_statements_leave_nothing_behind);
	tcase_add_test(tests, test_F061_neither_sessions_nor_descriptors_leak);
	tcase_add_loop_test(tests, test_F061_failed_connects_leave_nothing_behind, 0,
			    sizeof(useless) / sizeof(useless[0]));
	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 90);
	suite_add_tcase(suite, tests);
	return suite;
}
