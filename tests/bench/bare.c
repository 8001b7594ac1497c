#include "bare.h"

#include "bench.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARK_MAX_US 300000000LL
#define FRONT_US 200000 /* how long claims leave out what lies before the front */

/* ---- the table ---- */

static void build(struct bare *bare, PGresult *result)
{
	struct sql_templates templates = route_templates(bare->route);
	struct arena *arena = arena_new();
	struct sql_table_facts facts;
	struct err err;

	if (PQntuples(result) == 0)
		bench_die("there is no table %s", bare->source->table);
	sql_read_facts(&facts, lane_cell, result, (size_t)PQntuples(result), arena);
	bare->sql = sql_new(bare->source, &facts, &templates, &err);
	if (bare->sql == NULL)
		bench_die("%s", err.text);
	arena_free(arena);
	PQclear(result);
}

static void inspect(struct bare *bare, struct lane *lane)
{
	const char *key = bare->source->columns[COLUMN_KEY];
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	struct buf table = {0};
	struct err err;

	if (!sql_table_name(bare->source->table, &table, &err))
		bench_die("%s", err.text);
	values[SQL_P_TABLE] = slice_of(buf_text(&table));
	values[SQL_P_KEY_COLUMN] = slice_of(key == NULL ? "" : key);
	lane_send(lane, &sql_inspect, values);
	build(bare, lane_wait(lane));
	buf_free(&table);
}

void bare_open(struct bare *bare, const struct config_source *source, struct lane *lane)
{
	size_t share = (size_t)source->max_in_flight / 4;
	char host[200] = "localhost";
	struct err err;

	*bare = (struct bare){.source = source, .settle = settle_new()};
	gethostname(host, sizeof(host) - 1);
	snprintf(bare->owner, sizeof(bare->owner), "%s-%ld-%08x-0", host, (long)getpid(), (unsigned)bench_now_us());
	bare->route = route_new(source, &err);
	if (bare->route == NULL)
		bench_die("%s", err.text);
	hot_init(&bare->hot, share > 0 ? share : 1);
	inspect(bare, lane);
}

void bare_close(struct bare *bare)
{
	hot_free(&bare->hot);
	settle_free(bare->settle);
	sql_free(bare->sql);
	route_free(bare->route);
	mem_free(bare->delivered.list);
	mem_free(bare->settling.list);
}

/* ---- claims ---- */

static size_t room(const struct bare *bare)
{
	size_t max = (size_t)bare->source->max_in_flight;

	return bare->rows < max ? max - bare->rows : 0;
}

bool bare_has_room(const struct bare *bare)
{
	size_t rows = room(bare), max = (size_t)bare->source->max_in_flight;

	if (rows == 0 || bare->bytes >= bare->source->max_in_flight_bytes)
		return false;
	return rows >= (size_t)bare->source->batch || rows >= max / 4 || bare->rows == 0;
}

void bare_send_claim(struct bare *bare, struct lane *lane, int64_t most)
{
	const struct config_source *source = bare->source;
	int64_t bytes = source->max_in_flight_bytes - bare->bytes;
	char max_attempts[4], limit4[4], share[4], max_bytes[8], lease[16], park[16];
	struct slice values[SQL_PARAMS] = {SLICE_NULL};

	bare->from_front = bare->backlog && bare->front.known && bench_now_us() - bare->front.seen_us < FRONT_US;
	bare->limit = source->batch < most ? source->batch : most;
	if (bare->limit > (int64_t)room(bare))
		bare->limit = (int64_t)room(bare);
	values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max_attempts, (int32_t)source->retry.max_attempts);
	values[SQL_P_LIMIT] = pg_put_int4(limit4, (int32_t)bare->limit);
	values[SQL_P_MAX_BYTES] = pg_put_int8(max_bytes, bytes > 1 ? bytes : 1);
	values[SQL_P_OWNER] = slice_of(bare->owner);
	values[SQL_P_SHARE] = pg_put_int4(share, (int32_t)bare->hot.share);
	values[SQL_P_LEASE] = pg_put_interval_us(lease, source->lease_us);
	values[SQL_P_PARK_MAX] = pg_put_interval_us(park, PARK_MAX_US);
	values[SQL_P_FAR_DUE] = (struct slice){bare->front.due, sizeof(bare->front.due)};
	values[SQL_P_FAR_ID] = (struct slice){bare->front.id, bare->front.id_len};
	hot_values(&bare->hot, values);
	lane_send(lane, sql_statement(bare->sql, bare->from_front ? SQL_CLAIM_FAR : SQL_CLAIM), values);
}

struct slice bare_cell(const struct bare_row *row, int column)
{
	return lane_cell(row->batch->result, row->index, column);
}

static void enter(struct bare *bare, struct bare_batch *batch, int index)
{
	struct bare_row *row = &batch->rows[index];
	struct slice key;

	row->batch = batch;
	row->index = index + 1; /* behind the tail */
	key = bare_cell(row, SQL_C_KEY);
	row->bytes = bare_cell(row, SQL_C_PAYLOAD).len + bare_cell(row, SQL_C_HEADERS).len + key.len;
	if (bare->source->ordering == ORDERING_KEY && key.bytes != NULL)
		row->key = hot_hold(&bare->hot, key);
	bare->bytes += (int64_t)row->bytes;
}

static int64_t tail(PGresult *result, int column)
{
	return pg_get_int8(lane_cell(result, 0, column));
}

static void remember_front(struct bare_front *front, const PGresult *result)
{
	struct slice due = lane_cell(result, 0, SQL_C_FIRST_DUE), id = lane_cell(result, 0, SQL_C_FIRST_ID);

	front->known = due.len == sizeof(front->due) && id.bytes != NULL && id.len <= sizeof(front->id);
	if (!front->known)
		return;
	memcpy(front->due, due.bytes, due.len);
	memcpy(front->id, id.bytes, id.len);
	front->id_len = id.len;
	front->seen_us = bench_now_us();
}

static void read_tail(struct bare *bare, PGresult *result, size_t claimed)
{
	int64_t candidates = tail(result, SQL_C_CANDIDATES), parked = tail(result, SQL_C_PARKED);
	bool full = candidates >= bare->limit;
	bool stuck = full && tail(result, SQL_C_FREE) < (candidates + 3) / 4 && parked == 0;

	if (!bare->from_front)
		remember_front(&bare->front, result);
	bare->backlog = full && !stuck;
	bare->more = full || bare->from_front;
	bare->idle = claimed == 0 && parked == 0 && tail(result, SQL_C_PULLED) == 0 && !bare->from_front;
}

struct bare_batch *bare_take_claim(struct bare *bare, const struct lane *lane, PGresult *result)
{
	size_t n = (size_t)PQntuples(result) - 1; /* the first is the tail */
	struct bare_batch *batch;

	read_tail(bare, result, n);
	if (n == 0) {
		PQclear(result);
		return NULL;
	}
	batch = mem_new(1, sizeof(*batch) + n * sizeof(batch->rows[0]));
	batch->result = result;
	batch->sent_us = lane->sent_us;
	batch->live = batch->n = n;
	for (size_t i = 0; i < n; i++)
		enter(bare, batch, (int)i);
	bare->rows += n;
	return batch;
}

bool bare_age_us(const struct bare *bare, const struct bare_row *row, int64_t *age_us)
{
	struct slice created = bare_cell(row, SQL_C_CREATED_AT);
	int64_t created_us = created.bytes == NULL ? INT64_MAX : pg_get_int8(created);

	if (created_us == INT64_MAX || created_us == INT64_MIN)
		return false;
	*age_us = pg_get_int8(bare_cell(row, SQL_C_LEASE)) - bare->source->lease_us - created_us;
	return true;
}

/* ---- settles ---- */

static void append(struct bare_rows *rows, struct bare_row *row)
{
	if (rows->length == rows->size) {
		rows->size = rows->size * 2 + 1024;
		rows->list = mem_resize(rows->list, rows->size, sizeof(rows->list[0]));
	}
	rows->list[rows->length++] = row;
}

void bare_deliver(struct bare *bare, struct bare_row *row)
{
	append(&bare->delivered, row);
}

/* Rows of one claim together, as they came. */
static int compare_rows(const void *a, const void *b)
{
	const struct bare_row *left = *(struct bare_row *const *)a, *right = *(struct bare_row *const *)b;

	if (left->batch != right->batch)
		return left->batch->sent_us < right->batch->sent_us ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

static void add(struct bare *bare, const struct bare_row *row, const struct bare_row *before)
{
	if (before == NULL || before->batch != row->batch)
		settle_begin_claim(bare->settle, bare_cell(row, SQL_C_LEASE), bare->owner);
	settle_add_sent(bare->settle, bare_cell(row, SQL_C_ID));
}

void bare_send_settle(struct bare *bare, struct lane *lane)
{
	struct bare_rows rows = bare->delivered;
	struct slice values[SQL_PARAMS] = {SLICE_NULL};

	qsort(rows.list, rows.length, sizeof(rows.list[0]), compare_rows);
	settle_begin(bare->settle);
	for (size_t i = 0; i < rows.length; i++)
		add(bare, rows.list[i], i == 0 ? NULL : rows.list[i - 1]);
	settle_values(bare->settle, values);
	lane_send(lane, sql_statement(bare->sql, SQL_SETTLE_SENT), values);
	bare->delivered = bare->settling;
	bare->delivered.length = 0;
	bare->settling = rows;
}

static void leave(struct bare *bare, struct bare_row *row)
{
	struct bare_batch *batch = row->batch;

	bare->rows--;
	bare->bytes -= (int64_t)row->bytes;
	if (row->key != NULL)
		hot_drop(&bare->hot, row->key);
	if (--batch->live > 0)
		return;
	PQclear(batch->result);
	mem_free(batch);
}

size_t bare_take_settle(struct bare *bare, PGresult *result)
{
	size_t n = bare->settling.length;

	if ((size_t)PQntuples(result) != n)
		bench_die("a settle of %zu rows has changed %d", n, PQntuples(result));
	for (size_t i = 0; i < n; i++)
		leave(bare, bare->settling.list[i]);
	bare->settling.length = 0;
	PQclear(result);
	return n;
}
