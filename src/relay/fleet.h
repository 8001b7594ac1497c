/* fleet: all sources of the process: those that run, by the present configuration, and those that a reload has retired,
 * until they have finished what they have in hand. It decides nothing about rows. */
#ifndef OUTBOXD_RELAY_FLEET_H
#define OUTBOXD_RELAY_FLEET_H

#include "config/config.h"
#include "core/metrics.h"
#include "relay/source.h"

struct ev_loop;
struct fleet;

/* Without sources. metrics is borrowed. */
struct fleet *fleet_new(struct ev_loop *loop, struct metrics *metrics);

/* Everything is freed, whatever it holds; what is outstanding is answered before. */
void fleet_free(struct fleet *fleet);

/* From now on exactly config's sources run. Those that it has as they were are not touched; a changed one begins anew, and the
 * old one drains beside it, for as long as its leases last: what both may do is bounded by the leases, as with two
 * instances. Pools, listeners and producers end with their last source. Not inside an answer. now_us: of source_step. */
void fleet_apply(struct fleet *fleet, struct config *config, int64_t now_us);

/* One pass of all sources; then those retired that have stopped are freed. now_us and the result: as of source_step. */
int64_t fleet_step(struct fleet *fleet, int64_t now_us);

/* All drain; at the deadline abandon what is in hand: source_abandon, and all messages are asked back. */
void fleet_drain(struct fleet *fleet);
void fleet_abandon(struct fleet *fleet);
bool fleet_stopped(const struct fleet *fleet);

/* The i-th source that runs, in the order of the configuration; NULL behind the last. */
struct source *fleet_source(const struct fleet *fleet, size_t i);

/* Rows that only their lease can end, were all to end now. */
size_t fleet_left_to_leases(const struct fleet *fleet);

/* Brings gauges up to date. wall_seconds: Unix time; now_us: of source_step. */
void fleet_refresh_metrics(struct fleet *fleet, double wall_seconds, int64_t now_us);

/* A line for each source, retired ones too. */
void fleet_log_status(const struct fleet *fleet);

#endif
