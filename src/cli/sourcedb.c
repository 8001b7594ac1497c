#include "cli/sourcedb.h"

#include "base/mem.h"

struct slice sourcedb_cell(const void *result, int row, int column)
{
	const PGresult *answer = result;

	if (PQgetisnull(answer, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(answer, row, column), (size_t)PQgetlength(answer, row, column)};
}

/* ---- statements ---- */

static void order_values(const struct sql_statement *statement, const struct slice by_param[SQL_PARAMS],
			 struct slice values[SQL_PARAMS])
{
	int i;

	for (i = 0; i < statement->n_params; i++)
		values[i] = by_param[statement->params[i]];
}

static void name_cure(struct sourcedb *db)
{
	struct err denied = db->err;

	if (db->exit_code == CLI_PERMISSION)
		err_set(&db->err, "%s; `outboxd schema --source %s` ends with the GRANTs that are needed",
			denied.text, db->source->name);
}

/* how: pgblocking_run or pgblocking_add. */
static PGresult *ask(struct sourcedb *db, enum sql_kind kind, const struct slice values[SQL_PARAMS],
		     PGresult *(*how)(struct pgblocking *, const struct sql_statement *, const struct slice *,
				      enum cli_exit *, struct err *))
{
	const struct sql_statement *statement = kind == SQL_INSPECT ? &sql_inspect : sql_statement(db->sql, kind);
	struct slice ordered[SQL_PARAMS];
	PGresult *result;

	order_values(statement, values, ordered);
	result = how(db->pg, statement, ordered, &db->exit_code, &db->err);
	if (result == NULL)
		name_cure(db);
	return result;
}

PGresult *sourcedb_run(struct sourcedb *db, enum sql_kind kind, const struct slice values[SQL_PARAMS])
{
	return ask(db, kind, values, pgblocking_run);
}

bool sourcedb_begin(struct sourcedb *db)
{
	return pgblocking_begin(db->pg, &db->exit_code, &db->err);
}

PGresult *sourcedb_add(struct sourcedb *db, enum sql_kind kind, const struct slice values[SQL_PARAMS])
{
	return ask(db, kind, values, pgblocking_add);
}

bool sourcedb_end(struct sourcedb *db, bool commit)
{
	return pgblocking_end(db->pg, commit, &db->exit_code, &db->err);
}

/* ---- opening ---- */

static PGresult *ask_catalog(struct sourcedb *db)
{
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	struct buf table = {0};
	PGresult *result = NULL;

	db->exit_code = CLI_CONFIG;
	if (sql_table_name(db->source->table, &table, &db->err)) {
		values[SQL_P_TABLE] = (struct slice){table.bytes, table.len};
		values[SQL_P_KEY_COLUMN] = slice_of(db->source->columns[COLUMN_KEY]);
		if (values[SQL_P_KEY_COLUMN].bytes == NULL)
			values[SQL_P_KEY_COLUMN] = slice_of("");
		result = sourcedb_run(db, SQL_INSPECT, values);
	}
	buf_free(&table);
	return result;
}

bool sourcedb_connect(struct sourcedb *db, const struct config_source *source)
{
	*db = (struct sourcedb){.source = source};
	db->pg = pgblocking_open(&source->postgres, &db->exit_code, &db->err);
	return db->pg != NULL;
}

bool sourcedb_inspect(struct sourcedb *db, struct sql_table_facts *facts, struct arena *arena)
{
	PGresult *result = ask_catalog(db);
	size_t n_rows;

	if (result == NULL)
		return false;
	n_rows = (size_t)PQntuples(result);
	if (n_rows > 0)
		sql_read_facts(facts, sourcedb_cell, result, n_rows, arena);
	PQclear(result);
	if (n_rows > 0)
		return true;
	db->exit_code = CLI_CONFIG;
	return err_set(&db->err, "there is no table %s; `outboxd schema --source %s` prints the SQL that makes it",
		       db->source->table, db->source->name);
}

bool sourcedb_build(struct sourcedb *db, const struct sql_table_facts *facts, const struct sql_templates *templates)
{
	db->exit_code = CLI_CONFIG;
	db->sql = sql_new(db->source, facts, templates, &db->err);
	return db->sql != NULL;
}

bool sourcedb_open(struct sourcedb *db, const struct config_source *source)
{
	struct arena *arena = arena_new();
	struct sql_table_facts facts;
	bool built = sourcedb_connect(db, source) && sourcedb_inspect(db, &facts, arena) &&
		     sourcedb_build(db, &facts, NULL);

	arena_free(arena);
	return built;
}

void sourcedb_close(struct sourcedb *db)
{
	sql_free(db->sql);
	pgblocking_close(db->pg);
}
