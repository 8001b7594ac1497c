/* request: what fakedb.c (the client's side) and moments.c (the server's) share.
 * A request goes through moments, with a random delay before each:
 *
 *   dbpool_submit -> begin (now()) -> snapshot -> locks and writes -> commit -> answer
 *
 * A lost connection ends it at any of them: the client learns "unknown" a little later, and the server, which has had the
 * whole pipeline from the start, may go on and commit all the same, even after the client has been told. */
#ifndef OUTBOXD_SIMULATION_REQUEST_H
#define OUTBOXD_SIMULATION_REQUEST_H

#include "fakedb.h"

struct connection {
	struct dbpool *pool;
	bool ready;
	struct request *request; /* the one outstanding */
};

struct dbpool {
	struct fakedb *db;
	struct process *process;
	bool left;
	struct connection *connections;
	int n_connections;
	uint64_t losses;
	struct dbpool *next;
};

struct fakedb {
	struct sim *sim;
	struct table *table;
	struct sql_templates templates;
	struct dbpool *pools;
	int64_t troubled_until, down_until, slow_us, slow_until, revoked_until;
};

enum stage { STAGE_SENT, STAGE_BEGUN, STAGE_RUNNING, STAGE_RUN, STAGE_ENDED };

struct request {
	struct statement statement;
	struct start *start; /* who asks */
	struct dbpool *pool;
	struct connection *connection;
	db_answer_fn *on_answer;
	void *context;
	enum stage stage;
	bool doomed;	      /* the server will roll back */
	bool answered;	      /* the client has been told, or is gone */
	const char *sqlstate; /* of an injected error, or NULL */
	bool early;	      /* BREAK_EARLY_ANSWER */
	int64_t sent_us, waiting_since;
	struct slice *raw; /* copies of its values, for the record */
	int n_raw;
	bool recorded;
};

/* fakedb.c: its answer reaches the client. */
void request_on_answer(void *context);
void request_trace(const struct request *request, const char *what);

/* moments.c: the time of its next moment, and its first one. */
int64_t request_moment(const struct request *request, int64_t low_us, int64_t high_us);
void request_on_begin(void *context);

#endif
