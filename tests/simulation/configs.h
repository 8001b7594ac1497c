/* configs: the source that histories relay: the standard table. */
#ifndef OUTBOXD_SIMULATION_CONFIGS_H
#define OUTBOXD_SIMULATION_CONFIGS_H

#include "config/config.h"

/* Names, columns, states and templates; header must live as long as the config. All else is zero. */
void configs_standard(struct config_source *config, struct config_header *header);

#endif
