/* A message waits in the client's queue until its partition's turn, goes out in a batch, is written by the broker in the
 * order of the batch, and is acknowledged:
 *
 *   kafka_publish -> queued -> on the wire -> written or refused -> answer
 *
 * A broken connection puts it back into the queue; what was written already is then acknowledged, not written again (the
 * producer is idempotent). Its time-out answers it wherever it is; what is on the wire may still be written a little
 * later. */
#include "fakekafka.h"

#include "reports.h"

#include <assert.h>
#include <string.h>

#define PARTITIONS 3
#define BATCH_MAX 8

enum place { PLACE_QUEUED, PLACE_WIRE, PLACE_ANSWERED };

struct flight {
	struct kafka *kafka;
	struct publication *publication;
	void *tag;
	struct slice value; /* borrowed until the answer */
	const char *copy;   /* of the value, for the comparison */
	int partition;
	int64_t deadline_us;
	enum place place;
	bool wired;	 /* it has been on the wire: it may be on the topic */
	bool answer_due; /* an answer is on its way to the daemon */
	struct kafka_answer answer;
	struct flight *next; /* in order of publication */
};

struct batch {
	struct kafka *kafka;
	int partition;
	size_t n;
	struct flight *flights[BATCH_MAX];
	int code;
	bool lost; /* no broker was there when it should have arrived */
};

struct kafka {
	struct cluster *cluster;
	struct start *start;
	kafka_answer_fn *on_answer;
	struct flight *flights, **last;
	size_t queue_limit, outstanding;
	bool busy[PARTITIONS], sending;
	bool up, gone, killed;
	int64_t blind_until, replacing_until;
	uint64_t replaced;
};

static struct sim *sim_of(const struct kafka *kafka)
{
	return kafka->cluster->sim;
}

static bool reachable(const struct kafka *kafka)
{
	return kafka->cluster->down_until <= sim_now(sim_of(kafka));
}

static bool is_frozen(const struct kafka *kafka)
{
	return kafka->start->frozen_us > sim_now(sim_of(kafka));
}

static void pump(struct kafka *kafka);

static int64_t network_delay(const struct kafka *kafka)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->cluster->slow && sim_fault(sim, 0.3))
		return sim_between(sim, SECOND, kafka->cluster->config->kafka.message_timeout_us);
	return sim_delay(sim, 2 * MS, 40 * SECOND);
}

/* ---- what the client knows of the brokers ---- */

static void look(void *context)
{
	struct kafka *kafka = context;
	struct sim *sim = sim_of(kafka);
	bool up = reachable(kafka) && kafka->blind_until <= sim_now(sim) && kafka->replacing_until <= sim_now(sim);

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim->agenda, kafka->start->frozen_us, look, kafka);
		return;
	}
	agenda_add(sim->agenda, sim_now(sim) + SECOND, look, kafka);
	if (up == kafka->up)
		return;
	kafka->up = up;
	sim_trace(sim, "%d.%d kafka %s", kafka->start->instance, kafka->start->number, up ? "up" : "down");
	pump(kafka);
	kafka->start->step(kafka->start->context);
}

bool kafka_up(const struct kafka *kafka)
{
	return kafka->up;
}

const char *kafka_reason(const struct kafka *kafka)
{
	return kafka->up ? "" : "no broker is connected";
}

size_t kafka_outstanding(const struct kafka *kafka)
{
	return kafka->outstanding;
}

uint64_t kafka_replacements(const struct kafka *kafka, enum kafka_replacement reason)
{
	return reason == KAFKA_REPLACED_FATAL ? kafka->replaced : 0;
}

struct kafka *fakekafka_new(struct cluster *cluster, struct start *start, kafka_answer_fn *on_answer)
{
	struct kafka *kafka = arena_take(cluster->sim->arena, 1, sizeof(*kafka));

	kafka->cluster = cluster;
	kafka->start = start;
	kafka->on_answer = on_answer;
	kafka->last = &kafka->flights;
	kafka->queue_limit = (size_t)(sim_chance(cluster->sim, 0.3) ? sim_between(cluster->sim, 1, 6) : 1000);
	agenda_add(cluster->sim->agenda, sim_now(cluster->sim) + sim_between(cluster->sim, 1, 500 * MS), look,
		   kafka);
	return kafka;
}

/* ---- answers ---- */

static void deliver(void *context)
{
	struct flight *flight = context;
	struct kafka *kafka = flight->kafka;
	struct flight **at = &kafka->flights;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda,
			   kafka->start->frozen_us + sim_delay(sim_of(kafka), 50 * MS, 5 * SECOND), deliver,
			   flight);
		return;
	}
	while (*at != flight)
		at = &(*at)->next;
	*at = flight->next;
	if (*at == NULL)
		kafka->last = at;
	flight->next = NULL;
	kafka->outstanding--;
	sim_trace(sim_of(kafka), "%d.%d row %lld: %s %s %d", kafka->start->instance, kafka->start->number,
		  (long long)flight->publication->row->id, verdict_name(flight->answer.verdict),
		  fault_name(flight->answer.fault), flight->answer.code);
	check_kafka_answer(flight->publication, &flight->answer);
	kafka->on_answer(flight->tag, &flight->answer);
	pump(kafka);
	kafka->start->step(kafka->start->context);
}

static void answer(struct flight *flight, struct kafka_answer given, int64_t delay_us)
{
	struct kafka *kafka = flight->kafka;

	if (flight->place == PLACE_ANSWERED || kafka->gone)
		return;
	flight->place = PLACE_ANSWERED;
	flight->answer = given;
	if (sim_of(kafka)->broken == BREAK_SILENCE && sim_chance(sim_of(kafka), 0.02))
		return;
	agenda_add(sim_of(kafka)->agenda, sim_now(sim_of(kafka)) + delay_us, deliver, flight);
}

static void on_timeout(void *context)
{
	struct flight *flight = context;
	struct sim *sim = sim_of(flight->kafka);

	if (flight->place == PLACE_ANSWERED)
		return;
	if (is_frozen(flight->kafka))
		agenda_add(sim->agenda, flight->kafka->start->frozen_us + sim_between(sim, 0, SECOND), on_timeout,
			   flight);
	else
		answer(flight, reports_judge(CODE_TIMED_OUT, flight->wired), 0);
}

void kafka_purge(struct kafka *kafka, bool in_flight)
{
	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		if (flight->place == PLACE_QUEUED || (in_flight && flight->place == PLACE_WIRE))
			answer(flight, reports_judge(CODE_PURGED, flight->wired),
			       sim_between(sim_of(kafka), 1, 50 * MS));
	}
}

/* ---- the broker ---- */

/* Too late to be written: whoever sent it has counted it as timed out some time ago, or is gone. */
static bool is_stale(const struct flight *flight)
{
	return (flight->place == PLACE_ANSWERED || flight->kafka->gone) &&
	       sim_now(sim_of(flight->kafka)) > flight->deadline_us + 2 * SECOND;
}

static void write_batch(const struct batch *batch)
{
	struct sim *sim = sim_of(batch->kafka);

	for (size_t i = 0; i < batch->n; i++) {
		struct flight *flight = batch->flights[i];

		if (flight->publication->written_us != 0 || is_stale(flight))
			continue;
		if (sim->broken == BREAK_ACK && sim_chance(sim, 0.02))
			continue;
		check_written(flight->publication);
		sim_trace(sim, "row %lld written by %d.%d", (long long)flight->publication->row->id,
			  batch->kafka->start->instance, batch->kafka->start->number);
	}
}

/* What the broker says to a batch as a whole. */
static int judge_batch(const struct batch *batch)
{
	struct cluster *cluster = batch->kafka->cluster;
	struct sim *sim = cluster->sim;

	for (size_t i = 0; i < batch->n; i++) {
		const struct row *row = batch->flights[i]->publication->row;

		if (cluster_topic(cluster, row->topic)->denied_until > sim_now(sim))
			return CODE_TOPIC_DENIED;
	}
	for (size_t i = 0; i < batch->n; i++) {
		if (batch->flights[i]->publication->row->nature == NATURE_POISON)
			return CODE_INVALID_RECORD;
	}
	if (cluster->starved_until > sim_now(sim))
		return sim_chance(sim, 0.7) ? CODE_TOO_FEW_REPLICAS : CODE_TOO_FEW_AFTER_APPEND;
	return sim_fault(sim, 0.02) ? CODE_CORRUPT : CODE_OK;
}

/* The connection has broken: what has no answer goes back into the queue. */
static void requeue(const struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++) {
		if (batch->flights[i]->place == PLACE_WIRE)
			batch->flights[i]->place = PLACE_QUEUED;
	}
}

/* What had been written before the connection broke is acknowledged, whatever its new batch met. */
static int code_for(const struct batch *batch, const struct flight *flight)
{
	return flight->publication->written_us != 0 && batch->code != CODE_TOO_FEW_AFTER_APPEND ? CODE_OK
												: batch->code;
}

static void on_acknowledged(void *context)
{
	struct batch *batch = context;
	struct kafka *kafka = batch->kafka;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda, kafka->start->frozen_us, on_acknowledged, batch);
		return;
	}
	kafka->busy[batch->partition] = false;
	if (batch->lost || !reachable(kafka)) {
		requeue(batch);
	} else {
		for (size_t i = 0; i < batch->n; i++)
			answer(batch->flights[i], reports_judge(code_for(batch, batch->flights[i]), false), 0);
	}
	pump(kafka);
}

static void on_arrived(void *context)
{
	struct batch *batch = context;
	struct kafka *kafka = batch->kafka;
	struct sim *sim = sim_of(kafka);

	if (kafka->gone && sim_chance(sim, 0.5))
		return;
	batch->lost = !reachable(kafka);
	if (!batch->lost) {
		batch->code = judge_batch(batch);
		if (batch->code == CODE_OK || batch->code == CODE_TOO_FEW_AFTER_APPEND)
			write_batch(batch);
	}
	agenda_add(sim->agenda, sim_now(sim) + network_delay(kafka), on_acknowledged, batch);
}

/* ---- the client's queue ---- */

static void send_partition(struct kafka *kafka, int partition)
{
	struct sim *sim = sim_of(kafka);
	struct batch *batch = arena_take(sim->arena, 1, sizeof(*batch));
	size_t most = (size_t)sim_between(sim, 1, BATCH_MAX);

	batch->kafka = kafka;
	batch->partition = partition;
	for (struct flight *flight = kafka->flights; flight != NULL && batch->n < most; flight = flight->next) {
		if (flight->place != PLACE_QUEUED || flight->partition != partition)
			continue;
		if (batch->n > 0 &&
		    strcmp(flight->publication->row->topic, batch->flights[0]->publication->row->topic) != 0)
			continue;
		/* Still borrowed: it must be what it was. */
		if (flight->copy != NULL && memcmp(flight->value.bytes, flight->copy, flight->value.len) != 0)
			sim_fail(sim, "borrowed-bytes", "row %lld: its bytes changed before its answer",
				 (long long)flight->publication->row->id);
		flight->place = PLACE_WIRE;
		flight->wired = true;
		batch->flights[batch->n++] = flight;
	}
	if (batch->n == 0)
		return;
	for (size_t i = 0; i < batch->n; i++)
		batch->flights[i]->publication->alone = batch->n == 1;
	kafka->busy[partition] = true;
	agenda_add(sim->agenda, sim_now(sim) + network_delay(kafka), on_arrived, batch);
}

static void on_linger(void *context)
{
	struct kafka *kafka = context;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda, kafka->start->frozen_us, on_linger, kafka);
		return;
	}
	kafka->sending = false;
	for (int i = 0; i < PARTITIONS && reachable(kafka); i++) {
		if (!kafka->busy[i])
			send_partition(kafka, i);
	}
}

static void pump(struct kafka *kafka)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->sending || kafka->gone)
		return;
	kafka->sending = true;
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, 5 * MS), on_linger, kafka);
}

/* ---- publishing ---- */

static int refusal_of(const struct kafka *kafka, const struct row *row)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->outstanding >= kafka->queue_limit || kafka->replacing_until > sim_now(sim) ||
	    sim_fault(sim, 0.01))
		return CODE_QUEUE_FULL;
	if (row->nature == NATURE_POISON && row->id % 3 == 0)
		return CODE_TOO_LARGE;
	if (cluster_topic(kafka->cluster, row->topic)->denied_until > sim_now(sim) && sim_chance(sim, 0.3))
		return CODE_UNKNOWN_TOPIC;
	return CODE_OK;
}

static int partition_of(struct sim *sim, const struct message *message)
{
	unsigned hash = 17;

	if (message->key.bytes == NULL)
		return (int)sim_between(sim, 0, PARTITIONS - 1);
	for (size_t i = 0; i < message->key.len; i++)
		hash = 31 * hash + (unsigned char)message->key.bytes[i];
	return (int)(hash % PARTITIONS);
}

enum verdict kafka_publish(struct kafka *kafka, const struct message *message, void *tag,
			   struct kafka_answer *refusal)
{
	struct sim *sim = sim_of(kafka);
	struct row *row = check_row(kafka->start, message);
	struct flight *flight;
	int code = refusal_of(kafka, row);

	assert(!kafka->gone);
	if (code != CODE_OK) {
		*refusal = reports_judge(code, false);
		check_refused(kafka->start, row, refusal);
		return refusal->verdict;
	}
	flight = arena_take(sim->arena, 1, sizeof(*flight));
	flight->kafka = kafka;
	flight->publication = check_publish(kafka->start, row, message);
	flight->tag = tag;
	flight->value = message->value;
	if (message->value.bytes != NULL)
		flight->copy = arena_copy_bytes(sim->arena, message->value.bytes, message->value.len);
	flight->partition = partition_of(sim, message);
	flight->deadline_us = sim_now(sim) + kafka->cluster->config->kafka.message_timeout_us;
	*kafka->last = flight;
	kafka->last = &flight->next;
	kafka->outstanding++;
	kafka->killed |= row->nature == NATURE_CRASHER;
	sim_trace(sim, "%d.%d publish row %lld", kafka->start->instance, kafka->start->number, (long long)row->id);
	agenda_add(sim->agenda, flight->deadline_us + sim_between(sim, 0, 500 * MS), on_timeout, flight);
	pump(kafka);
	if (sim->broken == BREAK_REENTRY && sim_chance(sim, 0.01)) {
		flight->place = PLACE_ANSWERED;
		flight->answer = reports_judge(CODE_OK, false);
		deliver(flight);
	}
	return VERDICT_OK;
}

/* ---- faults ---- */

void fakekafka_flap(struct kafka *kafka, int64_t until_us)
{
	kafka->blind_until = until_us;
}

void fakekafka_replace(struct kafka *kafka)
{
	struct sim *sim = sim_of(kafka);

	kafka->replaced++;
	kafka->replacing_until = sim_now(sim) + sim_between(sim, 0, 2 * SECOND);
	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		struct kafka_answer given = reports_judge(CODE_FATAL, flight->wired);

		given.replaced = true;
		answer(flight, given, sim_between(sim, 1, 50 * MS));
	}
}

void fakekafka_leave(struct kafka *kafka)
{
	kafka->gone = true;
}

bool fakekafka_killed(const struct kafka *kafka)
{
	return kafka->killed;
}
