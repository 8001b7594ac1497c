/* What a reload is told of two configurations: names of settings, and never their values. */
#include "unit.h"

#include "config/diff.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP "postgres: {dsn: host=h password=old}\nkafka: {bootstrap_servers: b}\n"
#define BEFORE TOP "sources:\n  - name: orders\n  - name: stock\n    kafka: {message_timeout: 20s}\n"

static struct config *load(const char *text)
{
	char path[] = "/tmp/outboxd-diff-XXXXXX";
	struct buf problems = {0};
	struct config *config;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	config = config_load(path, &problems);
	unlink(path);
	ck_assert_msg(config != NULL, "%s\nwas refused:\n%s", text, buf_text(&problems));
	buf_free(&problems);
	return config;
}

/* The files, and the four lists joined with bars. */
static const struct {
	const char *before, *after, *lists;
} cases[] = {
	{BEFORE, BEFORE, "|||"},
	/* Comments, order and spelling are no changes. */
	{BEFORE,
	 "# new\n\nsources:\n  - name: stock\n    kafka: {message_timeout: 20000ms}\n  - name: orders\n    batch: 500\n" TOP,
	 "|||"},
	{BEFORE, BEFORE "log: {level: debug}\ndrain_timeout: 3s\n", "log.level, drain_timeout|||"},
	{BEFORE, BEFORE "http: {listen: ~}\nlog: {format: json}\n", "http.listen, log.format|http.listen||"},
	{BEFORE, BEFORE "http: {listen: '127.0.0.1:9188'}\n", "http.listen|http.listen||"},
	{BEFORE, BEFORE "    batch: 7\n    retry: {max: 7m}\n    paused: true\n",
	 "sources.stock.paused, sources.stock.batch, sources.stock.retry.max|||"},
	{BEFORE, BEFORE "    headers: {a: b}\n    topic: x\n", "sources.stock.topic, sources.stock.headers|||"},
	{BEFORE, BEFORE "    ordering: none\n    notify: ~\n", "sources.stock.ordering, sources.stock.notify|||"},
	/* A column that is named must exist, though the name is the preset's. */
	{BEFORE, BEFORE "    columns: {headers: headers}\n", "sources.stock.columns|||"},
	{BEFORE, BEFORE "    columns: {headers: h}\n", "sources.stock.columns.headers|||"},
	{BEFORE, BEFORE "  - name: new\n", "||new|"},
	{BEFORE, TOP "sources: [{name: other}, {name: more}]\n", "||other, more|orders, stock"},
	/* What both sources inherit is told once; what one has of its own is told there. */
	{BEFORE,
	 "postgres: {dsn: host=h password=new}\nkafka: {bootstrap_servers: b, message_timeout: 10s}\n"
	 "sources:\n  - name: orders\n  - name: stock\n    kafka: {message_timeout: 20s}\n",
	 "postgres.dsn, kafka.message_timeout|||"},
	{BEFORE,
	 TOP "sources:\n  - name: orders\n    kafka: {message_timeout: 20s, properties: {linger.ms: 5}}\n"
	     "  - name: stock\n    kafka: {message_timeout: 20s}\n    postgres: {connections: 9}\n",
	 "sources.orders.kafka.message_timeout, sources.orders.kafka.properties, sources.stock.postgres.connections|||"},
};

START_TEST(test_lists)
{
	struct config *before = load(cases[_i].before), *after = load(cases[_i].after);
	struct diff diff = {0};
	struct buf lists = {0};

	diff_find(before, after, &diff);
	buf_print(&lists, "%s|%s|%s|%s", buf_text(&diff.changed), buf_text(&diff.restart), buf_text(&diff.added),
		  buf_text(&diff.removed));
	ck_assert_str_eq(buf_text(&lists), cases[_i].lists);
	buf_free(&lists);
	diff_free(&diff);
	config_free(before);
	config_free(after);
}
END_TEST

/* What is different for a source makes a new one of it, wherever it stands in the file. */
START_TEST(test_same_source)
{
	struct config *before = load(BEFORE), *after;

	after = load(TOP
		     "sources:\n  - {name: stock, kafka: {message_timeout: 20s}}\n  - {name: orders, batch: 9}\n");
	ck_assert(diff_same_source(&before->sources[1], &after->sources[0]));
	ck_assert(!diff_same_source(&before->sources[0], &after->sources[1]));
	ck_assert(!diff_same_source(&before->sources[0], &before->sources[1]));
	ck_assert(!diff_same_kafka(&before->sources[0].kafka, &before->sources[1].kafka));
	ck_assert(diff_same_postgres(&before->sources[0].postgres, &after->sources[0].postgres));
	after->sources[0].postgres.lock_timeout_us++;
	ck_assert(!diff_same_postgres(&before->sources[0].postgres, &after->sources[0].postgres));
	config_free(before);
	config_free(after);
}
END_TEST

/* Each user gives it up; the sanitizer sees to the rest. */
START_TEST(test_a_config_lives_as_long_as_its_users)
{
	struct config *config = load(BEFORE);

	ck_assert_ptr_eq(config_share(config), config);
	config_free(config);
	ck_assert_str_eq(config->sources[0].name, "orders");
	config_free(config);
	config_free(NULL);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("diff");
	TCase *tcase = tcase_create("diff");

	tcase_add_loop_test(tcase, test_lists, 0, (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_test(tcase, test_same_source);
	tcase_add_test(tcase, test_a_config_lives_as_long_as_its_users);
	suite_add_tcase(suite, tcase);
	return suite;
}
