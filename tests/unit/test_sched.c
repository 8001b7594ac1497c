/* Which job is next: each rule by an example, then random facts against the promise of again_us. */
#include "unit.h"

#include "core/backoff.h"
#include "core/sched.h"

#include <string.h>

#define NOW 1000000

/* A source in the middle of its work with nothing due: max_in_flight 4000, batch 500, 1000 rows held. */
static struct sched_facts at_rest(void)
{
	struct sched_facts facts = {
		.now_us = NOW,
		.database = true,
		.claiming = true,
		.room = 3000,
		.batch = 500,
		.max_in_flight = 4000,
		.held = 1000,
		.busy = 1000,
	};
	int job;

	for (job = 0; job < SCHED_JOBS; job++)
		facts.due_us[job] = SCHED_NEVER;
	facts.due_us[SCHED_SETTLE] = 0;
	return facts;
}

static struct sched_facts with_outcomes(size_t outcomes, int64_t oldest)
{
	struct sched_facts facts = at_rest();

	facts.outcomes = outcomes;
	facts.busy = facts.held - outcomes;
	facts.oldest_outcome_us = oldest;
	return facts;
}

static void expect(const struct sched_facts *facts, enum sched_job job, int64_t again)
{
	struct sched_pick pick = sched_pick(facts);

	ck_assert_str_eq(sched_job_name(pick.job), sched_job_name(job));
	ck_assert_int_eq(pick.again_us, again);
}

START_TEST(test_nothing_to_do)
{
	struct sched_facts facts = at_rest();

	expect(&facts, SCHED_NONE, SCHED_NEVER);
	facts.due_us[SCHED_COUNT] = NOW + 5;
	facts.due_us[SCHED_CLAIM] = NOW + 7;
	expect(&facts, SCHED_NONE, NOW + 5);
	facts.due_us[SCHED_COUNT] = NOW;
	expect(&facts, SCHED_COUNT, NOW + 7);
	facts.database = false;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

START_TEST(test_urgency)
{
	static const enum sched_job order[] = {SCHED_SETTLE, SCHED_EXPIRE, SCHED_CLAIM, SCHED_SWEEP, SCHED_COUNT};
	struct sched_facts facts = with_outcomes(500, NOW);
	size_t i;

	facts.due_us[SCHED_EXPIRE] = facts.due_us[SCHED_CLAIM] = facts.due_us[SCHED_SWEEP] =
		facts.due_us[SCHED_COUNT] = NOW;
	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		expect(&facts, order[i], SCHED_NEVER);
		facts.running[order[i]] = true;
	}
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

/* With a backlog a claim is always due: what keeps the table in order must have its turn all the same. */
START_TEST(test_claims_give_way_to_what_has_waited)
{
	static const enum sched_job jobs[] = {SCHED_SWEEP, SCHED_COUNT};
	size_t i;

	for (i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct sched_facts facts = at_rest();

		facts.now_us = NOW + SCHED_PATIENCE_US;
		facts.due_us[SCHED_CLAIM] = 0;
		facts.due_us[jobs[i]] = NOW + 1;
		expect(&facts, SCHED_CLAIM, SCHED_NEVER);
		facts.due_us[jobs[i]] = NOW;
		expect(&facts, jobs[i], SCHED_NEVER);
		facts.running[jobs[i]] = true;
		expect(&facts, SCHED_CLAIM, SCHED_NEVER);
	}
}
END_TEST

START_TEST(test_outcomes_wait_for_company)
{
	struct sched_facts facts = with_outcomes(1, NOW - 1000);

	expect(&facts, SCHED_NONE, NOW - 1000 + SCHED_SETTLE_DELAY_US);
	facts.now_us = NOW - 1000 + SCHED_SETTLE_DELAY_US;
	expect(&facts, SCHED_SETTLE, SCHED_NEVER);
	facts = with_outcomes(500, NOW);
	expect(&facts, SCHED_SETTLE, SCHED_NEVER);
	facts = with_outcomes(1, NOW);
	facts.settle_at_once = true;
	expect(&facts, SCHED_SETTLE, SCHED_NEVER);
	facts.outcomes = 0;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

START_TEST(test_outcomes_do_not_wait_when_nothing_joins)
{
	struct sched_facts facts = with_outcomes(1, NOW);

	facts.busy = 0;
	expect(&facts, SCHED_SETTLE, SCHED_NEVER);
}
END_TEST

START_TEST(test_outcomes_do_not_wait_when_a_claim_waits_for_room)
{
	struct sched_facts facts = with_outcomes(1, NOW);

	facts.room = 100;
	expect(&facts, SCHED_NONE, NOW + SCHED_SETTLE_DELAY_US); /* no claim is due */
	facts.due_us[SCHED_CLAIM] = NOW + 10;
	expect(&facts, SCHED_NONE, NOW + 10);
	facts.due_us[SCHED_CLAIM] = NOW;
	expect(&facts, SCHED_SETTLE, SCHED_NEVER);
	facts.claiming = false;
	expect(&facts, SCHED_NONE, NOW + SCHED_SETTLE_DELAY_US);
}
END_TEST

START_TEST(test_one_settle_at_a_time_and_not_before_its_time)
{
	struct sched_facts facts = with_outcomes(500, NOW);

	facts.due_us[SCHED_SETTLE] = NOW + 3;
	expect(&facts, SCHED_NONE, NOW + 3);
	facts.running[SCHED_SETTLE] = true;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

START_TEST(test_claims_need_room)
{
	static const struct {
		size_t batch, max_in_flight, held, room;
		bool claims;
	} cases[] = {
		{500, 4000, 3500, 500, true}, {500, 4000, 3501, 499, false}, {500, 1000, 750, 250, true},
		{500, 1000, 751, 249, false}, {500, 100, 0, 100, true},	     {500, 100, 90, 10, false},
		{500, 3, 3, 0, false},	      {500, 3, 2, 1, true},	     {1, 1, 1, 0, false},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sched_facts facts = at_rest();

		facts.batch = cases[i].batch;
		facts.max_in_flight = cases[i].max_in_flight;
		facts.held = facts.busy = cases[i].held;
		facts.room = cases[i].room;
		facts.due_us[SCHED_CLAIM] = NOW;
		expect(&facts, cases[i].claims ? SCHED_CLAIM : SCHED_NONE, SCHED_NEVER);
	}
}
END_TEST

START_TEST(test_claims_stop_when_told)
{
	struct sched_facts facts = at_rest();

	facts.due_us[SCHED_CLAIM] = NOW;
	facts.claiming = false;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
	facts.claiming = true;
	facts.running[SCHED_SUSPECT] = true;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

/* A row that may have killed a process is claimed alone: memory drains first, and nothing joins it. */
START_TEST(test_F029_a_suspect_is_claimed_alone)
{
	struct sched_facts facts = at_rest();

	facts.due_us[SCHED_CLAIM] = facts.due_us[SCHED_SUSPECT] = NOW;
	expect(&facts, SCHED_NONE, SCHED_NEVER); /* it is due, but memory is not empty: no claim either */
	facts.held = facts.busy = 0;
	facts.room = 4000;
	facts.running[SCHED_CLAIM] = true;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
	facts.running[SCHED_CLAIM] = false;
	expect(&facts, SCHED_SUSPECT, SCHED_NEVER);
	facts.due_us[SCHED_SUSPECT] = NOW + 100;
	expect(&facts, SCHED_CLAIM, NOW + 100);
	facts.claiming = false;
	expect(&facts, SCHED_NONE, SCHED_NEVER);
}
END_TEST

static int64_t random_time(struct backoff_random *random)
{
	static const int64_t near[] = {0, NOW - 2, NOW - 1, NOW, NOW + 1, NOW + 2, NOW + 30, SCHED_NEVER};

	return near[backoff_next(random) % 8];
}

static struct sched_facts random_facts(struct backoff_random *random)
{
	struct sched_facts facts = at_rest();
	int job;

	for (job = 0; job < SCHED_JOBS; job++) {
		facts.due_us[job] = random_time(random);
		facts.running[job] = backoff_next(random) % 3 == 0;
	}
	facts.database = backoff_next(random) % 8 != 0;
	facts.claiming = backoff_next(random) % 4 != 0;
	facts.batch = 1 + backoff_next(random) % 6;
	facts.max_in_flight = 1 + backoff_next(random) % 12;
	facts.held = backoff_next(random) % (facts.max_in_flight + 1);
	facts.room = facts.max_in_flight - facts.held;
	facts.outcomes = backoff_next(random) % (facts.held + 1);
	facts.busy = backoff_next(random) % (facts.held - facts.outcomes + 1);
	facts.oldest_outcome_us = NOW - SCHED_SETTLE_DELAY_US + (int64_t)(backoff_next(random) % 10) - 5;
	facts.settle_at_once = backoff_next(random) % 8 == 0;
	return facts;
}

/* Between now and again_us the answer "nothing" stays the answer; at again_us it is another. */
START_TEST(test_again_is_exact)
{
	struct backoff_random random = {2};
	struct sched_facts facts;
	struct sched_pick pick;
	int64_t last;
	int i, idle = 0;

	for (i = 0; i < 40000; i++) {
		facts = random_facts(&random);
		pick = sched_pick(&facts);
		ck_assert_int_gt(pick.again_us, NOW);
		if (pick.job != SCHED_NONE)
			continue;
		idle++;
		last = pick.again_us == SCHED_NEVER ? NOW + 50 : pick.again_us - 1;
		for (facts.now_us = NOW; facts.now_us <= last && sched_pick(&facts).job == SCHED_NONE;
		     facts.now_us++)
			;
		ck_assert_int_eq(facts.now_us, last + 1);
		if (pick.again_us != SCHED_NEVER)
			ck_assert_int_ne(sched_pick(&facts).job, SCHED_NONE);
	}
	ck_assert_int_gt(idle, 2000);
}
END_TEST

/* Whatever the facts: no job runs twice, a suspect is alone, and claims have room. */
START_TEST(test_no_facts_break_the_rules)
{
	struct backoff_random random = {3};
	int i, job, seen[SCHED_JOBS + 1] = {0};

	for (i = 0; i < 50000; i++) {
		struct sched_facts facts = random_facts(&random);
		bool a_claim = facts.running[SCHED_CLAIM] || facts.running[SCHED_SUSPECT];

		job = sched_pick(&facts).job;
		seen[job]++;
		if (job == SCHED_NONE)
			continue;
		ck_assert(facts.database && !facts.running[job] && facts.due_us[job] <= NOW);
		ck_assert(job != SCHED_CLAIM || (facts.claiming && !a_claim && facts.room > 0));
		ck_assert(job != SCHED_CLAIM || facts.due_us[SCHED_SUSPECT] > NOW);
		ck_assert(job != SCHED_SUSPECT || (facts.claiming && !a_claim && facts.held == 0));
		ck_assert(job != SCHED_SETTLE || facts.outcomes > 0);
	}
	for (job = 0; job <= SCHED_JOBS; job++)
		ck_assert_int_gt(seen[job], 100);
}
END_TEST

START_TEST(test_names)
{
	ck_assert_str_eq(sched_job_name(SCHED_SETTLE), "settle");
	ck_assert_str_eq(sched_job_name(SCHED_COUNT), "count");
	ck_assert_str_eq(sched_job_name(SCHED_NONE), "none");
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sched");
	TCase *tcase = tcase_create("pick");

	tcase_add_test(tcase, test_nothing_to_do);
	tcase_add_test(tcase, test_urgency);
	tcase_add_test(tcase, test_claims_give_way_to_what_has_waited);
	tcase_add_test(tcase, test_outcomes_wait_for_company);
	tcase_add_test(tcase, test_outcomes_do_not_wait_when_nothing_joins);
	tcase_add_test(tcase, test_outcomes_do_not_wait_when_a_claim_waits_for_room);
	tcase_add_test(tcase, test_one_settle_at_a_time_and_not_before_its_time);
	tcase_add_test(tcase, test_claims_need_room);
	tcase_add_test(tcase, test_claims_stop_when_told);
	tcase_add_test(tcase, test_F029_a_suspect_is_claimed_alone);
	tcase_add_test(tcase, test_again_is_exact);
	tcase_add_test(tcase, test_no_facts_break_the_rules);
	tcase_add_test(tcase, test_names);
	suite_add_tcase(suite, tcase);
	return suite;
}
