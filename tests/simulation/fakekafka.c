/* The relay's side of a producer: what it takes, what it answers, how it ends. client.h has the picture. */
#include "client.h"
#include "peek.h"

#include <assert.h>
#include <string.h>

/* ---- what the client knows of the brokers ---- */

static void look(void *context)
{
	struct kafka *kafka = context;
	struct sim *sim = sim_of(kafka);
	bool up = wire_reachable(kafka) && kafka->blind_until <= sim_now(sim) &&
		  kafka->replacing_until <= sim_now(sim) && !kafka->condemned;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim->agenda, kafka->process->frozen_us, look, kafka);
		return;
	}
	agenda_add(sim->agenda, sim_now(sim) + SECOND, look, kafka);
	kafka->untried = false;
	if (up == kafka->up)
		return;
	kafka->up = up;
	sim_trace(sim, "%d kafka %s", kafka->process->instance, up ? "up" : "down");
	wire_pump(kafka);
	kafka->process->step(kafka->process->context);
}

bool kafka_up(const struct kafka *kafka)
{
	return kafka->up;
}

bool kafka_untried(const struct kafka *kafka)
{
	return !kafka->up && !kafka->condemned && kafka->untried;
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

uint64_t kafka_generation(const struct kafka *kafka)
{
	return kafka->generation;
}

struct kafka *fakekafka_new(struct cluster *cluster, struct process *process, enum kafka_kind kind,
			    int64_t message_timeout_us, kafka_answer_fn *on_answer)
{
	struct kafka *kafka = arena_take(cluster->sim->arena, 1, sizeof(*kafka));

	kafka->cluster = cluster;
	kafka->process = process;
	kafka->kind = kind;
	kafka->message_timeout_us = message_timeout_us;
	kafka->generation = 1;
	kafka->untried = true;
	kafka->on_answer = on_answer;
	kafka->last = &kafka->flights;
	kafka->queue_limit = (size_t)(sim_chance(cluster->sim, 0.3) ? sim_between(cluster->sim, 1, 6) : 1000);
	agenda_add(cluster->sim->agenda, sim_now(cluster->sim) + sim_between(cluster->sim, 1, 500 * MS), look,
		   kafka);
	return kafka;
}

/* ---- answers ---- */

static void take_out(struct flight *flight)
{
	struct kafka *kafka = flight->kafka;
	struct flight **at = &kafka->flights;

	while (*at != flight)
		at = &(*at)->next;
	*at = flight->next;
	if (*at == NULL)
		kafka->last = at;
	flight->next = NULL;
	kafka->outstanding--;
}

/* A new producer: no broker has ever heard of it. */
static void renew_if_over(struct kafka *kafka)
{
	if (!kafka->condemned || kafka->outstanding > 0)
		return;
	kafka->condemned = false;
	kafka->generation++;
	kafka->untried = kafka->replacing_until <= sim_now(sim_of(kafka));
}

static void deliver(void *context)
{
	struct flight *flight = context;
	struct kafka *kafka = flight->kafka;
	const struct start *start = flight->publication->start;

	if (kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim_of(kafka)->agenda,
			   kafka->process->frozen_us + sim_delay(sim_of(kafka), 50 * MS, 5 * SECOND), deliver,
			   flight);
		return;
	}
	take_out(flight);
	sim_trace(sim_of(kafka), "%d.%d row %lld: %s %s %d", start->instance, start->number,
		  (long long)flight->publication->row->id, verdict_name(flight->answer.verdict),
		  fault_name(flight->answer.fault), flight->answer.code);
	if (flight->answer.verdict == VERDICT_OK && kafka_untried(kafka))
		kafka->up = true;
	check_kafka_answer(flight->publication, &flight->answer);
	kafka->on_answer(flight->tag, &flight->answer);
	renew_if_over(kafka);
	wire_pump(kafka);
	kafka->process->step(kafka->process->context);
}

void client_answer(struct flight *flight, struct kafka_answer given, int64_t delay_us)
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

/* ---- the end of a producer ---- */

static void answer_lost(struct kafka *kafka, bool in_flight)
{
	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		struct kafka_answer given = reports_judge(CODE_FATAL, flight->wired);

		given.replaced = true;
		if (flight->place == PLACE_QUEUED || (in_flight && flight->place == PLACE_WIRE))
			client_answer(flight, given, sim_between(sim_of(kafka), 1, 50 * MS));
	}
}

struct ending {
	struct kafka *kafka;
	uint64_t generation;
};

/* What is on the wire has had its time. */
static void on_over(void *context)
{
	struct ending *ending = context;

	if (ending->kafka->condemned && ending->generation == ending->kafka->generation)
		answer_lost(ending->kafka, true);
}

void client_condemn(struct kafka *kafka, bool in_flight)
{
	struct sim *sim = sim_of(kafka);
	struct ending *ending;

	answer_lost(kafka, in_flight);
	if (kafka->condemned)
		return;
	ending = arena_take(sim->arena, 1, sizeof(*ending));
	*ending = (struct ending){kafka, kafka->generation};
	kafka->condemned = true;
	kafka->up = false;
	kafka->replaced++;
	kafka->replacing_until = sim_now(sim) + (sim_chance(sim, 0.5) ? 0 : sim_between(sim, 0, 2 * SECOND));
	sim_trace(sim, "%d kafka is replaced", kafka->process->instance);
	agenda_add(sim->agenda, sim_now(sim) + 2 * SECOND, on_over, ending);
	renew_if_over(kafka);
}

/* A gapless producer has no time-outs of single messages: the oldest one's is its end. */
static void stall(struct kafka *kafka)
{
	int64_t now = sim_now(sim_of(kafka));

	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		if (flight->deadline_us <= now)
			client_answer(flight, reports_judge(CODE_TIMED_OUT, flight->wired), 0);
	}
	client_condemn(kafka, true);
}

static void on_timeout(void *context)
{
	struct flight *flight = context;
	struct kafka *kafka = flight->kafka;
	struct sim *sim = sim_of(kafka);

	if (flight->place == PLACE_ANSWERED || kafka->gone)
		return;
	if (is_frozen(kafka)) {
		agenda_add(sim->agenda, kafka->process->frozen_us + sim_between(sim, 0, SECOND), on_timeout,
			   flight);
	} else if (is_gapless(kafka) && sim->broken != BREAK_DEADLINE) {
		stall(kafka);
	} else {
		flight->stream->known = false; /* it goes on under a new epoch */
		client_answer(flight, reports_judge(CODE_TIMED_OUT, flight->wired), 0);
	}
}

void kafka_purge(struct kafka *kafka, bool in_flight)
{
	bool all;

	if (kafka == NULL || kafka->flights == NULL)
		return;
	all = is_gapless(kafka);
	for (struct flight *flight = kafka->flights; flight != NULL; flight = flight->next) {
		if (flight->place == PLACE_QUEUED || ((in_flight || all) && flight->place == PLACE_WIRE))
			client_answer(flight, reports_judge(CODE_PURGED, flight->wired),
				      sim_between(sim_of(kafka), 1, 50 * MS));
	}
	if (all)
		client_condemn(kafka, true);
}

/* ---- publishing ---- */

/* How much of a poisoned row's dead letter is too much differs. */
static bool is_too_large(const struct row *row, const struct message *message, bool letter)
{
	if (row->nature != NATURE_POISON || row->id % 3 != 0)
		return false;
	if (!letter || message->value.bytes != NULL)
		return true;
	return row->id % 2 == 0 && message->key.bytes != NULL;
}

static int refusal_of(const struct kafka *kafka, const struct row *row, const struct message *message, bool letter)
{
	struct sim *sim = sim_of(kafka);

	if (kafka->outstanding >= kafka->queue_limit || kafka->replacing_until > sim_now(sim) || kafka->condemned ||
	    sim_fault(sim, 0.01))
		return CODE_QUEUE_FULL;
	if (is_too_large(row, message, letter))
		return CODE_TOO_LARGE;
	if (cluster_topic(kafka->cluster, message->topic)->denied_until > sim_now(sim) && sim_chance(sim, 0.3))
		return CODE_UNKNOWN_TOPIC;
	return CODE_OK;
}

enum verdict kafka_publish(struct kafka *kafka, const struct message *message, void *tag,
			   struct kafka_answer *refusal)
{
	struct sim *sim = sim_of(kafka);
	struct start *start = kafka->process->asking;
	struct row *row = check_row(start, message);
	struct flight *flight;
	bool letter = check_is_letter(start, message);
	int code = refusal_of(kafka, row, message, letter);

	assert(!kafka->gone);
	if (code != CODE_OK) {
		*refusal = reports_judge(code, false);
		if (!letter)
			check_refused(start, row, peek_lease(tag), refusal);
		return refusal->verdict;
	}
	flight = arena_take(sim->arena, 1, sizeof(*flight));
	flight->kafka = kafka;
	flight->publication = (letter ? check_letter : check_publish)(kafka, row, peek_lease(tag), message);
	flight->tag = tag;
	flight->value = message->value;
	if (message->value.bytes != NULL)
		flight->copy = arena_copy_bytes(sim->arena, message->value.bytes, message->value.len);
	flight->stream = wire_stream(kafka, message->topic, message);
	flight->sequence = flight->stream->sequence++;
	flight->deadline_us = sim_now(sim) + kafka->message_timeout_us;
	*kafka->last = flight;
	kafka->last = &flight->next;
	kafka->outstanding++;
	/* It is the value that kills; were it the key, nobody could help. */
	kafka->killed |= row->nature == NATURE_CRASHER && !(letter && message->value.bytes == NULL);
	sim_trace(sim, "%d.%d publish row %lld", start->instance, start->number, (long long)row->id);
	agenda_add(sim->agenda, flight->deadline_us + sim_between(sim, 0, 500 * MS), on_timeout, flight);
	wire_pump(kafka);
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
	client_condemn(kafka, !is_gapless(kafka));
}

void fakekafka_leave(struct kafka *kafka)
{
	kafka->gone = true;
}

bool fakekafka_killed(const struct kafka *kafka)
{
	return kafka->killed;
}

struct process *fakekafka_process(const struct kafka *kafka)
{
	return kafka->process;
}

enum kafka_kind fakekafka_kind(const struct kafka *kafka)
{
	return kafka->kind;
}
