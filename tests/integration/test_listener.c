/* io/listener on a real server: a NOTIFY wakes, a loss is noticed, and LISTEN is believed only when it delivers. */
#include "../unit/unit.h"
#include "pgrig.h"
#include "proxy.h"

#include "io/listener.h"

#include <stdlib.h>
#include <string.h>

static struct listener *listener;

static void on_wake(void *context)
{
	++*(int *)context;
}

static void start(const char *dsn)
{
	struct config_postgres config = pgrig_config(dsn);

	listener = listener_new(loop, &config, NULL);
}

static bool active(void *context)
{
	(void)context;
	return listener_active(listener);
}

static bool inactive(void *context)
{
	(void)context;
	return !listener_active(listener);
}

static void wait_active(void)
{
	ck_assert(pgrig_run_until(active, NULL, 10));
}

static bool woken(void *context)
{
	return *(int *)context > 0;
}

/* Ends with *wakes at 0 again. */
static void wait_woken(int *wakes, double seconds)
{
	ck_assert(pgrig_run_until(woken, wakes, seconds));
	*wakes = 0;
}

static bool logged(void *text)
{
	return pgrig_logged(text) > 0;
}

START_TEST(test_notify_wakes_the_right_ones)
{
	int a1 = 0, a2 = 0, b = 0;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, "a", "one", on_wake, &a1);
	listener_add(listener, "a", "two", on_wake, &a2);
	listener_add(listener, "b", "three", on_wake, &b);
	ck_assert_int_eq(a1 + a2 + b, 0);
	wait_active();
	ck_assert_int_eq(a1, 1);
	ck_assert_int_eq(a2, 1);
	ck_assert_int_eq(b, 1);
	a1 = a2 = b = 0;
	pgrig_sql("NOTIFY a");
	wait_woken(&a1, 1);
	ck_assert_int_eq(a2, 1);
	ck_assert_int_eq(b, 0);
	pgrig_sql("NOTIFY b, 'a payload is ignored'");
	wait_woken(&b, 1);
	ck_assert_int_eq(a1 + a2, 1);
	pgrig_sql("NOTIFY c");
	pgrig_run(0.1);
	ck_assert_int_eq(a1 + a2 + b, 1);
	ck_assert_int_eq(pgrig_logged("event=notify_active"), 1);
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable"), 0);
	listener_free(listener);
}
END_TEST

static const char *const channels[] = {
	"outboxEvents",	   "my-chan",	       "a b",
	"with \"quotes\"", "\xc3\xa4\xc3\xb6", "a-channel-name-of-exactly-sixty-three-bytes-is-the-longest-one-"};

START_TEST(test_F064_channel_names)
{
	int wakes = 0;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, channels[_i], "s", on_wake, &wakes);
	wait_active();
	wakes = 0;
	pgrig_sql("SELECT pg_notify('%s', '')", channels[_i]);
	wait_woken(&wakes, 1);
	listener_free(listener);
}
END_TEST

START_TEST(test_subscriptions_come_and_go)
{
	int a = 0, b = 0;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, "a", "one", on_wake, &a);
	wait_active();
	listener_add(listener, "b", "two", on_wake, &b);
	ck_assert_int_eq(b, 0);
	wait_woken(&b, 1); /* for what was missed before */
	ck_assert(listener_active(listener));
	pgrig_sql("NOTIFY b");
	wait_woken(&b, 1);
	listener_remove(listener, &b);
	a = 0;
	pgrig_run(0.1);
	a = 0;
	pgrig_sql("NOTIFY b; NOTIFY a");
	wait_woken(&a, 1);
	ck_assert_int_eq(b, 0);
	ck_assert_int_eq(pgrig_logged("event=notify_active"), 1);
	listener_free(listener);
}
END_TEST

static int rejoined, others;

/* Removes everybody, itself included, and comes back twice. */
static void on_wake_remove(void *context)
{
	listener_remove(listener, &others);
	listener_remove(listener, context);
	listener_add(listener, "a", "again", on_wake, &rejoined);
	listener_add(listener, "b", "again", on_wake, &rejoined);
}

START_TEST(test_callbacks_may_add_and_remove)
{
	int self;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, "a", "first", on_wake_remove, &self);
	listener_add(listener, "a", "second", on_wake, &others);
	wait_active();
	pgrig_run(0.2);
	ck_assert_int_eq(others, 0);
	rejoined = 0;
	pgrig_sql("NOTIFY b");
	wait_woken(&rejoined, 1);
	pgrig_sql("NOTIFY a");
	wait_woken(&rejoined, 1);
	listener_free(listener);
}
END_TEST

#define WHERE_LISTENING " WHERE application_name = 'listen' AND datname = current_database()"
#define LISTENING "SELECT count(*) FROM pg_stat_activity" WHERE_LISTENING

START_TEST(test_F062_the_listener_comes_back)
{
	int wakes = 0;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, "a", "s", on_wake, &wakes);
	wait_active();
	for (int i = 0; i < 3; i++) {
		wakes = 0;
		pgrig_sql("SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity" WHERE_LISTENING);
		ck_assert(pgrig_run_until(inactive, NULL, 2));
		wait_active();
		wait_woken(&wakes, 1); /* what came meanwhile was missed */
		pgrig_sql("NOTIFY a");
		wait_woken(&wakes, 1);
	}
	pgrig_run(0.2);
	ck_assert_int_eq(pgrig_number(LISTENING), 1);
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable"), 0);
	listener_free(listener);
}
END_TEST

START_TEST(test_F066_no_transaction_stays_open)
{
	int wakes = 0;

	start(pgrig_dsn("application_name=listen"));
	listener_add(listener, "a", "s", on_wake, &wakes);
	wait_active();
	for (int i = 0; i < 1000; i++)
		pgrig_sql("NOTIFY a, '%d'", i);
	pgrig_run(0.2);
	ck_assert_int_eq(pgrig_number(LISTENING " AND state = 'idle' AND xact_start IS NULL"), 1);
	ck_assert_int_eq(pgrig_number(LISTENING), 1);
	/* Sessions that listen in other databases look at the queue once in a few pages only. */
	ck_assert_str_eq(pgrig_value("SELECT pg_notification_queue_usage() < 0.001"), "t");
	listener_free(listener);
}
END_TEST

/* A pooler accepts LISTEN and delivers nothing; when the connection is made anew, it is tried at once. */
START_TEST(test_F067_listen_delivers_nothing)
{
	struct proxy proxy;
	int a = 0, b = 0;

	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	proxy.drop_notifications = true;
	start(pgrig_dsn("application_name=listen host=127.0.0.1 port=%d sslmode=disable", proxy.port));
	listener_add(listener, "a", "one", on_wake, &a);
	listener_add(listener, "b", "two", on_wake, &b);
	ck_assert(pgrig_run_until(logged, "event=notify_unavailable", 9));
	pgrig_run(1);
	ck_assert(!listener_active(listener));
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable"), 2); /* one a source */
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable source=one channel=a"), 1);
	ck_assert_int_eq(pgrig_number(LISTENING), 1);
	proxy.drop_notifications = false;
	proxy_cut(&proxy);
	wait_active();
	a = 0;
	pgrig_sql("NOTIFY a");
	wait_woken(&a, 1);
	listener_free(listener);
	proxy_stop(&proxy);
}
END_TEST

/* Without a new connection it is tried again too. Long, for it waits out the 30 s. */
START_TEST(test_F062b_refused_is_not_for_ever)
{
	struct proxy proxy;
	int wakes = 0;

	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	proxy.drop_notifications = true;
	start(pgrig_dsn("application_name=listen host=127.0.0.1 port=%d sslmode=disable", proxy.port));
	listener_add(listener, "a", "s", on_wake, &wakes);
	ck_assert(pgrig_run_until(logged, "event=notify_unavailable", 9));
	proxy.drop_notifications = false;
	ck_assert(pgrig_run_until(active, NULL, 32));
	wakes = 0;
	pgrig_sql("NOTIFY a");
	wait_woken(&wakes, 1);
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable"), 1);
	ck_assert_int_eq(proxy.accepted, 3); /* the listener's, and one for each proof */
	listener_free(listener);
	proxy_stop(&proxy);
}
END_TEST

START_TEST(test_F057c_listener_half_open_at_rest)
{
	struct proxy proxy;
	int wakes = 0;

	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	start(pgrig_dsn("application_name=listen host=127.0.0.1 port=%d", proxy.port));
	listener_add(listener, "a", "s", on_wake, &wakes);
	wait_active();
	pgrig_run(11); /* a ping that is answered changes nothing */
	ck_assert(listener_active(listener));
	proxy.swallow_answers = true;
	ck_assert(pgrig_run_until(inactive, NULL, 20));
	proxy.swallow_answers = false;
	proxy_cut(&proxy);
	wait_active();
	wakes = 0;
	pgrig_sql("NOTIFY a");
	wait_woken(&wakes, 1);
	listener_free(listener);
	proxy_stop(&proxy);
}
END_TEST

START_TEST(test_F062_server_away_at_start)
{
	struct proxy proxy;
	int wakes = 0;

	proxy_start(&proxy, loop, PQhost(admin), PQport(admin));
	proxy.refuse = true;
	start(pgrig_dsn("application_name=listen host=127.0.0.1 port=%d", proxy.port));
	listener_add(listener, "a", "s", on_wake, &wakes);
	pgrig_run(2);
	ck_assert_int_ge(proxy.accepted, 3);
	ck_assert_int_le(proxy.accepted, 8);
	ck_assert_int_eq(pgrig_logged("event=notify_unavailable"), 1);
	ck_assert_int_eq(wakes, 0);
	proxy.refuse = false;
	wait_active();
	listener_free(listener);
	proxy_stop(&proxy);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, pgrig_setup, pgrig_teardown);
	tcase_set_timeout(tests, 90);
	suite_add_tcase(suite, tests);
	return tests;
}

Suite *suite(void)
{
	Suite *suite = suite_create("listener");
	TCase *quick = add_case(suite, "listener"), *slow = add_case(suite, "patience");

	tcase_add_test(quick, test_notify_wakes_the_right_ones);
	tcase_add_loop_test(quick, test_F064_channel_names, 0, sizeof(channels) / sizeof(channels[0]));
	tcase_add_test(quick, test_subscriptions_come_and_go);
	tcase_add_test(quick, test_callbacks_may_add_and_remove);
	tcase_add_test(quick, test_F062_the_listener_comes_back);
	tcase_add_test(quick, test_F066_no_transaction_stays_open);
	tcase_add_test(quick, test_F067_listen_delivers_nothing);
	tcase_add_test(quick, test_F057c_listener_half_open_at_rest);
	tcase_add_test(quick, test_F062_server_away_at_start);
	tcase_add_test(slow, test_F062b_refused_is_not_for_ever);
	return suite;
}
