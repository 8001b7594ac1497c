/* lane: one PostgreSQL connection that carries one transaction at a time: the pipeline of io/db.c (by its own
 * io/dbsend.c), driven by the caller's poll(). It survives nothing: any error ends the process. */
#ifndef OUTBOXD_TESTS_LANE_H
#define OUTBOXD_TESTS_LANE_H

#include "io/dbconn.h"

#include <libpq-fe.h>
#include <poll.h>

struct lane {
	PGconn *pg;
	struct dbsend send;
	bool busy;
	bool unsent; /* libpq still holds bytes to be sent */
	struct dbsend_answers answers;
	int done; /* of them */
	PGresult *result;
	int64_t sent_us, duration_us; /* of the last transaction */
};

/* A connection as outboxd makes it; ends the process when there is none. */
PGconn *lane_connect(const struct config_postgres *config);

/* Connects, and waits until it is connected. */
void lane_open(struct lane *lane, const struct config_postgres *config);
void lane_close(struct lane *lane);

/* Sends a transaction; the lane must not be busy. values: by enum sql_param, borrowed for the call. */
void lane_send(struct lane *lane, const struct sql_statement *statement, const struct slice values[SQL_PARAMS]);

/* What to poll for. */
struct pollfd lane_poll(const struct lane *lane);

/* To be called when poll() found something: sends, reads. Returns the statement's result, once the COMMIT behind it was
 * answered (PQclear it), else NULL. */
PGresult *lane_serve(struct lane *lane);

/* The same, waiting for it. */
PGresult *lane_wait(struct lane *lane);

/* A cell as io/db.h gives it. result: a PGresult. */
struct slice lane_cell(const void *result, int row, int column);

#endif
