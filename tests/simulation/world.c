#include "world.h"

#include "choose.h"
#include "fakedb.h"
#include "fakekafka.h"
#include "people.h"
#include "record.h"

#include <string.h>

#define INSTANCES 2
/* Far more than any backoff, lease and parking together. */
#define PATIENCE (3600 * SECOND)
/* Passes at one moment: beyond, the source spins. */
#define SPIN_MAX 2000

enum fault_kind {
	FAULT_CRASH,
	FAULT_RESTART,
	FAULT_CUT,
	FAULT_DB_RESTART,
	FAULT_SLOW,
	FAULT_REVOKE,
	FAULT_OUTAGE,
	FAULT_DENY,
	FAULT_STARVE,
	FAULT_REPLACE,
	FAULT_FLAP,
	FAULT_FREEZE
};
#define FAULT_KINDS (FAULT_FREEZE + 1)

struct instance {
	struct world *world;
	int number, starts;
	int64_t clock_offset_us; /* CLOCK_BOOTTIME counts from another moment on each host */
	struct start *start;	 /* NULL: not running */
	struct dbpool *pool;
	uint64_t turn;	 /* a wake-up that was planned before the last pass is void */
	int64_t last_us; /* of the last pass */
	int spins;
	bool stays_down;
};

struct world {
	struct sim sim;
	struct config_source config;
	struct config_header header;
	char owner[INSTANCES][24];
	struct route *route;
	struct table *table;
	struct fakedb *db;
	struct cluster *cluster;
	struct people *people;
	struct metrics *metrics;
	struct instance instances[INSTANCES];
	bool faults[FAULT_KINDS];
	int64_t pace_us, end_us;
	int n_instances; /* mostly two */
};

/* ---- an instance ---- */

struct wakeup {
	struct instance *instance;
	uint64_t turn;
};

static void pass(struct instance *instance);

static void on_wakeup(void *context)
{
	struct wakeup *wakeup = context;

	if (wakeup->turn == wakeup->instance->turn)
		pass(wakeup->instance);
}

static void plan(struct instance *instance, int64_t at_us)
{
	struct sim *sim = &instance->world->sim;
	struct wakeup *wakeup = arena_take(sim->arena, 1, sizeof(*wakeup));

	wakeup->instance = instance;
	wakeup->turn = ++instance->turn;
	agenda_add(sim->agenda, at_us, on_wakeup, wakeup);
}

static void on_restart(void *context);

static void leave(struct instance *instance, int64_t down_us)
{
	struct sim *sim = &instance->world->sim;
	struct start *start = instance->start;

	fakedb_leave(instance->pool);
	fakekafka_leave(start->kafka);
	if (start->careful != NULL)
		fakekafka_leave(start->careful);
	source_free(start->source);
	check_gone(start);
	instance->start = NULL;
	instance->turn++;
	if (!instance->stays_down)
		agenda_add(sim->agenda, sim_now(sim) + down_us, on_restart, instance);
}

static void crash(struct instance *instance)
{
	struct sim *sim = &instance->world->sim;

	sim_trace(sim, "%d.%d CRASHES", instance->number, instance->start->number);
	leave(instance, sim_delay(sim, SECOND, 60 * SECOND));
}

static void check_spin(struct instance *instance)
{
	struct sim *sim = &instance->world->sim;

	instance->spins = instance->last_us == sim_now(sim) ? instance->spins + 1 : 0;
	instance->last_us = sim_now(sim);
	if (instance->spins > SPIN_MAX)
		sim_fail(sim, "spins", "%d.%d passes again and again", instance->number, instance->start->number);
}

static void pass(struct instance *instance)
{
	struct sim *sim = &instance->world->sim;
	struct start *start = instance->start;
	int64_t again;

	if (start == NULL)
		return;
	if (start->frozen_us > sim_now(sim)) {
		plan(instance, start->frozen_us);
		return;
	}
	check_spin(instance);
	again = source_step(start->source, sim_now(sim) - instance->clock_offset_us);
	check_step(start, instance->world->metrics);
	if (fakekafka_killed(start->kafka) || (start->careful != NULL && fakekafka_killed(start->careful))) {
		crash(instance);
		return;
	}
	if (source_get_state(start->source) == SOURCE_STOPPED) {
		check_stopped(start);
		leave(instance, sim_delay(sim, SECOND, 20 * SECOND));
	} else if (again != INT64_MAX) {
		again += instance->clock_offset_us;
		plan(instance, again > sim_now(sim) ? again : sim_now(sim));
	}
}

static void step(void *context)
{
	struct instance *instance = context;
	struct sim *sim = &instance->world->sim;

	/* Now and then the loop is busy elsewhere. */
	if (sim_chance(sim, 0.1))
		plan(instance, sim_now(sim) + sim_between(sim, 0, 5 * MS));
	else
		pass(instance);
}

static void start_producers(struct world *world, struct start *start)
{
	bool gapless = source_wants_gapless(&world->config);

	start->kafka =
		fakekafka_new(world->cluster, start, gapless ? KAFKA_GAPLESS : KAFKA_PLAIN, source_on_kafka_answer);
	if (gapless)
		start->careful = fakekafka_new(world->cluster, start, KAFKA_CAREFUL, source_on_kafka_answer);
}

static void on_restart(void *context)
{
	struct instance *instance = context;
	struct world *world = instance->world;
	struct sim *sim = &world->sim;
	struct start *start;
	struct source_env env = {.metrics = world->metrics, .owner = world->owner[instance->number]};

	if (instance->start != NULL || instance->stays_down)
		return;
	start = arena_take(sim->arena, 1, sizeof(*start));
	start->sim = sim;
	start->config = &world->config;
	start->instance = instance->number;
	start->number = ++instance->starts;
	start->step = step;
	start->context = instance;
	instance->start = start;
	instance->pool = fakedb_pool(world->db, start, (int)world->config.postgres.connections);
	start_producers(world, start);
	env.pool = instance->pool;
	env.kafka = start->kafka;
	env.careful = start->careful;
	env.seed = backoff_next(&sim->random);
	start->source = source_new(&world->config, &env);
	sim_trace(sim, "%d.%d starts", instance->number, start->number);
	step(instance);
}

static void on_rows(void *context)
{
	struct world *world = context;

	for (int i = 0; i < INSTANCES; i++) {
		if (world->instances[i].start == NULL ||
		    world->instances[i].start->frozen_us > sim_now(&world->sim))
			continue;
		source_wake(world->instances[i].start->source);
		step(&world->instances[i]);
	}
}

/* ---- draining ---- */

struct deadline {
	struct instance *instance;
	struct start *start;
};

static void on_exit_anyway(void *context)
{
	struct deadline *deadline = context;

	if (deadline->instance->start == deadline->start)
		leave(deadline->instance, SECOND);
}

/* One last settle, then it ends whatever is left. */
static void on_deadline(void *context)
{
	struct deadline *deadline = context;
	struct instance *instance = deadline->instance;
	struct sim *sim = &instance->world->sim;

	if (instance->start != deadline->start)
		return;
	if (deadline->start->frozen_us > sim_now(sim)) {
		agenda_add(sim->agenda, deadline->start->frozen_us, on_deadline, deadline);
		return;
	}
	sim_trace(sim, "%d.%d drains no longer", instance->number, deadline->start->number);
	deadline->start->abandoned = true;
	source_abandon(deadline->start->source);
	kafka_purge(deadline->start->kafka, true);
	if (deadline->start->careful != NULL)
		kafka_purge(deadline->start->careful, true);
	agenda_add(sim->agenda, sim_now(sim) + 2 * SECOND, on_exit_anyway, deadline);
	step(instance);
}

static void drain(struct instance *instance)
{
	struct sim *sim = &instance->world->sim;
	struct deadline *deadline = arena_take(sim->arena, 1, sizeof(*deadline));

	*deadline = (struct deadline){instance, instance->start};
	source_drain(instance->start->source);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, SECOND, 60 * SECOND), on_deadline, deadline);
}

/* ---- faults ---- */

static void freeze(struct world *world, struct start *start)
{
	struct sim *sim = &world->sim;

	/* Often longer than its leases: then it meets its own rows again. */
	start->frozen_us = sim_now(sim) + (sim_chance(sim, 0.5) ? sim_between(sim, SECOND, 10 * SECOND)
								: sim_between(sim, world->config.lease_us / 2,
									      2 * world->config.lease_us));
	check_trouble(start, start->frozen_us + 20 * SECOND);
}

static void inject_into(struct world *world, enum fault_kind kind, struct instance *instance)
{
	struct sim *sim = &world->sim;

	if (instance->start == NULL || instance->start->frozen_us > sim_now(sim))
		return;
	if (kind == FAULT_CRASH)
		crash(instance);
	else if (kind == FAULT_RESTART)
		drain(instance);
	else if (kind == FAULT_CUT)
		fakedb_cut(instance->pool);
	else if (kind == FAULT_REPLACE)
		fakekafka_replace(instance->start->careful != NULL && sim_chance(sim, 0.3)
					  ? instance->start->careful
					  : instance->start->kafka);
	else if (kind == FAULT_FLAP)
		fakekafka_flap(instance->start->kafka, sim_now(sim) + sim_delay(sim, SECOND, 20 * SECOND));
	else
		freeze(world, instance->start);
	step(instance);
}

static void inject(struct world *world, enum fault_kind kind)
{
	static const char *const topics[] = {"orders", "payments", "stock"};
	struct sim *sim = &world->sim;
	int64_t now = sim_now(sim);

	sim_trace(sim, "fault %d", (int)kind);
	if (kind == FAULT_DB_RESTART)
		fakedb_restart(world->db, now + sim_delay(sim, SECOND, 60 * SECOND));
	else if (kind == FAULT_SLOW)
		fakedb_slow(world->db, sim_between(sim, 100 * MS, 20 * SECOND),
			    now + sim_delay(sim, 5 * SECOND, 60 * SECOND));
	else if (kind == FAULT_REVOKE)
		fakedb_revoke(world->db, now + sim_delay(sim, SECOND, 30 * SECOND));
	else if (kind == FAULT_OUTAGE)
		cluster_outage(world->cluster, now + sim_delay(sim, 5 * SECOND, 150 * SECOND));
	else if (kind == FAULT_DENY)
		cluster_deny(world->cluster, topics[sim_between(sim, 0, 2)],
			     now + sim_delay(sim, 5 * SECOND, 90 * SECOND));
	else if (kind == FAULT_STARVE)
		cluster_starve(world->cluster, now + sim_delay(sim, 2 * SECOND, 30 * SECOND));
	else
		inject_into(world, kind, &world->instances[sim_between(sim, 0, world->n_instances - 1)]);
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

static void begin(struct world *world, const struct world_options *options)
{
	struct sim *sim = &world->sim;
	struct people_habits habits;
	struct err err;

	sim->seed = options->seed;
	sim->broken = options->broken;
	sim->trace = options->trace;
	sim->record = options->record;
	sim_log_to(sim);
	sim->arena = arena_new();
	sim->agenda = agenda_new(SIM_START);
	backoff_seed(&sim->random, options->seed);
	choose_config(sim, &world->config, &world->header);
	choose_faults(world, &habits);
	record_config(sim, &world->config);
	world->metrics = metrics_new();
	world->route = route_new(&world->config, &err);
	world->table = table_new(sim);
	checker_new(sim, &world->config, world->table);
	if (habits.crashers > 0)
		check_only_crashers(sim);
	world->db = fakedb_new(sim, &world->config, route_templates(world->route), world->table);
	world->cluster = cluster_new(sim, &world->config);
	world->people = people_new(sim, &world->config, world->table, &habits, on_rows, world);
	world->n_instances = sim_chance(sim, 0.8) ? INSTANCES : 1;
	for (int i = 0; i < world->n_instances; i++) {
		world->instances[i] = (struct instance){.world = world, .number = i};
		world->instances[i].clock_offset_us = SIM_START - sim_between(sim, SECOND, 1000 * SECOND);
		snprintf(world->owner[i], sizeof(world->owner[i]), "host-%d", i);
		agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, SECOND), on_restart,
			   &world->instances[i]);
	}
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

/* Everything is mended, and the rest must come to its end by itself; people only skip what has failed. */
static void run_out(struct world *world)
{
	struct sim *sim = &world->sim;
	int64_t limit = sim_now(sim) + PATIENCE;

	sim->calm = true;
	sim_trace(sim, "calm");
	fakedb_calm(world->db);
	cluster_calm(world->cluster);
	while (!failed(world) && !people_done(world->people) && sim_now(sim) < limit) {
		people_clear(world->people);
		run_until(world, sim_now(sim) + 5 * SECOND);
	}
	if (!people_done(world->people))
		sim_fail(sim, "starved", "rows are still open an hour after the last fault");
}

/* Both drain: nothing may be left in their hands. */
static void stop(struct world *world)
{
	struct sim *sim = &world->sim;
	int64_t limit = sim_now(sim) + 300 * SECOND;

	for (int i = 0; i < INSTANCES; i++) {
		world->instances[i].stays_down = true;
		if (world->instances[i].start == NULL)
			continue;
		source_drain(world->instances[i].start->source);
		step(&world->instances[i]);
	}
	while (!failed(world) && sim_now(sim) < limit &&
	       (world->instances[0].start != NULL || world->instances[1].start != NULL))
		run_until(world, sim_now(sim) + SECOND);
	for (int i = 0; i < INSTANCES; i++) {
		if (world->instances[i].start != NULL)
			sim_fail(sim, "drain", "%d has not stopped after five minutes", i);
	}
}

static void end(struct world *world)
{
	sim_log_to(NULL);
	for (int i = 0; i < INSTANCES; i++) {
		world->instances[i].stays_down = true;
		if (world->instances[i].start != NULL)
			leave(&world->instances[i], 0);
	}
	route_free(world->route);
	metrics_free(world->metrics);
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
		check_end(&world->sim, world->metrics);
	result.passed = !failed(world);
	result.virtual_us = sim_now(&world->sim) - SIM_START;
	result.totals = check_totals(&world->sim);
	memcpy(result.rule, world->sim.rule, sizeof(result.rule));
	memcpy(result.failure, world->sim.failure, sizeof(result.failure));
	end(world);
	mem_free(world);
	return result;
}
