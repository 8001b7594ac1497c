/* sqlcheck: what `outboxd check` asks the catalog, and its answers as facts; SQL_SURVEY (sql.h) asks for the rows.
 * None of it needs a privilege on the table. Answers are text throughout. */
#ifndef OUTBOXD_CORE_SQLCHECK_H
#define OUTBOXD_CORE_SQLCHECK_H

#include "core/checktable.h"
#include "core/sql.h"

/* No parameters, one row. */
extern const struct sql_statement sqlcheck_server;

/* The values of sqlcheck_table's parameters, all text; one row. */
enum {
	SQLCHECK_TABLE,	   /* the quoted name */
	SQLCHECK_DUE,	   /* the columns of available_at, */
	SQLCHECK_FINISHED, /* of settled_at, or of the state where that is missing, */
	SQLCHECK_ID,
	SQLCHECK_ORDER,
	SQLCHECK_EVENT_ID, /* "": none */
	SQLCHECK_CHANNEL,  /* "": none */
	SQLCHECK_VALUES
};
extern const struct sql_statement sqlcheck_table;

/* Parameters: SQLCHECK_TABLE, and the column of the state. A row for each CHECK constraint of that column alone. */
enum { SQLCHECK_CONSTRAINT_NAME, SQLCHECK_CONSTRAINT_CONDITION };
extern const struct sql_statement sqlcheck_constraints;

/* Appends the statement that asks which of the source's states the condition refuses: rows of one text. */
void sqlcheck_ask_states(const struct config_source *source, const struct sql_column_facts *status,
			 struct slice condition, struct buf *out);

/* Appends the statement that lets the constraint allow one state more. */
void sqlcheck_allow_state(const struct config_source *source, const struct sql_column_facts *status,
			  struct slice constraint, struct slice condition, struct slice state, struct buf *out);

/* The values are filled in, borrowed from the source and from table, its quoted name. */
void sqlcheck_table_values(const struct config_source *source, const struct sql *sql, const struct buf *table,
			   struct slice values[SQLCHECK_VALUES]);

/* The answers as facts, which live in the arena. */
void sqlcheck_read_server(struct check_server *server, sql_cell_fn *cell, const void *result, struct arena *arena);
void sqlcheck_read_table(struct check_table *table, sql_cell_fn *cell, const void *result, struct arena *arena);
void sqlcheck_read_rows(struct check_rows *rows, sql_cell_fn *cell, const void *result, struct arena *arena);

#endif
