/* callers: which of the objects in a process a piece of code belongs to, for what is preloaded into other programs. */
#ifndef OUTBOXD_TESTS_CALLERS_H
#define OUTBOXD_TESTS_CALLERS_H

#include <stdint.h>

enum caller { PROGRAM, LIBPQ, LIBRDKAFKA, LIBEV, LIBYAML, LIBJANSSON, LIBMICROHTTPD, LIBC, OTHER, CALLERS };

/* As tally.py has them. */
extern const char *const callers_names[CALLERS];

/* Looks for the code; once, when all objects are loaded. */
void callers_find(void);

/* Whose code is at this address. offset (may be NULL) becomes its distance from where that code begins, which is the same
 * in each run; nothing is known of OTHER. */
enum caller callers_of(const void *address, uintptr_t *offset);

#endif
