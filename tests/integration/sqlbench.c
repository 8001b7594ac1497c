#include "sqlbench.h"

#include <stdlib.h>
#include <string.h>

PGconn *sqlbench_connect(void)
{
	const char *dsn = getenv("OUTBOXD_TEST_DSN");

	ck_assert_msg(dsn != NULL, "OUTBOXD_TEST_DSN names no server");
	return server_connect(dsn, "test_sql_server");
}

/* The table is there; finds out about it and builds its statements. */
struct sqlbench sqlbench_open(struct config_source source)
{
	struct sqlbench bench = {.conn = sqlbench_connect(),
				 .source = source,
				 .owner = "me",
				 .limit = 100,
				 .max_attempts = 10,
				 .share = 1000,
				 .max_in_flight = 1000,
				 .max_bytes = 1 << 20,
				 .lease_us = 60000000};
	struct err err;

	bench.sql = sql_new(&source, server_inspect(bench.conn, &source), NULL, &err);
	ck_assert_msg(bench.sql != NULL, "%s", err.text);
	return bench;
}

void sqlbench_run(const char *sql)
{
	PGconn *conn = sqlbench_connect();

	server_run(conn, "SET client_min_messages = warning");
	server_run(conn, "%s", sql);
	PQfinish(conn);
}

/* The table of the source, new and empty, as `schema` prints it. */
void sqlbench_make_table(const struct config_source *source)
{
	FILE *out = tmpfile();
	char text[20000];
	struct buf drop = {0};
	size_t len;

	ck_assert_ptr_nonnull(out);
	buf_print(&drop, "DROP TABLE IF EXISTS %s CASCADE", source->table);
	sqlbench_run(buf_text(&drop));
	sql_print_schema(source, false, out);
	rewind(out);
	len = fread(text, 1, sizeof(text) - 1, out);
	text[len] = '\0';
	fclose(out);
	sqlbench_run(text);
	buf_free(&drop);
}

struct sqlbench sqlbench_standard(void)
{
	struct config_source source = server_source("event_outbox");

	sqlbench_make_table(&source);
	return sqlbench_open(source);
}

void sqlbench_send(struct sqlbench *bench, enum sql_kind kind, const char *text,
		   const struct server_values *outcomes)
{
	struct server_values values = {0};
	struct pgarray empty_text = {0}, empty_int4 = {0};
	struct pg_cells {
		char max[4], limit[4], share[4], in_flight[4], bytes[8], lease[16], park[16], result[16];
	} cells;

	if (outcomes != NULL)
		values = *outcomes;
	pgarray_begin(&empty_text, PGOID_TEXT);
	pgarray_begin(&empty_int4, PGOID_INT4);
	values.values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(cells.max, bench->max_attempts);
	values.values[SQL_P_LIMIT] = pg_put_int4(cells.limit, bench->limit);
	values.values[SQL_P_SHARE] = pg_put_int4(cells.share, bench->share);
	values.values[SQL_P_MAX_IN_FLIGHT] = pg_put_int4(cells.in_flight, bench->max_in_flight);
	values.values[SQL_P_RESULT_TIMEOUT] = pg_put_interval_us(cells.result, bench->source.result_timeout_us);
	values.values[SQL_P_MAX_BYTES] = pg_put_int8(cells.bytes, bench->max_bytes);
	values.values[SQL_P_LEASE] = pg_put_interval_us(cells.lease, bench->lease_us);
	values.values[SQL_P_PARK_MAX] = pg_put_interval_us(cells.park, 300000000);
	values.values[SQL_P_OWNER] = slice_of(bench->owner);
	values.values[SQL_P_HOT_KEYS] = pgarray_end(&empty_text);
	values.values[SQL_P_HOT_HELD] = pgarray_end(&empty_int4);
	values.values[SQL_P_FAR_DUE] = bench->far_due;
	values.values[SQL_P_FAR_ID] = bench->far_id;
	server_send(bench->conn, sql_statement(bench->sql, kind), text, &values);
	pgarray_free(&empty_text);
	pgarray_free(&empty_int4);
}

PGresult *sqlbench_execute(struct sqlbench *bench, enum sql_kind kind, const char *text,
			   const struct server_values *outcomes)
{
	sqlbench_send(bench, kind, text, outcomes);
	return server_finish(bench->conn);
}

/* The statement must succeed. */
PGresult *sqlbench_ask(struct sqlbench *bench, enum sql_kind kind)
{
	PGresult *result = sqlbench_execute(bench, kind, NULL, NULL);

	ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
	return result;
}

int sqlbench_claimed(const PGresult *result)
{
	return PQntuples(result) - 1; /* the first row is the tail */
}

/* Claims and forgets; the number of rows. */
int sqlbench_claim(struct sqlbench *bench)
{
	PGresult *result = sqlbench_ask(bench, SQL_CLAIM);
	int n = sqlbench_claimed(result);

	PQclear(result);
	return n;
}

static void add_outcome(const struct sqlbench *bench, struct settle *settle, const PGresult *claim, int row,
			struct sqlbench_outcome outcome)
{
	const struct settle_row other = {.id = server_cell(claim, row, SQL_C_ID),
					 .lease = server_cell(claim, row, SQL_C_LEASE),
					 .owner = bench->owner,
					 .state = bench->source.states[outcome.state],
					 .delay_us = outcome.delay_us,
					 .back = outcome.back != 0,
					 .error = outcome.error};

	if (outcome.state != ROW_SENT)
		settle_add(settle, &other);
	else if (row == 1)
		settle_begin_claim(settle, other.lease, other.owner);
	if (outcome.state == ROW_SENT)
		settle_add_sent(settle, other.id);
}

struct settle *sqlbench_outcomes(struct sqlbench *bench, const PGresult *claim, struct sqlbench_outcome outcome,
				 struct server_values *values)
{
	struct settle *settle = settle_new();

	settle_begin(settle);
	for (int row = 1; row <= sqlbench_claimed(claim); row++)
		add_outcome(bench, settle, claim, row, outcome);
	settle_values(settle, values->values);
	return settle;
}

int sqlbench_settle(struct sqlbench *bench, const PGresult *claim, struct sqlbench_outcome outcome)
{
	struct server_values values = {0};
	struct settle *settle = sqlbench_outcomes(bench, claim, outcome, &values);
	PGresult *result;
	int n;

	result = sqlbench_execute(bench, outcome.state == ROW_SENT ? SQL_SETTLE_SENT : SQL_SETTLE, NULL, &values);
	ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
	n = PQntuples(result);
	PQclear(result);
	settle_free(settle);
	return n;
}

struct config_source sqlbench_message_source(void)
{
	struct config_source source = server_source("agent_message");

	source.preset = "message";
	source.columns[COLUMN_KEY] = "task_id";
	source.columns[COLUMN_AVAILABLE_AT] = source.columns[COLUMN_LEASE_UNTIL] = "next_retry_time";
	source.columns[COLUMN_MAX_ATTEMPTS] = "max_retry";
	source.columns[COLUMN_LEASE_OWNER] = source.columns[COLUMN_SETTLED_AT] = source.columns[COLUMN_HEADERS] =
		NULL;
	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_TYPE] = NULL;
	sqlbench_run(
		"DROP TABLE IF EXISTS agent_message; CREATE TABLE agent_message (id bigserial PRIMARY KEY, task_id text, payload text, status text DEFAULT "
		"'PENDING', attempts int, max_retry int, next_retry_time timestamptz, last_error text, created_at timestamptz DEFAULT now()); "
		"CREATE INDEX agent_message_due ON agent_message (coalesce(next_retry_time, '-infinity'), id) WHERE status IN ('PENDING', 'SENDING'); "
		"CREATE INDEX agent_message_key ON agent_message (task_id, id) WHERE status IN ('PENDING', 'SENDING') OR (status = 'FAILED' AND "
		"(last_error LIKE 'skipped: %') IS NOT TRUE)");
	return source;
}
