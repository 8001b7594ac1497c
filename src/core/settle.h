/* settle: puts the outcomes of rows into the parameters of one settle statement: SQL_SETTLE_SENT or SQL_SETTLE, never both.
 * It decides nothing and sends nothing: the outcomes come from relay/outcome.c. */
#ifndef OUTBOXD_CORE_SETTLE_H
#define OUTBOXD_CORE_SETTLE_H

#include "base/buf.h"
#include "core/sql.h"

#include <stdint.h>

/* One row's outcome other than sent, as SQL_SETTLE takes it; all borrowed for the call of settle_add. */
struct settle_row {
	struct slice id, lease; /* as the claim returned them */
	const char *owner;	/* of the row's own claim */
	const char *state;	/* the table's label */
	int64_t delay_us;	/* 0: none */
	int32_t back;		/* attempts given back; less than 0: so many more count as used */
	const char *error;	/* NULL: keep; made valid UTF-8 and cut to SETTLE_ERROR_BYTES */
};

#define SETTLE_ERROR_BYTES 2000

struct settle;

struct settle *settle_new(void);
void settle_free(struct settle *settle);

/* Empties it. */
void settle_begin(struct settle *settle);

/* For SQL_SETTLE_SENT: rows of one claim were delivered, those that settle_add_sent names until the next claim. */
void settle_begin_claim(struct settle *settle, struct slice lease, const char *owner);
void settle_add_sent(struct settle *settle, struct slice id);

/* For SQL_SETTLE. Rows must come ascending in the order column: every instance then locks in the same order. */
void settle_add(struct settle *settle, const struct settle_row *row);

/* Fills in the values of the parameters that a settle statement has; borrowed until the next settle_begin. */
void settle_values(struct settle *settle, struct slice values[SQL_PARAMS]);

/* Appends text as valid UTF-8 without NUL, at most limit bytes, never cutting inside a character. */
void settle_clean_text(struct buf *out, const char *text, size_t limit);

#endif
