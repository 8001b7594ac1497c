/* relay: the process: one loop, its signals, its pages and its supervisor. It decides nothing about rows: before the loop
 * blocks it steps all sources (fleet.h). */
#ifndef OUTBOXD_RELAY_RELAY_H
#define OUTBOXD_RELAY_RELAY_H

#include "base/err.h"
#include "config/config.h"

/* config is what it begins with: SIGHUP reads the file again. Runs until drained after SIGTERM or SIGINT (returns 0; 1 when the deadline passed with work in flight). Returns -1 and
 * err when it could not start at all: the HTTP port cannot be had. */
int relay_run(struct config *config, struct err *err);

#endif
