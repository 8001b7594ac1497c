/* kafkaconf: the settings of a producer: ours, then the user's word for word, as librdkafka takes them.
 * Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKACONF_H
#define OUTBOXD_IO_KAFKACONF_H

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"

#include <librdkafka/rdkafka.h>

/* What the library will go by, whoever set it. */
struct kafkaconf_limits {
	int64_t message_timeout_ms;
	int64_t message_max_bytes;
	bool offsets; /* what was written is acknowledged with its offset: not with acks=0 */
};

/* The library's configuration, to be given to rd_kafka_new or destroyed. NULL, err and *property (index of the offending
 * property or -1; may be NULL) when it refuses a setting by itself; settings that contradict each other are found only by
 * rd_kafka_new. The password file is read unless password is given. */
rd_kafka_conf_t *kafkaconf_new(const struct config_kafka *config, const char *password,
			       struct kafkaconf_limits *limits, struct err *err, int *property) must_check;

/* Turns it into a producer that leaves no gaps: a message that the brokers refuse is the end of the producer, and none times
 * out by itself. So somebody else has to see to it that each is answered within limits->message_timeout_ms. */
bool kafkaconf_close_gaps(rd_kafka_conf_t *conf, struct err *err) must_check;

/* Turns it into a producer whose batches have one message each. */
bool kafkaconf_send_singly(rd_kafka_conf_t *conf, struct err *err) must_check;

/* A copy whose parts live in the arena. */
struct config_kafka kafkaconf_copy(struct arena *arena, const struct config_kafka *config);

/* Logs a warning for each safeguard of TLS that the user has switched off. */
void kafkaconf_warn(const struct config_kafka *config);

#endif
