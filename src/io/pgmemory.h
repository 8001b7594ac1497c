/* pgmemory: libpq without memory. Where it does not even have a connection it tells of that by a sentence, as of all else. */
#ifndef OUTBOXD_IO_PGMEMORY_H
#define OUTBOXD_IO_PGMEMORY_H

/* Aborts when a message of libpq says that there is no memory, or is missing for that reason (NULL). */
void pgmemory_check(const char *message);

#endif
