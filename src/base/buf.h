/* buf: bytes that grow, and slices that borrow bytes from somebody else.
 * A buf always has a NUL behind its bytes, so that text can be printed as it is. */
#ifndef OUTBOXD_BASE_BUF_H
#define OUTBOXD_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *bytes;
	size_t len, size;
};

/* Borrowed bytes. bytes == NULL is SQL's NULL; a present, empty value has len 0 and bytes != NULL. */
struct slice {
	const char *bytes;
	size_t len;
};

#define SLICE_NULL ((struct slice){NULL, 0})

/* An all-zero struct buf is an empty buf; buf_free makes it one again. */
void buf_free(struct buf *buf);

/* Empties it and keeps the memory. */
void buf_clear(struct buf *buf);

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_add_string(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_print(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text, never NULL; borrowed from the buf. */
const char *buf_text(const struct buf *buf);

/* Gives the bytes away (caller frees with mem_free) and leaves the buf empty. */
char *buf_take(struct buf *buf);

/* The slice of a C string; NULL gives SLICE_NULL. */
struct slice slice_of(const char *text);

bool slice_equal(struct slice a, struct slice b);

#endif
