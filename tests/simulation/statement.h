/* statement: the relay's statements as PostgreSQL runs them under READ COMMITTED: what they read stands in the snapshot of
 * their start; what they lock may have changed since, and is then looked at again or passed over. */
#ifndef OUTBOXD_SIMULATION_STATEMENT_H
#define OUTBOXD_SIMULATION_STATEMENT_H

#include "table.h"

#include "config/config.h"
#include "core/route.h"
#include "core/sql.h"
#include "io/db.h"

/* One outcome in a settle's arrays. */
struct outcome {
	int64_t id, lease, delay_us;
	enum row_state state;
	int32_t back;
	const char *error, *owner;
	bool fenced; /* await: found in flight, and not held */
};

struct params {
	int32_t max_attempts, limit, share;
	int32_t max_in_flight;
	int64_t max_bytes, lease_us, result_timeout_us, park_max_us, far_due, far_id;
	const char *owner;
	const char **hot_keys;
	int32_t *hot_held;
	size_t n_hot;
	struct outcome *outcomes;
	size_t n_outcomes;
};

/* What a statement did to a row. */
enum effect_kind { EFFECT_CLAIMED, EFFECT_SETTLED, EFFECT_EXPIRED, EFFECT_MOVED };
struct effect {
	enum effect_kind kind;
	struct row *row;
	const struct version *before, *after;
	const struct outcome *outcome; /* of EFFECT_SETTLED */
};

struct statement {
	struct sim *sim;
	const struct config_source *config;
	struct sql_templates templates;
	enum sql_kind kind;
	struct params params;
	struct xact xact;
	struct effect *effects; /* all rows it writes */
	size_t n_effects, size_effects;
	int64_t candidates, parked, parked_own, parked_foreign, pulled, free;
	const struct version *first, *last; /* of its first and last candidates, */
	int64_t first_id, last_id;
	size_t next_outcome; /* a settle that waits goes on here */
	size_t *living;	     /* counts the results that the daemon has */
	bool full;	     /* await: as many rows are in flight as may be */
	bool absent;	     /* there is no such table */
	bool ambiguous;	     /* the real server might have chosen another row */
};

/* Takes the request's values out of their binary form. */
void params_read(struct sim *sim, const struct config_source *config, const struct sql_statement *text,
		 const struct slice *values, struct params *params);

/* Runs it under xact.snapshot, with locks as they are now. False: it waits for a lock; resume(context) will be called, and it
 * is then to be run again. */
bool statement_run(struct statement *statement, agenda_fn *resume, void *context);

/* One runner for each kind. */
void statement_claim(struct statement *statement);
void statement_suspect(struct statement *statement);
void statement_expire(struct statement *statement);
bool statement_settle(struct statement *statement, agenda_fn *resume, void *context);
void statement_sweep(struct statement *statement);

/* The answer as the daemon gets it. */
struct db_result *result_of(struct statement *statement);

/* ---- for the runners ---- */

/* Locks a row as SKIP LOCKED does. The version to look at, newer than seen when it has changed since; NULL when another
 * has locked it or it is gone. */
const struct version *statement_lock(struct statement *statement, struct row *row, const struct version *seen);

/* A new version of a locked row, noted as an effect. */
struct version *statement_write(struct statement *statement, enum effect_kind kind, struct row *row);

static inline bool statement_awaits(const struct statement *statement)
{
	return statement->config->on_delivered == ON_DELIVERED_AWAIT;
}

/* await: of an in-flight row, that it has been delivered. */
static inline bool statement_late(const struct statement *statement, const struct version *version)
{
	return statement_awaits(statement) && version->lease_owner == NULL;
}

/* An in-flight row whose lease has ended. */
bool statement_expired(const struct statement *statement, const struct version *version);

/* Which lease the statement's owner takes over with such a row, or makes an end of. */
enum sql_taken statement_taken(const struct statement *statement, const struct version *version);

/* An expired row that has had its last attempt. With dead letters one that is beyond it was lost by whoever had it for that. */
bool statement_used_up(const struct statement *statement, const struct version *version);

/* Rows and their versions, to be sorted. */
struct pick {
	struct row *row;
	const struct version *version; /* as locked, or as seen */
};

int pick_by_due(const void *a, const void *b); /* for qsort */

/* A row's payload, and what pg_column_size says of it (a short text). */
#define STATEMENT_PAYLOAD 64
void statement_payload(const struct row *row, int revision, char text[STATEMENT_PAYLOAD]);
int64_t statement_bytes(const struct row *row, const struct version *version);

/* All rows whose visible version passes the test, in due order. Memory of the history. */
typedef bool pick_test(const struct statement *statement, const struct row *row, const struct version *version);
size_t statement_scan(struct statement *statement, pick_test *test, struct pick **picks);

/* The open rows of a key in its order, as the snapshot shows them. */
size_t statement_key(struct statement *statement, const char *key, struct pick **picks);

#endif
