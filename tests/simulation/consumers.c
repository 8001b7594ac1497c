#include "consumers.h"

#include "record.h"

struct consumers {
	struct sim *sim;
	struct table *table;
	int acts; /* results under way */
};

/* One result. */
struct act {
	struct consumers *consumers;
	struct xact xact;
	struct row *row;
	enum row_state state;
	int32_t attempt;
	bool any_attempt;
	int64_t pause_us; /* before a row that is pending again is due */
};

struct consumers *consumers_new(struct sim *sim, struct table *table)
{
	struct consumers *consumers = arena_take(sim->arena, 1, sizeof(*consumers));

	consumers->sim = sim;
	consumers->table = table;
	return consumers;
}

/* WHERE state = in flight AND attempts = the one it was sent for; a success may count for any. */
static bool applies(const struct act *act, const struct version *version)
{
	if (version == NULL || version->settled_at != TABLE_NULL)
		return false;
	if (act->any_attempt)
		return version->state == ROW_IN_FLIGHT || version->state == ROW_PENDING;
	return version->state == ROW_IN_FLIGHT && version->attempts == act->attempt;
}

static void write_result(struct act *act)
{
	struct version *version = table_write(&act->xact, act->row);

	version->state = act->state;
	if (act->state == ROW_SENT) {
		version->settled_at = act->xact.now;
		version->last_error = NULL;
	} else if (act->state == ROW_FAILED) {
		version->last_error = "the consumer cannot do it";
	} else {
		check_asked(act->consumers->sim, act->row);
		version->available_at = act->xact.now + act->pause_us;
	}
}

static void commit(void *context)
{
	struct act *act = context;

	act->consumers->acts--;
	table_commit(&act->xact);
}

static void lock(void *context)
{
	struct act *act = context;
	struct sim *sim = act->consumers->sim;

	if (!table_lock(&act->xact, act->row)) {
		table_wait(&act->xact, act->row, lock, act);
		return;
	}
	if (!applies(act, table_committed(act->row))) {
		table_rollback(&act->xact);
		act->consumers->acts--;
		return;
	}
	write_result(act);
	record_write(&act->xact, act->row);
	sim_trace(sim, "the consumer of row %lld, attempt %d: %s", (long long)act->row->id, (int)act->attempt,
		  row_state_name(act->state));
	agenda_add(sim->agenda, sim_now(sim) + sim_delay(sim, MS, SECOND), commit, act);
}

static void begin(void *context)
{
	struct act *act = context;

	table_begin(act->consumers->table, &act->xact);
	table_snapshot(&act->xact);
	lock(act);
}

static void choose_result(struct sim *sim, struct act *act)
{
	double dice = (double)sim_between(sim, 1, 100) / 100;

	act->state = dice <= 0.75 ? ROW_SENT : dice <= 0.85 ? ROW_FAILED : ROW_PENDING;
	act->any_attempt = act->state == ROW_SENT && sim_chance(sim, 0.3);
	act->pause_us = sim_chance(sim, 0.5) ? 0 : sim_between(sim, 0, 5 * SECOND);
}

/* Often before the relay has heard of the delivery; in the end everybody is in time. */
static int64_t choose_delay(struct sim *sim, int64_t timeout_us)
{
	double dice = (double)sim_between(sim, 1, 100) / 100;

	if (dice <= 0.4 || sim->calm)
		return sim_delay(sim, MS, timeout_us / 4);
	if (dice <= 0.7)
		return sim_between(sim, 0, timeout_us);
	return sim_between(sim, timeout_us / 2, 2 * timeout_us);
}

void consumers_take(struct consumers *consumers, const struct publication *publication)
{
	struct sim *sim = consumers->sim;
	struct act *act;

	if (publication->claim == NULL || publication->start->config->on_delivered != ON_DELIVERED_AWAIT ||
	    sim_fault(sim, 0.15))
		return;
	act = arena_take(sim->arena, 1, sizeof(*act));
	act->consumers = consumers;
	act->row = publication->row;
	act->attempt = check_attempt(publication);
	choose_result(sim, act);
	consumers->acts++;
	agenda_add(sim->agenda, sim_now(sim) + choose_delay(sim, publication->start->config->result_timeout_us),
		   begin, act);
}

bool consumers_done(const struct consumers *consumers)
{
	return consumers->acts == 0;
}
