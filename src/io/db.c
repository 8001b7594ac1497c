/* One request is one pipeline: BEGIN, settings, the statement, COMMIT, one Sync. What would cost days to find out:
 * 1. A statement's own result says nothing about its commit. The request completes at the Sync; the first error before it
 *    wins, wherever it came: a deferred constraint fails at the COMMIT.
 * 2. After an error the server skips to the Sync and the session stays in the failed transaction: it gets a ROLLBACK of its
 *    own before anything else.
 * 3. When the connection is lost before the Sync, whatever had come until then, the outcome is unknown.
 * 4. Only unnamed statements and settings that end with the transaction: it works behind a transaction pooler. */
#include "io/dbconn.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* How much later than the server's own time limit the client gives up. */
#define DEADLINE_MARGIN_US 5000000

/* struct db_result is libpq's result under another name, so that db.h names no library type. */
static struct db_result *to_result(PGresult *result)
{
	return (struct db_result *)result;
}

static PGresult *of_result(const struct db_result *result)
{
	return (PGresult *)result;
}

int db_result_rows(const struct db_result *result)
{
	return PQntuples(of_result(result));
}

struct slice db_result_cell(const struct db_result *result, int row, int column)
{
	PGresult *pg = of_result(result);

	if (PQgetisnull(pg, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(pg, row, column), (size_t)PQgetlength(pg, row, column)};
}

void db_result_free(struct db_result *result)
{
	PQclear(of_result(result));
}

static int64_t monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void set_state(struct db *db, enum db_state state, const char *why)
{
	enum db_state from = db->state;

	db->state = state;
	db->on_change(db->context, db, from, why);
}

static void copy_sqlstate(char sqlstate[6], const PGresult *error)
{
	const char *code = PQresultErrorField(error, PG_DIAG_SQLSTATE);

	snprintf(sqlstate, 6, "%s", code == NULL ? "" : code);
}

static struct db_outstanding take_outstanding(struct db *db)
{
	struct db_outstanding out = db->out;

	ev_timer_stop(db->conn.loop, &db->deadline);
	db->out = (struct db_outstanding){0};
	return out;
}

/* Gives the answer (the result in it is taken by the callback) and frees what else there was. */
static void give_answer(struct db_outstanding *out, struct db_answer *answer)
{
	answer->duration_us = monotonic_us() - out->sent_us;
	if (answer->verdict == VERDICT_OK)
		answer->result = to_result(out->result);
	else
		PQclear(out->result);
	out->on_answer(out->context, answer);
	PQclear(out->error);
}

static void discard(struct db_outstanding *out)
{
	PQclear(out->result);
	PQclear(out->error);
}

static void answer_unknown(struct db_outstanding *out, const char *why)
{
	struct db_answer answer = {.verdict = VERDICT_UNKNOWN, .fault = SQL_CONNECTION, .message = why};

	if (out->on_answer == NULL) {
		discard(out);
		return;
	}
	if (out->error != NULL) {
		copy_sqlstate(answer.sqlstate, out->error);
		answer.message = pgconn_message(out->error);
	}
	give_answer(out, &answer);
}

static void on_lost(void *context, const char *reason, bool was_ready)
{
	struct db *db = context;
	struct db_outstanding out = take_outstanding(db);

	(void)was_ready;
	/* The server's own last words say more than "connection closed". */
	set_state(db, DB_DOWN, out.error != NULL ? pgconn_message(out.error) : reason);
	answer_unknown(&out, reason);
}

static bool send_plain(PGconn *pg, const char *text)
{
	return PQsendQueryParams(pg, text, 0, NULL, NULL, NULL, NULL, DB_BINARY) == 1;
}

static void roll_back(struct db *db)
{
	set_state(db, DB_RECOVERING, NULL);
	ev_timer_again(db->conn.loop, &db->deadline);
	if (!send_plain(db->conn.pg, "ROLLBACK") || PQpipelineSync(db->conn.pg) != 1 || !pgconn_flush(&db->conn))
		pgconn_doom(&db->conn);
}

/* The Sync behind an error: the transaction is rolled back, or will be. */
static void on_failed(struct db *db)
{
	struct db_outstanding out = take_outstanding(db);
	struct db_answer answer = {.message = pgconn_message(out.error)};
	struct sql_judgement judgement;

	copy_sqlstate(answer.sqlstate, out.error);
	judgement = verdict_of_sqlstate(answer.sqlstate);
	answer.verdict = judgement.verdict;
	answer.fault = judgement.fault;
	if (judgement.fault == SQL_CONNECTION)
		pgconn_lose(&db->conn, answer.message);
	else if (PQtransactionStatus(db->conn.pg) == PQTRANS_IDLE)
		set_state(db, DB_IDLE, NULL); /* the COMMIT itself failed */
	else
		roll_back(db);
	give_answer(&out, &answer);
}

static void on_rolled_back(struct db *db)
{
	struct db_outstanding out = take_outstanding(db);

	if (out.error == NULL)
		set_state(db, DB_IDLE, NULL);
	else
		pgconn_lose(&db->conn, pgconn_message(out.error));
	discard(&out);
}

static void on_sync(struct db *db)
{
	struct db_answer answer = {.verdict = VERDICT_OK, .message = ""};
	struct db_outstanding out;

	if (db->state == DB_RECOVERING) {
		on_rolled_back(db);
	} else if (db->out.error != NULL) {
		on_failed(db);
	} else if (db->out.done != db->out.prelude + 2) {
		pgconn_lose(&db->conn, "the server answered out of turn");
	} else {
		pgconn_mark_sound(&db->conn);
		out = take_outstanding(db);
		set_state(db, DB_IDLE, NULL);
		give_answer(&out, &answer);
	}
}

/* Keeps what matters of the result. False: it is none that a request can have. */
static bool keep_result(struct db_outstanding *out, PGresult *result)
{
	switch (PQresultStatus(result)) {
	case PGRES_TUPLES_OK:
	case PGRES_COMMAND_OK:
		if (out->done == out->prelude && out->result == NULL)
			out->result = result;
		else
			PQclear(result);
		return true;
	case PGRES_PIPELINE_ABORTED:
		PQclear(result);
		return true;
	case PGRES_FATAL_ERROR:
		/* Without an SQLSTATE it is libpq's own, about the connection. */
		if (PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL && out->error == NULL) {
			out->error = result;
			return true;
		}
		/* fall through */
	default:
		PQclear(result);
		return false;
	}
}

/* Reads what has come; an answer's callback may submit the next request meanwhile. NULL ends a statement's results; two of
 * them in a row mean that libpq expects nothing more, though we do. */
static void on_input(void *context)
{
	struct db *db = context;
	PGresult *result;
	bool ended = false;

	while (!PQisBusy(db->conn.pg) && (db->state == DB_BUSY || db->state == DB_RECOVERING)) {
		result = PQgetResult(db->conn.pg);
		if (result == NULL && ended) {
			pgconn_lose(&db->conn, "the server answered out of turn");
			return;
		}
		ended = result == NULL;
		if (ended) {
			db->out.done++;
		} else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
			PQclear(result);
			on_sync(db);
		} else if (!keep_result(&db->out, result)) {
			pgconn_lose(&db->conn, NULL);
		}
		if (db->conn.state != PGCONN_READY)
			return;
	}
}

static void on_ready(void *context)
{
	struct db *db = context;

	if (PQenterPipelineMode(db->conn.pg) != 1)
		pgconn_lose(&db->conn, "cannot enter pipeline mode");
	else
		set_state(db, DB_IDLE, NULL);
}

static void on_deadline(struct ev_loop *loop, ev_timer *watcher, int revents)
{
	struct db *db = watcher->data;
	struct err why;

	(void)loop;
	(void)revents;
	err_set(&why, "no answer within %lld ms", (long long)(watcher->repeat * 1000 + 0.5));
	pgconn_lose(&db->conn, why.text);
}

static const struct pgconn_events events = {on_ready, on_input, on_lost};

/* Single SETs cost 10 us each, less than one SELECT of as many set_config. jit: compiling a claim took 35 ms and more, each
 * time. */
void db_prelude_init(struct db_prelude *prelude, const struct config_postgres *config)
{
	char(*statements)[DB_PRELUDE_SIZE] = prelude->statements;

	snprintf(statements[0], DB_PRELUDE_SIZE, "BEGIN ISOLATION LEVEL READ COMMITTED");
	snprintf(statements[1], DB_PRELUDE_SIZE, "SET LOCAL statement_timeout = %" PRId64,
		 config->statement_timeout_us / 1000);
	snprintf(statements[2], DB_PRELUDE_SIZE, "SET LOCAL lock_timeout = %" PRId64,
		 config->lock_timeout_us / 1000);
	snprintf(statements[3], DB_PRELUDE_SIZE, "SET LOCAL jit = off");
	snprintf(statements[4], DB_PRELUDE_SIZE, "SET LOCAL enable_seqscan = off");
	snprintf(statements[5], DB_PRELUDE_SIZE, "SET LOCAL enable_bitmapscan = off");
	snprintf(statements[6], DB_PRELUDE_SIZE, "SET LOCAL enable_sort = off");
}

int db_prelude_length(const struct sql_statement *statement)
{
	static const int lengths[] = {[SQL_PIN_NOTHING] = 4, [SQL_PIN_SCANS] = 6, [SQL_PIN_ORDER] = DB_PRELUDE_MAX};

	return lengths[statement->pin];
}

void db_values_init(struct db_values *of_libpq, const struct sql_statement *statement, const struct slice *values)
{
	for (int i = 0; i < statement->n_params; i++) {
		of_libpq->bytes[i] = values[i].bytes;
		of_libpq->lengths[i] = (int)values[i].len;
		of_libpq->formats[i] = DB_BINARY;
	}
}

void db_start(struct db *db, struct ev_loop *loop, const struct config_postgres *config, db_change_fn *on_change,
	      void *context)
{
	*db = (struct db){.on_change = on_change, .context = context};
	db_prelude_init(&db->prelude, config);
	ev_timer_init(&db->deadline, on_deadline, 0.,
		      (ev_tstamp)(config->statement_timeout_us + DEADLINE_MARGIN_US) / 1e6);
	ev_set_priority(&db->deadline, PGCONN_TIMER_PRIORITY);
	db->deadline.data = db;
	pgconn_start(&db->conn, loop, config, &events, db);
}

void db_stop(struct db *db)
{
	struct db_outstanding out = take_outstanding(db);

	pgconn_stop(&db->conn);
	set_state(db, DB_CLOSED, NULL);
	answer_unknown(&out, "closed");
}

static bool send_prelude(struct db *db, int n)
{
	for (int i = 0; i < n; i++)
		if (!send_plain(db->conn.pg, db->prelude.statements[i]))
			return false;
	return true;
}

static bool send_statement(PGconn *pg, const struct db_request *request)
{
	struct db_values values;

	db_values_init(&values, request->statement, request->values);
	return PQsendQueryParams(pg, request->statement->text, request->statement->n_params, NULL, values.bytes,
				 values.lengths, values.formats, DB_BINARY) == 1;
}

bool db_submit(struct db *db, const struct db_request *request)
{
	PGconn *pg = db->conn.pg;
	int prelude = db_prelude_length(request->statement);

	/* Without the COMMIT nothing can come of what may already have been sent; but the connection is of no use. */
	if (!send_prelude(db, prelude) || !send_statement(pg, request) || !send_plain(pg, "COMMIT")) {
		set_state(db, DB_RECOVERING, NULL);
		pgconn_doom(&db->conn);
		return false;
	}
	db->out = (struct db_outstanding){.on_answer = request->on_answer,
					  .context = request->context,
					  .sent_us = monotonic_us(),
					  .prelude = prelude};
	ev_timer_again(db->conn.loop, &db->deadline);
	set_state(db, DB_BUSY, NULL);
	if (PQpipelineSync(pg) != 1 || !pgconn_flush(&db->conn))
		pgconn_doom(&db->conn); /* the answer will be unknown */
	return true;
}
