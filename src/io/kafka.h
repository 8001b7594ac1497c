/* kafka: one producer that takes messages and answers each exactly once, whatever becomes of the library's own.
 * A producer that is fatal or makes no progress is replaced behind this interface; its messages are answered first.
 * This header names no library type; tests/simulation has a fake of it. No answer comes before kafka_publish returns. */
#ifndef OUTBOXD_IO_KAFKA_H
#define OUTBOXD_IO_KAFKA_H

#include "config/config.h"
#include "core/route.h"
#include "core/verdict.h"

struct ev_loop;
struct kafka;

struct kafka_answer {
	enum verdict verdict;
	enum fault fault;	  /* when not ok */
	bool possibly_written;	  /* not ok, but it may be on the topic: sending it again may duplicate it */
	bool timed_out, replaced; /* not ok because of message_timeout; because the producer was replaced */
	int code;		  /* rd_kafka_resp_err_t */
	const char *name;	  /* its name, e.g. MSG_SIZE_TOO_LARGE; static; "" when ok */
	const char *text;	  /* what the broker or library says; borrowed for the call */
};

/* One answer for each accepted message. tag is that of kafka_publish. */
typedef void kafka_answer_fn(void *tag, const struct kafka_answer *answer);

enum kafka_kind {
	/* Each message stands for itself: one that fails leaves a gap, and what follows it may be written. */
	KAFKA_PLAIN,
	/* A message that fails takes everything with it that is behind it in its partition, and the producer, which is
	 * replaced: nothing is written behind a gap. Not true of the first messages to a partition, which no broker can
	 * see missing: it holds once one of this generation was delivered there. */
	KAFKA_GAPLESS,
	/* A plain one for exceptions: made when a message is handed over, closed when there are none any more. */
	KAFKA_CAREFUL,
	/* The same, and each message is a batch of its own, whoever else uses it: what the brokers say is about that one. */
	KAFKA_SINGLE
};

/* Starts a producer and begins to connect. config is copied. False settings are found by kafka_check before.
 * enable.idempotence=true, acks=all, partitioner=murmur2_random unless the properties say otherwise. */
struct kafka *kafka_new(struct ev_loop *loop, const struct config_kafka *config, enum kafka_kind kind,
			kafka_answer_fn *on_answer);

/* Purges what is left, answers it, frees all; NULL is nothing. Not inside an answer. Waits while the library has a message, and for
 * half a second for its threads: one that looks up a host name is left to itself. */
void kafka_free(struct kafka *kafka);

/* Hands a message over; value bytes are borrowed until the answer, everything else for the call.
 * ok: accepted, one answer will come. Otherwise none will come, and *refusal says why: retry without fault = queue full or
 * the producer is being replaced, try again in a later pass; retry or reject with a fault = as an answer would be. */
enum verdict kafka_publish(struct kafka *kafka, const struct message *message, void *tag,
			   struct kafka_answer *refusal) must_check;

/* Is a broker connected, the producer sound, and may messages be published? */
bool kafka_up(const struct kafka *kafka);

/* Is nothing known yet of a new producer's brokers? The first message that it delivers makes it up; else the library tells
 * within a second. */
bool kafka_untried(const struct kafka *kafka);

/* Why not, for people; "" while up. Borrowed until the next pass. */
const char *kafka_reason(const struct kafka *kafka);

/* Messages accepted and not yet answered. */
size_t kafka_outstanding(const struct kafka *kafka);

/* Answers (retry, FAULT_CLUSTER) all messages that the library still has in its queue; with in_flight also those it has sent
 * (unknown). The answers come later, as always. Of a gapless producer all go, and it is replaced: a part would be a gap.
 * NULL is nothing. */
void kafka_purge(struct kafka *kafka, bool in_flight);

/* Counts the producers. All messages without an answer are of the present one: it changes only when there are none. */
uint64_t kafka_generation(const struct kafka *kafka);

/* Producers replaced so far, by reason; of NULL none. */
enum kafka_replacement {
	KAFKA_REPLACED_FATAL,	/* the library gave it up */
	KAFKA_REPLACED_STALLED, /* no report within the message time-out */
	KAFKA_REPLACED_PURGED	/* a gapless one that was purged */
};
#define KAFKA_REPLACEMENTS (KAFKA_REPLACED_PURGED + 1)
extern const char *const kafka_replacement_names[KAFKA_REPLACEMENTS]; /* for logs and labels */
uint64_t kafka_replacements(const struct kafka *kafka, enum kafka_replacement reason);

/* Judges the settings as the library does, without connecting. False, err and *property (the offending one's index in
 * config->properties, or -1) when it refuses. */
bool kafka_check(const struct config_kafka *config, struct err *err, int *property) must_check;

#endif
