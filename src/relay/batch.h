/* batch: the rows of one claim. A batch owns the database's result; rows point into it, and Kafka borrows their payloads
 * until it answers, so nothing is copied. A batch is freed with the last of its rows.
 *
 * A row is in exactly one stage, and a stage is a list; a count is that list's length:
 *
 *   claim reply -> WAITING -> QUEUED -> IN_FLIGHT -> ANSWERED -> UNSETTLED -> SETTLING -> gone
 *                                                     \-> REFUSED (-> QUEUED, to be tried singly)
 */
#ifndef OUTBOXD_RELAY_BATCH_H
#define OUTBOXD_RELAY_BATCH_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "core/route.h"
#include "core/sql.h"
#include "core/verdict.h"

#include <stdint.h>

struct db_result;
struct key;
struct source;
struct topic;

enum row_stage {
	STAGE_WAITING,	 /* for its turn in its key, or for the verdict on its own older self */
	STAGE_QUEUED,	 /* to be published next */
	STAGE_IN_FLIGHT, /* handed to Kafka */
	STAGE_ANSWERED,	 /* Kafka has answered; the next pass draws the conclusion */
	STAGE_REFUSED, /* the answer was bad; what becomes of it is decided when nothing of its key is in flight */
	STAGE_UNSETTLED, /* its outcome waits to be written */
	STAGE_SETTLING	 /* its outcome was sent to the database */
};
#define ROW_STAGES (STAGE_SETTLING + 1)

/* What is to be written about a row. */
enum outcome {
	OUTCOME_SENT,
	OUTCOME_RETRY,	 /* pending again after a delay */
	OUTCOME_FAILED,	 /* given up, with a reason */
	OUTCOME_RELEASED /* pending again, and the attempt is given back */
};
#define OUTCOMES (OUTCOME_RELEASED + 1)

struct row_answer {
	enum verdict verdict;
	enum fault fault;
	bool possibly_written, timed_out, replaced;
	const char *name; /* static */
	char *text;	  /* owned; NULL when ok */
};

struct row {
	struct list_node stage_node; /* in the source's list of its stage */
	struct list_node key_node;   /* in its key's FIFO, until it has an outcome */
	UT_hash_handle hh;	     /* by id: the newest of that id */
	enum row_stage stage;
	struct batch *batch;
	int index;		     /* in the batch's result */
	struct slice id, order;	     /* order: the order column's value, by default the id */
	struct key *key;	     /* NULL: no key, or no key order */
	uint64_t turn;		     /* which hand-over of its key it was; 0: it is not with Kafka */
	struct topic *topic;	     /* NULL until it was composed */
	struct row *elder, *younger; /* the same row from an earlier and a later claim, both in memory */
	bool newest;		     /* stands in the hash of ids */
	bool asked_for;	 /* await: its consumer wants it sent once more, whatever becomes of its elder, */
	bool superseded; /* which this one is */
	bool awaits_elder; /* its elder has no verdict yet: that one decides when this one is sent, and if it is not asked for, whether */
	int32_t attempts, max_attempts;
	size_t bytes; /* what it counts against max_in_flight_bytes */
	bool trial;   /* condemned with others: published in a batch of its own when its turn comes */
	struct row_answer answer;
	enum outcome outcome; /* valid from UNSETTLED on */
	int64_t outcome_us;
	int64_t delay_us;
	int32_t back; /* attempts given back */
	char *error;  /* owned; NULL: keep what the row has */
	const char *
		doom; /* it is to be failed once Kafka has its dead letter: the error's name, static; NULL: it is not */
	enum route_letter letter; /* then: what is left of that */
	bool resent;		  /* a settle of it was sent before and its answer was lost */
	bool settled;		  /* the database has changed it */
	int refusals;		  /* how often the database refused its settle for its data when it was alone */
};

struct batch {
	struct db_result *result;
	struct source *source;
	int64_t claimed_us; /* when the claim was sent: its lease cannot have begun before */
	int64_t lease_us;
	int64_t lease_end_us; /* claimed_us + lease */
	char *owner;	      /* the owner's name the claim was sent with */
	size_t live;	      /* rows not yet freed, and whoever is reading */
	struct row rows[];
};

/* Makes rows of a claim's result, which it takes: n_rows of them, behind the tail. */
struct batch *batch_new(struct source *source, struct db_result *result, int n_rows, int64_t claimed_us,
			int64_t lease_us, const char *owner);

/* The row's cell by enum sql_claim_column, or a template's column behind them. */
struct slice batch_cell(const struct row *row, int column);

/* How old the row was when it was claimed, by the database's clock, in microseconds. False: not known, or infinite. */
bool batch_age_us(const struct row *row, int64_t *age_us) must_check;

/* Frees the batch when nobody counts on it any more: each row counts once. */
void batch_release(struct batch *batch);

/* Frees what the row owns and releases its batch. It must stand in no list and no hash any more. */
void batch_free_row(struct row *row);

#endif
