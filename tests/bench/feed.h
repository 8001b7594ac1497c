/* feed: a producer with outboxd's settings, fed without a relay. It survives nothing: a message that is not delivered ends the
 * process. */
#ifndef OUTBOXD_TESTS_FEED_H
#define OUTBOXD_TESTS_FEED_H

#include "io/kafkaproducer.h"

struct feed {
	struct kafkaproducer *producer;
	int fd; /* readable when there is something to serve */
	size_t outstanding;
};

/* A message was delivered. */
typedef void feed_report_fn(void *context, void *opaque);

/* Returns when a broker has answered. */
void feed_open(struct feed *feed, const struct config_kafka *config);
void feed_close(struct feed *feed);

/* False: the library's queue is full. The value's bytes are borrowed until the report, the rest for the call. */
bool feed_send(struct feed *feed, const struct message *message, void *opaque) must_check;

/* Takes all reports that have come, waiting up to wait_ms for the first. */
void feed_serve(struct feed *feed, int wait_ms, feed_report_fn *on_report, void *context);

#endif
