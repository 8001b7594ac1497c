/* What the unit tests of records share. */
#ifndef OUTBOXD_TESTS_UNIT_HEADERTEXT_H
#define OUTBOXD_TESTS_UNIT_HEADERTEXT_H

#include "base/buf.h"
#include "core/route.h"

#include <check.h>

/* The message has these headers and no others, in this order: "name=value|" of each. */
static inline void headertext_expect(const struct message *message, const char *expected)
{
	struct buf seen = {0};
	size_t i;

	for (i = 0; i < message->n_headers; i++) {
		buf_add(&seen, message->headers[i].name.bytes, message->headers[i].name.len);
		buf_add_char(&seen, '=');
		buf_add(&seen, message->headers[i].value.bytes, message->headers[i].value.len);
		buf_add_char(&seen, '|');
	}
	ck_assert_str_eq(buf_text(&seen), expected);
	buf_free(&seen);
}

#endif
