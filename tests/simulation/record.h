/* record: a history of the table as lines, for replay_sql.c to run on a real server: one a moment, in the order in which they
 * happened. Nothing is written unless the history is recorded.
 *
 *   H ordering on_failed on_delivered letters result_timeout   the configuration; in seconds
 *   I xact id key topic payload created_at   a row is inserted
 *   U xact id deleted state attempts available_at lease_until settled_at owner error payload   people change a row
 *   S xact kind now values...                a statement begins: its snapshot is taken
 *   W xact                                   it waits for a lock
 *   L xact columns cells...                  it has its locks and is done; its result
 *   C xact                                   commit
 *   R xact                                   rollback
 *   T rows...                                what is then in the table
 *
 * Times are microseconds since 2000; text and binary values are hexadecimal behind an x; - is NULL. */
#ifndef OUTBOXD_SIMULATION_RECORD_H
#define OUTBOXD_SIMULATION_RECORD_H

#include "statement.h"

void record_config(struct sim *sim, const struct config_source *config);
/* Statements have another text from now on: the record ends here. */
void record_other_config(struct sim *sim);
void record_insert(const struct xact *xact, const struct row *row);
void record_write(const struct xact *xact, const struct row *row);
void record_start(const struct statement *statement, const struct slice *values, int n);
void record_wait(const struct statement *statement);
void record_run(struct statement *statement);
void record_commit(const struct xact *xact);
void record_rollback(const struct xact *xact);

/* Copies of a request's values, which are borrowed for its call only; NULL when nothing is recorded. */
struct slice *record_values(struct sim *sim, const struct slice *values, int n);

#endif
