/* Rows to Kafka. */
#include "relay/private.h"

#include "base/crash.h"

#define PUBLISH_BUDGET 1000 /* rows a pass: other sources and the sockets want their turn */

void publish_count_backpressure(struct source *source, const char *reason)
{
	metrics_series(source->env.metrics, METRIC_BACKPRESSURE, source->config->name, reason)->value++;
}

static bool lease_lasts(const struct row *row)
{
	const struct source *source = row->batch->source;

	return source->now_us + source->config->kafka.message_timeout_us + SETTLE_MARGIN_US <=
	       row->batch->lease_end_us;
}

/* False: the row is given up, or doomed. */
static bool compose(struct row *row, struct message *message)
{
	struct source *source = row->batch->source;
	struct err err;
	size_t i;

	for (i = SQL_C_ID; i < source->n_cells; i++)
		source->cells[i] = batch_cell(row, (int)i);
	if (row->doom != NULL) {
		deadletter_compose(row, message);
		topics_enter(row, message->topic);
		return true;
	}
	if (deadletter_is_due(row)) {
		deadletter_doom_used_up(row);
		return false;
	}
	if (route_compose(source->route, source->cells, message, &err)) {
		topics_enter(row, message->topic);
		return true;
	}
	answer_fail_row(row, "INVALID_RECORD", err.text);
	return false;
}

/* Exceptions are dead letters, rows that were condemned with a batch, and those of a topic that was refused lately, or may well be: see
 * CAREFUL_US. */
static struct kafka *producer_for(const struct row *row)
{
	const struct source_env *env = &row->batch->source->env;
	const struct topic *topic = row->topic;

	if (row->trial || row->doom != NULL)
		return env->single;
	if (env->careful != NULL &&
	    (row->batch->source->now_us < topic->careful_until_us || topic->breaker.state != BREAKER_CLOSED))
		return env->careful;
	return env->kafka;
}

static struct lane lane_of(const struct row *row, const struct message *message)
{
	const struct source *source = row->batch->source;
	struct lane lane = {.kafka = producer_for(row),
			    .topic = row->topic->number,
			    .partition = message->partition,
			    .window = source->window};

	/* Some partitioners spread empty keys like none. */
	if (lane.kafka != source->env.kafka || message->key.len == 0)
		lane.window = 1;
	lane.generation = kafka_generation(lane.kafka);
	return lane;
}

static void count_dropped(struct source *source, unsigned dropped)
{
	if (dropped & MESSAGE_DROPPED_PARENT)
		metrics_series(source->env.metrics, METRIC_HEADERS_DROPPED, source->config->name, "traceparent")
			->value++;
	if (dropped & MESSAGE_DROPPED_STATE)
		metrics_series(source->env.metrics, METRIC_HEADERS_DROPPED, source->config->name, "tracestate")
			->value++;
}

static void handed_over(struct row *row, const struct lane *lane)
{
	row->topic->in_flight++;
	source_move_row(row, STAGE_IN_FLIGHT);
	CRASH_POINT(PUBLISHED);
	if (row->trial)
		CRASH_POINT(TRIAL_PUBLISHED);
	if (row->doom != NULL)
		CRASH_POINT(LETTER_PUBLISHED);
	if (!outcome_keeps_order(row))
		return;
	keys_hand_over(row, lane);
	outcome_queue_next(row->key);
}

/* False: Kafka takes nothing more in this pass. */
static bool hand_over(struct row *row, const struct message *message, const struct lane *lane)
{
	struct source *source = row->batch->source;
	bool exception = lane->kafka != source->env.kafka;
	struct kafka_answer refusal = {0};
	enum verdict verdict;

	CRASH_POINT(PUBLISH_DUE);
	verdict = kafka_publish(lane->kafka, message, row, &refusal);
	if (verdict == VERDICT_OK) {
		count_dropped(source, row->doom == NULL ? message->dropped : 0);
		handed_over(row, lane);
		return true;
	}
	breaker_probe_lost(&row->topic->breaker);
	breaker_probe_lost(&source->cluster);
	if (verdict != VERDICT_RETRY || refusal.fault != FAULT_NONE) {
		answer_refused(row, &refusal);
		return true;
	}
	publish_count_backpressure(source, "queue_full");
	CRASH_POINT(QUEUE_FULL);
	/* What waits for that one must not keep the others. */
	if (exception)
		outcome_set(row, OUTCOME_RELEASED, CAREFUL_RETRY_US, NULL);
	return exception;
}

static void release_short(struct row *row)
{
	publish_count_backpressure(row->batch->source, "lease_short");
	outcome_set(row, OUTCOME_RELEASED, 0, NULL);
	CRASH_POINT(LEASE_SHORT);
}

static bool publish_row(struct row *row)
{
	struct source *source = row->batch->source;
	struct message message;
	struct lane lane;

	if (!lease_lasts(row)) {
		release_short(row);
		return true;
	}
	if (!compose(row, &message))
		return true;
	lane = lane_of(row, &message);
	if (outcome_keeps_order(row) && !keys_may_join(row->key, &lane)) {
		source_move_row(row, STAGE_WAITING);
		return true;
	}
	if (!breaker_pass(&row->topic->breaker, source->now_us)) {
		publish_count_backpressure(source, "topic");
		outcome_set(row, OUTCOME_RELEASED, topics_deferral(source, row->topic), row->topic->error);
		CRASH_POINT(TOPIC_DEFERRED);
		return true;
	}
	if (!breaker_pass(&source->cluster, source->now_us)) {
		breaker_probe_lost(&row->topic->breaker);
		publish_count_backpressure(source, "cluster");
		outcome_set(row, OUTCOME_RELEASED, 0, NULL);
		return true;
	}
	return hand_over(row, &message, &lane);
}

bool publish_rows(struct source *source)
{
	struct row *row;
	int budget;

	for (budget = PUBLISH_BUDGET; (row = STAGE_FIRST(source, STAGE_QUEUED)) != NULL; budget--) {
		if (budget == 0)
			return false;
		if (!publish_row(row))
			return true;
	}
	return true;
}

void publish_release_all(struct source *source)
{
	outcome_release_stage(source, STAGE_QUEUED);
	outcome_release_stage(source, STAGE_WAITING);
}

static struct row *first_short(const struct source *source, enum row_stage stage)
{
	const struct list *rows = &source->stages[stage];
	struct list_node *node;

	for (node = list_first(rows); node != NULL; node = list_next(rows, node))
		if (!lease_lasts(STAGE_ROW(node)) && !STAGE_ROW(node)->awaits_elder)
			return STAGE_ROW(node);
	return NULL;
}

void publish_release_short(struct source *source)
{
	static const enum row_stage stages[] = {STAGE_QUEUED, STAGE_WAITING};
	struct row *row;
	size_t i;

	for (i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
		while ((row = first_short(source, stages[i])) != NULL)
			release_short(row);
}
