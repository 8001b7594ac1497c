/* Starts jobs, and draws the conclusions of the small ones: inspect, expire, sweep, count. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define STATEMENT_BACKOFF_US (100 * MS)
#define STATEMENT_BACKOFF_MAX_US (10 * SECOND)

/* ---- sending ---- */

/* Only records: the next pass decides. */
static void on_answer(void *context, struct db_answer *answer)
{
	struct job *job = context;

	job->answered = true;
	job->verdict = answer->verdict;
	job->fault = answer->fault;
	snprintf(job->sqlstate, sizeof(job->sqlstate), "%s", answer->sqlstate);
	snprintf(job->message, sizeof(job->message), "%s", answer->message);
	job->result = answer->result;
	job->duration_us = answer->duration_us;
}

bool jobs_submit(struct source *source, int number, const struct sql_statement *statement,
		 const struct slice values[SQL_PARAMS])
{
	struct job *job = &source->jobs[number];
	struct slice ordered[SQL_PARAMS];
	struct db_request request = {
		.statement = statement, .values = ordered, .on_answer = on_answer, .context = job};
	int i;

	for (i = 0; i < statement->n_params; i++)
		ordered[i] = values[statement->params[i]];
	if (!dbpool_submit(source->env.pool, &request))
		return false;
	job->running = true;
	job->sent_us = source->now_us;
	return true;
}

/* ---- failing ---- */

static void break_source(struct source *source, const struct err *why)
{
	source->broken = *why;
	source->inspect_due_us = source->now_us + BROKEN_RETRY_US;
	if (source->state != SOURCE_BROKEN && source->state != SOURCE_DRAINING)
		source_change_state(source, SOURCE_BROKEN, why->text);
}

static void log_failure(struct source *source, const struct job *job, const char *name)
{
	char class[100];

	snprintf(class, sizeof(class), "%s %s %s", source->config->name, name, job->sqlstate);
	LOG_LIMITED(LOG_WARN, "statement_failed", class, log_str("source", source->config->name),
		    log_str("statement", name), log_str("verdict", verdict_name(job->verdict)),
		    log_str("error", job->sqlstate), log_str("text", job->message));
}

/* A missing privilege has a cure that we know. */
static void explain(struct err *why, const struct source *source, const struct job *job, const char *name)
{
	if (strcmp(job->sqlstate, "42501") == 0)
		err_set(why,
			"%s refused: %s (%s); `outboxd schema --source %s` ends with the GRANTs that are needed",
			name, job->message, job->sqlstate, source->config->name);
	else if (job->fault == SQL_DATA)
		err_set(why, "%s refused, perhaps for a row of which where makes an error: %s (%s)", name,
			job->message, job->sqlstate);
	else
		err_set(why, "%s refused: %s (%s)", name, job->message, job->sqlstate);
}

/* The condition of a source is evaluated by every claim, and before rows are chosen: where it fails on the data of one, nothing
 * is taken until somebody mends it or the row. */
static bool breaks_source(const struct source *source, const struct job *job)
{
	return job->fault == SQL_SOURCE || (job->fault == SQL_DATA && source->config->where != NULL &&
					    (source->tried != NULL || source->claim.limit_one));
}

int64_t jobs_failed(struct source *source, struct job *job, const char *name)
{
	struct err why;

	log_failure(source, job, name);
	if (job->failures < INT32_MAX)
		job->failures++;
	if (strcmp(job->sqlstate, "55P03") == 0)
		source->stats.lock_timeouts->value++;
	if (job->verdict == VERDICT_UNKNOWN || job->fault == SQL_CONNECTION) {
		source->settle_first = true;
		return STATEMENT_BACKOFF_US;
	}
	if (breaks_source(source, job)) {
		explain(&why, source, job, name);
		break_source(source, &why);
		return BROKEN_RETRY_US;
	}
	return backoff_delay(STATEMENT_BACKOFF_US, 2, STATEMENT_BACKOFF_MAX_US, 0.2, job->failures,
			     &source->random);
}

/* ---- inspect: what the catalog says of the table ---- */

static struct slice cell(const void *result, int row, int column)
{
	return db_result_cell(result, row, column);
}

static struct sql *build_sql(struct source *source, const struct db_result *result, struct err *err)
{
	struct sql_templates templates = route_templates(source->route);
	struct arena *arena = arena_new();
	struct sql_table_facts facts;
	struct sql *sql = NULL;

	sql_read_facts(&facts, cell, result, (size_t)db_result_rows(result), arena);
	/* Asked before anything is claimed: what can be delivered and then not settled is delivered again after each restart. */
	if (sql_check_grants(source->config, &facts, &templates, err))
		sql = sql_new(source->config, &facts, &templates, err);
	arena_free(arena);
	return sql;
}

/* Is allowed, and perhaps not what was meant. */
static void warn_of_order(const struct source *source)
{
	if (source->config->ordering == ORDERING_KEY && source->keys.order == SQL_ORDER_BYTES)
		LOG(LOG_WARN, "order_by_uuid", log_str("source", source->config->name),
		    log_str("text",
			    "rows of a key go in the order of their uuids' bytes, with random ones not in that "
			    "of insertion: map columns.order to a column with a sequence"));
}

static void start_running(struct source *source, struct sql *sql)
{
	sql_free(source->sql);
	source->sql = sql;
	source->keys.order = sql_order(sql);
	route_set_media_type(source->route, sql_media_type(sql));
	source->due_us[SCHED_SWEEP] = source->due_us[SCHED_COUNT] = source->now_us;
	source->due_us[SCHED_CLAIM] = source->due_us[SCHED_SETTLE] = source->now_us;
	source->rate = ratelimit_new(source->config->rate_limit, source->now_us);
	if (source->state == SOURCE_STARTING || source->state == SOURCE_BROKEN) {
		source_change_state(source, source->config->paused ? SOURCE_PAUSED : SOURCE_RUNNING,
				    "the table is as configured");
		warn_of_order(source);
	}
	CRASH_POINT(TABLE_KNOWN);
}

static void condition_tried(struct source *source, struct job *job)
{
	struct sql *sql = source->tried;

	if (job->verdict != VERDICT_OK)
		source->inspect_due_us = source->now_us + jobs_failed(source, job, "where");
	source->tried = NULL;
	if (job->verdict == VERDICT_OK)
		start_running(source, sql);
	else
		sql_free(sql);
}

static void inspect_answered(struct source *source, struct job *job)
{
	struct err err;
	struct sql *sql;

	if (source->tried != NULL) {
		condition_tried(source, job);
		return;
	}
	source->inspect_due_us = source->now_us + SECOND;
	if (job->verdict != VERDICT_OK) {
		source->inspect_due_us = source->now_us + jobs_failed(source, job, "inspect");
		return;
	}
	job->failures = 0;
	if (db_result_rows(job->result) == 0) {
		err_set(&err, "there is no table %s; `outboxd schema --source %s` prints the SQL that makes it",
			source->config->table, source->config->name);
		break_source(source, &err);
		return;
	}
	sql = build_sql(source, job->result, &err);
	if (sql == NULL) {
		break_source(source, &err);
	} else if (source->config->where == NULL) {
		start_running(source, sql);
	} else {
		source->tried = sql;
		source->inspect_due_us = source->now_us;
	}
}

static bool start_inspect(struct source *source)
{
	const char *key = source->config->columns[COLUMN_KEY];
	struct slice values[SQL_PARAMS] = {SLICE_NULL};

	if (source->tried != NULL)
		return jobs_submit(source, JOB_INSPECT, sql_statement(source->tried, SQL_TRY), values);
	values[SQL_P_TABLE] = slice_of(buf_text(&source->table));
	values[SQL_P_KEY_COLUMN] = slice_of(key == NULL ? "" : key);
	return jobs_submit(source, JOB_INSPECT, &sql_inspect, values);
}

/* ---- expire, sweep, count ---- */

/* A row whose time is over after its last attempt: it has failed, or waits for its dead letter. */
static void count_expired(struct source *source, struct slice id, bool late, bool failed)
{
	const char *error = late ? "RESULT_TIMEOUT" : "LEASE_EXPIRED";

	(late ? source->stats.result_timeouts : source->stats.lease_expired)->value++;
	if (failed) {
		metrics_series(source->env.metrics, METRIC_FAILED, source->config->name, error)->value++;
	} else if (!late) {
		/* Its record may be on its topic, and its dead letter on its own. */
		source->stats.duplicate_crash->value++;
		CRASH_POINT(COUNTED_CRASH_RECOVERED);
	}
	LOG_LIMITED(LOG_ERROR, failed ? "row_failed" : "attempts_expired", source->config->name,
		    log_str("source", source->config->name), log_bytes("id", id.bytes, id.len),
		    log_str("error", error));
	CRASH_POINT(ATTEMPTS_EXPIRED);
}

static void expire_answered(struct source *source, struct job *job)
{
	const struct db_result *result = job->result;
	int i;

	source->due_us[SCHED_EXPIRE] = SCHED_NEVER;
	if (job->verdict != VERDICT_OK) {
		source->due_us[SCHED_EXPIRE] = source->now_us + jobs_failed(source, job, "expire");
		return;
	}
	job->failures = 0;
	for (i = 0; i < db_result_rows(result); i++)
		count_expired(source, db_result_cell(result, i, 0), pg_get_int4(db_result_cell(result, i, 1)) != 0,
			      pg_get_int4(db_result_cell(result, i, 2)) != 0);
	if (db_result_rows(result) == 0)
		return;
	source->due_us[SCHED_EXPIRE] = source->now_us;
	if (source->config->dead_letter_topic != NULL)
		source->due_us[SCHED_CLAIM] = source->now_us;
}

/* A large backlog is costly to walk: never more than a twentieth of the time. */
static int64_t rest_after(const struct job *job, int64_t at_least_us)
{
	return job->duration_us * 20 > at_least_us ? job->duration_us * 20 : at_least_us;
}

static void sweep_answered(struct source *source, struct job *job)
{
	source->due_us[SCHED_SWEEP] = source->now_us + SWEEP_EVERY_US;
	if (job->verdict != VERDICT_OK) {
		source->due_us[SCHED_SWEEP] = source->now_us + rest_after(job, jobs_failed(source, job, "sweep"));
		return;
	}
	job->failures = 0;
	if (pg_get_int8(db_result_cell(job->result, 0, 0)) >= SQL_SWEEP_LIMIT)
		source->due_us[SCHED_SWEEP] = source->now_us;
	if (pg_get_int8(db_result_cell(job->result, 0, 0)) > 0)
		source->due_us[SCHED_CLAIM] = source->now_us;
}

static void set_gauge(struct source *source, enum metric metric, const char *label, double value)
{
	metrics_series(source->env.metrics, metric, source->config->name, label)->value = value;
}

/* NULL: this table's layout has no index that such rows stand in; then there is no such gauge. */
static void show_count(struct source *source, const struct job *job, enum metric metric, const char *label,
		       int column)
{
	struct slice count = db_result_cell(job->result, 0, column);

	if (count.bytes != NULL)
		set_gauge(source, metric, label, (double)pg_get_int8(count));
}

static void count_answered(struct source *source, struct job *job)
{
	static const struct {
		const char *state;
		int column;
	} gauges[] = {{"pending", SQL_N_PENDING},
		      {"parked", SQL_N_PARKED},
		      {"in_flight", SQL_N_IN_FLIGHT},
		      {"failed", SQL_N_FAILED},
		      {"unknown", SQL_N_UNKNOWN}};
	struct slice age;
	size_t i;

	/* The gauges may be those of its successor. */
	if (source->state == SOURCE_DRAINING)
		return;
	source->due_us[SCHED_COUNT] = source->now_us + rest_after(job, COUNT_EVERY_US);
	if (job->verdict != VERDICT_OK) {
		jobs_failed(source, job, "count");
		return;
	}
	job->failures = 0;
	for (i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		show_count(source, job, METRIC_ROWS, gauges[i].state, gauges[i].column);
	show_count(source, job, METRIC_BLOCKED_KEYS, NULL, SQL_N_BLOCKED_KEYS);
	show_count(source, job, METRIC_SNAPSHOT_AGE, NULL, SQL_N_SNAPSHOT_AGE);
	age = db_result_cell(job->result, 0, SQL_N_OLDEST_US);
	set_gauge(source, METRIC_OLDEST_PENDING_AGE, NULL, age.bytes == NULL ? 0 : (double)pg_get_int8(age) / 1e6);
	source->counted_us = source->now_us;
	source->stale_at_us = source->due_us[SCHED_COUNT] + COUNT_STALE_US;
	if (pg_get_int8(db_result_cell(job->result, 0, SQL_N_EXHAUSTED)) > 0)
		source->due_us[SCHED_EXPIRE] = source->now_us;
	if (pg_get_int8(db_result_cell(job->result, 0, SQL_N_SUSPECTS)) > 0)
		source->due_us[SCHED_SUSPECT] = source->now_us;
}

/* ---- answers ---- */

static void conclude(struct source *source, int number, struct job *job)
{
	switch (number) {
	case SCHED_SETTLE:
		outcome_settle_answered(source, job);
		break;
	case SCHED_CLAIM:
	case SCHED_SUSPECT:
		claim_answered(source, job, number == SCHED_SUSPECT);
		break;
	case SCHED_EXPIRE:
		expire_answered(source, job);
		break;
	case SCHED_SWEEP:
		sweep_answered(source, job);
		break;
	case SCHED_COUNT:
		count_answered(source, job);
		break;
	case JOB_INSPECT:
		inspect_answered(source, job);
		break;
	}
}

static bool others_running(const struct source *source, int number)
{
	int i;

	for (i = 0; i < JOBS; i++)
		if (i != number && source->jobs[i].running)
			return true;
	return false;
}

void jobs_handle_answers(struct source *source)
{
	struct job *job;
	int i;

	for (i = 0; i < JOBS; i++) {
		job = &source->jobs[i];
		/* The statements under way are borrowed until their answers: new ones are built only when there are none. */
		if (!job->answered || (i == JOB_INSPECT && others_running(source, i)))
			continue;
		job->running = job->answered = false;
		metrics_observe(source->stats.transaction[i], (double)job->duration_us / 1e6);
		conclude(source, i, job);
		db_result_free(job->result);
		job->result = NULL;
	}
}

/* ---- starting ---- */

static bool may_claim(const struct source *source)
{
	if (kafka_untried(source->env.kafka) && source->rows > 0)
		return false;
	return source->state == SOURCE_RUNNING && source->kafka_down_us == 0 &&
	       breaker_would_pass(&source->cluster, source->now_us) && !source->settle_first &&
	       !source->suspect_held && (int64_t)source->bytes < source->config->max_in_flight_bytes;
}

static bool may_start(const struct source *source, enum sched_job job)
{
	return job == SCHED_SETTLE || source->state == SOURCE_RUNNING ||
	       (job == SCHED_COUNT && source->state == SOURCE_PAUSED);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A suspect is one row. */
static void limit_rate(struct source *source, struct sched_facts *facts)
{
	int64_t part = later(source->config->rate_limit / LIMITED_CLAIMS_A_SECOND, 1),
		batch = source->config->batch;
	int64_t claim_us = ratelimit_from(&source->rate, part < batch ? part : batch, source->now_us);
	int64_t suspect_us = ratelimit_from(&source->rate, 1, source->now_us);

	if (facts->claiming && !source->put_off && facts->due_us[SCHED_CLAIM] <= source->now_us &&
	    claim_us > source->now_us) {
		source->put_off = true;
		publish_count_backpressure(source, "rate_limit");
	}
	facts->due_us[SCHED_CLAIM] = later(facts->due_us[SCHED_CLAIM], claim_us);
	facts->due_us[SCHED_SUSPECT] = later(facts->due_us[SCHED_SUSPECT], suspect_us);
}

static void gather_facts(struct source *source, struct sched_facts *facts)
{
	const struct list *unsettled = &source->stages[STAGE_UNSETTLED];
	size_t max = (size_t)source->config->max_in_flight;
	int i;

	*facts = (struct sched_facts){
		.now_us = source->now_us,
		.database = dbpool_free_slot(source->env.pool),
		.claiming = may_claim(source),
		.room = source->rows < max ? max - source->rows : 0,
		.batch = (size_t)source->config->batch,
		.max_in_flight = max,
		.held = source->rows,
		.outcomes = unsettled->length,
		.busy = source->rows - unsettled->length - source->stages[STAGE_SETTLING].length,
		.settle_at_once = source->state != SOURCE_RUNNING || source->settle_first,
	};
	for (i = 0; i < SCHED_JOBS; i++) {
		facts->due_us[i] = may_start(source, i) ? source->due_us[i] : SCHED_NEVER;
		facts->running[i] = source->jobs[i].running;
	}
	limit_rate(source, facts);
	if (!list_empty(unsettled))
		facts->oldest_outcome_us = STAGE_ROW(list_first(unsettled))->outcome_us;
}

static bool start(struct source *source, enum sched_job job, size_t room)
{
	static const enum sql_kind kinds[SCHED_JOBS] = {
		[SCHED_EXPIRE] = SQL_EXPIRE, [SCHED_SWEEP] = SQL_SWEEP, [SCHED_COUNT] = SQL_COUNT};
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	char max_attempts[4], lease[16];

	if (job == SCHED_SETTLE)
		return outcome_start_settle(source);
	if (job == SCHED_CLAIM || job == SCHED_SUSPECT)
		return claim_start(source, job, room);
	values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max_attempts, (int32_t)source->config->retry.max_attempts);
	values[SQL_P_LEASE] = pg_put_interval_us(lease, source->config->lease_us);
	return jobs_submit(source, job, sql_statement(source->sql, kinds[job]), values);
}

/* Without its table's statements, or broken, a source only looks at the catalog and writes what outcomes it has. */
static int64_t start_inspecting(struct source *source)
{
	if (source->jobs[JOB_INSPECT].running)
		return SCHED_NEVER;
	if (source->inspect_due_us > source->now_us)
		return source->inspect_due_us;
	/* A connection that becomes free wakes it. */
	if (dbpool_free_slot(source->env.pool) && !start_inspect(source))
		return source->now_us + 10 * MS;
	return SCHED_NEVER;
}

int64_t jobs_start(struct source *source)
{
	struct sched_facts facts;
	struct sched_pick pick = {SCHED_NONE, SCHED_NEVER};
	int64_t again = SCHED_NEVER;

	if (source->state == SOURCE_STARTING || source->state == SOURCE_BROKEN)
		again = start_inspecting(source);
	if (source->sql == NULL || source->jobs[JOB_INSPECT].running)
		return again;
	if (list_empty(&source->stages[STAGE_UNSETTLED]) && list_empty(&source->stages[STAGE_SETTLING]))
		source->settle_first = false;
	do {
		gather_facts(source, &facts);
		pick = sched_pick(&facts);
	} while (pick.job != SCHED_NONE && start(source, pick.job, facts.room));
	return pick.again_us < again ? pick.again_us : again;
}
