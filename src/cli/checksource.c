#include "cli/checksource.h"

#include "base/mem.h"
#include "cli/sourcedb.h"
#include "config/diff.h"
#include "core/checkkafka.h"
#include "core/route.h"
#include "core/sqlcheck.h"
#include "io/kafkacheck.h"

#include <string.h>
#include <time.h>

#define HEAR_MS 2000
#define KAFKA_MS 5000

/* What is under way for one source. */
struct asking {
	struct check *check;
	const struct config_source *source;
	struct sourcedb db;
	struct arena *arena;
	struct buf table; /* its quoted name */
	struct sql_table_facts facts;
};

/* ---- what failed ---- */

/* Reasons of sqlfit.c and sqlgrants.c end with the statement that mends them. */
static void add_reason(struct asking *asking, enum check_kind kind)
{
	static const char *const verbs[] = {": ALTER ", ": CREATE ", ": GRANT "};
	struct err *err = &asking->db.err;
	char *found = NULL;
	size_t i;

	for (i = 0; found == NULL && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		found = strstr(err->text, verbs[i]);
	if (found != NULL)
		*found = '\0';
	check_add(asking->check, kind, asking->source->name, found == NULL ? NULL : found + 2, "%s", err->text);
}

static void add_unreachable(struct check *check, const struct config_source *source, const struct err *err)
{
	check_add(check, CHECK_DATABASE_UNREACHABLE, source->name,
		  "postgres.dsn, and the server and network behind it", "%s", err->text);
}

/* A statement that failed; refused and wrong say what a failed privilege and anything else of class 42 mean here. */
static void add_failure(struct asking *asking, enum check_kind refused, enum check_kind wrong)
{
	if (asking->db.exit_code == CLI_PERMISSION)
		add_reason(asking, refused);
	else if (asking->db.exit_code == CLI_CONFIG)
		add_reason(asking, wrong);
	else
		add_unreachable(asking->check, asking->source, &asking->db.err);
}

static PGresult *run(struct asking *asking, const struct sql_statement *statement, const struct slice *values)
{
	struct sourcedb *db = &asking->db;
	PGresult *result = pgblocking_run(db->pg, statement, values, &db->exit_code, &db->err);

	if (result == NULL)
		add_failure(asking, CHECK_PRIVILEGE_MISSING, CHECK_TABLE_UNFIT);
	return result;
}

/* ---- the database ---- */

static bool connect_to(struct asking *asking, struct checksource *one)
{
	if (sourcedb_connect(&asking->db, asking->source))
		return true;
	add_failure(asking, CHECK_DATABASE_REFUSED, CHECK_DATABASE_WRONG);
	one->away = asking->db.exit_code != CLI_PERMISSION && asking->db.exit_code != CLI_CONFIG;
	one->err = asking->db.err;
	return false;
}

static int64_t unix_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool ask_server(struct asking *asking)
{
	int64_t before_us = unix_us();
	PGresult *result = run(asking, &sqlcheck_server, NULL);
	struct check_server server;

	if (result == NULL)
		return false;
	sqlcheck_read_server(&server, sourcedb_cell, result, asking->arena);
	PQclear(result);
	return checktable_server(asking->check, asking->source, &server, before_us + (unix_us() - before_us) / 2);
}

static void ask_notify(struct asking *asking)
{
	const struct config_source *source = asking->source;
	struct sourcedb *db = &asking->db;
	struct pgblocking *other;

	if (source->notify == NULL)
		return;
	other = pgblocking_open(&source->postgres, &db->exit_code, &db->err);
	if (other != NULL && pgblocking_hears(db->pg, other, HEAR_MS, &db->exit_code, &db->err))
		check_add(asking->check, CHECK_NOTIFY, source->name, NULL, "a NOTIFY to ourselves was heard");
	else
		check_add(asking->check, CHECK_NOTIFY_UNHEARD, source->name,
			  "postgres.dsn without the pooler, or pool_mode = session, or notify: ~",
			  "a NOTIFY to ourselves was not heard (%s): rows wait for the next poll, %lld ms",
			  db->exit_code == CLI_OK ? "a pooler in transaction mode?" : db->err.text,
			  (long long)source->poll_us / 1000);
	pgblocking_close(other);
}

/* ---- the table ---- */

/* False: there is none, or no look at it. */
static bool inspect(struct asking *asking)
{
	if (sourcedb_inspect(&asking->db, &asking->facts, asking->arena))
		return true;
	add_failure(asking, CHECK_PRIVILEGE_MISSING, CHECK_TABLE_MISSING);
	return false;
}

/* False: the rows cannot be asked for. */
static bool fits(struct asking *asking)
{
	struct route *route = route_new(asking->source, &asking->db.err);
	struct sql_templates templates;
	bool granted = false, built = false;

	if (route == NULL) {
		add_reason(asking, CHECK_TABLE_UNFIT);
		return false;
	}
	templates = route_templates(route);
	granted = sql_check_grants(asking->source, &asking->facts, &templates, &asking->db.err);
	if (!granted)
		add_reason(asking, CHECK_PRIVILEGE_MISSING);
	built = sourcedb_build(&asking->db, &asking->facts, &templates);
	if (!built)
		add_reason(asking, asking->facts.hidden ? CHECK_ROWS_HIDDEN : CHECK_TABLE_UNFIT);
	route_free(route);
	return granted && built;
}

/* The operator's own condition may be one that PostgreSQL refuses. */
static bool tries(struct asking *asking)
{
	PGresult *result = run(asking, sql_statement(asking->db.sql, SQL_TRY), NULL);

	PQclear(result);
	return result != NULL;
}

static void ask_table(struct asking *asking)
{
	struct slice values[SQLCHECK_VALUES];
	struct check_table table;
	PGresult *result;

	sqlcheck_table_values(asking->source, asking->db.sql, &asking->table, values);
	result = run(asking, &sqlcheck_table, values);
	if (result == NULL)
		return;
	sqlcheck_read_table(&table, sourcedb_cell, result, asking->arena);
	checktable_table(asking->check, asking->source, asking->db.sql, &asking->facts, &table);
	PQclear(result);
}

static const struct sql_column_facts *status_column(const struct asking *asking)
{
	size_t i = 0;

	while (strcmp(asking->facts.columns[i].name, asking->source->columns[COLUMN_STATUS]) != 0)
		i++;
	return &asking->facts.columns[i];
}

static void ask_constraint(struct asking *asking, struct slice name, struct slice condition)
{
	const struct sql_column_facts *status = status_column(asking);
	struct buf text = {0}, cure = {0};
	struct sql_statement statement = {.kind = SQL_INSPECT};
	PGresult *result;
	int row;

	sqlcheck_ask_states(asking->source, status, condition, &text);
	statement.text = buf_text(&text);
	result = run(asking, &statement, NULL);
	for (row = 0; result != NULL && row < PQntuples(result); row++) {
		struct slice state = sourcedb_cell(result, row, 0);

		buf_clear(&cure);
		sqlcheck_allow_state(asking->source, status, name, condition, state, &cure);
		check_add(asking->check, CHECK_STATE_REFUSED, asking->source->name, buf_text(&cure),
			  "the constraint \"%.*s\" refuses the state \"%.*s\"", (int)name.len, name.bytes,
			  (int)state.len, state.bytes);
	}
	PQclear(result);
	buf_free(&text);
	buf_free(&cure);
}

static void ask_states(struct asking *asking)
{
	const struct slice values[] = {{asking->table.bytes, asking->table.len},
				       slice_of(asking->source->columns[COLUMN_STATUS])};
	PGresult *result = run(asking, &sqlcheck_constraints, values);
	int row;

	for (row = 0; result != NULL && row < PQntuples(result); row++)
		ask_constraint(asking, sourcedb_cell(result, row, SQLCHECK_CONSTRAINT_NAME),
			       sourcedb_cell(result, row, SQLCHECK_CONSTRAINT_CONDITION));
	PQclear(result);
}

static void ask_rows(struct asking *asking, struct checksource *one)
{
	PGresult *result = run(asking, sql_statement(asking->db.sql, SQL_SURVEY), NULL);
	struct check_rows rows;

	if (result == NULL)
		return;
	sqlcheck_read_rows(&rows, sourcedb_cell, result, asking->arena);
	checktable_rows(asking->check, asking->source, &rows);
	one->largest_bytes = rows.largest_bytes;
	PQclear(result);
}

static void ask_all(struct asking *asking, struct checksource *one)
{
	if (ask_server(asking))
		ask_notify(asking);
	/* The configuration has been checked: the name is well-formed. */
	if (!sql_table_name(asking->source->table, &asking->table, NULL) || !inspect(asking))
		return;
	if (!fits(asking) || !tries(asking))
		return;
	ask_table(asking);
	ask_states(asking);
	ask_rows(asking, one);
}

void checksource_database(struct check *check, struct checksource *one, const struct checksource *before)
{
	struct asking asking = {.check = check, .source = one->source, .arena = check->arena};

	if (before != NULL && before->away) {
		one->away = true;
		one->err = before->err;
		add_unreachable(check, one->source, &one->err);
		return;
	}
	if (connect_to(&asking, one))
		ask_all(&asking, one);
	sourcedb_close(&asking.db);
	buf_free(&asking.table);
}

/* ---- Kafka ---- */

/* The topics that a source names whatever its rows are: at most two. */
static size_t static_topics(const struct config_source *source, struct arena *arena, struct check_topic topics[2])
{
	const char *names[] = {checkkafka_static_topic(source->topic, arena), source->dead_letter_topic};
	size_t n = 0, i;

	for (i = 0; i < 2; i++)
		if (names[i] != NULL)
			topics[n++] = (struct check_topic){.name = names[i]};
	return n;
}

void checksource_kafka(struct check *check, const struct checksource *sources, size_t n)
{
	struct check_topic *topics = MEM_NEW_ARRAY(2 * n, struct check_topic);
	size_t *counts = MEM_NEW_ARRAY(n, size_t), n_topics = 0, i, k;
	const struct config_kafka *kafka = &sources[0].source->kafka;
	struct check_brokers brokers;

	for (i = 0; i < n; i++) {
		if (diff_same_kafka(&sources[i].source->kafka, kafka))
			counts[i] = static_topics(sources[i].source, check->arena, topics + n_topics);
		n_topics += counts[i];
	}
	kafkacheck_ask(kafka, KAFKA_MS, &brokers, topics, n_topics);
	for (i = n_topics = 0; i < n; n_topics += counts[i++]) {
		if (!diff_same_kafka(&sources[i].source->kafka, kafka) ||
		    !checkkafka_brokers(check, sources[i].source, &brokers))
			continue;
		for (k = 0; k < counts[i]; k++)
			checkkafka_topic(check, sources[i].source, &brokers, &topics[n_topics + k],
					 sources[i].largest_bytes);
	}
	mem_free(counts);
	mem_free(topics);
}
