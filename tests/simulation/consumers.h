/* consumers: with on_delivered: await, those who take a row's record from Kafka and write a result into the row: at once, after
 * a while, too late, or never. They know the row's id and the attempt, as the record's headers say them. */
#ifndef OUTBOXD_SIMULATION_CONSUMERS_H
#define OUTBOXD_SIMULATION_CONSUMERS_H

#include "checker.h"

struct consumers;

struct consumers *consumers_new(struct sim *sim, struct table *table);

/* A record is on its topic. */
void consumers_take(struct consumers *consumers, const struct publication *publication);

/* Has everybody written what he has to write? */
bool consumers_done(const struct consumers *consumers);

#endif
