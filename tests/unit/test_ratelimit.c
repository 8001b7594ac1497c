/* The bucket of the rate limit: what passes in a time, at once, and after a pause. */
#include "unit.h"

#include "core/ratelimit.h"

#define SECOND ((int64_t)1000000)
#define START (77 * SECOND)

START_TEST(test_no_limit)
{
	struct ratelimit limit = ratelimit_new(0, START);

	ck_assert_int_eq(ratelimit_rows(&limit, START), INT64_MAX);
	ratelimit_take(&limit, 1000000);
	ck_assert_int_eq(ratelimit_rows(&limit, START), INT64_MAX);
	ck_assert_int_eq(ratelimit_from(&limit, 1000000, START), START);
}
END_TEST

START_TEST(test_begins_empty_and_holds_a_second)
{
	struct ratelimit limit = ratelimit_new(10, START);

	ck_assert_int_eq(ratelimit_rows(&limit, START), 0);
	ck_assert_int_eq(ratelimit_rows(&limit, START + SECOND / 10 - 1), 0);
	ck_assert_int_eq(ratelimit_rows(&limit, START + SECOND / 10), 1);
	ck_assert_int_eq(ratelimit_rows(&limit, START + 2 * SECOND), 10);
	ratelimit_take(&limit, 10);
	ck_assert_int_eq(ratelimit_rows(&limit, START + 2 * SECOND), 0);
	ck_assert_int_eq(ratelimit_rows(&limit, START + 1000000 * SECOND), 10);
}
END_TEST

START_TEST(test_says_from_when_on)
{
	struct ratelimit limit = ratelimit_new(3, START);
	int64_t from = ratelimit_from(&limit, 1, START);

	/* A third of a second has no whole number of microseconds. */
	ck_assert_int_eq(from, START + 333334);
	ck_assert_int_eq(ratelimit_rows(&limit, from - 1), 0);
	ck_assert_int_eq(ratelimit_rows(&limit, from), 1);
	ck_assert_int_eq(ratelimit_from(&limit, 1, from), from);
	/* More than fit in: when it is full. */
	ck_assert_int_eq(ratelimit_from(&limit, 500, from), START + SECOND);
	ck_assert_int_eq(ratelimit_from(&limit, 3, START + 5 * SECOND), START + 5 * SECOND);
}
END_TEST

/* Whoever takes all that is there, at odd times: no more than rate * T in any T since the start, nor less than by one row. */
START_TEST(test_holds_on_average)
{
	static const int64_t rates[] = {3, 7, 100, 999, 1000000};
	struct ratelimit limit = ratelimit_new(rates[_i], START);
	int64_t now = START, taken = 0, rows;

	for (int i = 0; i < 10000; i++) {
		now += 1 + i * 7919 % 99991;
		rows = ratelimit_rows(&limit, now);
		ratelimit_take(&limit, rows);
		taken += rows;
		ck_assert_int_le(taken * SECOND, (now - START) * rates[_i]);
		ck_assert_int_gt((taken + 1) * SECOND, (now - START) * rates[_i]);
	}
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("ratelimit");
	TCase *tcase = tcase_create("ratelimit");

	tcase_add_test(tcase, test_no_limit);
	tcase_add_test(tcase, test_begins_empty_and_holds_a_second);
	tcase_add_test(tcase, test_says_from_when_on);
	tcase_add_loop_test(tcase, test_holds_on_average, 0, 5);
	suite_add_tcase(suite, tcase);
	return suite;
}
