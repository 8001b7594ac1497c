/* kafkaproducer: one producer of librdkafka: made, fed and destroyed. What its queue brings is kafka.c's to handle.
 * Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKAPRODUCER_H
#define OUTBOXD_IO_KAFKAPRODUCER_H

#include "core/route.h"
#include "io/kafka.h"
#include "io/kafkaconf.h"
#include "io/kafkatopics.h"

struct kafkaproducer {
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue; /* reports, errors, statistics and log lines */
	struct kafkatopics *topics;
	struct kafkaconf_limits limits;
};

/* The eventfd of kafkaproducer_new, to be closed by the caller. Aborts when there is none to be had. */
int kafkaproducer_descriptor(void);

/* NULL and err when the settings or the password file are refused. fd: a non-blocking eventfd, written when the queue turns from empty to filled. Lines may stand in it already, so it has to be looked at once without being told. */
struct kafkaproducer *kafkaproducer_new(const struct config_kafka *config, enum kafka_kind kind, int fd,
					struct err *err) must_check;

/* Waits for the library's threads. After it nobody reads the messages' bytes any more. */
void kafkaproducer_free(struct kafkaproducer *producer);

/* 0: accepted, and a report will bring the opaque. Else none will. The value's bytes are borrowed until the report. */
rd_kafka_resp_err_t kafkaproducer_send(struct kafkaproducer *producer, const struct message *message,
				       void *opaque) must_check;

/* The library reports on all that it has not sent, with in_flight also on what it has. Does not wait. */
void kafkaproducer_purge(struct kafkaproducer *producer, bool in_flight);

#endif
