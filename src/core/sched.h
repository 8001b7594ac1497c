/* sched: which job of a source is to start next, and when to look again. A pure function of facts.
 * It does not start anything: source.c does. */
#ifndef OUTBOXD_CORE_SCHED_H
#define OUTBOXD_CORE_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In order of urgency. */
enum sched_job {
	SCHED_SETTLE,  /* write outcomes */
	SCHED_EXPIRE,  /* fail expired rows that have no attempt left */
	SCHED_SUSPECT, /* claim one row that may have crashed a process, alone */
	SCHED_CLAIM,   /* claim due rows */
	SCHED_SWEEP,   /* free orphaned parked rows */
	SCHED_COUNT    /* count rows for the gauges */
};
#define SCHED_JOBS (SCHED_COUNT + 1)
#define SCHED_NONE SCHED_JOBS

const char *sched_job_name(enum sched_job job);

#define SCHED_NEVER INT64_MAX

struct sched_facts {
	int64_t now_us;
	int64_t due_us[SCHED_JOBS]; /* not before; SCHED_NEVER: not at all */
	bool running[SCHED_JOBS];   /* sent, not yet answered */
	bool database;		    /* a connection is free */
	bool claiming;		    /* claims are allowed: running, Kafka up, nothing holds them back */
	size_t room;		    /* rows that may still be held */
	size_t batch, max_in_flight;
	size_t held;		   /* rows in memory */
	size_t outcomes;	   /* rows whose outcome waits to be written */
	size_t busy;		   /* rows whose outcome will come: waiting, queued, in flight */
	int64_t oldest_outcome_us; /* when the first of them came */
	bool settle_at_once;	   /* draining, or a key waits for its settle */
};

/* An outcome waits at most this long for company. */
#define SCHED_SETTLE_DELAY_US 5000

/* A sweep or a count that has been due for so long goes before a claim: with a backlog and a busy connection a claim is
 * always due. */
#define SCHED_PATIENCE_US 2000000

struct sched_pick {
	enum sched_job job; /* SCHED_NONE: nothing to start now */
	int64_t again_us;   /* when to look again at the latest; SCHED_NEVER: only an answer changes anything */
};

struct sched_pick sched_pick(const struct sched_facts *facts);

#endif
