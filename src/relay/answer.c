/* Kafka's answers: what they mean for a row, its key, its topic and the cluster. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/rowstate.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- what went wrong, for people ---- */

static void count_error(struct source *source, enum metric metric, const char *name)
{
	metrics_series(source->env.metrics, metric, source->config->name, name)->value++;
}

static void log_row(const struct row *row, enum log_level level, const char *event, const char *error,
		    const char *text, bool charged)
{
	const char *source = row->batch->source->config->name;
	const char *written = row->answer.possibly_written ? "perhaps" : "no";
	char class[200], attempts[40];

	snprintf(class, sizeof(class), "%s %s %s", source, error, written);
	snprintf(attempts, sizeof(attempts), "%" PRId32 " of %" PRId32, deadletter_attempts(row),
		 row->max_attempts);
	LOG_LIMITED(level, event, class, log_str("source", source), log_bytes("id", row->id.bytes, row->id.len),
		    log_str("topic", row->topic == NULL ? NULL : row->topic->name), log_str("error", error),
		    log_str("text", text), log_str("written", written),
		    log_str("attempt", charged ? attempts : NULL));
}

void answer_tell_failed(const struct row *row, const char *name, const char *text)
{
	count_error(row->batch->source, METRIC_FAILED, name);
	log_row(row, LOG_ERROR, "row_failed", name, text, true);
}

void answer_fail_row(struct row *row, const char *name, const char *text)
{
	struct buf error = {0};

	buf_print(&error, "%s%s%s", name, text[0] == '\0' ? "" : ": ", text);
	if (row->batch->source->config->dead_letter_topic != NULL) {
		outcome_doom(row, name, buf_text(&error));
	} else {
		answer_tell_failed(row, name, text);
		outcome_set(row, OUTCOME_FAILED, 0, buf_text(&error));
		CRASH_POINT(ROW_FAILED);
	}
	buf_free(&error);
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
	CRASH_POINT(REPORT_RECORDED);
}

static void delivered(struct row *row)
{
	struct source *source = row->batch->source;
	int64_t age_us;

	row->topic->delivered->value++;
	if (row->doom == NULL && batch_age_us(row, &age_us))
		metrics_observe(source->stats.commit_to_ack,
				(double)(age_us + source->now_us - row->batch->claimed_us) / 1e6);
	if (breaker_success(&row->topic->breaker))
		CRASH_POINT(TOPIC_RECOVERED);
	if (breaker_success(&source->cluster))
		LOG(LOG_INFO, "cluster_recovered", log_str("source", source->config->name));
	if (row->doom != NULL) {
		deadletter_delivered(row);
		return;
	}
	if (row->key != NULL)
		keys_note_delivered(row);
	CRASH_POINT(DELIVERED);
	outcome_set(row, OUTCOME_SENT, 0, NULL);
}

static void condemn(struct row *row, enum row_stage stage)
{
	row->trial = true;
	source_move_row(row, stage);
}

/* The error came for a whole batch of records and proves nothing about this one. Those behind it that came with it are
 * tried after it; what failed otherwise is released. */
static void condemn_batch(struct row *row)
{
	struct row *behind;

	condemn(row, STAGE_QUEUED);
	CRASH_POINT(BATCH_CONDEMNED);
	if (row->key == NULL)
		return;
	while ((behind = keys_behind(row)) != NULL && behind->stage == STAGE_REFUSED &&
	       behind->answer.fault == FAULT_ROW) {
		condemn(behind, STAGE_WAITING);
		row = behind;
	}
	if (behind != NULL && behind->stage == STAGE_REFUSED)
		outcome_release_behind(row);
}

static void row_fault(struct row *row, bool refused)
{
	if (refused || row->trial)
		answer_fail_row(row, row->answer.name, row->answer.text);
	else
		condemn_batch(row);
}

static void topic_fault(struct row *row)
{
	struct source *source = row->batch->source;
	struct topic *topic = row->topic;
	struct buf error = {0};

	buf_print(&error, "%s: %s", row->answer.name, row->answer.text);
	mem_free(topic->error);
	topic->error = buf_take(&error);
	topic->error_name = row->answer.name;
	if (breaker_failure(&topic->breaker, source->now_us, &source->random))
		topic->deferred = 0;
	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_ERROR, "topic_refused", row->answer.name, row->answer.text, false);
	outcome_set(row, OUTCOME_RELEASED, topics_pause(source, topic), topic->error);
	CRASH_POINT(TOPIC_REFUSED);
}

static void cluster_fault(struct row *row)
{
	struct source *source = row->batch->source;
	struct buf error = {0};

	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_WARN, "row_released", row->answer.name, row->answer.text, false);
	if (row->answer.fault == FAULT_CLUSTER)
		breaker_failure(&source->cluster, source->now_us, &source->random);
	buf_print(&error, "%s: %s", row->answer.name, row->answer.text);
	outcome_set(row, OUTCOME_RELEASED, 0, buf_text(&error));
	buf_free(&error);
	CRASH_POINT(CLUSTER_REFUSED);
}

static bool was_last_attempt(const struct row *row)
{
	enum row_state next = ROW_FAILED;

	return !row_next(ROW_IN_FLIGHT, ROW_RETRY, row->attempts, row->max_attempts, &next) || next == ROW_FAILED;
}

static void passing_fault(struct row *row)
{
	struct source *source = row->batch->source;
	const struct config_retry *retry = &source->config->retry;
	struct buf error = {0};
	int64_t delay;

	if (row->doom == NULL && was_last_attempt(row)) {
		answer_fail_row(row, row->answer.name, row->answer.text);
		return;
	}
	delay = backoff_delay(retry->initial_us, retry->multiplier, retry->max_us, retry->jitter, row->attempts,
			      &source->random);
	buf_print(&error, "%s: %s", row->answer.name, row->answer.text);
	count_error(source, METRIC_RETRIES, row->answer.name);
	log_row(row, LOG_WARN, "row_retry", row->answer.name, row->answer.text, true);
	outcome_set(row, OUTCOME_RETRY, delay, buf_text(&error));
	CRASH_POINT(RETRY_DECIDED);
	buf_free(&error);
}

static void count_possible_duplicate(const struct row *row)
{
	struct source_stats *stats = &row->batch->source->stats;

	if (!row->answer.possibly_written)
		return;
	if (row->answer.replaced) {
		stats->duplicate_replaced->value++;
		CRASH_POINT(COUNTED_PRODUCER_REPLACED);
	} else {
		stats->duplicate_timed_out->value++;
		CRASH_POINT(COUNTED_TIMED_OUT);
	}
}

/* refused: by Kafka's client, before it was with Kafka. */
static void conclude(struct row *row, bool refused)
{
	/* After a missed drain deadline, what may have been written is left to its lease. */
	if (row->batch->source->abandoned && row->answer.possibly_written) {
		outcome_forget(row);
		return;
	}
	if (row->doom != NULL) {
		if (deadletter_try_less(row))
			return;
		deadletter_tell_refused(row);
	}
	switch (row->answer.fault) {
	case FAULT_ROW:
		/* Of a dead letter nothing is left that the topic might take. */
		if (row->doom != NULL)
			topic_fault(row);
		else
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

/* If the row was a probe, what it asked about is not decided by somebody else's fault. */
static void lose_probes(struct row *row)
{
	if (row->answer.fault != FAULT_TOPIC)
		breaker_probe_lost(&row->topic->breaker);
	if (row->answer.fault != FAULT_CLUSTER)
		breaker_probe_lost(&row->batch->source->cluster);
}

void answer_refused(struct row *row, const struct kafka_answer *refusal)
{
	/* Nothing may be left of the answer that condemned it, if it was. */
	mem_free(row->answer.text);
	row->answer = (struct row_answer){
		.verdict = refusal->verdict,
		.fault = refusal->fault,
		.name = refusal->name,
		.text = mem_copy_string(refusal->text),
	};
	lose_probes(row);
	conclude(row, true);
}

/* A row of the key is on the topic, and one in front of it is not: no broker should have taken it. */
static void tell_disorder(const struct row *row)
{
	if (row->turn < row->key->delivered && !row->answer.possibly_written)
		log_row(row, LOG_ERROR, "order_broken", row->answer.name,
			"a later row of its key was written, and this one was not", false);
}

/* Nothing of the key is in flight, and these were refused. The first of them decides. */
static void conclude_key(struct key *key)
{
	struct row *row;

	for (row = keys_first(key); row != NULL && row->stage == STAGE_REFUSED; row = keys_behind(row))
		tell_disorder(row);
	keys_take_back(key);
	CRASH_POINT(KEY_CONCLUDED);
	conclude(keys_first(key), false);
}

static void note_bad_answer(struct row *row)
{
	const struct row_answer *answer = &row->answer;

	count_possible_duplicate(row);
	lose_probes(row);
	if (answer->fault == FAULT_ROW || answer->fault == FAULT_TOPIC || answer->fault == FAULT_NONE ||
	    answer->timed_out)
		row->topic->careful_until_us = row->batch->source->now_us + CAREFUL_US;
	CRASH_POINT(REFUSED);
	if (!outcome_keeps_order(row)) {
		conclude(row, false);
		return;
	}
	keys_note_refused(row);
	source_move_row(row, STAGE_REFUSED);
}

void answer_handle_all(struct source *source)
{
	struct row *row;
	struct key *key;

	while ((row = STAGE_FIRST(source, STAGE_ANSWERED)) != NULL) {
		key = row->key; /* without one the row may be gone at once */
		row->topic->in_flight--;
		if (row->answer.verdict == VERDICT_OK)
			delivered(row);
		else
			note_bad_answer(row);
		if (key != NULL && keys_refused(key))
			conclude_key(key);
	}
}
