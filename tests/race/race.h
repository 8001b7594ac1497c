/* race: the relay's statements on a real server, with everything that happens to a table at once.
 *
 * Workers stand for relays: they claim, deliver, settle, retry, release, fail, crash, lose answers and sleep past leases, by the
 * rules of the relay (design: key order in memory). Writers insert and edit rows. People delete, mark, hold and re-schedule
 * rows by hand, and retry and skip them with the commands' own statements. Statements sleep between their snapshot and their locks. The world keeps the
 * books and finds what must not happen: a row of a key delivered after a later one, a row delivered while another worker
 * holds it, a settle refused under a running lease, an innocent row out of attempts, a deadlock, a row left over. */
#ifndef OUTBOXD_TESTS_RACE_H
#define OUTBOXD_TESTS_RACE_H

#include "server.h"

#include "core/backoff.h"
#include "core/rowstate.h"

#include <pthread.h>
#include <stdatomic.h>

#define RACE_KEYS 10
#define RACE_WORKERS 3
#define RACE_WRITERS 2
#define RACE_PEOPLE 2
#define RACE_MAX_ATTEMPTS 7
#define RACE_LEASE_US 400000
#define RACE_MARGIN_US 60000 /* a row is not delivered when its lease ends sooner */
#define RACE_PARK_US 300000
#define RACE_SHARE 4
#define RACE_BATCH 20

/* ---- variants: tables and mappings ---- */

struct race_variant {
	const char *name;
	bool owner, settled, one_column, partitioned, key_index, block, view, delete;
	bool where; /* workers divide the table by hand: even and odd ids */
	bool txid;
};

extern const struct race_variant race_variants[];
const struct race_variant *race_find_variant(const char *name); /* NULL: unknown */
struct config_source race_source(const struct race_variant *variant, const char *table);
void race_create_table(PGconn *conn, const struct race_variant *variant, const char *table);

/* ---- breaks: one safeguard left out on purpose ---- */

/* What a worker does wrong; the rest of the breaks change a statement's text. */
enum race_sin {
	SIN_NONE,
	SIN_DISORDER_IN_MEMORY, /* design rule 1: delivers the rows of a key in any order */
	SIN_KEEP_FOLLOWERS,	/* rule 2: rows behind a bad answer stay in memory */
	SIN_TRUST_OLD_CLAIM,	/* rule 2: forgets that a claim under way is older than the settle */
	SIN_KEEP_OWNER,		/* rule 3: the same owner after a crash or a lost claim */
	SIN_LATE_DELIVERY,	/* rule 4: delivers after the lease has ended */
	SIN_FORGET_OUTCOMES,	/* rule 5: does not repeat a settle whose answer was lost */
	SIN_TWO_SELVES,		/* rule 5: a row claimed again stands twice in memory */
	SIN_NO_SWEEP,
	SIN_NO_EXPIRE,
	SIN_NO_SUSPECT
};

struct race_replacement {
	enum sql_kind kind;
	const char *from, *to; /* every occurrence; there must be one */
};

struct race_break {
	const char *name, *variant; /* the variant in which it shows */
	const char *sentence;
	enum race_sin sin;
	struct race_replacement replacements[8];
};

extern const struct race_break race_breaks[];
const struct race_break *race_find_break(const char *name); /* NULL: unknown */

/* ---- the world ---- */

struct race_row {
	int16_t key; /* -1: none, or not inserted by us */
	bool poison; /* kills the worker that tries to deliver it */
	bool hand; /* people changed it while it may have been in flight, or finished it: documented exceptions apply */
	bool committed; /* its insert */
	int64_t txid;	/* that inserted it; 0: not told */
	bool overtaken; /* later rows may go on without it: failed with on_failed: continue, or taken away by hand */
	int delivered;
	uint64_t holder;    /* the claim that holds it; 0: none */
	int64_t held_until; /* the earliest end of its lease, by our clock */
};

struct race_world {
	const struct race_variant *variant;
	const struct race_break *broken; /* NULL: nothing */
	const char *dsn, *table;
	uint64_t seed;
	struct config_source source;
	struct sql *sql;
	char *texts[SQL_KINDS]; /* the statements, broken when asked to */

	atomic_bool quiet; /* no more faults, writers and people */
	atomic_bool stop;

	pthread_mutex_t mutex; /* guards what follows */
	struct race_row *rows; /* by id */
	int64_t n_rows, max_rows;
	int64_t newest[RACE_KEYS];  /* the highest id delivered of each key */
	int64_t open[RACE_WRITERS]; /* each writer's transaction while it is certainly open; 0: none */
	uint64_t claims, deliveries, crashes, lost, slept, raced, fenced, expired, swept, parked, pulled, edits,
		by_hand, suspects, far, retried, skipped;
	uint64_t failures;
};

struct race_world *world_new(const char *dsn, const struct race_variant *variant, const struct race_break *broken,
			     uint64_t seed);

/* Runs it for so many seconds, lets everything finish, and checks the table. Returns the number of failures. */
uint64_t world_run(struct race_world *world, int seconds);
void world_print(struct race_world *world);

void world_fail(struct race_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_count(struct race_world *world, uint64_t *counter, uint64_t more);

void world_inserted(struct race_world *world, int64_t id, int key, bool poison);
void world_opened(struct race_world *world, int writer, int64_t id,
		  int64_t txid); /* for each row it has inserted */
void world_closing(struct race_world *world, int writer);
/* The worker may take the row: it is in its part of the table. */
void world_check_part(struct race_world *world, int worker, int64_t id, const char *what);
void world_committed(struct race_world *world, int64_t id);
void world_touched(struct race_world *world, int64_t id);    /* by hand; before the statement */
void world_taken_away(struct race_world *world, int64_t id); /* the same, perhaps out of somebody's flight */
void world_overtaken(struct race_world *world,
		     int64_t id); /* failed, and with on_failed: continue not waited for */
void world_skipped(struct race_world *world,
		   int64_t id); /* given up: later rows go on, also should it be retried after all */
int64_t world_recent(struct race_world *world,
		     struct backoff_random *random); /* an id of the last few hundred, 0: none */
bool world_poison(struct race_world *world, int64_t id);
bool world_hand(struct race_world *world, int64_t id);
uint64_t world_next_claim(struct race_world *world);
void world_claimed(struct race_world *world, int64_t id, uint64_t claim, int64_t until_us);
void world_let_go(struct race_world *world, int64_t id, uint64_t claim); /* before the settle is sent */
/* False: too late, nothing was delivered; the lease ends at until_us. */
bool world_delivered(struct race_world *world, int64_t id, int key, uint64_t claim, int64_t until_us);

/* An unexpected error; deadlocks and the like are failures. */
void world_error(struct race_world *world, const char *what, const PGresult *result);

/* ---- the threads: each gets the world and its own number through struct race_thread ---- */

struct race_thread {
	struct race_world *world;
	int number;
	pthread_t thread;
};

void *worker_main(void *thread);
void *writer_main(void *thread);
void *people_main(void *thread);

/* Once quiet: finishes by retry or skip what has failed, and lets go of what people hold. */
void people_clean_up(struct race_world *world, PGconn *conn, struct backoff_random *random);

int64_t race_now_us(void); /* CLOCK_BOOTTIME */
void race_pause_us(int64_t microseconds);
bool race_chance(struct backoff_random *random, double probability);
int64_t race_below(struct backoff_random *random, int64_t limit);

#endif
