/* breaker: stops hammering what has failed, and lets one probe through at a time.
 * One for each topic, one for the cluster as a source sees it. Pure: the caller brings the time. */
#ifndef OUTBOXD_CORE_BREAKER_H
#define OUTBOXD_CORE_BREAKER_H

#include "core/backoff.h"

#include <stdbool.h>
#include <stdint.h>

enum breaker_state {
	BREAKER_CLOSED, /* all may pass */
	BREAKER_OPEN,	/* nothing passes before `until` */
	BREAKER_PROBING /* one is under way; its answer decides */
};

struct breaker {
	enum breaker_state state;
	int32_t failures; /* in a row, since it was closed */
	int64_t since_us; /* when the first of them came */
	int64_t until_us;
};

#define BREAKER_INITIAL_US 1000000
#define BREAKER_MAX_US 24000000 /* with jitter and the spread of the rows that wait: 30 s */

/* May one more pass now? In BREAKER_OPEN, when the time has come, this takes the probe: state becomes PROBING. */
bool breaker_pass(struct breaker *breaker, int64_t now_us);

/* Would breaker_pass say yes? Changes nothing. */
bool breaker_would_pass(const struct breaker *breaker, int64_t now_us);

/* An answer came. A failure opens it for 1 s doubling to 24 s, +-20 % jitter; a failure that comes while it is open already
 * (of a message sent before) changes nothing. Returns true when the state changed. */
bool breaker_success(struct breaker *breaker);
bool breaker_failure(struct breaker *breaker, int64_t now_us, struct backoff_random *random);

/* The probe ended without an answer about it (given back, purged): due again at once. */
void breaker_probe_lost(struct breaker *breaker);

/* How long from now it stays shut; 0 when it is closed, probing or due. */
int64_t breaker_remaining(const struct breaker *breaker, int64_t now_us);

#endif
