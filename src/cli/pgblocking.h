/* pgblocking: a connection for one-shot commands, which may wait. It connects as the daemon does (same string, same password
 * file), and maps every failure to the exit code of the command. */
#ifndef OUTBOXD_CLI_PGBLOCKING_H
#define OUTBOXD_CLI_PGBLOCKING_H

#include "cli/cli.h"
#include "core/sql.h"

#include <libpq-fe.h>

struct pgblocking;

/* Connects, with connect_timeout for each host. NULL: err has no secrets, and *exit_code is CLI_UNAVAILABLE, CLI_PERMISSION
 * (role or password refused), CLI_CONFIG (string malformed, no such database) or CLI_TEMPORARY. */
struct pgblocking *pgblocking_open(const struct config_postgres *config, enum cli_exit *exit_code,
				   struct err *err) must_check;
void pgblocking_close(struct pgblocking *pg);

/* Runs one statement in a transaction of its own, with the daemon's time limits; values as in db_request. Binary results,
 * committed; the caller frees them with PQclear. NULL: nothing was changed unless the connection was lost at the
 * COMMIT (CLI_UNAVAILABLE); CLI_PERMISSION, CLI_CONFIG (table or column is wrong), CLI_TEMPORARY (locks, time limits), else
 * CLI_INTERNAL. */
PGresult *pgblocking_run(struct pgblocking *pg, const struct sql_statement *statement, const struct slice *values,
			 enum cli_exit *exit_code, struct err *err) must_check;

/* Several statements in one transaction: begin, then as many as needed, then end. After a failure nothing but end(false) may
 * follow. Failures are those above; CLI_UNAVAILABLE from end(true) means that nobody knows whether it was committed. */
bool pgblocking_begin(struct pgblocking *pg, enum cli_exit *exit_code, struct err *err) must_check;
PGresult *pgblocking_add(struct pgblocking *pg, const struct sql_statement *statement, const struct slice *values,
			 enum cli_exit *exit_code, struct err *err) must_check;
/* Commits, or rolls back, which cannot fail. */
bool pgblocking_end(struct pgblocking *pg, bool commit, enum cli_exit *exit_code, struct err *err) must_check;

/* Does LISTEN work? Waits for a NOTIFY that the other connection sends, for at most timeout_ms: of one's own a pooler passes on what
 * it would not pass on of others. False with *exit_code CLI_OK: nothing came. */
bool pgblocking_hears(struct pgblocking *pg, struct pgblocking *other, int64_t timeout_ms, enum cli_exit *exit_code,
		      struct err *err) must_check;

#endif
