/* properties: librdkafka's settings as far as we must understand them. */
#ifndef OUTBOXD_CONFIG_PROPERTIES_H
#define OUTBOXD_CONFIG_PROPERTIES_H

#include "config/config.h"

/* Some properties have two names; the one that we use. Any other name is returned as it is. */
const char *properties_canonical(const char *name);

/* The last one of that name, under either of its names; NULL when there is none. */
const struct config_property *properties_find(const struct config_kafka *kafka, const char *canonical);

/* What to do in place of setting a property that belongs to the relay; NULL for all others. */
const char *properties_instead(const char *canonical);

/* The properties that are set unless the file says otherwise. */
struct config_kafka properties_standard(struct arena *arena);

/* A copy with one more property, or with the one of that name replaced. */
void properties_set(struct arena *arena, struct config_kafka *kafka, const struct config_property *property);

/* A copy without the one of that name. */
void properties_remove(struct arena *arena, struct config_kafka *kafka, const char *canonical);

#endif
