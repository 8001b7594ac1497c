/* client: what fakekafka.c (the relay's side of a producer) and wire.c (its batches, and the broker's side) share.
 *
 *   kafka_publish -> queued -> on the wire -> written or refused -> answer
 *
 * A broken connection puts a message back into the queue; what was written already is then acknowledged, not written again
 * (the producer is idempotent). A plain producer lets each message fail by itself, by its own time-out too. A gapless one ends
 * with the first that fails; the broker refuses what does not follow what it has, but only where it has anything. */
#ifndef OUTBOXD_SIMULATION_CLIENT_H
#define OUTBOXD_SIMULATION_CLIENT_H

#include "fakekafka.h"
#include "reports.h"

#define PARTITIONS 3

/* The messages of one producer to one partition of a topic. */
struct stream {
	const char *topic;
	int partition;
	uint64_t generation; /* of the producer */
	int on_wire;	     /* batches */
	bool draining;	     /* one came back: nothing is sent before the others have */
	int64_t pause_until;
	int64_t last_arrival, last_ack; /* one connection: nothing overtakes */
	uint64_t sequence;		/* messages so far */
	/* the broker's side */
	bool known;	   /* it has something of this producer */
	uint64_t expected; /* then: the next sequence number that it takes */
	struct stream *next;
};

enum place { PLACE_QUEUED, PLACE_WIRE, PLACE_ANSWERED };

struct flight {
	struct kafka *kafka;
	struct publication *publication;
	void *tag;
	struct slice value; /* borrowed until the answer */
	const char *copy;   /* of the value, for the comparison */
	struct stream *stream;
	uint64_t sequence;
	int64_t deadline_us;
	enum place place;
	bool wired; /* it has been on the wire: it may be on the topic */
	struct kafka_answer answer;
	struct flight *next; /* in order of publication */
};

struct kafka {
	struct cluster *cluster;
	struct process *process;
	enum kafka_kind kind;
	int64_t message_timeout_us;
	kafka_answer_fn *on_answer;
	struct flight *flights, **last;
	struct stream *streams;
	size_t queue_limit, outstanding;
	bool sending;
	bool up, gone, killed;
	bool untried;	/* it has told nothing yet */
	bool condemned; /* takes nothing until all is answered; then a new producer follows */
	int64_t blind_until, replacing_until;
	uint64_t generation, replaced;
};

static inline struct sim *sim_of(const struct kafka *kafka)
{
	return kafka->cluster->sim;
}

static inline bool is_frozen(const struct kafka *kafka)
{
	return process_frozen(kafka->process);
}

static inline bool is_gapless(const struct kafka *kafka)
{
	return kafka->kind == KAFKA_GAPLESS;
}

/* fakekafka.c: answers a message that has no answer yet, a little later. */
void client_answer(struct flight *flight, struct kafka_answer given, int64_t delay_us);
/* The end of a producer. What is in its queue is answered; with in_flight also what is on the wire, else that may still be
 * acknowledged for a while. */
void client_condemn(struct kafka *kafka, bool in_flight);

/* wire.c: the stream of a message, made when new; and its batches are sent when their turn comes. */
struct stream *wire_stream(struct kafka *kafka, const char *topic, const struct message *message);
void wire_pump(struct kafka *kafka);
bool wire_reachable(const struct kafka *kafka);

#endif
