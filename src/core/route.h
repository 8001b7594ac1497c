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

/* How much of a row its dead letter has: less when Kafka does not take more. */
enum route_letter {
	LETTER_WHOLE,	      /* key, value and headers as the record has them */
	LETTER_WITHOUT_VALUE, /* a null value, and a header that says so */
	LETTER_BARE	      /* only what is said below */
};

/* What a dead letter says of the row's end. */
struct route_death {
	struct slice source, error; /* error SLICE_NULL: what the row's column says */
	const char *topic;	    /* the dead letters' */
	int32_t attempts;
	int64_t failed_at; /* microseconds since 2000 */
	enum route_letter letter;
};

/* Composes the dead letter of one row: the record as it would be, as far as it can be made, with headers outboxd-source,
 * outboxd-topic (the record's), outboxd-id, outboxd-error, outboxd-attempts and outboxd-failed-at; and outboxd-payload,
 * outboxd-key, outboxd-headers: "omitted" for what is not there. It borrows as route_compose does. The source must have had a
 * dead_letter_topic. */
void route_compose_letter(struct route *route, const struct slice *cells, const struct route_death *death,
			  struct message *message);

/* The row's last_error, among cells as above; SLICE_NULL: none, or no such column. Only with a dead_letter_topic. */
struct slice route_last_error(const struct route *route, const struct slice *cells);

/* A legal Kafka topic name: 1 to 249 of [a-zA-Z0-9._-], not "." or "..". */
bool route_topic_valid(struct slice topic);

/* Bytes of the record as librdkafka holds them against message.max.bytes: value, key, headers and framing. */
size_t route_message_bytes(const struct message *message);

#endif
