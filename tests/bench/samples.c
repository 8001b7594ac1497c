#include "samples.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void samples_add(struct samples *samples, int64_t us)
{
	if (samples->length == samples->size) {
		samples->size = samples->size * 2 + 4096;
		samples->list = mem_resize(samples->list, samples->size, sizeof(samples->list[0]));
	}
	samples->list[samples->length++] = us;
}

void samples_free(struct samples *samples)
{
	mem_free(samples->list);
	*samples = (struct samples){0};
}

static int compare(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* The smallest sample that at least this share of all does not exceed. */
static json_t *quantile(const struct samples *samples, double share)
{
	size_t rank = (size_t)ceil(share * (double)samples->length);

	if (samples->length == 0)
		return json_null();
	return json_integer(samples->list[rank > 0 ? rank - 1 : 0]);
}

json_t *samples_json(struct samples *samples)
{
	if (samples->length > 0)
		qsort(samples->list, samples->length, sizeof(samples->list[0]), compare);
	return json_pack("{s:o,s:o,s:o,s:o}", "p50_us", quantile(samples, 0.5), "p99_us", quantile(samples, 0.99),
			 "p999_us", quantile(samples, 0.999), "max_us", quantile(samples, 1));
}
