/* pgarray: bytes as PostgreSQL's own array_send writes them. */
#include "unit.h"

#include "core/pgarray.h"

#include <string.h>

static void check_bytes(struct slice got, const char *want, size_t len)
{
	ck_assert_uint_eq(got.len, len);
	ck_assert_mem_eq(got.bytes, want, len);
}

#define CHECK_BYTES(got, literal) check_bytes(got, literal, sizeof(literal) - 1)

START_TEST(test_empty)
{
	struct pgarray array = {0};

	pgarray_begin(&array, PGOID_TEXT);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\0\0\0\0\0\0\0\0\x19");
	pgarray_free(&array);
}
END_TEST

START_TEST(test_text_with_null)
{
	struct pgarray array = {0};

	pgarray_begin(&array, PGOID_TEXT);
	pgarray_add_bytes(&array, slice_of("ab"));
	pgarray_add_bytes(&array, SLICE_NULL);
	pgarray_add_bytes(&array, slice_of(""));
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1"
					 "\0\0\0\2ab\xff\xff\xff\xff\0\0\0\0");
	pgarray_free(&array);
}
END_TEST

START_TEST(test_numbers)
{
	struct pgarray array = {0};

	pgarray_begin(&array, PGOID_INT4);
	pgarray_add_int4(&array, INT32_MIN);
	pgarray_add_int4(&array, 7);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\0\1"
					 "\0\0\0\4\x80\0\0\0\0\0\0\4\0\0\0\7");
	pgarray_begin(&array, PGOID_INT8);
	pgarray_add_int8(&array, -2);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\1\0\0\0\1"
					 "\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xfe");
	pgarray_begin(&array, PGOID_INTERVAL);
	pgarray_add_interval_us(&array, 1000001);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\1\0\0\0\0\0\0\4\xa2\0\0\0\1\0\0\0\1"
					 "\0\0\0\x10\0\0\0\0\0\x0f\x42\x41\0\0\0\0\0\0\0\0");
	pgarray_free(&array);
}
END_TEST

/* A second array must not inherit the first one's length, flag or elements. */
START_TEST(test_reuse)
{
	struct pgarray array = {0};

	pgarray_begin(&array, PGOID_TEXT);
	pgarray_add_bytes(&array, SLICE_NULL);
	ck_assert_uint_eq(pgarray_end(&array).len, 24);
	pgarray_begin(&array, PGOID_TEXT);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\0\0\0\0\0\0\0\0\x19");
	pgarray_begin(&array, PGOID_INT4);
	pgarray_add_int4(&array, 1);
	CHECK_BYTES(pgarray_end(&array), "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\1");
	pgarray_free(&array);
}
END_TEST

START_TEST(test_get)
{
	static const int64_t numbers[] = {0,	     1, -1, INT32_MAX, INT64_MAX, INT64_MIN, 9223372036854775807,
					  3000000000};
	struct pgarray array = {0};
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		pgarray_begin(&array, PGOID_INT8);
		pgarray_add_int8(&array, numbers[i]);
		ck_assert_int_eq(pg_get_int8((struct slice){pgarray_end(&array).bytes + 24, 8}), numbers[i]);
		pgarray_begin(&array, PGOID_INT4);
		pgarray_add_int4(&array, (int32_t)numbers[i]);
		ck_assert_int_eq(pg_get_int4((struct slice){pgarray_end(&array).bytes + 24, 4}),
				 (int32_t)numbers[i]);
	}
	pgarray_free(&array);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("pgarray");
	TCase *tcase = tcase_create("pgarray");

	tcase_add_test(tcase, test_empty);
	tcase_add_test(tcase, test_text_with_null);
	tcase_add_test(tcase, test_numbers);
	tcase_add_test(tcase, test_reuse);
	tcase_add_test(tcase, test_get);
	suite_add_tcase(suite, tcase);
	return suite;
}
