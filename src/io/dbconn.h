/* dbconn: inside the pool: one connection in libpq's pipeline mode, with one request outstanding at most. */
#ifndef OUTBOXD_IO_DBCONN_H
#define OUTBOXD_IO_DBCONN_H

#include "base/list.h"
#include "io/db.h"
#include "io/pgconn.h"

enum db_state {
	DB_DOWN,       /* no connection */
	DB_IDLE,       /* takes a request */
	DB_BUSY,       /* one is outstanding */
	DB_RECOVERING, /* takes none, and none is outstanding: waits for the ROLLBACK behind an error, or for its loss */
	DB_CLOSED      /* for good */
};
#define DB_STATES (DB_CLOSED + 1)

/* What stands before a request's own statement: BEGIN and settings; the last three pin the plan. */
#define DB_PRELUDE_MAX 7
#define DB_PRELUDE_SIZE 64

struct db_prelude {
	char statements[DB_PRELUDE_MAX][DB_PRELUDE_SIZE];
};

void db_prelude_init(struct db_prelude *prelude, const struct config_postgres *config);

/* How many of them a statement wants. */
int db_prelude_length(const struct sql_statement *statement);

/* A statement's values as libpq's functions take them; the bytes are borrowed. */
#define DB_BINARY 1

struct db_values {
	const char *bytes[SQL_PARAMS];
	int lengths[SQL_PARAMS], formats[SQL_PARAMS];
};

void db_values_init(struct db_values *of_libpq, const struct sql_statement *statement, const struct slice *values);

/* The one request outstanding; all zero when there is none. */
struct db_outstanding {
	db_answer_fn *on_answer;
	void *context;
	int64_t sent_us;
	int prelude;	  /* statements before the request's own */
	int done;	  /* statements of the transaction that were answered */
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
	struct db_prelude prelude;
};

/* Begins to connect, DB_DOWN. config is borrowed. */
void db_start(struct db *db, struct ev_loop *loop, const struct config_postgres *config, db_change_fn *on_change,
	      void *context);

/* Answers what is outstanding unknown, and ends in DB_CLOSED. */
void db_stop(struct db *db);

/* Only in DB_IDLE. True: DB_BUSY, an answer will come. False: nothing was done; the connection is being lost. */
bool db_submit(struct db *db, const struct db_request *request) must_check;

#endif
