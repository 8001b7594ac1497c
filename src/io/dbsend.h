/* dbsend: what a request is on the wire, in libpq's pipeline mode. One of two forms, told apart by asking the server:
 *
 *   shared   a pooler may give each transaction another server session: BEGIN, SET LOCAL ..., the statement unnamed, COMMIT.
 *   own      no pooler in between: settings are made once, statements are prepared (planning a claim costs as much as reading
 *            fifty rows), and a request is the statement alone. The Sync behind it commits it.
 *
 * Plans are generic in both, so that both do the same. It sends no Sync, flushes nothing and reads no answers. */
#ifndef OUTBOXD_IO_DBSEND_H
#define OUTBOXD_IO_DBSEND_H

#include "base/buf.h"
#include "config/config.h"
#include "core/sql.h"

#include <libpq-fe.h>

#define DBSEND_BINARY 1

/* What stands before a statement in a shared session: BEGIN and settings. */
#define DBSEND_PRELUDE 8
#define DBSEND_PRELUDE_SIZE 64

struct dbsend {
	bool own;
	char prelude[DBSEND_PRELUDE][DBSEND_PRELUDE_SIZE];
	struct buf prepared; /* the names of statements, SQL_NAME_SIZE bytes each */
};

/* The form is shared until dbsend_learn has said otherwise. */
void dbsend_init(struct dbsend *send, const struct config_postgres *config);
void dbsend_free(struct dbsend *send);

/* A new connection: shared, nothing is prepared. */
void dbsend_reset(struct dbsend *send);

/* Asks whether the session is our own; the answer goes to dbsend_learn. False, here and below: libpq refused. */
bool dbsend_ask(PGconn *pg) must_check;
void dbsend_learn(struct dbsend *send, const PGresult *answer);

/* Makes the settings of an own session. */
bool dbsend_settings(const struct dbsend *send, PGconn *pg) must_check;

/* How many answers come, and before the statement's own. */
struct dbsend_answers {
	int before, all;
};

/* The statement with its values in the order of its parameters; they are copied. */
bool dbsend_request(struct dbsend *send, PGconn *pg, const struct sql_statement *statement,
		    const struct slice *values, struct dbsend_answers *answers) must_check;

/* After an error: ends a failed transaction, and forgets what was prepared, for that may have been the trouble (a table that
 * was altered). False in *needed: there is nothing to send. */
bool dbsend_tidy(struct dbsend *send, PGconn *pg, bool *needed) must_check;

/* For whoever sends by itself: a statement's values as libpq's functions take them; the bytes are borrowed. */
struct dbsend_values {
	const char *bytes[SQL_PARAMS];
	int lengths[SQL_PARAMS], formats[SQL_PARAMS];
};

void dbsend_values_init(struct dbsend_values *of_libpq, const struct sql_statement *statement,
			const struct slice *values);

#endif
