/* backoff: how long to wait before the next try. Pure: the caller brings the random number. */
#ifndef OUTBOXD_CORE_BACKOFF_H
#define OUTBOXD_CORE_BACKOFF_H

#include <stdint.h>

/* A small random generator (splitmix64) with its own state, so that a seed replays a history.
 * Two instances must be seeded differently. */
struct backoff_random {
	uint64_t state;
};

void backoff_seed(struct backoff_random *random, uint64_t seed);
uint64_t backoff_next(struct backoff_random *random);
/* Uniform in [0, 1). */
double backoff_uniform(struct backoff_random *random);

/* initial * multiplier^(attempt-1), cut at max, times 1 +- jitter; attempt counts from 1 and may be as large as
 * INT32_MAX. All in microseconds; never negative, never above max * (1 + jitter). */
int64_t backoff_delay(int64_t initial_us, double multiplier, int64_t max_us, double jitter, int32_t attempt,
		      struct backoff_random *random);

#endif
