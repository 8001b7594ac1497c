/* value: how single values are written: durations, sizes, numbers, and ${NAME} from the environment.
 * Nothing is guessed and nothing cut: what is not written exactly so is refused. */
#ifndef OUTBOXD_CONFIG_VALUE_H
#define OUTBOXD_CONFIG_VALUE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* Appends text with ${NAME} and ${NAME:-default} replaced from the environment, in one pass: what comes in is not looked
 * at again. $$ is a dollar sign; a dollar sign before anything else is itself. The default counts for an unset and for
 * an empty variable. False: unset without a default, or no name, or not closed. */
bool value_expand(const char *text, struct buf *out, struct err *err) must_check;

/* The digits 0-9 without sign, point or leading zeros. */
bool value_integer(const char *text, int64_t *number) must_check;

/* The same with up to six decimals behind a point. */
bool value_number(const char *text, double *number) must_check;

/* A whole number and ms, s, m, h or d. */
bool value_duration(const char *text, int64_t *us) must_check;

/* A whole number and B, KiB, MiB, GiB or TiB. */
bool value_size(const char *text, int64_t *bytes) must_check;

/* Appends it as it could be written: in the largest unit that loses nothing. */
void value_print_duration(struct buf *out, int64_t us);
void value_print_size(struct buf *out, int64_t bytes);
void value_print_number(struct buf *out, double number);

/* Is `candidate` a likely meaning of the misspelt `text`? The distance in letters, or SIZE_MAX when it is too far. */
size_t value_distance(const char *text, const char *candidate);

#endif
