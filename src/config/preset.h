/* preset: the defaults of a known kind of table, and those that follow from other settings. */
#ifndef OUTBOXD_CONFIG_PRESET_H
#define OUTBOXD_CONFIG_PRESET_H

#include "config/load.h"

/* Before the file's own values: overwrites the general defaults with the preset's. name is one of the key table's. */
void preset_apply(struct load *load, const char *name, struct config_source *source);

/* After them: the order column, topic, headers and channel where the file (node) does not say. */
void preset_derive(struct load *load, const struct yamltree_node *node, struct config_source *source);

#endif
