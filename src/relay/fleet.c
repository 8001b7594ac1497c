#include "relay/fleet.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/diff.h"
#include "io/process.h"
#include "relay/shared.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct member {
	struct source *source;
	struct config *config; /* a share: the source borrows from it */
	struct shared_database *database;
	struct shared_broker *broker;
	uint64_t replacements[KAFKA_REPLACEMENTS]; /* of its producers, as far as they are in the metrics */
	int64_t leave_us;			   /* a retired one leaves then, finished or not */
};

struct members {
	struct member **all;
	size_t n;
};

struct fleet {
	struct metrics *metrics;
	struct shared shared;
	struct members running, retired;
	size_t first; /* the one stepped first in the next pass: everyone gets a turn at a free connection */
	size_t left_to_leases; /* by those that are gone */
	char owner[260];       /* this process's name */
};

struct fleet *fleet_new(struct ev_loop *loop, struct metrics *metrics)
{
	struct fleet *fleet = MEM_NEW(struct fleet);
	char host[200] = "localhost";

	fleet->metrics = metrics;
	shared_init(&fleet->shared, loop);
	gethostname(host, sizeof(host) - 1);
	snprintf(fleet->owner, sizeof(fleet->owner), "%s-%ld", host, (long)getpid());
	return fleet;
}

/* ---- the producers' replacements ---- */

/* A series goes on with the source of the same name, whatever its producer counts. */
static void count_replacements(struct fleet *fleet, struct member *member)
{
	uint64_t now;
	int i;

	for (i = 0; i < KAFKA_REPLACEMENTS; i++) {
		now = shared_replacements(member->broker, i);
		metrics_series(fleet->metrics, METRIC_PRODUCER_REPLACEMENTS, source_config(member->source)->name,
			       kafka_replacement_names[i])
			->value += (double)(now - member->replacements[i]);
		member->replacements[i] = now;
	}
}

/* Does its successor count what happens to the producer that both have? */
static bool is_counted_elsewhere(const struct fleet *fleet, const struct member *retired)
{
	const struct member *running;
	size_t i;

	for (i = 0; i < fleet->running.n; i++) {
		running = fleet->running.all[i];
		if (running->broker == retired->broker &&
		    strcmp(source_config(running->source)->name, source_config(retired->source)->name) == 0)
			return true;
	}
	return false;
}

/* ---- members ---- */

/* Without random bytes the time and the pid alone have to tell starts apart. */
static uint64_t make_seed(void)
{
	uint64_t seed = (uint64_t)getpid() ^ (uint64_t)process_boottime_us();
	ssize_t got = getrandom(&seed, sizeof(seed), 0);

	(void)got;
	return seed;
}

static struct member *start_member(struct fleet *fleet, struct config *config, const struct config_source *source)
{
	struct member *member = MEM_NEW(struct member);
	struct source_env env = {.metrics = fleet->metrics, .owner = fleet->owner};
	int i;

	member->config = config_share(config);
	member->database = shared_join_database(&fleet->shared, config, source);
	member->broker = shared_join_broker(&fleet->shared, config, source);
	member->leave_us = INT64_MAX;
	for (i = 0; i < KAFKA_REPLACEMENTS; i++)
		member->replacements[i] = shared_replacements(member->broker, i);
	env.pool = member->database->pool;
	env.kafka = member->broker->kafka;
	env.careful = member->broker->careful;
	env.single = member->broker->single;
	env.seed = make_seed();
	member->source = source_new(source, &env);
	shared_listen(&fleet->shared, member->database, member->source);
	return member;
}

static void add_member(struct members *members, struct member *member)
{
	members->all = mem_resize(members->all, members->n + 1, sizeof(struct member *));
	members->all[members->n++] = member;
}

/* When its leases are over, nothing that it could still write is worth waiting for. */
static void retire(struct fleet *fleet, struct member *member, int64_t now_us)
{
	count_replacements(fleet, member);
	member->leave_us = now_us + source_config(member->source)->lease_us;
	shared_unlisten(member->database, member->source);
	metrics_drop_gauges(fleet->metrics, source_config(member->source)->name);
	source_drain(member->source);
	add_member(&fleet->retired, member);
	CRASH_POINT(SOURCE_RETIRED);
}

static void free_member(struct member *member)
{
	source_free(member->source);
	config_free(member->config);
	mem_free(member);
}

static void bury(struct fleet *fleet, struct member *member)
{
	if (!is_counted_elsewhere(fleet, member))
		count_replacements(fleet, member);
	fleet->left_to_leases += source_left_to_leases(member->source);
	shared_leave_broker(&fleet->shared, member->broker);
	shared_leave_database(&fleet->shared, member->database);
	free_member(member);
	CRASH_POINT(SOURCE_BURIED);
}

static void bury_stopped(struct fleet *fleet)
{
	struct members *retired = &fleet->retired;
	size_t i, kept = 0;

	for (i = 0; i < retired->n; i++) {
		if (source_get_state(retired->all[i]->source) == SOURCE_STOPPED)
			bury(fleet, retired->all[i]);
		else
			retired->all[kept++] = retired->all[i];
	}
	retired->n = kept;
}

void fleet_free(struct fleet *fleet)
{
	size_t i;

	/* The last answers still find the rows. */
	shared_free(&fleet->shared);
	for (i = 0; i < fleet->running.n; i++)
		free_member(fleet->running.all[i]);
	for (i = 0; i < fleet->retired.n; i++)
		free_member(fleet->retired.all[i]);
	mem_free(fleet->running.all);
	mem_free(fleet->retired.all);
	mem_free(fleet);
}

/* ---- a configuration ---- */

static struct member *take_unchanged(struct members *members, const struct config_source *source)
{
	struct member *member;
	size_t i;

	for (i = 0; i < members->n; i++) {
		member = members->all[i];
		if (member == NULL || !diff_same_source(source_config(member->source), source))
			continue;
		members->all[i] = NULL;
		return member;
	}
	return NULL;
}

void fleet_apply(struct fleet *fleet, struct config *config, int64_t now_us)
{
	struct members before = fleet->running, after = {0};
	struct member *member;
	size_t i;

	for (i = 0; i < config->n_sources; i++) {
		member = take_unchanged(&before, &config->sources[i]);
		add_member(&after, member != NULL ? member : start_member(fleet, config, &config->sources[i]));
	}
	fleet->running = after;
	for (i = 0; i < before.n; i++)
		if (before.all[i] != NULL)
			retire(fleet, before.all[i], now_us);
	mem_free(before.all);
}

/* ---- the pass ---- */

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t step_retired(struct member *member, int64_t now_us)
{
	int64_t again;

	if (now_us >= member->leave_us)
		source_leave(member->source);
	again = source_step(member->source, now_us);
	return now_us < member->leave_us ? earlier(again, member->leave_us) : again;
}

int64_t fleet_step(struct fleet *fleet, int64_t now_us)
{
	const struct members *running = &fleet->running, *retired = &fleet->retired;
	int64_t again = INT64_MAX;
	size_t i;

	/* Who finishes goes first. */
	for (i = 0; i < retired->n; i++)
		again = earlier(again, step_retired(retired->all[i], now_us));
	for (i = 0; i < running->n; i++)
		again = earlier(again, source_step(running->all[(fleet->first + i) % running->n]->source, now_us));
	fleet->first = (fleet->first + 1) % running->n;
	bury_stopped(fleet);
	return again;
}

/* ---- draining ---- */

void fleet_drain(struct fleet *fleet)
{
	size_t i;

	for (i = 0; i < fleet->running.n; i++)
		source_drain(fleet->running.all[i]->source);
}

void fleet_abandon(struct fleet *fleet)
{
	size_t i;

	for (i = 0; i < fleet->running.n; i++)
		source_abandon(fleet->running.all[i]->source);
	for (i = 0; i < fleet->retired.n; i++)
		source_abandon(fleet->retired.all[i]->source);
	shared_purge(&fleet->shared);
}

bool fleet_stopped(const struct fleet *fleet)
{
	size_t i;

	for (i = 0; i < fleet->running.n; i++)
		if (source_get_state(fleet->running.all[i]->source) != SOURCE_STOPPED)
			return false;
	return fleet->retired.n == 0;
}

/* ---- what is told of it ---- */

struct source *fleet_source(const struct fleet *fleet, size_t i)
{
	return i < fleet->running.n ? fleet->running.all[i]->source : NULL;
}

static size_t sum_left(const struct members *members)
{
	size_t i, sum = 0;

	for (i = 0; i < members->n; i++)
		sum += source_left_to_leases(members->all[i]->source);
	return sum;
}

size_t fleet_left_to_leases(const struct fleet *fleet)
{
	return fleet->left_to_leases + sum_left(&fleet->running) + sum_left(&fleet->retired);
}

void fleet_refresh_metrics(struct fleet *fleet, double wall_seconds, int64_t now_us)
{
	struct member *member;
	const char *name;
	int64_t counted_us;
	size_t i;

	for (i = 0; i < fleet->running.n; i++) {
		member = fleet->running.all[i];
		name = source_config(member->source)->name;
		counted_us = source_counted_us(member->source);
		source_update_metrics(member->source);
		count_replacements(fleet, member);
		if (counted_us != 0)
			metrics_series(fleet->metrics, METRIC_ROWS_REFRESHED, name, NULL)->value =
				wall_seconds - (double)(now_us - counted_us) / 1e6;
		metrics_series(fleet->metrics, METRIC_NOTIFY_ACTIVE, name, NULL)->value =
			shared_listens(member->database, member->source);
	}
	for (i = 0; i < fleet->retired.n; i++)
		if (!is_counted_elsewhere(fleet, fleet->retired.all[i]))
			count_replacements(fleet, fleet->retired.all[i]);
}

static int64_t settled(const struct fleet *fleet, const char *name, const char *outcome)
{
	return (int64_t)metrics_series(fleet->metrics, METRIC_SETTLED, name, outcome)->value;
}

static void log_status(const struct fleet *fleet, const struct source *source)
{
	const char *name = source_config(source)->name;

	LOG(LOG_INFO, "status", log_str("source", name),
	    log_str("state", source_state_name(source_get_state(source))),
	    log_int("sent", settled(fleet, name, "sent")), log_int("awaiting", settled(fleet, name, "awaiting")),
	    log_int("retry", settled(fleet, name, "retry")), log_int("failed", settled(fleet, name, "failed")),
	    log_int("released", settled(fleet, name, "released")), log_int("held", (int64_t)source_held(source)),
	    log_int("in_flight", (int64_t)source_in_flight(source)));
}

void fleet_log_status(const struct fleet *fleet)
{
	size_t i;

	for (i = 0; i < fleet->running.n; i++)
		log_status(fleet, fleet->running.all[i]->source);
	for (i = 0; i < fleet->retired.n; i++)
		log_status(fleet, fleet->retired.all[i]->source);
}
