#include "people.h"

#include "record.h"

#include <stdlib.h>
#include <string.h>

struct people {
	struct sim *sim;
	struct table *table;
	struct people_habits habits;
	int inserted, crashers, retries;
	int acts; /* transactions under way */
	bool blocking;
	agenda_fn *woken;
	void *context;
};

enum act_kind {
	ACT_INSERT,
	ACT_SKIP,
	ACT_RETRY,
	ACT_EDIT,	/* a pending row's payload */
	ACT_RESCHEDULE, /* a pending row, a little later or earlier */
	ACT_HOLD,	/* a pending row, until somebody lets it go */
	ACT_LET_GO,
	ACT_MARK,  /* a failed row as sent, by hand, with nobody unparking what it blocked */
	ACT_DELETE /* a failed row */
};

/* One transaction. */
struct act {
	struct people *people;
	enum act_kind kind;
	struct xact xact;
	struct row *row;
};

static bool applies(const struct act *act, const struct version *version)
{
	if (version == NULL || version->settled_at != TABLE_NULL)
		return false;
	switch (act->kind) {
	case ACT_SKIP:
	case ACT_RETRY:
	case ACT_MARK:
	case ACT_DELETE:
		return version->state == ROW_FAILED;
	case ACT_EDIT:
		return version->state == ROW_PENDING;
	case ACT_RESCHEDULE:
	case ACT_HOLD:
		return version->state == ROW_PENDING && version->available_at < TABLE_SENTINEL;
	case ACT_LET_GO:
		return version->state == ROW_PENDING && version->available_at == TABLE_INFINITY;
	case ACT_INSERT:
		break;
	}
	return false;
}

static void write_act(struct act *act)
{
	struct sim *sim = act->people->sim;
	int64_t now = act->xact.now;
	struct version *version = table_write(&act->xact, act->row);

	if (act->kind == ACT_SKIP || act->kind == ACT_MARK || act->kind == ACT_DELETE)
		check_people(sim, act->row);
	if (act->kind == ACT_SKIP) {
		version->last_error = "skipped: on purpose";
		version->settled_at = now;
	} else if (act->kind == ACT_RETRY) {
		check_retried(sim, act->row);
		version->state = ROW_PENDING;
		version->attempts = 0;
		version->available_at = now;
	} else if (act->kind == ACT_MARK) {
		version->state = ROW_SENT;
		version->settled_at = now;
	} else if (act->kind == ACT_DELETE) {
		version->deleted = true;
	} else if (act->kind == ACT_EDIT) {
		version->revision++;
	} else if (act->kind == ACT_HOLD) {
		version->available_at = TABLE_INFINITY;
	} else if (act->kind == ACT_LET_GO) {
		version->available_at = now;
	} else {
		version->available_at = now + sim_between(sim, -10 * SECOND, 10 * SECOND);
	}
}

/* The second statement of retry and skip: what was parked behind the row is due. SKIP LOCKED. */
static void unpark(struct act *act)
{
	const struct table *table = act->people->table;

	table_snapshot(&act->xact);
	for (size_t i = 0; i < table->n_rows; i++) {
		struct row *row = table->rows[i];
		const struct version *version = table_visible(row, act->xact.snapshot);

		if (row->key == NULL || act->row->key == NULL || strcmp(row->key, act->row->key) != 0 ||
		    version == NULL || version->state != ROW_PENDING || version->available_at != TABLE_SENTINEL ||
		    !table_lock(&act->xact, row))
			continue;
		version = table_committed(row);
		if (version != NULL && row->newest->by == NULL && version->state == ROW_PENDING &&
		    version->available_at == TABLE_SENTINEL) {
			table_write(&act->xact, row)->available_at = act->xact.now;
			record_write(&act->xact, row);
		}
	}
}

static void commit_act(void *context)
{
	struct act *act = context;
	struct people *people = act->people;

	people->acts--;
	if (act->kind == ACT_INSERT && sim_fault(people->sim, 0.05)) {
		table_rollback(&act->xact);
		return;
	}
	table_commit(&act->xact);
	if (act->kind == ACT_INSERT && sim_chance(people->sim, 0.7))
		people->woken(people->context);
}

static void lock_act(void *context)
{
	struct act *act = context;
	struct people *people = act->people;

	if (!table_lock(&act->xact, act->row)) {
		table_wait(&act->xact, act->row, lock_act, act);
		return;
	}
	if (!applies(act, table_committed(act->row))) {
		table_rollback(&act->xact);
		people->acts--;
		return;
	}
	write_act(act);
	record_write(&act->xact, act->row);
	if (act->kind == ACT_SKIP || act->kind == ACT_RETRY)
		unpark(act);
	sim_trace(people->sim, "people %d row %lld", (int)act->kind, (long long)act->row->id);
	agenda_add(people->sim->agenda, sim_now(people->sim) + sim_delay(people->sim, 2 * MS, 2 * SECOND),
		   commit_act, act);
}

static struct act *begin_act(struct people *people, enum act_kind kind)
{
	struct act *act = arena_take(people->sim->arena, 1, sizeof(*act));

	act->people = people;
	act->kind = kind;
	people->acts++;
	table_begin(people->table, &act->xact);
	table_snapshot(&act->xact);
	return act;
}

/* To some row that is fit for it; where says whether to all. */
static void act_on(struct people *people, enum act_kind kind, bool all)
{
	struct act probe = {.people = people, .kind = kind};
	size_t n = people->table->n_rows, from = n == 0 ? 0 : (size_t)sim_between(people->sim, 0, (int64_t)n - 1);

	for (size_t i = 0; i < n; i++) {
		struct row *row = people->table->rows[(from + i) % n];
		struct act *act;

		if (!applies(&probe, table_committed(row)))
			continue;
		act = begin_act(people, kind);
		act->row = row;
		lock_act(act);
		if (!all)
			return;
	}
}

/* ---- inserting ---- */

static const char *random_key(struct people *people)
{
	char text[16];
	int64_t key = sim_between(people->sim, 0, people->habits.keys);

	if (key == 0)
		return NULL;
	/* The first is the one that everybody writes to. */
	if (sim_chance(people->sim, 0.3))
		key = 1;
	snprintf(text, sizeof(text), "key-%d", (int)key);
	return sim_copy(people->sim, text);
}

static void insert_row(struct people *people, struct act *act)
{
	static const char *const topics[] = {"orders", "orders", "payments", "stock"};
	struct sim *sim = people->sim;
	const char *key = random_key(people);
	int64_t topic = key == NULL || sim_chance(sim, people->habits.stray) ? sim_between(sim, 0, 3) : key[4] % 4;
	struct row *row = table_insert(&act->xact, key, topics[topic]);

	people->inserted++;
	row->tombstone = sim_chance(sim, people->habits.tombstone);
	row->curse = sim_chance(sim, people->habits.curse) ? (int)sim_between(sim, 1, 2) : 0;
	if (sim_chance(sim, people->habits.poison)) {
		row->nature = NATURE_POISON;
	} else if (sim_chance(sim, people->habits.unrouted)) {
		row->nature = NATURE_UNROUTED;
		row->topic = NULL;
	} else if (people->crashers < people->habits.crashers && people->inserted > people->habits.rows / 3) {
		row->nature = NATURE_CRASHER;
		people->crashers++;
	}
	record_insert(&act->xact, row);
}

static void insert(struct people *people)
{
	struct sim *sim = people->sim;
	struct act *act = begin_act(people, ACT_INSERT);
	int64_t n = sim_chance(sim, 0.1) ? sim_between(sim, 1, 30) : sim_between(sim, 1, 6);

	for (int64_t i = 0; i < n && people->inserted < people->habits.rows; i++)
		insert_row(people, act);
	agenda_add(sim->agenda, sim_now(sim) + sim_delay(sim, 5 * MS, 3 * SECOND), commit_act, act);
}

static void on_insert(void *context)
{
	struct people *people = context;
	struct sim *sim = people->sim;
	int64_t left = people->habits.until_us - sim_now(sim);

	if (people->inserted >= people->habits.rows)
		return;
	insert(people);
	agenda_add(sim->agenda,
		   sim_now(sim) + (left > SECOND ? sim_between(sim, 0, left / 8) : sim_between(sim, 0, 100 * MS)),
		   on_insert, people);
}

/* ---- operators and hands ---- */

static void on_idle(void *context)
{
	static const enum act_kind by_hand[] = {ACT_EDIT, ACT_EDIT,   ACT_EDIT, ACT_RESCHEDULE, ACT_RESCHEDULE,
						ACT_HOLD, ACT_LET_GO, ACT_MARK, ACT_DELETE};
	struct people *people = context;
	struct sim *sim = people->sim;

	if (sim->calm)
		return;
	if (sim_chance(sim, 0.3))
		act_on(people, ACT_SKIP, false);
	if (people->retries < 5 && sim_chance(sim, 0.3)) {
		people->retries++;
		act_on(people, ACT_RETRY, false);
	}
	if (people->habits.by_hand)
		act_on(people, by_hand[sim_between(sim, 0, 8)], false);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, people->habits.pace_us), on_idle, people);
}

struct people *people_new(struct sim *sim, struct table *table, const struct people_habits *habits,
			  agenda_fn *woken, void *context)
{
	struct people *people = arena_take(sim->arena, 1, sizeof(*people));

	people->sim = sim;
	people->table = table;
	people->habits = *habits;
	people->woken = woken;
	people->context = context;
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, 3 * SECOND), on_insert, people);
	agenda_add(sim->agenda, sim_now(sim) + 2 * SECOND, on_idle, people);
	return people;
}

void people_note_blocking(struct people *people)
{
	people->blocking = true;
}

void people_clear(struct people *people)
{
	act_on(people, ACT_LET_GO, true);
	if (people->blocking)
		act_on(people, ACT_SKIP, true);
}

bool people_done(const struct people *people)
{
	if (people->acts > 0 || people->inserted < people->habits.rows)
		return false;
	for (size_t i = 0; i < people->table->n_rows; i++) {
		const struct version *version = table_committed(people->table->rows[i]);

		if (version != NULL && table_open(version, people->blocking))
			return false;
	}
	return true;
}
