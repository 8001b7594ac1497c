/* db: one PostgreSQL connection that takes requests and answers each exactly once.
 * A request is a statement in a transaction of its own: BEGIN, SET LOCAL, statement, COMMIT, one Sync, one round trip.
 * It is answered when its Sync has arrived, never before: a statement's own result says nothing about the commit.
 * This header names no library type; tests/simulation has a fake of it. Nothing here calls back before the call that
 * started it has returned. */
#ifndef OUTBOXD_IO_DB_H
#define OUTBOXD_IO_DB_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"
#include "core/sql.h"
#include "core/verdict.h"

struct ev_loop;

/* Rows of an answer. Owned by whoever took it from the answer; cells borrow from it. */
struct db_result;

int db_result_rows(const struct db_result *result);
struct slice db_result_cell(const struct db_result *result, int row, int column); /* binary; SLICE_NULL: NULL */
void db_result_free(struct db_result *result);					  /* NULL is fine */

struct db_answer {
	enum verdict verdict; /* ok: committed. retry, reject: rolled back. unknown: connection lost meanwhile */
	enum sql_fault fault; /* of a retry or reject */
	char sqlstate[6];     /* "" when there is none */
	const char *message;  /* the server's or library's primary message, borrowed for the call; "" when ok */
	struct db_result *result; /* only when ok: the callback takes it (or frees it) */
	int64_t duration_us;	  /* from sending to the answer */
};

typedef void db_answer_fn(void *context, struct db_answer *answer);

struct db_request {
	const struct sql_statement *statement; /* borrowed until the answer */
	/* One for each of its parameters, in PostgreSQL's binary format (text is its own bytes); SLICE_NULL: NULL; borrowed
	 * for the call. */
	const struct slice *values;
	db_answer_fn *on_answer;
	void *context;
};

/* ---- a pool: the connections for one DSN, shared by its sources ---- */

struct dbpool;

/* Begins to connect, and goes on for ever (backoff with jitter, 0.1 s to 10 s). config is copied. application_name, client
 * encoding UTF8, keepalives and tcp_user_timeout are set unless the DSN has them. Each answer is also bounded by the
 * client: when none came within statement_timeout + 5 s the connection is closed and the verdict is unknown. */
struct dbpool *dbpool_new(struct ev_loop *loop, const struct config_postgres *config);

/* Every request still outstanding is answered unknown, then all is freed. Not inside an answer. */
void dbpool_free(struct dbpool *pool);

/* Accepted (true) means exactly one answer, later; never before the call returns. False: nothing was sent (no connection
 * is free), and no answer will come. */
bool dbpool_submit(struct dbpool *pool, const struct db_request *request) must_check;

/* Is a connection free to take a request now? */
bool dbpool_free_slot(const struct dbpool *pool);

/* Is at least one connection READY? */
bool dbpool_up(const struct dbpool *pool);

/* Why the last connection attempt failed (without secrets), or "" while up. Borrowed until the next pass. */
const char *dbpool_reason(const struct dbpool *pool);

/* The server can be reached: connections that wait out a backoff try at once. */
void dbpool_hurry(struct dbpool *pool);

/* Counts the connections that were lost or closed after having been READY. */
uint64_t dbpool_losses(const struct dbpool *pool);

#endif
