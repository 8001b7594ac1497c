#include "cli/pgblocking.h"

#include "base/deadline.h"
#include "base/mem.h"
#include "core/verdict.h"
#include "io/dbsend.h"
#include "io/pgconn.h"
#include "io/pgdsn.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

struct pgblocking {
	PGconn *pg;
	struct dbsend send;
};

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "" when it is no server's error, but a connection that cannot be made or was lost. */
static enum cli_exit exit_of_sqlstate(const char *sqlstate)
{
	if (sqlstate[0] == '\0')
		return CLI_UNAVAILABLE;
	if (begins(sqlstate, "42501") || begins(sqlstate, "28"))
		return CLI_PERMISSION;
	if (begins(sqlstate, "3D"))
		return CLI_CONFIG;
	switch (verdict_of_sqlstate(sqlstate).fault) {
	case SQL_PASSING:
		return CLI_TEMPORARY;
	case SQL_CONNECTION:
		return CLI_UNAVAILABLE;
	case SQL_SOURCE:
		return CLI_CONFIG;
	case SQL_DATA:
		break;
	}
	return CLI_INTERNAL;
}

/* ---- connecting ---- */

static bool wait_for_socket(PGconn *pg, bool reading, int64_t until_ms)
{
	return deadline_wait(PQsocket(pg), reading ? POLLIN : POLLOUT, until_ms);
}

/* False: refused, or not within the time (*timed_out). PQconnectPoll knows no time limit. */
static bool connect_within(PGconn *pg, int64_t timeout_ms, bool *timed_out)
{
	int64_t until_ms = deadline_now_ms() + timeout_ms;
	PostgresPollingStatusType next =
		PQstatus(pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;

	*timed_out = false;
	while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
		*timed_out = !wait_for_socket(pg, next == PGRES_POLLING_READING, until_ms);
		if (*timed_out)
			return false;
		next = PQconnectPoll(pg);
	}
	return next == PGRES_POLLING_OK;
}

static bool is_sqlstate(const char *text)
{
	return strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && begins(text + 5, ": ");
}

/* libpq keeps the SQLSTATE of a refused connection to itself, except in a verbose message: "...: FATAL:  28P01: password
 * authentication failed...\nLOCATION:  auth_failed, auth.c:326\n". Takes both out of the message. */
static void split_message(const char *message, char sqlstate[6], struct buf *text)
{
	const char *line = message, *end, *mark;

	sqlstate[0] = '\0';
	for (; *line != '\0'; line = end + (*end == '\n')) {
		end = strchrnul(line, '\n');
		if (begins(line, "LOCATION:"))
			continue;
		mark = strstr(line, ":  ");
		if (mark != NULL && mark < end && is_sqlstate(mark + 3)) {
			snprintf(sqlstate, 6, "%.5s", mark + 3);
			buf_add(text, line, (size_t)(mark - line));
			line = mark + 3 + 5;
		}
		buf_add(text, line, (size_t)(end - line));
		buf_add_char(text, '\n');
	}
}

static enum cli_exit explain_refusal(PGconn *pg, const struct pgdsn *dsn, struct err *err)
{
	struct buf text = {0};
	char sqlstate[6];

	split_message(PQerrorMessage(pg), sqlstate, &text);
	pgdsn_describe(dsn, buf_text(&text), err);
	buf_free(&text);
	return PQconnectionNeedsPassword(pg) ? CLI_PERMISSION : exit_of_sqlstate(sqlstate);
}

/* One attempt at all hosts, from `first` on. *again: it hung at one of them, and there are more to begin with. */
static PGconn *try_connect(const struct config_postgres *config, size_t first, bool *again,
			   enum cli_exit *exit_code, struct err *err)
{
	int64_t timeout_ms = config->connect_timeout_us / 1000;
	struct pgdsn dsn;
	PGconn *pg;

	*again = false;
	*exit_code = CLI_CONFIG;
	if (!pgdsn_read(&dsn, config, err))
		return NULL;
	pgdsn_aim(&dsn, first);
	pg = PQconnectStartParams(dsn.keywords, (const char *const *)dsn.values, 0);
	PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
	if (!connect_within(pg, timeout_ms, again)) {
		*exit_code = *again ? CLI_UNAVAILABLE : explain_refusal(pg, &dsn, err);
		if (*again)
			err_set(err, "no connection within %lld ms", (long long)timeout_ms);
		*again = *again && first + 1 < dsn.hosts.n;
		PQfinish(pg);
		pg = NULL;
	}
	pgdsn_free(&dsn);
	return pg;
}

static void on_notice(void *context, const PGresult *notice)
{
	(void)context;
	(void)notice;
}

struct pgblocking *pgblocking_open(const struct config_postgres *config, enum cli_exit *exit_code, struct err *err)
{
	struct pgblocking *pg;
	PGconn *connection = NULL;
	bool again = true;

	for (size_t first = 0; again; first++)
		connection = try_connect(config, first, &again, exit_code, err);
	if (connection == NULL)
		return NULL;
	PQsetNoticeReceiver(connection, on_notice, NULL); /* libpq would print them */
	pg = MEM_NEW(struct pgblocking);
	pg->pg = connection;
	dbsend_init(&pg->send, config);
	return pg;
}

void pgblocking_close(struct pgblocking *pg)
{
	if (pg == NULL)
		return;
	PQfinish(pg->pg);
	mem_free(pg);
}

/* ---- statements ---- */

/* Returns the result when it is good; else explains, frees it and returns NULL. */
static PGresult *judge(PGresult *result, enum cli_exit *exit_code, struct err *err)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return result;
	*exit_code = exit_of_sqlstate(sqlstate == NULL ? "" : sqlstate);
	err_set(err, "%s", pgconn_message(result));
	PQclear(result);
	return NULL;
}

static bool run_plain(struct pgblocking *pg, const char *text, enum cli_exit *exit_code, struct err *err)
{
	PGresult *result = judge(PQexec(pg->pg, text), exit_code, err);

	if (result == NULL)
		return false;
	PQclear(result);
	return true;
}

bool pgblocking_begin(struct pgblocking *pg, enum cli_exit *exit_code, struct err *err)
{
	for (int i = 0; i < DBSEND_PRELUDE; i++)
		if (!run_plain(pg, pg->send.prelude[i], exit_code, err))
			return false;
	return true;
}

PGresult *pgblocking_add(struct pgblocking *pg, const struct sql_statement *statement, const struct slice *values,
			 enum cli_exit *exit_code, struct err *err)
{
	struct dbsend_values of_libpq;

	dbsend_values_init(&of_libpq, statement, values);
	return judge(PQexecParams(pg->pg, statement->text, statement->n_params, NULL, of_libpq.bytes,
				  of_libpq.lengths, of_libpq.formats, DBSEND_BINARY),
		     exit_code, err);
}

bool pgblocking_end(struct pgblocking *pg, bool commit, enum cli_exit *exit_code, struct err *err)
{
	if (commit && run_plain(pg, "COMMIT", exit_code, err))
		return true;
	if (PQtransactionStatus(pg->pg) != PQTRANS_IDLE)
		PQclear(PQexec(pg->pg, "ROLLBACK"));
	return !commit;
}

PGresult *pgblocking_run(struct pgblocking *pg, const struct sql_statement *statement, const struct slice *values,
			 enum cli_exit *exit_code, struct err *err)
{
	PGresult *result = NULL;

	if (pgblocking_begin(pg, exit_code, err))
		result = pgblocking_add(pg, statement, values, exit_code, err);
	if (pgblocking_end(pg, result != NULL, exit_code, err) && result != NULL)
		return result;
	PQclear(result);
	return NULL;
}

/* ---- notifications ---- */

#define PROOF_CHANNEL "outboxd_check"

/* What has come by now, or comes within the time. */
static bool wait_for_notification(PGconn *pg, int64_t until_ms)
{
	PGnotify *notification = PQnotifies(pg);

	while (notification == NULL && wait_for_socket(pg, true, until_ms) && PQconsumeInput(pg) == 1)
		notification = PQnotifies(pg);
	PQfreemem(notification);
	return notification != NULL;
}

bool pgblocking_hears(struct pgblocking *pg, struct pgblocking *other, int64_t timeout_ms, enum cli_exit *exit_code,
		      struct err *err)
{
	*exit_code = CLI_OK;
	return run_plain(pg, "LISTEN " PROOF_CHANNEL, exit_code, err) &&
	       run_plain(other, "NOTIFY " PROOF_CHANNEL, exit_code, err) &&
	       wait_for_notification(pg->pg, deadline_now_ms() + timeout_ms);
}
