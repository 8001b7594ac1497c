/* server: runs the statements of sql.c on a PostgreSQL server, for tests. Blocking; whatever goes wrong unexpectedly ends the
 * process with a message. */
#ifndef OUTBOXD_TESTS_SERVER_H
#define OUTBOXD_TESTS_SERVER_H

#include "config/config.h"
#include "core/pgarray.h"
#include "core/sql.h"

#include <libpq-fe.h>

/* Values by enum sql_param; what a statement does not use is not looked at. */
struct server_values {
	struct slice values[SQL_PARAMS];
};

_Noreturn void server_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Connects; application_name is name. */
PGconn *server_connect(const char *dsn, const char *name);

/* Runs SQL that must succeed. */
void server_run(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first cell of the answer as a number; 0 for NULL. */
int64_t server_number(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first cell as text, to be freed with free(); "" for NULL or no row. */
char *server_text(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Asks the catalog; all of it lives as long as the process. NULL: no such table. */
struct sql_table_facts *server_inspect(PGconn *conn, const struct config_source *source);

/* A statement in a transaction of its own, in one pipeline, as the relay sends it. text replaces the statement's own when
 * not NULL. server_finish waits for the commit; an error's result is returned too, rolled back. */
void server_send(PGconn *conn, const struct sql_statement *statement, const char *text,
		 const struct server_values *values);
PGresult *server_finish(PGconn *conn);
PGresult *server_execute(PGconn *conn, const struct sql_statement *statement, const char *text,
			 const struct server_values *values);

/* Several in one transaction, as a command sends them: begin, then add, then end, which commits if none has failed. */
void server_begin(PGconn *conn);
PGresult *server_add(PGconn *conn, const struct sql_statement *statement, const char *text,
		     const struct server_values *values);
void server_end(PGconn *conn);

struct slice server_cell(const PGresult *result, int row, int column);
int64_t server_int8(const PGresult *result, int row, int column); /* 0 for NULL */
int32_t server_int4(const PGresult *result, int row, int column);

/* The mapping of the standard table (preset outboxd) as a configuration gives it. */
struct config_source server_source(const char *table);

#endif
