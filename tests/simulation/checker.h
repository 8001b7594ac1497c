/* checker: what must be true of a history, judged from outside: from what was committed, published, written and answered,
 * and from the faults that were injected. It asks the relay nothing. */
#ifndef OUTBOXD_SIMULATION_CHECKER_H
#define OUTBOXD_SIMULATION_CHECKER_H

#include "process.h"
#include "statement.h"

#include "core/metrics.h"
#include "io/kafka.h"
#include "relay/source.h"

struct claim_record;

/* One start of a source, with its process or by a reload, until it crashes or ends. */
struct start {
	struct sim *sim;
	struct process *process;
	struct start *next; /* older, of the same process */
	const struct config_source *config;
	struct source *source;
	int instance, number;
	bool abandoned;	     /* its drain has passed the deadline: what is left is left to the leases */
	int64_t leave_us;    /* retired by a reload: by its host's clock it leaves then; 0: it was not */
	bool leaving;	     /* that has come: it may stop with outcomes that it could not write */
	bool gone;	     /* crashed or stopped: nothing of it is in memory */
	int64_t gone_us;     /* by the database's clock */
	struct kafka *kafka; /* as it was given */
	size_t results;	     /* database results that it has and has not freed */
	int claims;	     /* sent and not answered */
	int idle_claims;     /* that did nothing, since idle_since_us */
	int64_t idle_since_us;
	uint64_t passes;
	uint64_t unseen_possibly, unseen_takeovers, unseen_late,
		unseen_fenced; /* told since its last pass: a crash takes them along */
	bool suspect;	       /* one is held */
	size_t lost_settles;   /* outcomes whose answer was lost, not yet written again */
	const char **lost_owners;
	size_t n_lost_owners;
};

/* One message that was accepted by Kafka's client. */
struct publication {
	struct start *start;
	struct claim_record *claim;
	struct row *row;
	uint64_t generation;			       /* of the gapless producer; 0: a plain one */
	uint64_t number;			       /* in order of publishing */
	int64_t published_us, written_us, answered_us; /* 0: not */
	bool alone;				       /* nothing else was in its batch */
	bool single;				       /* and could not be */
	bool letter;				       /* it is the row's dead letter */
	struct kafka_answer answer;		       /* as given; texts not kept */
	struct publication *next;		       /* older, of the same row */
};

/* Becomes sim->checker. */
void checker_new(struct sim *sim, struct table *table);

/* ---- the database ---- */
void check_submit(struct start *start, const struct statement *statement);
void check_commit(struct start *start, const struct statement *statement);
void check_db_answer(struct start *start, const struct statement *statement, enum verdict verdict);

void check_changed(struct sim *sim);

/* ---- Kafka ---- */
/* The row that a message came from, by its event_id header. */
struct row *check_row(struct start *start, const struct message *message);
/* lease: of the claim under which it is handed over. */
struct publication *check_publish(const struct kafka *kafka, struct row *row, int64_t lease,
				  const struct message *message);
/* The same for the row's dead letter, and that none is refused for good. */
struct publication *check_letter(const struct kafka *kafka, struct row *row, int64_t lease,
				 const struct message *message);
bool check_is_letter(const struct start *start, const struct message *message);
void check_refused(struct start *start, struct row *row, int64_t lease, const struct kafka_answer *refusal);
void check_written(struct publication *publication);
void check_kafka_answer(struct publication *publication, const struct kafka_answer *answer);

/* ---- the world ---- */
/* After each pass. */
void check_step(struct start *start, struct metrics *metrics);
/* It starts with its own settings; has drained; and its memory is gone, then or in a crash. */
void check_started(struct start *start);
void check_stopped(struct start *start);
void check_gone(struct start *start);
/* A fault that may cost leases: until then, and a lease more. */
void check_trouble(struct process *process, int64_t until_us);
/* The attempt that a record says in its header. */
int32_t check_attempt(const struct publication *publication);
/* A consumer has asked for the row to be sent once more. */
void check_asked(struct sim *sim, struct row *row);
/* People changed a row's state: its order is no longer the relay's affair; or had a failed one sent once more. */
void check_people(struct sim *sim, struct row *row);
void check_retried(struct sim *sim, struct row *row);

/* All rows are settled and all instances rest: what the whole history must obey. */
void check_end(struct sim *sim, struct metrics *metrics);

/* In this history only rows that kill their process may run out of leases at their last attempt. */
void check_only_crashers(struct sim *sim);

/* What was seen, for the totals. */
struct check_totals {
	uint64_t claims, publications, written, duplicates, takeovers, fenced, failed, letters;
	uint64_t changed; /* rows that had changed between a statement's snapshot and its lock */
};
struct check_totals check_totals(const struct sim *sim);

#endif
