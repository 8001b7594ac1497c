/* Claims: their parameters, where they start, and rows entering memory. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Unique to one start of one process, and changed whenever the answer to a claim was lost or a row had to be forgotten: such
 * rows are held by nobody's memory, so they must count as foreign until their lease ends. */
void claim_name_owner(struct source *source)
{
	char settings[FINGERPRINT_SIZE];

	fingerprint_write(source->config, settings);
	snprintf(source->owner, sizeof(source->owner), "%s-%08" PRIx32 "-%" PRIu32 "/%s", source->env.owner,
		 (uint32_t)(source->env.seed ^ source->env.seed >> 32), source->owner_changes++, settings);
}

/* ---- parameters ---- */

/* Parameters in PostgreSQL's binary format; the struct must live until the request is sent. */
struct claim_values {
	char max_attempts[4], limit[4], share[4], max_in_flight[4], max_bytes[8], lease[16], park[16];
};

static void fill_values(struct source *source, struct claim_values *memory, struct slice values[SQL_PARAMS])
{
	const struct config_source *config = source->config;
	const struct place *place =
		source->claim.start == CLAIM_FROM_FAR ? &source->claim.far : &source->claim.front;
	int64_t room = config->max_in_flight_bytes - (int64_t)source->bytes;

	values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(memory->max_attempts, (int32_t)config->retry.max_attempts);
	values[SQL_P_LIMIT] = pg_put_int4(memory->limit, source->claim.limit);
	values[SQL_P_MAX_BYTES] = pg_put_int8(memory->max_bytes, room > 1 ? room : 1);
	values[SQL_P_OWNER] = slice_of(source->owner);
	values[SQL_P_SHARE] = pg_put_int4(memory->share, (int32_t)source->keys.share);
	values[SQL_P_MAX_IN_FLIGHT] = pg_put_int4(memory->max_in_flight, (int32_t)config->max_in_flight);
	values[SQL_P_LEASE] = pg_put_interval_us(memory->lease, config->lease_us);
	values[SQL_P_PARK_MAX] = pg_put_interval_us(memory->park, PARK_MAX_US);
	values[SQL_P_FAR_DUE] = (struct slice){place->due, sizeof(place->due)};
	values[SQL_P_FAR_ID] = (struct slice){place->id, place->id_len};
	keys_hot(&source->keys, &source->hot_names, &source->hot_held);
	values[SQL_P_HOT_KEYS] = pgarray_end(&source->hot_names);
	values[SQL_P_HOT_HELD] = pgarray_end(&source->hot_held);
}

static enum claim_start next_start(const struct source *source)
{
	const struct claim_position *claim = &source->claim;

	if (claim->go_far)
		return CLAIM_FROM_FAR;
	if (claim->backlog && claim->front.known && source->now_us - claim->front_us < FRONT_US)
		return CLAIM_FROM_FRONT;
	return CLAIM_FROM_BEGINNING;
}

bool claim_start(struct source *source, enum sched_job job, size_t room)
{
	struct claim_position *claim = &source->claim;
	struct slice values[SQL_PARAMS] = {SLICE_NULL};
	enum sql_kind kind = SQL_SUSPECT;
	struct claim_values memory;
	int64_t limit = source->config->batch, allowed = ratelimit_rows(&source->rate, source->now_us);

	if (job == SCHED_CLAIM) {
		claim->start = next_start(source);
		kind = claim->start == CLAIM_FROM_BEGINNING ? SQL_CLAIM : SQL_CLAIM_FAR;
	}
	/* Parked rows take no room in memory: many behind one obstacle go in larger bites. */
	if (claim->parking)
		limit *= PARKING_BATCHES;
	if (limit > (int64_t)room)
		limit = (int64_t)room;
	/* What may not be sent yet must not be held meanwhile. */
	if (limit > allowed)
		limit = allowed;
	if (claim->most > 0 && limit > claim->most)
		limit = claim->most;
	/* A cluster that was just away, or was never met, is tried with one row. */
	if (claim->limit_one || source->cluster.state != BREAKER_CLOSED || kafka_untried(source->env.kafka))
		limit = 1;
	claim->limit = (int)limit;
	if (claim->rename)
		claim_name_owner(source);
	claim->rename = false;
	fill_values(source, &memory, values);
	CRASH_POINT(CLAIM_DUE);
	if (!jobs_submit(source, job, sql_statement(source->sql, kind), values))
		return false;
	if (job == SCHED_SUSPECT)
		CRASH_POINT(SUSPECT_SENT);
	else
		CRASH_POINT(CLAIM_SENT);
	source->put_off = false;
	claim->number++;
	claim->settled = claim->settled && claim->start == CLAIM_FROM_FAR;
	/* Whatever makes a claim due from now on has come after it was sent: its answer does not undo that. */
	if (job == SCHED_CLAIM)
		source->due_us[SCHED_CLAIM] = SCHED_NEVER;
	return true;
}

/* ---- rows enter ---- */

static void count_late(struct row *row)
{
	struct source *source = row->batch->source;

	source->stats.result_timeouts->value++;
	LOG_LIMITED(LOG_WARN, "result_timeout", source->config->name, log_str("source", source->config->name),
		    log_bytes("id", row->id.bytes, row->id.len), log_int("attempts", row->attempts));
}

static void count_ended_lease(struct source *source, enum sql_taken taken)
{
	source->stats.lease_expired->value++;
	if (taken == SQL_TAKEN_OWN) {
		source->stats.duplicate_lease->value++;
		CRASH_POINT(COUNTED_LEASE_EXPIRED);
	} else {
		source->stats.duplicate_crash->value++;
		CRASH_POINT(COUNTED_CRASH_RECOVERED);
	}
}

static const char *owner_word(enum sql_taken taken)
{
	return taken == SQL_TAKEN_OWN ? "self" : "other";
}

static void count_taken(struct row *row)
{
	struct source *source = row->batch->source;
	enum sql_taken taken = (enum sql_taken)pg_get_int4(batch_cell(row, SQL_C_TAKEN));

	if (taken == SQL_TAKEN_LATE)
		count_late(row);
	if (taken == SQL_TAKEN_PENDING || taken == SQL_TAKEN_LATE)
		return;
	count_ended_lease(source, taken);
	CRASH_POINT(TAKEN_OVER);
	LOG_LIMITED(LOG_WARN, "lease_expired", source->config->name, log_str("source", source->config->name),
		    log_bytes("id", row->id.bytes, row->id.len), log_str("owner", owner_word(taken)),
		    log_int("attempts", row->attempts));
}

/* Rows in flight whose lease has ended, and which this claim has made pending, for they must wait behind others. */
static void count_parked(struct source *source, int64_t rows, enum sql_taken taken)
{
	int64_t i;

	for (i = 0; i < rows; i++)
		count_ended_lease(source, taken);
	if (rows > 0)
		LOG_LIMITED(LOG_WARN, "lease_expired", source->config->name,
			    log_str("source", source->config->name), log_str("owner", owner_word(taken)),
			    log_int("parked", rows));
}

/* await: its consumer has had it already, and wants it once more, whatever became of its older self. (Or another instance had taken
 * it over, and has given it back.) */
static bool is_asked_for(const struct row *row)
{
	return row->batch->source->config->on_delivered == ON_DELIVERED_AWAIT &&
	       pg_get_int4(batch_cell(row, SQL_C_TAKEN)) == SQL_TAKEN_PENDING;
}

/* An older self of the row may still be in memory: its lease ran out, or somebody set it pending by hand. */
static void link_selves(struct source *source, struct row *row)
{
	struct row *elder;

	HASH_FIND(hh, source->ids, row->id.bytes, row->id.len, elder);
	if (elder != NULL) {
		HASH_DEL(source->ids, elder);
		elder->newest = false;
		elder->younger = row;
		row->elder = elder;
		row->asked_for = is_asked_for(row);
		elder->superseded = elder->superseded || row->asked_for;
		row->awaits_elder = elder->stage < STAGE_UNSETTLED;
	}
	HASH_ADD_KEYPTR(hh, source->ids, row->id.bytes, row->id.len, row);
	row->newest = true;
}

static bool delivered_before(const struct row *row)
{
	return row->elder != NULL && !row->asked_for && row->elder->stage >= STAGE_UNSETTLED &&
	       row->elder->outcome == OUTCOME_SENT;
}

static void place_in_key(struct source *source, struct row *row)
{
	struct row *demoted = keys_enter(&source->keys, row);

	if (demoted != NULL)
		source_move_row(demoted, STAGE_WAITING);
	outcome_queue_next(row->key);
}

static void enter_row(struct source *source, struct row *row)
{
	struct slice key = batch_cell(row, SQL_C_KEY);

	row->stage = STAGE_WAITING;
	list_append(&source->stages[STAGE_WAITING], &row->stage_node);
	source->rows++;
	source->bytes += row->bytes;
	count_taken(row);
	link_selves(source, row);
	if (source->config->ordering == ORDERING_KEY && key.bytes != NULL) {
		row->key = keys_hold(&source->keys, key);
		place_in_key(source, row);
	} else if (!row->awaits_elder) {
		source_move_row(row, STAGE_QUEUED);
	}
	if (delivered_before(row))
		outcome_set(row, OUTCOME_SENT, 0, NULL);
	else if ((row->key != NULL && row->key->broken) || (source->state != SOURCE_RUNNING && !row->awaits_elder))
		outcome_set(row, OUTCOME_RELEASED, 0, NULL);
}

/* ---- the answer ---- */

static int64_t tail_number(const struct db_result *result, int column)
{
	return pg_get_int8(db_result_cell(result, 0, column));
}

static void remember(struct place *place, const struct db_result *result, int column)
{
	struct slice due = db_result_cell(result, 0, column), id = db_result_cell(result, 0, column + 1);

	place->known = due.len == sizeof(place->due) && id.bytes != NULL && id.len <= sizeof(place->id);
	if (!place->known)
		return;
	memcpy(place->due, due.bytes, due.len);
	memcpy(place->id, id.bytes, id.len);
	place->id_len = id.len;
}

static bool is_full(const struct source *source, const struct db_result *result)
{
	return tail_number(result, SQL_C_CANDIDATES) >= source->claim.limit;
}

/* Claims start at the beginning of the due range, where what was just freed lies. There are two exceptions. When the beginning
 * is full of rows that cannot be taken, the next goes on from the far place, until that has come to the end. And while a
 * backlog is worked off, claims start at its front, as it was a moment ago: before it lie the dead entries of all that
 * was settled since the last vacuum, and each claim would read over them. */
static void choose_start(struct source *source, const struct db_result *result, bool idle)
{
	struct claim_position *claim = &source->claim;
	int64_t candidates = tail_number(result, SQL_C_CANDIDATES);
	bool full = is_full(source, result);
	bool stuck = full && tail_number(result, SQL_C_FREE) < (candidates + 3) / 4 &&
		     tail_number(result, SQL_C_PARKED) == 0;

	if (claim->start == CLAIM_FROM_FAR) {
		claim->far.known = false;
		if (full)
			remember(&claim->far, result, SQL_C_LAST_DUE);
		/* Nothing came of it, and nothing was settled meanwhile: straight on, else have another look at the
		 * beginning. Where all rows are of one key, what was settled is what made room for more. */
		claim->go_far = claim->far.known && idle && !claim->settled;
		return;
	}
	if (claim->start == CLAIM_FROM_BEGINNING) {
		remember(&claim->front, result, SQL_C_FIRST_DUE);
		claim->front_us = source->now_us;
	}
	claim->backlog = full && !stuck;
	if (stuck && !claim->far.known)
		remember(&claim->far, result, SQL_C_LAST_DUE);
	claim->go_far = stuck && claim->far.known;
}

/* Is there likely more, though nobody says so? Without NOTIFY, whoever found something has to look again: more may have come. */
static bool more_to_claim(const struct source *source, const struct db_result *result, bool idle)
{
	const struct claim_position *claim = &source->claim;

	if (claim->go_far || (claim->hindered && claim->settled) || claim->start == CLAIM_FROM_FRONT)
		return true;
	if (idle)
		return false;
	return source->now_us - source->woken_us >= WOKEN_US || is_full(source, result) ||
	       claim->start == CLAIM_FROM_FAR || tail_number(result, SQL_C_PARKED) > 0 ||
	       tail_number(result, SQL_C_PULLED) > 0;
}

/* Nobody says when a consumer has made room. Never more than a twentieth of the time. */
static int64_t full_wait(const struct job *job)
{
	return job->duration_us * 20 > FULL_POLL_US ? job->duration_us * 20 : FULL_POLL_US;
}

static void choose_due(struct source *source, const struct job *job, bool more)
{
	int64_t *due = &source->due_us[SCHED_CLAIM], wait = source->config->poll_us;
	const struct claim_position *claim = &source->claim;

	if (more)
		wait = 0;
	else if (job->sent_us <= claim->delayed_until_us && wait > DELAYED_POLL_US)
		wait = DELAYED_POLL_US;
	if (pg_get_int4(db_result_cell(job->result, 0, SQL_C_FULL)) != 0 && wait > full_wait(job))
		wait = full_wait(job);
	if (source->now_us + wait < *due)
		*due = source->now_us + wait;
}

static void enter_rows(struct source *source, struct job *job)
{
	struct db_result *result = job->result;
	struct batch *batch;
	int n = db_result_rows(result) - 1, i; /* the first is the tail */

	if (n == 0)
		return;
	CRASH_POINT(CLAIM_ANSWERED);
	job->result = NULL;
	batch = batch_new(source, result, n, job->sent_us, source->config->lease_us, source->owner);
	/* A row may leave at once; the batch must outlive the loop. */
	batch->live++;
	source->stats.claimed->value += n;
	ratelimit_take(&source->rate, n);
	for (i = 0; i < n; i++)
		enter_row(source, &batch->rows[i]);
	batch_release(batch);
	CRASH_POINT(CLAIM_ENTERED);
}

static void claim_done(struct source *source, struct job *job, bool suspect)
{
	const struct db_result *result = job->result;
	int64_t claimed = db_result_rows(result) - 1;
	bool idle =
		claimed == 0 && tail_number(result, SQL_C_PARKED) == 0 && tail_number(result, SQL_C_PULLED) == 0;

	source->claim.limit_one = false;
	if (job->duration_us < source->config->postgres.statement_timeout_us / 4)
		source->claim.most = source->claim.most < source->config->batch ? source->claim.most * 2 : 0;
	source->broken.text[0] = '\0';
	if (suspect) {
		source->suspect_held = claimed > 0;
		source->due_us[SCHED_SUSPECT] = idle ? SCHED_NEVER : source->now_us;
	} else {
		source->claim.hindered = (source->claim.start == CLAIM_FROM_FAR && source->claim.hindered) ||
					 tail_number(result, SQL_C_CANDIDATES) > claimed;
		source->claim.parking =
			tail_number(result, SQL_C_PARKED) * 2 > tail_number(result, SQL_C_CANDIDATES);
		choose_start(source, result, idle);
		choose_due(source, job, more_to_claim(source, result, idle));
	}
	count_parked(source, tail_number(result, SQL_C_PARKED_OWN), SQL_TAKEN_OWN);
	count_parked(source, tail_number(result, SQL_C_PARKED_FOREIGN), SQL_TAKEN_FOREIGN);
	enter_rows(source, job);
	if (source->suspect_held)
		CRASH_POINT(SUSPECT_ENTERED);
}

static void claim_failed(struct source *source, struct job *job, bool suspect)
{
	int64_t *due = &source->due_us[suspect ? SCHED_SUSPECT : SCHED_CLAIM];

	/* A row changed between the statement's snapshot and its locks: nothing was claimed. */
	if (strstr(job->message, SQL_RACED_MARK) != NULL) {
		*due = source->now_us;
		return;
	}
	*due = source->now_us + jobs_failed(source, job, "claim");
	/* statement_timeout, or no answer within it: the same claim would run out of time again. */
	if (job->verdict == VERDICT_UNKNOWN || strcmp(job->sqlstate, "57014") == 0)
		source->claim.most = source->claim.limit > 1 ? source->claim.limit / 2 : 1;
	if (job->verdict == VERDICT_UNKNOWN) {
		claim_name_owner(source);
		CRASH_POINT(CLAIM_LOST);
	}
	if (job->fault == SQL_DATA && !source->claim.limit_one) {
		source->claim.limit_one = true;
		*due = source->now_us;
	}
}

void claim_answered(struct source *source, struct job *job, bool suspect)
{
	if (job->verdict == VERDICT_OK) {
		job->failures = 0;
		claim_done(source, job, suspect);
	} else {
		claim_failed(source, job, suspect);
	}
	if (keys_claim_answered(&source->keys, source->claim.number) && job->verdict == VERDICT_OK)
		source->due_us[SCHED_CLAIM] = source->now_us;
}
