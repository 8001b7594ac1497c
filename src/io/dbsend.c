#include "io/dbsend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* jit: compiling a claim took 35 ms and more, each time. Generic plans: a statement that is prepared gets one sooner or later
 * anyway, and it must be the plan that was tested. The last three pin the plans, for statistics lie about a table that is
 * usually empty: rows in the order of an index come from that index. With a sort allowed, a claim of 500 rows was seen to
 * sort the whole backlog for each of its keys. Single SETs cost 10 us each, less than one SELECT of as many set_config. */
void dbsend_init(struct dbsend *send, const struct config_postgres *config)
{
	char(*prelude)[DBSEND_PRELUDE_SIZE] = send->prelude;

	*send = (struct dbsend){0};
	snprintf(prelude[0], DBSEND_PRELUDE_SIZE, "BEGIN ISOLATION LEVEL READ COMMITTED");
	snprintf(prelude[1], DBSEND_PRELUDE_SIZE, "SET LOCAL statement_timeout = %" PRId64,
		 config->statement_timeout_us / 1000);
	snprintf(prelude[2], DBSEND_PRELUDE_SIZE, "SET LOCAL lock_timeout = %" PRId64,
		 config->lock_timeout_us / 1000);
	snprintf(prelude[3], DBSEND_PRELUDE_SIZE, "SET LOCAL jit = off");
	snprintf(prelude[4], DBSEND_PRELUDE_SIZE, "SET LOCAL plan_cache_mode = force_generic_plan");
	snprintf(prelude[5], DBSEND_PRELUDE_SIZE, "SET LOCAL enable_seqscan = off");
	snprintf(prelude[6], DBSEND_PRELUDE_SIZE, "SET LOCAL enable_bitmapscan = off");
	snprintf(prelude[7], DBSEND_PRELUDE_SIZE, "SET LOCAL enable_sort = off");
}

void dbsend_free(struct dbsend *send)
{
	buf_free(&send->prepared);
}

void dbsend_reset(struct dbsend *send)
{
	send->own = false;
	buf_clear(&send->prepared);
}

static bool send_plain(PGconn *pg, const char *text)
{
	return PQsendQueryParams(pg, text, 0, NULL, NULL, NULL, NULL, DBSEND_BINARY) == 1;
}

/* ---- whose session it is ---- */

/* A pooler makes up the process number that it tells its clients, for it gives them one server session and another. */
bool dbsend_ask(PGconn *pg)
{
	char text[64];

	snprintf(text, sizeof(text), "SELECT pg_backend_pid() = %d", PQbackendPID(pg));
	return send_plain(pg, text);
}

void dbsend_learn(struct dbsend *send, const PGresult *answer)
{
	send->own = PQntuples(answer) == 1 && PQgetlength(answer, 0, 0) == 1 && PQgetvalue(answer, 0, 0)[0] == 1;
}

bool dbsend_settings(const struct dbsend *send, PGconn *pg)
{
	char text[DBSEND_PRELUDE_SIZE];
	bool sent = send_plain(pg, "SET default_transaction_isolation = 'read committed'");

	for (int i = 1; sent && i < DBSEND_PRELUDE; i++) {
		snprintf(text, sizeof(text), "SET %s", send->prelude[i] + strlen("SET LOCAL "));
		sent = send_plain(pg, text);
	}
	return sent;
}

/* ---- requests ---- */

void dbsend_values_init(struct dbsend_values *of_libpq, const struct sql_statement *statement,
			const struct slice *values)
{
	for (int i = 0; i < statement->n_params; i++) {
		of_libpq->bytes[i] = values[i].bytes;
		of_libpq->lengths[i] = (int)values[i].len;
		of_libpq->formats[i] = DBSEND_BINARY;
	}
}

static bool send_unnamed(PGconn *pg, const struct sql_statement *statement, const struct slice *values)
{
	struct dbsend_values params;

	dbsend_values_init(&params, statement, values);
	return PQsendQueryParams(pg, statement->text, statement->n_params, NULL, params.bytes, params.lengths,
				 params.formats, DBSEND_BINARY) == 1;
}

static bool send_prepared(PGconn *pg, const struct sql_statement *statement, const struct slice *values)
{
	struct dbsend_values params;

	dbsend_values_init(&params, statement, values);
	return PQsendQueryPrepared(pg, statement->name, statement->n_params, params.bytes, params.lengths,
				   params.formats, DBSEND_BINARY) == 1;
}

static bool send_before(PGconn *pg, const struct sql_statement *statement, struct dbsend_answers *answers)
{
	if (statement->before == NULL)
		return true;
	answers->before++;
	answers->all++;
	return send_plain(pg, statement->before);
}

static bool send_in_transaction(struct dbsend *send, PGconn *pg, const struct sql_statement *statement,
				const struct slice *values, struct dbsend_answers *answers)
{
	bool sent = true;

	for (int i = 0; sent && i < DBSEND_PRELUDE; i++)
		sent = send_plain(pg, send->prelude[i]);
	*answers = (struct dbsend_answers){.before = DBSEND_PRELUDE, .all = DBSEND_PRELUDE + 2};
	return sent && send_before(pg, statement, answers) && send_unnamed(pg, statement, values) &&
	       send_plain(pg, "COMMIT");
}

static bool is_prepared(const struct dbsend *send, const char *name)
{
	size_t at;

	for (at = 0; at < send->prepared.len; at += SQL_NAME_SIZE)
		if (strcmp(send->prepared.bytes + at, name) == 0)
			return true;
	return false;
}

static bool prepare(struct dbsend *send, PGconn *pg, const struct sql_statement *statement)
{
	if (PQsendPrepare(pg, statement->name, statement->text, 0, NULL) != 1)
		return false;
	buf_add(&send->prepared, statement->name, SQL_NAME_SIZE);
	return true;
}

bool dbsend_request(struct dbsend *send, PGconn *pg, const struct sql_statement *statement,
		    const struct slice *values, struct dbsend_answers *answers)
{
	if (!send->own)
		return send_in_transaction(send, pg, statement, values, answers);
	/* No BEGIN: what is sent before the Sync is one transaction. */
	*answers = (struct dbsend_answers){.before = 0, .all = 1};
	if (!send_before(pg, statement, answers))
		return false;
	if (statement->name[0] == '\0')
		return send_unnamed(pg, statement, values);
	if (!is_prepared(send, statement->name)) {
		if (!prepare(send, pg, statement))
			return false;
		answers->before++;
		answers->all++;
	}
	return send_prepared(pg, statement, values);
}

bool dbsend_tidy(struct dbsend *send, PGconn *pg, bool *needed)
{
	bool failed = PQtransactionStatus(pg) != PQTRANS_IDLE, prepared = send->prepared.len > 0;

	buf_clear(&send->prepared);
	*needed = failed || prepared;
	return (!failed || send_plain(pg, "ROLLBACK")) && (!prepared || send_plain(pg, "DEALLOCATE ALL"));
}
