/* command: retry and skip as cli/change.c has them, for tests: rows are picked first, then changed in a transaction with what is
 * parked behind them. Errors of the server are in the results. */
#ifndef OUTBOXD_TESTS_COMMAND_H
#define OUTBOXD_TESTS_COMMAND_H

#include "server.h"

struct command {
	const char *ids; /* with spaces in between; NULL: not by id */
	const char *key; /* NULL: any */
	const char *error, *reason;
	bool skip;
};

/* The rows it would change, by enum sql_pick_column. */
PGresult *command_pick(PGconn *conn, const struct sql *sql, const struct command *command);

/* In a transaction that was begun: changes n of the picked rows, from that one on, by enum sql_change_column. text: another one than
 * the statement's own, or NULL. */
PGresult *command_change(PGconn *conn, const struct sql *sql, const struct command *command, const char *text,
			 const PGresult *picked, int from, int n);

/* In the same one: frees what is parked behind changed rows. */
PGresult *command_unpark(PGconn *conn, const struct sql *sql, const PGresult *changed);

#endif
