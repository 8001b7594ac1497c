#include "core/backoff.h"

#include <math.h>

/* splitmix64: every seed is a good one, also 0 and its neighbours. */
uint64_t backoff_next(struct backoff_random *random)
{
	uint64_t z = (random->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void backoff_seed(struct backoff_random *random, uint64_t seed)
{
	random->state = seed;
}

double backoff_uniform(struct backoff_random *random)
{
	/* the upper 53 bits: as many as a double holds */
	return (double)(backoff_next(random) >> 11) * 0x1p-53;
}

int64_t backoff_delay(int64_t initial_us, double multiplier, int64_t max_us, double jitter, int32_t attempt,
		      struct backoff_random *random)
{
	double delay = (double)initial_us * pow(multiplier, attempt > 1 ? attempt - 1 : 0);

	/* Compared this way round, so that infinity and NaN (0 * infinity) end at the cap too. */
	if (!(delay < (double)max_us))
		delay = (double)max_us;
	delay *= 1.0 + jitter * (2.0 * backoff_uniform(random) - 1.0);
	if (delay < 0)
		return 0;
	return delay < 0x1p63 ? (int64_t)delay : INT64_MAX;
}
