/* Rows to Kafka, and Kafka's answers. */
#include "relay/private.h"

#include "base/log.h"
#include "base/mem.h"
#include "core/rowstate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PUBLISH_BUDGET 1000 /* rows a pass: other sources and the sockets want their turn */

/* ---- what went wrong, for people ---- */

static void count_error(struct source *source, enum metric metric, const char *name)
{
	metrics_series(source->env.metrics, metric, source->config->name, name)->value++;
}

static void count_backpressure(struct source *source, const char *reason)
{
	metrics_series(source->env.metrics, METRIC_BACKPRESSURE, source->config->name, reason)->value++;
}

static void log_row(const struct row *row, enum log_level level, const char *event, const char *error,
		    const char *text, bool charged)
{
	const char *source = row->batch->source->config->name;
	char class[200], attempts[40];

	snprintf(class, sizeof(class), "%s %s", source, error);
	snprintf(attempts, sizeof(attempts), "%" PRId32 " of %" PRId32, row->attempts, row->max_attempts);
	LOG_LIMITED(level, event, class, log_str("source", source), log_bytes("id", row->id.bytes, row->id.len),
		    log_str("topic", row->topic == NULL ? NULL : row->topic->name), log_str("error", error),
		    log_str("text", text), log_str("attempt", charged ? attempts : NULL));
}

static void fail_row(struct row *row, const char *name, const char *text)
{
	struct buf error = {0};

	buf_print(&error, "%s%s%s", name, text[0] == '\0' ? "" : ": ", text);
	count_error(row->batch->source, METRIC_FAILED, name);
	log_row(row, LOG_ERROR, "row_failed", name, text, true);
	outcome_set(row, OUTCOME_FAILED, 0, buf_text(&error));
	buf_free(&error);
}

/* ---- handing over ---- */

static bool lease_lasts(const struct row *row)
{
	const struct source *source = row->batch->source;

	return source->now_us + source->config->kafka.message_timeout_us + SETTLE_MARGIN_US <=
	       row->batch->lease_end_us;
}

static bool compose(struct row *row, struct message *message)
{
	struct source *source = row->batch->source;
	struct err err;
	size_t i;

	for (i = 0; i < source->n_cells; i++)
		source->cells[i] = batch_cell(row, (int)i);
	if (route_compose(source->route, source->cells, message, &err)) {
		topics_enter(row, message->topic);
		return true;
	}
	fail_row(row, "INVALID_RECORD", err.text);
	return false;
}

static void refuse(struct row *row, const struct kafka_answer *refusal)
{
	/* Nothing may be left of the answer that condemned it, if it was. */
	mem_free(row->answer.text);
	row->answer = (struct row_answer){
		.verdict = refusal->verdict,
		.fault = refusal->fault,
		.name = refusal->name,
		.text = mem_copy_string(refusal->text),
	};
}

static void conclude(struct row *row, bool refused);

/* False: Kafka takes nothing more in this pass. */
static bool hand_over(struct row *row, const struct message *message)
{
	struct source *source = row->batch->source;
	struct topic *topic = row->topic;
	struct kafka_answer refusal = {0};
	enum verdict verdict = kafka_publish(source->env.kafka, message, row, &refusal);

	if (verdict == VERDICT_OK) {
		row->first_in_topic = topic->in_flight == 0;
		row->publication = ++topic->publications;
		topic->in_flight++;
		source_move_row(row, STAGE_IN_FLIGHT);
		return true;
	}
	breaker_probe_lost(&topic->breaker);
	breaker_probe_lost(&source->cluster);
	if (verdict == VERDICT_RETRY && refusal.fault == FAULT_NONE) {
		count_backpressure(source, "queue_full");
		return false;
	}
	refuse(row, &refusal);
	conclude(row, true);
	return true;
}

static bool publish_row(struct row *row)
{
	struct source *source = row->batch->source;
	struct message message;

	if (!lease_lasts(row)) {
		count_backpressure(source, "lease_short");
		outcome_set(row, OUTCOME_RELEASED, 0, NULL);
		return true;
	}
	if (!compose(row, &message))
		return true;
	if (row->topic->trials > 0 && !row->trial) {
		source_move_row(row, STAGE_HELD);
		return true;
	}
	if (!breaker_pass(&row->topic->breaker, source->now_us)) {
		count_backpressure(source, "topic");
		outcome_set(row, OUTCOME_RELEASED, topics_deferral(source, row->topic), row->topic->error);
		return true;
	}
	if (!breaker_pass(&source->cluster, source->now_us)) {
		breaker_probe_lost(&row->topic->breaker);
		count_backpressure(source, "cluster");
		outcome_set(row, OUTCOME_RELEASED, 0, NULL);
		return true;
	}
	return hand_over(row, &message);
}

/* A condemned row goes when nothing else of its topic is in flight, and nothing of it follows before its answer. */
static struct row *next_trial(struct source *source)
{
	struct list *trials = &source->stages[STAGE_TRIAL];
	struct list_node *node;

	for (node = list_first(trials); node != NULL; node = list_next(trials, node))
		if (STAGE_ROW(node)->topic->in_flight == 0)
			return STAGE_ROW(node);
	return NULL;
}

bool publish_rows(struct source *source)
{
	struct row *row;
	int budget;

	while ((row = next_trial(source)) != NULL)
		if (!publish_row(row))
			return true;
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
	outcome_release_stage(source, STAGE_HELD);
	outcome_release_stage(source, STAGE_TRIAL);
	outcome_release_stage(source, STAGE_WAITING);
}

static struct row *first_short(const struct source *source, enum row_stage stage)
{
	const struct list *rows = &source->stages[stage];
	struct list_node *node;

	for (node = list_first(rows); node != NULL; node = list_next(rows, node))
		if (!lease_lasts(STAGE_ROW(node)))
			return STAGE_ROW(node);
	return NULL;
}

void publish_release_short(struct source *source)
{
	static const enum row_stage stages[] = {STAGE_QUEUED, STAGE_HELD, STAGE_TRIAL, STAGE_WAITING};
	struct row *row;
	size_t i;

	for (i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
		while ((row = first_short(source, stages[i])) != NULL) {
			count_backpressure(source, "lease_short");
			outcome_set(row, OUTCOME_RELEASED, 0, NULL);
		}
}

/* ---- Kafka's answers ---- */

void source_on_kafka_answer(void *tag, const struct kafka_answer *answer)
{
	struct row *row = tag;

	mem_free(row->answer.text);
	row->answer = (struct row_answer){
		.verdict = answer->verdict,
		.fault = answer->fault,
		.possibly_written = answer->possibly_written,
		.timed_out = answer->timed_out,
		.replaced = answer->replaced,
		.name = answer->name,
		.text = answer->verdict == VERDICT_OK ? NULL : mem_copy_string(answer->text),
	};
	source_move_row(row, STAGE_ANSWERED);
}

static void delivered(struct row *row)
{
	struct source *source = row->batch->source;
	int64_t age_us;

	row->topic->delivered->value++;
	if (batch_age_us(row, &age_us))
		metrics_observe(source->stats.commit_to_ack,
				(double)(age_us + source->now_us - row->batch->claimed_us) / 1e6);
	breaker_success(&row->topic->breaker);
	if (breaker_success(&source->cluster))
		LOG(LOG_INFO, "cluster_recovered", log_str("source", source->config->name));
	outcome_set(row, OUTCOME_SENT, 0, NULL);
}

/* Was nothing else of its topic with Kafka from the row's publication to its answer? */
static bool was_alone(const struct row *row)
{
	return row->first_in_topic && row->topic->publications == row->publication;
}

static void row_fault(struct row *row, bool refused)
{
	if (refused || row->trial || was_alone(row)) {
		fail_row(row, row->answer.name, row->answer.text);
		return;
	}
	/* The error came for a whole batch of records and proves nothing about this one. */
	row->trial = true;
	row->topic->trials++;
	source_move_row(row, STAGE_TRIAL);
}

static void topic_fault(struct row *row)
{
	struct source *source = row->batch->source;
	struct topic *topic = row->topic;
	struct buf error = {0};

	buf_print(&error, "%s: %s", row->answer.name, row->answer.text);
	mem_free(topic->error);
	topic->error = buf_take(&error);
	if (breaker_failure(&topic->breaker, source->now_us, &source->random))
		topic->deferred = 0;
	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_ERROR, "topic_refused", row->answer.name, row->answer.text, false);
	outcome_set(row, OUTCOME_RELEASED, topics_pause(source, topic), topic->error);
}

static void cluster_fault(struct row *row)
{
	struct source *source = row->batch->source;

	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_WARN, "row_released", row->answer.name, row->answer.text, false);
	if (row->answer.fault == FAULT_CLUSTER)
		breaker_failure(&source->cluster, source->now_us, &source->random);
	outcome_set(row, OUTCOME_RELEASED, 0, NULL);
}

static void passing_fault(struct row *row)
{
	struct source *source = row->batch->source;
	const struct config_retry *retry = &source->config->retry;
	enum row_state next = ROW_FAILED;
	struct buf error = {0};
	int64_t delay;

	if (!row_next(ROW_IN_FLIGHT, ROW_RETRY, row->attempts, row->max_attempts, &next) || next == ROW_FAILED) {
		fail_row(row, row->answer.name, row->answer.text);
		return;
	}
	delay = backoff_delay(retry->initial_us, retry->multiplier, retry->max_us, retry->jitter, row->attempts,
			      &source->random);
	buf_print(&error, "%s: %s", row->answer.name, row->answer.text);
	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_WARN, "row_retry", row->answer.name, row->answer.text, true);
	outcome_set(row, OUTCOME_RETRY, delay, buf_text(&error));
	buf_free(&error);
}

static void count_possible_duplicate(const struct row *row)
{
	struct source_stats *stats = &row->batch->source->stats;

	if (!row->answer.possibly_written)
		return;
	if (row->answer.replaced)
		stats->duplicate_replaced->value++;
	else
		stats->duplicate_timed_out->value++;
}

static void conclude(struct row *row, bool refused)
{
	struct source *source = row->batch->source;

	if (row->answer.verdict == VERDICT_OK) {
		delivered(row);
		return;
	}
	count_possible_duplicate(row);
	/* If it was a probe, what it asked about is not decided by somebody else's fault. */
	if (row->answer.fault != FAULT_TOPIC)
		breaker_probe_lost(&row->topic->breaker);
	if (row->answer.fault != FAULT_CLUSTER)
		breaker_probe_lost(&source->cluster);
	/* After a missed drain deadline, what may have been written is left to its lease. */
	if (source->abandoned && row->answer.possibly_written) {
		outcome_forget(row);
		return;
	}
	switch (row->answer.fault) {
	case FAULT_ROW:
		row_fault(row, refused);
		break;
	case FAULT_TOPIC:
		topic_fault(row);
		break;
	case FAULT_CLUSTER:
	case FAULT_PRODUCER:
		cluster_fault(row);
		break;
	case FAULT_NONE:
		passing_fault(row);
		break;
	}
}

void publish_handle_answers(struct source *source)
{
	struct row *row;

	while ((row = STAGE_FIRST(source, STAGE_ANSWERED)) != NULL) {
		row->topic->in_flight--;
		conclude(row, false);
	}
}
