/* source: one outbox table being relayed: claim, publish, settle, and the order of keys in memory.
 * It never blocks, sleeps, reads a clock or touches a library: relay.c steps it, db.h and kafka.h answer it. The
 * simulation in tests/simulation runs it unchanged on fakes of both. */
#ifndef OUTBOXD_RELAY_SOURCE_H
#define OUTBOXD_RELAY_SOURCE_H

#include "base/buf.h"
#include "config/config.h"
#include "core/metrics.h"

#include <stdint.h>

struct dbpool;
struct kafka;
struct kafka_answer;
struct source;

enum source_state {
	SOURCE_STARTING, /* asks the catalog for the table, again every 10 s when that fails */
	SOURCE_RUNNING,	 /* claims, publishes, settles */
	SOURCE_PAUSED,	 /* asked to by its configuration: only counts */
	SOURCE_BROKEN, /* table, column or privilege is wrong; outcomes are still written; looks again every 10 s */
	SOURCE_DRAINING, /* no claims; queued rows are released; in flight is awaited and settled */
	SOURCE_STOPPED	 /* holds nothing; may be freed */
};

const char *source_state_name(enum source_state state);

/* What a source needs from outside. Everything is borrowed and must outlive it. */
struct source_env {
	struct dbpool *pool;
	struct kafka *kafka;   /* gapless if source_wants_gapless, else plain */
	struct kafka *careful; /* beside a gapless one: for rows of a topic that has had a fault; else NULL */
	struct kafka *single;  /* for rows that were condemned with a batch */
	struct metrics *metrics;
	uint64_t seed;	   /* for jitter and the owner's name: different for each start of each process */
	const char *owner; /* this process's name: host and pid; the source makes it unique */
};

/* Whether many rows of a key may be with Kafka at once: then they need a producer that leaves no gaps. */
bool source_wants_gapless(const struct config_source *config);

/* config is one that config_load has found right, borrowed, and must outlive the source. Never fails: what is wrong with
 * the table is found by its first steps. */
struct source *source_new(const struct config_source *config, const struct source_env *env);

/* Only when SOURCE_STOPPED (or after a crash in the simulation: all memory goes, nothing is sent). */
void source_free(struct source *source);

/* One pass: handles the answers that have come, publishes, starts jobs. now_us is CLOCK_BOOTTIME in microseconds: it goes
 * on while the host is suspended, as leases do. Returns when to be called again at the latest (<= now_us: at once,
 * after I/O was looked at; INT64_MAX: only an answer changes anything). */
int64_t source_step(struct source *source, int64_t now_us);

/* Rows may have come (NOTIFY): claims now if it can. */
void source_wake(struct source *source);

/* Begins to drain; source_step then leads to SOURCE_STOPPED. */
void source_drain(struct source *source);

/* The drain's deadline has passed: what was not handed to Kafka is released in one last settle, the rest is left to its
 * lease. */
void source_abandon(struct source *source);

/* Nobody waits any longer for a source that drains: it is SOURCE_STOPPED as soon as Kafka's client and the database have
 * nothing of it any more, and what could not be written is left to its lease. */
void source_leave(struct source *source);

/* kafka.h's answer for a message of any source: the tag finds it. */
void source_on_kafka_answer(void *tag, const struct kafka_answer *answer);

enum source_state source_get_state(const struct source *source);
const struct config_source *source_config(const struct source *source);
size_t source_in_flight(const struct source *source); /* handed to Kafka, not yet answered */
size_t source_held(const struct source *source);      /* in memory at all */

/* Rows that only their lease can end, were it to stop now: those it holds, and those it had to forget. */
size_t source_left_to_leases(const struct source *source);

/* What keeps it from being ready: appends one dependency and reason, or nothing; false when it is not ready. */
struct source_health {
	const char *dependency; /* "postgres", "kafka" or "table"; NULL when it is ready */
	const char *reason;	/* borrowed until the next step */
};
struct source_health source_get_health(struct source *source);

/* A topic that refuses its rows, such as one that is missing or may not be written to. */
struct source_topic_fault {
	const char *topic;   /* the strings are borrowed until the next step */
	bool trying;	     /* a row of it is with Kafka now, to find out */
	const char *error;   /* the last refusal's name */
	const char *reason;  /* the same with Kafka's text */
	int64_t for_us;	     /* since the first refusal */
	int64_t next_try_us; /* from now; 0: while trying, or when the next row that is due is let through */
	int64_t put_off;     /* rows put back untried since the last refusal */
};
#define SOURCE_TOPIC_FAULTS 100 /* so many are shown */

/* Fills in the first `most` of them; returns how many there are. */
size_t source_get_topic_faults(const struct source *source, struct source_topic_fault *faults, size_t most);

/* When rows and ages were last counted in the database, by the clock of source_step; 0: never. */
int64_t source_counted_us(const struct source *source);

/* Brings gauges up to date before a scrape: queue lengths and database counts. */
void source_update_metrics(struct source *source);

#endif
