/* What is judged while a history runs. records.h has what is remembered; check_end.c judges the whole. */
#include "records.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_CLAIMS_MAX 3000 /* in ten seconds */

void checker_new(struct sim *sim, struct table *table)
{
	sim->checker = arena_take(sim->arena, 1, sizeof(struct checker));
	sim->checker->table = table;
}

void check_only_crashers(struct sim *sim)
{
	sim->checker->only_crashers = true;
}

struct check_totals check_totals(const struct sim *sim)
{
	return sim->checker->totals;
}

void check_changed(struct sim *sim)
{
	sim->checker->totals.changed++;
}

struct row_record *record_of(struct sim *sim, struct row *row)
{
	if (row->record == NULL)
		row->record = arena_take(sim->arena, 1, sizeof(struct row_record));
	return row->record;
}

struct claim_record *record_claim(struct row *row, const struct start *start, int64_t lease)
{
	struct claim_record *claim = row == NULL || row->record == NULL ? NULL : row->record->claims;

	while (claim != NULL && (claim->start != start || claim->lease != lease))
		claim = claim->next;
	return claim;
}

bool record_sent_anew(const struct claim_record *claim, const struct claim_record *older)
{
	while (claim != NULL && claim != older && !claim->late && !claim->asked_for)
		claim = claim->next;
	return claim != NULL && claim != older;
}

const struct publication *record_last_under(const struct row *row, const struct claim_record *claim)
{
	const struct publication *publication = row->record->publications;

	while (publication != NULL && publication->claim != claim)
		publication = publication->next;
	return publication;
}

bool record_expiry_explained(const struct row *row, const struct claim_record *claim)
{
	return row->curse == 2 || claim->start->abandoned || claim->lost ||
	       (claim->start->gone && claim->start->gone_us <= claim->lease) ||
	       claim->start->process->troubled_us >= claim->committed_us;
}

/* ---- claims ---- */

static bool is_claim(const struct statement *statement)
{
	return statement->kind == SQL_CLAIM || statement->kind == SQL_CLAIM_FAR || statement->kind == SQL_SUSPECT;
}

static bool has_lost_owner(const struct start *start, const char *owner)
{
	for (size_t i = 0; i < start->n_lost_owners; i++) {
		if (strcmp(start->lost_owners[i], owner) == 0)
			return true;
	}
	return false;
}

static void check_share(struct start *start, const struct statement *statement, const struct row *row)
{
	const struct table *table = start->sim->checker->table;
	/* Keys that hold less than half a share are not named to the claim, and may take a whole one. */
	int64_t held = 0, share = start->config->max_in_flight < 4 ? 1 : start->config->max_in_flight / 4;

	if (row->key == NULL || start->config->ordering == ORDERING_NONE)
		return;
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct version *version = table_committed(table->rows[i]);

		if (version == NULL || version->state != ROW_IN_FLIGHT || table->rows[i]->key == NULL ||
		    strcmp(table->rows[i]->key, row->key) != 0 || version->lease_until <= statement->xact.now)
			continue;
		held += version->lease_owner != NULL && strcmp(version->lease_owner, statement->params.owner) == 0;
	}
	if (held > share + (share + 1) / 2 - 1)
		sim_fail(start->sim, "share", "%lld rows of key %s are held by %d.%d", (long long)held, row->key,
			 start->instance, start->number);
}

/* await: it had been delivered, and its consumer has had the time it was promised. */
static void check_late(struct start *start, const struct statement *statement, const struct effect *effect)
{
	const struct claim_record *before = record_of(start->sim, effect->row)->claims;

	if (effect->before->available_at > statement->xact.now || effect->before->lease_until > statement->xact.now)
		sim_fail(start->sim, "result-early", "row %lld was taken from its consumer too early",
			 (long long)effect->row->id);
	if (!before->settled || before->state != ROW_SENT)
		sim_fail(start->sim, "late-undelivered", "row %lld has nobody who could have written a result",
			 (long long)effect->row->id);
}

static void check_takeover(struct start *start, const struct statement *statement, const struct effect *effect)
{
	struct claim_record *before = record_of(start->sim, effect->row)->claims;

	if (effect->before->state != ROW_IN_FLIGHT)
		return;
	if (statement_late(statement, effect->before)) {
		check_late(start, statement, effect);
		return;
	}
	start->sim->checker->totals.takeovers++;
	if (before->lease > statement->xact.now)
		sim_fail(start->sim, "lease-stolen", "row %lld was taken %lld us before its lease ended",
			 (long long)effect->row->id, (long long)(before->lease - statement->xact.now));
	if (!record_expiry_explained(effect->row, before))
		sim_fail(start->sim, "lease-ran-out", "row %lld: the lease of %d.%d ran out without a fault",
			 (long long)effect->row->id, before->start->instance, before->start->number);
}

/* await: the rows in flight are bounded, whoever has them. */
static void check_bound(struct start *start, const struct statement *statement)
{
	const struct table *table = start->sim->checker->table;
	int64_t in_flight = 0;

	if (!statement_awaits(statement) || !is_claim(statement))
		return;
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct version *version = table_committed(table->rows[i]);

		in_flight += version != NULL && version->state == ROW_IN_FLIGHT;
	}
	if (in_flight > start->sim->checker->most_in_flight)
		sim_fail(start->sim, "dispatch-unbounded", "%lld rows are in flight, and %lld may be",
			 (long long)in_flight, (long long)start->sim->checker->most_in_flight);
}

static void note_awaiting(const struct statement *statement, const struct effect *effect,
			  struct claim_record *claim)
{
	struct row_record *record = effect->row->record;

	if (!statement_awaits(statement))
		return;
	claim->late = effect->before->state == ROW_IN_FLIGHT && statement_late(statement, effect->before);
	claim->from_pending = effect->before->state == ROW_PENDING;
	claim->asked_for = claim->from_pending && (record->asked || record->retried);
	record->asked = false;
}

static void note_claim(struct start *start, const struct statement *statement, const struct effect *effect)
{
	struct sim *sim = start->sim;
	struct row_record *record = record_of(sim, effect->row);
	struct claim_record *claim = arena_take(sim->arena, 1, sizeof(*claim));

	check_takeover(start, statement, effect);
	/* A limit that was lowered meanwhile lets a row that waits have the attempt it was promised. */
	if (effect->after->attempts > sim->checker->most_attempts && start->config->dead_letter_topic == NULL &&
	    !record->asked_ever)
		sim_fail(sim, "attempts", "row %lld: attempt %d of %d", (long long)effect->row->id,
			 (int)effect->after->attempts, (int)sim->checker->most_attempts);
	if (effect->after->attempts != effect->before->attempts + 1)
		sim_fail(sim, "attempt-uncounted", "row %lld: a claim is an attempt", (long long)effect->row->id);
	if (statement->kind != SQL_SUSPECT && effect->before->state == ROW_IN_FLIGHT &&
	    effect->before->attempts >= 2 && !statement_late(statement, effect->before))
		sim_fail(sim, "suspect-in-batch",
			 "row %lld may have killed its process, and was claimed with others",
			 (long long)effect->row->id);
	claim->start = start;
	claim->lease = effect->after->lease_until;
	claim->ends_us = statement->xact.began_us + start->config->lease_us;
	claim->attempts = effect->after->attempts;
	claim->revision = effect->after->revision;
	claim->snapshot = statement->xact.snapshot;
	claim->committed_us = sim_now(sim);
	claim->lost = has_lost_owner(start, statement->params.owner);
	note_awaiting(statement, effect, claim);
	claim->taken = effect->before->state == ROW_IN_FLIGHT && !claim->late;
	claim->next = record->claims;
	record->claims = claim;
	sim->checker->totals.claims++;
	check_share(start, statement, effect->row);
}

/* ---- settles ---- */

/* Claimed with all its attempts used: only for its dead letter. */
static bool is_used_up(const struct claim_record *claim)
{
	const struct config_source *config = claim->start->config;

	return config->dead_letter_topic != NULL && claim->attempts > config->retry.max_attempts;
}

bool record_is_doomed(const struct row *row, const struct claim_record *claim)
{
	const struct config_source *config = claim->start->config;
	const struct publication *last = record_last_under(row, claim);

	if (config->dead_letter_topic == NULL)
		return false;
	if (is_used_up(claim) || row->nature == NATURE_UNROUTED || claim->refused || row->curse > 0)
		return true;
	if (last == NULL || last->answered_us == 0 || last->answer.verdict == VERDICT_OK)
		return false;
	return (last->answer.fault == FAULT_ROW && last->single) ||
	       (last->answer.fault == FAULT_NONE && claim->attempts >= config->retry.max_attempts);
}

/* A row becomes failed when Kafka has its dead letter, never before. */
static void check_buried(struct start *start, const struct effect *effect, const struct claim_record *claim)
{
	const struct publication *letter = record_last_letter(effect->row, claim);

	if (letter == NULL || letter->answered_us == 0 || letter->answer.verdict != VERDICT_OK)
		sim_fail(start->sim, "failed-silently", "row %lld failed before its dead letter was delivered",
			 (long long)effect->row->id);
}

static bool is_bad(const struct publication *publication)
{
	return publication->answered_us != 0 && publication->answer.verdict != VERDICT_OK;
}

/* Was another row of its key with Kafka in front of it, and refused too? That one decides. */
static bool fell_with_another(const struct publication *publication)
{
	const struct table *table = publication->start->sim->checker->table;
	const struct row *row = publication->row;

	for (size_t i = 0; i < table->n_rows && row->key != NULL; i++) {
		const struct row *other = table->rows[i];
		const struct publication *each = other->record == NULL ? NULL : other->record->publications;

		if (other == row || other->key == NULL || strcmp(other->key, row->key) != 0)
			continue;
		for (; each != NULL; each = each->next)
			if (each->start == publication->start && each->generation == publication->generation &&
			    each->number < publication->number && is_bad(each) &&
			    each->answered_us >= publication->published_us)
				return true;
	}
	return false;
}

/* Back without its dead letter: with all its attempts used, or as it was claimed, when nobody had looked at it. */
static void check_put_off(struct start *start, const struct effect *effect, const struct claim_record *claim)
{
	const struct publication *letter = record_last_letter(effect->row, claim);
	int32_t back = claim->attempts - (int32_t)start->config->retry.max_attempts;
	const struct publication *last = record_last_under(effect->row, claim);
	bool looked_at = letter != NULL || claim->refused || (last != NULL && !fell_with_another(last));
	long long id = effect->row->id;

	if (letter != NULL && letter->answered_us == 0)
		sim_fail(start->sim, "no-verdict", "row %lld was put off before Kafka's answer", id);
	if (letter != NULL && letter->answered_us != 0 && letter->answer.verdict == VERDICT_OK &&
	    effect->row->curse == 0)
		sim_fail(start->sim, "buried-released",
			 "the dead letter of row %lld was delivered, and it was put off", id);
	if (effect->outcome->back != back && (effect->outcome->back != 1 || looked_at) && effect->row->curse == 0)
		sim_fail(start->sim, "attempts-left", "row %lld was put off at attempt %d, and %d were given back",
			 id, (int)claim->attempts, (int)effect->outcome->back);
}

static void check_failed(struct start *start, const struct effect *effect, const struct claim_record *claim,
			 const struct publication *last)
{
	struct sim *sim = start->sim;
	long long id = effect->row->id;

	sim->checker->totals.failed++;
	effect->row->record->failed = true;
	if (start->config->dead_letter_topic != NULL)
		check_buried(start, effect, claim);
	if (effect->after->last_error == NULL)
		sim_fail(sim, "failed-unexplained", "row %lld failed without a reason", id);
	if (effect->row->nature == NATURE_UNROUTED || claim->refused || effect->row->curse > 0 || is_used_up(claim))
		return;
	if (last == NULL || last->answered_us == 0)
		sim_fail(sim, "failed-unexplained", "row %lld failed though Kafka said nothing", id);
	else if (last->answer.fault == FAULT_ROW && !last->alone)
		sim_fail(sim, "condemned-with-batch", "row %lld failed for an error of its batch", id);
	else if (last->answer.fault == FAULT_NONE && claim->attempts < start->config->retry.max_attempts)
		sim_fail(sim, "failed-early", "row %lld failed at attempt %d", id, (int)claim->attempts);
	else if (last->answer.verdict == VERDICT_OK ||
		 (last->answer.fault != FAULT_ROW && last->answer.fault != FAULT_NONE))
		sim_fail(sim, "failed-unexplained", "row %lld failed for %s", id, last->answer.name);
}

static void check_sent(struct start *start, const struct effect *effect)
{
	const struct publication *publication = effect->row->record->publications;

	while (publication != NULL && (publication->start != start || publication->answered_us == 0 ||
				       publication->answer.verdict != VERDICT_OK))
		publication = publication->next;
	if (publication == NULL)
		sim_fail(start->sim, "sent-unproven", "row %lld is marked sent, and Kafka never said so",
			 (long long)effect->row->id);
}

/* F025, F030: a row that has lost an attempt waits as long as its backoff says, with the jitter and no more. */
static void check_backoff(struct start *start, const struct effect *effect)
{
	const struct config_retry *retry = &start->config->retry;
	double base = (double)retry->initial_us, delay = (double)effect->outcome->delay_us;
	int32_t attempt;

	for (attempt = 1; attempt < effect->before->attempts && base < (double)retry->max_us; attempt++)
		base *= retry->multiplier;
	if (base > (double)retry->max_us)
		base = (double)retry->max_us;
	if (delay < base * (1 - retry->jitter) - 1 || delay > base * (1 + retry->jitter) + 1)
		sim_fail(start->sim, "backoff", "row %lld waits %.0f us after attempt %d, not about %.0f",
			 (long long)effect->row->id, delay, (int)effect->before->attempts, base);
}

static void check_pending(struct start *start, const struct effect *effect, const struct claim_record *claim,
			  const struct publication *last)
{
	/* Its older self may be with Kafka: only with a key must it go, when a row in front of it does. */
	const struct publication *newest = record_last_by(effect->row, start);
	bool answered = last != NULL && last->answered_us != 0;
	bool passing = answered && last->answer.verdict != VERDICT_OK && last->answer.fault == FAULT_NONE;
	long long id = effect->row->id;

	if (answered && last->answer.verdict == VERDICT_OK)
		sim_fail(start->sim, "delivered-released", "row %lld was delivered, and given back", id);
	effect->row->record->given_back |= effect->outcome->back != 0 && effect->before->attempts > 2;
	if (record_is_doomed(effect->row, claim)) {
		check_put_off(start, effect, claim);
		return;
	}
	if (newest != NULL && newest->answered_us == 0 &&
	    (newest->claim == claim || (effect->row->key == NULL && !claim->from_pending)))
		sim_fail(start->sim, "no-verdict", "row %lld was given back before Kafka's answer", id);
	if (effect->outcome->back == 0 && !passing)
		sim_fail(start->sim, "attempt-charged", "row %lld paid for what is not its fault", id);
	else if (effect->outcome->back == 0)
		check_backoff(start, effect);
	if (effect->outcome->back != 0 && passing && !fell_with_another(last))
		sim_fail(start->sim, "attempt-free", "row %lld was given its attempt back", id);
}

static void note_settled(struct start *start, const struct effect *effect)
{
	struct claim_record *claim = record_claim(effect->row, start, effect->before->lease_until);
	const struct publication *last;

	if (claim == NULL || claim->lease != effect->outcome->lease) {
		sim_fail(start->sim, "fence", "row %lld was settled by %d.%d under a lease that is not its own",
			 (long long)effect->row->id, start->instance, start->number);
		return;
	}
	claim->settled = true;
	claim->state = effect->outcome->state;
	last = record_last_under(effect->row, claim);
	if (effect->after->attempts != effect->before->attempts - effect->outcome->back)
		sim_fail(start->sim, "attempt-kept", "row %lld: the attempt was not given back",
			 (long long)effect->row->id);
	if (effect->outcome->state == ROW_SENT && claim->asked_for && (last == NULL || last->answered_us == 0))
		sim_fail(start->sim, "unsent-again", "row %lld was asked for once more, and not sent",
			 (long long)effect->row->id);
	if (effect->outcome->state == ROW_SENT)
		check_sent(start, effect);
	else if (effect->outcome->state == ROW_FAILED)
		check_failed(start, effect, claim, last);
	else
		check_pending(start, effect, claim, last);
}

/* Kafka refused it at some time: it lost an attempt by itself. */
static bool was_refused(const struct row_record *record)
{
	const struct publication *publication = record->publications;

	while (publication != NULL && !is_bad(publication))
		publication = publication->next;
	return publication != NULL;
}

static void note_expired(struct start *start, const struct statement *statement, const struct effect *effect)
{
	struct row_record *record = record_of(start->sim, effect->row);

	if (effect->after->state == ROW_FAILED) {
		record->failed = true;
		start->sim->checker->totals.failed++;
		record->unburied = true;
		if (start->config->dead_letter_topic != NULL &&
		    effect->before->attempts - SQL_DEATHS_MAX < start->config->retry.max_attempts)
			sim_fail(start->sim, "failed-silently", "row %lld failed without its dead letter",
				 (long long)effect->row->id);
	} else {
		start->sim->checker->expired_untold++;
	}
	if (statement_late(statement, effect->before)) {
		check_late(start, statement, effect);
		return;
	}
	if (!record_expiry_explained(effect->row, record->claims))
		sim_fail(start->sim, "lease-ran-out", "row %lld expired without a fault",
			 (long long)effect->row->id);
	if (start->sim->checker->only_crashers && effect->row->nature != NATURE_CRASHER && !was_refused(record) &&
	    !record->parked && !record->given_back && !record->asked_ever)
		sim_fail(start->sim, "innocent-exhausted", "row %lld failed for another row's crashes",
			 (long long)effect->row->id);
}

static bool is_parked_from_flight(const struct effect *effect)
{
	return effect->kind == EFFECT_MOVED && effect->before->state == ROW_IN_FLIGHT &&
	       effect->after->state == ROW_PENDING;
}

/* A row in flight that does not become due is nobody's. */
static void check_moved(struct start *start, const struct statement *statement, const struct effect *effect)
{
	if (effect->after->state == ROW_IN_FLIGHT && effect->after->available_at > statement->xact.now)
		sim_fail(start->sim, "parked-in-flight", "row %lld is parked, and in flight",
			 (long long)effect->row->id);
	if (!is_parked_from_flight(effect))
		return;
	/* Its lease had run out, but whoever claims it later finds it pending: it is counted now, unless the answer is lost, and
	 * no suspect. */
	start->sim->checker->parked_uncounted++;
	record_of(start->sim, effect->row)->parked = true;
}

/* Whoever has finished a row, the relay never changes it. */
static void check_unfinished(const struct start *start, const struct effect *effect)
{
	if (effect->before->state == ROW_SENT || effect->before->state == ROW_FAILED)
		sim_fail(start->sim, "finished-changed", "row %lld was %s, and is %s", (long long)effect->row->id,
			 row_state_name(effect->before->state), row_state_name(effect->after->state));
}

void check_commit(struct start *start, const struct statement *statement)
{
	check_bound(start, statement);
	for (size_t i = 0; i < statement->n_effects; i++) {
		const struct effect *effect = &statement->effects[i];

		check_unfinished(start, effect);
		if (effect->kind == EFFECT_CLAIMED)
			note_claim(start, statement, effect);
		else if (effect->kind == EFFECT_SETTLED)
			note_settled(start, effect);
		else if (effect->kind == EFFECT_EXPIRED)
			note_expired(start, statement, effect);
		else
			check_moved(start, statement, effect);
	}
}

/* ---- what a start asks, and is told ---- */

static void check_claim_sent(struct start *start, const struct statement *statement)
{
	struct sim *sim = start->sim;
	size_t held = source_held(start->source);

	if (start->claims++ > 0)
		sim_fail(sim, "two-claims", "%d.%d has two claims under way", start->instance, start->number);
	if (start->lost_settles > 0)
		sim_fail(sim, "claim-before-settle", "%d.%d claims, and %zu outcomes may not have been written",
			 start->instance, start->number, start->lost_settles);
	if (has_lost_owner(start, statement->params.owner))
		sim_fail(sim, "owner-kept", "%d.%d claims under the name of a claim whose answer was lost",
			 start->instance, start->number);
	if (held == 0)
		start->suspect = false;
	if (start->suspect)
		sim_fail(sim, "claim-beside-suspect", "%d.%d claims while it holds a suspect", start->instance,
			 start->number);
	if (statement->kind == SQL_SUSPECT && held > 0)
		sim_fail(sim, "suspect-in-company", "%d.%d claims a suspect and holds %zu rows", start->instance,
			 start->number, held);
	if (statement->kind != SQL_SUSPECT &&
	    held + (size_t)statement->params.limit > (size_t)start->config->max_in_flight)
		sim_fail(sim, "room", "%d.%d holds %zu rows and asks for %d", start->instance, start->number, held,
			 (int)statement->params.limit);
}

/* What becomes of a row that Kafka refused is decided when nothing of its key behind it is with Kafka. */
static void check_not_early(struct start *start, const struct row *row, const struct claim_record *claim)
{
	const struct table *table = start->sim->checker->table;
	const struct publication *refused = record_last_under(row, claim);

	if (refused == NULL || !is_bad(refused))
		return;
	for (size_t i = 0; i < table->n_rows && row->key != NULL; i++) {
		const struct row *other = table->rows[i];
		const struct publication *last = other->record == NULL ? NULL : other->record->publications;

		if (other->id <= row->id || other->key == NULL || strcmp(other->key, row->key) != 0)
			continue;
		while (last != NULL && last->start != start)
			last = last->next;
		if (last != NULL && last->answered_us == 0 && last->number > refused->number)
			sim_fail(start->sim, "concluded-early",
				 "row %lld is settled, and row %lld behind it is with Kafka", (long long)row->id,
				 (long long)other->id);
	}
}

void check_submit(struct start *start, const struct statement *statement)
{
	if (is_claim(statement))
		check_claim_sent(start, statement);
	for (size_t i = 0; i < statement->params.n_outcomes; i++) {
		const struct outcome *outcome = &statement->params.outcomes[i];
		struct claim_record *claim =
			record_claim(table_find(start->sim->checker->table, outcome->id), start, outcome->lease);

		if (claim == NULL || !claim->answered)
			sim_fail(start->sim, "unclaimed", "%d.%d settles row %lld, which it has not claimed",
				 start->instance, start->number, (long long)outcome->id);
		else
			claim->concluded = true;
		if (claim != NULL && outcome->state != ROW_SENT && start->config->ordering == ORDERING_KEY)
			check_not_early(start, table_find(start->sim->checker->table, outcome->id), claim);
	}
}

static void keep_lost_owner(struct start *start, const char *owner)
{
	const char **larger = arena_take(start->sim->arena, start->n_lost_owners + 1, sizeof(const char *));

	if (start->n_lost_owners > 0)
		memcpy(larger, start->lost_owners, start->n_lost_owners * sizeof(const char *));
	larger[start->n_lost_owners++] = owner;
	start->lost_owners = larger;
}

/* Walking over a full table takes some claims that find nothing; going round and round in it takes many. */
static void check_idle(struct start *start, const struct statement *statement)
{
	int64_t now = sim_now(start->sim);

	if (statement->n_effects > 0 || now - start->idle_since_us > 10 * SECOND) {
		start->idle_claims = 0;
		start->idle_since_us = now;
	}
	if (++start->idle_claims > IDLE_CLAIMS_MAX)
		sim_fail(start->sim, "hammers", "%d.%d claims nothing, again and again", start->instance,
			 start->number);
}

static void takeovers_told(struct start *start, uint64_t n)
{
	start->sim->checker->takeovers_told += n;
	start->unseen_takeovers += n;
}

static void late_told(struct start *start, uint64_t n)
{
	start->sim->checker->late_told += n;
	start->unseen_late += n;
}

/* Its start holds the row of an earlier claim still, and need not hear of that any more. */
static void supersede(const struct start *start, const struct claim_record *claim)
{
	struct claim_record *older = claim->next;

	while (older != NULL && (older->start != start || !older->answered || older->settle_told))
		older = older->next;
	if (older == NULL || !claim->from_pending || older->superseded)
		return;
	older->superseded = true;
	older->superseded_pass = start->passes;
}

/* A pass looks at the answers of settles first. */
static bool superseded_before(const struct start *start, const struct claim_record *claim)
{
	return claim->superseded && claim->superseded_pass < start->passes;
}

static void claim_told(struct start *start, const struct statement *statement, enum verdict verdict)
{
	bool any = false;

	start->claims--;
	check_idle(start, statement);
	if (verdict == VERDICT_UNKNOWN)
		keep_lost_owner(start, statement->params.owner);
	for (size_t i = 0; i < statement->n_effects; i++) {
		const struct effect *effect = &statement->effects[i];
		struct claim_record *claim = record_claim(effect->row, start, effect->after->lease_until);

		if (verdict == VERDICT_OK && is_parked_from_flight(effect)) {
			start->sim->checker->parked_uncounted--;
			takeovers_told(start, 1);
		}
		/* Not committed (yet): what is published then is unclaimed. */
		if (effect->kind != EFFECT_CLAIMED || claim == NULL)
			continue;
		claim->lost |= verdict == VERDICT_UNKNOWN;
		if (verdict != VERDICT_OK)
			continue;
		any = claim->answered = true;
		takeovers_told(start, claim->taken);
		late_told(start, claim->late);
		supersede(start, claim);
	}
	if (statement->kind == SQL_SUSPECT && verdict == VERDICT_OK)
		start->suspect = any;
}

static bool was_written(const struct statement *statement, const struct outcome *outcome)
{
	for (size_t i = 0; i < statement->n_effects; i++) {
		if (statement->effects[i].outcome == outcome)
			return true;
	}
	return false;
}

static bool is_fenced(const struct statement *statement, const struct outcome *outcome)
{
	return statement_awaits(statement) ? outcome->fenced : !was_written(statement, outcome);
}

/* The relay may give up what the database will never take. */
static bool is_given_up(const struct start *start, const struct outcome *outcome)
{
	return table_find(start->sim->checker->table, outcome->id)->curse == 2;
}

static void settle_told(struct start *start, const struct statement *statement, enum verdict verdict)
{
	for (size_t i = 0; i < statement->params.n_outcomes; i++) {
		const struct outcome *outcome = &statement->params.outcomes[i];
		struct claim_record *claim =
			record_claim(table_find(start->sim->checker->table, outcome->id), start, outcome->lease);
		bool fenced;
		if (claim == NULL)
			continue;
		if (verdict == VERDICT_UNKNOWN && !claim->settle_lost && !is_given_up(start, outcome)) {
			claim->settle_lost = claim->resent = true;
			start->lost_settles++;
		}
		if (verdict != VERDICT_OK)
			continue;
		fenced = is_fenced(statement, outcome) && !claim->resent && !superseded_before(start, claim);
		start->sim->checker->totals.fenced += fenced;
		start->unseen_fenced += fenced;
		claim->settle_told = true;
		start->lost_settles -= claim->settle_lost;
		claim->settle_lost = false;
	}
}

static void expire_told(struct start *start, const struct statement *statement)
{
	for (size_t i = 0; i < statement->n_effects; i++) {
		if (statement_late(statement, statement->effects[i].before))
			late_told(start, 1);
		else
			takeovers_told(start, 1);
		start->sim->checker->expired_untold -= statement->effects[i].after->state == ROW_PENDING;
	}
}

void check_db_answer(struct start *start, const struct statement *statement, enum verdict verdict)
{
	if (is_claim(statement))
		claim_told(start, statement, verdict);
	else if (statement->kind == SQL_SETTLE || statement->kind == SQL_SETTLE_SENT)
		settle_told(start, statement, verdict);
	else if (statement->kind == SQL_EXPIRE && verdict == VERDICT_OK)
		expire_told(start, statement);
}
