/* route: what a row becomes: topic, partition, key, value, headers, timestamp.
 * Pure: it borrows from the row's cells; only what it composes is copied into its own buffers. */
#ifndef OUTBOXD_CORE_ROUTE_H
#define OUTBOXD_CORE_ROUTE_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"
#include "core/sql.h"

#include <stdint.h>

/* A record for Kafka. All bytes are borrowed: value until the answer, the rest for the call. */
struct message_header {
	struct slice name, value; /* value SLICE_NULL: a header with a null value */
};
struct message {
	const char *topic;  /* NUL-terminated, valid name */
	int32_t partition;  /* -1: the partitioner decides */
	struct slice key;   /* SLICE_NULL: no key */
	struct slice value; /* SLICE_NULL: a tombstone */
	const struct message_header *headers;
	size_t n_headers;
	int64_t timestamp_ms; /* 0: the time of publishing */
	unsigned dropped;     /* headers that the row has and the record has not: bits of enum message_drop */
};
enum message_drop { MESSAGE_DROPPED_PARENT = 1, MESSAGE_DROPPED_STATE = 2 };

/* The compiled templates of one source, and buffers reused from row to row. */
struct route;

/* Compiles topic and header templates; err names the template and what is wrong with it. The config must outlive it. */
struct route *route_new(const struct config_source *source, struct err *err) must_check;
void route_free(struct route *route);

/* The columns that the templates name, each once, in the order in which cells must hold them. Borrowed. */
struct sql_templates route_templates(const struct route *route);

/* What kind of value the payload's column holds, for content-type with format: cloudevents. Until it is said, of any. */
void route_set_media_type(struct route *route, const char *media_type);

/* Composes the message of one row. cells: the row's cells by enum sql_claim_column, then the template columns
 * (SQL_CLAIM_COLUMNS + n). False: the row's own fault, and err says what (NULL in the topic's template, invalid topic name,
 * headers that are no JSON object, partition out of range, no CloudEvent). Headers of W3C Trace Context that are malformed are left
 * out. The message borrows from cells and from route, the latter
 * until the next call. */
bool route_compose(struct route *route, const struct slice *cells, struct message *message,
		   struct err *err) must_check;

/* A legal Kafka topic name: 1 to 249 of [a-zA-Z0-9._-], not "." or "..". */
bool route_topic_valid(struct slice topic);

/* Bytes of the record as librdkafka holds them against message.max.bytes: value, key, headers and framing. */
size_t route_message_bytes(const struct message *message);

#endif
