/* ratelimit: a bucket of tokens, one a row, filled at a steady rate and holding those of one second.
 * Pure: the time comes in. In any time T no more than rate * (T + 1 s) rows pass. */
#ifndef OUTBOXD_CORE_RATELIMIT_H
#define OUTBOXD_CORE_RATELIMIT_H

#include <stdint.h>

struct ratelimit {
	int64_t rate;	    /* rows a second; 0: no limit */
	int64_t micro_rows; /* what the bucket holds, in millionths of a row */
	int64_t filled_us;  /* until when it was filled */
};

/* It begins empty, so that whoever starts again and again keeps the limit too. */
struct ratelimit ratelimit_new(int64_t rate, int64_t now_us);

/* Rows that may pass now; INT64_MAX: there is no limit. The time does not go backwards between calls. */
int64_t ratelimit_rows(struct ratelimit *limit, int64_t now_us);

/* From when on so many rows may pass, if none does meanwhile (<= now_us: now). More than a second's are never there at once: then when the
 * bucket is full. */
int64_t ratelimit_from(struct ratelimit *limit, int64_t rows, int64_t now_us);

/* So many rows pass: no more than ratelimit_rows has allowed. */
void ratelimit_take(struct ratelimit *limit, int64_t rows);

#endif
