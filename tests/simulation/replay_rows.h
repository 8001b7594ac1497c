/* replay_rows: the lines of a record (record.h), and what people do to rows as SQL. */
#ifndef OUTBOXD_SIMULATION_REPLAY_ROWS_H
#define OUTBOXD_SIMULATION_REPLAY_ROWS_H

#include "base/buf.h"

/* The next word of a line, "" at its end; as a number. */
char *replay_word(char **rest);
int replay_number(char **rest);

/* The bytes behind an x, written to bytes and a NUL behind them; SLICE_NULL for -. */
struct slice replay_unhex(const char *text, char *bytes);

/* What follows the transaction in an I or a U line, as a statement appended to sql. states: the labels. */
void replay_insert(char *rest, struct buf *sql);
void replay_change(char *rest, const char *const states[], struct buf *sql);

#endif
