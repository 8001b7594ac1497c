/* What all statements share, and those that only keep the table in order: expire, settle, sweep. */
#include "checker.h"
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

const struct version *statement_lock(struct statement *statement, struct row *row, const struct version *seen)
{
	if (!table_lock(&statement->xact, row))
		return NULL;
	if (row->newest->by != &statement->xact && table_committed(row) != seen)
		check_changed(statement->sim);
	if (statement->sim->broken == BREAK_RECHECK)
		return seen;
	/* Rows that this very statement has written keep showing as they were. */
	return row->newest->by == &statement->xact ? seen : table_committed(row);
}

struct version *statement_write(struct statement *statement, enum effect_kind kind, struct row *row)
{
	const struct version *before = table_committed(row);
	struct version *after = table_write(&statement->xact, row);

	if (statement->n_effects == statement->size_effects) {
		size_t size = 2 * statement->size_effects + 16;
		struct effect *larger = arena_take(statement->sim->arena, size, sizeof(struct effect));

		if (statement->n_effects > 0)
			memcpy(larger, statement->effects, statement->n_effects * sizeof(struct effect));
		statement->effects = larger;
		statement->size_effects = size;
	}
	statement->effects[statement->n_effects++] =
		(struct effect){.kind = kind, .row = row, .before = before, .after = after};
	return after;
}

bool statement_expired(const struct statement *statement, const struct version *version)
{
	return version->lease_until == TABLE_NULL || version->lease_until <= statement->xact.now ||
	       statement->sim->broken == BREAK_LEASE_TIME;
}

enum sql_taken statement_taken(const struct statement *statement, const struct version *version)
{
	const char *owner = statement->params.owner;

	if (version->state == ROW_PENDING)
		return SQL_TAKEN_PENDING;
	if (statement_late(statement, version))
		return SQL_TAKEN_LATE;
	if (owner != NULL && version->lease_owner != NULL && strcmp(version->lease_owner, owner) == 0)
		return SQL_TAKEN_OWN;
	return SQL_TAKEN_FOREIGN;
}

bool statement_used_up(const struct statement *statement, const struct version *version)
{
	if (statement->config->dead_letter_topic != NULL)
		return version->attempts == statement->params.max_attempts ||
		       version->attempts - SQL_DEATHS_MAX >= statement->params.max_attempts;
	return version->attempts >= statement->params.max_attempts;
}

int pick_by_due(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	if (x->version->available_at != y->version->available_at)
		return x->version->available_at < y->version->available_at ? -1 : 1;
	return (x->row->id > y->row->id) - (x->row->id < y->row->id);
}

void statement_payload(const struct row *row, int revision, char text[STATEMENT_PAYLOAD])
{
	snprintf(text, STATEMENT_PAYLOAD, "{\"id\": %lld, \"revision\": %d}", (long long)row->id, revision);
}

int64_t statement_bytes(const struct row *row, const struct version *version)
{
	char text[STATEMENT_PAYLOAD];

	statement_payload(row, version->revision, text);
	return row->tombstone ? 0 : (int64_t)strlen(text) + 1;
}

size_t statement_scan(struct statement *statement, pick_test *test, struct pick **picks)
{
	const struct table *table = statement->xact.table;
	size_t n = 0;

	*picks = arena_take(statement->sim->arena, table->n_rows + 1, sizeof(struct pick));
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct version *version = table_visible(table->rows[i], statement->xact.snapshot);

		if (version != NULL && test(statement, table->rows[i], version))
			(*picks)[n++] = (struct pick){table->rows[i], version};
	}
	qsort(*picks, n, sizeof(struct pick), pick_by_due);
	return n;
}

size_t statement_key(struct statement *statement, const char *key, struct pick **picks)
{
	const struct table *table = statement->xact.table;
	size_t n = 0;

	*picks = arena_take(statement->sim->arena, table->n_rows + 1, sizeof(struct pick));
	for (size_t i = 0; i < table->n_rows; i++) {
		struct row *row = table->rows[i];
		const struct version *version;

		if (row->key == NULL || strcmp(row->key, key) != 0)
			continue;
		version = table_visible(row, statement->xact.snapshot);
		if (version != NULL && table_open(version, statement->config->on_failed == ON_FAILED_BLOCK))
			(*picks)[n++] = (struct pick){row, version};
	}
	return n;
}

/* ---- expire ---- */

static bool is_exhausted(const struct statement *statement, const struct row *row, const struct version *version)
{
	(void)row;
	return version->settled_at == TABLE_NULL && version->available_at <= statement->xact.now &&
	       version->state == ROW_IN_FLIGHT && statement_expired(statement, version) &&
	       statement_used_up(statement, version);
}

static const char *reason_to_expire(const struct statement *statement, const struct version *version)
{
	struct buf text = {0};
	const char *reason;

	if (!statement_late(statement, version))
		return "lease expired";
	buf_add_string(&text, "no result within ");
	value_print_duration(&text, statement->config->result_timeout_us);
	reason = sim_copy(statement->sim, buf_text(&text));
	buf_free(&text);
	return reason;
}

static void expire_row(struct statement *statement, struct row *row)
{
	struct version *version = statement_write(statement, EFFECT_EXPIRED, row);
	int32_t max = statement->params.max_attempts;
	bool letters = statement->config->dead_letter_topic != NULL;
	char error[400];

	if (letters && version->attempts > max)
		snprintf(error, sizeof(error), "%s; no dead letter, for its lease expired each time",
			 version->last_error == NULL ? "" : version->last_error);
	else
		snprintf(error, sizeof(error), "%s, attempt %d of %d", reason_to_expire(statement, version),
			 (int)version->attempts, (int)max);
	version->state = letters && version->attempts == max ? ROW_PENDING : ROW_FAILED;
	if (version->state == ROW_FAILED)
		version->available_at = TABLE_SENTINEL;
	version->lease_until = TABLE_NULL;
	version->lease_owner = NULL;
	version->last_error = sim_copy(statement->sim, error);
}

void statement_expire(struct statement *statement)
{
	struct pick *picks;
	size_t n = statement_scan(statement, is_exhausted, &picks);

	for (size_t i = 0; i < n && statement->sim->broken != BREAK_EXPIRE; i++) {
		const struct version *now = statement_lock(statement, picks[i].row, picks[i].version);

		if (now != NULL && is_exhausted(statement, picks[i].row, now))
			expire_row(statement, picks[i].row);
	}
}

/* ---- settle ---- */

static bool is_held(const struct statement *statement, const struct version *version, const struct outcome *outcome)
{
	enum sim_break broken = statement->sim->broken;

	if (version == NULL || version->state != ROW_IN_FLIGHT)
		return false;
	if (broken == BREAK_FENCE_OWNER)
		return true;
	if (broken == BREAK_FENCE_DELETE && outcome->state == ROW_SENT &&
	    statement->config->on_delivered == ON_DELIVERED_DELETE)
		return true;
	if (broken != BREAK_FENCE_LEASE && version->lease_until != outcome->lease)
		return false;
	return outcome->owner == NULL ||
	       (version->lease_owner != NULL && strcmp(version->lease_owner, outcome->owner) == 0);
}

/* await: delivered, and its result is due. */
static void dispatch_row(struct statement *statement, struct row *row, const struct outcome *outcome)
{
	struct version *version = statement_write(statement, EFFECT_SETTLED, row);

	statement->effects[statement->n_effects - 1].outcome = outcome;
	version->available_at = version->lease_until = statement->xact.now + statement->params.result_timeout_us;
	version->lease_owner = NULL;
}

static void settle_row(struct statement *statement, struct row *row, const struct outcome *outcome)
{
	struct version *version = statement_write(statement, EFFECT_SETTLED, row);
	int64_t now = statement->xact.now;

	statement->effects[statement->n_effects - 1].outcome = outcome;
	version->state = outcome->state;
	version->deleted = outcome->state == ROW_SENT && statement->config->on_delivered == ON_DELIVERED_DELETE;
	if (statement->sim->broken != BREAK_GIVE_BACK)
		version->attempts = version->attempts > outcome->back ? version->attempts - outcome->back : 0;
	if (outcome->state == ROW_FAILED)
		version->available_at = TABLE_SENTINEL;
	else if (outcome->state == ROW_PENDING && (outcome->delay_us > 0 || statement_awaits(statement)))
		version->available_at = now + outcome->delay_us;
	if (outcome->state == ROW_SENT)
		version->last_error = NULL;
	else if (outcome->error != NULL)
		version->last_error = outcome->error;
	version->settled_at = outcome->state == ROW_SENT ? now : TABLE_NULL;
	version->lease_until = TABLE_NULL;
	version->lease_owner = NULL;
}

/* Whatever its state, the row is locked first; what its consumer has finished is no longer in flight. */
static bool settle_awaiting(struct statement *statement, struct row *row, struct outcome *outcome,
			    agenda_fn *resume, void *context)
{
	const struct version *version;

	if (row == NULL || table_visible(row, statement->xact.snapshot) == NULL)
		return true;
	if (!table_lock(&statement->xact, row)) {
		table_wait(&statement->xact, row, resume, context);
		return false;
	}
	version = table_committed(row);
	if (version == NULL || (version->state != ROW_IN_FLIGHT && statement->sim->broken != BREAK_FENCE_RESULT))
		return true;
	outcome->fenced = row->newest->by == &statement->xact ||
			  (!is_held(statement, version, outcome) && version->state == ROW_IN_FLIGHT);
	if (outcome->fenced)
		return true;
	if (outcome->state == ROW_SENT)
		dispatch_row(statement, row, outcome);
	else
		settle_row(statement, row, outcome);
	return true;
}

bool statement_settle(struct statement *statement, agenda_fn *resume, void *context)
{
	for (; statement->next_outcome < statement->params.n_outcomes; statement->next_outcome++) {
		struct outcome *outcome = &statement->params.outcomes[statement->next_outcome];
		struct row *row = table_find(statement->xact.table, outcome->id);

		if (statement_awaits(statement)) {
			if (!settle_awaiting(statement, row, outcome, resume, context))
				return false;
			continue;
		}
		if (row == NULL || !is_held(statement, table_visible(row, statement->xact.snapshot), outcome))
			continue;
		if (!table_lock(&statement->xact, row)) {
			table_wait(&statement->xact, row, resume, context);
			return false;
		}
		if (row->newest->by != &statement->xact && is_held(statement, table_committed(row), outcome))
			settle_row(statement, row, outcome);
	}
	return true;
}

/* ---- sweep ---- */

static bool is_parked(const struct statement *statement, const struct row *row, const struct version *version)
{
	(void)statement;
	(void)row;
	return version->settled_at == TABLE_NULL && version->available_at == TABLE_SENTINEL &&
	       (version->state == ROW_PENDING || version->state == ROW_IN_FLIGHT);
}

static bool is_key_free(struct statement *statement, const char *key)
{
	struct pick *open;

	if (key == NULL || statement->config->ordering == ORDERING_NONE)
		return true;
	if (statement_key(statement, key, &open) == 0)
		return false;
	return open[0].version->state != ROW_FAILED && open[0].version->available_at != TABLE_INFINITY;
}

void statement_sweep(struct statement *statement)
{
	struct pick *picks;
	size_t n = statement_scan(statement, is_parked, &picks);

	for (size_t i = 0; i < n && statement->sim->broken != BREAK_SWEEP; i++) {
		const struct version *now;

		if (!is_key_free(statement, picks[i].row->key))
			continue;
		now = statement_lock(statement, picks[i].row, picks[i].version);
		if (now != NULL && is_parked(statement, picks[i].row, now))
			statement_write(statement, EFFECT_MOVED, picks[i].row)->available_at = statement->xact.now;
	}
}

bool statement_run(struct statement *statement, agenda_fn *resume, void *context)
{
	switch (statement->kind) {
	case SQL_CLAIM:
	case SQL_CLAIM_FAR:
		statement_claim(statement);
		break;
	case SQL_SUSPECT:
		statement_suspect(statement);
		break;
	case SQL_EXPIRE:
		statement_expire(statement);
		break;
	case SQL_SETTLE_SENT:
	case SQL_SETTLE:
		return statement_settle(statement, resume, context);
	case SQL_SWEEP:
		statement_sweep(statement);
		break;
	default: /* those that only read */
		break;
	}
	return true;
}
