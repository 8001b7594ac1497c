/* Dead letters: what is published of a row before it is failed.
 *
 * A doomed row has left the order of its key, which is broken until the row is settled, so what follows it waits as it does
 * for any failure. It goes through QUEUED and IN_FLIGHT once more, as another record to another topic. Delivered: the row is
 * failed. Otherwise the row goes back with all its attempts used, and whoever claims it next publishes only its dead letter:
 * it is neither lost nor sent again. */
#include "relay/private.h"

#include "base/crash.h"
#include "base/log.h"

#include <string.h>

bool deadletter_is_due(const struct row *row)
{
	return row->attempts > row->max_attempts && row->batch->source->config->dead_letter_topic != NULL;
}

int32_t deadletter_attempts(const struct row *row)
{
	return row->doom != NULL && row->attempts > row->max_attempts ? row->max_attempts : row->attempts;
}

void deadletter_doom_used_up(struct row *row)
{
	struct source *source = row->batch->source;
	struct slice last = route_last_error(source->route, source->cells);
	/* Each attempt beyond the limit that did not come back was lost with whoever had the row for its dead letter: perhaps it
	 * kills who handles it. */
	int32_t lost = row->attempts - row->max_attempts - 1;
	struct buf error = {0};

	if (last.bytes == NULL)
		last = slice_of("no attempts left");
	buf_add(&error, last.bytes, last.len);
	row->letter = lost < DEATHS_WHOLE      ? LETTER_WHOLE
		      : lost < DEATHS_WITH_KEY ? LETTER_WITHOUT_VALUE
					       : LETTER_BARE;
	outcome_doom(row, "NO_ATTEMPTS_LEFT", buf_text(&error));
	buf_free(&error);
}

/* The time by the database's clock: a lease begins when its claim does. */
static int64_t database_now(const struct row *row)
{
	const struct batch *batch = row->batch;

	return pg_get_int8(batch_cell(row, SQL_C_LEASE)) - batch->lease_us + batch->source->now_us -
	       batch->claimed_us;
}

void deadletter_compose(struct row *row, struct message *message)
{
	struct source *source = row->batch->source;
	struct route_death death = {
		.source = slice_of(source->config->name),
		.topic = source->config->dead_letter_topic,
		.attempts = deadletter_attempts(row),
		.failed_at = database_now(row),
		.letter = row->letter,
	};

	buf_clear(&source->death);
	settle_clean_text(&source->death, row->error, SETTLE_ERROR_BYTES);
	death.error = (struct slice){buf_text(&source->death), source->death.len};
	route_compose_letter(source->route, source->cells, &death, message);
}

/* The error's text behind its name. */
static const char *reason(const struct row *row)
{
	size_t len = strlen(row->doom);

	if (strncmp(row->error, row->doom, len) == 0 && strncmp(row->error + len, ": ", 2) == 0)
		return row->error + len + 2;
	return row->error;
}

void deadletter_delivered(struct row *row)
{
	struct source *source = row->batch->source;

	source->stats.dead_letters->value++;
	CRASH_POINT(LETTER_DELIVERED);
	answer_tell_failed(row, row->doom, reason(row));
	outcome_set(row, OUTCOME_FAILED, 0, NULL);
	CRASH_POINT(ROW_FAILED);
}

bool deadletter_try_less(struct row *row)
{
	if (row->answer.fault != FAULT_ROW || row->letter == LETTER_BARE)
		return false;
	row->letter++;
	source_move_row(row, STAGE_QUEUED);
	CRASH_POINT(LETTER_SHORTENED);
	return true;
}

void deadletter_tell_refused(const struct row *row)
{
	struct source *source = row->batch->source;

	metrics_series(source->env.metrics, METRIC_DEAD_LETTERS_REFUSED, source->config->name, row->answer.name)
		->value++;
	LOG_LIMITED(LOG_ERROR, "dead_letter_refused", source->config->name, log_str("source", source->config->name),
		    log_bytes("id", row->id.bytes, row->id.len),
		    log_str("topic", source->config->dead_letter_topic), log_str("error", row->answer.name),
		    log_str("text", row->answer.text));
}
