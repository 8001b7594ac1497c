/* The environment that a supervisor gives: what is taken from it, and that nothing is left there. */
#include "../unit/unit.h"

#include "io/sdnotify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN "own" /* the pid of the test */
#define TEN "0123456789"

static const struct {
	const char *socket, *usec, *pid;
	int64_t watchdog_us; /* -1: nobody is told anything */
} cases[] = {
	{NULL, "1000000", NULL, -1},
	{"relative", "1000000", NULL, -1},
	{"vsock:2:1234", "1000000", NULL, -1},
	{"", "1000000", NULL, -1},
	{"/run/notify", NULL, NULL, 0},
	{"/run/notify", "1000000", NULL, 1000000},
	{"@notify", "1000000", OWN, 1000000},
	{"@notify", "1000000", "1", 0},
	{"@notify", "0", OWN, 0},
	{"@notify", "-5", OWN, 0},
	{"@notify", "12 s", OWN, 0},
	{"/" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123456", "1000000", NULL, -1},
};

static void set(const char *name, const char *value)
{
	if (value == NULL)
		unsetenv(name);
	else
		setenv(name, value, 1);
}

START_TEST(test_environment)
{
	struct sdnotify notify;
	char own[24];

	snprintf(own, sizeof(own), "%ld", (long)getpid());
	set("NOTIFY_SOCKET", cases[_i].socket);
	set("WATCHDOG_USEC", cases[_i].usec);
	set("WATCHDOG_PID", cases[_i].pid != NULL && strcmp(cases[_i].pid, OWN) == 0 ? own : cases[_i].pid);
	sdnotify_open(&notify);
	ck_assert_int_eq(notify.fd >= 0, cases[_i].watchdog_us >= 0);
	ck_assert_int_eq(notify.watchdog_us, cases[_i].watchdog_us > 0 ? cases[_i].watchdog_us : 0);
	ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
	ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
	ck_assert_ptr_null(getenv("WATCHDOG_PID"));
	sdnotify_send(&notify, "READY=1"); /* nobody listens there: no harm */
	sdnotify_close(&notify);
	sdnotify_send(&notify, "READY=1");
	sdnotify_close(&notify);
}
END_TEST

/* The kernel takes an abstract name by its length: a byte more would be another name. */
START_TEST(test_abstract_address)
{
	struct sdnotify notify;

	setenv("NOTIFY_SOCKET", "@outboxd", 1);
	sdnotify_open(&notify);
	ck_assert_uint_eq(notify.address_len, offsetof(struct sockaddr_un, sun_path) + 8);
	ck_assert_int_eq(memcmp(notify.address.sun_path, "\0outboxd", 8), 0);
	sdnotify_close(&notify);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sdnotify");
	TCase *tcase = tcase_create("sdnotify");

	tcase_add_loop_test(tcase, test_environment, 0, (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_test(tcase, test_abstract_address);
	suite_add_tcase(suite, tcase);
	return suite;
}
