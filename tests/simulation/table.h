/* table: the outbox table as PostgreSQL keeps it: rows as chains of versions, transactions that see a snapshot, lock rows
 * and commit or roll back. It knows nothing of statements. */
#ifndef OUTBOXD_SIMULATION_TABLE_H
#define OUTBOXD_SIMULATION_TABLE_H

#include "sim.h"

#include "core/rowstate.h"

#include <stddef.h>

#define TABLE_SENTINEL 252455529600000000LL /* 9999-12-31Z */
#define TABLE_INFINITY INT64_MAX
#define TABLE_NULL INT64_MIN /* a timestamp that is NULL; '-infinity' does not occur */

struct xact;

struct version {
	struct version *older;
	struct xact *by; /* until it has ended */
	uint64_t commit; /* 0: not committed (yet, or ever) */
	int64_t ctid;	 /* another one for each version of each row */
	bool deleted;
	enum row_state state;
	int32_t attempts;
	int64_t available_at, lease_until, settled_at;
	const char *lease_owner, *last_error; /* NULL: NULL */
	int revision;			      /* of the payload, which people edit */
};

/* What Kafka will say to a row's record. */
enum row_nature {
	NATURE_GOOD,
	NATURE_POISON,	 /* its batch is refused, and it is refused alone: a row's error */
	NATURE_UNROUTED, /* its topic is NULL: the row's own fault */
	NATURE_CRASHER	 /* kills the process that publishes it */
};

struct row {
	int64_t id, created_at;
	const char *key;   /* NULL: none */
	const char *topic; /* NULL: none */
	enum row_nature nature;
	bool tombstone; /* its payload is NULL */
	int curse;	/* 1: the database refuses its error's text; 2: whatever is written about it */
	struct version *newest;
	struct xact *lock;	   /* who has locked it */
	struct row_record *record; /* the checker's */
};

/* A transaction that waits for another's lock is called again when that has ended. */
struct xact {
	struct table *table;
	int64_t began_us;  /* by a clock that never leaps */
	int64_t now;	   /* its now() */
	uint64_t snapshot; /* of its one statement */
	int number;	   /* for the record */
	bool active, wrote;
	struct row **locked;
	size_t n_locked, size_locked;
	agenda_fn *resume;
	void *context;
	struct xact *next_waiter, *waiters;
};

struct table {
	struct sim *sim;
	struct row **rows; /* by id, ascending */
	size_t n_rows, size_rows;
	uint64_t commits;
	int64_t ctids;
	int xacts;
	int64_t lock_timeout_us;
	struct xact *turn; /* await: the claim whose turn it is */
	int64_t ahead_us;  /* of true time: the server's clock may leap */
};

struct table *table_new(struct sim *sim);

/* The server's clock. */
static inline int64_t table_clock(const struct table *table)
{
	return sim_now(table->sim) + table->ahead_us;
}

/* Sets now() and begins; the snapshot is taken by table_snapshot. */
void table_begin(struct table *table, struct xact *xact);
void table_snapshot(struct xact *xact);

/* All its locks go, its writes become visible (or vanish), and those who wait for it are called. */
void table_commit(struct xact *xact);
void table_rollback(struct xact *xact);

/* The version that the snapshot shows, or NULL. */
const struct version *table_visible(const struct row *row, uint64_t snapshot);

/* The newest committed version, or NULL (deleted, or not committed). */
const struct version *table_committed(const struct row *row);

/* Locks a row. False: somebody else has. */
bool table_lock(struct xact *xact, struct row *row);

/* Waits until the one who has locked row has ended; then resume(context). */
void table_wait(struct xact *xact, struct row *row, agenda_fn *resume, void *context);

/* A new version of a row that this transaction has locked, a copy of the newest. */
struct version *table_write(struct xact *xact, struct row *row);

/* A new row with the next id, pending and due now. */
struct row *table_insert(struct xact *xact, const char *key, const char *topic);

struct row *table_find(const struct table *table, int64_t id);

/* settled_at IS NULL and a state that is not finished: with block also a failed one. */
static inline bool table_open(const struct version *version, bool block)
{
	return version->settled_at == TABLE_NULL &&
	       (version->state == ROW_PENDING || version->state == ROW_IN_FLIGHT ||
		(block && version->state == ROW_FAILED));
}

#endif
