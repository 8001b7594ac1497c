/* One request is one pipeline of one transaction and one Sync (dbsend says what is in it). What would cost days to find out:
 * 1. A statement's own result says nothing about its commit. The request completes at the Sync; the first error before it
 *    wins, wherever it came: a deferred constraint fails at the COMMIT.
 * 2. After an error the server skips to the Sync and the session stays in the failed transaction: it gets a ROLLBACK of its
 *    own before anything else.
 * 3. When the connection is lost before the Sync, whatever had come until then, the outcome is unknown.
 * 4. Behind a transaction pooler only unnamed statements work, and settings that end with the transaction: so each new
 *    connection first asks whose session it has. */
#include "io/dbconn.h"

#include "base/crash.h"

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
	int len = PQgetlength(pg, row, column); /* 0 also for NULL */

	if (len == 0 && PQgetisnull(pg, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(pg, row, column), (size_t)len};
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
	CRASH_POINT(SESSION_LOST);
	/* The server's own last words say more than "connection closed". */
	set_state(db, DB_DOWN, out.error != NULL ? pgconn_message(out.error) : reason);
	answer_unknown(&out, reason);
}

/* Something of our own has been sent, or not; its answer comes with a Sync. */
static void await_tidying(struct db *db, bool sent)
{
	set_state(db, DB_TIDYING, NULL);
	ev_timer_again(db->conn.loop, &db->deadline);
	if (!sent || PQpipelineSync(db->conn.pg) != 1 || !pgconn_flush(&db->conn))
		pgconn_doom(&db->conn);
}

/* One row's data says nothing about the session; behind anything else what was prepared is forgotten. */
static void tidy(struct db *db, enum sql_fault fault)
{
	bool needed = false, sent = true;

	if (fault != SQL_DATA || PQtransactionStatus(db->conn.pg) != PQTRANS_IDLE)
		sent = dbsend_tidy(&db->send, db->conn.pg, &needed);
	if (needed)
		await_tidying(db, sent);
	else
		set_state(db, DB_IDLE, NULL);
}

/* The Sync behind an error: the transaction is rolled back, or will be. */
static void on_failed(struct db *db)
{
	struct db_outstanding out = take_outstanding(db);
	struct db_answer answer = {.message = pgconn_message(out.error)};
	struct sql_judgement judgement;

	copy_sqlstate(answer.sqlstate, out.error);
	CRASH_POINT(STATEMENT_FAILED);
	judgement = verdict_of_sqlstate(answer.sqlstate);
	answer.verdict = judgement.verdict;
	answer.fault = judgement.fault;
	if (judgement.fault == SQL_CONNECTION)
		pgconn_lose(&db->conn, answer.message);
	else
		tidy(db, judgement.fault);
	give_answer(&out, &answer);
}

static void on_tidied(struct db *db)
{
	struct db_outstanding out = take_outstanding(db);

	if (db->asked)
		dbsend_learn(&db->send, out.result);
	if (out.error != NULL)
		pgconn_lose(&db->conn, pgconn_message(out.error));
	else if (db->asked && db->send.own)
		await_tidying(db, dbsend_settings(&db->send, db->conn.pg));
	else
		set_state(db, DB_IDLE, NULL);
	db->asked = false;
	discard(&out);
	CRASH_POINT(SESSION_TIDIED);
}

static void on_sync(struct db *db)
{
	struct db_answer answer = {.verdict = VERDICT_OK, .message = ""};
	struct db_outstanding out;

	if (db->state == DB_TIDYING) {
		on_tidied(db);
	} else if (db->out.error != NULL) {
		on_failed(db);
	} else if (db->out.done != db->out.answers.all) {
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
		if (out->done == out->answers.before && out->result == NULL)
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

	while (!PQisBusy(db->conn.pg) && (db->state == DB_BUSY || db->state == DB_TIDYING)) {
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

	if (PQenterPipelineMode(db->conn.pg) != 1) {
		pgconn_lose(&db->conn, "cannot enter pipeline mode");
		return;
	}
	dbsend_reset(&db->send);
	CRASH_POINT(SESSION_OPENED);
	db->asked = true;
	await_tidying(db, dbsend_ask(db->conn.pg));
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

void db_start(struct db *db, struct ev_loop *loop, const struct config_postgres *config, db_change_fn *on_change,
	      void *context)
{
	*db = (struct db){.on_change = on_change, .context = context};
	dbsend_init(&db->send, config);
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
	dbsend_free(&db->send);
	set_state(db, DB_CLOSED, NULL);
	answer_unknown(&out, "closed");
}

bool db_submit(struct db *db, const struct db_request *request)
{
	PGconn *pg = db->conn.pg;
	struct dbsend_answers answers;

	/* Without the Sync nothing can come of what may already have been sent; but the connection is of no use. */
	if (!dbsend_request(&db->send, pg, request->statement, request->values, &answers)) {
		set_state(db, DB_TIDYING, NULL);
		pgconn_doom(&db->conn);
		return false;
	}
	db->out = (struct db_outstanding){.on_answer = request->on_answer,
					  .context = request->context,
					  .sent_us = monotonic_us(),
					  .answers = answers};
	ev_timer_again(db->conn.loop, &db->deadline);
	set_state(db, DB_BUSY, NULL);
	if (PQpipelineSync(pg) != 1 || !pgconn_flush(&db->conn))
		pgconn_doom(&db->conn); /* the answer will be unknown */
	return true;
}
