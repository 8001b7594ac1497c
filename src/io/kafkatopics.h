/* kafkatopics: handles of the topics that a producer has published to.
 * Messages are addressed by handle: by name, the first one of each topic may wait up to a second in the library (in all
 * versions before 2.10.1). Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKATOPICS_H
#define OUTBOXD_IO_KAFKATOPICS_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

struct kafkatopics;

/* For one producer; free them before it is destroyed. */
struct kafkatopics *kafkatopics_new(rd_kafka_t *rk);
void kafkatopics_free(struct kafkatopics *topics);

/* The handle, borrowed until the next call; NULL when the library refuses the name (rd_kafka_last_error tells). */
rd_kafka_topic_t *kafkatopics_get(struct kafkatopics *topics, const char *name);

/* Asks the brokers about a topic that was refused, at most once a tick, and does not wait. The library refuses a topic by
 * itself from then on, until metadata has shown it sound, and of its own accord it asks after minutes only. */
void kafkatopics_ask(struct kafkatopics *topics, const char *name, uint64_t tick);

#endif
