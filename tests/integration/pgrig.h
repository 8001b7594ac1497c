/* pgrig: what the tests of io/db and io/listener share: a loop, an administrator's session on the throwaway server that
 * OUTBOXD_TEST_DSN names (a superuser), the log in a file, and answers kept for looking at. */
#ifndef OUTBOXD_TESTS_PGRIG_H
#define OUTBOXD_TESTS_PGRIG_H

#include "io/db.h"

#include <check.h>
#include <ev.h>
#include <libpq-fe.h>

extern struct ev_loop *loop;
extern PGconn *admin;

/* Check's fixtures: every test runs in a process of its own. */
void pgrig_setup(void);
void pgrig_teardown(void);

/* As the administrator; ends the test when the server refuses. The value is the first cell, until the next call. */
void pgrig_sql(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *pgrig_value(const char *format, ...) __attribute__((format(printf, 1, 2)));
long pgrig_number(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The server's DSN, with more in front of its end; it lives until the end of the test. */
const char *pgrig_dsn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Two connections, 2 s to connect and for a statement, 0.3 s for a lock. */
struct config_postgres pgrig_config(const char *dsn);

/* Turns the loop for some time, or until done says so; false: it did not within the time. */
void pgrig_run(double seconds);
bool pgrig_run_until(bool (*done)(void *), void *context, double seconds);

/* How often text stands in the log so far. */
int pgrig_logged(const char *text);

/* Descriptors of this process. */
int pgrig_open_files(void);

/* A pool with pgrig_config. */
struct dbpool *pgrig_pool(const char *dsn);

/* Waits until so many connections were made since the start of the test. */
void pgrig_wait_connected(int times);

struct answer {
	int count; /* must end as 1 */
	int order; /* among all answers of the test */
	enum verdict verdict;
	enum sql_fault fault;
	char sqlstate[6];
	char message[256];
	struct db_result *result;
	int64_t duration_us;
};

void pgrig_keep(void *answer, struct db_answer *from); /* a db_answer_fn */
bool pgrig_answered(void *answer);		       /* for pgrig_run_until */
bool pgrig_pool_up(void *pool);
bool pgrig_pool_free(void *pool);

/* Submits, as soon as a connection is free. */
void pgrig_submit(struct dbpool *pool, const struct sql_statement *statement, const struct slice *values,
		  struct answer *answer);

/* Submits text without parameters as soon as a connection is free, and waits for the answer; the result is freed. */
struct answer pgrig_ask(struct dbpool *pool, const char *text);

#endif
