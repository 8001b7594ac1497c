/* How long to wait: growth, cap, jitter, and that nothing overflows. */
#include "unit.h"

#include "core/backoff.h"

#define SECOND ((int64_t)1000000)

START_TEST(test_grows_to_the_cap)
{
	static const int64_t expected[] = {1, 2, 4, 8, 16, 30, 30};
	struct backoff_random random = {0};
	int i;

	for (i = 0; i < 7; i++)
		ck_assert_int_eq(backoff_delay(SECOND, 2, 30 * SECOND, 0, i + 1, &random), expected[i] * SECOND);
	ck_assert_int_eq(backoff_delay(SECOND, 2, 30 * SECOND, 0, 0, &random), SECOND);
	ck_assert_int_eq(backoff_delay(SECOND, 1, 30 * SECOND, 0, 1000, &random), SECOND);
	ck_assert_int_eq(backoff_delay(60 * SECOND, 2, 30 * SECOND, 0, 1, &random), 30 * SECOND);
}
END_TEST

START_TEST(test_F025_exponential_growth_does_not_overflow)
{
	static const int32_t attempts[] = {30, 31, 32, 62, 63, 64, 1000, 2147483646, INT32_MAX};
	static const double multipliers[] = {1.5, 2, 10, 1e300};
	struct backoff_random random = {1};
	int64_t delay;
	size_t i, j;

	for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		for (j = 0; j < sizeof(multipliers) / sizeof(multipliers[0]); j++) {
			delay = backoff_delay(SECOND, multipliers[j], 300 * SECOND, 0.2, attempts[i], &random);
			ck_assert_int_ge(delay, 240 * SECOND);
			ck_assert_int_le(delay, 360 * SECOND);
		}
	}
	ck_assert_int_ge(backoff_delay(INT64_MAX, 2, INT64_MAX, 0.5, INT32_MAX, &random), INT64_MAX / 2 - 1);
	ck_assert_int_le(backoff_delay(0, 1e300, SECOND, 0, INT32_MAX, &random), SECOND); /* 0 * infinity */
	ck_assert_int_ge(backoff_delay(0, 1e300, SECOND, 0, INT32_MAX, &random), 0);
}
END_TEST

/* A thousand rows fail at once, two relays: the due times spread, inside the band, and differ between the two. */
START_TEST(test_F030_jitter_spreads_a_herd)
{
	struct backoff_random relays[2];
	int64_t delays[2], low = INT64_MAX, high = 0;
	int i, same = 0;

	backoff_seed(&relays[0], 1);
	backoff_seed(&relays[1], 2);
	for (i = 0; i < 1000; i++) {
		delays[0] = backoff_delay(60 * SECOND, 2, 300 * SECOND, 0.2, 1, &relays[0]);
		delays[1] = backoff_delay(60 * SECOND, 2, 300 * SECOND, 0.2, 1, &relays[1]);
		same += delays[0] == delays[1];
		low = delays[0] < low ? delays[0] : low;
		high = delays[0] > high ? delays[0] : high;
	}
	ck_assert_int_ge(low, 48 * SECOND);
	ck_assert_int_le(high, 72 * SECOND);
	ck_assert_int_ge(high - low, 6 * SECOND);
	ck_assert_int_lt(same, 10);
}
END_TEST

START_TEST(test_jitter_above_one_is_never_negative)
{
	struct backoff_random random = {3};
	int i;

	for (i = 0; i < 1000; i++)
		ck_assert_int_ge(backoff_delay(SECOND, 2, 30 * SECOND, 5, 1, &random), 0);
}
END_TEST

/* splitmix64 as published: https://prng.di.unimi.it/splitmix64.c */
START_TEST(test_the_numbers_are_those_of_splitmix64)
{
	struct backoff_random random;

	backoff_seed(&random, 0);
	ck_assert_uint_eq(backoff_next(&random), UINT64_C(0xe220a8397b1dcdaf));
	ck_assert_uint_eq(backoff_next(&random), UINT64_C(0x6e789e6aa1b965f4));
	ck_assert_uint_eq(backoff_next(&random), UINT64_C(0x06c45d188009454f));
}
END_TEST

START_TEST(test_a_seed_replays_its_numbers)
{
	struct backoff_random first, second;
	double sum = 0, number;
	int i;

	backoff_seed(&first, 0);
	backoff_seed(&second, 0);
	for (i = 0; i < 10000; i++) {
		number = backoff_uniform(&first);
		ck_assert(number >= 0 && number < 1);
		ck_assert(number == backoff_uniform(&second));
		sum += number;
	}
	ck_assert_double_eq_tol(sum / 10000, 0.5, 0.02);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("backoff");
	TCase *tcase = tcase_create("delay");

	tcase_add_test(tcase, test_grows_to_the_cap);
	tcase_add_test(tcase, test_F025_exponential_growth_does_not_overflow);
	tcase_add_test(tcase, test_F030_jitter_spreads_a_herd);
	tcase_add_test(tcase, test_jitter_above_one_is_never_negative);
	tcase_add_test(tcase, test_the_numbers_are_those_of_splitmix64);
	tcase_add_test(tcase, test_a_seed_replays_its_numbers);
	suite_add_tcase(suite, tcase);
	return suite;
}
