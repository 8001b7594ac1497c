/* What of a table is a finding: one fact of a table without any is changed at a time. And answers as facts. */
#include "../standard.h"
#include "unit.h"

#include "base/mem.h"
#include "core/sqlcheck.h"

#include <string.h>

static struct config_source source(void)
{
	return (struct config_source){STANDARD_SOURCE, .table = "event_outbox", .notify = "wake"};
}

static const struct sql_column_facts standard_columns[] = {
	{"id", "bigint", .not_null = true},
	{"event_id", "uuid", .not_null = true},
	{"aggregate_id", "text", .bytea = false},
	{"event_type", "text", .bytea = false},
	{"payload", "jsonb", .bytea = false},
	{"headers", "jsonb", .bytea = false},
	{"status", "text", .not_null = true},
	{"attempts", "integer", .not_null = true},
	{"available_at", "timestamp with time zone", .not_null = true, .microseconds = true},
	{"lease_until", "timestamp with time zone", .microseconds = true},
	{"lease_owner", "text", .bytea = false},
	{"last_error", "text", .bytea = false},
	{"created_at", "timestamp with time zone", .microseconds = true},
	{"settled_at", "timestamp with time zone", .microseconds = true},
};
#define N_COLUMNS (sizeof(standard_columns) / sizeof(standard_columns[0]))

struct world {
	struct config_source config;
	struct sql_column_facts columns[N_COLUMNS];
	struct sql_table_facts facts;
	struct check_table table;
};

static struct sql_column_facts *column(struct world *world, const char *name)
{
	size_t i = 0;

	while (strcmp(world->columns[i].name, name) != 0)
		i++;
	return &world->columns[i];
}

static void rename_column(struct world *world, const char *name)
{
	column(world, name)->name = "gone";
}
static void nothing(struct world *world)
{
	(void)world;
}
static void no_due_index(struct world *world)
{
	world->table.has_due_index = false;
}
static void no_key_index(struct world *world)
{
	world->facts.has_key_index = false;
}
static void id_repeats(struct world *world)
{
	world->table.unique_id = false;
}
static void order_repeats(struct world *world)
{
	world->table.unique_order = false;
}
static void invalid(struct world *world)
{
	world->table.invalid_cure = "REINDEX";
}
static void server_vacuums_not(struct world *world)
{
	world->table.autovacuum = false;
}
static void vacuum_off(struct world *world)
{
	world->table.vacuum_cure = "ALTER";
}
static void settings(struct world *world)
{
	world->table.settings_cure = "ALTER";
}
static void bloat(struct world *world)
{
	world->table.bloat_cure = "VACUUM";
}
static void no_trigger(struct world *world)
{
	world->table.notifies = false;
}
static void policed(struct world *world)
{
	world->facts.policed = true;
}
static void no_settled_at(struct world *world)
{
	rename_column(world, "settled_at");
}
static void no_headers(struct world *world)
{
	rename_column(world, "headers");
}
static void random_event_id(struct world *world)
{
	world->table.event_id_default = "gen_random_uuid()";
}
static void other_random_event_id(struct world *world)
{
	world->table.event_id_default = "x.uuid_generate_v4()";
}
static void ordered_event_id(struct world *world)
{
	world->table.event_id_default = "uuidv7()";
}
static void no_zone(struct world *world)
{
	column(world, "lease_until")->type = "timestamp without time zone";
}
static void uuid_id(struct world *world)
{
	column(world, "id")->type = "uuid";
}

static void ordered_uuid_id(struct world *world)
{
	uuid_id(world);
	world->table.order_default = "uuidv7()";
}

static void unordered_uuid_id(struct world *world)
{
	uuid_id(world);
	world->config.ordering = ORDERING_NONE;
}

static void poll_only(struct world *world)
{
	no_trigger(world);
	world->config.notify = NULL;
}

static void view(struct world *world)
{
	world->facts.relkind = 'v';
	no_due_index(world);
	id_repeats(world);
	settings(world);
}

static const struct {
	void (*change)(struct world *);
	enum check_kind kind; /* CHECK_TABLE: none beside that */
	const char *cure;
} tables[] = {
	{nothing, CHECK_TABLE, NULL},
	{poll_only, CHECK_TABLE, NULL},
	{view, CHECK_TABLE, NULL},
	{ordered_event_id, CHECK_TABLE, NULL},
	{ordered_uuid_id, CHECK_TABLE, NULL},
	{unordered_uuid_id, CHECK_TABLE, NULL},
	{no_due_index, CHECK_DUE_INDEX_MISSING,
	 "CREATE INDEX CONCURRENTLY ON \"event_outbox\" (\"available_at\", \"id\") WHERE \"settled_at\" IS NULL"},
	{no_key_index, CHECK_KEY_INDEX_MISSING,
	 "CREATE INDEX CONCURRENTLY ON \"event_outbox\" (\"aggregate_id\", \"id\") WHERE \"settled_at\" IS NULL"},
	{id_repeats, CHECK_ID_NOT_UNIQUE, "CREATE UNIQUE INDEX CONCURRENTLY ON \"event_outbox\" (\"id\")"},
	{order_repeats, CHECK_ID_NOT_UNIQUE, "CREATE UNIQUE INDEX CONCURRENTLY ON \"event_outbox\" (\"id\")"},
	{invalid, CHECK_INDEX_INVALID, "REINDEX"},
	{server_vacuums_not, CHECK_AUTOVACUUM_OFF, "ALTER SYSTEM SET autovacuum = on"},
	{vacuum_off, CHECK_AUTOVACUUM_OFF, "ALTER"},
	{settings, CHECK_TABLE_SETTINGS, "ALTER"},
	{bloat, CHECK_BLOAT, "VACUUM"},
	{no_trigger, CHECK_TRIGGER_MISSING, NULL},
	{policed, CHECK_ROWS_POLICED, "USING (true)"},
	{no_headers, CHECK_COLUMN_LEFT_OUT, "--adopt"},
	{random_event_id, CHECK_EVENT_ID_RANDOM, "UUIDv7"},
	{other_random_event_id, CHECK_EVENT_ID_RANDOM, "UUIDv7"},
	{no_zone, CHECK_TIME_ZONE_MISSING,
	 "ALTER TABLE \"event_outbox\" ALTER COLUMN \"lease_until\" TYPE timestamp with time zone"},
	{uuid_id, CHECK_ORDER_RANDOM, "columns.order"},
};

static void judge(struct world *world, struct check *check)
{
	struct err err = {""};
	struct sql *sql = sql_new(&world->config, &world->facts, NULL, &err);

	ck_assert_msg(sql != NULL, "%s", err.text);
	check_init(check);
	checktable_table(check, &world->config, sql, &world->facts, &world->table);
	sql_free(sql);
}

static void init(struct world *world)
{
	*world = (struct world){
		.config = source(),
		.facts = {.schema = "public",
			  .name = "event_outbox",
			  .relkind = 'r',
			  .columns = world->columns,
			  .n_columns = N_COLUMNS,
			  .has_key_index = true,
			  .role = "relay"},
		.table = {.has_due_index = true,
			  .unique_id = true,
			  .unique_order = true,
			  .autovacuum = true,
			  .notifies = true},
	};
	memcpy(world->columns, standard_columns, sizeof(standard_columns));
}

START_TEST(test_tables)
{
	struct world world;
	struct check check;

	init(&world);
	tables[_i].change(&world);
	judge(&world, &check);
	ck_assert_int_eq(check.findings[0].kind, CHECK_TABLE);
	ck_assert_uint_eq(check.n, tables[_i].kind == CHECK_TABLE ? 1 : 2);
	ck_assert_int_eq(check.findings[check.n - 1].kind, tables[_i].kind);
	if (tables[_i].cure != NULL)
		ck_assert_msg(strstr(check.findings[1].cure, tables[_i].cure) != NULL, "%s",
			      check.findings[1].cure);
	check_free(&check);
}
END_TEST

START_TEST(test_a_table_without_settled_at)
{
	struct world world;
	struct check check;

	init(&world);
	no_settled_at(&world);
	judge(&world, &check);
	ck_assert_uint_eq(check.n, 3);
	ck_assert_int_eq(check.findings[1].kind, CHECK_COLUMN_LEFT_OUT);
	ck_assert_int_eq(check.findings[2].kind, CHECK_SETTLED_AT_MISSING);
	check_free(&check);
}
END_TEST

/* A partitioned table takes no CONCURRENTLY; a price without any index is told. */
START_TEST(test_a_partitioned_table_without_indexes)
{
	struct world world;
	struct check check;

	init(&world);
	world.facts.relkind = 'p';
	world.table.rows = 1000000;
	world.table.bytes = 300 << 20;
	no_due_index(&world);
	no_key_index(&world);
	judge(&world, &check);
	ck_assert_uint_eq(check.n, 3);
	ck_assert_ptr_nonnull(strstr(check.findings[1].text, "(1000000 rows, 300 MiB)"));
	ck_assert_ptr_nonnull(strstr(check.findings[1].cure, "CREATE INDEX ON"));
	ck_assert_ptr_nonnull(strstr(check.findings[2].text, "by the whole table"));
	check_free(&check);
}
END_TEST

/* ---- statements and answers ---- */

static const struct sql_column_facts status = {"State", "public.mood", .not_null = true};

START_TEST(test_states_are_asked_for)
{
	struct config_source config = source();
	struct buf text = {0};

	sqlcheck_ask_states(&config, &status, slice_of("\"State\" <> 'x'"), &text);
	ck_assert_str_eq(
		buf_text(&text),
		"SELECT s.outboxd_label FROM (VALUES ('PENDING'::public.mood, 'PENDING'::text), "
		"('SENDING'::public.mood, 'SENDING'::text), ('SENT'::public.mood, 'SENT'::text), "
		"('FAILED'::public.mood, 'FAILED'::text)) s (\"State\", outboxd_label) WHERE (\"State\" <> 'x') IS FALSE");
	buf_clear(&text);
	sqlcheck_allow_state(&config, &status, slice_of("a\"b"), slice_of("true"), slice_of("it's"), &text);
	ck_assert_str_eq(buf_text(&text),
			 "ALTER TABLE \"event_outbox\" DROP CONSTRAINT \"a\"\"b\", ADD CONSTRAINT \"a\"\"b\" "
			 "CHECK ((true) OR \"State\" = 'it''s')");
	buf_free(&text);
}
END_TEST

START_TEST(test_what_the_catalog_is_asked_with)
{
	struct world world;
	struct slice values[SQLCHECK_VALUES];
	struct buf table = {0};
	struct sql *sql;

	init(&world);
	buf_add_string(&table, "\"event_outbox\"");
	sql = sql_new(&world.config, &world.facts, NULL, NULL);
	sqlcheck_table_values(&world.config, sql, &table, values);
	ck_assert(slice_equal(values[SQLCHECK_FINISHED], slice_of("settled_at")));
	ck_assert(slice_equal(values[SQLCHECK_CHANNEL], slice_of("wake")));
	ck_assert(slice_equal(values[SQLCHECK_EVENT_ID], slice_of("event_id")));
	sql_free(sql);
	no_settled_at(&world);
	world.config.notify = world.config.columns[COLUMN_EVENT_ID] = NULL;
	sql = sql_new(&world.config, &world.facts, NULL, NULL);
	sqlcheck_table_values(&world.config, sql, &table, values);
	ck_assert(slice_equal(values[SQLCHECK_FINISHED], slice_of("status")));
	ck_assert(slice_equal(values[SQLCHECK_CHANNEL], slice_of("")));
	ck_assert(slice_equal(values[SQLCHECK_EVENT_ID], slice_of("")));
	sql_free(sql);
	buf_free(&table);
}
END_TEST

static struct slice cell(const void *result, int row, int column_number)
{
	const char *const *cells = result;

	ck_assert_int_eq(row, 0);
	return slice_of(cells[column_number]);
}

START_TEST(test_answers_are_read)
{
	static const char *const of_server[] = {"15.4", "false", "true", "true", "false", "-5", "77", "who", NULL};
	static const char *const of_table[] = {"true", "false", "true", NULL,	 "9", "8192", "true",
					       "v",    "s",	NULL,	"false", "d", NULL};
	static const char *const of_rows[] = {"12", "[]", "[\"o\"]"};
	struct arena *arena = arena_new();
	struct check_server server;
	struct check_table table;
	struct check_rows rows;

	sqlcheck_read_server(&server, cell, of_server, arena);
	ck_assert_str_eq(server.version, "15.4");
	ck_assert(!server.standby && server.read_only && server.jit && !server.jit_applies);
	ck_assert(server.clock_us == -5 && server.snapshot_age == 77 && server.holder_cure == NULL);
	ck_assert_str_eq(server.holder, "who");
	sqlcheck_read_table(&table, cell, of_table, arena);
	ck_assert(table.has_due_index && !table.unique_id && table.unique_order && table.autovacuum &&
		  !table.notifies);
	ck_assert(table.rows == 9 && table.bytes == 8192 && table.invalid_cure == NULL && table.bloat_cure == NULL);
	ck_assert_str_eq(table.vacuum_cure, "v");
	ck_assert_str_eq(table.settings_cure, "s");
	ck_assert_str_eq(table.event_id_default, "d");
	ck_assert_ptr_null(table.order_default);
	sqlcheck_read_rows(&rows, cell, of_rows, arena);
	ck_assert_int_eq(rows.largest_bytes, 12);
	ck_assert_str_eq(rows.states, "[]");
	ck_assert_str_eq(rows.owners, "[\"o\"]");
	arena_free(arena);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("checktable");
	TCase *tcase = tcase_create("checktable");

	tcase_add_loop_test(tcase, test_tables, 0, sizeof(tables) / sizeof(tables[0]));
	tcase_add_test(tcase, test_a_table_without_settled_at);
	tcase_add_test(tcase, test_a_partitioned_table_without_indexes);
	tcase_add_test(tcase, test_states_are_asked_for);
	tcase_add_test(tcase, test_what_the_catalog_is_asked_with);
	tcase_add_test(tcase, test_answers_are_read);
	suite_add_tcase(suite, tcase);
	return suite;
}
