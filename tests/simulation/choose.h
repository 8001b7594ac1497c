/* choose: the settings of a history's sources, by its seed's dice. */
#ifndef OUTBOXD_SIMULATION_CHOOSE_H
#define OUTBOXD_SIMULATION_CHOOSE_H

#include "sim.h"

#include "config/config.h"

/* header must live as long as the config. */
void choose_config(struct sim *sim, struct config_source *config, struct config_header *header);

/* After a reload: some of them are others, rarely those that change what is promised. */
void choose_other_settings(struct sim *sim, const struct config_source *old, struct config_source *config);

#endif
