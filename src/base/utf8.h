/* utf8: is this text? What leaves the process as text (logs, last_error, JSON) is made valid with it. */
#ifndef OUTBOXD_BASE_UTF8_H
#define OUTBOXD_BASE_UTF8_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the well-formed character at the start of the left bytes, and its code point (may be NULL);
 * 0 when there is none: no bytes left, an overlong form, a surrogate, cut off. */
size_t utf8_read(const char *bytes, size_t left, uint32_t *code_point);

/* Appends the bytes, each that belongs to no character as U+FFFD. */
void utf8_add(struct buf *out, const char *bytes, size_t len);

#endif
