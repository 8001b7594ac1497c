/* headers: the headers of one record while they are put together, from the JSON column and from templates.
 * The column wins over a template of the same name, null takes a header away, and a name twice is a mistake.
 * Memory is kept from row to row. */
#ifndef OUTBOXD_CORE_HEADERS_H
#define OUTBOXD_CORE_HEADERS_H

#include "core/route.h"

/* The largest JSON text that is read: a larger one would not be a header, and reading it would hold up the loop. */
#define HEADERS_JSON_MAX_BYTES (1024 * 1024)

struct headers {
	struct message_header *list;
	size_t length, size, from_json; /* the first from_json of the list stand in the JSON column */
	char *text;			/* composed bytes; it never moves between headers_begin and the next one */
	size_t text_used, text_size;
	struct json_t *json; /* the column's object, between headers_begin and headers_end; also its set of names */
};

/* An all-zero struct headers is an empty one. */
void headers_free(struct headers *headers);

/* Begins a record with the JSON column's text (SLICE_NULL: none), which must live until headers_end's result is done
 * with. text_bytes: how much headers_text will be asked for. False: no JSON object, or one that has a name twice; err says so, and
 * nothing has begun. */
bool headers_begin(struct headers *headers, struct slice json, size_t text_bytes, struct err *err) must_check;

/* Has the column a member of that name, be it null? */
bool headers_has(const struct headers *headers, const char *name);

/* Room for len composed bytes, valid until the next headers_begin. */
char *headers_text(struct headers *headers, size_t len);

/* Adds one; the bytes are borrowed. */
void headers_add(struct headers *headers, struct slice name, struct slice value);

/* Hands the list to the message; valid until the next headers_begin. */
void headers_end(struct headers *headers, struct message *message);

/* Where the message has a header of that name; n_headers: nowhere. */
size_t headers_find(const struct message *message, const char *name);

/* Takes the i-th header out of a message that headers_end has made. */
void headers_take_out(struct headers *headers, struct message *message, size_t i);

#endif
