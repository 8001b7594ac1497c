#include "io/dbconn.h"

#include "base/log.h"
#include "base/mem.h"

struct dbpool {
	struct config_postgres config;
	struct db *dbs;
	size_t n_dbs;
	struct list
		lists[DB_STATES]; /* each connection is in the list of its state; who was sent to first is first */
	struct err reason;
	uint64_t losses;
};

static bool is_up(enum db_state state)
{
	return state == DB_IDLE || state == DB_BUSY || state == DB_TIDYING;
}

static void log_up(const struct db *db)
{
	PGconn *pg = db->conn.pg;

	/* What was summed up about the time before must not look like news of a time after. */
	log_flush_limited(true);
	LOG(LOG_INFO, "postgres_up", log_str("host", PQhost(pg)), log_str("port", PQport(pg)),
	    log_str("database", PQdb(pg)), log_int("server_version", PQserverVersion(pg)));
}

static void log_down(const struct dbpool *pool, enum db_state from, const char *reason)
{
	if (!dbpool_up(pool))
		LOG_LIMITED(LOG_ERROR, "postgres_down", reason, log_str("reason", reason));
	else
		LOG_LIMITED(LOG_WARN, is_up(from) ? "postgres_connection_lost" : "postgres_connect_failed", reason,
			    log_str("reason", reason));
}

static void on_change(void *context, struct db *db, enum db_state from, const char *why)
{
	struct dbpool *pool = context;
	bool was_up = dbpool_up(pool);

	list_move(&pool->lists[from], &pool->lists[db->state], &db->node);
	if (is_up(from) && !is_up(db->state))
		pool->losses++;
	if (dbpool_up(pool) && !was_up) {
		pool->reason.text[0] = '\0';
		log_up(db);
		dbpool_hurry(pool);
	}
	if (why == NULL)
		return;
	if (!dbpool_up(pool))
		err_set(&pool->reason, "%s", why);
	log_down(pool, from, why);
}

struct dbpool *dbpool_new(struct ev_loop *loop, const struct config_postgres *config)
{
	struct dbpool *pool = MEM_NEW(struct dbpool);

	pool->config = pgdsn_copy_config(config);
	pool->n_dbs = (size_t)config->connections;
	pool->dbs = MEM_NEW_ARRAY(pool->n_dbs, struct db);
	err_set(&pool->reason, "not yet connected");
	for (size_t i = 0; i < DB_STATES; i++)
		list_init(&pool->lists[i]);
	for (size_t i = 0; i < pool->n_dbs; i++) {
		db_start(&pool->dbs[i], loop, &pool->config, on_change, pool);
		list_append(&pool->lists[DB_DOWN], &pool->dbs[i].node);
	}
	return pool;
}

void dbpool_free(struct dbpool *pool)
{
	struct list_node *node;

	if (pool == NULL)
		return;
	for (size_t i = 0; i < DB_CLOSED; i++)
		while ((node = list_first(&pool->lists[i])) != NULL)
			db_stop(LIST_OWNER(node, struct db, node));
	pgdsn_free_config(&pool->config);
	mem_free(pool->dbs);
	mem_free(pool);
}

bool dbpool_submit(struct dbpool *pool, const struct db_request *request)
{
	struct list_node *node = list_first(&pool->lists[DB_IDLE]);

	return node != NULL && db_submit(LIST_OWNER(node, struct db, node), request);
}

bool dbpool_free_slot(const struct dbpool *pool)
{
	return !list_empty(&pool->lists[DB_IDLE]);
}

bool dbpool_up(const struct dbpool *pool)
{
	for (size_t i = 0; i < DB_STATES; i++)
		if (is_up((enum db_state)i) && !list_empty(&pool->lists[i]))
			return true;
	return false;
}

const char *dbpool_reason(const struct dbpool *pool)
{
	return pool->reason.text;
}

void dbpool_hurry(struct dbpool *pool)
{
	struct list_node *node;

	for (node = list_first(&pool->lists[DB_DOWN]); node != NULL; node = list_next(&pool->lists[DB_DOWN], node))
		pgconn_hurry(&LIST_OWNER(node, struct db, node)->conn);
}

uint64_t dbpool_losses(const struct dbpool *pool)
{
	return pool->losses;
}
