/* Which tables fit: one column of a table that fits is changed at a time. */
#include "../standard.h"
#include "unit.h"

#include "base/mem.h"
#include "core/sql.h"

#include <string.h>

static struct config_source source(void)
{
	struct config_source source = {STANDARD_SOURCE, .table = "event_outbox"};

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_TYPE] = source.columns[COLUMN_HEADERS] = NULL;
	source.columns[COLUMN_LEASE_OWNER] = NULL;
	source.columns[COLUMN_TIMESTAMP] = "at";
	source.columns[COLUMN_TXID] = "xid";
	return source;
}

static struct sql_column_facts columns[] = {
	{"id", "bigint", .not_null = true},
	{"aggregate_id", "text", .not_null = false},
	{"payload", "jsonb", .not_null = false},
	{"at", "timestamp with time zone", .microseconds = true},
	{"status", "text", .not_null = true},
	{"attempts", "integer", .not_null = true},
	{"available_at", "timestamp with time zone", .microseconds = true},
	{"lease_until", "timestamp with time zone", .microseconds = true},
	{"last_error", "text", .not_null = false},
	{"created_at", "timestamp with time zone", .microseconds = true},
	{"settled_at", "timestamp with time zone", .microseconds = true},
	{"xid", "xid8", .not_null = false},
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* The table with that column like this. */
static struct sql *fit(const struct config_source *config, struct sql_column_facts changed, char relkind,
		       struct err *err)
{
	struct sql_column_facts these[N_COLUMNS];
	struct sql_table_facts table = {.schema = "public",
					.name = "event_outbox",
					.relkind = relkind,
					.columns = these,
					.n_columns = N_COLUMNS,
					.has_key_index = true};
	size_t i;

	memcpy(these, columns, sizeof(columns));
	for (i = 0; i < N_COLUMNS; i++)
		if (strcmp(these[i].name, changed.name) == 0)
			these[i] = changed;
	return sql_new(config, &table, NULL, err);
}

static const struct {
	struct sql_column_facts column;
	char relkind;
	const char *refused; /* NULL: it fits */
} tables[] = {
	{{"id", "bigint", .not_null = true}, 'r', NULL},
	{{"id", "bigint", .not_null = true}, 'p', NULL},
	{{"id", "bigint", .not_null = true}, 'f', NULL},
	{{"id", "bigint", .not_null = true}, 'm', "no table or view"},
	{{"id", "bigint", .not_null = false}, 'r', "columns.id: \"id\" may be NULL"},
	{{"id", "bigint", .not_null = false}, 'v', NULL},
	{{"available_at", "text", .microseconds = true}, 'r', "\"available_at\" is text; it must be timestamp"},
	{{"available_at", "date", .microseconds = true}, 'r', "it must be timestamp"},
	{{"available_at", "timestamp without time zone", .microseconds = false}, 'r', NULL},
	{{"lease_until", "timestamp(0) with time zone", .microseconds = false}, 'r', "a lease needs microseconds"},
	{{"status", "character varying(4)", .not_null = true}, 'r', "\"PENDING\" does not fit into \"status\""},
	{{"status", "character varying(6)", .not_null = true}, 'r', "\"PENDING\" does not fit"},
	{{"status", "character varying(7)", .not_null = true}, 'r', NULL},
	{{"status", "character varying", .not_null = true}, 'r', NULL},
	{{"status", "numeric(1)", .not_null = true}, 'r', NULL},
	{{"status", "smallint", .not_null = true},
	 'r',
	 "\"PENDING\" does not fit into \"status\", which is smallint"},
	{{"xid", "bigint", .not_null = false}, 'r', "columns.txid: \"xid\" is bigint; it must be xid8"},
};

START_TEST(test_tables_that_fit_and_that_do_not)
{
	struct config_source config = source();
	struct err err = {""};
	struct sql *sql = fit(&config, tables[_i].column, tables[_i].relkind, &err);

	ck_assert_msg((sql == NULL) == (tables[_i].refused != NULL), "%s", err.text);
	if (tables[_i].refused != NULL)
		ck_assert_msg(strstr(err.text, tables[_i].refused) != NULL, "%s", err.text);
	sql_free(sql);
}
END_TEST

START_TEST(test_the_order_column_must_not_be_null)
{
	struct config_source config = source();
	struct err err = {""};

	config.columns[COLUMN_ORDER] = "created_at";
	ck_assert_ptr_null(fit(&config, columns[0], 'r', &err));
	ck_assert_msg(strstr(err.text, "columns.order: \"created_at\" may be NULL") != NULL, "%s", err.text);
}
END_TEST

/* A lease that stands in available_at needs its microseconds. */
START_TEST(test_a_lease_in_available_at)
{
	struct config_source config = source();
	struct sql_column_facts rounded = {"available_at", "timestamp(3) with time zone", .microseconds = false};
	struct err err = {""};

	config.columns[COLUMN_LEASE_UNTIL] = "available_at";
	ck_assert_ptr_null(fit(&config, rounded, 'r', &err));
	ck_assert_msg(strstr(err.text, "columns.available_at: \"available_at\" is timestamp(3)") != NULL, "%s",
		      err.text);
}
END_TEST

static const struct {
	const char *type;
	enum sql_order order;
} orders[] = {{"smallint", SQL_ORDER_NUMBER}, {"integer", SQL_ORDER_NUMBER}, {"bigint", SQL_ORDER_NUMBER},
	      {"uuid", SQL_ORDER_BYTES},      {"text", SQL_ORDER_ARRIVAL},   {"numeric", SQL_ORDER_ARRIVAL}};

START_TEST(test_how_ids_compare)
{
	struct config_source config = source();
	struct sql_column_facts id = {"id", orders[_i].type, .not_null = true};
	struct sql *sql = fit(&config, id, 'r', NULL);

	ck_assert_int_eq(sql_order(sql), orders[_i].order);
	sql_free(sql);
}
END_TEST

static const struct {
	struct sql_column_facts column;
	enum sql_kind kind;
	const char *text; /* is there */
	bool is_there;
} dialects[] = {
	{{"payload", "jsonb", .not_null = true}, SQL_CLAIM, "octet_length", false},
	{{"payload", "text", .not_null = true}, SQL_CLAIM, "octet_length", true},
	{{"payload", "character varying(90)", .not_null = true}, SQL_CLAIM, "octet_length", true},
	{{"payload", "name", .not_null = true}, SQL_CLAIM, "octet_length", true},
	{{"payload", "citext", .not_null = true}, SQL_CLAIM, "octet_length", true},
	{{"payload", "bytea", .bytea = true}, SQL_CLAIM, "octet_length", true},
	{{"status", "citext", .not_null = true}, SQL_SETTLE, "x.status::", false},
	{{"status", "\"State\"", .not_null = true}, SQL_SETTLE, "x.status::\"State\"", true},
	{{"attempts", "smallint", .not_null = true}, SQL_CLAIM, "32766", true},
	{{"attempts", "integer", .not_null = true}, SQL_CLAIM, "2147483646", true},
	{{"available_at", "timestamp with time zone", .microseconds = true}, SQL_CLAIM, "'-infinity'", true},
};

START_TEST(test_what_depends_on_types)
{
	struct config_source config = source();
	struct err err = {""};
	struct sql *sql = fit(&config, dialects[_i].column, 'r', &err);

	ck_assert_msg(sql != NULL, "%s", err.text);
	ck_assert_msg((strstr(sql_statement(sql, dialects[_i].kind)->text, dialects[_i].text) != NULL) ==
			      dialects[_i].is_there,
		      "%s: %s\n%s", dialects[_i].column.type, dialects[_i].text,
		      sql_statement(sql, dialects[_i].kind)->text);
	sql_free(sql);
}
END_TEST

/* As sql_inspect returns it: a row a column. */
static struct slice cell(const void *result, int row, int column)
{
	const char *const(*rows)[19] = result;

	return slice_of(rows[row][column]);
}

START_TEST(test_facts_are_read)
{
	static const char *const rows[2][19] = {
		{"s", "t", "p", "id", "bigint", "f", "t", "f", "t", "f", "t", "t", "f", NULL, "\"R\"", "t", "t",
		 "f", "f"},
		{"s", "t", "p", "state", "mood", "t", "f", "t", "t", "f", "t", "f", "t", "[\"A\"]", "\"R\"", "t",
		 "t", "f", "f"},
	};
	struct arena *arena = arena_new();
	struct sql_table_facts facts;

	sql_read_facts(&facts, cell, rows, 2, arena);
	ck_assert_str_eq(facts.schema, "s");
	ck_assert_str_eq(facts.name, "t");
	ck_assert_int_eq(facts.relkind, 'p');
	ck_assert(facts.has_key_index && !facts.may_delete && facts.tells_compression);
	ck_assert_uint_eq(facts.n_columns, 2);
	ck_assert_str_eq(facts.columns[0].name, "id");
	ck_assert_str_eq(facts.columns[1].type, "mood");
	ck_assert(!facts.columns[0].bytea && facts.columns[0].not_null && !facts.columns[0].microseconds);
	ck_assert(facts.columns[1].bytea && !facts.columns[1].not_null && facts.columns[1].microseconds);
	ck_assert(facts.columns[0].may_select && !facts.columns[0].may_update && facts.columns[0].labels == NULL);
	ck_assert(!facts.columns[1].may_select && facts.columns[1].may_update);
	ck_assert_str_eq(facts.columns[1].labels, "[\"A\"]");
	ck_assert_str_eq(facts.role, "\"R\"");
	ck_assert(facts.may_select && facts.policed && !facts.hidden && !facts.unchangeable);
	arena_free(arena);
}
END_TEST

static const struct {
	const char *labels; /* of the enum */
	bool unchangeable, hidden;
	const char *refused;
} catalogs[] = {
	{"[\"FAILED\", \"PENDING\", \"SENDING\", \"SENT\"]", false, false, NULL},
	{"[\"PENDING\", \"SENDING\", \"SENT\"]", false, false,
	 "\"FAILED\" is no label of \"status\", which is the enum mood: ALTER TYPE mood ADD VALUE 'FAILED'"},
	{NULL, true, false, "event_outbox is no table or view that rows can be changed in"},
	{NULL, false, true,
	 "hides the rows of event_outbox from role relay: CREATE POLICY outboxd ON \"event_outbox\" TO relay USING (true)"},
};

START_TEST(test_F004_F007_F008_what_the_catalog_tells)
{
	struct config_source config = source();
	struct sql_column_facts these[N_COLUMNS];
	struct sql_table_facts table = {.schema = "public",
					.name = "event_outbox",
					.relkind = catalogs[_i].unchangeable ? 'v' : 'r',
					.columns = these,
					.n_columns = N_COLUMNS,
					.role = "relay",
					.unchangeable = catalogs[_i].unchangeable,
					.hidden = catalogs[_i].hidden};
	struct err err = {""};
	struct sql *sql;
	size_t i;

	memcpy(these, columns, sizeof(columns));
	for (i = 0; i < N_COLUMNS; i++)
		if (strcmp(these[i].name, "status") == 0)
			these[i] = (struct sql_column_facts){"status", "mood", .not_null = true,
							     .labels = catalogs[_i].labels};
	sql = sql_new(&config, &table, NULL, &err);
	ck_assert_msg((sql == NULL) == (catalogs[_i].refused != NULL), "%s", err.text);
	if (catalogs[_i].refused != NULL)
		ck_assert_msg(strstr(err.text, catalogs[_i].refused) != NULL, "%s", err.text);
	sql_free(sql);
}
END_TEST

/* A privilege that is taken away, and what the statement that grants it says. */
static const struct {
	const char *select, *update; /* a column without it; NULL: none */
	bool all, delete, deleting;
	const char *grant; /* NULL: nothing is missing */
} grants[] = {
	{NULL, NULL, true, false, false, NULL},
	{"payload", NULL, true, false, false, "GRANT SELECT (\"payload\") ON"},
	{"at", NULL, true, false, false, "GRANT SELECT (\"at\") ON"},
	{NULL, "status", true, false, false, "GRANT UPDATE (\"status\") ON"},
	{NULL, "payload", true, false, false, NULL},
	{"id", "lease_until", true, false, false, "GRANT SELECT (\"id\"), UPDATE (\"lease_until\") ON"},
	{"id", NULL, false, true, true, "GRANT SELECT ON"},
	{NULL, NULL, true, false, true, "GRANT DELETE ON \"event_outbox\" TO relay"},
};

START_TEST(test_F009_each_missing_privilege_is_named)
{
	static const char *const named[] = {"at"};
	const struct sql_templates templates = {.columns = named, .n_columns = 1};
	struct config_source config = source();
	struct sql_column_facts these[N_COLUMNS];
	struct sql_table_facts table = {.columns = these,
					.n_columns = N_COLUMNS,
					.role = "relay",
					.may_select = grants[_i].all,
					.may_delete = grants[_i].delete};
	struct err err = {""};
	size_t i;

	config.columns[COLUMN_TIMESTAMP] = NULL;
	config.on_delivered = grants[_i].deleting ? ON_DELIVERED_DELETE : ON_DELIVERED_MARK;
	memcpy(these, columns, sizeof(columns));
	for (i = 0; i < N_COLUMNS; i++) {
		these[i].may_select = grants[_i].select == NULL || strcmp(these[i].name, grants[_i].select) != 0;
		these[i].may_update = grants[_i].update == NULL || strcmp(these[i].name, grants[_i].update) != 0;
	}
	ck_assert(sql_check_grants(&config, &table, &templates, &err) == (grants[_i].grant == NULL));
	if (grants[_i].grant != NULL)
		ck_assert_msg(strstr(err.text, grants[_i].grant) != NULL, "%s", err.text);
	/* A column that nobody mentions needs none. */
	config.columns[COLUMN_PAYLOAD] = "other";
	ck_assert(sql_check_grants(&config, &table, NULL, &err) ==
		  (grants[_i].grant == NULL || strstr(grants[_i].grant, "payload") != NULL ||
		   strstr(grants[_i].grant, "at\")") != NULL));
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sqlfit");
	TCase *tcase = tcase_create("sqlfit");

	tcase_add_loop_test(tcase, test_tables_that_fit_and_that_do_not, 0, sizeof(tables) / sizeof(tables[0]));
	tcase_add_test(tcase, test_the_order_column_must_not_be_null);
	tcase_add_test(tcase, test_a_lease_in_available_at);
	tcase_add_loop_test(tcase, test_how_ids_compare, 0, sizeof(orders) / sizeof(orders[0]));
	tcase_add_loop_test(tcase, test_what_depends_on_types, 0, sizeof(dialects) / sizeof(dialects[0]));
	tcase_add_test(tcase, test_facts_are_read);
	tcase_add_loop_test(tcase, test_F004_F007_F008_what_the_catalog_tells, 0,
			    sizeof(catalogs) / sizeof(catalogs[0]));
	tcase_add_loop_test(tcase, test_F009_each_missing_privilege_is_named, 0,
			    sizeof(grants) / sizeof(grants[0]));
	suite_add_tcase(suite, tcase);
	return suite;
}
