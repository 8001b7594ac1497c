/* kafkatopics: handles of the topics that a producer has published to.
 * Messages are addressed by handle: by name, the first one of each topic may wait up to a second in the library (in all
 * versions before 2.10.1). Only src/io includes this: it names the library's types. */
#ifndef OUTBOXD_IO_KAFKATOPICS_H
#define OUTBOXD_IO_KAFKATOPICS_H

#include <librdkafka/rdkafka.h>

struct kafkatopics;

/* For one producer; free them before it is destroyed. */
struct kafkatopics *kafkatopics_new(rd_kafka_t *rk);
void kafkatopics_free(struct kafkatopics *topics);

/* The handle, borrowed until the next call; NULL when the library refuses the name (rd_kafka_last_error tells). */
rd_kafka_topic_t *kafkatopics_get(struct kafkatopics *topics, const char *name);

#endif
