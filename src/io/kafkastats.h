/* kafkastats: what librdkafka's statistics say about the connection to the cluster. */
#ifndef OUTBOXD_IO_KAFKASTATS_H
#define OUTBOXD_IO_KAFKASTATS_H

#include <stdbool.h>
#include <stddef.h>

struct kafkastats {
	bool broker_up;	  /* at least one broker is connected and has answered */
	bool producer_id; /* an idempotent producer has its id, without which it sends nothing; true for others */
};

/* json need not end with a NUL. What cannot be parsed says that nothing is up. */
struct kafkastats kafkastats_parse(const char *json, size_t len);

#endif
