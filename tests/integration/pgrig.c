#include "pgrig.h"

#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ev_loop *loop;
PGconn *admin;

static FILE *log_file;
static struct arena *arena;
static PGresult *last;
static int answers;

void pgrig_setup(void)
{
	const char *dsn = getenv("OUTBOXD_TEST_DSN");

	ck_assert_msg(dsn != NULL, "OUTBOXD_TEST_DSN names no server");
	arena = arena_new();
	answers = 0;
	log_file = tmpfile();
	ck_assert(log_file != NULL && dup2(fileno(log_file), STDERR_FILENO) == STDERR_FILENO);
	log_configure(LOG_DEBUG, LOG_LOGFMT);
	loop = ev_loop_new(EVFLAG_NOENV);
	admin = PQconnectdb(dsn);
	ck_assert_msg(PQstatus(admin) == CONNECTION_OK, "%s", PQerrorMessage(admin));
	pgrig_sql("SET client_min_messages = warning");
	pgrig_sql("DROP SCHEMA IF EXISTS dbtest CASCADE; CREATE SCHEMA dbtest");
}

void pgrig_teardown(void)
{
	PQclear(last);
	last = NULL;
	PQfinish(admin);
	ev_loop_destroy(loop);
	arena_free(arena);
	fclose(log_file);
}

__attribute__((format(printf, 1, 0))) static PGresult *run(const char *format, va_list args)
{
	char sql[4096];
	PGresult *result;

	ck_assert_int_lt(vsnprintf(sql, sizeof(sql), format, args), (int)sizeof(sql));
	result = PQexec(admin, sql);
	ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK,
		      "%s: %s", sql, PQerrorMessage(admin));
	PQclear(last);
	last = result;
	return result;
}

void pgrig_sql(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	run(format, args);
	va_end(args);
}

const char *pgrig_value(const char *format, ...)
{
	va_list args;
	PGresult *result;

	va_start(args, format);
	result = run(format, args);
	va_end(args);
	ck_assert_int_ge(PQntuples(result), 1);
	return PQgetvalue(result, 0, 0);
}

long pgrig_number(const char *format, ...)
{
	va_list args;
	PGresult *result;

	va_start(args, format);
	result = run(format, args);
	va_end(args);
	ck_assert_int_ge(PQntuples(result), 1);
	return strtol(PQgetvalue(result, 0, 0), NULL, 10);
}

const char *pgrig_dsn(const char *format, ...)
{
	struct buf dsn = {0};
	char more[512], *kept;
	va_list args;

	va_start(args, format);
	vsnprintf(more, sizeof(more), format, args);
	va_end(args);
	buf_print(&dsn, "host=%s port=%s dbname=%s user=%s %s", PQhost(admin), PQport(admin), PQdb(admin),
		  PQuser(admin), more);
	kept = arena_copy_string(arena, buf_text(&dsn));
	buf_free(&dsn);
	return kept;
}

struct config_postgres pgrig_config(const char *dsn)
{
	return (struct config_postgres){.dsn = dsn,
					.connections = 2,
					.connect_timeout_us = 2000000,
					.statement_timeout_us = 2000000,
					.lock_timeout_us = 300000};
}

static void on_tick(struct ev_loop *of, ev_timer *watcher, int revents)
{
	(void)of;
	(void)watcher;
	(void)revents;
}

bool pgrig_run_until(bool (*done)(void *), void *context, double seconds)
{
	double end = ev_time() + seconds;
	ev_timer tick;
	bool is_done;

	ev_timer_init(&tick, on_tick, 0.01, 0.01);
	ev_timer_start(loop, &tick);
	while (!(is_done = done(context)) && ev_time() < end)
		ev_run(loop, EVRUN_ONCE);
	ev_timer_stop(loop, &tick);
	return is_done;
}

static bool never(void *context)
{
	(void)context;
	return false;
}

void pgrig_run(double seconds)
{
	(void)pgrig_run_until(never, NULL, seconds);
}

int pgrig_logged(const char *text)
{
	char line[4096];
	int count = 0;

	fflush(stderr);
	fseek(log_file, 0, SEEK_SET);
	while (fgets(line, sizeof(line), log_file) != NULL)
		count += strstr(line, text) != NULL;
	fseek(log_file, 0, SEEK_END);
	return count;
}

int pgrig_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	ck_assert(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

struct dbpool *pgrig_pool(const char *dsn)
{
	struct config_postgres config = pgrig_config(dsn);

	return dbpool_new(loop, &config);
}

/* So many times was a connection made. */
static bool connected(void *times)
{
	return pgrig_logged("to=ready") >= *(int *)times;
}

void pgrig_wait_connected(int times)
{
	ck_assert(pgrig_run_until(connected, &times, 15));
}

void pgrig_keep(void *context, struct db_answer *from)
{
	struct answer *answer = context;

	answer->count++;
	answer->order = ++answers;
	answer->verdict = from->verdict;
	answer->fault = from->fault;
	memcpy(answer->sqlstate, from->sqlstate, sizeof(answer->sqlstate));
	snprintf(answer->message, sizeof(answer->message), "%s", from->message);
	answer->result = from->result;
	answer->duration_us = from->duration_us;
}

bool pgrig_answered(void *context)
{
	return ((struct answer *)context)->count > 0;
}

bool pgrig_pool_up(void *pool)
{
	return dbpool_up(pool);
}

bool pgrig_pool_free(void *pool)
{
	return dbpool_free_slot(pool);
}

void pgrig_submit(struct dbpool *pool, const struct sql_statement *statement, const struct slice *values,
		  struct answer *answer)
{
	struct db_request request = {
		.statement = statement, .values = values, .on_answer = pgrig_keep, .context = answer};

	*answer = (struct answer){0};
	ck_assert_msg(pgrig_run_until(pgrig_pool_free, pool, 15), "no connection: %s", dbpool_reason(pool));
	ck_assert(dbpool_submit(pool, &request));
	ck_assert_int_eq(answer->count, 0);
}

struct answer pgrig_ask(struct dbpool *pool, const char *text)
{
	struct sql_statement statement = {.text = text};
	struct answer answer;

	pgrig_submit(pool, &statement, NULL, &answer);
	ck_assert(pgrig_run_until(pgrig_answered, &answer, 15));
	db_result_free(answer.result);
	answer.result = NULL;
	return answer;
}
