/* timetext: PostgreSQL's binary times as text, for headers. */
#ifndef OUTBOXD_CORE_TIMETEXT_H
#define OUTBOXD_CORE_TIMETEXT_H

#include <stddef.h>
#include <stdint.h>

#define TIMETEXT_BYTES 32

/* Microseconds since 2000-01-01 UTC as RFC 3339 has it, in UTC with six decimals. Returns the length; 0 where RFC 3339, which
 * has years of four digits, has no words: infinity, and times before the year 1. */
size_t timetext_rfc3339(int64_t us, char text[TIMETEXT_BYTES]);

#endif
