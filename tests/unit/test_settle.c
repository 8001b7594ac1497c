#include "core/pgarray.h"
#include "core/settle.h"
#include "unit.h"

#include <string.h>

#define HEADER 20

static const char lease[8] = {0, 2, 3, 4, 5, 6, 7, 8};

static struct settle_row row(const char *id)
{
	return (struct settle_row){.id = slice_of(id), .lease = {lease, 8}, .owner = "host-1", .state = "FAILED"};
}

/* The n-th element of a one-dimensional array. */
static struct slice element(struct slice array, int n)
{
	struct slice value = SLICE_NULL;
	size_t at = HEADER;
	int32_t len;
	int i;

	for (i = 0; i <= n; i++) {
		len = pg_get_int4((struct slice){array.bytes + at, 4});
		value = len < 0 ? SLICE_NULL : (struct slice){array.bytes + at + 4, (size_t)len};
		at += 4 + (len < 0 ? 0 : (size_t)len);
		ck_assert_uint_le(at, array.len);
	}
	return value;
}

static int length(struct slice array)
{
	return pg_get_int4((struct slice){array.bytes + 12, 4});
}

START_TEST(test_rows_become_parallel_arrays)
{
	struct settle *settle = settle_new();
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	struct settle_row first = row("7"), second = row("12");

	second.state = "PENDING";
	second.delay_us = 1500000;
	second.back = 1;
	second.error = "TOPIC_AUTHORIZATION_FAILED: no";
	settle_begin(settle);
	settle_add(settle, &first);
	settle_add(settle, &second);
	settle_values(settle, values);
	ck_assert(slice_equal(element(values[SQL_P_IDS], 0), slice_of("7")));
	ck_assert(slice_equal(element(values[SQL_P_IDS], 1), slice_of("12")));
	ck_assert_mem_eq(element(values[SQL_P_LEASES], 1).bytes, lease, 8);
	ck_assert(slice_equal(element(values[SQL_P_STATES], 1), slice_of("PENDING")));
	ck_assert_int_eq(pg_get_int8(element(values[SQL_P_DELAYS], 0)), 0);
	ck_assert_int_eq(pg_get_int8(element(values[SQL_P_DELAYS], 1)), 1500000);
	ck_assert_int_eq(pg_get_int4(element(values[SQL_P_BACKS], 0)), 0);
	ck_assert_int_eq(pg_get_int4(element(values[SQL_P_BACKS], 1)), 1);
	ck_assert_ptr_null(element(values[SQL_P_ERRORS], 0).bytes);
	ck_assert(slice_equal(element(values[SQL_P_ERRORS], 1), slice_of(second.error)));
	ck_assert(slice_equal(element(values[SQL_P_OWNERS], 1), slice_of("host-1")));
	settle_free(settle);
}
END_TEST

/* Lease and owner stand once a claim, beside the stretch of its ids. */
START_TEST(test_delivered_rows_stand_by_claim)
{
	static const char later[8] = {0, 2, 3, 4, 5, 6, 7, 9};
	struct settle *settle = settle_new();
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	int round;

	for (round = 0; round < 2; round++) {
		settle_begin(settle);
		settle_begin_claim(settle, (struct slice){lease, 8}, "host-1");
		settle_add_sent(settle, slice_of("7"));
		settle_add_sent(settle, slice_of("12"));
		settle_begin_claim(settle, (struct slice){later, 8}, "host-2");
		settle_add_sent(settle, slice_of("9"));
		settle_values(settle, values);
		ck_assert_int_eq(length(values[SQL_P_IDS]), 3);
		ck_assert(slice_equal(element(values[SQL_P_IDS], 2), slice_of("9")));
		ck_assert_int_eq(length(values[SQL_P_LEASES]), 2);
		ck_assert_mem_eq(element(values[SQL_P_LEASES], 1).bytes, later, 8);
		ck_assert(slice_equal(element(values[SQL_P_OWNERS], 1), slice_of("host-2")));
		ck_assert_int_eq(length(values[SQL_P_FIRSTS]), 2);
		ck_assert_int_eq(pg_get_int4(element(values[SQL_P_FIRSTS], 0)), 1);
		ck_assert_int_eq(pg_get_int4(element(values[SQL_P_FIRSTS], 1)), 3);
		ck_assert_int_eq(length(values[SQL_P_LASTS]), 2);
		ck_assert_int_eq(pg_get_int4(element(values[SQL_P_LASTS], 0)), 2);
		ck_assert_int_eq(pg_get_int4(element(values[SQL_P_LASTS], 1)), 3);
	}
	settle_free(settle);
}
END_TEST

START_TEST(test_begin_forgets_the_rows_before)
{
	struct settle *settle = settle_new();
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	struct settle_row first = row("1"), second = row("2");

	settle_begin(settle);
	settle_add(settle, &first);
	settle_begin(settle);
	settle_add(settle, &second);
	values[SQL_P_OWNER] = values[SQL_P_MAX_ATTEMPTS] = slice_of("whoever claims");
	settle_values(settle, values);
	ck_assert(slice_equal(values[SQL_P_OWNER], slice_of("whoever claims")));
	ck_assert(slice_equal(values[SQL_P_MAX_ATTEMPTS], slice_of("whoever claims")));
	ck_assert_int_eq(length(values[SQL_P_IDS]), 1);
	ck_assert(slice_equal(element(values[SQL_P_IDS], 0), slice_of("2")));
	settle_free(settle);
	settle_free(NULL);
}
END_TEST

static const struct {
	const char *text, *clean;
	size_t limit;
} texts[] = {
	{"plain", "plain", 100},
	{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 100},
	{"bad\xff\xfe", "bad??", 100},
	{"cut \xc3", "cut ?", 100},
	{"over\xc0\x80long", "over??long", 100},
	{"surrogate \xed\xa0\x80", "surrogate ???", 100},
	{"gr\xc3\xbc\xc3\x9f", "gr", 3}, /* never inside a character */
	{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc", 4},
	{"ab\xff", "ab?", 3},
	{"ab\xff", "ab", 2},
	{"abc", "abc", 3},
	{"", "", 100},
};

START_TEST(test_errors_are_valid_text)
{
	struct buf out = {0};

	settle_clean_text(&out, texts[_i].text, texts[_i].limit);
	ck_assert_str_eq(buf_text(&out), texts[_i].clean);
	buf_free(&out);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("settle");
	TCase *tests = tcase_create("settle");

	tcase_add_test(tests, test_rows_become_parallel_arrays);
	tcase_add_test(tests, test_delivered_rows_stand_by_claim);
	tcase_add_test(tests, test_begin_forgets_the_rows_before);
	tcase_add_loop_test(tests, test_errors_are_valid_text, 0, sizeof(texts) / sizeof(texts[0]));
	suite_add_tcase(suite, tests);
	return suite;
}
