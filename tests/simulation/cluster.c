#include "cluster.h"

#include <string.h>

struct cluster *cluster_new(struct sim *sim, struct consumers *consumers)
{
	struct cluster *cluster = arena_take(sim->arena, 1, sizeof(*cluster));

	cluster->sim = sim;
	cluster->consumers = consumers;
	cluster->slow = sim_chance(sim, 0.15);
	return cluster;
}

struct topic *cluster_topic(struct cluster *cluster, const char *name)
{
	struct topic *topic = cluster->topics;

	while (topic != NULL && strcmp(topic->name, name) != 0)
		topic = topic->next;
	if (topic == NULL) {
		topic = arena_take(cluster->sim->arena, 1, sizeof(*topic));
		topic->name = sim_copy(cluster->sim, name);
		topic->next = cluster->topics;
		cluster->topics = topic;
	}
	return topic;
}

void cluster_outage(struct cluster *cluster, int64_t until_us)
{
	cluster->down_until = until_us;
}

void cluster_deny(struct cluster *cluster, const char *topic, int64_t until_us)
{
	cluster_topic(cluster, topic)->denied_until = until_us;
}

void cluster_starve(struct cluster *cluster, int64_t until_us)
{
	cluster->starved_until = until_us;
}

void cluster_calm(struct cluster *cluster)
{
	cluster->down_until = cluster->starved_until = sim_now(cluster->sim);
	for (struct topic *topic = cluster->topics; topic != NULL; topic = topic->next)
		topic->denied_until = sim_now(cluster->sim);
}
