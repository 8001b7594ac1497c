/* samples: measured times, all of them kept, so that their quantiles are exact. */
#ifndef OUTBOXD_TESTS_SAMPLES_H
#define OUTBOXD_TESTS_SAMPLES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct samples {
	int64_t *list; /* microseconds */
	size_t length, size;
};

void samples_add(struct samples *samples, int64_t us);
void samples_free(struct samples *samples);

/* {"p50_us", "p99_us", "p999_us", "max_us"}, each null when there are none. Sorts the list. */
json_t *samples_json(struct samples *samples);

#endif
