#include "cli/status.h"

#include "cli/sourcedb.h"
#include "core/pgarray.h"

static void read_counts(const PGresult *result, struct status_row *row)
{
	int i;

	for (i = SQL_N_PENDING; i <= SQL_N_OLDEST_US; i++)
		row->counts[i] =
			PQgetisnull(result, 0, i) ? STATUS_UNCOUNTED : pg_get_int8(sourcedb_cell(result, 0, i));
	row->has_oldest = !PQgetisnull(result, 0, SQL_N_OLDEST_US);
	row->bounded = pg_get_int4(sourcedb_cell(result, 0, SQL_N_BOUNDED)) != 0;
	row->exit_code = CLI_OK;
}

static PGresult *count(struct sourcedb *db)
{
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	char max_attempts[4];

	values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max_attempts, (int32_t)db->source->retry.max_attempts);
	return sourcedb_run(db, SQL_COUNT, values);
}

void status_count(struct status_row *row)
{
	struct sourcedb db;
	PGresult *result = sourcedb_open(&db, row->source) ? count(&db) : NULL;

	row->exit_code = db.exit_code;
	row->err = db.err;
	if (result != NULL)
		read_counts(result, row);
	PQclear(result);
	sourcedb_close(&db);
}
