#include "table.h"

#include "record.h"

#include <assert.h>
#include <string.h>

struct table *table_new(struct sim *sim)
{
	struct table *table = arena_take(sim->arena, 1, sizeof(*table));

	table->sim = sim;
	table->commits = 1;
	table->lock_timeout_us = SECOND;
	return table;
}

void table_begin(struct table *table, struct xact *xact)
{
	xact->table = table;
	xact->began_us = sim_now(table->sim);
	xact->now = table_clock(table);
	xact->active = true;
	xact->number = ++table->xacts;
}

void table_snapshot(struct xact *xact)
{
	xact->snapshot = xact->table->commits;
}

static void add_row(struct sim *sim, struct row ***rows, size_t *length, size_t *size, struct row *row)
{
	if (*length == *size) {
		struct row **larger = arena_take(sim->arena, 2 * *size + 16, sizeof(struct row *));

		if (*length > 0)
			memcpy(larger, *rows, *length * sizeof(struct row *));
		*rows = larger;
		*size = 2 * *size + 16;
	}
	(*rows)[(*length)++] = row;
}

static void end(struct xact *xact)
{
	struct xact *waiter = xact->waiters;

	for (size_t i = 0; i < xact->n_locked; i++)
		xact->locked[i]->lock = NULL;
	xact->n_locked = 0;
	xact->active = false;
	if (xact->table->turn == xact)
		xact->table->turn = NULL;
	xact->waiters = NULL;
	while (waiter != NULL) {
		struct xact *next = waiter->next_waiter;

		waiter->next_waiter = NULL;
		agenda_add(xact->table->sim->agenda, 0, waiter->resume, waiter->context);
		waiter = next;
	}
}

void table_commit(struct xact *xact)
{
	uint64_t commit = ++xact->table->commits;

	assert(xact->active);
	for (size_t i = 0; i < xact->n_locked; i++) {
		struct version *version = xact->locked[i]->newest;

		if (version->by == xact) {
			version->commit = commit;
			version->by = NULL;
		}
	}
	end(xact);
	record_commit(xact);
}

void table_rollback(struct xact *xact)
{
	if (!xact->active)
		return;
	for (size_t i = 0; i < xact->n_locked; i++) {
		struct row *row = xact->locked[i];

		while (row->newest->by == xact && row->newest->older != NULL)
			row->newest = row->newest->older;
		if (row->newest->by == xact)
			row->newest->by = NULL; /* an insert that never was: its id is lost */
	}
	end(xact);
	record_rollback(xact);
}

const struct version *table_visible(const struct row *row, uint64_t snapshot)
{
	const struct version *version = row->newest;

	while (version != NULL && (version->commit == 0 || version->commit > snapshot))
		version = version->older;
	return version == NULL || version->deleted ? NULL : version;
}

const struct version *table_committed(const struct row *row)
{
	return table_visible(row, UINT64_MAX);
}

bool table_lock(struct xact *xact, struct row *row)
{
	assert(xact->active);
	if (row->lock == xact)
		return true;
	if (row->lock != NULL)
		return false;
	row->lock = xact;
	add_row(xact->table->sim, &xact->locked, &xact->n_locked, &xact->size_locked, row);
	return true;
}

void table_wait(struct xact *xact, struct row *row, agenda_fn *resume, void *context)
{
	struct xact **at = &row->lock->waiters;

	while (*at != NULL)
		at = &(*at)->next_waiter;
	*at = xact;
	xact->next_waiter = NULL;
	xact->resume = resume;
	xact->context = context;
}

struct version *table_write(struct xact *xact, struct row *row)
{
	struct version *version;

	assert(row->lock == xact);
	if (row->newest != NULL && row->newest->by == xact)
		return row->newest;
	version = arena_take(xact->table->sim->arena, 1, sizeof(*version));
	if (row->newest != NULL)
		*version = *row->newest;
	version->older = row->newest;
	version->commit = 0;
	version->by = xact;
	xact->wrote = true;
	version->ctid = ++xact->table->ctids;
	row->newest = version;
	return version;
}

struct row *table_insert(struct xact *xact, const char *key, const char *topic)
{
	struct table *table = xact->table;
	struct row *row = arena_take(table->sim->arena, 1, sizeof(*row));
	struct version *version;

	row->id = (int64_t)table->n_rows + 1;
	row->created_at = xact->now;
	row->key = key;
	row->topic = topic;
	add_row(table->sim, &table->rows, &table->n_rows, &table->size_rows, row);
	(void)table_lock(xact, row);
	version = table_write(xact, row);
	version->state = ROW_PENDING;
	version->available_at = xact->now;
	version->lease_until = version->settled_at = TABLE_NULL;
	return row;
}

struct row *table_find(const struct table *table, int64_t id)
{
	return id >= 1 && (size_t)id <= table->n_rows ? table->rows[id - 1] : NULL;
}
