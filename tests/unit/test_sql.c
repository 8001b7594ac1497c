/* sql: what is built for which mapping, without a server (tests/integration/test_sql_server.c runs it all on one). */
#include "../standard.h"
#include "unit.h"

#include "base/mem.h"
#include "core/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config_source source(void)
{
	struct config_source source = {STANDARD_SOURCE, .table = "event_outbox", .notify = "outboxd_orders"};

	source.columns[COLUMN_EVENT_ID] = source.columns[COLUMN_TYPE] = source.columns[COLUMN_HEADERS] = NULL;
	return source;
}

static struct sql *build(const struct config_source *source)
{
	struct err err = {""};
	struct sql *sql = sql_new(source, NULL, NULL, &err);

	ck_assert_msg(sql != NULL, "%s", err.text);
	return sql;
}

static bool has_text(const struct sql *sql, enum sql_kind kind, const char *text)
{
	return strstr(sql_statement(sql, kind)->text, text) != NULL;
}

static bool has_param(const struct sql *sql, enum sql_kind kind, enum sql_param param)
{
	const struct sql_statement *statement = sql_statement(sql, kind);
	int i;

	for (i = 0; i < statement->n_params; i++) {
		if (statement->params[i] == param)
			return true;
	}
	return false;
}

/* The largest $n of a text. */
static int largest_number(const char *text)
{
	int largest = 0, n;

	while ((text = strchr(text, '$')) != NULL) {
		text++;
		n = (int)strtol(text, NULL, 10);
		largest = n > largest ? n : largest;
	}
	return largest;
}

/* Every parameter of every statement is named in its text, each once in the list, and nothing is left unfilled. */
START_TEST(test_parameters)
{
	struct config_source config = source();
	struct sql *sql;
	int kind, i, j;

	config.ordering = _i & 1 ? ORDERING_NONE : ORDERING_KEY;
	config.on_failed = _i & 2 ? ON_FAILED_CONTINUE : ON_FAILED_BLOCK;
	if (_i & 4)
		config.columns[COLUMN_LEASE_OWNER] = NULL;
	if (_i & 8)
		config.columns[COLUMN_SETTLED_AT] = NULL;
	if (_i & 16)
		config.columns[COLUMN_LEASE_UNTIL] = "available_at";
	sql = build(&config);
	for (kind = 0; kind < SQL_KINDS; kind++) {
		const struct sql_statement *statement = sql_statement(sql, kind);

		ck_assert_int_eq(statement->kind, kind);
		ck_assert_int_eq(largest_number(statement->text), statement->n_params);
		ck_assert_ptr_null(strpbrk(statement->text, "{}"));
		for (i = 0; i < statement->n_params; i++) {
			for (j = 0; j < i; j++)
				ck_assert_int_ne(statement->params[i], statement->params[j]);
		}
	}
	sql_free(sql);
}
END_TEST

START_TEST(test_variants)
{
	struct config_source config = source();
	struct sql *sql = build(&config);

	ck_assert(has_text(sql, SQL_CLAIM, "IS NOT TRUE"));
	ck_assert(has_text(sql, SQL_CLAIM, "c.ctid AS r"));
	ck_assert(!has_text(sql, SQL_CLAIM, SQL_RACED_MARK));
	ck_assert(!has_param(sql, SQL_CLAIM, SQL_P_FAR_DUE));
	ck_assert(has_param(sql, SQL_CLAIM_FAR, SQL_P_FAR_DUE));
	ck_assert(has_text(sql, SQL_SETTLE, "o.\"lease_until\" = x.lease"));
	ck_assert(has_text(sql, SQL_SETTLE, "o.\"lease_owner\" = x.owner"));
	ck_assert(has_text(sql, SQL_SETTLE_SENT, "o.\"lease_until\" = x.lease"));
	ck_assert(has_text(sql, SQL_SETTLE_SENT, "o.\"lease_owner\" = x.owner"));
	ck_assert(has_text(sql, SQL_SETTLE_SENT, "\"settled_at\" = now()"));
	ck_assert(sql_has_column(sql, COLUMN_LEASE_UNTIL));
	ck_assert(!sql_has_column(sql, COLUMN_TOPIC));
	sql_free(sql);

	config.columns[COLUMN_LEASE_OWNER] = NULL;
	sql = build(&config);
	ck_assert(!has_param(sql, SQL_CLAIM, SQL_P_OWNER));
	ck_assert(!has_param(sql, SQL_SETTLE, SQL_P_OWNERS));
	ck_assert(!has_param(sql, SQL_SETTLE_SENT, SQL_P_OWNERS));
	sql_free(sql);

	config.columns[COLUMN_LEASE_UNTIL] = "available_at";
	config.columns[COLUMN_UPDATED_AT] = "changed";
	sql = build(&config);
	ck_assert(has_text(sql, SQL_SETTLE, "o.\"available_at\" = x.lease"));
	ck_assert(has_text(sql, SQL_SETTLE_SENT, "o.\"available_at\" = x.lease"));
	ck_assert(!has_text(sql, SQL_SETTLE_SENT, "\"available_at\" = now()")); /* a delivered row keeps its time */
	ck_assert(has_text(sql, SQL_SETTLE, "\"changed\" = now()"));
	ck_assert(!sql_has_column(sql, COLUMN_LEASE_UNTIL));
	sql_free(sql);

	config.ordering = ORDERING_NONE;
	sql = build(&config);
	ck_assert(!has_param(sql, SQL_CLAIM, SQL_P_SHARE));
	ck_assert(!has_param(sql, SQL_CLAIM, SQL_P_PARK_MAX));
	sql_free(sql);
}
END_TEST

/* The fence of a settle that deletes is that of one that marks. */
START_TEST(test_delete)
{
	struct config_source config = source();
	struct sql *mark = build(&config), *delete;
	const char *fence = strstr(sql_statement(mark, SQL_SETTLE_SENT)->text, "unnest(");

	config.on_delivered = ON_DELIVERED_DELETE;
	delete = build(&config);
	ck_assert(has_text(delete, SQL_SETTLE_SENT, "DELETE FROM \"event_outbox\" o\n USING unnest("));
	ck_assert(!has_text(delete, SQL_SETTLE_SENT, "SET"));
	ck_assert_str_eq(strstr(sql_statement(delete, SQL_SETTLE_SENT)->text, "unnest("), fence);
	ck_assert_str_eq(sql_statement(delete, SQL_SETTLE)->text, sql_statement(mark, SQL_SETTLE)->text);
	sql_free(mark);
	sql_free(delete);
}
END_TEST

static struct sql_column_facts columns[] = {
	{"id", "uuid", .not_null = true},
	{"seq", "bigint", .not_null = true},
	{"aggregate_id", "text", .bytea = false},
	{"payload", "bytea", .bytea = true},
	{"status", "public.\"State\"", .not_null = true},
	{"attempts", "smallint", .bytea = false},
	{"available_at", "timestamp with time zone", .microseconds = true},
	{"last_error", "character varying(20)", .bytea = false},
};

static struct sql_table_facts facts(void)
{
	return (struct sql_table_facts){.schema = "public",
					.name = "event_outbox",
					.relkind = 'r',
					.columns = columns,
					.n_columns = sizeof(columns) / sizeof(columns[0]),
					.has_key_index = true,
					.may_delete = true,
					.tells_compression = true};
}

START_TEST(test_facts)
{
	struct config_source config = source();
	struct sql_table_facts table = facts();
	struct sql *sql;

	config.columns[COLUMN_ORDER] = "seq";
	sql = sql_new(&config, &table, NULL, NULL);
	ck_assert_ptr_nonnull(sql);
	ck_assert_int_eq(sql_order(sql), SQL_ORDER_NUMBER);
	ck_assert(!sql_has_column(sql, COLUMN_SETTLED_AT));
	ck_assert(has_text(sql, SQL_SETTLE, "::text[]::uuid[]"));
	ck_assert(has_text(sql, SQL_SETTLE_SENT, "[x.first:x.last]::uuid[]"));
	ck_assert(has_text(sql, SQL_SETTLE, "x.status::public.\"State\""));
	ck_assert(has_text(sql, SQL_SETTLE, "::character varying(20)"));
	ck_assert(has_text(sql, SQL_CLAIM, "32766"));
	ck_assert(has_text(sql, SQL_CLAIM, "o.\"payload\" AS payload"));
	ck_assert(has_text(sql, SQL_CLAIM, "coalesce(c.\"available_at\", '-infinity')"));
	sql_free(sql);

	table.relkind = 'p';
	table.has_key_index = false;
	sql = sql_new(&config, &table, NULL, NULL);
	ck_assert(has_text(sql, SQL_CLAIM, SQL_RACED_MARK));
	ck_assert(!has_text(sql, SQL_CLAIM, "ctid"));
	ck_assert(!has_text(sql, SQL_CLAIM, "BETWEEN"));
	sql_free(sql);

	config.columns[COLUMN_ORDER] = "id";
	sql = sql_new(&config, &table, NULL, NULL);
	ck_assert_int_eq(sql_order(sql), SQL_ORDER_BYTES);
	sql_free(sql);
}
END_TEST

static void check_refused(const struct config_source *config, const struct sql_table_facts *table, const char *want)
{
	struct err err = {""};

	ck_assert_ptr_null(sql_new(config, table, NULL, &err));
	ck_assert_msg(strstr(err.text, want) != NULL, "%s", err.text);
}

/* What the file itself maps must be there; what only the preset maps is left out. */
START_TEST(test_missing_columns)
{
	struct config_source config = source();
	struct sql_table_facts table = facts();

	config.column_required[COLUMN_SETTLED_AT] = true;
	check_refused(&config, &table, "lacks columns.settled_at (\"settled_at\")");
	config.column_required[COLUMN_SETTLED_AT] = false;
	config.columns[COLUMN_PAYLOAD] = "body";
	config.columns[COLUMN_KEY] = "tenant";
	check_refused(&config, &table, "lacks columns.key (\"tenant\"), columns.payload (\"body\")");
	config = source();
	config.columns[COLUMN_KEY] = NULL;
	check_refused(&config, &table, "lacks columns.key");
	config = source();
	config.columns[COLUMN_ORDER] = "outboxd_seq";
	check_refused(&config, &table, "columns.order (\"outboxd_seq\")");
	config = source();
	config.columns[COLUMN_LAST_ERROR] = NULL;
	check_refused(&config, &table, "on_failed: block needs");
	config = source();
	config.table = "a.b.c";
	check_refused(&config, &table, "a.b.c");
	table.relkind = 'i';
	config = source();
	check_refused(&config, &table, "no table or view");
}
END_TEST

/* The preset's own header is left out with its column; the file's is an error. */
START_TEST(test_template_columns)
{
	static const char *const names[] = {"event_id", "seq"};
	const struct sql_templates templates = {names, 2};
	struct config_header headers[] = {{.name = "event_id", .template_text = "{event_id}", .optional = true}};
	struct config_source config = source();
	struct sql_table_facts table = facts();
	struct err err = {""};
	struct sql *sql;

	config.topic = "t";
	config.headers = headers;
	config.n_headers = 1;
	sql = sql_new(&config, &table, &templates, &err);
	ck_assert_msg(sql != NULL, "%s", err.text);
	ck_assert(has_text(sql, SQL_CLAIM, "NULL::text AS template_0, o.\"seq\"::text AS template_1"));
	sql_free(sql);
	headers[0].optional = false;
	ck_assert_ptr_null(sql_new(&config, &table, &templates, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "\"event_id\""));
}
END_TEST

START_TEST(test_F006_table_names)
{
	static const struct {
		const char *written, *quoted;
	} names[] = {{"event_outbox", "\"event_outbox\""},
		     {"Public.Event_Outbox", "\"public\".\"event_outbox\""},
		     {"\"Billing\".\"Out Box\"", "\"Billing\".\"Out Box\""},
		     {"\"a.b\".\"c\"\"d\"", "\"a.b\".\"c\"\"d\""},
		     {"x; DROP TABLE y", NULL},
		     {"\"open", NULL},
		     {"", NULL}};
	struct err err;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct buf out = {0};

		ck_assert_int_eq(sql_table_name(names[i].written, &out, &err), names[i].quoted != NULL);
		if (names[i].quoted != NULL)
			ck_assert_str_eq(buf_text(&out), names[i].quoted);
		buf_free(&out);
	}
}
END_TEST

/* Labels with quotes and backslashes stay values. */
START_TEST(test_labels)
{
	struct config_source config = source();
	struct sql *sql;

	config.states[0] = "it's";
	config.states[1] = "a\\b'";
	sql = build(&config);
	ck_assert(has_text(sql, SQL_CLAIM, "'it''s'"));
	ck_assert(has_text(sql, SQL_CLAIM, "E'a\\\\b'''"));
	sql_free(sql);
}
END_TEST

static char *printed(const struct config_source *config, bool adopt)
{
	FILE *out = tmpfile();
	char *text = calloc(1, 20000);

	ck_assert(out != NULL && text != NULL);
	sql_print_schema(config, adopt, out);
	rewind(out);
	ck_assert_uint_gt(fread(text, 1, 19999, out), 0);
	fclose(out);
	return text;
}

START_TEST(test_schema)
{
	struct config_source config = source();
	char *text = printed(&config, false);

	ck_assert_ptr_nonnull(strstr(text, "CREATE TABLE \"event_outbox\" (\n  \"id\" bigint GENERATED ALWAYS"));
	ck_assert_ptr_nonnull(strstr(text, "\"event_type\" text")); /* only the topic's template names it */
	ck_assert_ptr_nonnull(strstr(text, "(\"aggregate_id\", \"id\") WHERE \"settled_at\" IS NULL"));
	ck_assert_ptr_nonnull(
		strstr(text, "-- GRANT UPDATE (\"status\", \"attempts\", \"available_at\", \"lease_until\", "
			     "\"lease_owner\", \"last_error\", \"settled_at\")"));
	ck_assert_ptr_nonnull(strstr(text, "-- GRANT SELECT ON \"event_outbox\" TO outboxd;"));
	free(text);
	config.on_delivered = ON_DELIVERED_DELETE;
	text = printed(&config, false);
	ck_assert_ptr_nonnull(strstr(text, "-- GRANT SELECT, DELETE ON \"event_outbox\" TO outboxd;"));
	free(text);
	config.notify = NULL;
	config.ordering = ORDERING_NONE;
	text = printed(&config, false);
	ck_assert_ptr_null(strstr(text, "TRIGGER"));
	ck_assert_ptr_null(strstr(text, "event_outbox_key"));
	free(text);
}
END_TEST

/* Names of indexes, trigger and function are cut so that they stay legal, and not inside a character. */
START_TEST(test_long_names)
{
	struct config_source config = source();
	char *text;

	config.table = "s.\""
		       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xbc\xc3\xbc"
		       "\"";
	text = printed(&config, false);
	ck_assert_ptr_nonnull(
		strstr(text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xbc\xc3\xbc_due\""));
	ck_assert_ptr_nonnull(
		strstr(text, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xbc_notify\""));
	ck_assert_ptr_nonnull(strstr(text, "FUNCTION \"s\".\"aaaa"));
	free(text);
	config.table = "\""
		       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xbc"
		       "\"";
	text = printed(&config, false);
	ck_assert_ptr_nonnull(strstr(text, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_notify\""));
	free(text);
}
END_TEST

START_TEST(test_the_trigger_is_dropped)
{
	struct config_source config = source();
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	config.table = "s.event_outbox";
	sql_print_drop_trigger(&config, out);
	fclose(out);
	ck_assert_str_eq(text, "DROP TRIGGER IF EXISTS \"event_outbox_notify\" ON \"s\".\"event_outbox\";\n"
			       "DROP FUNCTION IF EXISTS \"s\".\"event_outbox_notify\"();\n");
	free(text);
}
END_TEST

/* What is sent again and again has a name to be prepared under. */
START_TEST(test_names_of_statements)
{
	struct config_source config = source();
	struct sql *sql = build(&config);
	int kind, other;

	for (kind = 0; kind < SQL_KINDS; kind++) {
		bool named =
			kind == SQL_CLAIM || kind == SQL_CLAIM_FAR || kind == SQL_SETTLE_SENT || kind == SQL_SETTLE;

		ck_assert_int_eq(sql_statement(sql, kind)->name[0] != '\0', named);
		for (other = 0; named && other < kind; other++)
			ck_assert_str_ne(sql_statement(sql, kind)->name, sql_statement(sql, other)->name);
	}
	sql_free(sql);
	sql_free(NULL);
}
END_TEST

/* History must not be sent, and new rows must. */
START_TEST(test_adopt)
{
	struct config_source config = source();
	char *text = printed(&config, true);
	const char *sent = strstr(text, "ADD COLUMN \"status\" text NOT NULL DEFAULT 'SENT'");
	const char *pending = strstr(text, "ALTER COLUMN \"status\" SET DEFAULT 'PENDING'");

	ck_assert(sent != NULL && pending != NULL && sent < pending);
	ck_assert_ptr_null(strstr(text, "CREATE TABLE"));
	ck_assert(strstr(text, "SET \"settled_at\" = now()") < strstr(text, "CREATE INDEX CONCURRENTLY"));
	free(text);
	config.preset = "message";
	config.columns[COLUMN_LEASE_UNTIL] = "available_at";
	config.columns[COLUMN_SETTLED_AT] = NULL;
	text = printed(&config, true);
	ck_assert_ptr_nonnull(strstr(
		text,
		"(coalesce(\"available_at\", '-infinity'), \"id\") WHERE \"status\" IN ('PENDING', 'SENDING')"));
	ck_assert_ptr_null(strstr(text, "settled_at"));
	ck_assert_ptr_null(strstr(text, "lease_owner"));
	free(text);
	/* What the file itself maps is added all the same. */
	config.column_required[COLUMN_LEASE_OWNER] = true;
	text = printed(&config, true);
	ck_assert_ptr_nonnull(strstr(text, "ADD COLUMN IF NOT EXISTS \"lease_owner\""));
	free(text);
}
END_TEST

/* Nobody asks for an order: what would rewrite the table for it is left out. */
START_TEST(test_adopt_without_an_order)
{
	struct config_source config = source();
	char *text;

	config.columns[COLUMN_ORDER] = "seq";
	text = printed(&config, true);
	ck_assert_ptr_nonnull(strstr(text, "\"seq\""));
	free(text);
	config.ordering = ORDERING_NONE;
	text = printed(&config, true);
	ck_assert_ptr_null(strstr(text, "\"seq\""));
	free(text);
}
END_TEST

/* A column that the id, or the order, has already is made once. */
START_TEST(test_schema_of_a_column_with_two_roles)
{
	struct config_source config = source();
	char *text, *first;

	config.columns[COLUMN_ORDER] = "seq";
	config.columns[COLUMN_EVENT_ID] = "id";
	text = printed(&config, false);
	first = strstr(text, "\n  \"id\" ");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_null(strstr(first + 1, "\n  \"id\" "));
	free(text);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sql");
	TCase *tcase = tcase_create("sql");

	tcase_add_loop_test(tcase, test_parameters, 0, 32);
	tcase_add_test(tcase, test_variants);
	tcase_add_test(tcase, test_delete);
	tcase_add_test(tcase, test_facts);
	tcase_add_test(tcase, test_missing_columns);
	tcase_add_test(tcase, test_template_columns);
	tcase_add_test(tcase, test_F006_table_names);
	tcase_add_test(tcase, test_labels);
	tcase_add_test(tcase, test_schema);
	tcase_add_test(tcase, test_long_names);
	tcase_add_test(tcase, test_the_trigger_is_dropped);
	tcase_add_test(tcase, test_names_of_statements);
	tcase_add_test(tcase, test_adopt);
	tcase_add_test(tcase, test_adopt_without_an_order);
	tcase_add_test(tcase, test_schema_of_a_column_with_two_roles);
	suite_add_tcase(suite, tcase);
	return suite;
}
