/* relay: the process: one loop, its signals, and the sources with what they share.
 * One producer for each distinct Kafka configuration, one pool and one listener for each distinct DSN. It decides
 * nothing about rows: before the loop blocks it steps each source. */
#ifndef OUTBOXD_RELAY_RELAY_H
#define OUTBOXD_RELAY_RELAY_H

#include "base/err.h"
#include "config/config.h"

/* Runs until drained after SIGTERM or SIGINT (returns 0; 1 when the deadline passed with work in flight). Returns -1 and
 * err when it could not start at all: the HTTP port cannot be had. */
int relay_run(const struct config *config, struct err *err);

#endif
