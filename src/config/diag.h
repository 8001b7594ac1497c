/* diag: the mistakes of one file, collected so that they are reported in one go, in the order of the file. */
#ifndef OUTBOXD_CONFIG_DIAG_H
#define OUTBOXD_CONFIG_DIAG_H

#include "base/buf.h"

struct diag_line {
	int line, column; /* from 1 */
	size_t order;	  /* in which it was found, for those of one place */
	char *text;
};

/* All zero but for the file is an empty one. */
struct diag {
	const char *file; /* borrowed */
	struct diag_line *lines;
	size_t n_lines;
};

/* Adds a mistake, unless the very same is there already (several sources may share a faulty default). */
void diag_add(struct diag *diag, int line, int column, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Appends `FILE:LINE:COLUMN: message` for each. */
void diag_print(struct diag *diag, struct buf *out);

void diag_free(struct diag *diag);

#endif
