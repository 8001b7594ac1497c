#include "lane.h"

#include "bench.h"

#include <errno.h>

static _Noreturn void fail(const struct lane *lane)
{
	bench_die("postgres: %s", PQerrorMessage(lane->pg));
}

PGconn *lane_connect(const struct config_postgres *config)
{
	struct pgdsn dsn = {0};
	struct err err;
	PGconn *pg;

	if (!pgdsn_read(&dsn, config, &err))
		bench_die("%s", err.text);
	pgdsn_aim(&dsn, 0);
	pg = PQconnectdbParams(dsn.keywords, (const char *const *)dsn.values, 0);
	pgdsn_free(&dsn);
	if (PQstatus(pg) != CONNECTION_OK)
		bench_die("postgres: %s", PQerrorMessage(pg));
	return pg;
}

static void flush(struct lane *lane)
{
	int unsent = PQflush(lane->pg);

	if (unsent < 0)
		fail(lane);
	lane->unsent = unsent > 0;
}

static void end_request(struct lane *lane)
{
	lane->busy = true;
	lane->done = 0;
	lane->sent_us = bench_now_us();
	if (PQpipelineSync(lane->pg) != 1)
		fail(lane);
	flush(lane);
}

/* As io/db.c begins: whose session is it, and its settings. */
static void make_session(struct lane *lane)
{
	PGresult *answer;

	lane->answers = (struct dbsend_answers){.before = 0, .all = 1};
	if (!dbsend_ask(lane->pg))
		fail(lane);
	end_request(lane);
	answer = lane_wait(lane);
	dbsend_learn(&lane->send, answer);
	PQclear(answer);
	if (!lane->send.own)
		return;
	lane->answers.all = DBSEND_PRELUDE;
	if (!dbsend_settings(&lane->send, lane->pg))
		fail(lane);
	end_request(lane);
	PQclear(lane_wait(lane));
}

void lane_open(struct lane *lane, const struct config_postgres *config)
{
	*lane = (struct lane){.pg = lane_connect(config)};
	dbsend_init(&lane->send, config);
	if (PQsetnonblocking(lane->pg, 1) != 0 || PQenterPipelineMode(lane->pg) != 1)
		fail(lane);
	make_session(lane);
}

void lane_close(struct lane *lane)
{
	PQfinish(lane->pg);
	dbsend_free(&lane->send);
}

void lane_send(struct lane *lane, const struct sql_statement *statement, const struct slice values[SQL_PARAMS])
{
	struct slice ordered[SQL_PARAMS];

	for (int i = 0; i < statement->n_params; i++)
		ordered[i] = values[statement->params[i]];
	if (!dbsend_request(&lane->send, lane->pg, statement, ordered, &lane->answers))
		fail(lane);
	end_request(lane);
}

struct pollfd lane_poll(const struct lane *lane)
{
	return (struct pollfd){.fd = PQsocket(lane->pg),
			       .events = (short)(lane->unsent ? POLLIN | POLLOUT : POLLIN)};
}

static PGresult *finish(struct lane *lane)
{
	PGresult *result = lane->result;

	if (lane->done != lane->answers.all || result == NULL)
		bench_die("postgres answered out of turn");
	lane->busy = false;
	lane->result = NULL;
	lane->duration_us = bench_now_us() - lane->sent_us;
	return result;
}

static void keep(struct lane *lane, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		bench_die("postgres: %s", PQresultErrorMessage(result));
	if (lane->done == lane->answers.before && lane->result == NULL)
		lane->result = result;
	else
		PQclear(result);
}

PGresult *lane_serve(struct lane *lane)
{
	PGresult *result;

	if (PQconsumeInput(lane->pg) != 1)
		fail(lane);
	flush(lane);
	while (lane->busy && !PQisBusy(lane->pg)) {
		result = PQgetResult(lane->pg);
		if (result == NULL) {
			lane->done++;
		} else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
			PQclear(result);
			return finish(lane);
		} else {
			keep(lane, result);
		}
	}
	return NULL;
}

PGresult *lane_wait(struct lane *lane)
{
	PGresult *result = NULL;

	while (result == NULL) {
		struct pollfd fd = lane_poll(lane);

		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			bench_die("poll failed");
		result = lane_serve(lane);
	}
	return result;
}

struct slice lane_cell(const void *result, int row, int column)
{
	if (PQgetisnull(result, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}
