/* choose: the source of a history, by its seed's dice. */
#ifndef OUTBOXD_SIMULATION_CHOOSE_H
#define OUTBOXD_SIMULATION_CHOOSE_H

#include "sim.h"

#include "config/config.h"

/* header must live as long as the config. */
void choose_config(struct sim *sim, struct config_source *config, struct config_header *header);

#endif
