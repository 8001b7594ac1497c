/* The plans of core/sql's statements: what they do not return must cost nothing, whatever the statistics say. */
#include "../unit/unit.h"
#include "sqlbench.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Runs the statement under EXPLAIN; it does what it does. */
static char *explain(struct sqlbench *bench, enum sql_kind kind, const struct server_values *outcomes)
{
	struct buf text = {0}, plan = {0};
	PGresult *result;
	int row;

	buf_print(&text, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) %s", sql_statement(bench->sql, kind)->text);
	result = sqlbench_execute(bench, kind, buf_text(&text), outcomes);
	ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
	for (row = 0; row < PQntuples(result); row++)
		buf_print(&plan, "%.*s\n", PQgetlength(result, row, 0), PQgetvalue(result, row, 0));
	PQclear(result);
	buf_free(&text);
	return buf_take(&plan);
}

/* Pages the statement touched: the first line with buffers is that of the whole. */
static long pages(const char *plan)
{
	const char *at = strstr(plan, "Buffers: shared");
	const char *hit = at == NULL ? NULL : strstr(at, "hit="), *read = at == NULL ? NULL : strstr(at, "read=");
	const char *end = at == NULL ? NULL : strchr(at, '\n');
	long sum = 0;

	if (hit != NULL && hit < end)
		sum += strtol(hit + 4, NULL, 10);
	if (read != NULL && read < end)
		sum += strtol(read + 5, NULL, 10);
	return sum;
}

static void check_plan(struct sqlbench *bench, enum sql_kind kind, const struct server_values *outcomes,
		       const char *table, const char *const *indexes, long most_pages)
{
	char *plan = explain(bench, kind, outcomes), seq[100];
	bool good;

	snprintf(seq, sizeof(seq), "Seq Scan on %s", table);
	good = strstr(plan, seq) == NULL && pages(plan) < most_pages;
	for (; *indexes != NULL; indexes++)
		good = good && strstr(plan, *indexes) != NULL;
	if (!good)
		printf("%s\n", plan); /* too long for Check's message */
	ck_assert_msg(good, "kind %d of %s: %ld pages; see its plan above", kind, table, pages(plan));
	mem_free(plan);
}

/* Settles what a claim brings, a page or two of the table and of each index a row. */
static void check_settle(struct sqlbench *bench, enum row_state state, const char *table)
{
	char id[64];
	const char *by_id[] = {id, NULL};
	const struct sqlbench_outcome outcome = {state, 0, 0, NULL};
	const char *const *columns = bench->source.columns;
	struct server_values values = {0};
	struct settle *settle;
	PGresult *claim;

	/* Nothing holds rows without a key back. */
	RUN(bench,
	    "UPDATE %s SET %s = NULL, %s = '-infinity' WHERE id IN (SELECT id FROM %s WHERE status = 'PENDING' ORDER BY id LIMIT %d)",
	    table, columns[COLUMN_KEY], columns[COLUMN_AVAILABLE_AT], table, bench->limit);
	claim = sqlbench_ask(bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), bench->limit);
	settle = sqlbench_outcomes(bench, claim, outcome, &values);
	snprintf(id, sizeof(id), "%s_pkey", table);
	check_plan(bench, state == ROW_SENT ? SQL_SETTLE_SENT : SQL_SETTLE, &values, table, by_id, 3000);
	settle_free(settle);
	PQclear(claim);
}

static struct slice put_ids(struct sqlbench *bench, struct pgarray *ids, const char *table)
{
	PGresult *result;
	char sql[200];

	snprintf(sql, sizeof(sql), "SELECT id FROM %s WHERE %s = 'f' ORDER BY id LIMIT 10", table,
		 bench->source.columns[COLUMN_KEY]);
	result = PQexec(bench->conn, sql);
	ck_assert_int_eq(PQntuples(result), 10);
	pgarray_begin(ids, PGOID_TEXT);
	for (int row = 0; row < PQntuples(result); row++)
		pgarray_add_bytes(ids, server_cell(result, row, 0));
	PQclear(result);
	return pgarray_end(ids);
}

static struct slice put_one(struct pgarray *array, uint32_t oid, struct slice value)
{
	pgarray_begin(array, oid);
	pgarray_add_bytes(array, value);
	return pgarray_end(array);
}

/* Ten failed rows of a key, ten parked behind them, and 2 000 that were skipped. What has failed may be read together with all
 * that waits, for the same index knows both; everything else is looked up. */
static void check_commands(struct sqlbench *bench, const char *table)
{
	char id[64], key_index[64], named[4];
	const char *by_id[] = {id, NULL}, *by_key[] = {key_index, NULL}, *any[] = {NULL};
	const char *const *columns = bench->source.columns;
	struct server_values values = {0};
	struct pgarray ids = {0}, keys = {0}, untils = {0};

	snprintf(id, sizeof(id), "%s_pkey", table);
	snprintf(key_index, sizeof(key_index), "%s_key", table);
	RUN(bench,
	    "INSERT INTO %s (%s, status, %s, %s) SELECT 'f', CASE WHEN n < 11 THEN 'FAILED' ELSE 'PENDING' END, 5, '9999-12-31Z' "
	    "FROM generate_series(1, 20) n",
	    table, columns[COLUMN_KEY], columns[COLUMN_ATTEMPTS], columns[COLUMN_AVAILABLE_AT]);
	RUN(bench,
	    "UPDATE %s SET status = 'FAILED', last_error = 'skipped: old' WHERE id BETWEEN 1000 AND 3000 AND status = 'SENT'",
	    table);
	values.values[SQL_P_KEY] = slice_of("f");
	values.values[SQL_P_IDS] = put_ids(bench, &ids, table);
	values.values[SQL_P_NAMED] = pg_put_int4(named, 0);
	values.values[SQL_P_REASON] = slice_of("test");
	values.values[SQL_P_KEYS] = put_one(&keys, PGOID_TEXT, slice_of("f"));
	values.values[SQL_P_UNTILS] = put_one(&untils, PGOID_TIMESTAMPTZ, SLICE_NULL);
	check_plan(bench, SQL_PICK_FAILED, &values, table, any, 60000);
	check_plan(bench, SQL_PICK_KEY, &values, table, by_key, 200);
	check_plan(bench, SQL_PICK_RETRY, &values, table, by_id, 200);
	check_plan(bench, SQL_PICK_SKIP, &values, table, by_id, 200);
	check_plan(bench, SQL_RETRY, &values, table, by_id, 1000);
	check_plan(bench, SQL_UNPARK, &values, table, by_key, 1000);
	RUN(bench, "UPDATE %s SET status = 'FAILED' WHERE %s = 'f'", table, columns[COLUMN_KEY]);
	check_plan(bench, SQL_SKIP, &values, table, by_id, 1000);
	RUN(bench, "DELETE FROM %s WHERE %s = 'f'", table, columns[COLUMN_KEY]);
	pgarray_free(&ids);
	pgarray_free(&keys);
	pgarray_free(&untils);
}

/* 200 000 settled rows (the long form has a million) and 50 000 that wait: the claim must not pay for them, neither with statistics of the empty table nor
 * with those of the settled rows alone, by which all indexes of open rows look alike, nor with true ones. */
static void check_plans(struct sqlbench *bench, const char *table)
{
	char due[64], key[64];
	const char *both[] = {due, key, NULL}, *first[] = {due, NULL}, *none[] = {NULL};
	static const char position[8] = {0};
	int i;

	snprintf(due, sizeof(due), "%s_due", table);
	snprintf(key, sizeof(key), "%s_key", table);
	bench->far_due = (struct slice){position, sizeof(position)};
	bench->far_id = slice_of("1");
	for (i = 0; i < 20; i++)
		check_plan(bench, SQL_CLAIM, NULL, table, both, 6000);
	check_settle(bench, ROW_SENT, table);
	check_settle(bench, ROW_PENDING, table);
	check_plan(bench, SQL_CLAIM_FAR, NULL, table, both, 6000);
	check_plan(bench, SQL_SUSPECT, NULL, table, both, 1000);
	check_plan(bench, SQL_EXPIRE, NULL, table, first, 1000);
	check_plan(bench, SQL_SWEEP, NULL, table, first, 1000);
	check_plan(bench, SQL_COUNT, NULL, table, none, 60000);
	check_commands(bench, table);
}

static int settled_rows(void)
{
	return getenv("OUTBOXD_LONG") != NULL ? 1000000 : 200000;
}

START_TEST(test_F021_F022_plans)
{
	struct sqlbench bench = sqlbench_standard();
	int keys = _i % 2 == 0 ? 100 : 1;

	RUN(&bench, "ALTER TABLE event_outbox SET (autovacuum_enabled = off), ALTER event_type SET DEFAULT 't'");
	RUN(&bench, "ANALYZE event_outbox");
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status, settled_at) SELECT 't', 'k' || n %% %d, 'SENT', now() FROM generate_series(1, %d) n",
	    keys, settled_rows());
	if (_i > 1)
		RUN(&bench, "VACUUM ANALYZE event_outbox");
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, available_at) SELECT 't', 'w' || n %% 100, now() + interval '1 h' FROM generate_series(1, 50000) n");
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', 'k' || n %% %d FROM generate_series(1, 3000) n",
	    keys);
	RUN(&bench,
	    "INSERT INTO event_outbox (event_type, aggregate_id, status, lease_until, attempts) SELECT 't', 'e' || n, 'SENDING', now(), n %% 3 FROM generate_series(1, 30) n");
	check_plans(&bench, "event_outbox");
	RUN(&bench, "ANALYZE event_outbox");
	check_plans(&bench, "event_outbox");
}
END_TEST

START_TEST(test_F022_plans_without_settled_at)
{
	struct sqlbench bench = sqlbench_open(sqlbench_message_source());
	int keys = _i % 2 == 0 ? 100 : 1;

	RUN(&bench, "ALTER TABLE agent_message SET (autovacuum_enabled = off)");
	RUN(&bench, "ANALYZE agent_message");
	RUN(&bench,
	    "INSERT INTO agent_message (task_id, status) SELECT 'k' || n %% %d, 'SENT' FROM generate_series(1, %d) n",
	    keys, settled_rows());
	if (_i > 1)
		RUN(&bench, "VACUUM ANALYZE agent_message");
	RUN(&bench,
	    "INSERT INTO agent_message (task_id, next_retry_time) SELECT 'w' || n %% 100, now() + interval '1 h' FROM generate_series(1, 50000) n");
	RUN(&bench, "INSERT INTO agent_message (task_id) SELECT 'k' || n %% %d FROM generate_series(1, 3000) n",
	    keys);
	RUN(&bench,
	    "INSERT INTO agent_message (task_id, status, next_retry_time, attempts) SELECT 'e' || n, 'SENDING', now(), n %% 3 FROM generate_series(1, 30) n");
	check_plans(&bench, "agent_message");
	RUN(&bench, "ANALYZE agent_message");
	check_plans(&bench, "agent_message");
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql_plans");
	TCase *tcase = tcase_create("sql_plans");

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_F021_F022_plans, 0, 4);
	tcase_add_loop_test(tcase, test_F022_plans_without_settled_at, 0, 4);
	suite_add_tcase(suite, tcase);
	return suite;
}
