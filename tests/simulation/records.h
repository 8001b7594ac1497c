/* records: what the checker remembers of each row. */
#ifndef OUTBOXD_SIMULATION_RECORDS_H
#define OUTBOXD_SIMULATION_RECORDS_H

#include "checker.h"

/* A claim of a row that was committed. */
struct claim_record {
	struct start *start;
	int64_t lease;	 /* its end, by the database's clock, */
	int64_t ends_us; /* and by one that never leaps */
	int64_t committed_us;
	int32_t attempts;
	int revision;
	uint64_t snapshot;
	bool taken;		   /* from an expired lease */
	bool late;		   /* await: from a consumer that wrote nothing in time */
	bool from_pending;	   /* await: pending before, */
	bool asked_for;		   /* for somebody wanted it sent once more */
	bool superseded;	   /* its start was told of such a claim, beside this one, */
	uint64_t superseded_pass;  /* after so many passes */
	bool answered;		   /* its start was told */
	bool lost;		   /* its start was not, and will not be */
	bool refused;		   /* Kafka's client refused it for the row's fault */
	bool concluded;		   /* its start has sent an outcome for it */
	bool settled;		   /* and that was committed, */
	enum row_state state;	   /* as this */
	bool settle_lost;	   /* the last settle's answer was lost */
	bool resent;		   /* some settle's answer was */
	bool settle_told;	   /* its start knows that it is settled, or fenced */
	struct claim_record *next; /* older */
};

struct row_record {
	struct claim_record *claims;
	struct publication *publications; /* newest first, */
	struct publication *letters;	  /* and of its dead letters */
	int written;
	bool failed;	 /* at some time, */
	bool unburied;	 /* without a dead letter, for nobody was left who could publish it */
	bool parked;	 /* while its lease had ended */
	bool given_back; /* after two attempts: it is no suspect any more */
	bool retried;	 /* by an operator, after it had failed */
	bool asked;	 /* by its consumer, since its last claim, */
	bool asked_ever; /* or before */
	bool orderless;	 /* people interfered: no order is promised */
};

struct checker {
	const char *source;    /* its name, the same in all settings */
	int64_t most_attempts; /* of all settings */
	struct table *table;
	bool only_crashers;
	bool letters; /* there is a topic for dead letters */
	int64_t most_in_flight;
	uint64_t possibly_told, takeovers_told, late_told, parked_uncounted;
	uint64_t expired_untold; /* what became pending for its dead letter, and nobody was told */
	uint64_t unseen;	 /* answers that a crash took along before they were counted */
	struct check_totals totals;
};

struct row_record *record_of(struct sim *sim, struct row *row);

/* The claim that a start sees in a row's lease. NULL: it has none. */
struct claim_record *record_claim(struct row *row, const struct start *start, int64_t lease);

/* await: was the row, since an older claim, to be sent once more: its consumer has asked for it, or was late? */
bool record_sent_anew(const struct claim_record *claim, const struct claim_record *older);

/* The last publication by a start, under whatever claim. */
const struct publication *record_last_by(const struct row *row, const struct start *start);

/* The claim, if its start was told of it. */
struct claim_record *record_claim_under(struct row *row, const struct start *start, int64_t lease);

/* Is the row's dead letter due under this claim, for all that is known of it? */
bool record_is_doomed(const struct row *row, const struct claim_record *claim);

/* The last thing that Kafka said about a row under a claim; of its dead letters. NULL: nothing. */
const struct publication *record_last_under(const struct row *row, const struct claim_record *claim);
const struct publication *record_last_letter(const struct row *row, const struct claim_record *claim);

/* A lease may run out only through a fault that was injected: a crash, a lost answer, a time of trouble, a row about which
 * nothing can be written. */
bool record_expiry_explained(const struct row *row, const struct claim_record *claim);

#endif
