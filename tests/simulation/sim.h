/* sim: what every part of one simulated history shares: the seed's dice, virtual time, memory, the trace, and the first
 * broken promise. */
#ifndef OUTBOXD_SIMULATION_SIM_H
#define OUTBOXD_SIMULATION_SIM_H

#include "agenda.h"

#include "base/mem.h"
#include "core/backoff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MS 1000LL
#define SECOND 1000000LL
/* Virtual time is true time: microseconds since 2000-01-01, as in timestamptz. A history begins here. */
#define SIM_START 820000000000000LL

/* Rules of the database or of Kafka that can be broken on purpose, to see that the checker notices. Those of the relay's own
 * code are broken in its source, by the `mutants` script. */
enum sim_break {
	BREAK_NOTHING,
	BREAK_CTID,	    /* the claim compares ids, not row versions */
	BREAK_RECHECK,	    /* what is locked is not looked at again */
	BREAK_KEY_ORDER,    /* the claim takes every candidate */
	BREAK_LEASE_TIME,   /* the claim takes rows whose lease has not ended */
	BREAK_FENCE_LEASE,  /* a settle does not name the lease */
	BREAK_FENCE_OWNER,  /* a settle names neither lease nor owner's claim */
	BREAK_FENCE_DELETE, /* nor does one that deletes */
	BREAK_SHARE,	    /* one key may fill the memory */
	BREAK_PULL, /* nothing leads past a key's followers: none is drawn forward, no claim starts further on */
	BREAK_PARK_STATE,   /* what is parked stays in flight */
	BREAK_SWEEP,	    /* the sweep frees nothing */
	BREAK_ATTEMPTS,	    /* the claim counts no attempt */
	BREAK_SUSPECTS,	    /* suspects are claimed like any other row */
	BREAK_EXPIRE,	    /* expired rows at their last attempt stay */
	BREAK_GIVE_BACK,    /* a release costs the attempt */
	BREAK_EARLY_ANSWER, /* a claim is answered before its commit, which then fails */
	BREAK_ACK,	    /* Kafka acknowledges what it lost */
	BREAK_SILENCE,	    /* Kafka forgets an answer */
	BREAK_REENTRY,	    /* Kafka answers inside the call that hands over */
	BREAK_GAPS,	    /* a gapless producer goes on behind what was refused */
	BREAK_DEADLINE,	    /* its messages time out one by one */
	BREAK_TURN,	    /* await: claims do not wait for one another */
	BREAK_FENCE_RESULT  /* await: a settle does not look whether the row is in flight */
};
#define SIM_BREAKS (BREAK_FENCE_RESULT + 1)

struct checker;

struct sim {
	uint64_t seed;
	struct agenda *agenda;
	struct arena *arena; /* everything that lives as long as the history */
	struct backoff_random random;
	struct checker *checker;
	enum sim_break broken;
	bool trace;
	bool calm;     /* faults are switched off: the history runs out */
	char rule[48]; /* the first broken promise; "" while there is none */
	char failure[512];
	FILE *record; /* for the replay on a real server, or NULL */
};

const char *sim_break_name(enum sim_break broken);
enum sim_break sim_break_find(const char *name); /* SIM_BREAKS: no such name */

static inline int64_t sim_now(const struct sim *sim)
{
	return agenda_now(sim->agenda);
}

/* Uniform in [from, to]. */
int64_t sim_between(struct sim *sim, int64_t from, int64_t to);

/* True with that probability. */
bool sim_chance(struct sim *sim, double probability);

/* True with that probability while faults are switched on. */
bool sim_fault(struct sim *sim, double probability);

/* Mostly short, sometimes long: low, and now and then up to high. */
int64_t sim_delay(struct sim *sim, int64_t low_us, int64_t high_us);

/* A copy that lives as long as the history. */
const char *sim_copy(struct sim *sim, const char *text);

void sim_trace(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Log lines of the relay go to this history's trace from now on; NULL: nowhere. */
void sim_log_to(const struct sim *sim);

/* A promise is broken: the first is kept, the history ends. */
void sim_fail(struct sim *sim, const char *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
