/* sourcedb: one source's database for a command: the connection, and the statements that fit the table as it is. */
#ifndef OUTBOXD_CLI_SOURCEDB_H
#define OUTBOXD_CLI_SOURCEDB_H

#include "cli/cli.h"
#include "cli/pgblocking.h"
#include "core/sql.h"

struct sourcedb {
	const struct config_source *source;
	struct pgblocking *pg;
	struct sql *sql;
	enum cli_exit exit_code; /* of the last failure, */
	struct err err;		 /* and its reason, for people */
};

/* Connects and looks at the table. False: see exit_code and err. To be closed in both cases. */
bool sourcedb_open(struct sourcedb *db, const struct config_source *source) must_check;
void sourcedb_close(struct sourcedb *db);

/* The same in three steps. The facts live in the arena; there must be a table. templates may be NULL, as for sql_new. */
bool sourcedb_connect(struct sourcedb *db, const struct config_source *source) must_check;
bool sourcedb_inspect(struct sourcedb *db, struct sql_table_facts *facts, struct arena *arena) must_check;
bool sourcedb_build(struct sourcedb *db, const struct sql_table_facts *facts,
		    const struct sql_templates *templates) must_check;

/* A statement with its values by enum sql_param: in a transaction of its own, or in the one that was begun. NULL: it failed.
 * Free the result with PQclear. */
PGresult *sourcedb_run(struct sourcedb *db, enum sql_kind kind, const struct slice values[SQL_PARAMS]) must_check;
PGresult *sourcedb_add(struct sourcedb *db, enum sql_kind kind, const struct slice values[SQL_PARAMS]) must_check;
bool sourcedb_begin(struct sourcedb *db) must_check;
bool sourcedb_end(struct sourcedb *db, bool commit) must_check;

/* A cell of a PGresult: a sql_cell_fn. */
struct slice sourcedb_cell(const void *result, int row, int column);

#endif
