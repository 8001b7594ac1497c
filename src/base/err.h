/* err: one sentence about what went wrong, for a person.
 * It carries no code: what the program decides on is a return value or a verdict. */
#ifndef OUTBOXD_BASE_ERR_H
#define OUTBOXD_BASE_ERR_H

#include <stdbool.h>

#define must_check __attribute__((warn_unused_result))

struct err {
	char text[512];
};

/* Formats the sentence into err (cut when too long; err may be NULL) and returns false,
 * so that a function can end with `return err_set(err, "...")`. */
bool err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
