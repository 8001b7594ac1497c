#include "relay/batch.h"

#include "base/mem.h"
#include "core/pgarray.h"
#include "io/db.h"

static void init_row(struct row *row, struct batch *batch, int index)
{
	row->batch = batch;
	row->index = index + 1; /* behind the tail */
	row->id = batch_cell(row, SQL_C_ID);
	row->order = batch_cell(row, SQL_C_ORDER);
	if (row->order.bytes == NULL)
		row->order = row->id;
	row->attempts = pg_get_int4(batch_cell(row, SQL_C_ATTEMPTS));
	row->max_attempts = pg_get_int4(batch_cell(row, SQL_C_MAX_ATTEMPTS));
	row->bytes = batch_cell(row, SQL_C_PAYLOAD).len + batch_cell(row, SQL_C_HEADERS).len +
		     batch_cell(row, SQL_C_KEY).len;
}

struct batch *batch_new(struct source *source, struct db_result *result, int n_rows, int64_t claimed_us,
			int64_t lease_us, const char *owner)
{
	struct batch *batch = mem_new(1, sizeof(*batch) + (size_t)n_rows * sizeof(struct row));
	int i;

	batch->result = result;
	batch->source = source;
	batch->claimed_us = claimed_us;
	batch->lease_us = lease_us;
	batch->lease_end_us = claimed_us + lease_us;
	batch->owner = mem_copy_string(owner);
	batch->live = (size_t)n_rows;
	for (i = 0; i < n_rows; i++)
		init_row(&batch->rows[i], batch, i);
	return batch;
}

struct slice batch_cell(const struct row *row, int column)
{
	return db_result_cell(row->batch->result, row->index, column);
}

bool batch_age_us(const struct row *row, int64_t *age_us)
{
	struct slice created = batch_cell(row, SQL_C_CREATED_AT);
	int64_t created_us = created.bytes == NULL ? INT64_MAX : pg_get_int8(created);

	/* So infinity is stored. */
	if (created_us == INT64_MAX || created_us == INT64_MIN)
		return false;
	/* The lease is the claim's now() and the lease's length. */
	*age_us = pg_get_int8(batch_cell(row, SQL_C_LEASE)) - row->batch->lease_us - created_us;
	return true;
}

void batch_release(struct batch *batch)
{
	if (--batch->live > 0)
		return;
	db_result_free(batch->result);
	mem_free(batch->owner);
	mem_free(batch);
}

void batch_free_row(struct row *row)
{
	mem_free(row->answer.text);
	mem_free(row->error);
	batch_release(row->batch);
}
