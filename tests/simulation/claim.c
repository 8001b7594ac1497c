/* The claim and the suspect claim. Each step is one part of the statement's text, under the name it has there. */
#include "statement.h"

#include <stdlib.h>
#include <string.h>

/* The candidates of one key, in order; and of the key's open rows that are not ours the first. */
struct run {
	const char *key;
	struct pick *rs, *open;
	size_t n, n_open, free;
	int64_t due;
};

static bool is_due(const struct statement *statement, const struct version *version)
{
	const struct params *params = &statement->params;
	int32_t most = params->max_attempts < 2 ? params->max_attempts : 2;

	if (statement->sim->broken == BREAK_SUSPECTS)
		most = params->max_attempts;
	if (version->settled_at != TABLE_NULL || version->available_at > statement->xact.now)
		return false;
	return version->state == ROW_PENDING || (version->state == ROW_IN_FLIGHT &&
						 statement_expired(statement, version) && version->attempts < most);
}

/* await: the two kinds of rows that a claim takes. */
static bool is_over(const struct statement *statement, const struct row *row, const struct version *version)
{
	const struct params *params = &statement->params;
	int32_t most = params->max_attempts < 2 || statement_late(statement, version) ? params->max_attempts : 2;

	(void)row;
	return version->state == ROW_IN_FLIGHT && version->settled_at == TABLE_NULL &&
	       version->available_at <= statement->xact.now && statement_expired(statement, version) &&
	       version->attempts < most;
}

static bool is_in_flight(const struct statement *statement, const struct row *row, const struct version *version)
{
	(void)statement;
	(void)row;
	return version->state == ROW_IN_FLIGHT && version->settled_at == TABLE_NULL;
}

static bool is_candidate(const struct statement *statement, const struct row *row, const struct version *version)
{
	const struct params *params = &statement->params;

	if (statement->kind == SQL_CLAIM_FAR && statement->sim->broken != BREAK_PULL &&
	    (version->available_at < params->far_due ||
	     (version->available_at == params->far_due && row->id <= params->far_id)))
		return false;
	return is_due(statement, version);
}

static bool is_fresh(const struct statement *statement, const struct row *row, const struct version *version)
{
	return version->state == ROW_PENDING && is_candidate(statement, row, version);
}

static bool is_suspect(const struct statement *statement, const struct row *row, const struct version *version)
{
	(void)row;
	return version->settled_at == TABLE_NULL && version->available_at <= statement->xact.now &&
	       version->state == ROW_IN_FLIGHT && statement_expired(statement, version) && version->attempts >= 2 &&
	       !statement_used_up(statement, version) && !statement_late(statement, version);
}

/* Due rows in due order, locked. A row that has changed since the snapshot is there as it is now, if it still qualifies. */
static size_t lock_candidates(struct statement *statement, pick_test *test, size_t limit, struct pick **out)
{
	struct pick *picks;
	size_t n = statement_scan(statement, test, &picks), taken = 0;

	for (size_t i = 0; i < n && taken < limit; i++) {
		const struct version *now = statement_lock(statement, picks[i].row, picks[i].version);

		if (now != NULL && test(statement, picks[i].row, now))
			picks[taken++] = (struct pick){picks[i].row, now};
	}
	*out = picks;
	return taken;
}

/* Of the locked rows those that fit: one at least. The last of them is where a far claim goes on. */
static size_t cut_by_bytes(struct statement *statement, struct pick *picks, size_t n)
{
	int64_t before = 0;
	size_t i;

	qsort(picks, n, sizeof(*picks), pick_by_due);
	for (i = 0; i < n && (before == 0 || before < statement->params.max_bytes); i++)
		before += statement_bytes(picks[i].row, picks[i].version);
	if (i > 0) {
		statement->first = picks[0].version;
		statement->first_id = picks[0].row->id;
		statement->last = picks[i - 1].version;
		statement->last_id = picks[i - 1].row->id;
	}
	return i;
}

static int by_key_and_id(const void *a, const void *b)
{
	const struct row *x = ((const struct pick *)a)->row, *y = ((const struct pick *)b)->row;
	int order = 0;

	if (x->key != NULL && y->key != NULL)
		order = strcmp(x->key, y->key);
	else if (x->key != NULL || y->key != NULL)
		order = x->key == NULL ? 1 : -1;
	return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

/* The candidates of the key that begins at picks[0]. */
static struct run next_run(struct pick *picks, size_t n)
{
	struct run run = {.key = picks[0].row->key, .rs = picks, .due = picks[0].version->available_at};
	const char *key = run.key;

	while (run.n < n && (picks[run.n].row->key == key || (key != NULL && picks[run.n].row->key != NULL &&
							      strcmp(picks[run.n].row->key, key) == 0))) {
		if (picks[run.n].version->available_at < run.due)
			run.due = picks[run.n].version->available_at;
		run.n++;
	}
	return run;
}

static bool is_ours(const struct statement *statement, const struct version *version)
{
	if (statement->params.owner == NULL || version->state != ROW_IN_FLIGHT || version->lease_owner == NULL ||
	    strcmp(version->lease_owner, statement->params.owner) != 0)
		return false;
	return version->lease_until != TABLE_NULL && version->lease_until > statement->xact.now;
}

static size_t share_left(const struct statement *statement, const struct run *run)
{
	const struct params *params = &statement->params;
	int64_t left = params->share;

	if (statement->sim->broken == BREAK_SHARE)
		return run->n;
	for (size_t i = 0; i < params->n_hot; i++) {
		if (strcmp(params->hot_keys[i], run->key) == 0)
			left -= params->hot_held[i];
	}
	if (left < 0)
		left = 0;
	return (size_t)left < run->n ? (size_t)left : run->n;
}

static bool same(const struct statement *statement, const struct pick *a, const struct pick *b)
{
	return statement->sim->broken == BREAK_CTID ? a->row == b->row : a->version->ctid == b->version->ctid;
}

/* The first n open rows that are not ours, and how many of them are the candidates. */
static void find_free(struct statement *statement, struct run *run)
{
	size_t all, limit;

	if (run->key == NULL || statement->config->ordering == ORDERING_NONE) {
		run->free = run->n;
		return;
	}
	all = statement_key(statement, run->key, &run->open);
	limit = share_left(statement, run);
	for (size_t i = 0; i < all && run->n_open < limit; i++) {
		if (!is_ours(statement, run->open[i].version))
			run->open[run->n_open++] = run->open[i];
	}
	while (run->free < run->n && run->free < run->n_open &&
	       same(statement, &run->rs[run->free], &run->open[run->free]))
		run->free++;
	if (statement->sim->broken == BREAK_KEY_ORDER)
		run->free = run->n;
}

/* An UPDATE by ctid finds only the version that its snapshot shows. */
static bool found_by_ctid(const struct statement *statement, const struct pick *pick)
{
	return table_visible(pick->row, statement->xact.snapshot) == pick->version;
}

static void claim_row(struct statement *statement, const struct pick *pick)
{
	const struct params *params = &statement->params;
	struct version *version;

	if (!found_by_ctid(statement, pick))
		return;
	version = statement_write(statement, EFFECT_CLAIMED, pick->row);
	version->state = ROW_IN_FLIGHT;
	if (statement->sim->broken != BREAK_ATTEMPTS)
		version->attempts++;
	version->lease_until = statement->xact.now + params->lease_us;
	version->lease_owner = params->owner;
	if (statement_awaits(statement))
		version->available_at = version->lease_until;
}

static void park(struct statement *statement, const struct pick *picks, size_t n, int64_t until)
{
	for (size_t i = 0; i < n; i++) {
		enum sql_taken taken;
		struct version *version;

		if (!found_by_ctid(statement, &picks[i]))
			continue;
		taken = statement_taken(statement, picks[i].version);
		statement->parked_own += taken == SQL_TAKEN_OWN;
		statement->parked_foreign += taken == SQL_TAKEN_FOREIGN;
		version = statement_write(statement, EFFECT_MOVED, picks[i].row);
		version->available_at = until;
		statement->parked++;
		if (statement->sim->broken == BREAK_PARK_STATE)
			continue;
		version->state = ROW_PENDING;
		version->lease_until = TABLE_NULL;
		version->lease_owner = NULL;
	}
}

/* Behind an obstacle that has failed, is held, or waits: moved to its time. */
static void park_behind(struct statement *statement, const struct pick *obstacle, const struct pick *picks,
			size_t n)
{
	const struct version *version = obstacle->version;
	int64_t latest = statement->xact.now + statement->params.park_max_us;

	if (version->state == ROW_IN_FLIGHT ||
	    (version->state != ROW_FAILED && version->available_at <= statement->xact.now))
		return;
	if (statement_lock(statement, obstacle->row, version) != version)
		return;
	if (version->state == ROW_FAILED || version->available_at == TABLE_INFINITY)
		park(statement, picks, n, TABLE_SENTINEL);
	else
		park(statement, picks, n, version->available_at < latest ? version->available_at : latest);
}

static bool among(const struct run *run, const struct row *row)
{
	for (size_t i = 0; i < run->n; i++) {
		if (run->rs[i].row == row)
			return true;
	}
	return false;
}

static bool may_be_pulled(const struct statement *statement, const struct version *version)
{
	return version->state == ROW_PENDING ||
	       (version->state == ROW_IN_FLIGHT && statement_expired(statement, version));
}

/* Open rows that are due, but later than the key's candidates: drawn forward. */
static void pull(struct statement *statement, const struct run *run)
{
	for (size_t i = run->free; i < run->n && i < run->n_open && statement->sim->broken != BREAK_PULL; i++) {
		const struct pick *late = &run->open[i];

		if (among(run, late->row) || !may_be_pulled(statement, late->version) ||
		    late->version->available_at <= run->due || late->version->available_at > statement->xact.now)
			continue;
		if (statement_lock(statement, late->row, late->version) != late->version)
			continue;
		statement_write(statement, EFFECT_MOVED, late->row)->available_at = run->due;
		statement->pulled++;
	}
}

/* await: of the rows in flight, which are bounded, those whose time is over; and pending ones for the room that is left. */
static size_t lock_bounded(struct statement *statement, struct pick **out)
{
	size_t limit = (size_t)statement->params.limit, most = (size_t)statement->params.max_in_flight, seen = 0;
	struct pick *in_flight, *fresh, *picks;
	size_t n_in_flight = statement_scan(statement, is_in_flight, &in_flight), n = 0, room, n_fresh;

	if (n_in_flight > most)
		n_in_flight = most;
	picks = arena_take(statement->sim->arena, statement->xact.table->n_rows + limit + 1, sizeof(*picks));
	for (size_t i = 0; i < n_in_flight && seen < limit; i++) {
		const struct version *now;

		if (in_flight[i].version->available_at > statement->xact.now)
			break;
		seen++;
		if (!is_over(statement, in_flight[i].row, in_flight[i].version))
			continue;
		now = statement_lock(statement, in_flight[i].row, in_flight[i].version);
		if (now != NULL && is_over(statement, in_flight[i].row, now))
			picks[n++] = (struct pick){in_flight[i].row, now};
	}
	room = most - n_in_flight < limit - n ? most - n_in_flight : limit - n;
	n_fresh = lock_candidates(statement, is_fresh, room, &fresh);
	statement->full = n_in_flight + n_fresh >= most;
	for (size_t i = 0; i < n_fresh; i++)
		picks[n++] = fresh[i];
	*out = picks;
	return n;
}

void statement_claim(struct statement *statement)
{
	struct pick *picks;
	size_t n = statement_awaits(statement)
			   ? lock_bounded(statement, &picks)
			   : lock_candidates(statement, is_candidate, (size_t)statement->params.limit, &picks);

	statement->candidates = (int64_t)n;
	n = cut_by_bytes(statement, picks, n);
	qsort(picks, n, sizeof(*picks), by_key_and_id);
	for (size_t i = 0; i < n;) {
		struct run run = next_run(&picks[i], n - i);

		find_free(statement, &run);
		statement->free += (int64_t)run.free;
		for (size_t j = 0; j < run.free; j++)
			claim_row(statement, &run.rs[j]);
		if (run.free < run.n && run.free < run.n_open) {
			park_behind(statement, &run.open[run.free], &run.rs[run.free], run.n - run.free);
			pull(statement, &run);
		}
		i += run.n;
	}
}

/* The first open row of each suspect's key; of those that are suspects themselves, one. */
void statement_suspect(struct statement *statement)
{
	struct pick *picks;
	size_t n = lock_candidates(statement, is_suspect, 100, &picks);
	const struct pick *one = NULL;

	qsort(picks, n, sizeof(*picks), by_key_and_id);
	for (size_t i = 0; i < n;) {
		struct run run = next_run(&picks[i], n - i);
		const struct pick *head = run.rs;

		if (run.key != NULL && statement->config->ordering == ORDERING_KEY &&
		    statement_key(statement, run.key, &run.open) > 0)
			head = run.open;
		if (is_suspect(statement, head->row, head->version)) {
			statement->ambiguous |= one != NULL;
			if (one == NULL && found_by_ctid(statement, head) &&
			    statement_lock(statement, head->row, head->version) == head->version)
				one = head;
		}
		park_behind(statement, head, run.rs, run.n);
		i += run.n;
	}
	statement->free = one != NULL;
	if (one != NULL)
		claim_row(statement, one);
}
