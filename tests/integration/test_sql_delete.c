/* on_delivered: delete on a real server: a delivered row is deleted by whoever still holds it, and nothing else is. */
#include "../unit/unit.h"
#include "sqlbench.h"

#include <stdlib.h>
#include <string.h>

static const struct sqlbench_outcome sent = {ROW_SENT, 0, 0, NULL};

static struct config_source deleting(const char *table)
{
	struct config_source source = server_source(table);

	source.on_delivered = ON_DELIVERED_DELETE;
	return source;
}

static struct sqlbench standard(void)
{
	struct config_source source = deleting("event_outbox");

	sqlbench_make_table(&source);
	return sqlbench_open(source);
}

static const char columns[] =
	"id bigint, aggregate_id text, payload text, status text DEFAULT 'PENDING', attempts int DEFAULT 0, "
	"available_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, lease_owner text, last_error text, "
	"settled_at timestamptz";

static struct sqlbench partitioned(void)
{
	struct buf sql = {0};

	buf_print(
		&sql,
		"DROP TABLE IF EXISTS parts; CREATE TABLE parts (%s, PRIMARY KEY (id, aggregate_id)) PARTITION BY "
		"HASH (aggregate_id); CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
		"CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
		columns);
	sqlbench_run(buf_text(&sql));
	buf_free(&sql);
	return sqlbench_open(deleting("parts"));
}

static struct sqlbench view(void)
{
	struct buf sql = {0};

	buf_print(&sql,
		  "DROP TABLE IF EXISTS base CASCADE; CREATE TABLE base (%s, PRIMARY KEY (id)); "
		  "CREATE VIEW window_on AS SELECT * FROM base",
		  columns);
	sqlbench_run(buf_text(&sql));
	buf_free(&sql);
	return sqlbench_open(deleting("window_on"));
}

/* One time column, no owner, no settled_at. */
static struct sqlbench message(void)
{
	struct config_source source = sqlbench_message_source();

	source.on_delivered = ON_DELIVERED_DELETE;
	return sqlbench_open(source);
}

/* The id as text: the rows of a partition are not numbered. */
static const struct layout {
	struct sqlbench (*make)(void);
	const char *insert;
} layouts[] = {
	{standard,
	 "INSERT INTO event_outbox (event_type, aggregate_id) SELECT 't', 'k' || n % 3 FROM generate_series(1, 9) n"},
	{partitioned, "INSERT INTO parts (id, aggregate_id) SELECT n, 'k' || n % 3 FROM generate_series(1, 9) n"},
	{view, "INSERT INTO window_on (id, aggregate_id) SELECT n, 'k' || n % 3 FROM generate_series(1, 9) n"},
	{message, "INSERT INTO agent_message (task_id) SELECT 'k' || n % 3 FROM generate_series(1, 9) n"},
};

static int64_t rows(struct sqlbench *bench)
{
	return NUMBER(bench, "SELECT count(*) FROM %s", bench->source.table);
}

/* Whatever the layout: those of the claim go, the others stay. */
START_TEST(test_delivered_rows_are_deleted)
{
	struct sqlbench bench = layouts[_i].make();
	PGresult *claim;

	sqlbench_run(layouts[_i].insert);
	bench.limit = 4;
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(claim), 4);
	ck_assert_int_eq(sqlbench_settle(&bench, claim, sent), 4);
	ck_assert_int_eq(rows(&bench), 5);
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM %s WHERE status <> 'PENDING'", bench.source.table),
			 0);
	ck_assert_int_eq(sqlbench_settle(&bench, claim, sent), 0); /* its answer was lost, and it is sent again */
	ck_assert_int_eq(rows(&bench), 5);
	PQclear(claim);
}
END_TEST

/* The lease has ended, and the row is somebody else's, or whoever's comes next. */
START_TEST(test_F016_a_stale_owner_deletes_nothing)
{
	struct sqlbench bench = layouts[_i].make();
	const char *lease = bench.source.columns[COLUMN_LEASE_UNTIL];
	PGresult *stale, *fresh;

	sqlbench_run(layouts[_i].insert);
	stale = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(stale), 9);
	RUN(&bench, "UPDATE %s SET %s = now() - interval '1 s'", bench.source.table, lease);
	ck_assert_int_eq(sqlbench_settle(&bench, stale, sent), 0);
	fresh = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(fresh), 9);
	ck_assert_int_eq(sqlbench_settle(&bench, stale, sent), 0);
	ck_assert_int_eq(rows(&bench), 9);
	ck_assert_int_eq(sqlbench_settle(&bench, fresh, sent), 9);
	ck_assert_int_eq(rows(&bench), 0);
	PQclear(stale);
	PQclear(fresh);
}
END_TEST

/* The same lease to the microsecond, named by somebody else; and rows that people have given another state. */
START_TEST(test_only_what_is_in_flight_and_one_s_own_is_deleted)
{
	struct sqlbench bench = standard();
	PGresult *claim;

	sqlbench_run(layouts[0].insert);
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	bench.owner = "another";
	ck_assert_int_eq(sqlbench_settle(&bench, claim, sent), 0);
	bench.owner = "me";
	RUN(&bench, "UPDATE event_outbox SET status = 'PENDING' WHERE id = 1");
	RUN(&bench, "UPDATE event_outbox SET status = 'FAILED' WHERE id = 2");
	RUN(&bench, "DELETE FROM event_outbox WHERE id = 3");
	ck_assert_int_eq(sqlbench_settle(&bench, claim, sent), 6);
	ck_assert_int_eq(rows(&bench), 2);
	PQclear(claim);
}
END_TEST

/* What was not delivered is written as ever; and a failed row, which stays, blocks its key. */
START_TEST(test_F034_the_others_stay)
{
	static const struct sqlbench_outcome others[] = {
		{ROW_PENDING, 60000000, 0, "again"}, {ROW_PENDING, 0, 1, NULL}, {ROW_FAILED, 0, 0, "no"}};
	struct sqlbench bench = standard();
	PGresult *claim;
	int i;

	bench.limit = 1;
	for (i = 0; i < 3; i++) {
		RUN(&bench, "INSERT INTO event_outbox (event_type, aggregate_id) VALUES ('t', 'k%d'), ('t', 'k%d')",
		    i, i);
		claim = sqlbench_ask(&bench, SQL_CLAIM);
		ck_assert_int_eq(sqlbench_settle(&bench, claim, others[i]), 1);
		RUN(&bench, "UPDATE event_outbox SET available_at = 'infinity' WHERE status = 'PENDING'");
		PQclear(claim);
	}
	ck_assert_int_eq(rows(&bench), 6);
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM event_outbox WHERE (status, attempts, last_error) IN "
					"(('PENDING', 1, 'again'), ('FAILED', 1, 'no'))"),
			 2);
	RUN(&bench, "UPDATE event_outbox SET available_at = now() WHERE aggregate_id = 'k2'");
	ck_assert_int_eq(sqlbench_claim(&bench), 0);
	RUN(&bench, "DELETE FROM event_outbox WHERE status = 'FAILED'");
	RUN(&bench, "UPDATE event_outbox SET available_at = now() WHERE aggregate_id = 'k2'");
	ck_assert_int_eq(sqlbench_claim(&bench), 1);
}
END_TEST

/* One statement for the rows of several claims: each claim's lease and owner count for its own rows. */
START_TEST(test_claims_of_one_settle_do_not_lend_their_leases)
{
	struct sqlbench bench = standard();
	struct settle *settle = settle_new();
	struct server_values values = {0};
	PGresult *first, *second, *settled;

	RUN(&bench, "INSERT INTO event_outbox (event_type) SELECT 't' FROM generate_series(1, 9)");
	bench.limit = 4;
	first = sqlbench_ask(&bench, SQL_CLAIM);
	bench.owner = "renamed";
	second = sqlbench_ask(&bench, SQL_CLAIM);
	ck_assert_int_eq(sqlbench_claimed(first), 4);
	ck_assert_int_eq(sqlbench_claimed(second), 4);
	/* A row of the first claim now has the second one's lease and owner. */
	RUN(&bench,
	    "UPDATE event_outbox SET (lease_until, lease_owner) = (SELECT max(lease_until), 'renamed' FROM event_outbox) WHERE id = 2");
	settle_begin(settle);
	settle_begin_claim(settle, server_cell(first, 1, SQL_C_LEASE), "me");
	for (int row = 1; row <= 4; row++)
		settle_add_sent(settle, server_cell(first, row, SQL_C_ID));
	settle_begin_claim(settle, server_cell(second, 1, SQL_C_LEASE), "renamed");
	for (int row = 1; row <= 4; row++)
		settle_add_sent(settle, server_cell(second, row, SQL_C_ID));
	settle_values(settle, values.values);
	settled = sqlbench_execute(&bench, SQL_SETTLE_SENT, NULL, &values);
	ck_assert_int_eq(PQntuples(settled), 7);
	ck_assert_int_eq(NUMBER(&bench, "SELECT sum(id) FROM event_outbox"), 2 + 9);
	settle_free(settle);
	PQclear(settled);
	PQclear(first);
	PQclear(second);
}
END_TEST

/* Another table's rows still point at one of them: nothing of the settle is done, and the code says that it is the data. */
START_TEST(test_a_referenced_row_refuses_the_settle)
{
	struct sqlbench bench = standard();
	struct server_values values = {0};
	struct settle *settle;
	PGresult *claim, *refused;

	sqlbench_run(layouts[0].insert);
	RUN(&bench,
	    "DROP TABLE IF EXISTS pointer; CREATE TABLE pointer (event bigint REFERENCES event_outbox (id)); INSERT INTO pointer VALUES (5)");
	claim = sqlbench_ask(&bench, SQL_CLAIM);
	settle = sqlbench_outcomes(&bench, claim, sent, &values);
	refused = sqlbench_execute(&bench, SQL_SETTLE_SENT, NULL, &values);
	ck_assert_str_eq(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "23503");
	ck_assert_int_eq(NUMBER(&bench, "SELECT count(*) FROM event_outbox WHERE status = 'SENDING'"), 9);
	RUN(&bench, "DROP TABLE pointer");
	ck_assert_int_eq(sqlbench_settle(&bench, claim, sent), 9);
	settle_free(settle);
	PQclear(refused);
	PQclear(claim);
}
END_TEST

/* The catalog tells beforehand what the settle would meet. */
START_TEST(test_F009_the_privilege_is_asked_for)
{
	struct sqlbench bench = standard(), limited;
	struct server_values values = {0};
	PGresult *claim, *refused;
	struct settle *settle;

	sqlbench_run(layouts[0].insert);
	RUN(&bench,
	    "DO 'BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ''outboxd_deletes'') THEN CREATE ROLE outboxd_deletes; END IF; END'");
	RUN(&bench, "GRANT SELECT, UPDATE ON event_outbox TO outboxd_deletes");
	limited = sqlbench_open(deleting("event_outbox"));
	ck_assert(server_inspect(limited.conn, &limited.source)->may_delete);
	RUN(&limited, "SET ROLE outboxd_deletes");
	ck_assert(!server_inspect(limited.conn, &limited.source)->may_delete);
	claim = sqlbench_ask(&limited, SQL_CLAIM);
	settle = sqlbench_outcomes(&limited, claim, sent, &values);
	refused = sqlbench_execute(&limited, SQL_SETTLE_SENT, NULL, &values);
	ck_assert_str_eq(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "42501");
	RUN(&bench, "GRANT DELETE ON event_outbox TO outboxd_deletes");
	ck_assert(server_inspect(limited.conn, &limited.source)->may_delete);
	ck_assert_int_eq(sqlbench_settle(&limited, claim, sent), 9);
	RUN(&bench, "DROP OWNED BY outboxd_deletes; DROP ROLE outboxd_deletes");
	settle_free(settle);
	PQclear(refused);
	PQclear(claim);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql_delete");
	TCase *tcase = tcase_create("sql_delete");
	int n = (int)(sizeof(layouts) / sizeof(layouts[0]));

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_delivered_rows_are_deleted, 0, n);
	tcase_add_loop_test(tcase, test_F016_a_stale_owner_deletes_nothing, 0, n);
	tcase_add_test(tcase, test_only_what_is_in_flight_and_one_s_own_is_deleted);
	tcase_add_test(tcase, test_F034_the_others_stay);
	tcase_add_test(tcase, test_claims_of_one_settle_do_not_lend_their_leases);
	tcase_add_test(tcase, test_a_referenced_row_refuses_the_settle);
	tcase_add_test(tcase, test_F009_the_privilege_is_asked_for);
	suite_add_tcase(suite, tcase);
	return suite;
}
