/* reports: what Kafka's client says of a message, by librdkafka's numbers. */
#ifndef OUTBOXD_SIMULATION_REPORTS_H
#define OUTBOXD_SIMULATION_REPORTS_H

#include "io/kafka.h"

/* verdict.c judges them. */
enum code {
	CODE_TIMED_OUT = -192,
	CODE_UNKNOWN_TOPIC = -188,
	CODE_NO_OFFSET = -168,
	CODE_QUEUE_FULL = -184,
	CODE_PURGED = -152,
	CODE_FATAL = -150,
	CODE_OK = 0,
	CODE_CORRUPT = 2,
	CODE_TOO_LARGE = 10,
	CODE_TOO_FEW_REPLICAS = 19,
	CODE_TOO_FEW_AFTER_APPEND = 20,
	CODE_TOPIC_DENIED = 29,
	CODE_OUT_OF_ORDER = 45,
	CODE_INVALID_RECORD = 87
};

/* As kafka.c judges a report: the code says whose fault it is, the message's status whether it may be on the topic. */
struct kafka_answer reports_judge(int code, bool possibly);

/* As it judges a success without an offset. */
struct kafka_answer reports_guess(void);

#endif
