/* world: one history: up to three instances of the relay on one table and one cluster, with everything that can go wrong. */
#ifndef OUTBOXD_SIMULATION_WORLD_H
#define OUTBOXD_SIMULATION_WORLD_H

#include "checker.h"

struct world_result {
	bool passed;
	char rule[48], failure[512];
	int64_t virtual_us;
	struct check_totals totals;
};

struct world_options {
	uint64_t seed;
	enum sim_break broken;
	bool trace;
	FILE *record;
};

struct world_result world_run(const struct world_options *options);

#endif
