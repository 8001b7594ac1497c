/* private: the source's own state, shared by the files of src/relay that together are the source.
 *
 *   source.c   states, the pass, what is asked from outside
 *   jobs.c     starts jobs, and draws the conclusions of the small ones (inspect, expire, sweep, count)
 *   claim.c    claims: parameters, where to start, rows entering memory
 *   publish.c  rows to Kafka;  answer.c  Kafka's answers;  topics.c  who waits for which topic;  deadletter.c  what is
 *              published of rows that are given up
 *   outcome.c  a row's outcome, the settle that writes it, rows leaving memory
 *   keys.c     the order of rows of a key;  batch.c  rows and what they borrow
 *
 * Invariants (each is broken on purpose in tests/simulation, and noticed):
 *  1. A row is published only after the claim that returned it was answered ok (its Sync arrived).
 *  2. Each published row gets one verdict; each verdict becomes one outcome.
 *  3. An outcome is forgotten only when its settle was answered; what the database refuses is counted as fenced.
 *  4. Rows in memory = the sum of the stages' lists (asserted at the end of each pass).
 *  5. A row changes in the table only by a statement that names the state and the lease it expects.
 *  6. Nothing here blocks, sleeps or reads a clock.
 *  7. No callback runs inside the call that started it: callbacks only record, the next pass decides.
 *  8. With key order, all rows of a key that are in flight go to one partition through one producer, which delivers them
 *     in their order and nothing behind one that it does not (keys.h), and no older row of it is open anywhere else.
 *  9. A row is handed to Kafka only while its lease outlasts the longest possible delivery. */
#ifndef OUTBOXD_RELAY_PRIVATE_H
#define OUTBOXD_RELAY_PRIVATE_H

#include "core/breaker.h"
#include "core/metrics.h"
#include "core/pgarray.h"
#include "core/ratelimit.h"
#include "core/route.h"
#include "core/rowstate.h"
#include "core/sched.h"
#include "core/settle.h"
#include "io/db.h"
#include "io/kafka.h"
#include "relay/batch.h"
#include "relay/keys.h"
#include "relay/source.h"

#define MS 1000LL /* microseconds */
#define SECOND 1000000LL

#define PARK_MAX_US (300 * SECOND)    /* the longest a row is parked behind a waiting head */
#define SETTLE_MARGIN_US (2 * SECOND) /* a lease must outlast the delivery time-out by this much at hand-over */
#define BROKEN_RETRY_US (10 * SECOND) /* a broken table is looked at again */
#define COUNT_EVERY_US (5 * SECOND)
#define COUNT_STALE_US (30 * SECOND) /* gauges whose next count is so late are not shown */
#define SWEEP_EVERY_US (60 * SECOND)
#define LEASES_EVERY_US (1 * SECOND) /* less than the settle margin */
#define DEFERRED_A_SECOND 2000	     /* rows of a topic with a fault that come back */
#define TOPIC_SEEN_US \
	(60 * SECOND)	  /* a faulty topic without rows is forgotten by /readyz after its pause and this */
#define PARKING_BATCHES 8 /* batches that a claim looks at where most is only parked */
#define SETTLE_ALL SIZE_MAX
/* While the table has as many rows in flight as it may, a claim looks as often as this whether consumers have made room. */
#define FULL_POLL_US (100 * MS)
/* While rows that it has put back wait for their time, a source looks as often as this, however long its poll. */
#define DELAYED_POLL_US (1 * SECOND)
/* How long claims of a backlog leave out what lies before its first row: see choose_start. */
#define FRONT_US (200 * MS)
/* A source that was woken so lately is woken for whatever is committed. */
#define WOKEN_US (1 * SECOND)
#define TOPICS_MAX 1024 /* topics remembered; idle ones are forgotten beyond */
/* A broker that comes back sooner gets what the library has queued, in order and without duplicates. */
#define OUTAGE_GRACE_US (5 * SECOND)

/* So long after a fault rows of a topic go through the careful producer, one of a key at a time: what is refused there costs
 * nobody else anything, while it would be the end of the other one. */
#define CAREFUL_US (180 * SECOND)
/* Dead letters that were lost with whoever had them, before the next goes without its value, and without anything of the row. */
#define DEATHS_WHOLE 2
#define DEATHS_WITH_KEY 4
#define CAREFUL_RETRY_US (1 * SECOND) /* a row is given back for so long while that one takes nothing */

/* With a rate limit claims are put off until they may take what comes in a part of a second: small ones cost as much as large ones. */
#define LIMITED_CLAIMS_A_SECOND 10

/* A statement under way, and its answer as the callback recorded it. */
struct job {
	struct source *source;
	bool running, answered;
	int64_t sent_us;
	int32_t failures; /* in a row, for its own backoff */
	enum verdict verdict;
	enum sql_fault fault;
	char sqlstate[6];
	char message[300];
	struct db_result *result; /* owned until the pass takes it */
	int64_t duration_us;
};
#define JOB_INSPECT SCHED_JOBS /* not scheduled by sched: it comes before everything else */
#define JOBS (SCHED_JOBS + 1)

struct topic {
	UT_hash_handle hh;
	uint64_t number; /* no other topic ever had it */
	struct breaker breaker;
	int64_t careful_until_us; /* it had a fault lately */
	size_t in_flight;
	size_t rows;		/* that point here */
	int64_t deferred;	/* rows put off untried since the breaker opened the last time */
	char *error;		/* why it did, beginning with error_name */
	const char *error_name; /* static */
	struct metric_series *delivered;
	char name[];
};

struct source_stats {
	struct metric_series *claimed, *settled[OUTCOMES], *lease_expired, *result_timeouts, *fenced,
		*lock_timeouts, *dead_letters;
	struct metric_series *duplicate_lease, *duplicate_crash, *duplicate_replaced, *duplicate_timed_out;
	struct metric_histogram *commit_to_ack, *transaction[JOBS];
};

/* A place in the due range. */
struct place {
	bool known;
	char due[8];  /* timestamptz as received */
	char id[512]; /* text */
	size_t id_len;
};

enum claim_start { CLAIM_FROM_BEGINNING, CLAIM_FROM_FRONT, CLAIM_FROM_FAR };

/* What is in the claim's way beside room: see claim.c. */
struct claim_position {
	enum claim_start start; /* of the claim under way, or of the last one */
	bool go_far;		/* the next claim goes on from the far place */
	struct place far;
	bool backlog;		  /* the last claim was full, and took what it found */
	struct place front;	  /* the first candidate */
	int64_t front_us;	  /* when it was */
	bool limit_one;		  /* the last claim was refused for some row's data */
	int most;		  /* rows to ask for, since a claim has run out of time; 0: any */
	int limit;		  /* of the claim under way */
	bool parking;		  /* the last claim parked more than half of what it met */
	bool hindered;		  /* the last claim, or the walk it belongs to, met rows it could not take */
	bool settled;		  /* outcomes were written meanwhile */
	int64_t delayed_until_us; /* rows that were put back with a delay are due until then */
	uint64_t number;	  /* counts claims; the one under way */
	bool rename;		  /* the next claim goes under another owner's name */
};

struct source {
	const struct config_source *config;
	struct source_env env;
	enum source_state state;
	int64_t now_us; /* of the pass under way */

	struct sql *sql;   /* NULL until the table was inspected */
	struct sql *tried; /* built, and the operator's condition in it not yet known to be right; else NULL */
	struct route *route;
	struct slice *cells; /* of the row being composed */
	size_t n_cells;
	struct buf death;  /* the error of the dead letter being composed */
	struct buf reason; /* why it is not ready, as last told */
	struct buf table;  /* its quoted name */
	struct err broken; /* what is wrong with the table, until a claim goes through; "" when nothing is */

	struct job jobs[JOBS];
	int64_t due_us[SCHED_JOBS];
	int64_t inspect_due_us;
	struct claim_position claim;
	struct ratelimit rate;
	bool put_off; /* a claim that was due waits for the rate limit */
	char owner[300];
	uint32_t owner_changes;
	int64_t woken_us;  /* by the last NOTIFY */
	bool settle_first; /* an answer was lost: no claim before all outcomes are written */
	bool suspect_held; /* the row of a suspect claim is in memory: nothing else is claimed */
	size_t settle_limit; /* rows of the next settle: SETTLE_ALL, halved while the database refuses some row's data */
	uint64_t pool_losses;  /* seen so far */
	int64_t kafka_down_us; /* since when Kafka is away; 0 while it is up */
	int64_t leases_due_us; /* when to look for rows whose leases have become short */
	bool purged;	       /* what the library had queued was asked back in this outage */
	bool abandoned;	       /* the drain's deadline has passed */
	bool leaving;	       /* stops without the database, if it must */

	struct list stages[ROW_STAGES];
	size_t rows, bytes; /* in memory */
	size_t forgotten;   /* rows that left memory without an outcome */
	struct row *ids;    /* newest row of each id */
	struct keys keys;
	size_t window; /* rows of a key that may be with Kafka at once */
	struct topic *topics;
	size_t topics_limit; /* beyond it the idle ones are forgotten */
	uint64_t topics_made;
	struct breaker cluster;
	struct backoff_random random;

	struct settle *settle;
	struct pgarray hot_names, hot_held;
	struct source_stats stats;
	int64_t counted_us;  /* when the gauges were last counted; 0: never */
	int64_t stale_at_us; /* the counted gauges are dropped then */
};

#define STAGE_ROW(node) LIST_OWNER(node, struct row, stage_node)
#define STAGE_FIRST(source, stage) \
	(list_empty(&(source)->stages[stage]) ? NULL : STAGE_ROW(list_first(&(source)->stages[stage])))

/* source.c: the only place where the source's state changes; logs from, to and why. */
void source_change_state(struct source *source, enum source_state state, const char *why);
/* Moves a row between the lists. */
void source_move_row(struct row *row, enum row_stage stage);

/* jobs.c */
/* Sends a statement for the job with the values of its parameters (by enum sql_param). False: no connection is free. */
bool jobs_submit(struct source *source, int job, const struct sql_statement *statement,
		 const struct slice values[SQL_PARAMS]) must_check;
/* Starts what sched_pick names, until it names nothing. Returns when to look again. */
int64_t jobs_start(struct source *source);
/* Draws the conclusions of all answers that have come. */
void jobs_handle_answers(struct source *source);
/* What a failed statement means for the source: breaks it, holds claims, counts. Returns how long to wait before the same
 * statement is sent again. */
int64_t jobs_failed(struct source *source, struct job *job, const char *name);

/* claim.c */
/* Sends a claim (SCHED_CLAIM) or a suspect claim (SCHED_SUSPECT) for at most room rows. */
bool claim_start(struct source *source, enum sched_job job, size_t room) must_check;
void claim_answered(struct source *source, struct job *job, bool suspect);
void claim_name_owner(struct source *source);

/* outcome.c */
const char *outcome_name(const struct source *source, enum outcome outcome);
/* Gives the row its outcome: it leaves its key's FIFO and waits to be settled. The key's next row is queued if it may go;
 * when the row was not sent, all rows behind it are released with it and the key is broken. error is copied (NULL: keep). */
void outcome_set(struct row *row, enum outcome outcome, int64_t delay_us, const char *error);
/* The row is to be failed, for this error, once its dead letter is delivered: it leaves its key's FIFO as a failed one does, and
 * is queued for that. */
void outcome_doom(struct row *row, const char *name, const char *error);
/* Has the row a place in its key's FIFO? Until it has an outcome or is doomed, if it has a key. */
bool outcome_keeps_order(const struct row *row);
/* Releases the rows behind this one in its key, which is then broken. */
void outcome_release_behind(struct row *row);
/* Lets the key's next row go if its turn has come. */
void outcome_queue_next(struct key *key);
/* The row leaves memory without an outcome: its lease has to end. Rows behind it are released. */
void outcome_forget(struct row *row);
/* Releases with the attempt given back: all rows of a stage that no older self is being sent for. */
void outcome_release_stage(struct source *source, enum row_stage stage);
bool outcome_start_settle(struct source *source) must_check;
void outcome_settle_answered(struct source *source, struct job *job);

/* answer.c */
void answer_handle_all(struct source *source);
/* Kafka's client did not take the row, for this reason. */
void answer_refused(struct row *row, const struct kafka_answer *refusal);
/* The row is given up, at once: failed, or doomed. */
void answer_fail_row(struct row *row, const char *name, const char *text);
/* Logs and counts it as failed. */
void answer_tell_failed(const struct row *row, const char *name, const char *text);

/* deadletter.c */
/* Was the row claimed only for its dead letter? */
bool deadletter_is_due(const struct row *row);
/* How often the row itself was tried, claims for its dead letter left out. */
int32_t deadletter_attempts(const struct row *row);
/* Then it is doomed, with the error that stands in the row. */
void deadletter_doom_used_up(struct row *row);
/* The record of a doomed row; the source's cells are the row's. Borrowed until the next call. */
void deadletter_compose(struct row *row, struct message *message);
/* Kafka has it: the row is failed. */
void deadletter_delivered(struct row *row);
/* It was too much for Kafka, and less of it is queued; false: that is not why it was refused, or there is nothing left of it. */
bool deadletter_try_less(struct row *row);
/* Logs and counts that it was refused. */
void deadletter_tell_refused(const struct row *row);

/* publish.c */
/* Hands rows over while Kafka accepts; false when it stopped for its budget and wants to go on at once. */
bool publish_rows(struct source *source);
/* Publishing or claiming has to wait, for this reason. */
void publish_count_backpressure(struct source *source, const char *reason);
/* Nothing can be published: gives back what was not handed over. */
void publish_release_all(struct source *source);
/* Gives back what has waited so long that its lease would not outlast a delivery any more. */
void publish_release_short(struct source *source);

/* topics.c */
/* The row's topic is the one of that name from now on, made when new; it leaves it when it leaves memory. */
void topics_enter(struct row *row, const char *name);
void topics_leave(struct row *row);
/* How long rows of a topic with a fault wait: until its breaker lets one through. */
int64_t topics_pause(struct source *source, const struct topic *topic);
/* The same for one more row that need not even be tried. */
int64_t topics_deferral(struct source *source, struct topic *topic);
/* The next topic that refuses its rows behind that one (NULL: the first), or NULL. */
const struct topic *topics_next_faulty(const struct source *source, const struct topic *topic);
/* Their gauges, instead of those of the last time. */
void topics_update_metrics(struct source *source);
void topics_free(struct source *source);

#endif
