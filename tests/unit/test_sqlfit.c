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
	{{"available_at", "timestamp with time zone", true, true, false}, SQL_CLAIM, "'-infinity'", true},
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
	const char *const(*rows)[11] = result;

	return (struct slice){rows[row][column], strlen(rows[row][column])};
}

START_TEST(test_facts_are_read)
{
	static const char *const rows[2][11] = {
		{"s", "t", "p", "id", "bigint", "f", "t", "f", "t", "f", "t"},
		{"s", "t", "p", "payload", "bytea", "t", "f", "t", "t", "f", "t"},
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
	ck_assert_str_eq(facts.columns[1].type, "bytea");
	ck_assert(!facts.columns[0].bytea && facts.columns[0].not_null && !facts.columns[0].microseconds);
	ck_assert(facts.columns[1].bytea && !facts.columns[1].not_null && facts.columns[1].microseconds);
	arena_free(arena);
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
	suite_add_tcase(suite, tcase);
	return suite;
}
