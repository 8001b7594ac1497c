/* fakekafka: the other side of io/kafka.h: the producers of each process, and their faults. */
#ifndef OUTBOXD_SIMULATION_FAKEKAFKA_H
#define OUTBOXD_SIMULATION_FAKEKAFKA_H

#include "checker.h"
#include "cluster.h"

/* A producer for one process; freed with the history. */
struct kafka *fakekafka_new(struct cluster *cluster, struct process *process, enum kafka_kind kind,
			    int64_t message_timeout_us, kafka_answer_fn *on_answer);

/* Whose it is, and of which kind. */
struct process *fakekafka_process(const struct kafka *kafka);
enum kafka_kind fakekafka_kind(const struct kafka *kafka);

/* The producer is replaced: everything is answered first. */
void fakekafka_replace(struct kafka *kafka);

/* The client loses sight of the brokers for a moment, though nothing is wrong. */
void fakekafka_flap(struct kafka *kafka, int64_t until_us);

/* The process is gone: no answer will be given; what is on its way to the broker may arrive. */
void fakekafka_leave(struct kafka *kafka);

/* A row that kills its process was handed over. */
bool fakekafka_killed(const struct kafka *kafka);

#endif
