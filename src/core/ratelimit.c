#include "core/ratelimit.h"

#define SECOND INT64_C(1000000)

struct ratelimit ratelimit_new(int64_t rate, int64_t now_us)
{
	return (struct ratelimit){.rate = rate, .filled_us = now_us};
}

static void fill(struct ratelimit *limit, int64_t now_us)
{
	int64_t passed_us = now_us - limit->filled_us, full = limit->rate * SECOND;

	if (passed_us > SECOND)
		passed_us = SECOND;
	if (passed_us > 0)
		limit->micro_rows += passed_us * limit->rate;
	if (limit->micro_rows > full)
		limit->micro_rows = full;
	limit->filled_us = now_us;
}

int64_t ratelimit_rows(struct ratelimit *limit, int64_t now_us)
{
	if (limit->rate == 0)
		return INT64_MAX;
	fill(limit, now_us);
	return limit->micro_rows / SECOND;
}

int64_t ratelimit_from(struct ratelimit *limit, int64_t rows, int64_t now_us)
{
	int64_t lacking;

	if (limit->rate == 0)
		return now_us;
	fill(limit, now_us);
	lacking = (rows < limit->rate ? rows : limit->rate) * SECOND - limit->micro_rows;
	return lacking <= 0 ? now_us : now_us + (lacking + limit->rate - 1) / limit->rate;
}

void ratelimit_take(struct ratelimit *limit, int64_t rows)
{
	if (limit->rate > 0)
		limit->micro_rows -= rows * SECOND;
}
