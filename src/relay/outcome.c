/* A row's outcome, the settle that writes it, and rows leaving memory. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- outcomes ---- */

/* As the label of outboxd_settled_total. */
const char *outcome_name(const struct source *source, enum outcome outcome)
{
	static const char *const names[OUTCOMES] = {"sent", "retry", "failed", "released"};

	if (outcome == OUTCOME_SENT && source->config->on_delivered == ON_DELIVERED_AWAIT)
		return "awaiting";
	return names[outcome];
}

static void set_error(struct row *row, const char *error)
{
	char *copy = mem_copy_string(error); /* of what it replaces, perhaps */

	mem_free(row->error);
	row->error = copy;
}

/* A doomed row keeps the reason for that, and whatever it comes back with, all its attempts count as used: the next claim finds
 * nothing left to do but its dead letter. */
static void record(struct row *row, enum outcome outcome, int64_t delay_us, const char *error)
{
	row->outcome = outcome;
	row->outcome_us = row->batch->source->now_us;
	row->delay_us = delay_us;
	row->awaits_elder = false;
	if (row->doom == NULL) {
		row->back = outcome == OUTCOME_RELEASED;
		set_error(row, error);
	} else {
		row->back = row->attempts - row->max_attempts;
		if (outcome == OUTCOME_FAILED && row->back < 0)
			row->back = 0;
	}
	source_move_row(row, STAGE_UNSETTLED);
}

bool outcome_keeps_order(const struct row *row)
{
	return row->key != NULL && row->doom == NULL;
}

/* Rows behind one that was not delivered must not overtake it: they are given back in the same settle, and the key stays
 * broken until the database has answered. */
void outcome_release_behind(struct row *row)
{
	struct row *behind;

	keys_break(&row->batch->source->keys, row->key);
	while ((behind = keys_behind(row)) != NULL) {
		/* Nothing stands before a row that Kafka has, and no bad answer counts before all have come. */
		assert(behind->stage != STAGE_IN_FLIGHT && behind->stage != STAGE_ANSWERED);
		keys_leave(behind);
		record(behind, OUTCOME_RELEASED, 0, NULL);
		CRASH_POINT(RELEASED_BEHIND);
	}
}

/* The same row was claimed again while its older self had no verdict. Delivered: it is settled under the new lease too, not
 * sent again, even when it was about to be given back, unless it was asked for. Otherwise it is now the one to be sent (with a key, it has just been
 * released with the rest). */
static void resolve_younger(struct row *younger, enum outcome outcome)
{
	bool sent;

	if (younger == NULL)
		return;
	sent = outcome == OUTCOME_SENT && !younger->asked_for;
	if (sent && younger->awaits_elder) {
		outcome_set(younger, OUTCOME_SENT, 0, NULL);
	} else if (sent && younger->stage == STAGE_UNSETTLED) {
		record(younger, OUTCOME_SENT, 0, NULL);
	} else if (younger->awaits_elder) {
		younger->awaits_elder = false;
		if (younger->key == NULL)
			source_move_row(younger, STAGE_QUEUED);
		else
			outcome_queue_next(younger->key);
	}
}

void outcome_queue_next(struct key *key)
{
	struct row *next = keys_next(key);

	if (next != NULL)
		source_move_row(next, STAGE_QUEUED);
}

void outcome_set(struct row *row, enum outcome outcome, int64_t delay_us, const char *error)
{
	if (outcome_keeps_order(row)) {
		if (outcome != OUTCOME_SENT)
			outcome_release_behind(row);
		keys_leave(row);
	}
	record(row, outcome, delay_us, error);
	resolve_younger(row->younger, outcome);
	if (row->key != NULL)
		outcome_queue_next(row->key);
}

void outcome_doom(struct row *row, const char *name, const char *error)
{
	if (outcome_keeps_order(row) && row->stage < STAGE_UNSETTLED) {
		outcome_release_behind(row);
		keys_leave(row);
	}
	set_error(row, error);
	row->doom = name;
	row->trial = false;
	topics_leave(row);
	source_move_row(row, STAGE_QUEUED);
	CRASH_POINT(ROW_DOOMED);
}

/* A row that awaits its older self may be with Kafka: given back, others would send it too. */
static struct row *first_to_release(const struct source *source, enum row_stage stage)
{
	const struct list *rows = &source->stages[stage];
	struct list_node *node = list_first(rows);

	while (node != NULL && STAGE_ROW(node)->awaits_elder)
		node = list_next(rows, node);
	return node == NULL ? NULL : STAGE_ROW(node);
}

void outcome_release_stage(struct source *source, enum row_stage stage)
{
	struct row *row;

	while ((row = first_to_release(source, stage)) != NULL) {
		outcome_set(row, OUTCOME_RELEASED, 0, NULL);
		CRASH_POINT(STAGE_RELEASED);
	}
}

/* ---- leaving memory ---- */

/* The hash holds the newest row of an id, older selves stand behind it. */
static void unlink_selves(struct source *source, struct row *row)
{
	if (row->newest)
		HASH_DEL(source->ids, row);
	if (row->newest && row->elder != NULL) {
		row->elder->newest = true;
		HASH_ADD_KEYPTR(hh, source->ids, row->elder->id.bytes, row->elder->id.len, row->elder);
	}
	if (row->elder != NULL)
		row->elder->younger = row->younger;
	if (row->younger != NULL)
		row->younger->elder = row->elder;
}

static void remove_row(struct row *row)
{
	struct source *source = row->batch->source;

	list_remove(&source->stages[row->stage], &row->stage_node);
	source->rows--;
	source->bytes -= row->bytes;
	unlink_selves(source, row);
	topics_leave(row);
	if (row->key != NULL)
		keys_drop(&source->keys, row->key,
			  source->jobs[SCHED_CLAIM].running || source->jobs[SCHED_SUSPECT].running
				  ? source->claim.number
				  : 0);
	batch_free_row(row);
}

void outcome_forget(struct row *row)
{
	if (outcome_keeps_order(row)) {
		outcome_release_behind(row);
		keys_leave(row);
	}
	resolve_younger(row->younger, OUTCOME_RELEASED);
	row->batch->source->forgotten++;
	remove_row(row);
	CRASH_POINT(ROW_FORGOTTEN);
}

/* ---- the settle ---- */

/* Ascending, so that all instances lock in the same order. */
static int compare_rows(const void *a, const void *b, void *order)
{
	const struct row *const *left = a, *const *right = b;
	const enum sql_order *by = order;

	return order_compare(*by, (*left)->order, (*right)->order);
}

static void add_others(struct source *source, struct row **rows, size_t n)
{
	struct settle_row settle;
	size_t i;

	qsort_r(rows, n, sizeof(rows[0]), compare_rows, &source->keys.order);
	for (i = 0; i < n; i++) {
		settle = (struct settle_row){
			.id = rows[i]->id,
			.lease = batch_cell(rows[i], SQL_C_LEASE),
			.owner = rows[i]->batch->owner,
			.state = source->config
					 ->states[rows[i]->outcome == OUTCOME_FAILED ? ROW_FAILED : ROW_PENDING],
			.delay_us = rows[i]->delay_us,
			.back = rows[i]->back,
			.error = rows[i]->error,
		};
		settle_add(source->settle, &settle);
	}
}

/* By claim: one is sent only after the answer to another. */
static int compare_claims(const void *a, const void *b)
{
	const struct row *left = *(const struct row *const *)a, *right = *(const struct row *const *)b;

	if (left->batch != right->batch)
		return left->batch->claimed_us < right->batch->claimed_us ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

static void add_sent(struct source *source, struct row **rows, size_t n)
{
	size_t i;

	qsort(rows, n, sizeof(rows[0]), compare_claims);
	for (i = 0; i < n; i++) {
		if (i == 0 || rows[i]->batch != rows[i - 1]->batch)
			settle_begin_claim(source->settle, batch_cell(rows[i], SQL_C_LEASE), rows[i]->batch->owner);
		settle_add_sent(source->settle, rows[i]->id);
	}
}

/* Delivered rows have a statement of their own: one settle takes those that are like the oldest, the next one the others. */
static size_t take_alike(const struct list *unsettled, struct row **rows, size_t most)
{
	struct list_node *node = list_first(unsettled);
	bool sent = STAGE_ROW(node)->outcome == OUTCOME_SENT;
	size_t n = 0;

	for (; node != NULL && n < most; node = list_next(unsettled, node)) {
		if ((STAGE_ROW(node)->outcome == OUTCOME_SENT) == sent)
			rows[n++] = STAGE_ROW(node);
	}
	return n;
}

bool outcome_start_settle(struct source *source)
{
	struct list *unsettled = &source->stages[STAGE_UNSETTLED];
	size_t n = unsettled->length < source->settle_limit ? unsettled->length : source->settle_limit, i;
	struct row **rows = MEM_NEW_ARRAY(n, struct row *);
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	char result_timeout[16];
	enum sql_kind kind;
	bool started;

	n = take_alike(unsettled, rows, n);
	kind = rows[0]->outcome == OUTCOME_SENT ? SQL_SETTLE_SENT : SQL_SETTLE;
	settle_begin(source->settle);
	if (kind == SQL_SETTLE_SENT)
		add_sent(source, rows, n);
	else
		add_others(source, rows, n);
	settle_values(source->settle, values);
	values[SQL_P_RESULT_TIMEOUT] = pg_put_interval_us(result_timeout, source->config->result_timeout_us);
	CRASH_POINT(SETTLE_DUE);
	started = jobs_submit(source, SCHED_SETTLE, sql_statement(source->sql, kind), values);
	for (i = 0; started && i < n; i++)
		source_move_row(rows[i], STAGE_SETTLING);
	mem_free(rows);
	if (started)
		CRASH_POINT(SETTLE_SENT);
	return started;
}

/* The row of that id which is being settled: the newest, or an older self of it. Marks it as changed. */
static void mark_settled(struct source *source, struct slice id)
{
	struct row *row;

	HASH_FIND(hh, source->ids, id.bytes, id.len, row);
	while (row != NULL && (row->stage != STAGE_SETTLING || row->settled))
		row = row->elder;
	if (row != NULL)
		row->settled = true;
}

static void pass_written(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_SENT:
		CRASH_POINT(SENT_WRITTEN);
		break;
	case OUTCOME_RETRY:
		CRASH_POINT(RETRY_WRITTEN);
		break;
	case OUTCOME_FAILED:
		CRASH_POINT(FAILURE_WRITTEN);
		break;
	case OUTCOME_RELEASED:
		CRASH_POINT(RELEASE_WRITTEN);
		break;
	}
}

static void count_outcome(struct source *source, struct row *row)
{
	int64_t due = source->now_us + row->delay_us;

	source->stats.settled[row->outcome]->value++;
	pass_written(row->outcome);
	if (row->outcome == OUTCOME_SENT || row->outcome == OUTCOME_FAILED)
		return;
	/* It will be due then, by the database's clock, which has just said now(). */
	if (due < source->due_us[SCHED_CLAIM])
		source->due_us[SCHED_CLAIM] = due;
	if (due > source->claim.delayed_until_us)
		source->claim.delayed_until_us = due;
}

static void count_fenced(struct source *source, const struct row *row)
{
	/* Its answer was lost the first time: most likely that settle had been committed. Or its consumer was faster. */
	if (row->resent || row->superseded)
		return;
	source->stats.fenced->value++;
	/* Delivered, or its dead letter is. */
	if (row->outcome == OUTCOME_SENT || (row->outcome == OUTCOME_FAILED && row->doom != NULL)) {
		source->stats.duplicate_lease->value++;
		CRASH_POINT(COUNTED_LEASE_EXPIRED);
	}
	CRASH_POINT(SETTLE_FENCED);
	LOG_LIMITED(LOG_WARN, "settle_fenced", source->config->name, log_str("source", source->config->name),
		    log_bytes("id", row->id.bytes, row->id.len),
		    log_str("outcome", outcome_name(source, row->outcome)), log_int("attempts", row->attempts));
}

static void settle_done(struct source *source, const struct db_result *result)
{
	struct row *row;
	int i;

	CRASH_POINT(SETTLE_ANSWERED);
	for (i = 0; i < db_result_rows(result); i++)
		mark_settled(source, db_result_cell(result, i, 0));
	while ((row = STAGE_FIRST(source, STAGE_SETTLING)) != NULL) {
		if (row->settled)
			count_outcome(source, row);
		else
			count_fenced(source, row);
		remove_row(row);
	}
	CRASH_POINT(SETTLE_FORGOTTEN);
	/* What these rows held back may be free now. */
	source->claim.settled = true;
	if (source->claim.hindered)
		source->due_us[SCHED_CLAIM] = source->now_us;
	source->settle_limit = source->settle_limit > SETTLE_ALL / 2 ? SETTLE_ALL : source->settle_limit * 2;
	source->due_us[SCHED_SETTLE] = source->now_us;
}

/* Back in front of the list: they are older than what has come meanwhile. */
static void settle_again(struct source *source, bool answer_lost)
{
	struct list *settling = &source->stages[STAGE_SETTLING];
	struct row *row;

	while (!list_empty(settling)) {
		row = STAGE_ROW(list_last(settling));
		row->resent = row->resent || answer_lost;
		list_remove(settling, &row->stage_node);
		list_insert_after(&source->stages[STAGE_UNSETTLED], NULL, &row->stage_node);
		row->stage = STAGE_UNSETTLED;
	}
}

static void fail_refused(struct row *row, const char *sqlstate)
{
	const struct source *source = row->batch->source;

	if (source->config->dead_letter_topic != NULL) {
		outcome_doom(row, "SETTLE_REFUSED", row->error);
		return;
	}
	metrics_series(source->env.metrics, METRIC_FAILED, source->config->name, sqlstate)->value++;
	row->outcome = OUTCOME_FAILED;
	row->back = 0;
}

/* The database refuses what is to be written about this one row: first with a plain reason in place of its text, then as
 * failed, and then its lease has to end it. */
static void settle_refused(struct source *source, struct job *job)
{
	struct row *row = STAGE_FIRST(source, STAGE_SETTLING);
	char text[64];

	LOG(LOG_ERROR, "settle_refused", log_str("source", source->config->name),
	    log_bytes("id", row->id.bytes, row->id.len), log_str("outcome", outcome_name(source, row->outcome)),
	    log_str("error", job->sqlstate), log_str("text", job->message));
	row->refusals++;
	if (row->refusals > 2) {
		source->forgotten++;
		/* Not now: the answer to a claim under way belongs to the present name. */
		source->claim.rename = true;
		remove_row(row);
		CRASH_POINT(SETTLE_GIVEN_UP);
		return;
	}
	snprintf(text, sizeof(text), "settle refused: %s", job->sqlstate);
	set_error(row, text);
	if (row->refusals == 2 && row->outcome != OUTCOME_FAILED)
		fail_refused(row, job->sqlstate);
	settle_again(source, false);
	CRASH_POINT(SETTLE_REFUSED);
}

void outcome_settle_answered(struct source *source, struct job *job)
{
	size_t sent = source->stages[STAGE_SETTLING].length;

	if (job->verdict == VERDICT_OK) {
		job->failures = 0;
		settle_done(source, job->result);
		return;
	}
	source->due_us[SCHED_SETTLE] = source->now_us + jobs_failed(source, job, "settle");
	if (job->verdict == VERDICT_UNKNOWN || job->fault != SQL_DATA) {
		settle_again(source, job->verdict == VERDICT_UNKNOWN);
		CRASH_POINT(SETTLE_LOST);
		return;
	}
	source->due_us[SCHED_SETTLE] = source->now_us;
	if (sent == 1) {
		settle_refused(source, job);
		return;
	}
	source->settle_limit = (sent + 1) / 2;
	settle_again(source, false);
	CRASH_POINT(SETTLE_HALVED);
}
