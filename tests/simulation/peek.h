/* peek: what touches the relay's memory. One thing is asked: under which claim it hands a row over. The message does not say,
 * and a row may be in memory twice. */
#ifndef OUTBOXD_SIMULATION_PEEK_H
#define OUTBOXD_SIMULATION_PEEK_H

#include <stddef.h>
#include <stdint.h>

struct source;

/* The lease of the relay's row, by its tag. */
int64_t peek_lease(const void *tag);

/* A new source forgets idle topics beyond so few, once: a history has not a thousand. */
void peek_limit_topics(struct source *source, size_t limit);

#endif
