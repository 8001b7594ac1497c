/* Log lines: formats, escapes, what systemd reads, repeating faults. stderr is a file here. */
#include "unit.h"

#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int stderr_before, capture;
static char written[1 << 20];

static void set_up(void)
{
	FILE *file = tmpfile();

	ck_assert_ptr_nonnull(file);
	capture = dup(fileno(file));
	fclose(file);
	stderr_before = dup(STDERR_FILENO);
	dup2(capture, STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	log_configure(LOG_INFO, LOG_LOGFMT);
}

static void tear_down(void)
{
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(capture);
}

/* What was written since the last call, the time replaced by T. */
static const char *take(void)
{
	static off_t from = 0;
	ssize_t len = pread(capture, written, sizeof(written) - 1, from);
	char *time_text;

	ck_assert_int_ge(len, 0);
	written[len] = '\0';
	from += len;
	while ((time_text = strstr(written, "20")) != NULL && strlen(time_text) >= 24 && time_text[23] == 'Z') {
		time_text[0] = 'T';
		memmove(time_text + 1, time_text + 24, strlen(time_text + 24) + 1);
	}
	return written;
}

START_TEST(test_logfmt)
{
	LOG(LOG_INFO, "started", log_str("source", "orders"), log_int("pid", -7), log_str("none", NULL),
	    log_str("empty", ""), log_bytes("bytes", "ab", 1));
	ck_assert_str_eq(take(), "time=T level=info event=started source=orders pid=-7 empty=\"\" bytes=a\n");
}
END_TEST

START_TEST(test_escapes)
{
	static const char hostile[] = "a\"b\\c\nd\x1B[31m\x7F=\xC2\x85\xFF\xC3\xA4\xF0\x9F\x98\x80\xED\xA0\x80";

	LOG(LOG_WARN, "x", log_str("v", hostile));
	ck_assert_str_eq(
		take(),
		"time=T level=warn event=x v=\"a\\\"b\\\\c\\nd\\u001b[31m\\u007f=\\u0085\xEF\xBF\xBD\xC3\xA4"
		"\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"\n");
	LOG(LOG_WARN, "x", log_str("a", "with space"), log_str("b", "k=v"), log_str("c", "plain/1.2:3"));
	ck_assert_str_eq(take(), "time=T level=warn event=x a=\"with space\" b=\"k=v\" c=plain/1.2:3\n");
}
END_TEST

START_TEST(test_json)
{
	log_configure(LOG_INFO, LOG_JSON);
	LOG(LOG_ERROR, "row_failed", log_str("id", "9223372036854775807"), log_int("n", INT64_MIN),
	    log_bytes("text", "a\0\"", 3));
	ck_assert_str_eq(
		take(),
		"{\"time\":\"T\",\"level\":\"error\",\"event\":\"row_failed\",\"id\":\"9223372036854775807\","
		"\"n\":-9223372036854775808,\"text\":\"a\\u0000\\\"\"}\n");
}
END_TEST

START_TEST(test_text_without_a_terminal_has_no_colour)
{
	log_configure(LOG_INFO, LOG_TEXT);
	LOG(LOG_WARN, "postgres_down", log_str("source", "orders"));
	ck_assert_str_eq(take(), "T WARN  event=postgres_down source=orders\n");
}
END_TEST

START_TEST(test_level)
{
	log_configure(LOG_WARN, LOG_LOGFMT);
	ck_assert(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN) && !log_enabled(LOG_INFO));
	LOG(LOG_INFO, "hidden", log_int("n", 1));
	LOG_LIMITED(LOG_DEBUG, "hidden", "x", log_int("n", 1));
	log_flush_limited(true);
	ck_assert_str_eq(take(), "");
	log_configure(LOG_DEBUG, LOG_LOGFMT);
	LOG(LOG_DEBUG, "shown", log_int("n", 1));
	ck_assert_str_eq(take(), "time=T level=debug event=shown n=1\n");
}
END_TEST

static void set_journal_stream(int difference)
{
	struct stat status;
	char text[64];

	ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
	snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)status.st_dev,
		 (uintmax_t)status.st_ino + (uintmax_t)difference);
	setenv("JOURNAL_STREAM", text, 1);
}

START_TEST(test_journal_gets_priorities)
{
	static const struct {
		enum log_level level;
		const char *start;
	} priorities[] = {
		{LOG_ERROR, "<3>time="}, {LOG_WARN, "<4>time="}, {LOG_INFO, "<6>time="}, {LOG_DEBUG, "<7>time="}};

	set_journal_stream(0);
	log_configure(LOG_DEBUG, LOG_AUTO);
	for (size_t i = 0; i < sizeof(priorities) / sizeof(priorities[0]); i++) {
		LOG(priorities[i].level, "x", log_int("n", 1));
		ck_assert_int_eq(strncmp(take(), priorities[i].start, strlen(priorities[i].start)), 0);
	}
}
END_TEST

/* systemd started it, but stderr was redirected since: no journal reads it. */
START_TEST(test_another_stream_than_the_journal)
{
	set_journal_stream(1);
	log_configure(LOG_INFO, LOG_AUTO);
	LOG(LOG_INFO, "x", log_int("n", 1));
	ck_assert_str_eq(take(), "time=T level=info event=x n=1\n");
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_configure(LOG_INFO, LOG_AUTO);
	LOG(LOG_INFO, "x", log_int("n", 1));
	ck_assert_str_eq(take(), "time=T level=info event=x n=1\n");
}
END_TEST

START_TEST(test_F054_repeats_are_summed_up)
{
	for (int i = 0; i < 1000; i++) {
		LOG_LIMITED(LOG_WARN, "kafka_down", "orders", log_str("source", "orders"), log_int("n", i));
		LOG_LIMITED(LOG_WARN, "kafka_down", "other", log_str("source", "other"));
	}
	ck_assert_str_eq(take(), "time=T level=warn event=kafka_down source=orders n=0\n"
				 "time=T level=warn event=kafka_down source=other\n");
	log_flush_limited(false);
	ck_assert_str_eq(take(), "");
	log_flush_limited(true);
	ck_assert_str_eq(take(), "time=T level=warn event=kafka_down source=orders n=0 suppressed=999\n"
				 "time=T level=warn event=kafka_down source=other suppressed=999\n");
	/* The second flush forgets what has been quiet: then the next line is a first one again. */
	log_flush_limited(true);
	ck_assert_str_eq(take(), "");
	LOG_LIMITED(LOG_WARN, "kafka_down", "orders", log_str("source", "orders"));
	ck_assert_str_eq(take(), "time=T level=warn event=kafka_down source=orders\n");
	log_flush_limited(true);
}
END_TEST

START_TEST(test_classes_are_bounded)
{
	char class[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(class, sizeof(class), "class %d", i);
		LOG_LIMITED(LOG_WARN, "x", class, log_int("n", i));
	}
	take();
	LOG_LIMITED(LOG_WARN, "x", "class 0", log_int("n", 0));
	ck_assert_str_eq(take(), "");
	LOG_LIMITED(LOG_WARN, "x", "class 2999", log_int("n", 0));
	ck_assert_str_eq(take(), "time=T level=warn event=x n=0\n");
	log_flush_limited(true);
	log_flush_limited(true);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("log");
	TCase *tcase = tcase_create("log");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, test_logfmt);
	tcase_add_test(tcase, test_escapes);
	tcase_add_test(tcase, test_json);
	tcase_add_test(tcase, test_text_without_a_terminal_has_no_colour);
	tcase_add_test(tcase, test_level);
	tcase_add_test(tcase, test_journal_gets_priorities);
	tcase_add_test(tcase, test_another_stream_than_the_journal);
	tcase_add_test(tcase, test_F054_repeats_are_summed_up);
	tcase_add_test(tcase, test_classes_are_bounded);
	suite_add_tcase(suite, tcase);
	return suite;
}
