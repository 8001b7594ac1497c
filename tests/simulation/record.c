#include "record.h"

#include <inttypes.h>

static void put_bytes(FILE *out, struct slice bytes)
{
	if (bytes.bytes == NULL) {
		fputs(" -", out);
		return;
	}
	fputs(" x", out);
	for (size_t i = 0; i < bytes.len; i++)
		fprintf(out, "%02x", (unsigned char)bytes.bytes[i]);
}

static void put_time(FILE *out, int64_t time)
{
	if (time == TABLE_NULL)
		fputs(" -", out);
	else if (time == TABLE_INFINITY)
		fputs(" infinity", out);
	else
		fprintf(out, " %" PRId64, time);
}

static void put_payload(FILE *out, const struct row *row, int revision)
{
	char text[STATEMENT_PAYLOAD];

	statement_payload(row, revision, text);
	put_bytes(out, slice_of(row->tombstone ? NULL : text));
}

static void put_version(FILE *out, const struct version *version)
{
	fprintf(out, " %d %d", (int)version->state, (int)version->attempts);
	put_time(out, version->available_at);
	put_time(out, version->lease_until);
	put_time(out, version->settled_at);
	put_bytes(out, slice_of(version->lease_owner));
	put_bytes(out, slice_of(version->last_error));
}

static bool recorded(const struct statement *statement)
{
	return statement->sim->record != NULL && statement->kind != SQL_INSPECT;
}

void record_config(struct sim *sim, const struct config_source *config)
{
	if (sim->record != NULL)
		fprintf(sim->record, "H %d %d %d %d %d\n", (int)config->ordering, (int)config->on_failed,
			(int)config->on_delivered, config->dead_letter_topic != NULL,
			(int)(config->result_timeout_us / SECOND));
}

void record_other_config(struct sim *sim)
{
	sim->record = NULL;
}

void record_insert(const struct xact *xact, const struct row *row)
{
	FILE *out = xact->table->sim->record;

	if (out == NULL)
		return;
	fprintf(out, "I %d %" PRId64, xact->number, row->id);
	put_bytes(out, slice_of(row->key));
	put_bytes(out, slice_of(row->topic));
	put_payload(out, row, 0);
	fprintf(out, " %" PRId64 "\n", row->created_at);
}

void record_write(const struct xact *xact, const struct row *row)
{
	FILE *out = xact->table->sim->record;

	if (out == NULL)
		return;
	fprintf(out, "U %d %" PRId64 " %d", xact->number, row->id, (int)row->newest->deleted);
	put_version(out, row->newest);
	put_payload(out, row, row->newest->revision);
	fputc('\n', out);
}

void record_start(const struct statement *statement, const struct slice *values, int n)
{
	FILE *out = statement->sim->record;

	if (!recorded(statement))
		return;
	fprintf(out, "S %d %d %" PRId64, statement->xact.number, (int)statement->kind, statement->xact.now);
	for (int i = 0; i < n; i++)
		put_bytes(out, values[i]);
	fputc('\n', out);
}

void record_wait(const struct statement *statement)
{
	if (recorded(statement))
		fprintf(statement->sim->record, "W %d\n", statement->xact.number);
}

void record_run(struct statement *statement)
{
	FILE *out = statement->sim->record;
	struct db_result *result;
	size_t columns = statement->kind <= SQL_SUSPECT ? SQL_CLAIM_COLUMNS + statement->templates.n_columns : 1;

	if (!recorded(statement))
		return;
	/* Of several suspects the server takes which it likes: the history cannot be followed any further. */
	if (statement->ambiguous) {
		statement->sim->record = NULL;
		return;
	}
	/* The last one is of the server, not of the table. */
	columns = statement->kind == SQL_COUNT ? SQL_N_SNAPSHOT_AGE : statement->kind == SQL_EXPIRE ? 3 : columns;
	result = result_of(statement);
	fprintf(out, "L %d %zu", statement->xact.number, columns);
	for (int row = 0; row < db_result_rows(result); row++) {
		for (size_t column = 0; column < columns; column++)
			put_bytes(out, db_result_cell(result, row, (int)column));
	}
	fputc('\n', out);
	db_result_free(result);
}

static void put_table(FILE *out, const struct table *table)
{
	fputc('T', out);
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct version *version = table_committed(table->rows[i]);

		if (version == NULL)
			continue;
		fprintf(out, " %" PRId64, table->rows[i]->id);
		put_version(out, version);
	}
	fputc('\n', out);
}

void record_commit(const struct xact *xact)
{
	FILE *out = xact->table->sim->record;

	if (out == NULL)
		return;
	fprintf(out, "C %d\n", xact->number);
	if (xact->wrote)
		put_table(out, xact->table);
}

void record_rollback(const struct xact *xact)
{
	if (xact->table->sim->record != NULL)
		fprintf(xact->table->sim->record, "R %d\n", xact->number);
}

struct slice *record_values(struct sim *sim, const struct slice *values, int n)
{
	struct slice *copies;

	if (sim->record == NULL)
		return NULL;
	copies = arena_take(sim->arena, (size_t)n + 1, sizeof(struct slice));
	for (int i = 0; i < n; i++) {
		copies[i] = values[i];
		if (values[i].bytes != NULL)
			copies[i].bytes = arena_copy_bytes(sim->arena, values[i].bytes, values[i].len);
	}
	return copies;
}
