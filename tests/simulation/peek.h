/* peek: the one thing that is asked of the relay's memory: under which claim it hands a row over. The message does not say,
 * and a row may be in memory twice. */
#ifndef OUTBOXD_SIMULATION_PEEK_H
#define OUTBOXD_SIMULATION_PEEK_H

#include <stdint.h>

/* The lease of the relay's row, by its tag. */
int64_t peek_lease(const void *tag);

#endif
