#include "cli/status.h"

#include "base/mem.h"
#include "cli/pgblocking.h"
#include "core/pgarray.h"

static struct slice cell(const void *result, int row, int column)
{
	const PGresult *answer = result;

	if (PQgetisnull(answer, row, column))
		return SLICE_NULL;
	return (struct slice){PQgetvalue(answer, row, column), (size_t)PQgetlength(answer, row, column)};
}

/* NULL: row->exit_code and row->err say why. */
static PGresult *run(struct pgblocking *pg, const struct sql_statement *statement, const struct slice *by_param,
		     struct status_row *row)
{
	struct slice values[SQL_PARAMS];
	int i;

	for (i = 0; i < statement->n_params; i++)
		values[i] = by_param[statement->params[i]];
	return pgblocking_run(pg, statement, values, &row->exit_code, &row->err);
}

static PGresult *inspect(struct pgblocking *pg, struct status_row *row)
{
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	struct buf table = {0};
	PGresult *result = NULL;

	row->exit_code = CLI_CONFIG;
	if (sql_table_name(row->source->table, &table, &row->err)) {
		values[SQL_P_TABLE] = (struct slice){table.bytes, table.len};
		values[SQL_P_KEY_COLUMN] = slice_of(row->source->columns[COLUMN_KEY]);
		if (values[SQL_P_KEY_COLUMN].bytes == NULL)
			values[SQL_P_KEY_COLUMN] = slice_of("");
		result = run(pg, &sql_inspect, values, row);
	}
	buf_free(&table);
	return result;
}

/* The statements that fit the table as it is. NULL: it does not fit. */
static struct sql *build_sql(const PGresult *result, struct status_row *row)
{
	size_t n_rows = (size_t)PQntuples(result);
	struct sql_table_facts facts;
	struct arena *arena;
	struct sql *sql;

	row->exit_code = CLI_CONFIG;
	if (n_rows == 0) {
		err_set(&row->err,
			"there is no table %s; `outboxd schema --source %s` prints the SQL that makes it",
			row->source->table, row->source->name);
		return NULL;
	}
	arena = arena_new();
	sql_read_facts(&facts, cell, result, n_rows, arena);
	sql = sql_new(row->source, &facts, NULL, &row->err);
	arena_free(arena);
	return sql;
}

static void read_counts(const PGresult *result, struct status_row *row)
{
	int i;

	for (i = SQL_N_PENDING; i <= SQL_N_OLDEST_US; i++)
		row->counts[i] = PQgetisnull(result, 0, i) ? STATUS_UNCOUNTED : pg_get_int8(cell(result, 0, i));
	row->has_oldest = !PQgetisnull(result, 0, SQL_N_OLDEST_US);
	row->bounded = pg_get_int4(cell(result, 0, SQL_N_BOUNDED)) != 0;
	row->exit_code = CLI_OK;
}

static void name_cure(struct status_row *row)
{
	struct err denied = row->err;

	if (row->exit_code == CLI_PERMISSION)
		err_set(&row->err, "%s; `outboxd schema --source %s` ends with the GRANTs that are needed",
			denied.text, row->source->name);
}

static void count_with(struct pgblocking *pg, const struct sql *sql, struct status_row *row)
{
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	char max_attempts[4];
	PGresult *result;

	values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max_attempts, (int32_t)row->source->retry.max_attempts);
	result = run(pg, sql_statement(sql, SQL_COUNT), values, row);
	if (result != NULL)
		read_counts(result, row);
	else
		name_cure(row);
	PQclear(result);
}

void status_count(struct status_row *row)
{
	struct pgblocking *pg = pgblocking_open(&row->source->postgres, &row->exit_code, &row->err);
	PGresult *result = pg == NULL ? NULL : inspect(pg, row);
	struct sql *sql = result == NULL ? NULL : build_sql(result, row);

	if (sql != NULL)
		count_with(pg, sql, row);
	sql_free(sql);
	PQclear(result);
	pgblocking_close(pg);
}
