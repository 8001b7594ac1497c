#include "server.h"

#include "../standard.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void server_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

PGconn *server_connect(const char *dsn, const char *name)
{
	const char *const keys[] = {"dbname", "application_name", NULL};
	const char *const values[] = {dsn, name, NULL};
	PGconn *conn = PQconnectdbParams(keys, values, 1);

	if (PQstatus(conn) != CONNECTION_OK)
		server_die("%s", PQerrorMessage(conn));
	return conn;
}

__attribute__((format(printf, 1, 0))) static char *print(const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		server_die("out of memory");
	return text;
}

static PGresult *query(PGconn *conn, const char *text)
{
	PGresult *result = PQexec(conn, text);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		server_die("%s: %s", text, PQerrorMessage(conn));
	return result;
}

void server_run(PGconn *conn, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = print(format, args);
	va_end(args);
	PQclear(query(conn, text));
	free(text);
}

int64_t server_number(PGconn *conn, const char *format, ...)
{
	va_list args;
	PGresult *result;
	char *text;
	int64_t number;

	va_start(args, format);
	text = print(format, args);
	va_end(args);
	result = query(conn, text);
	number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
	PQclear(result);
	free(text);
	return number;
}

char *server_text(PGconn *conn, const char *format, ...)
{
	va_list args;
	PGresult *result;
	char *text, *value;

	va_start(args, format);
	text = print(format, args);
	va_end(args);
	result = query(conn, text);
	value = strdup(PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	free(text);
	return value;
}

/* ---- the relay's statements ---- */

/* As io/dbsend.c has them. */
#define SETTINGS                                                                                             \
	"SELECT set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true), " \
	"set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), "          \
	"set_config('enable_sort', 'off', true)"

#define BEGIN "BEGIN ISOLATION LEVEL READ COMMITTED"
#define STATEMENT_INDEX 3 /* behind BEGIN, the settings and what comes before it */

/* A statement's values as libpq takes them; the bytes are borrowed. */
struct libpq_values {
	const char *bytes[SQL_PARAMS];
	int lengths[SQL_PARAMS], formats[SQL_PARAMS];
};

static void order_values(const struct sql_statement *statement, const struct server_values *values,
			 struct libpq_values *ordered)
{
	for (int i = 0; i < statement->n_params; i++) {
		ordered->bytes[i] = values->values[statement->params[i]].bytes;
		ordered->lengths[i] = (int)values->values[statement->params[i]].len;
		ordered->formats[i] = 1;
	}
}

static void send_plain(PGconn *conn, const char *text)
{
	if (PQsendQueryParams(conn, text, 0, NULL, NULL, NULL, NULL, 1) != 1)
		server_die("%s", PQerrorMessage(conn));
}

void server_send(PGconn *conn, const struct sql_statement *statement, const char *text,
		 const struct server_values *values)
{
	struct libpq_values ordered;

	order_values(statement, values, &ordered);
	if (PQenterPipelineMode(conn) != 1)
		server_die("%s", PQerrorMessage(conn));
	send_plain(conn, BEGIN);
	send_plain(conn, SETTINGS);
	send_plain(conn, statement->before != NULL ? statement->before : "SELECT");
	if (PQsendQueryParams(conn, text != NULL ? text : statement->text, statement->n_params, NULL, ordered.bytes,
			      ordered.lengths, ordered.formats, 1) != 1)
		server_die("%s", PQerrorMessage(conn));
	send_plain(conn, "COMMIT");
	if (PQpipelineSync(conn) != 1)
		server_die("%s", PQerrorMessage(conn));
}

/* The statement's own result, or the first error before the Sync. */
PGresult *server_finish(PGconn *conn)
{
	PGresult *result, *kept = NULL;
	int index = 0;

	for (;;) {
		result = PQgetResult(conn);
		if (result == NULL && PQstatus(conn) == CONNECTION_BAD)
			server_die("%s", PQerrorMessage(conn));
		if (result == NULL) {
			index++;
			continue;
		}
		if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
			break;
		if ((index == STATEMENT_INDEX || PQresultStatus(result) == PGRES_FATAL_ERROR) &&
		    (kept == NULL || PQresultStatus(kept) == PGRES_TUPLES_OK)) {
			PQclear(kept);
			kept = result;
		} else {
			PQclear(result);
		}
	}
	PQclear(result);
	if (PQexitPipelineMode(conn) != 1)
		server_die("%s", PQerrorMessage(conn));
	if (PQtransactionStatus(conn) != PQTRANS_IDLE)
		PQclear(query(conn, "ROLLBACK"));
	return kept;
}

PGresult *server_execute(PGconn *conn, const struct sql_statement *statement, const char *text,
			 const struct server_values *values)
{
	server_send(conn, statement, text, values);
	return server_finish(conn);
}

void server_begin(PGconn *conn)
{
	PQclear(query(conn, BEGIN));
	PQclear(query(conn, SETTINGS));
}

PGresult *server_add(PGconn *conn, const struct sql_statement *statement, const char *text,
		     const struct server_values *values)
{
	struct libpq_values ordered;

	order_values(statement, values, &ordered);
	return PQexecParams(conn, text != NULL ? text : statement->text, statement->n_params, NULL, ordered.bytes,
			    ordered.lengths, ordered.formats, 1);
}

void server_end(PGconn *conn)
{
	PQclear(query(conn, "COMMIT"));
}

struct slice server_cell(const PGresult *result, int row, int column)
{
	if (PQgetisnull(result, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

int64_t server_int8(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? 0 : pg_get_int8(server_cell(result, row, column));
}

int32_t server_int4(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? 0 : pg_get_int4(server_cell(result, row, column));
}

static struct slice text_slice(const char *text)
{
	return text == NULL ? slice_of("") : slice_of(text);
}

static struct slice any_cell(const void *result, int row, int column)
{
	return server_cell(result, row, column);
}

struct sql_table_facts *server_inspect(PGconn *conn, const struct config_source *source)
{
	struct sql_table_facts *facts = MEM_NEW(struct sql_table_facts);
	struct server_values values = {0};
	struct buf table = {0};
	struct err err;
	PGresult *result;

	if (!sql_table_name(source->table, &table, &err))
		server_die("%s", err.text);
	values.values[SQL_P_TABLE] = text_slice(buf_text(&table));
	values.values[SQL_P_KEY_COLUMN] = text_slice(source->columns[COLUMN_KEY]);
	result = server_execute(conn, &sql_inspect, NULL, &values);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		server_die("%s", PQresultErrorMessage(result));
	if (PQntuples(result) == 0)
		return NULL;
	sql_read_facts(facts, any_cell, result, (size_t)PQntuples(result), arena_new());
	PQclear(result);
	buf_free(&table);
	return facts;
}

struct config_source server_source(const char *table)
{
	struct config_source source = {
		STANDARD_SOURCE,
		.table = table,
		.ordering = ORDERING_KEY,
		.on_failed = ON_FAILED_BLOCK,
		.notify = "outboxd_orders",
		.retry = {.max_attempts = 10},
	};

	return source;
}
