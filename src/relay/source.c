/* The source's states, its pass, and what is asked of it from outside. private.h has the invariants. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const state_names[] = {"starting", "running", "paused", "broken", "draining", "stopped"};

const char *source_state_name(enum source_state state)
{
	return state_names[state];
}

void source_change_state(struct source *source, enum source_state state, const char *why)
{
	static const char *const events[] = {"source_starting", "source_running",  "source_paused",
					     "source_broken",	"source_draining", "source_stopped"};
	const struct log_fact facts[] = {log_str("source", source->config->name),
					 log_str("from", state_names[source->state]),
					 log_str("to", state_names[state]), log_str("why", why)};
	enum log_level level = state == SOURCE_BROKEN ? LOG_ERROR : LOG_INFO;

	/* A broken source goes round every ten seconds. */
	if (state == SOURCE_BROKEN || source->state == SOURCE_BROKEN)
		log_write_limited(level, events[state], source->config->name, facts, 4);
	else
		log_write(level, events[state], facts, 4);
	source->state = state;
}

void source_move_row(struct row *row, enum row_stage stage)
{
	struct source *source = row->batch->source;

	list_move(&source->stages[row->stage], &source->stages[stage], &row->stage_node);
	row->stage = stage;
}

/* ---- making and freeing ---- */

static void init_stats(struct source *source)
{
	static const char *const job_names[JOBS] = {"settle", "expire", "suspect", "claim",
						    "sweep",  "count",	"inspect"};
	struct metrics *metrics = source->env.metrics;
	const char *name = source->config->name;
	struct source_stats *stats = &source->stats;
	int i;

	stats->claimed = metrics_series(metrics, METRIC_CLAIMED, name, NULL);
	stats->lease_expired = metrics_series(metrics, METRIC_LEASE_EXPIRED, name, NULL);
	stats->result_timeouts = metrics_series(metrics, METRIC_RESULT_TIMEOUTS, name, NULL);
	stats->fenced = metrics_series(metrics, METRIC_SETTLE_FENCED, name, NULL);
	stats->dead_letters = metrics_series(metrics, METRIC_DEAD_LETTERS, name, NULL);
	stats->lock_timeouts = metrics_series(metrics, METRIC_LOCK_TIMEOUTS, name, NULL);
	stats->duplicate_lease = metrics_series(metrics, METRIC_POSSIBLE_DUPLICATES, name, "lease_expired");
	stats->duplicate_crash = metrics_series(metrics, METRIC_POSSIBLE_DUPLICATES, name, "crash_recovered");
	stats->duplicate_replaced = metrics_series(metrics, METRIC_POSSIBLE_DUPLICATES, name, "producer_replaced");
	stats->duplicate_timed_out = metrics_series(metrics, METRIC_POSSIBLE_DUPLICATES, name, "timed_out");
	stats->commit_to_ack = metrics_histogram(metrics, METRIC_COMMIT_TO_ACK, name, NULL);
	for (i = 0; i < OUTCOMES; i++)
		stats->settled[i] = metrics_series(metrics, METRIC_SETTLED, name, outcome_name(source, i));
	for (i = 0; i < JOBS; i++)
		stats->transaction[i] = metrics_histogram(metrics, METRIC_TRANSACTION, name, job_names[i]);
}

bool source_wants_gapless(const struct config_source *config)
{
	return config->ordering == ORDERING_KEY && config->max_in_flight_per_key > 1;
}

static void init_jobs(struct source *source)
{
	int i;

	for (i = 0; i < JOBS; i++)
		source->jobs[i].source = source;
	source->due_us[SCHED_EXPIRE] = source->due_us[SCHED_SUSPECT] = SCHED_NEVER;
}

/* What can be known without the database. The configuration has been checked: its templates and its table's name are right. */
static void prepare(struct source *source)
{
	struct err err;
	bool named = sql_table_name(source->config->table, &source->table, &err);

	source->route = route_new(source->config, &err);
	assert(named && source->route != NULL);
	(void)named;
	source->n_cells = SQL_CLAIM_COLUMNS + route_templates(source->route).n_columns;
	source->cells = MEM_NEW_ARRAY(source->n_cells, struct slice);
}

struct source *source_new(const struct config_source *config, const struct source_env *env)
{
	struct source *source = MEM_NEW(struct source);
	size_t share = (size_t)config->max_in_flight / 4;
	int i;

	source->config = config;
	source->env = *env;
	for (i = 0; i < ROW_STAGES; i++)
		list_init(&source->stages[i]);
	keys_init(&source->keys, share > 0 ? share : 1);
	source->window = source_wants_gapless(config) ? (size_t)config->max_in_flight_per_key : 1;
	backoff_seed(&source->random, env->seed);
	source->settle = settle_new();
	source->settle_limit = SETTLE_ALL;
	source->pool_losses = dbpool_losses(env->pool);
	source->stale_at_us = INT64_MAX;
	source->topics_limit = TOPICS_MAX;
	claim_name_owner(source);
	init_jobs(source);
	init_stats(source);
	prepare(source);
	return source;
}

static void free_rows(struct source *source)
{
	struct row *row;
	int i;

	HASH_CLEAR(hh, source->ids);
	for (i = 0; i < ROW_STAGES; i++)
		while ((row = STAGE_FIRST(source, i)) != NULL) {
			list_remove(&source->stages[i], &row->stage_node);
			batch_free_row(row);
		}
}

void source_free(struct source *source)
{
	int i;

	free_rows(source);
	keys_free(&source->keys);
	topics_free(source);
	for (i = 0; i < JOBS; i++)
		db_result_free(source->jobs[i].result);
	settle_free(source->settle);
	pgarray_free(&source->hot_names);
	pgarray_free(&source->hot_held);
	sql_free(source->sql);
	sql_free(source->tried);
	route_free(source->route);
	mem_free(source->cells);
	buf_free(&source->table);
	buf_free(&source->reason);
	buf_free(&source->death);
	mem_free(source);
}

/* ---- the pass ---- */

static bool any_running(const struct source *source)
{
	int i;

	for (i = 0; i < JOBS; i++)
		if (source->jobs[i].running)
			return true;
	return false;
}

static void look_at_database(struct source *source)
{
	uint64_t losses = dbpool_losses(source->env.pool);

	/* What was under way on that connection may or may not have been done: outcomes first, then claims. */
	if (losses == source->pool_losses)
		return;
	source->settle_first = true;
	source->pool_losses = losses;
	CRASH_POINT(LOSS_NOTICED);
}

/* Kafka away: nothing is claimed or handed over. What the library has queued is asked back only when the outage lasts: a
 * broker that returns soon gets it in order and without duplicates. */
static void look_at_kafka(struct source *source)
{
	const struct kafka *kafka = source->env.kafka;

	/* Of a new producer one row finds out more, and sooner than it tells by itself. */
	if (kafka_up(kafka) || (kafka_untried(kafka) && source->rows <= 1)) {
		if (source->kafka_down_us == 0)
			return;
		source->due_us[SCHED_CLAIM] = source->now_us;
		source->kafka_down_us = 0;
		source->purged = false;
		CRASH_POINT(OUTAGE_OVER);
		return;
	}
	if (source->kafka_down_us == 0) {
		source->kafka_down_us = source->now_us;
		CRASH_POINT(OUTAGE_NOTICED);
	}
	if (source->purged || source->now_us - source->kafka_down_us < OUTAGE_GRACE_US)
		return;
	source->purged = true;
	kafka_purge(source->env.kafka, false);
	kafka_purge(source->env.single, false);
	kafka_purge(source->env.careful, false);
	CRASH_POINT(OUTAGE_LASTING);
}

/* Rows wait for their key and for Kafka's queue: that must not eat their leases. */
static void look_at_leases(struct source *source)
{
	if (source->leases_due_us > source->now_us)
		return;
	source->leases_due_us = source->now_us + LEASES_EVERY_US;
	publish_release_short(source);
}

static bool may_publish(const struct source *source)
{
	return source->state == SOURCE_RUNNING && source->kafka_down_us == 0 &&
	       breaker_would_pass(&source->cluster, source->now_us);
}

static void check_invariants(const struct source *source)
{
	size_t sum = 0;
	int i;

	for (i = 0; i < ROW_STAGES; i++)
		sum += source->stages[i].length;
	assert(sum == source->rows);
	assert(list_empty(&source->stages[STAGE_ANSWERED]));
	assert(list_empty(&source->stages[STAGE_REFUSED]) || !list_empty(&source->stages[STAGE_IN_FLIGHT]));
}

static void stop_when_done(struct source *source)
{
	if (source->state != SOURCE_DRAINING || any_running(source))
		return;
	if (source->rows == 0)
		source_change_state(source, SOURCE_STOPPED, "nothing is held any more");
	else if (source->leaving && list_empty(&source->stages[STAGE_IN_FLIGHT]))
		source_change_state(source, SOURCE_STOPPED, "what could not be written is left to its lease");
	else
		return;
	CRASH_POINT(DRAIN_DONE);
}

/* The earliest of what time alone changes. */
static int64_t next_time(const struct source *source, int64_t jobs, bool published)
{
	int64_t again = jobs;

	if (!published)
		return source->now_us;
	/* Refused for a full queue, or a producer being replaced: an answer makes room, but not always. */
	if (!list_empty(&source->stages[STAGE_QUEUED]) && source->now_us + 10 * MS < again)
		again = source->now_us + 10 * MS;
	/* Once that has passed only a row, or a claim, can find out more. */
	if (source->cluster.state == BREAKER_OPEN && source->cluster.until_us > source->now_us &&
	    source->cluster.until_us < again)
		again = source->cluster.until_us;
	if (source->kafka_down_us != 0 && !source->purged && source->kafka_down_us + OUTAGE_GRACE_US < again)
		again = source->kafka_down_us + OUTAGE_GRACE_US;
	if (source->rows > 0 && source->leases_due_us < again)
		again = source->leases_due_us;
	return again;
}

int64_t source_step(struct source *source, int64_t now_us)
{
	bool published = true;
	int64_t again;

	if (source->state == SOURCE_STOPPED)
		return INT64_MAX;
	source->now_us = now_us;
	look_at_database(source);
	look_at_kafka(source);
	look_at_leases(source);
	answer_handle_all(source);
	jobs_handle_answers(source);
	if (source->rows == 0)
		source->suspect_held = false;
	if (may_publish(source))
		published = publish_rows(source);
	else
		publish_release_all(source);
	again = jobs_start(source);
	stop_when_done(source);
	check_invariants(source);
	return next_time(source, again, published);
}

/* ---- from outside ---- */

void source_wake(struct source *source)
{
	source->due_us[SCHED_CLAIM] = source->now_us;
	source->woken_us = source->now_us;
}

void source_drain(struct source *source)
{
	if (source->state == SOURCE_DRAINING || source->state == SOURCE_STOPPED)
		return;
	source_change_state(source, SOURCE_DRAINING, "asked to");
	CRASH_POINT(DRAIN_BEGUN);
}

void source_abandon(struct source *source)
{
	source->abandoned = true;
	CRASH_POINT(DRAIN_LATE);
}

void source_leave(struct source *source)
{
	source->leaving = true;
}

enum source_state source_get_state(const struct source *source)
{
	return source->state;
}

const struct config_source *source_config(const struct source *source)
{
	return source->config;
}

size_t source_in_flight(const struct source *source)
{
	return source->stages[STAGE_IN_FLIGHT].length;
}

size_t source_held(const struct source *source)
{
	return source->rows;
}

size_t source_left_to_leases(const struct source *source)
{
	return source->rows + source->forgotten;
}

struct source_health source_get_health(struct source *source)
{
	const struct topic *topic = topics_next_faulty(source, NULL);

	if (source->config->paused)
		return (struct source_health){NULL, NULL};
	if (!dbpool_up(source->env.pool))
		return (struct source_health){"postgres", dbpool_reason(source->env.pool)};
	if (source->state == SOURCE_STARTING)
		return (struct source_health){"table", "not looked at yet"};
	/* What the catalog cannot show, such as a privilege, is mended only when a claim has gone through. */
	if (source->broken.text[0] != '\0')
		return (struct source_health){"table", source->broken.text};
	if (!kafka_up(source->env.kafka))
		return (struct source_health){"kafka", kafka_reason(source->env.kafka)};
	/* Once its time has passed, only a row could show more: without one, nothing speaks against being ready. */
	if (!breaker_would_pass(&source->cluster, source->now_us))
		return (struct source_health){"kafka", "messages time out or are refused by the cluster"};
	if (topic != NULL) {
		buf_clear(&source->reason);
		buf_print(&source->reason, "topic %s: %s", topic->name, topic->error);
		return (struct source_health){"kafka", buf_text(&source->reason)};
	}
	return (struct source_health){NULL, NULL};
}

int64_t source_counted_us(const struct source *source)
{
	return source->counted_us;
}

static void set_gauge(struct source *source, enum metric metric, double value)
{
	metrics_series(source->env.metrics, metric, source->config->name, NULL)->value = value;
}

void source_update_metrics(struct source *source)
{
	static const enum metric counted[] = {METRIC_ROWS, METRIC_OLDEST_PENDING_AGE, METRIC_BLOCKED_KEYS,
					      METRIC_SNAPSHOT_AGE};
	const struct list *stages = source->stages;
	size_t i;

	set_gauge(source, METRIC_POSTGRES_UP, dbpool_up(source->env.pool));
	set_gauge(source, METRIC_KAFKA_UP, kafka_up(source->env.kafka));
	set_gauge(source, METRIC_QUEUED,
		  (double)(stages[STAGE_WAITING].length + stages[STAGE_QUEUED].length +
			   stages[STAGE_REFUSED].length));
	set_gauge(source, METRIC_IN_FLIGHT, (double)stages[STAGE_IN_FLIGHT].length);
	set_gauge(source, METRIC_UNSETTLED,
		  (double)(stages[STAGE_UNSETTLED].length + stages[STAGE_SETTLING].length));
	topics_update_metrics(source);
	/* Yesterday's numbers must not look like today's. */
	if (source->now_us < source->stale_at_us)
		return;
	for (i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		metrics_drop(source->env.metrics, counted[i], source->config->name);
	source->stale_at_us = INT64_MAX;
}
