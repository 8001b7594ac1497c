/* What is judged when a row is published, written and answered, and after each pass. */
#include "fakekafka.h"
#include "records.h"

#include <stdlib.h>
#include <string.h>

struct row *check_row(struct start *start, const struct message *message)
{
	struct row *row = NULL;

	for (size_t i = 0; i < message->n_headers; i++) {
		const struct message_header *header = &message->headers[i];

		size_t skip = slice_equal(header->name, slice_of("event_id")) ? strlen("event-") : 0;

		if ((skip > 0 || slice_equal(header->name, slice_of("outboxd-id"))) && header->value.len > skip &&
		    header->value.len < 20) {
			char text[20] = "";

			memcpy(text, header->value.bytes + skip, header->value.len - skip);
			row = table_find(start->sim->checker->table, strtoll(text, NULL, 10));
		}
	}
	if (row == NULL) {
		fprintf(stderr, "simulation: a message without its event_id\n");
		abort();
	}
	return row;
}

static struct claim_record *newest_claim(const struct row *row, const struct start *start)
{
	struct claim_record *claim = row->record == NULL ? NULL : row->record->claims;

	while (claim != NULL && (claim->start != start || !claim->answered))
		claim = claim->next;
	return claim;
}

const struct publication *record_last_by(const struct row *row, const struct start *start)
{
	const struct publication *publication = row->record == NULL ? NULL : row->record->publications;

	while (publication != NULL && publication->start != start)
		publication = publication->next;
	return publication;
}

static bool same_key(const struct row *a, const struct row *b)
{
	return a->key != NULL && b->key != NULL && strcmp(a->key, b->key) == 0;
}

/* ---- order ---- */

/* Must an older row of its key have been delivered before a row with this claim? Not when it had not been committed when the
 * claim looked, when people interfered, or when a failed row does not block. */
static bool must_precede(const struct row *older, const struct row *row, const struct claim_record *claim)
{
	const struct version *version = table_committed(older);

	if (older->id >= row->id || !same_key(older, row) || table_visible(older, claim->snapshot) == NULL)
		return false;
	if (version == NULL || (older->record != NULL && older->record->orderless))
		return false;
	return claim->start->config->on_failed == ON_FAILED_BLOCK || older->record == NULL ||
	       !older->record->failed;
}

/* With Kafka still, where nothing that follows it is written before it. */
static bool goes_before(const struct publication *older, const struct publication *publication)
{
	return older->answered_us == 0 && older->generation != 0 && older->generation == publication->generation;
}

/* At publishing, every older row must have been delivered, and this process must know; or it is on its way in front. */
static void check_older_published(const struct publication *publication, const struct claim_record *claim)
{
	struct start *start = publication->start;
	const struct row *row = publication->row;

	for (int64_t id = 1; id < row->id; id++) {
		const struct row *older = table_find(start->sim->checker->table, id);
		const struct publication *last = record_last_by(older, start);

		if (!must_precede(older, row, claim) || table_committed(older)->settled_at != TABLE_NULL)
			continue;
		if (last != NULL && goes_before(last, publication))
			continue;
		if (last == NULL || last->answered_us == 0 || last->answer.verdict != VERDICT_OK)
			sim_fail(start->sim, "overtakes", "row %lld is published, and row %lld of its key is open",
				 (long long)row->id, (long long)id);
	}
}

static void check_order(struct sim *sim, const struct publication *publication)
{
	const struct row *row = publication->row;

	for (int64_t id = 1; id < row->id; id++) {
		const struct row *older = table_find(sim->checker->table, id);

		if (must_precede(older, row, publication->claim) &&
		    (older->record == NULL || older->record->written == 0))
			sim_fail(sim, "order", "row %lld of key %s is on the topic before row %lld",
				 (long long)row->id, row->key, (long long)id);
	}
}

/* ---- publishing ---- */

/* Was a row delivered where this one goes, by the same producer? Then the broker knows it, and sees gaps. */
static bool proves(const struct row *row, const struct publication *publication)
{
	const struct publication *each = row->record == NULL ? NULL : row->record->publications;

	while (each != NULL && (each->start != publication->start || each->generation != publication->generation ||
				each->answered_us == 0 || each->answer.verdict != VERDICT_OK))
		each = each->next;
	return each != NULL && strcmp(row->topic, publication->row->topic) == 0;
}

static void check_together(const struct publication *publication, const struct publication *other)
{
	const struct row *row = publication->row;

	if (publication->generation == 0 || other->generation != publication->generation ||
	    strcmp(other->row->topic, row->topic) != 0)
		sim_fail(publication->start->sim, "key-window",
			 "rows %lld and %lld of key %s are with Kafka together and not on one way",
			 (long long)other->row->id, (long long)row->id, row->key);
}

static void check_key_window(const struct publication *publication)
{
	struct start *start = publication->start;
	const struct table *table = start->sim->checker->table;
	const struct row *row = publication->row;
	int64_t together = 0;
	bool proven = false;

	for (size_t i = 0; i < table->n_rows && row->key != NULL; i++) {
		const struct publication *last = record_last_by(table->rows[i], start);

		if (last == NULL || !same_key(table->rows[i], row))
			continue;
		proven |= proves(table->rows[i], publication);
		if (table->rows[i] == row || last->answered_us != 0)
			continue;
		check_together(publication, last);
		together++;
	}
	if (together > 0 && !proven)
		sim_fail(start->sim, "unproven", "row %lld of key %s follows another where no gap would be seen",
			 (long long)row->id, row->key);
	if (together >= start->config->max_in_flight_per_key && together > 0)
		sim_fail(start->sim, "key-window", "%lld rows of key %s are with Kafka together",
			 (long long)together + 1, row->key);
}

/* Of the rows of a key that a process holds the oldest goes first; one that Kafka had keeps its turn. */
static void check_fifo(struct start *start, const struct row *row, const struct claim_record *claim)
{
	const struct publication *last = record_last_by(row, start);

	if (row->key == NULL || (last != NULL && last->claim == claim))
		return;
	for (int64_t id = 1; id < row->id; id++) {
		const struct row *older = table_find(start->sim->checker->table, id);
		const struct claim_record *held = newest_claim(older, start);

		last = record_last_by(older, start);
		/* Delivered already, and only its new lease is to be settled. */
		if (last != NULL && last->answered_us != 0 && last->answer.verdict == VERDICT_OK)
			continue;
		if (same_key(older, row) && held != NULL && !held->concluded && !held->settle_told &&
		    (last == NULL || last->claim != held))
			sim_fail(start->sim, "fifo", "row %lld is published while row %lld of its key waits",
				 (long long)row->id, (long long)id);
	}
}

static void check_content(struct start *start, const struct row *row, const struct claim_record *claim,
			  const struct message *message)
{
	char text[STATEMENT_PAYLOAD];

	statement_payload(row, claim->revision, text);
	if (strcmp(message->topic, row->topic) != 0 || !slice_equal(message->key, slice_of(row->key)) ||
	    !slice_equal(message->value, slice_of(row->tombstone ? NULL : text)))
		sim_fail(start->sim, "content", "row %lld is published as something else", (long long)row->id);
}

static void check_claimed(struct start *start, const struct row *row, const struct claim_record *claim)
{
	const struct config_source *config = start->config;
	struct sim *sim = start->sim;
	/* The instances' clocks go a little differently. */
	int64_t end = sim_now(sim) + config->kafka.message_timeout_us + 2 * SECOND - 50 * MS;
	const struct publication *last = record_last_by(row, start);

	if (claim->concluded)
		sim_fail(sim, "published-after-outcome", "row %lld", (long long)row->id);
	if (claim->ends_us < end)
		sim_fail(sim, "short-lease", "row %lld is published %lld us too late for its lease",
			 (long long)row->id, (long long)(end - claim->ends_us));
	if (last == NULL)
		return;
	/* Whoever has asked for it once more has had it. */
	if (record_sent_anew(claim, last->claim))
		return;
	if (last->answered_us == 0)
		sim_fail(sim, "published-twice", "row %lld has no verdict yet", (long long)row->id);
	else if (last->answer.verdict == VERDICT_OK && !last->claim->settle_told && row->curse < 2)
		sim_fail(sim, "published-again", "row %lld was delivered already", (long long)row->id);
}

struct claim_record *record_claim_under(struct row *row, const struct start *start, int64_t lease)
{
	struct claim_record *claim = record_claim(row, start, lease);

	return claim != NULL && claim->answered ? claim : NULL;
}

struct publication *check_publish(const struct kafka *kafka, struct row *row, int64_t lease,
				  const struct message *message)
{
	struct start *start = fakekafka_process(kafka)->asking;
	struct claim_record *claim = record_claim_under(row, start, lease);
	struct sim *sim = start->sim;
	struct publication *publication = arena_take(sim->arena, 1, sizeof(*publication));

	publication->start = start;
	publication->row = row;
	publication->generation = fakekafka_kind(kafka) == KAFKA_GAPLESS ? kafka_generation(kafka) : 0;
	publication->single = fakekafka_kind(kafka) == KAFKA_SINGLE;
	publication->published_us = sim_now(sim);
	publication->number = ++sim->checker->totals.publications;
	if (claim == NULL) {
		sim_fail(sim, "unclaimed", "row %lld is published by %d.%d, which has not claimed it",
			 (long long)row->id, start->instance, start->number);
		return publication;
	}
	if (start->config->dead_letter_topic != NULL && claim->attempts > start->config->retry.max_attempts)
		sim_fail(sim, "sent-beyond-attempts", "row %lld is published at attempt %d", (long long)row->id,
			 (int)claim->attempts);
	check_claimed(start, row, claim);
	check_content(start, row, claim, message);
	if (start->config->ordering == ORDERING_KEY) {
		check_key_window(publication);
		check_older_published(publication, claim);
		check_fifo(start, row, claim);
	}
	publication->claim = claim;
	publication->next = row->record->publications;
	row->record->publications = publication;
	return publication;
}

void check_refused(struct start *start, struct row *row, int64_t lease, const struct kafka_answer *refusal)
{
	struct claim_record *claim = record_claim_under(row, start, lease);

	if (claim != NULL && refusal->fault == FAULT_ROW)
		claim->refused = true;
}

void check_written(struct publication *publication)
{
	struct sim *sim = publication->start->sim;
	struct row_record *record = record_of(sim, publication->row);

	publication->written_us = sim_now(sim);
	if (publication->letter) {
		sim->checker->totals.letters++;
		return;
	}
	record->written++;
	sim->checker->totals.written++;
	if (record->written == 1 && publication->claim != NULL &&
	    publication->start->config->ordering == ORDERING_KEY)
		check_order(sim, publication);
}

void check_kafka_answer(struct publication *publication, const struct kafka_answer *answer)
{
	publication->answered_us = sim_now(publication->start->sim);
	publication->answer = *answer;
	publication->start->sim->checker->possibly_told += answer->possibly_written;
	publication->start->unseen_possibly += answer->possibly_written;
}

/* ---- the world ---- */

/* What it shows of itself must agree with what it holds. */
static void check_gauges(const struct start *start, struct metrics *metrics)
{
	static const enum metric gauges[] = {METRIC_QUEUED, METRIC_IN_FLIGHT, METRIC_UNSETTLED};
	struct source_health health = source_get_health(start->source);
	double sum = 0;

	source_update_metrics(start->source);
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		sum += metrics_series(metrics, gauges[i], start->config->name, NULL)->value;
	if (sum != (double)source_held(start->source))
		sim_fail(start->sim, "gauges", "%d.%d shows %.0f rows and holds %zu", start->instance,
			 start->number, sum, source_held(start->source));
	if (health.dependency == NULL && !kafka_up(start->kafka))
		sim_fail(start->sim, "health", "%d.%d is ready without Kafka", start->instance, start->number);
}

/* What the sources of a process have in flight is what its producers have. */
static void check_in_flight(const struct process *process)
{
	size_t in_flight = 0, outstanding = 0;

	for (const struct start *start = process->starts; start != NULL; start = start->next)
		in_flight += source_in_flight(start->source);
	for (const struct producers *each = process->producers; each != NULL; each = each->next) {
		for (int i = 0; i < each->n; i++)
			outstanding += kafka_outstanding(each->all[i]);
	}
	if (in_flight != outstanding)
		sim_fail(process->sim, "in-flight", "instance %d counts %zu rows in flight, Kafka %zu",
			 process->instance, in_flight, outstanding);
}

void check_step(struct start *start, struct metrics *metrics)
{
	struct sim *sim = start->sim;

	start->passes++;
	start->unseen_possibly = start->unseen_takeovers = start->unseen_late = start->unseen_fenced = 0;
	if (sim_chance(sim, 0.02))
		check_gauges(start, metrics);

	if (source_held(start->source) > (size_t)start->config->max_in_flight)
		sim_fail(sim, "room", "%d.%d holds %zu rows", start->instance, start->number,
			 source_held(start->source));
	check_in_flight(start->process);
}

static void check_left(struct start *start, const struct row *row)
{
	const struct claim_record *claim = row->record == NULL ? NULL : row->record->claims;
	const struct version *version = table_committed(row);

	if (claim == NULL || claim->start != start || version == NULL || version->state != ROW_IN_FLIGHT)
		return;
	if (claim->settled && claim->state == ROW_SENT)
		return; /* await: it is with its consumer */
	if (!record_expiry_explained(row, claim))
		sim_fail(start->sim, "drain", "row %lld is still in flight after %d.%d has stopped",
			 (long long)row->id, start->instance, start->number);
}

void check_stopped(struct start *start)
{
	if (source_held(start->source) > 0 && !start->leaving)
		sim_fail(start->sim, "drain", "%d.%d has stopped and holds rows", start->instance, start->number);
	source_drain(start->source);
	if (source_step(start->source, 0) != INT64_MAX || source_get_state(start->source) != SOURCE_STOPPED)
		sim_fail(start->sim, "drain", "%d.%d has stopped, and goes on", start->instance, start->number);
	for (size_t i = 0; i < start->sim->checker->table->n_rows; i++)
		check_left(start, start->sim->checker->table->rows[i]);
}

void check_gone(struct start *start)
{
	struct checker *checker = start->sim->checker;

	start->gone = true;
	start->gone_us = table_clock(checker->table);
	checker->possibly_told -= start->unseen_possibly;
	checker->takeovers_told -= start->unseen_takeovers;
	checker->late_told -= start->unseen_late;
	checker->totals.fenced -= start->unseen_fenced;
	checker->unseen += start->unseen_possibly + start->unseen_takeovers;
	if (start->results > 0)
		sim_fail(start->sim, "leak", "%d.%d has not freed %zu results", start->instance, start->number,
			 start->results);
}

void check_trouble(struct process *process, int64_t until_us)
{
	if (process->troubled_us < until_us)
		process->troubled_us = until_us;
}

void check_started(struct start *start)
{
	struct checker *checker = start->sim->checker;

	checker->source = start->config->name;
	checker->letters = start->config->dead_letter_topic != NULL;
	if (checker->most_attempts < start->config->retry.max_attempts)
		checker->most_attempts = start->config->retry.max_attempts;
	if (checker->most_in_flight < start->config->max_in_flight)
		checker->most_in_flight = start->config->max_in_flight;
}

int32_t check_attempt(const struct publication *publication)
{
	return publication->claim->attempts;
}

void check_asked(struct sim *sim, struct row *row)
{
	record_of(sim, row)->asked = record_of(sim, row)->asked_ever = true;
}

void check_people(struct sim *sim, struct row *row)
{
	record_of(sim, row)->orderless = true;
}

void check_retried(struct sim *sim, struct row *row)
{
	record_of(sim, row)->retried = true;
}
