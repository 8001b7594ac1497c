/* dbconn: inside the pool: one connection in libpq's pipeline mode, with one request outstanding at most. */
#ifndef OUTBOXD_IO_DBCONN_H
#define OUTBOXD_IO_DBCONN_H

#include "base/list.h"
#include "io/db.h"
#include "io/dbsend.h"
#include "io/pgconn.h"

enum db_state {
	DB_DOWN, /* no connection */
	DB_IDLE, /* takes a request */
	DB_BUSY, /* one is outstanding */
	DB_TIDYING, /* takes none, and none is outstanding: waits for the answer to something of its own (what stands at the
		       start of a session, what follows an error), or for its loss */
	DB_CLOSED /* for good */
};
#define DB_STATES (DB_CLOSED + 1)

/* The one request outstanding; all zero when there is none. */
struct db_outstanding {
	db_answer_fn *on_answer;
	void *context;
	int64_t sent_us;
	struct dbsend_answers answers;
	int done;	  /* of them */
	PGresult *result; /* of the request's own statement */
	PGresult *error;  /* the first one of the transaction */
};

struct db;

/* Called on every change of state, before an answer that comes with it. why: of a loss, or of a failed attempt to
 * connect (from DB_DOWN to DB_DOWN), else NULL. */
typedef void db_change_fn(void *context, struct db *db, enum db_state from, const char *why);

struct db {
	struct list_node node; /* for the owner: in its list of this state */
	enum db_state state;
	struct pgconn conn;
	db_change_fn *on_change;
	void *context;
	ev_timer deadline;
	struct db_outstanding out;
	struct dbsend send;
	bool asked; /* TIDYING: asked whose session this is */
};

/* Begins to connect, DB_DOWN. config is borrowed. */
void db_start(struct db *db, struct ev_loop *loop, const struct config_postgres *config, db_change_fn *on_change,
	      void *context);

/* Answers what is outstanding unknown, and ends in DB_CLOSED. */
void db_stop(struct db *db);

/* Only in DB_IDLE. True: DB_BUSY, an answer will come. False: nothing was done; the connection is being lost. */
bool db_submit(struct db *db, const struct db_request *request) must_check;

#endif
