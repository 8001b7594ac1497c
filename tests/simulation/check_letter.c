/* What is judged of dead letters: that they are due, and say what they must. */
#include "fakekafka.h"
#include "records.h"

#include <string.h>

bool check_is_letter(const struct start *start, const struct message *message)
{
	return start->config->dead_letter_topic != NULL &&
	       strcmp(message->topic, start->config->dead_letter_topic) == 0;
}

const struct publication *record_last_letter(const struct row *row, const struct claim_record *claim)
{
	const struct publication *letter = row->record->letters;

	while (letter != NULL && letter->claim != claim)
		letter = letter->next;
	return letter;
}

static struct slice header_of(const struct message *message, const char *name)
{
	for (size_t i = 0; i < message->n_headers; i++) {
		if (slice_equal(message->headers[i].name, slice_of(name)))
			return message->headers[i].value;
	}
	return SLICE_NULL;
}

static bool is_omitted(const struct message *message, const char *name)
{
	return slice_equal(header_of(message, name), slice_of("omitted"));
}

static void check_text(struct sim *sim, const struct row *row, const struct claim_record *claim,
		       const struct message *message)
{
	static const char *const required[] = {"outboxd-source", "outboxd-id", "outboxd-error", "outboxd-attempts",
					       "outboxd-failed-at"};
	struct slice key = slice_of(is_omitted(message, "outboxd-key") ? NULL : row->key), value = SLICE_NULL;
	char text[STATEMENT_PAYLOAD];

	statement_payload(row, claim->revision, text);
	if (!row->tombstone && !is_omitted(message, "outboxd-payload"))
		value = slice_of(text);
	if (!slice_equal(message->key, key) || !slice_equal(message->value, value))
		sim_fail(sim, "content", "the dead letter of row %lld is another row's", (long long)row->id);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		if (header_of(message, required[i]).len == 0)
			sim_fail(sim, "content", "the dead letter of row %lld has no %s", (long long)row->id,
				 required[i]);
	}
	if (!slice_equal(header_of(message, "outboxd-topic"), slice_of(row->topic)))
		sim_fail(sim, "content", "the dead letter of row %lld names another topic", (long long)row->id);
}

static void check_due(struct start *start, const struct row *row, const struct claim_record *claim)
{
	struct sim *sim = start->sim;
	const struct publication *last = record_last_letter(row, claim);
	/* The instances' clocks go a little differently. */
	int64_t end = sim_now(sim) + start->config->kafka.message_timeout_us + 2 * SECOND - 50 * MS;

	if (!record_is_doomed(row, claim))
		sim_fail(sim, "buried-alive", "row %lld has a dead letter at attempt %d", (long long)row->id,
			 (int)claim->attempts);
	if (claim->concluded && row->curse == 0)
		sim_fail(sim, "published-after-outcome", "row %lld", (long long)row->id);
	if (claim->ends_us < end)
		sim_fail(sim, "short-lease", "the dead letter of row %lld is %lld us too late for its lease",
			 (long long)row->id, (long long)(end - claim->ends_us));
	if (last != NULL && last->answered_us == 0)
		sim_fail(sim, "published-twice", "the dead letter of row %lld has no verdict yet",
			 (long long)row->id);
	if (last != NULL && last->answered_us != 0 && last->answer.verdict == VERDICT_OK && row->curse == 0)
		sim_fail(sim, "published-again", "the dead letter of row %lld was delivered already",
			 (long long)row->id);
}

struct publication *check_letter(const struct kafka *kafka, struct row *row, int64_t lease,
				 const struct message *message)
{
	struct start *start = fakekafka_process(kafka)->asking;
	struct claim_record *claim = record_claim_under(row, start, lease);
	struct sim *sim = start->sim;
	struct publication *letter = arena_take(sim->arena, 1, sizeof(*letter));

	letter->start = start;
	letter->row = row;
	letter->letter = true;
	letter->published_us = sim_now(sim);
	letter->number = ++sim->checker->totals.publications;
	if (claim == NULL) {
		sim_fail(sim, "unclaimed",
			 "the dead letter of row %lld is published by %d.%d, which has not claimed it",
			 (long long)row->id, start->instance, start->number);
		return letter;
	}
	check_due(start, row, claim);
	check_text(sim, row, claim, message);
	letter->claim = claim;
	letter->next = row->record->letters;
	row->record->letters = letter;
	return letter;
}
