/* sqlbench: one table, its statements, and what a relay would bring for their parameters. For the tests of core/sql on a real
 * server: OUTBOXD_TEST_DSN names an empty database. */
#ifndef OUTBOXD_TESTS_SQLBENCH_H
#define OUTBOXD_TESTS_SQLBENCH_H

#include "../race/server.h"

#include "core/rowstate.h"
#include "core/settle.h"

#include <check.h>

struct sqlbench {
	PGconn *conn;
	struct config_source source;
	struct sql *sql;
	const char *owner;
	int32_t limit, max_attempts, share, max_in_flight;
	int64_t max_bytes, lease_us;
	struct slice far_due, far_id;
};

PGconn *sqlbench_connect(void);
void sqlbench_run(const char *sql);

/* The table is there; finds out about it and builds its statements. */
struct sqlbench sqlbench_open(struct config_source source);

/* The table of the source, new and empty, as `schema` prints it; event_outbox. */
void sqlbench_make_table(const struct config_source *source);
struct sqlbench sqlbench_standard(void);

/* A foreign table: one time column that may be NULL, no owner, no settled_at, attempts limited by the row. */
struct config_source sqlbench_message_source(void);

/* text: another one than the statement's own; values: those of the outcomes. Ask: it must succeed. */
PGresult *sqlbench_execute(struct sqlbench *bench, enum sql_kind kind, const char *text,
			   const struct server_values *outcomes);
/* The same in two halves: server_finish(bench->conn) has the answer. */
void sqlbench_send(struct sqlbench *bench, enum sql_kind kind, const char *text,
		   const struct server_values *outcomes);
PGresult *sqlbench_ask(struct sqlbench *bench, enum sql_kind kind);

/* The rows of a claim's answer. */
int sqlbench_claimed(const PGresult *result);

/* Claims and forgets; the number of rows. */
int sqlbench_claim(struct sqlbench *bench);

/* Outcomes for all rows of a claim. */
struct sqlbench_outcome {
	enum row_state state;
	int64_t delay_us;
	int32_t back;
	const char *error;
};

/* The values of their settle, to be freed with settle_free afterwards. */
struct settle *sqlbench_outcomes(struct sqlbench *bench, const PGresult *claim, struct sqlbench_outcome outcome,
				 struct server_values *values);

/* Settles; the number of rows. */
int sqlbench_settle(struct sqlbench *bench, const PGresult *claim, struct sqlbench_outcome outcome);

#define NUMBER(bench, ...) server_number((bench)->conn, __VA_ARGS__)
#define RUN(bench, ...) server_run((bench)->conn, __VA_ARGS__)

#endif
