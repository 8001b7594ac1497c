/* fakekafka: the other side of io/kafka.h: one cluster, a producer for each start, and their faults. */
#ifndef OUTBOXD_SIMULATION_FAKEKAFKA_H
#define OUTBOXD_SIMULATION_FAKEKAFKA_H

#include "checker.h"

struct cluster;

struct cluster *cluster_new(struct sim *sim, const struct config_source *config);

/* No broker can be reached until then. */
void cluster_outage(struct cluster *cluster, int64_t until_us);

/* The topic is refused until then: a topic's fault. */
void cluster_deny(struct cluster *cluster, const char *topic, int64_t until_us);

/* The cluster refuses (too few replicas) until then: a cluster's fault, while it can be reached. */
void cluster_starve(struct cluster *cluster, int64_t until_us);

/* All of that is over. */
void cluster_calm(struct cluster *cluster);

/* A producer for one start; freed with the history. */
struct kafka *fakekafka_new(struct cluster *cluster, struct start *start, kafka_answer_fn *on_answer);

/* The producer is replaced: everything is answered first. */
void fakekafka_replace(struct kafka *kafka);

/* The client loses sight of the brokers for a moment, though nothing is wrong. */
void fakekafka_flap(struct kafka *kafka, int64_t until_us);

/* The process is gone: no answer will be given; what is on its way to the broker may arrive. */
void fakekafka_leave(struct kafka *kafka);

/* A row that kills its process was handed over. */
bool fakekafka_killed(const struct kafka *kafka);

#endif
