/* The server's side of a request: its moments, from begin to commit. */
#include "record.h"
#include "request.h"

#include <string.h>

int64_t request_moment(const struct request *request, int64_t low_us, int64_t high_us)
{
	struct fakedb *db = request->pool->db;
	int64_t at = sim_now(db->sim) + sim_delay(db->sim, low_us, high_us);

	return at + (db->slow_until > sim_now(db->sim) && sim_chance(db->sim, 0.3) ? db->slow_us : 0);
}

static void refuse(struct request *request, const char *sqlstate)
{
	request->stage = STAGE_ENDED;
	request->sqlstate = sqlstate;
	table_rollback(&request->statement.xact);
	agenda_add(request->pool->db->sim->agenda, request_moment(request, 200, 500 * MS), request_on_answer,
		   request);
}

static void trace_effects(const struct request *request)
{
	const struct statement *statement = &request->statement;

	for (size_t i = 0; i < statement->n_effects && statement->sim->trace; i++) {
		const struct effect *effect = &statement->effects[i];

		sim_trace(statement->sim, "  row %lld of %s: %s to %s, attempts %d, due %+.3f",
			  (long long)effect->row->id, effect->row->key == NULL ? "no key" : effect->row->key,
			  row_state_name(effect->before->state), row_state_name(effect->after->state),
			  (int)effect->after->attempts,
			  (double)(effect->after->available_at - statement->xact.now) / SECOND);
	}
}

static void on_commit(void *context)
{
	struct request *request = context;
	struct sim *sim = request->pool->db->sim;

	request->stage = STAGE_ENDED;
	if (request->doomed) {
		table_rollback(&request->statement.xact);
		return;
	}
	table_commit(&request->statement.xact);
	request_trace(request, "commits");
	trace_effects(request);
	check_commit(request->start, &request->statement);
	agenda_add(sim->agenda, request_moment(request, 200, SECOND), request_on_answer, request);
}

/* Some rows' data cannot be written. */
static const char *cursed(const struct request *request)
{
	const struct params *params = &request->statement.params;

	for (size_t i = 0; i < params->n_outcomes; i++) {
		const struct row *row = table_find(request->pool->db->table, params->outcomes[i].id);

		if (row->curse == 2)
			return "23514";
		if (row->curse == 1 && params->outcomes[i].error != NULL &&
		    strncmp(params->outcomes[i].error, "settle refused", 14) != 0)
			return "22021";
	}
	return NULL;
}

static const char *injected_error(const struct request *request)
{
	static const char *const passing[] = {"40001", "40P01", "55P03", "57014", "53200"};
	struct fakedb *db = request->pool->db;
	enum sql_kind kind = request->statement.kind;

	if (kind != SQL_INSPECT && db->revoked_until > sim_now(db->sim))
		return "42501";
	if (cursed(request) != NULL)
		return cursed(request);
	if ((kind == SQL_CLAIM || kind == SQL_CLAIM_FAR) && sim_fault(db->sim, 0.01))
		return sim_chance(db->sim, 0.7) ? "22P02" : "22003";
	if (sim_fault(db->sim, 0.01))
		return passing[sim_between(db->sim, 0, 4)];
	return NULL;
}

static void start_waiting(struct request *request)
{
	if (request->waiting_since != 0)
		return;
	record_wait(&request->statement);
	request->waiting_since = sim_now(request->pool->db->sim);
}

static void on_run(void *context)
{
	struct request *request = context;
	struct sim *sim = request->pool->db->sim;
	const char *error;

	if (request->stage == STAGE_ENDED)
		return;
	request->stage = request->doomed ? STAGE_ENDED : STAGE_RUNNING;
	if (request->doomed) {
		table_rollback(&request->statement.xact);
		return;
	}
	request->statement.absent = request->pool->db->revoked_until > sim_now(sim) && sim_chance(sim, 0.5);
	error = injected_error(request);
	if (error != NULL) {
		refuse(request, error);
		return;
	}
	if (!request->recorded && sim->record != NULL) {
		/* The real server cannot be stopped between the snapshot of these and their locks. */
		table_snapshot(&request->statement.xact);
		record_start(&request->statement, request->raw, request->n_raw);
		request->recorded = true;
	}
	if (!statement_run(&request->statement, on_run, request)) {
		start_waiting(request);
		return;
	}
	if (request->waiting_since != 0 &&
	    sim_now(sim) - request->waiting_since > request->pool->db->table->lock_timeout_us) {
		refuse(request, "55P03");
		return;
	}
	record_run(&request->statement);
	request->stage = STAGE_RUN;
	if (sim->broken == BREAK_EARLY_ANSWER && request->statement.kind == SQL_CLAIM && sim_chance(sim, 0.02)) {
		request->doomed = true;
		agenda_add(sim->agenda, sim_now(sim), request_on_answer, request);
	}
	agenda_add(sim->agenda, request_moment(request, 300, 300 * MS), on_commit, request);
}

/* await: claims go one after the other: each sees what the one before it has committed. */
static bool takes_turn(struct request *request)
{
	struct table *table = request->pool->db->table;
	enum sql_kind kind = request->statement.kind;

	if (!statement_awaits(&request->statement) || (kind != SQL_CLAIM && kind != SQL_CLAIM_FAR) ||
	    table->sim->broken == BREAK_TURN)
		return true;
	if (table->turn != NULL)
		return false;
	table->turn = &request->statement.xact;
	return true;
}

static void on_snapshot(void *context)
{
	struct request *request = context;
	struct sim *sim = request->pool->db->sim;

	if (!takes_turn(request)) {
		if (sim_now(sim) - request->statement.xact.began_us > request->pool->db->table->lock_timeout_us)
			refuse(request, "55P03");
		else
			agenda_add(sim->agenda, sim_now(sim) + MS, on_snapshot, request);
		return;
	}
	table_snapshot(&request->statement.xact);
	if (request->statement.kind == SQL_CLAIM || request->statement.kind == SQL_CLAIM_FAR ||
	    request->statement.kind == SQL_SUSPECT || request->statement.kind == SQL_EXPIRE) {
		record_start(&request->statement, request->raw, request->n_raw);
		request->recorded = true;
	}
	agenda_add(request->pool->db->sim->agenda, request_moment(request, 200, 200 * MS), on_run, request);
}

void request_on_begin(void *context)
{
	struct request *request = context;

	if (request->doomed) {
		request->stage = STAGE_ENDED;
		return;
	}
	request->stage = STAGE_BEGUN;
	table_begin(request->pool->db->table, &request->statement.xact);
	agenda_add(request->pool->db->sim->agenda, request_moment(request, 50, 20 * MS), on_snapshot, request);
}
