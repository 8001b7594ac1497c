/* Answers in PostgreSQL's binary form. Each result is memory of its own, so that the sanitizers see a row that is used after
 * its batch is gone. */
#include "statement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct db_result {
	size_t *living;
	int rows, columns;
	struct buf bytes;
	size_t *offsets; /* of each cell; SIZE_MAX: NULL */
	size_t *lengths;
	int filled;
};

int db_result_rows(const struct db_result *result)
{
	return result->rows;
}

struct slice db_result_cell(const struct db_result *result, int row, int column)
{
	size_t at = (size_t)row * (size_t)result->columns + (size_t)column;

	assert(row >= 0 && row < result->rows && column >= 0 && column < result->columns);
	if (result->offsets[at] == SIZE_MAX)
		return SLICE_NULL;
	return (struct slice){result->bytes.bytes + result->offsets[at], result->lengths[at]};
}

void db_result_free(struct db_result *result)
{
	if (result == NULL)
		return;
	(*result->living)--;
	buf_free(&result->bytes);
	mem_free(result->offsets);
	mem_free(result->lengths);
	mem_free(result);
}

static struct db_result *result_new(const struct statement *statement, size_t rows, size_t columns)
{
	struct db_result *result = MEM_NEW(struct db_result);

	result->living = statement->living;
	(*result->living)++;
	result->rows = (int)rows;
	result->columns = (int)columns;
	result->offsets = MEM_NEW_ARRAY(rows * columns + 1, size_t);
	result->lengths = MEM_NEW_ARRAY(rows * columns + 1, size_t);
	buf_add(&result->bytes, "", 0);
	return result;
}

static void put(struct db_result *result, struct slice cell)
{
	assert(result->filled < result->rows * result->columns);
	result->offsets[result->filled] = cell.bytes == NULL ? SIZE_MAX : result->bytes.len;
	result->lengths[result->filled++] = cell.len;
	if (cell.bytes != NULL)
		buf_add(&result->bytes, cell.bytes, cell.len);
}

static void put_text(struct db_result *result, const char *text)
{
	put(result, slice_of(text));
}

static void put_integer(struct db_result *result, int64_t value, size_t bytes)
{
	char cell[8];

	for (size_t i = 0; i < bytes; i++)
		cell[i] = (char)((uint64_t)value >> (8 * (bytes - 1 - i)));
	put(result, (struct slice){cell, bytes});
}

static void put_id(struct db_result *result, int64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)id);
	put_text(result, text);
}

static void put_position(struct db_result *result, const struct statement *statement, const struct version *version,
			 int64_t id)
{
	if (version == NULL || statement->kind == SQL_SUSPECT) {
		put(result, SLICE_NULL);
		put(result, SLICE_NULL);
	} else {
		put_integer(result, version->available_at, 8);
		put_id(result, id);
	}
}

static void put_tail(struct db_result *result, const struct statement *statement)
{
	put_integer(result, statement->candidates, 8);
	put_integer(result, statement->parked, 8);
	put_integer(result, statement->parked_own, 8);
	put_integer(result, statement->parked_foreign, 8);
	put_integer(result, statement->pulled, 8);
	put_integer(result, statement->free, 8);
	put_position(result, statement, statement->first, statement->first_id);
	put_position(result, statement, statement->last, statement->last_id);
	put_integer(result, statement->full, 4);
}

static void put_payload(struct db_result *result, const struct effect *effect)
{
	char text[STATEMENT_PAYLOAD];

	statement_payload(effect->row, effect->after->revision, text);
	put_text(result, effect->row->tombstone ? NULL : text);
}

static void put_template(struct db_result *result, const char *column, const struct effect *effect)
{
	const struct row *row = effect->row;
	char text[24];

	snprintf(text, sizeof(text), "event-%lld", (long long)row->id);
	if (strcmp(column, "event_id") == 0)
		put_text(result, text);
	else if (strcmp(column, "event_type") == 0)
		put_text(result, row->topic);
	else if (strcmp(column, "last_error") == 0)
		put_text(result, effect->after->last_error);
	else
		put(result, SLICE_NULL);
}

static void put_claimed(struct db_result *result, const struct statement *statement, const struct effect *effect)
{
	put_id(result, effect->row->id);
	put(result, SLICE_NULL); /* SQL_C_ORDER: it is the id */
	put_text(result, statement->config->columns[COLUMN_KEY] == NULL ? NULL : effect->row->key);
	put_integer(result, effect->after->attempts, 4);
	put_integer(result, statement->params.max_attempts, 4);
	put_integer(result, effect->after->lease_until, 8);
	put_integer(result, effect->row->created_at, 8);
	put_integer(result, statement_taken(statement, effect->before), 4);
	put_payload(result, effect);
	for (int i = SQL_C_HEADERS; i < SQL_CLAIM_COLUMNS; i++)
		put(result, SLICE_NULL);
	for (size_t i = 0; i < statement->templates.n_columns; i++)
		put_template(result, statement->templates.columns[i], effect);
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct effect *)a)->row->id, y = ((const struct effect *)b)->row->id;

	return (x > y) - (x < y);
}

static size_t count_effects(const struct statement *statement, enum effect_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < statement->n_effects; i++)
		n += statement->effects[i].kind == kind;
	return n;
}

/* The tail, and a row for each that was claimed. */
static struct db_result *claim_result(struct statement *statement)
{
	size_t n = count_effects(statement, EFFECT_CLAIMED);
	size_t columns = SQL_CLAIM_COLUMNS + statement->templates.n_columns;
	struct db_result *result = result_new(statement, 1 + n, columns);

	put_tail(result, statement);
	for (size_t i = SQL_C_ID; i < columns; i++) {
		if (i == SQL_C_TAKEN && statement->kind != SQL_SUSPECT)
			put_integer(result, 0, 4);
		else
			put(result, SLICE_NULL);
	}
	if (statement->n_effects > 0)
		qsort(statement->effects, statement->n_effects, sizeof(struct effect), by_id);
	for (size_t i = 0; i < statement->n_effects; i++) {
		if (statement->effects[i].kind != EFFECT_CLAIMED)
			continue;
		for (int c = 0; c < SQL_C_ID; c++)
			put(result, SLICE_NULL);
		put_claimed(result, statement, &statement->effects[i]);
	}
	return result;
}

/* await: all but those that somebody else holds. */
static struct db_result *unfenced_result(const struct statement *statement)
{
	const struct params *params = &statement->params;
	struct db_result *result;
	size_t n = 0;

	for (size_t i = 0; i < params->n_outcomes; i++)
		n += !params->outcomes[i].fenced;
	result = result_new(statement, n, 1);
	for (size_t i = 0; i < params->n_outcomes; i++) {
		if (!params->outcomes[i].fenced)
			put_id(result, params->outcomes[i].id);
	}
	return result;
}

static struct db_result *expire_result(const struct statement *statement)
{
	struct db_result *result = result_new(statement, statement->n_effects, 3);

	for (size_t i = 0; i < statement->n_effects; i++) {
		put_id(result, statement->effects[i].row->id);
		put_integer(result, statement_late(statement, statement->effects[i].before), 4);
		put_integer(result, statement->effects[i].after->state == ROW_FAILED, 4);
	}
	return result;
}

static struct db_result *id_result(const struct statement *statement, enum effect_kind kind)
{
	struct db_result *result = result_new(statement, count_effects(statement, kind), 1);

	for (size_t i = 0; i < statement->n_effects; i++) {
		if (statement->effects[i].kind == kind)
			put_id(result, statement->effects[i].row->id);
	}
	return result;
}

/* Of its key, so that each blocked key counts once. */
static bool is_first_failed(const struct statement *statement, const struct row *row)
{
	if (statement->config->ordering == ORDERING_NONE || statement->config->on_failed == ON_FAILED_CONTINUE)
		return false;
	for (int64_t id = 1; id < row->id && row->key != NULL; id++) {
		const struct row *other = table_find(statement->xact.table, id);
		const struct version *version = table_visible(other, statement->xact.snapshot);

		if (version != NULL && version->settled_at == TABLE_NULL && version->state == ROW_FAILED &&
		    other->key != NULL && strcmp(other->key, row->key) == 0)
			return false;
	}
	return row->key != NULL;
}

static void count_row(const struct statement *statement, const struct row *row, int64_t *numbers)
{
	const struct version *version = table_visible(row, statement->xact.snapshot);
	int64_t age = statement->xact.now - row->created_at;

	if (version == NULL || !table_open(version, true))
		return;
	if (version->state == ROW_FAILED) {
		numbers[SQL_N_FAILED]++;
		numbers[SQL_N_BLOCKED_KEYS] += is_first_failed(statement, row);
		return;
	}
	if (age > numbers[SQL_N_OLDEST_US])
		numbers[SQL_N_OLDEST_US] = age;
	if (version->state == ROW_PENDING) {
		numbers[version->available_at >= TABLE_SENTINEL ? SQL_N_PARKED : SQL_N_PENDING]++;
		return;
	}
	numbers[SQL_N_IN_FLIGHT]++;
	if (!statement_expired(statement, version) || version->available_at > statement->xact.now)
		return;
	if (statement_used_up(statement, version))
		numbers[SQL_N_EXHAUSTED]++;
	else if (version->attempts >= 2 && !statement_late(statement, version))
		numbers[SQL_N_SUSPECTS]++;
}

static struct db_result *count_result(const struct statement *statement)
{
	struct db_result *result = result_new(statement, 1, SQL_COUNT_COLUMNS);
	int64_t numbers[SQL_COUNT_COLUMNS] = {[SQL_N_OLDEST_US] = -1};

	for (size_t i = 0; i < statement->xact.table->n_rows; i++)
		count_row(statement, statement->xact.table->rows[i], numbers);
	for (int i = 0; i < SQL_N_OLDEST_US; i++)
		put_integer(result, numbers[i], 8);
	if (numbers[SQL_N_OLDEST_US] < 0)
		put(result, SLICE_NULL);
	else
		put_integer(result, numbers[SQL_N_OLDEST_US], 8);
	put_integer(result, 0, 4);
	put_integer(result, 0, 8);
	return result;
}

/* The catalog of the standard table. */
static struct db_result *inspect_result(const struct statement *statement)
{
	static const char *const columns[][2] = {
		{"id", "bigint"},
		{"event_id", "uuid"},
		{"aggregate_id", "text"},
		{"event_type", "text"},
		{"payload", "jsonb"},
		{"headers", "jsonb"},
		{"status", "text"},
		{"attempts", "integer"},
		{"available_at", "timestamp with time zone"},
		{"lease_until", "timestamp with time zone"},
		{"lease_owner", "text"},
		{"last_error", "text"},
		{"created_at", "timestamp with time zone"},
		{"settled_at", "timestamp with time zone"},
	};
	size_t n = statement->absent ? 0 : sizeof(columns) / sizeof(columns[0]);
	struct db_result *result = result_new(statement, n, 19);

	for (size_t i = 0; i < n; i++) {
		put_text(result, "public");
		put_text(result, "event_outbox");
		put_text(result, "r");
		put_text(result, columns[i][0]);
		put_text(result, columns[i][1]);
		put_text(result, "f");
		put_text(result, strcmp(columns[i][0], "id") == 0 ? "t" : "f");
		put_text(result, "t");
		put_text(result, statement->config->ordering == ORDERING_KEY ? "t" : "f");
		put_text(result, "t");
		put_text(result, "f");
		put_text(result, "t");
		put_text(result, "t");
		put(result, SLICE_NULL);
		put_text(result, "relay");
		put_text(result, "t");
		put_text(result, "f");
		put_text(result, "f");
		put_text(result, "f");
	}
	return result;
}

struct db_result *result_of(struct statement *statement)
{
	switch (statement->kind) {
	case SQL_SETTLE_SENT:
	case SQL_SETTLE:
		return statement_awaits(statement) ? unfenced_result(statement)
						   : id_result(statement, EFFECT_SETTLED);
	case SQL_EXPIRE:
		return expire_result(statement);
	case SQL_COUNT:
		return count_result(statement);
	case SQL_INSPECT:
		return inspect_result(statement);
	case SQL_SWEEP: {
		struct db_result *result = result_new(statement, 1, 1);

		put_integer(result, (int64_t)count_effects(statement, EFFECT_MOVED), 8);
		return result;
	}
	case SQL_CLAIM:
	case SQL_CLAIM_FAR:
	case SQL_SUSPECT:
	default: /* a relay sends none of the others */
		break;
	}
	return claim_result(statement);
}
