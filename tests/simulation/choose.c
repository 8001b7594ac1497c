#include "choose.h"

#include "configs.h"

static void choose_promises(struct sim *sim, struct config_source *config)
{
	config->ordering = sim_chance(sim, 0.85) ? ORDERING_KEY : ORDERING_NONE;
	config->on_failed = sim_chance(sim, 0.6) ? ON_FAILED_BLOCK : ON_FAILED_CONTINUE;
	config->on_delivered = sim_chance(sim, 0.25) ? ON_DELIVERED_DELETE : ON_DELIVERED_MARK;
}

/* In a history of its own kind: every eighth seed. */
static void choose_await(struct sim *sim, struct config_source *config)
{
	config->ordering = ORDERING_NONE;
	config->on_delivered = ON_DELIVERED_AWAIT;
	config->result_timeout_us = sim_between(sim, 1, 60) * SECOND;
}

static void choose_sizes(struct sim *sim, struct config_source *config)
{
	/* Not together, one close behind the other, and as many as there are. */
	config->max_in_flight_per_key = sim_chance(sim, 0.3) ? 1 : sim_chance(sim, 0.3) ? 3 : 1000;
	config->batch = sim_between(sim, 1, 20);
	config->max_in_flight = sim_between(sim, 1, 60);
	config->max_in_flight_bytes = sim_chance(sim, 0.3) ? sim_between(sim, 20, 1000) : 1000000;
}

static void choose_times(struct sim *sim, struct config_source *config)
{
	config->kafka.message_timeout_us = sim_between(sim, 5, 30) * SECOND;
	config->lease_us = config->kafka.message_timeout_us + sim_between(sim, 5, 30) * SECOND;
	config->poll_us = sim_between(sim, 200 * MS, 2 * SECOND);
}

static void choose_retry(struct sim *sim, struct config_source *config)
{
	config->retry = (struct config_retry){.initial_us = sim_between(sim, 100 * MS, 2 * SECOND),
					      .max_us = 10 * SECOND,
					      .multiplier = 2,
					      .jitter = 0.2,
					      .max_attempts = sim_between(sim, 1, 6)};
}

void choose_config(struct sim *sim, struct config_source *config, struct config_header *header)
{
	configs_standard(config, header);
	choose_promises(sim, config);
	if (sim->seed % 8 == 5)
		choose_await(sim, config);
	choose_sizes(sim, config);
	choose_times(sim, config);
	choose_retry(sim, config);
	config->dead_letter_topic = sim_chance(sim, 0.3) ? "dead" : NULL;
	if (config->on_delivered == ON_DELIVERED_AWAIT)
		config->dead_letter_topic = NULL;
	config->postgres.connections = sim_between(sim, 1, 3);
	config->postgres.statement_timeout_us = 10 * SECOND;
	config->postgres.lock_timeout_us = SECOND;
}

void choose_other_settings(struct sim *sim, const struct config_source *old, struct config_source *config)
{
	*config = *old;
	if (old->on_delivered == ON_DELIVERED_AWAIT)
		choose_await(sim, config);
	else if (sim_chance(sim, 0.2))
		choose_promises(sim, config);
	if (sim_chance(sim, 0.5))
		choose_sizes(sim, config);
	if (sim_chance(sim, 0.5))
		choose_times(sim, config);
	if (sim_chance(sim, 0.5))
		choose_retry(sim, config);
}
