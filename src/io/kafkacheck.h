/* kafkacheck: asks the brokers once, for `outboxd check`: are they there, and what of these topics? It waits, and makes
 * nothing: no topic, no record. */
#ifndef OUTBOXD_IO_KAFKACHECK_H
#define OUTBOXD_IO_KAFKACHECK_H

#include "core/checkkafka.h"

/* Connects as the producer would, for at most timeout_ms, then asks for topics (their names are set, the rest is filled in), each
 * question for at most as long again. Answers that do not come leave `told` false. */
void kafkacheck_ask(const struct config_kafka *config, int timeout_ms, struct check_brokers *brokers,
		    struct check_topic *topics, size_t n_topics);

#endif
