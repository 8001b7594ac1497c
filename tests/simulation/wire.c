/* Batches of a producer: from its queue over the wire to the broker, and the broker's judgement. */
#include "client.h"
#include "consumers.h"

#include <string.h>

#define BATCH_MAX 8
#define BATCHES_ON_WIRE 3 /* of a gapless producer, to one partition; librdkafka: 5 */

struct batch {
	struct kafka *kafka;
	struct stream *stream;
	size_t n;
	struct flight *flights[BATCH_MAX];
	int code;
	bool lost; /* no broker was there when it should have arrived */
};

bool wire_reachable(const struct kafka *kafka)
{
	return kafka->cluster->down_until <= sim_now(sim_of(kafka));
}

static int64_t network_delay(const struct kafka *kafka)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->cluster->slow && sim_fault(sim, 0.3))
		return sim_between(sim, SECOND, kafka->message_timeout_us);
	return sim_delay(sim, 2 * MS, 40 * SECOND);
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

		batch->stream->known = true;
		if (batch->stream->expected <= flight->sequence)
			batch->stream->expected = flight->sequence + 1;
		if (flight->publication->written_us != 0)
			continue;
		if (sim->broken == BREAK_ACK && sim_chance(sim, 0.02))
			continue;
		check_written(flight->publication);
		consumers_take(batch->kafka->cluster->consumers, flight->publication);
		sim_trace(sim, "row %lld written by %d.%d as %s-%d %llu", (long long)flight->publication->row->id,
			  flight->publication->start->instance, flight->publication->start->number,
			  batch->stream->topic, batch->stream->partition, (unsigned long long)flight->sequence);
	}
}

/* Some dead letters have it still. */
static bool is_poison(const struct flight *flight)
{
	const struct publication *publication = flight->publication;

	if (publication->row->nature != NATURE_POISON)
		return false;
	return !publication->letter || (publication->row->id % 5 == 0 && flight->value.bytes != NULL);
}

/* What the broker says to a batch as a whole. */
static int judge_batch(const struct batch *batch)
{
	struct cluster *cluster = batch->kafka->cluster;
	struct sim *sim = cluster->sim;

	if (cluster_topic(cluster, batch->stream->topic)->denied_until > sim_now(sim))
		return CODE_TOPIC_DENIED;
	for (size_t i = 0; i < batch->n; i++) {
		if (is_poison(batch->flights[i]))
			return CODE_INVALID_RECORD;
	}
	if (cluster->starved_until > sim_now(sim) && sim_chance(sim, 0.7))
		return CODE_TOO_FEW_REPLICAS;
	if (sim_fault(sim, 0.02))
		return CODE_CORRUPT;
	/* A plain producer takes its gaps out of the numbers: it starts anew behind each. */
	if (is_gapless(batch->kafka) && batch->stream->known &&
	    batch->flights[0]->sequence > batch->stream->expected)
		return CODE_OUT_OF_ORDER;
	return cluster->starved_until > sim_now(sim) ? CODE_TOO_FEW_AFTER_APPEND : CODE_OK;
}

/* ---- the client's side of an answer ---- */

/* What has no answer goes back into the queue, and what follows it too, when it comes back. */
static void requeue(const struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++) {
		if (batch->flights[i]->place == PLACE_WIRE)
			batch->flights[i]->place = PLACE_QUEUED;
	}
	batch->stream->draining = batch->stream->on_wire > 0;
}

/* What had been written before the connection broke is acknowledged, whatever its new batch met. */
static int code_for(const struct batch *batch, const struct flight *flight)
{
	return flight->publication->written_us != 0 && batch->code != CODE_TOO_FEW_AFTER_APPEND ? CODE_OK
												: batch->code;
}

static void answer_batch(const struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++)
		client_answer(batch->flights[i], reports_judge(code_for(batch, batch->flights[i]), false), 0);
}

/* A later batch was taken, so that the library believes what came before it to be written too; kafka.c does not. */
static void guess_before(const struct batch *batch)
{
	for (struct flight *flight = batch->kafka->flights; flight != NULL; flight = flight->next) {
		if (flight->stream == batch->stream && flight->sequence < batch->flights[0]->sequence)
			client_answer(flight, reports_guess(), 0);
	}
}

/* A gapless producer sends what can be sent again; anything else is its end. */
static void settle_gapless(const struct batch *batch)
{
	struct kafka *kafka = batch->kafka;
	struct sim *sim = sim_of(kafka);

	if (batch->code == CODE_OK) {
		guess_before(batch);
		answer_batch(batch);
	} else if (batch->code == CODE_TOO_FEW_REPLICAS || batch->code == CODE_TOO_FEW_AFTER_APPEND ||
		   batch->code == CODE_OUT_OF_ORDER) {
		requeue(batch);
		batch->stream->pause_until = sim_now(sim) + sim_between(sim, 50 * MS, 500 * MS);
		if (kafka->condemned)
			client_condemn(kafka, false);
	} else {
		answer_batch(batch);
		if (sim->broken == BREAK_GAPS)
			batch->stream->known = false; /* a new epoch, and the rest is sent under new numbers */
		else
			client_condemn(kafka, false);
	}
}

static void on_acknowledged(void *context)
{
	struct batch *batch = context;
	struct kafka *kafka = batch->kafka;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda, kafka->process->frozen_us, on_acknowledged, batch);
		return;
	}
	batch->stream->on_wire--;
	if (batch->lost || !wire_reachable(kafka))
		requeue(batch);
	else if (is_gapless(kafka))
		settle_gapless(batch);
	else
		answer_batch(batch);
	wire_pump(kafka);
}

static int64_t not_before(int64_t at_us, int64_t *last_us)
{
	if (at_us <= *last_us)
		at_us = *last_us + 1;
	*last_us = at_us;
	return at_us;
}

static void on_arrived(void *context)
{
	struct batch *batch = context;
	struct kafka *kafka = batch->kafka;
	struct sim *sim = sim_of(kafka);

	if (kafka->gone && sim_chance(sim, 0.5))
		batch->lost = true;
	batch->lost |= !wire_reachable(kafka) || is_stale(batch->flights[0]);
	if (!batch->lost) {
		batch->code = judge_batch(batch);
		if (batch->code == CODE_OK || batch->code == CODE_TOO_FEW_AFTER_APPEND)
			write_batch(batch);
	}
	agenda_add(sim->agenda, not_before(sim_now(sim) + network_delay(kafka), &batch->stream->last_ack),
		   on_acknowledged, batch);
}

/* ---- the queue ---- */

struct stream *wire_stream(struct kafka *kafka, const char *topic, const struct message *message)
{
	struct sim *sim = sim_of(kafka);
	unsigned hash = 17;
	int partition = (int)sim_between(sim, 0, PARTITIONS - 1);
	struct stream *stream = kafka->streams;

	for (size_t i = 0; i < message->key.len; i++)
		hash = 31 * hash + (unsigned char)message->key.bytes[i];
	if (message->key.bytes != NULL)
		partition = (int)(hash % PARTITIONS);
	while (stream != NULL && (stream->generation != kafka->generation || stream->partition != partition ||
				  strcmp(stream->topic, topic) != 0))
		stream = stream->next;
	if (stream != NULL)
		return stream;
	stream = arena_take(sim->arena, 1, sizeof(*stream));
	stream->topic = sim_copy(sim, topic);
	stream->partition = partition;
	stream->generation = kafka->generation;
	stream->next = kafka->streams;
	kafka->streams = stream;
	return stream;
}

static void put_on_wire(struct batch *batch, struct flight *flight)
{
	/* Still borrowed: it must be what it was. */
	if (flight->copy != NULL && memcmp(flight->value.bytes, flight->copy, flight->value.len) != 0)
		sim_fail(sim_of(batch->kafka), "borrowed-bytes", "row %lld: its bytes changed before its answer",
			 (long long)flight->publication->row->id);
	flight->place = PLACE_WIRE;
	flight->wired = true;
	batch->flights[batch->n++] = flight;
}

/* False: nothing is queued. */
static bool send_batch(struct kafka *kafka, struct stream *stream)
{
	struct sim *sim = sim_of(kafka);
	struct batch *batch = arena_take(sim->arena, 1, sizeof(*batch));
	size_t most = kafka->kind == KAFKA_SINGLE ? 1 : (size_t)sim_between(sim, 1, BATCH_MAX);

	batch->kafka = kafka;
	batch->stream = stream;
	for (struct flight *flight = kafka->flights; flight != NULL && batch->n < most; flight = flight->next) {
		if (flight->place == PLACE_QUEUED && flight->stream == stream)
			put_on_wire(batch, flight);
	}
	if (batch->n == 0)
		return false;
	for (size_t i = 0; i < batch->n; i++)
		batch->flights[i]->publication->alone = batch->n == 1;
	stream->on_wire++;
	agenda_add(sim->agenda, not_before(sim_now(sim) + network_delay(kafka), &stream->last_arrival), on_arrived,
		   batch);
	return true;
}

/* The library has learned that there is no such topic: what it has not sent fails, and it lives on. */
static void forget_topic(const struct stream *stream, struct kafka *kafka)
{
	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		if (flight->stream == stream && flight->place == PLACE_QUEUED)
			client_answer(flight, reports_judge(CODE_UNKNOWN_TOPIC, flight->wired), 0);
	}
}

static void send_stream(struct kafka *kafka, struct stream *stream)
{
	struct sim *sim = sim_of(kafka);
	int most = is_gapless(kafka) ? BATCHES_ON_WIRE : 1;

	if (sim_fault(sim, 0.04))
		forget_topic(stream, kafka);

	if (stream->on_wire == 0)
		stream->draining = false;
	if (stream->pause_until > sim_now(sim)) {
		wire_pump(kafka);
		return;
	}
	while (!stream->draining && stream->on_wire < most && send_batch(kafka, stream))
		;
}

static void on_linger(void *context)
{
	struct kafka *kafka = context;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda, kafka->process->frozen_us, on_linger, kafka);
		return;
	}
	kafka->sending = false;
	if (kafka->condemned || !wire_reachable(kafka))
		return;
	for (struct stream *stream = kafka->streams; stream != NULL; stream = stream->next) {
		if (stream->generation == kafka->generation)
			send_stream(kafka, stream);
	}
}

void wire_pump(struct kafka *kafka)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->sending || kafka->gone)
		return;
	kafka->sending = true;
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, 5 * MS), on_linger, kafka);
}
