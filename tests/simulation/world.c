#include "world.h"

#include "choose.h"
#include "consumers.h"
#include "instance.h"
#include "record.h"

#include <string.h>

#define INSTANCES_MAX 3
/* Far more than any backoff, lease and parking together. */
#define PATIENCE (3600 * SECOND)
/* The database's clock never goes further wrong: what waits for it must come to its end within the patience. */
#define AHEAD_MAX (900 * SECOND)

enum fault_kind {
	FAULT_CRASH,
	FAULT_RESTART,
	FAULT_RELOAD,
	FAULT_CUT,
	FAULT_DB_RESTART,
	FAULT_SLOW,
	FAULT_REVOKE,
	FAULT_LEAP,
	FAULT_OUTAGE,
	FAULT_DENY,
	FAULT_STARVE,
	FAULT_REPLACE,
	FAULT_FLAP,
	FAULT_SUSPEND
};
#define FAULT_KINDS (FAULT_SUSPEND + 1)

struct world {
	struct sim sim;
	struct config_source config;
	struct config_header header;
	struct surroundings around;
	struct route *route;
	struct table *table;
	struct instance *instances[INSTANCES_MAX];
	int n_instances;
	bool faults[FAULT_KINDS];
	int64_t pace_us, end_us;
};

static void on_rows(void *context)
{
	struct world *world = context;

	for (int i = 0; i < world->n_instances; i++) {
		if (instance_runs(world->instances[i]))
			instance_wake(world->instances[i]);
	}
}

/* ---- faults ---- */

/* Often longer than its leases: then it meets its own rows again. */
static void suspend(struct world *world, struct instance *instance)
{
	struct sim *sim = &world->sim;
	int64_t lease_us = world->config.lease_us;

	instance_suspend(instance,
			 sim_now(sim) + (sim_chance(sim, 0.5) ? sim_between(sim, SECOND, 10 * SECOND)
							      : sim_between(sim, lease_us / 2, 2 * lease_us)));
}

static void inject_into(struct world *world, enum fault_kind kind, struct instance *instance)
{
	if (!instance_runs(instance))
		return;
	if (kind == FAULT_CRASH)
		instance_crash(instance);
	else if (kind == FAULT_RESTART)
		instance_restart(instance);
	else if (kind == FAULT_RELOAD)
		instance_reload(instance);
	else if (kind == FAULT_CUT)
		instance_cut(instance);
	else if (kind == FAULT_REPLACE)
		instance_replace(instance);
	else if (kind == FAULT_FLAP)
		instance_flap(instance);
	else
		suspend(world, instance);
}

/* Mostly by less than a lease, now and then by minutes. */
static void leap(struct world *world)
{
	struct sim *sim = &world->sim;
	int64_t most = sim_chance(sim, 0.8) ? world->config.lease_us : 600 * SECOND;
	int64_t by = sim_between(sim, -most, most), ahead = world->table->ahead_us + by;

	if (ahead < -AHEAD_MAX || ahead > AHEAD_MAX)
		by = -by;
	sim_trace(sim, "the database's clock leaps by %+.3f", (double)by / SECOND);
	fakedb_leap(world->around.db, by);
}

static void inject(struct world *world, enum fault_kind kind)
{
	static const char *const topics[] = {"orders", "payments", "stock", "dead"};
	struct sim *sim = &world->sim;
	struct fakedb *db = world->around.db;
	struct cluster *cluster = world->around.cluster;
	int64_t now = sim_now(sim);

	sim_trace(sim, "fault %d", (int)kind);
	if (kind == FAULT_DB_RESTART)
		fakedb_restart(db, now + sim_delay(sim, SECOND, 60 * SECOND));
	else if (kind == FAULT_SLOW)
		fakedb_slow(db, sim_between(sim, 100 * MS, 20 * SECOND),
			    now + sim_delay(sim, 5 * SECOND, 60 * SECOND));
	else if (kind == FAULT_REVOKE)
		fakedb_revoke(db, now + sim_delay(sim, SECOND, 30 * SECOND));
	else if (kind == FAULT_LEAP)
		leap(world);
	else if (kind == FAULT_OUTAGE)
		cluster_outage(cluster, now + sim_delay(sim, 5 * SECOND, 150 * SECOND));
	else if (kind == FAULT_DENY)
		cluster_deny(cluster, topics[sim_between(sim, 0, 3)],
			     now + sim_delay(sim, 5 * SECOND, 90 * SECOND));
	else if (kind == FAULT_STARVE)
		cluster_starve(cluster, now + sim_delay(sim, 2 * SECOND, 30 * SECOND));
	else
		inject_into(world, kind, world->instances[sim_between(sim, 0, world->n_instances - 1)]);
}

static void on_fault(void *context)
{
	struct world *world = context;
	struct sim *sim = &world->sim;
	enum fault_kind kind = (enum fault_kind)sim_between(sim, 0, FAULT_KINDS - 1);

	if (sim->calm)
		return;
	if (world->faults[kind])
		inject(world, kind);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, world->pace_us), on_fault, world);
}

/* ---- a history ---- */

/* Each history has its own mixture of faults; some have none. */
static void choose_faults(struct world *world, struct people_habits *habits)
{
	struct sim *sim = &world->sim;
	double share = (double)sim_between(sim, 0, 4) / 4;

	for (int i = 0; i < FAULT_KINDS; i++)
		world->faults[i] = sim_chance(sim, share);
	world->pace_us = sim_between(sim, 2, 40) * SECOND;
	world->end_us = sim_now(sim) + sim_between(sim, 20, 240) * SECOND;
	*habits = (struct people_habits){.rows = (int)sim_between(sim, 10, 120),
					 .keys = (int)sim_between(sim, 1, 12),
					 .stray = sim_chance(sim, 0.5) ? 0.1 : 1,
					 .until_us = sim_now(sim) + (world->end_us - sim_now(sim)) / 2,
					 .poison = sim_chance(sim, 0.15) ? 0.2 : 0.03,
					 .unrouted = 0.02,
					 .tombstone = 0.1,
					 .curse = sim_chance(sim, 0.3) ? 0.03 : 0,
					 .pace_us =
						 sim_between(sim, 1, 4) * (sim_chance(sim, 0.3) ? 50 * MS : SECOND),
					 .by_hand = sim_chance(sim, 0.5)};
	if (!sim_chance(sim, 0.1))
		return;
	/* One row kills whoever publishes it; nothing else goes wrong. */
	memset(world->faults, 0, sizeof(world->faults));
	habits->crashers = 1;
	habits->curse = 0;
	world->config.retry.max_attempts = sim_between(sim, 3, 6);
}

static void begin_sim(struct sim *sim, const struct world_options *options)
{
	sim->seed = options->seed;
	sim->broken = options->broken;
	sim->trace = options->trace;
	sim->record = options->record;
	sim_log_to(sim);
	sim->arena = arena_new();
	sim->agenda = agenda_new(SIM_START);
	backoff_seed(&sim->random, options->seed);
}

static void begin(struct world *world, const struct world_options *options)
{
	struct sim *sim = &world->sim;
	struct people_habits habits;
	struct err err;

	begin_sim(sim, options);
	choose_config(sim, &world->config, &world->header);
	choose_faults(world, &habits);
	record_config(sim, &world->config);
	world->route = route_new(&world->config, &err);
	world->table = table_new(sim);
	checker_new(sim, world->table);
	if (habits.crashers > 0)
		check_only_crashers(sim);
	world->around = (struct surroundings){
		.sim = sim,
		.config = &world->config,
		.db = fakedb_new(sim, route_templates(world->route), world->table),
		.cluster = cluster_new(sim, consumers_new(sim, world->table)),
		.people = people_new(sim, world->table, &habits, on_rows, world),
		.metrics = metrics_new(),
	};
	/* Mostly two. */
	world->n_instances = sim_chance(sim, 0.6) ? 2 : sim_chance(sim, 0.5) ? 3 : 1;
	for (int i = 0; i < world->n_instances; i++)
		world->instances[i] = instance_new(&world->around, i);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, world->pace_us), on_fault, world);
}

static bool failed(const struct world *world)
{
	return world->sim.rule[0] != '\0';
}

static void run_until(struct world *world, int64_t until_us)
{
	while (!failed(world) && agenda_turn(world->sim.agenda, until_us))
		;
}

static bool all_done(const struct world *world)
{
	return people_done(world->around.people) && consumers_done(world->around.cluster->consumers);
}

/* Everything is mended, and the rest must come to its end by itself; people only skip what has failed. */
static void run_out(struct world *world)
{
	struct sim *sim = &world->sim;
	int64_t limit = sim_now(sim) + PATIENCE;

	sim->calm = true;
	sim_trace(sim, "calm");
	fakedb_calm(world->around.db);
	cluster_calm(world->around.cluster);
	while (!failed(world) && !all_done(world) && sim_now(sim) < limit) {
		people_clear(world->around.people);
		run_until(world, sim_now(sim) + 5 * SECOND);
	}
	if (!all_done(world))
		sim_fail(sim, "starved", "rows are still open an hour after the last fault");
}

static bool all_stopped(const struct world *world)
{
	for (int i = 0; i < world->n_instances; i++) {
		if (!instance_stopped(world->instances[i]))
			return false;
	}
	return true;
}

/* All drain: nothing may be left in their hands. */
static void stop(struct world *world)
{
	struct sim *sim = &world->sim;
	int64_t limit = sim_now(sim) + 300 * SECOND;

	for (int i = 0; i < world->n_instances; i++)
		instance_stop(world->instances[i]);
	while (!failed(world) && sim_now(sim) < limit && !all_stopped(world))
		run_until(world, sim_now(sim) + SECOND);
	if (!all_stopped(world))
		sim_fail(sim, "drain", "somebody has not stopped after five minutes");
}

static void end(struct world *world)
{
	sim_log_to(NULL);
	for (int i = 0; i < world->n_instances; i++)
		instance_end(world->instances[i]);
	route_free(world->route);
	metrics_free(world->around.metrics);
	agenda_free(world->sim.agenda);
	arena_free(world->sim.arena);
}

struct world_result world_run(const struct world_options *options)
{
	struct world *world = MEM_NEW(struct world);
	struct world_result result = {0};

	begin(world, options);
	run_until(world, world->end_us);
	run_out(world);
	stop(world);
	if (!failed(world))
		check_end(&world->sim, world->around.metrics);
	result.passed = !failed(world);
	result.virtual_us = sim_now(&world->sim) - SIM_START;
	result.totals = check_totals(&world->sim);
	memcpy(result.rule, world->sim.rule, sizeof(result.rule));
	memcpy(result.failure, world->sim.failure, sizeof(result.failure));
	end(world);
	mem_free(world);
	return result;
}
