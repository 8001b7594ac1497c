/* rules: what must be true between settings, told as mistakes of the one that is present. */
#ifndef OUTBOXD_CONFIG_RULES_H
#define OUTBOXD_CONFIG_RULES_H

#include "config/load.h"

/* What must be there at all: connection, brokers, a source. */
void rules_check_required(struct load *load);

/* All rules of one source but those about Kafka's properties. node is its map. */
void rules_check_source(struct load *load, const struct yamltree_node *node, const struct config_source *source);

/* Kafka's properties against keys of our own: called for the section at the top and for each source's, after it was
 * loaded. Brings message_timeout and its property into agreement. */
void rules_settle_kafka(struct load *load, const struct yamltree_node *section, struct config_kafka *kafka);

/* Kafka's properties against what the source promises. */
void rules_check_kafka(struct load *load, const struct yamltree_node *node, const struct config_source *source);

#endif
