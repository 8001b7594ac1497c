/* agenda: virtual time. What is to happen stands in a heap by time and then by order of entry, so that a history depends on
 * its seed alone. */
#ifndef OUTBOXD_SIMULATION_AGENDA_H
#define OUTBOXD_SIMULATION_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

struct agenda;

typedef void agenda_fn(void *context);

struct agenda *agenda_new(int64_t now_us);
void agenda_free(struct agenda *agenda);

int64_t agenda_now(const struct agenda *agenda);

/* Calls fn once at that time (now, when it has passed), never before agenda_add has returned. */
void agenda_add(struct agenda *agenda, int64_t at_us, agenda_fn *fn, void *context);

/* Goes to the next entry and calls it. False: nothing is left, or nothing before until_us (the time is then until_us). */
bool agenda_turn(struct agenda *agenda, int64_t until_us);

#endif
