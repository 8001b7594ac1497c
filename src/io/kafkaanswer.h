/* kafkaanswer: from what librdkafka says about a message to what kafka.h answers.
 * Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKAANSWER_H
#define OUTBOXD_IO_KAFKAANSWER_H

#include "base/err.h"
#include "io/kafka.h"

#include <librdkafka/rdkafka.h>

/* How large the message was and might have been, for the text of a size error. */
struct kafkaanswer_size {
	size_t bytes;
	int64_t message_max_bytes;
};

/* The answer to a message that the library has reported on. Its text may stand in *space. */
struct kafka_answer kafkaanswer_of_report(const rd_kafka_message_t *report, const struct kafkaanswer_size *size,
					  struct err *space);

/* The answer to a message that is reported as delivered, but without an offset, where there should be one. */
struct kafka_answer kafkaanswer_of_guess(void);

/* The answer to a message that the library did not take: it is surely not written. */
struct kafka_answer kafkaanswer_of_refusal(rd_kafka_resp_err_t code, const struct kafkaanswer_size *size,
					   struct err *space);

/* The answer to a message whose producer is gone without a report. */
struct kafka_answer kafkaanswer_of_loss(void);

/* The message may have been with a broker that went away since: what the library takes for not written is not sure. */
void kafkaanswer_doubt(struct kafka_answer *answer);

/* Marks an answer as owed to the end of its producer, if it is. */
void kafkaanswer_mark_replaced(struct kafka_answer *answer);

/* Marks it as owed to the message's own time-out, as the library itself would report it. */
void kafkaanswer_mark_timed_out(struct kafka_answer *answer);

#endif
