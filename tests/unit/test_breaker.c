/* A breaker: closed, open for a while, one probe, and what its answer does. */
#include "unit.h"

#include "core/breaker.h"

#define SECOND ((int64_t)1000000)

static struct backoff_random random_numbers = {7};

/* Fails once and returns how long the breaker stays shut. */
static int64_t trip(struct breaker *breaker, int64_t now)
{
	ck_assert(breaker_failure(breaker, now, &random_numbers));
	return breaker_remaining(breaker, now);
}

START_TEST(test_closed_lets_all_pass)
{
	struct breaker breaker = {0};

	ck_assert(breaker_pass(&breaker, 0));
	ck_assert(breaker_pass(&breaker, 0));
	ck_assert(!breaker_success(&breaker));
	ck_assert_int_eq(breaker_remaining(&breaker, 0), 0);
}
END_TEST

START_TEST(test_open_lets_one_probe_through)
{
	struct breaker breaker = {0};
	int64_t shut = trip(&breaker, 0);

	ck_assert_int_ge(shut, 8 * SECOND / 10);
	ck_assert_int_le(shut, 12 * SECOND / 10);
	ck_assert(!breaker_would_pass(&breaker, shut - 1));
	ck_assert(!breaker_pass(&breaker, shut - 1));
	ck_assert(breaker_would_pass(&breaker, shut));
	ck_assert_int_eq(breaker.state, BREAKER_OPEN);
	ck_assert(breaker_pass(&breaker, shut));
	ck_assert_int_eq(breaker.state, BREAKER_PROBING);
	ck_assert(!breaker_pass(&breaker, shut + 100 * SECOND));
	ck_assert_int_eq(breaker_remaining(&breaker, shut), 0);
}
END_TEST

START_TEST(test_a_good_answer_closes_it_from_any_state)
{
	struct breaker breaker = {0};
	int64_t shut = trip(&breaker, 0);

	ck_assert(breaker_success(&breaker));
	ck_assert(breaker_pass(&breaker, 0));
	shut = trip(&breaker, 0);
	ck_assert_int_le(shut, 12 * SECOND / 10);
	ck_assert(breaker_pass(&breaker, shut));
	ck_assert(breaker_success(&breaker));
	ck_assert_int_eq(breaker.failures, 0);
}
END_TEST

/* Answers of messages that were sent before it opened must not lengthen the pause. */
START_TEST(test_failures_while_open_change_nothing)
{
	struct breaker breaker = {0};
	int64_t shut = trip(&breaker, 0);
	int i;

	for (i = 0; i < 1000; i++)
		ck_assert(!breaker_failure(&breaker, shut / 2, &random_numbers));
	ck_assert_int_eq(breaker_remaining(&breaker, 0), shut);
	ck_assert_int_eq(breaker.failures, 1);
}
END_TEST

START_TEST(test_F031_the_pause_grows_to_30_s_and_no_further)
{
	static const int64_t expected[] = {1, 2, 4, 8, 16, 24, 24, 24};
	struct breaker breaker = {0};
	int64_t now = 0, shut;
	int i;

	for (i = 0; i < 8; i++) {
		shut = trip(&breaker, now);
		ck_assert_int_ge(shut, expected[i] * SECOND * 8 / 10);
		ck_assert_int_le(shut, expected[i] * SECOND * 12 / 10);
		now += shut;
		ck_assert(breaker_pass(&breaker, now));
	}
	breaker.failures = INT32_MAX;
	ck_assert_int_lt(trip(&breaker, now), 29 * SECOND);
	ck_assert_int_eq(breaker.failures, INT32_MAX);
}
END_TEST

START_TEST(test_a_lost_probe_is_due_again_at_once)
{
	struct breaker breaker = {0};
	int64_t shut = trip(&breaker, 0);

	breaker_probe_lost(&breaker);
	ck_assert_int_eq(breaker_remaining(&breaker, 0), shut); /* there was no probe */
	ck_assert(breaker_pass(&breaker, shut));
	breaker_probe_lost(&breaker);
	ck_assert_int_eq(breaker.failures, 1);
	ck_assert(breaker_pass(&breaker, shut));
	breaker_success(&breaker);
	breaker_probe_lost(&breaker);
	ck_assert_int_eq(breaker.state, BREAKER_CLOSED);
}
END_TEST

START_TEST(test_since_the_first_failure)
{
	struct breaker breaker = {0};
	int64_t now = 5 * SECOND;

	now += trip(&breaker, now);
	ck_assert_int_eq(breaker.since_us, 5 * SECOND);
	ck_assert(breaker_pass(&breaker, now));
	trip(&breaker, now);
	ck_assert_int_eq(breaker.since_us, 5 * SECOND);
	ck_assert(breaker_success(&breaker));
	trip(&breaker, 100 * SECOND);
	ck_assert_int_eq(breaker.since_us, 100 * SECOND);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("breaker");
	TCase *tcase = tcase_create("states");

	tcase_add_test(tcase, test_closed_lets_all_pass);
	tcase_add_test(tcase, test_open_lets_one_probe_through);
	tcase_add_test(tcase, test_a_good_answer_closes_it_from_any_state);
	tcase_add_test(tcase, test_failures_while_open_change_nothing);
	tcase_add_test(tcase, test_F031_the_pause_grows_to_30_s_and_no_further);
	tcase_add_test(tcase, test_a_lost_probe_is_due_again_at_once);
	tcase_add_test(tcase, test_since_the_first_failure);
	suite_add_tcase(suite, tcase);
	return suite;
}
