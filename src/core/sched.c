#include "core/sched.h"

/* For each job one function answers: from when on may it start, if nothing but the time changes? SCHED_NEVER: time alone
 * does not help. The pick is then the first job whose time has come, and "again" the next of the other times. */

static const char *const job_names[SCHED_JOBS + 1] = {"settle", "expire", "suspect", "claim",
						      "sweep",	"count",  "none"};

const char *sched_job_name(enum sched_job job)
{
	return job_names[job];
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Small claims cost as much as large ones, so one waits for room; but a quarter is enough where a batch is more than
 * that. */
static bool enough_room(const struct sched_facts *facts)
{
	if (facts->room == 0)
		return false;
	return facts->room >= facts->batch || facts->room >= facts->max_in_flight / 4;
}

static bool any_claim_running(const struct sched_facts *facts)
{
	return facts->running[SCHED_CLAIM] || facts->running[SCHED_SUSPECT];
}

/* When a claim becomes due, whether or not there is room for it. A suspect that is due goes first: no claim then, so
 * that memory drains. */
static int64_t claim_wanted(const struct sched_facts *facts)
{
	int64_t due = facts->due_us[SCHED_CLAIM];

	if (!facts->claiming || any_claim_running(facts))
		return SCHED_NEVER;
	return facts->due_us[SCHED_SUSPECT] > later(due, facts->now_us) ? due : SCHED_NEVER;
}

static int64_t claim_from(const struct sched_facts *facts)
{
	return enough_room(facts) ? claim_wanted(facts) : SCHED_NEVER;
}

static int64_t suspect_from(const struct sched_facts *facts)
{
	if (!facts->claiming || any_claim_running(facts) || facts->held > 0)
		return SCHED_NEVER;
	return facts->due_us[SCHED_SUSPECT];
}

/* Outcomes wait a little for company, unless nothing more will join them or somebody waits for them. */
static int64_t settle_from(const struct sched_facts *facts)
{
	int64_t from = facts->oldest_outcome_us + SCHED_SETTLE_DELAY_US;

	if (facts->outcomes == 0)
		return SCHED_NEVER;
	if (facts->settle_at_once || facts->outcomes >= facts->batch || facts->busy == 0)
		from = facts->now_us;
	else if (!enough_room(facts))
		from = earlier(from, claim_wanted(facts));
	return later(from, facts->due_us[SCHED_SETTLE]);
}

static int64_t start_from(const struct sched_facts *facts, enum sched_job job)
{
	if (!facts->database || facts->running[job])
		return SCHED_NEVER;
	switch (job) {
	case SCHED_SETTLE:
		return settle_from(facts);
	case SCHED_SUSPECT:
		return suspect_from(facts);
	case SCHED_CLAIM:
		return claim_from(facts);
	case SCHED_EXPIRE:
	case SCHED_SWEEP:
	case SCHED_COUNT:
		break;
	}
	return facts->due_us[job];
}

struct sched_pick sched_pick(const struct sched_facts *facts)
{
	struct sched_pick pick = {SCHED_NONE, SCHED_NEVER};
	int64_t from;
	int job;

	for (job = 0; job < SCHED_JOBS; job++) {
		from = start_from(facts, job);
		if (from > facts->now_us)
			pick.again_us = earlier(pick.again_us, from);
		else if (pick.job == SCHED_NONE ||
			 (pick.job == SCHED_CLAIM && from <= facts->now_us - SCHED_PATIENCE_US))
			pick.job = job;
	}
	return pick;
}
