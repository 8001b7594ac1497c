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

	if (!pgdsn_read(&dsn, config, 0, &err))
		bench_die("%s", err.text);
	pg = PQconnectdbParams(dsn.keywords, (const char *const *)dsn.values, 0);
	pgdsn_free(&dsn);
	if (PQstatus(pg) != CONNECTION_OK)
		bench_die("postgres: %s", PQerrorMessage(pg));
	return pg;
}

void lane_open(struct lane *lane, const struct config_postgres *config)
{
	*lane = (struct lane){.pg = lane_connect(config)};
	db_prelude_init(&lane->prelude, config);
	if (PQsetnonblocking(lane->pg, 1) != 0 || PQenterPipelineMode(lane->pg) != 1)
		fail(lane);
}

void lane_close(struct lane *lane)
{
	PQfinish(lane->pg);
}

static void flush(struct lane *lane)
{
	int unsent = PQflush(lane->pg);

	if (unsent < 0)
		fail(lane);
	lane->unsent = unsent > 0;
}

static void send_plain(struct lane *lane, const char *text)
{
	if (PQsendQueryParams(lane->pg, text, 0, NULL, NULL, NULL, NULL, DB_BINARY) != 1)
		fail(lane);
}

static void send_statement(struct lane *lane, const struct sql_statement *statement,
			   const struct slice values[SQL_PARAMS])
{
	struct slice ordered[SQL_PARAMS];
	struct db_values params;

	for (int i = 0; i < statement->n_params; i++)
		ordered[i] = values[statement->params[i]];
	db_values_init(&params, statement, ordered);
	if (PQsendQueryParams(lane->pg, statement->text, statement->n_params, NULL, params.bytes, params.lengths,
			      params.formats, DB_BINARY) != 1)
		fail(lane);
}

void lane_send(struct lane *lane, const struct sql_statement *statement, const struct slice values[SQL_PARAMS])
{
	lane->n_prelude = db_prelude_length(statement);
	for (int i = 0; i < lane->n_prelude; i++)
		send_plain(lane, lane->prelude.statements[i]);
	send_statement(lane, statement, values);
	send_plain(lane, "COMMIT");
	lane->busy = true;
	lane->done = 0;
	lane->sent_us = bench_now_us();
	if (PQpipelineSync(lane->pg) != 1)
		fail(lane);
	flush(lane);
}

struct pollfd lane_poll(const struct lane *lane)
{
	return (struct pollfd){.fd = PQsocket(lane->pg),
			       .events = (short)(lane->unsent ? POLLIN | POLLOUT : POLLIN)};
}

static PGresult *finish(struct lane *lane)
{
	PGresult *result = lane->result;

	if (lane->done != lane->n_prelude + 2 || result == NULL)
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
	if (lane->done == lane->n_prelude && lane->result == NULL)
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
