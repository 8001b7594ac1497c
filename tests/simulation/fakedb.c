/* The client's side: pools, connections and their faults, answers. request.h has the picture. */
#include "request.h"

#include "record.h"

#include <assert.h>
#include <string.h>

/* The client gives a statement up after this long. */
#define CLIENT_TIMEOUT (15 * SECOND)

struct fakedb *fakedb_new(struct sim *sim, struct sql_templates templates, struct table *table)
{
	struct fakedb *db = arena_take(sim->arena, 1, sizeof(*db));

	db->sim = sim;
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
	int64_t down = pool->db->down_until, frozen = pool->process->frozen_us;

	if (pool->left || connection->ready)
		return;
	if (down > sim_now(sim) || frozen > sim_now(sim)) {
		agenda_add(sim->agenda, (down > frozen ? down : frozen) + sim_between(sim, 0, SECOND), reconnect,
			   connection);
		return;
	}
	connection->ready = true;
	pool->process->step(pool->process->context);
}

static void connect_later(struct connection *connection)
{
	struct sim *sim = connection->pool->db->sim;

	agenda_add(sim->agenda, sim_now(sim) + sim_delay(sim, 100 * MS, 10 * SECOND), reconnect, connection);
}

struct dbpool *fakedb_pool(struct fakedb *db, struct process *process, int connections)
{
	struct dbpool *pool = arena_take(db->sim->arena, 1, sizeof(*pool));

	pool->db = db;
	pool->process = process;
	check_trouble(process, db->troubled_until);
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

static struct connection *free_connection(const struct dbpool *pool)
{
	for (int i = 0; i < pool->n_connections; i++) {
		if (pool->connections[i].ready && pool->connections[i].request == NULL)
			return &pool->connections[i];
	}
	return NULL;
}

bool dbpool_free_slot(const struct dbpool *pool)
{
	return free_connection(pool) != NULL;
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
	static const char *const names[SQL_KINDS] = {
		[SQL_CLAIM] = "claim",	 [SQL_CLAIM_FAR] = "far claim", [SQL_SUSPECT] = "suspect claim",
		[SQL_EXPIRE] = "expire", [SQL_SETTLE] = "settle",	[SQL_SETTLE_SENT] = "settle sent",
		[SQL_SWEEP] = "sweep",	 [SQL_COUNT] = "count",		[SQL_INSPECT] = "inspect"};

	return names[kind];
}

void request_trace(const struct request *request, const char *what)
{
	sim_trace(request->statement.sim, "%d.%d %s %s", request->start->instance, request->start->number,
		  kind_name(request->statement.kind), what);
}

static void answer(struct request *request, struct db_answer *given)
{
	struct dbpool *pool = request->pool;

	request->answered = true;
	if (request->connection != NULL)
		request->connection->request = NULL;
	request->connection = NULL;
	given->duration_us = sim_now(pool->db->sim) - request->sent_us;
	request_trace(request, verdict_name(given->verdict));
	check_db_answer(request->start, &request->statement, given->verdict);
	request->on_answer(request->context, given);
	pool->process->step(pool->process->context);
}

/* Has the process been suspended? Then this event waits in its socket until it goes on. */
static bool frozen(const struct request *request, agenda_fn *fn)
{
	const struct process *process = request->pool->process;

	if (!process_frozen(process))
		return false;
	agenda_add(process->sim->agenda, process->frozen_us, fn, (void *)(uintptr_t)request);
	return true;
}

/* The client knows, or is no more. */
static bool is_over(const struct request *request)
{
	return request->answered || request->pool->left;
}

void request_on_answer(void *context)
{
	struct request *request = context;
	struct db_answer given = {.verdict = VERDICT_OK, .message = ""};

	if (is_over(request) || frozen(request, request_on_answer))
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

	if (!is_over(request) && !frozen(request, on_unknown))
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
	check_trouble(connection->pool->process, sim_now(sim) + 20 * SECOND);
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

	if (!is_over(request) && request->connection != NULL && !frozen(request, on_client_timeout))
		lose(request->connection);
}

void fakedb_cut(struct dbpool *pool)
{
	lose(&pool->connections[sim_between(pool->db->sim, 0, pool->n_connections - 1)]);
}

/* Also for processes that start before that. */
static void trouble_all(struct fakedb *db, int64_t until_us)
{
	if (db->troubled_until < until_us)
		db->troubled_until = until_us;
	for (struct dbpool *pool = db->pools; pool != NULL; pool = pool->next)
		check_trouble(pool->process, until_us);
}

void fakedb_restart(struct fakedb *db, int64_t until_us)
{
	db->down_until = until_us;
	trouble_all(db, until_us + 20 * SECOND);
	for (struct dbpool *pool = db->pools; pool != NULL; pool = pool->next) {
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
	trouble_all(db, until_us + extra_us + 20 * SECOND);
}

void fakedb_revoke(struct fakedb *db, int64_t until_us)
{
	db->revoked_until = until_us;
	trouble_all(db, until_us + 20 * SECOND);
}

void fakedb_leap(struct fakedb *db, int64_t by_us)
{
	db->table->ahead_us += by_us;
	/* What has a lease by now, or has just looked at the clock. */
	if (by_us > 0)
		trouble_all(db, sim_now(db->sim) + 20 * SECOND);
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

bool dbpool_submit(struct dbpool *pool, const struct db_request *asked)
{
	struct connection *connection = free_connection(pool);
	struct fakedb *db = pool->db;
	struct request *request;

	assert(!pool->left && pool->process->asking != NULL);
	if (connection == NULL)
		return false;
	request = arena_take(db->sim->arena, 1, sizeof(*request));
	request->pool = pool;
	request->start = pool->process->asking;
	request->connection = connection;
	connection->request = request;
	request->on_answer = asked->on_answer;
	request->context = asked->context;
	request->sent_us = sim_now(db->sim);
	request->statement.sim = db->sim;
	request->statement.config = request->start->config;
	request->statement.kind = asked->statement->kind;
	request->statement.templates = db->templates;
	request->statement.living = &request->start->results;
	params_read(db->sim, request->start->config, asked->statement, asked->values, &request->statement.params);
	request->n_raw = asked->statement->n_params;
	request->raw = record_values(db->sim, asked->values, request->n_raw);
	request_trace(request, "submitted");
	check_submit(request->start, &request->statement);
	agenda_add(db->sim->agenda, request_moment(request, 200, 200 * MS), request_on_begin, request);
	agenda_add(db->sim->agenda, sim_now(db->sim) + CLIENT_TIMEOUT, on_client_timeout, request);
	return true;
}
