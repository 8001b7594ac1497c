/* kafkaproducer: one producer of librdkafka: made, fed and destroyed. What its queue brings is kafka.c's to handle.
 * Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKAPRODUCER_H
#define OUTBOXD_IO_KAFKAPRODUCER_H

#include "core/route.h"
#include "io/kafka.h"
#include "io/kafkaconf.h"
#include "io/kafkatopics.h"

#include <pthread.h>
#include <stdatomic.h>

struct kafkaproducer {
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue; /* reports, errors, statistics and log lines */
	struct kafkatopics *topics;
	struct kafkaconf_limits limits;
	int fd;
	pthread_t end; /* the thread that destroys the library's client */
	bool has_thread;
	atomic_bool ended;
	atomic_bool given_up; /* by the thread or by its owner: the other one frees the memory */
};

/* The eventfd of kafkaproducer_new, to be closed by the caller. Aborts when there is none to be had. */
int kafkaproducer_descriptor(void);

/* NULL and err when the settings or the password file are refused. fd: a non-blocking eventfd, written when the queue turns from empty to filled. Lines may stand in it already, so it has to be looked at once without being told. */
struct kafkaproducer *kafkaproducer_new(const struct config_kafka *config, enum kafka_kind kind, int fd,
					struct err *err) must_check;

/* Whether it has ended for good, and why, for people. */
rd_kafka_resp_err_t kafkaproducer_fatal(const struct kafkaproducer *producer, struct err *why) must_check;

/* A refused record was its end: the brokers do answer, and another producer, which gets other records, need not wait. */
bool kafkaproducer_was_refused(const struct kafkaproducer *producer);

/* The library's threads begin to end, and nothing but the next three functions may be called any more. It happens in a
 * thread of its own, because one of them may be looking up a host name, for as long as the resolver takes. fd is written
 * at the end. */
void kafkaproducer_end(struct kafkaproducer *producer);
bool kafkaproducer_has_ended(const struct kafkaproducer *producer);

/* Waits for the end. After it nobody reads the messages' bytes any more. */
void kafkaproducer_free(struct kafkaproducer *producer);

/* For one that has no message any more: waits for a moment, and leaves the rest to the thread. */
void kafkaproducer_leave(struct kafkaproducer *producer);

/* 0: accepted, and a report will bring the opaque. Else none will. The value's bytes are borrowed until the report. */
rd_kafka_resp_err_t kafkaproducer_send(struct kafkaproducer *producer, const struct message *message,
				       void *opaque) must_check;

/* The library reports on all that it has not sent, with in_flight also on what it has. Does not wait. */
void kafkaproducer_purge(struct kafkaproducer *producer, bool in_flight);

#endif
