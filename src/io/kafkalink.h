/* kafkalink: whether messages can be delivered: a broker is connected and the producer has its id. It judges what the
 * library tells by itself, its errors and statistics; whether the producer lives is kafka.c's affair.
 * Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKALINK_H
#define OUTBOXD_IO_KAFKALINK_H

#include "base/err.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

enum link {
	LINK_NEW, /* this producer has not told yet */
	LINK_UP,
	LINK_DOWN
};

struct kafkalink {
	const char *servers; /* for the log; NULL: another producer to the same ones logs it */
	enum link state;
	bool has_id;	       /* an idempotent producer got its id */
	bool delivered;	       /* something since the last statistics, or since the brokers went down */
	uint64_t outages;      /* times the brokers went down */
	struct err reason;     /* why not up */
	struct err last_error; /* of the library, since it was last up */
};

/* The one place that changes the state; says so once for each change. reason is copied; "" while up. */
void kafkalink_set(struct kafkalink *link, enum link state, const char *reason);

/* Another producer has been made: nothing is known of it. */
void kafkalink_renew(struct kafkalink *link);

/* Events of the library; with running false, of a producer that takes no messages any more: they change no state. */
void kafkalink_on_statistics(struct kafkalink *link, rd_kafka_event_t *event, bool running);
void kafkalink_on_error(struct kafkalink *link, rd_kafka_event_t *event, bool running);
void kafkalink_on_log(rd_kafka_event_t *event);

#endif
