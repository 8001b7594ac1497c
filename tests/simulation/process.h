/* process: one run of the program on an instance, until it crashes or ends: what its sources share. A reload puts a second
 * source beside the first, which drains. */
#ifndef OUTBOXD_SIMULATION_PROCESS_H
#define OUTBOXD_SIMULATION_PROCESS_H

#include "sim.h"

struct start;

/* Sources with the same settings of Kafka share them. */
struct producers {
	bool gapless;
	int64_t message_timeout_us;
	struct kafka *kafka, *single, *careful; /* careful: beside a gapless one, or NULL */
	struct kafka *all[3];			/* of these */
	int n;
	struct producers *next;
};

struct process {
	struct sim *sim;
	int instance;
	int64_t frozen_us;    /* it is suspended until then */
	int64_t troubled_us;  /* until then a lease may run out through an injected fault */
	struct start *starts; /* of its sources, the newest first */
	struct start *
		asking; /* the one whose pass is under way: what the database and Kafka are asked now is asked by it */
	struct producers *producers;
	struct dbpool *pool;
	bool draining;
	void (*step)(void *); /* something happened: the world lets it take a pass */
	void *context;
};

static inline bool process_frozen(const struct process *process)
{
	return process->frozen_us > sim_now(process->sim);
}

#endif
