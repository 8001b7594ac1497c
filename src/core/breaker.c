#include "core/breaker.h"

#define MULTIPLIER 2.0
#define JITTER 0.2

bool breaker_would_pass(const struct breaker *breaker, int64_t now_us)
{
	return breaker->state == BREAKER_CLOSED || (breaker->state == BREAKER_OPEN && now_us >= breaker->until_us);
}

bool breaker_pass(struct breaker *breaker, int64_t now_us)
{
	if (!breaker_would_pass(breaker, now_us))
		return false;
	if (breaker->state == BREAKER_OPEN)
		breaker->state = BREAKER_PROBING;
	return true;
}

bool breaker_success(struct breaker *breaker)
{
	bool changed = breaker->state != BREAKER_CLOSED;

	*breaker = (struct breaker){.state = BREAKER_CLOSED};
	return changed;
}

bool breaker_failure(struct breaker *breaker, int64_t now_us, struct backoff_random *random)
{
	if (breaker->state == BREAKER_OPEN)
		return false;
	if (breaker->state == BREAKER_CLOSED)
		breaker->since_us = now_us;
	if (breaker->failures < INT32_MAX)
		breaker->failures++;
	breaker->until_us = now_us + backoff_delay(BREAKER_INITIAL_US, MULTIPLIER, BREAKER_MAX_US, JITTER,
						   breaker->failures, random);
	breaker->state = BREAKER_OPEN;
	return true;
}

void breaker_probe_lost(struct breaker *breaker)
{
	/* until_us has passed already, for the probe was let through. */
	if (breaker->state == BREAKER_PROBING)
		breaker->state = BREAKER_OPEN;
}

int64_t breaker_remaining(const struct breaker *breaker, int64_t now_us)
{
	if (breaker->state != BREAKER_OPEN || now_us >= breaker->until_us)
		return 0;
	return breaker->until_us - now_us;
}
