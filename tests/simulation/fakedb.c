/* A request goes through moments, with a random delay before each:
 *
 *   dbpool_submit -> begin (now()) -> snapshot -> locks and writes -> commit -> answer
 *
 * A lost connection ends it at any of them: the client learns "unknown" a little later, and the server, which has had the
 * whole pipeline from the start, may go on and commit all the same, even after the client has been told. */
#include "fakedb.h"

#include "record.h"

#include <assert.h>
#include <string.h>

/* The client gives a statement up after this long. */
#define CLIENT_TIMEOUT (15 * SECOND)

struct connection {
	struct dbpool *pool;
	bool ready;
	struct request *request; /* the one outstanding */
};

struct dbpool {
	struct fakedb *db;
	struct start *start;
	bool left;
	struct connection *connections;
	int n_connections;
	uint64_t losses;
	struct dbpool *next;
};

struct fakedb {
	struct sim *sim;
	const struct config_source *config;
	struct table *table;
	struct sql_templates templates;
	struct dbpool *pools;
	int64_t down_until, slow_us, slow_until, revoked_until;
};

enum stage { STAGE_SENT, STAGE_BEGUN, STAGE_RUNNING, STAGE_RUN, STAGE_ENDED };

struct request {
	struct statement statement;
	struct dbpool *pool;
	struct connection *connection;
	db_answer_fn *on_answer;
	void *context;
	enum stage stage;
	bool doomed;	      /* the server will roll back */
	bool answered;	      /* the client has been told, or is gone */
	const char *sqlstate; /* of an injected error, or NULL */
	bool early;	      /* BREAK_EARLY_ANSWER */
	int64_t sent_us, waiting_since;
	struct slice *raw; /* copies of its values, for the record */
	int n_raw;
	bool recorded;
};

struct fakedb *fakedb_new(struct sim *sim, const struct config_source *config, struct sql_templates templates,
			  struct table *table)
{
	struct fakedb *db = arena_take(sim->arena, 1, sizeof(*db));

	db->sim = sim;
	db->config = config;
	db->templates = templates;
	db->table = table;
	return db;
}

/* ---- connections ---- */

static void reconnect(void *context)
{
	struct connection *connection = context;
	struct dbpool *pool = connection->pool;
	struct sim *sim = pool->db->sim;
	int64_t earliest =
		pool->db->down_until > pool->start->frozen_us ? pool->db->down_until : pool->start->frozen_us;

	if (pool->left || connection->ready)
		return;
	if (earliest > sim_now(sim)) {
		agenda_add(sim->agenda, earliest + sim_between(sim, 0, SECOND), reconnect, connection);
		return;
	}
	connection->ready = true;
	pool->start->step(pool->start->context);
}

static void connect_later(struct connection *connection)
{
	struct sim *sim = connection->pool->db->sim;

	agenda_add(sim->agenda, sim_now(sim) + sim_delay(sim, 100 * MS, 10 * SECOND), reconnect, connection);
}

struct dbpool *fakedb_pool(struct fakedb *db, struct start *start, int connections)
{
	struct dbpool *pool = arena_take(db->sim->arena, 1, sizeof(*pool));

	pool->db = db;
	pool->start = start;
	pool->next = db->pools;
	db->pools = pool;
	pool->n_connections = connections;
	pool->connections = arena_take(db->sim->arena, (size_t)connections, sizeof(struct connection));
	for (int i = 0; i < connections; i++) {
		pool->connections[i].pool = pool;
		connect_later(&pool->connections[i]);
	}
	return pool;
}

bool dbpool_free_slot(const struct dbpool *pool)
{
	for (int i = 0; i < pool->n_connections; i++) {
		if (pool->connections[i].ready && pool->connections[i].request == NULL)
			return true;
	}
	return false;
}

bool dbpool_up(const struct dbpool *pool)
{
	for (int i = 0; i < pool->n_connections; i++) {
		if (pool->connections[i].ready)
			return true;
	}
	return false;
}

const char *dbpool_reason(const struct dbpool *pool)
{
	return dbpool_up(pool) ? "" : "connection refused";
}

uint64_t dbpool_losses(const struct dbpool *pool)
{
	return pool->losses;
}

/* ---- answers ---- */

static const char *kind_name(enum sql_kind kind)
{
	static const char *const names[SQL_KINDS] = {"claim",  "far claim", "suspect claim", "expire",
						     "settle", "sweep",	    "count",	     "inspect"};

	return names[kind];
}

static void trace(const struct request *request, const char *what)
{
	sim_trace(request->statement.sim, "%d.%d %s %s", request->pool->start->instance,
		  request->pool->start->number, kind_name(request->statement.kind), what);
}

static void answer(struct request *request, struct db_answer *given)
{
	struct dbpool *pool = request->pool;

	request->answered = true;
	if (request->connection != NULL)
		request->connection->request = NULL;
	request->connection = NULL;
	given->duration_us = sim_now(pool->db->sim) - request->sent_us;
	trace(request, verdict_name(given->verdict));
	check_db_answer(pool->start, &request->statement, given->verdict);
	request->on_answer(request->context, given);
	pool->start->step(pool->start->context);
}

/* Has the process been suspended? Then this event waits in its socket until it goes on. */
static bool frozen(const struct request *request, agenda_fn *fn)
{
	const struct start *start = request->pool->start;
	struct sim *sim = request->pool->db->sim;

	if (start->frozen_us <= sim_now(sim))
		return false;
	agenda_add(sim->agenda, start->frozen_us, fn, (void *)(uintptr_t)request);
	return true;
}

static void on_answer(void *context)
{
	struct request *request = context;
	struct db_answer given = {.verdict = VERDICT_OK, .message = ""};

	if (request->answered || frozen(request, on_answer))
		return;
	if (request->sqlstate != NULL) {
		struct sql_judgement judgement = verdict_of_sqlstate(request->sqlstate);

		given.verdict = judgement.verdict;
		given.fault = judgement.fault;
		memcpy(given.sqlstate, request->sqlstate, sizeof(given.sqlstate));
		/* Claims on partitioned tables fail so when a row has changed under them. */
		given.message = strcmp(request->sqlstate, "22P02") == 0 ? SQL_RACED_MARK : "injected";
	} else {
		given.result = result_of(&request->statement);
	}
	answer(request, &given);
}

static void on_unknown(void *context)
{
	struct request *request = context;
	struct db_answer given = {.verdict = VERDICT_UNKNOWN, .message = "connection lost"};

	if (!request->answered && !frozen(request, on_unknown))
		answer(request, &given);
}

static void lose(struct connection *connection)
{
	struct sim *sim = connection->pool->db->sim;
	struct request *request = connection->request;

	if (!connection->ready)
		return;
	connection->ready = false;
	connection->pool->losses++;
	check_trouble(connection->pool->start, sim_now(sim) + 20 * SECOND);
	connect_later(connection);
	if (request == NULL)
		return;
	request->connection = NULL;
	connection->request = NULL;
	/* In flight on the way there, or here: the server may have had it all the same. */
	request->doomed |= request->stage < STAGE_RUN && sim_chance(sim, 0.5);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, 20 * MS), on_unknown, request);
}

static void on_client_timeout(void *context)
{
	struct request *request = context;

	if (!request->answered && request->connection != NULL && !frozen(request, on_client_timeout))
		lose(request->connection);
}

void fakedb_cut(struct dbpool *pool)
{
	lose(&pool->connections[sim_between(pool->db->sim, 0, pool->n_connections - 1)]);
}

void fakedb_restart(struct fakedb *db, int64_t until_us)
{
	db->down_until = until_us;
	for (struct dbpool *pool = db->pools; pool != NULL; pool = pool->next) {
		check_trouble(pool->start, until_us + 20 * SECOND);
		for (int i = 0; i < pool->n_connections && !pool->left; i++) {
			struct request *request = pool->connections[i].request;

			if (request != NULL && request->stage < STAGE_ENDED)
				request->doomed = true;
			lose(&pool->connections[i]);
		}
	}
}

void fakedb_slow(struct fakedb *db, int64_t extra_us, int64_t until_us)
{
	db->slow_us = extra_us;
	db->slow_until = until_us;
	for (struct dbpool *pool = db->pools; pool != NULL; pool = pool->next)
		check_trouble(pool->start, until_us + extra_us + 20 * SECOND);
}

void fakedb_revoke(struct fakedb *db, int64_t until_us)
{
	db->revoked_until = until_us;
	for (struct dbpool *pool = db->pools; pool != NULL; pool = pool->next)
		check_trouble(pool->start, until_us + 20 * SECOND);
}

void fakedb_calm(struct fakedb *db)
{
	db->down_until = db->slow_until = db->revoked_until = sim_now(db->sim);
}

void fakedb_leave(struct dbpool *pool)
{
	pool->left = true;
	for (int i = 0; i < pool->n_connections; i++) {
		struct request *request = pool->connections[i].request;

		pool->connections[i].ready = false;
		if (request == NULL)
			continue;
		request->answered = true;
		request->connection = NULL;
		request->doomed |= request->stage < STAGE_RUN && sim_chance(pool->db->sim, 0.5);
	}
}

/* ---- the server's moments ---- */

static int64_t moment(struct request *request, int64_t low_us, int64_t high_us)
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
	agenda_add(request->pool->db->sim->agenda, moment(request, 200, 500 * MS), on_answer, request);
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
	trace(request, "commits");
	trace_effects(request);
	check_commit(request->pool->start, &request->statement);
	agenda_add(sim->agenda, moment(request, 200, SECOND), on_answer, request);
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

static void on_run(void *context)
{
	struct request *request = context;
	struct sim *sim = request->pool->db->sim;
	const char *error;

	if (request->stage == STAGE_ENDED)
		return;
	request->stage = STAGE_RUNNING;
	if (request->doomed) {
		request->stage = STAGE_ENDED;
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
		if (request->waiting_since == 0)
			record_wait(&request->statement);
		if (request->waiting_since == 0)
			request->waiting_since = sim_now(sim);
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
		agenda_add(sim->agenda, sim_now(sim), on_answer, request);
	}
	agenda_add(sim->agenda, moment(request, 300, 300 * MS), on_commit, request);
}

static void on_snapshot(void *context)
{
	struct request *request = context;

	table_snapshot(&request->statement.xact);
	if (request->statement.kind == SQL_CLAIM || request->statement.kind == SQL_CLAIM_FAR ||
	    request->statement.kind == SQL_SUSPECT || request->statement.kind == SQL_EXPIRE) {
		record_start(&request->statement, request->raw, request->n_raw);
		request->recorded = true;
	}
	agenda_add(request->pool->db->sim->agenda, moment(request, 200, 200 * MS), on_run, request);
}

static void on_begin(void *context)
{
	struct request *request = context;

	if (request->doomed) {
		request->stage = STAGE_ENDED;
		return;
	}
	request->stage = STAGE_BEGUN;
	table_begin(request->pool->db->table, &request->statement.xact);
	agenda_add(request->pool->db->sim->agenda, moment(request, 50, 20 * MS), on_snapshot, request);
}

static struct connection *free_connection(struct dbpool *pool)
{
	for (int i = 0; i < pool->n_connections; i++) {
		if (pool->connections[i].ready && pool->connections[i].request == NULL)
			return &pool->connections[i];
	}
	return NULL;
}

bool dbpool_submit(struct dbpool *pool, const struct db_request *asked)
{
	struct connection *connection = free_connection(pool);
	struct fakedb *db = pool->db;
	struct request *request;

	assert(!pool->left);
	if (connection == NULL)
		return false;
	request = arena_take(db->sim->arena, 1, sizeof(*request));
	request->pool = pool;
	request->connection = connection;
	connection->request = request;
	request->on_answer = asked->on_answer;
	request->context = asked->context;
	request->sent_us = sim_now(db->sim);
	request->statement.sim = db->sim;
	request->statement.config = db->config;
	request->statement.kind = asked->statement->kind;
	request->statement.templates = db->templates;
	request->statement.living = &pool->start->results;
	params_read(db->sim, db->config, asked->statement, asked->values, &request->statement.params);
	request->n_raw = asked->statement->n_params;
	request->raw = record_values(db->sim, asked->values, request->n_raw);
	trace(request, "submitted");
	check_submit(pool->start, &request->statement);
	agenda_add(db->sim->agenda, moment(request, 200, 200 * MS), on_begin, request);
	agenda_add(db->sim->agenda, sim_now(db->sim) + CLIENT_TIMEOUT, on_client_timeout, request);
	return true;
}
