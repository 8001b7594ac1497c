/* Single values: what is accepted, what is refused, what the environment brings in. */
#include "unit.h"

#include "config/value.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct {
	const char *text;
	int64_t us;
	const char *printed;
} durations[] = {
	{"5s", 5000000, "5s"},
	{"500ms", 500000, "500ms"},
	{"5m", 300000000, "5m"},
	{"1h", INT64_C(3600000000), "1h"},
	{"1d", INT64_C(86400000000), "1d"},
	{"60s", 60000000, "60s"},
	{"90s", 90000000, "90s"},
	{"1500ms", 1500000, "1500ms"},
	{"0s", 0, "0ms"},
	{"106751991d", INT64_C(9223372022400000000), "106751991d"},
};

START_TEST(test_F077_durations)
{
	struct buf printed = {0};
	int64_t us = -1;

	ck_assert(value_duration(durations[_i].text, &us));
	ck_assert_int_eq(us, durations[_i].us);
	value_print_duration(&printed, us);
	ck_assert_str_eq(buf_text(&printed), durations[_i].printed);
	buf_free(&printed);
}
END_TEST

static const char *const no_durations[] = {"5",	   "5 s",  "5x",	 "-1s",
					   "0",	   "",	   "inf",	 "nan",
					   "0x10", "1.5s", "1h30m",	 "99999999999999999999999999999",
					   "+5s",  " 5s",  "5s ",	 "5S",
					   "05s",  "s",	   "106751992d", "99999999999999999999999999999s",
					   "5us",  "5min"};

START_TEST(test_F077_no_durations)
{
	int64_t us = -1;

	ck_assert(!value_duration(no_durations[_i], &us));
	ck_assert_int_eq(us, -1);
}
END_TEST

static const struct {
	const char *text;
	int64_t bytes;
	const char *printed;
} sizes[] = {
	{"0B", 0, "0B"},	  {"64KiB", 65536, "64KiB"},	      {"1024KiB", 1048576, "1MiB"},
	{"1025B", 1025, "1025B"}, {"3GiB", INT64_C(3) << 30, "3GiB"}, {"2TiB", INT64_C(2) << 40, "2TiB"},
};

START_TEST(test_sizes)
{
	struct buf printed = {0};
	int64_t bytes = -1;

	ck_assert(value_size(sizes[_i].text, &bytes));
	ck_assert_int_eq(bytes, sizes[_i].bytes);
	value_print_size(&printed, bytes);
	ck_assert_str_eq(buf_text(&printed), sizes[_i].printed);
	buf_free(&printed);
}
END_TEST

static const char *const no_sizes[] = {"64", "64KB", "64kib", "64 KiB", "1.5MiB", "-1B", "", "8388608TiB"};

START_TEST(test_no_sizes)
{
	int64_t bytes;

	ck_assert(!value_size(no_sizes[_i], &bytes));
}
END_TEST

START_TEST(test_F077_integers)
{
	static const char *const bad[] = {"",	 "-1",	"+1",	 "1e3", "0x10",
					  "1.0", "007", "1_000", " 1",	"9223372036854775808"};
	int64_t number = -1;

	ck_assert(value_integer("9223372036854775807", &number));
	ck_assert_int_eq(number, INT64_MAX);
	ck_assert(value_integer("0", &number));
	ck_assert_int_eq(number, 0);
	for (int i = 0; i < COUNT(bad); i++)
		ck_assert_msg(!value_integer(bad[i], &number), "%s", bad[i]);
}
END_TEST

START_TEST(test_numbers)
{
	static const struct {
		const char *text;
		double number;
	} good[] = {{"2", 2}, {"0.2", 0.2}, {"0.000001", 0.000001}, {"12.50", 12.5}};
	static const char *const bad[] = {"", ".5", "1.", "1.0000001", "1e1", "nan", "-1", "1.2.3", "1,5", "00.5"};
	static const char *const printed[] = {"2", "0.2", "0.000001", "12.5"};
	struct buf text = {0};
	double number;

	for (int i = 0; i < COUNT(good); i++) {
		ck_assert_msg(value_number(good[i].text, &number), "%s", good[i].text);
		ck_assert_double_eq_tol(number, good[i].number, 1e-12);
		buf_clear(&text);
		value_print_number(&text, number);
		ck_assert_str_eq(buf_text(&text), printed[i]);
	}
	for (int i = 0; i < COUNT(bad); i++)
		ck_assert_msg(!value_number(bad[i], &number), "%s", bad[i]);
	buf_free(&text);
}
END_TEST

static const struct {
	const char *text, *expanded; /* NULL: refused */
} expansions[] = {
	{"", ""},
	{"no variable", "no variable"},
	{"${SET}", "value"},
	{"a${SET}b${SET}c", "avaluebvaluec"},
	{"${UNSET:-def}", "def"},
	{"${EMPTY:-def}", "def"},
	{"${EMPTY}", ""},
	{"${SET:-def}", "value"},
	{"${UNSET:-}", ""},
	{"${UNSET:-a:-b $x}", "a:-b $x"},
	{"${HOSTILE}", ": #{}\"\\'\n${SET}$$"},
	{"pa$$$$w0rd$${X}#:\"'", "pa$$w0rd${X}#:\"'"},
	{"$", "$"},
	{"$5 a$b", "$5 a$b"},
	{"$${SET}", "${SET}"},
	{"$$${SET}", "$value"},
	{"${UNSET}", NULL},
	{"${UNSET", NULL},
	{"${SET:-open", NULL},
	{"${}", NULL},
	{"${:-def}", NULL},
	{"${1X}", NULL},
	{"${SET-def}", NULL},
	{"${SE T}", NULL},
};

START_TEST(test_F076_expansion)
{
	const char *expanded = expansions[_i].expanded;
	struct buf out = {0};
	struct err err = {""};

	setenv("SET", "value", 1);
	setenv("EMPTY", "", 1);
	setenv("HOSTILE", ": #{}\"\\'\n${SET}$$", 1);
	unsetenv("UNSET");
	ck_assert_int_eq(value_expand(expansions[_i].text, &out, &err), expanded != NULL);
	if (expanded != NULL)
		ck_assert_str_eq(buf_text(&out), expanded);
	else
		ck_assert_str_ne(err.text, "");
	buf_free(&out);
}
END_TEST

START_TEST(test_F076_unset_variable_is_named)
{
	struct buf out = {0};
	struct err err;

	unsetenv("DB_PASS");
	ck_assert(!value_expand("x${DB_PASS}", &out, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "DB_PASS"));
	buf_free(&out);
}
END_TEST

START_TEST(test_distance)
{
	ck_assert_uint_eq(value_distance("pol", "poll"), 1);
	ck_assert_uint_eq(value_distance("lesae", "lease"), 1);
	ck_assert_uint_eq(value_distance("lease", "lease"), 0);
	ck_assert_uint_eq(value_distance("bootstrap.servers", "bootstrap_servers"), 1);
	ck_assert_uint_eq(value_distance("key", "none"), SIZE_MAX);
	ck_assert_uint_eq(value_distance("", "x"), 1);
	ck_assert_uint_eq(value_distance("0123456789012345678901234567890123456789012345678901234567890123", "x"),
			  SIZE_MAX);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("value");
	TCase *tcase = tcase_create("value");

	tcase_add_loop_test(tcase, test_F077_durations, 0, COUNT(durations));
	tcase_add_loop_test(tcase, test_F077_no_durations, 0, COUNT(no_durations));
	tcase_add_loop_test(tcase, test_sizes, 0, COUNT(sizes));
	tcase_add_loop_test(tcase, test_no_sizes, 0, COUNT(no_sizes));
	tcase_add_test(tcase, test_F077_integers);
	tcase_add_test(tcase, test_numbers);
	tcase_add_loop_test(tcase, test_F076_expansion, 0, COUNT(expansions));
	tcase_add_test(tcase, test_F076_unset_variable_is_named);
	tcase_add_test(tcase, test_distance);
	suite_add_tcase(suite, tcase);
	return suite;
}
