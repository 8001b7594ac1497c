/* cluster: the brokers that all producers of a history share, and their faults. */
#ifndef OUTBOXD_SIMULATION_CLUSTER_H
#define OUTBOXD_SIMULATION_CLUSTER_H

#include "sim.h"

#include "config/config.h"

struct topic {
	const char *name;
	int64_t denied_until;
	struct topic *next;
};

struct cluster {
	struct sim *sim;
	int64_t down_until, starved_until;
	bool slow; /* in this history many batches take about as long as a message may */
	struct topic *topics;
	struct consumers *consumers;
};

struct cluster *cluster_new(struct sim *sim, struct consumers *consumers);

/* No broker can be reached until then. */
void cluster_outage(struct cluster *cluster, int64_t until_us);

/* The topic is refused until then: a topic's fault. */
void cluster_deny(struct cluster *cluster, const char *topic, int64_t until_us);

/* The cluster refuses (too few replicas) until then: a cluster's fault, while it can be reached. */
void cluster_starve(struct cluster *cluster, int64_t until_us);

/* All of that is over. */
void cluster_calm(struct cluster *cluster);

/* A topic of that name, made when new. */
struct topic *cluster_topic(struct cluster *cluster, const char *name);

#endif
