/* The whole text of everything that is built for some mappings, as it was read and approved: tests/unit/sql/NAME.sql. A change shows
 * there as what it is; OUTBOXD_UPDATE=1 build/tests/unit/test_sqltexts writes the files anew. */
#include "../standard.h"
#include "unit.h"

#include "base/buf.h"
#include "core/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const named[] = {"event_type", "aggregate_id"}; /* by templates */

static struct config_source standard(void)
{
	return (struct config_source){
		STANDARD_SOURCE,
		.table = "public.event_outbox",
		.notify = "outboxd_orders",
	};
}

static struct config_source deleting(void)
{
	struct config_source config = standard();

	config.table = "event_outbox";
	config.ordering = ORDERING_NONE;
	config.on_delivered = ON_DELIVERED_DELETE;
	config.notify = NULL;
	config.columns[COLUMN_LEASE_OWNER] = NULL;
	config.topic = "{event_type}-{tenant}-{tenant}";
	return config;
}

/* Few columns: the lease stands in available_at, and nothing tells of the end. */
static struct config_source bare(void)
{
	struct config_source config = standard();

	config.table = "\"Billing\".\"Out Box\"";
	config.on_failed = ON_FAILED_CONTINUE;
	config.dead_letter_topic = "dead";
	config.columns[COLUMN_LEASE_UNTIL] = "available_at";
	config.columns[COLUMN_SETTLED_AT] = config.columns[COLUMN_CREATED_AT] = NULL;
	config.columns[COLUMN_EVENT_ID] = "id";
	config.columns[COLUMN_HEADERS] = NULL;
	config.columns[COLUMN_UPDATED_AT] = "changed";
	config.columns[COLUMN_TOPIC] = "event_type"; /* one column in two roles */
	config.columns[COLUMN_MAX_ATTEMPTS] = "max_retry";
	config.states[0] = "it's";
	return config;
}

/* A result is awaited; an owner tells whose the row is. */
static struct config_source awaiting(void)
{
	struct config_source config = standard();

	config.ordering = ORDERING_NONE;
	config.on_delivered = ON_DELIVERED_AWAIT;
	config.result_timeout_us = INT64_C(600000000);
	return config;
}

/* The table of the preset task, as people have it. */
static struct config_source task(void)
{
	struct config_source config = awaiting();
	int column;

	for (column = 0; column < CONFIG_COLUMNS; column++)
		config.columns[column] = NULL;
	config.preset = "task";
	config.table = "task_execution";
	config.columns[COLUMN_ID] = config.columns[COLUMN_ORDER] = config.columns[COLUMN_KEY] = "id";
	config.columns[COLUMN_TYPE] = "task_type";
	config.columns[COLUMN_PAYLOAD] = "payload";
	config.columns[COLUMN_STATUS] = "state";
	config.columns[COLUMN_ATTEMPTS] = "attempts";
	config.columns[COLUMN_LAST_ERROR] = "last_error";
	config.columns[COLUMN_AVAILABLE_AT] = config.columns[COLUMN_LEASE_UNTIL] = "next_run_at";
	config.columns[COLUMN_CREATED_AT] = "created_at";
	config.columns[COLUMN_UPDATED_AT] = "updated_at";
	config.topic = "{task_type}";
	return config;
}

/* An order beside the id, columns for all that a row may say of its record, and for what holds it back. */
static struct config_source rich(void)
{
	struct config_source config = standard();

	config.columns[COLUMN_ORDER] = "seq";
	config.columns[COLUMN_TOPIC] = "topic";
	config.columns[COLUMN_PARTITION] = "part";
	config.columns[COLUMN_TIMESTAMP] = "at";
	config.columns[COLUMN_TXID] = "xid";
	config.where = "region = '{eu}' -- canary";
	return config;
}

static struct sql_column_facts rich_columns[] = {
	{"id", "uuid", .not_null = true},
	{"seq", "bigint", .not_null = true},
	{"event_id", "uuid", .not_null = true},
	{"aggregate_id", "character varying(40)", .not_null = true},
	{"event_type", "text", .not_null = true},
	{"payload", "bytea", .bytea = true},
	{"headers", "jsonb", .not_null = false},
	{"status", "public.\"State\"", .not_null = true},
	{"attempts", "smallint", .not_null = true},
	{"available_at", "timestamp with time zone", .not_null = true, .microseconds = true},
	{"lease_until", "timestamp with time zone", .microseconds = true},
	{"lease_owner", "text", .not_null = false},
	{"last_error", "character varying(20)", .not_null = false},
	{"created_at", "date", .not_null = true},
	{"settled_at", "timestamp without time zone", .microseconds = true},
	{"topic", "text", .not_null = false},
	{"part", "integer", .not_null = false},
	{"at", "bigint", .not_null = false},
	{"xid", "xid8", .not_null = false},
};
static const struct sql_table_facts rich_facts = {.schema = "public",
						  .name = "event_outbox",
						  .relkind = 'p',
						  .columns = rich_columns,
						  .n_columns = sizeof(rich_columns) / sizeof(rich_columns[0]),
						  .tells_compression = true,
						  .may_delete = true};

static const struct {
	const char *name;
	struct config_source (*config)(void);
	const struct sql_table_facts *facts;
} mappings[] = {{"standard", standard, NULL}, {"deleting", deleting, NULL}, {"bare", bare, NULL},
		{"awaiting", awaiting, NULL}, {"task", task, NULL},	    {"rich", rich, &rich_facts}};

static void add_schema(struct buf *out, const struct config_source *config, bool adopt)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	sql_print_schema(config, adopt, file);
	fclose(file);
	buf_print(out, "---- schema%s\n%s\n", adopt ? " --adopt" : "", text);
	free(text);
}

static void add_statements(struct buf *out, const struct config_source *config, const struct sql_table_facts *facts)
{
	const struct sql_templates templates = {.columns = named, .n_columns = 2};
	struct err err = {""};
	struct sql *sql = sql_new(config, facts, &templates, &err);
	int kind, i;

	ck_assert_msg(sql != NULL, "%s", err.text);
	for (kind = 0; kind < SQL_KINDS; kind++) {
		const struct sql_statement *statement = sql_statement(sql, kind);

		buf_print(out, "---- statement %d (parameters", kind);
		for (i = 0; i < statement->n_params; i++)
			buf_print(out, " %d", (int)statement->params[i]);
		buf_print(out, ")\n%s;\n\n", statement->text);
	}
	sql_free(sql);
}

static char *read_file(const char *name)
{
	FILE *file = fopen(name, "r");
	char *text = calloc(1, 100000);

	ck_assert_msg(file != NULL, "%s: run this from the root of the sources", name);
	ck_assert_uint_lt(fread(text, 1, 99999, file), 99999);
	fclose(file);
	return text;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	ck_assert_msg(file != NULL, "%s: run this from the root of the sources", name);
	fputs(text, file);
	fclose(file);
}

START_TEST(test_everything_that_is_built)
{
	struct config_source config = mappings[_i].config();
	struct buf built = {0};
	char name[60], *approved;

	snprintf(name, sizeof(name), "tests/unit/sql/%s.sql", mappings[_i].name);
	add_statements(&built, &config, mappings[_i].facts);
	add_schema(&built, &config, false);
	add_schema(&built, &config, true);
	if (getenv("OUTBOXD_UPDATE") != NULL)
		write_file(name, buf_text(&built));
	approved = read_file(name);
	ck_assert_str_eq(buf_text(&built), approved);
	free(approved);
	buf_free(&built);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("sqltexts");
	TCase *tcase = tcase_create("sqltexts");

	tcase_add_loop_test(tcase, test_everything_that_is_built, 0, sizeof(mappings) / sizeof(mappings[0]));
	suite_add_tcase(suite, tcase);
	return suite;
}
