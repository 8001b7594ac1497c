#include "instance.h"

#include "choose.h"
#include "fakekafka.h"
#include "peek.h"
#include "record.h"

/* Passes at one moment: beyond, the source spins. */
#define SPIN_MAX 2000

struct instance {
	const struct surroundings *around;
	struct sim *sim;
	int number, starts;
	char owner[24];
	int64_t clock_us;	   /* CLOCK_BOOTTIME counts from another moment on each host, */
	int64_t parts_per_million; /* and a little faster or slower */
	struct process *process;   /* NULL: none runs */
	uint64_t turn;		   /* a wake-up that was planned before the last pass is void */
	int64_t last_us;	   /* of the last pass */
	int spins;
	bool stays_down;
};

static int64_t clock_of(const struct instance *instance)
{
	int64_t elapsed = sim_now(instance->sim) - SIM_START;

	return instance->clock_us + elapsed + elapsed * instance->parts_per_million / 1000000;
}

/* ---- a pass ---- */

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
	struct sim *sim = instance->sim;
	struct wakeup *wakeup = arena_take(sim->arena, 1, sizeof(*wakeup));

	wakeup->instance = instance;
	wakeup->turn = ++instance->turn;
	agenda_add(sim->agenda, at_us, on_wakeup, wakeup);
}

static void on_start(void *context);

static void leave(struct instance *instance, int64_t down_us)
{
	struct process *process = instance->process;

	fakedb_leave(process->pool);
	for (struct producers *each = process->producers; each != NULL; each = each->next) {
		for (int i = 0; i < each->n; i++)
			fakekafka_leave(each->all[i]);
	}
	for (struct start *start = process->starts; start != NULL; start = start->next) {
		source_free(start->source);
		check_gone(start);
	}
	instance->process = NULL;
	instance->turn++;
	if (!instance->stays_down)
		agenda_add(instance->sim->agenda, sim_now(instance->sim) + down_us, on_start, instance);
}

static bool was_killed(const struct process *process)
{
	for (const struct producers *each = process->producers; each != NULL; each = each->next) {
		for (int i = 0; i < each->n; i++) {
			if (fakekafka_killed(each->all[i]))
				return true;
		}
	}
	return false;
}

static void check_spin(struct instance *instance)
{
	struct sim *sim = instance->sim;

	instance->spins = instance->last_us == sim_now(sim) ? instance->spins + 1 : 0;
	instance->last_us = sim_now(sim);
	if (instance->spins > SPIN_MAX)
		sim_fail(sim, "spins", "instance %d passes again and again", instance->number);
}

/* Sources that have drained go, whether the process ends or goes on with others. */
static void free_stopped(struct process *process)
{
	struct start **at = &process->starts, *start;

	while ((start = *at) != NULL) {
		if (source_get_state(start->source) != SOURCE_STOPPED) {
			at = &start->next;
			continue;
		}
		sim_trace(process->sim, "%d.%d has stopped", start->instance, start->number);
		check_stopped(start);
		*at = start->next;
		source_free(start->source);
		check_gone(start);
	}
}

/* As relay/fleet.c has it. */
static void let_leave(struct start *start, int64_t now_us)
{
	if (start->leave_us == 0 || now_us < start->leave_us)
		return;
	start->leaving = start->abandoned = true;
	source_leave(start->source);
}

static int64_t step_sources(struct instance *instance)
{
	struct process *process = instance->process;
	int64_t again = INT64_MAX, each;

	for (struct start *start = process->starts; start != NULL; start = start->next) {
		let_leave(start, clock_of(instance));
		process->asking = start;
		each = source_step(start->source, clock_of(instance));
		process->asking = NULL;
		check_step(start, instance->around->metrics);
		again = each < again ? each : again;
		if (start->leave_us != 0 && !start->leaving && start->leave_us < again)
			again = start->leave_us;
	}
	return again;
}

static void plan_next(struct instance *instance, int64_t again)
{
	int64_t wait = again - clock_of(instance);

	if (again == INT64_MAX)
		return;
	wait = wait <= 0 ? 0 : wait - wait * instance->parts_per_million / 1000000 + 1;
	plan(instance, sim_now(instance->sim) + wait);
}

static void pass(struct instance *instance)
{
	struct process *process = instance->process;
	int64_t again;

	if (process == NULL)
		return;
	if (process_frozen(process)) {
		plan(instance, process->frozen_us);
		return;
	}
	check_spin(instance);
	again = step_sources(instance);
	if (was_killed(process)) {
		instance_crash(instance);
		return;
	}
	free_stopped(process);
	if (process->starts == NULL)
		leave(instance, sim_delay(instance->sim, SECOND, 20 * SECOND));
	else
		plan_next(instance, again);
}

static void step(void *context)
{
	struct instance *instance = context;
	struct sim *sim = instance->sim;

	/* Now and then the loop is busy elsewhere. */
	if (sim_chance(sim, 0.1))
		plan(instance, sim_now(sim) + sim_between(sim, 0, 5 * MS));
	else
		pass(instance);
}

/* ---- sources of a process ---- */

static struct kafka *add_producer(struct producers *producers, struct process *process, struct cluster *cluster,
				  const struct config_source *config, enum kafka_kind kind)
{
	return producers->all[producers->n++] = fakekafka_new(
		       cluster, process, kind, config->kafka.message_timeout_us, source_on_kafka_answer);
}

static struct producers *share_producers(struct process *process, struct cluster *cluster,
					 const struct config_source *config)
{
	struct producers *producers = process->producers;
	bool gapless = source_wants_gapless(config);
	int64_t timeout_us = config->kafka.message_timeout_us;

	while (producers != NULL && (producers->gapless != gapless || producers->message_timeout_us != timeout_us))
		producers = producers->next;
	if (producers != NULL)
		return producers;
	producers = arena_take(process->sim->arena, 1, sizeof(*producers));
	producers->gapless = gapless;
	producers->message_timeout_us = timeout_us;
	producers->kafka = add_producer(producers, process, cluster, config, gapless ? KAFKA_GAPLESS : KAFKA_PLAIN);
	producers->single = add_producer(producers, process, cluster, config, KAFKA_SINGLE);
	if (gapless)
		producers->careful = add_producer(producers, process, cluster, config, KAFKA_CAREFUL);
	producers->next = process->producers;
	process->producers = producers;
	return producers;
}

static void start_source(struct instance *instance, const struct config_source *config)
{
	struct process *process = instance->process;
	const struct producers *producers = share_producers(process, instance->around->cluster, config);
	struct start *start = arena_take(process->sim->arena, 1, sizeof(*start));
	struct source_env env = {.pool = process->pool,
				 .kafka = producers->kafka,
				 .careful = producers->careful,
				 .single = producers->single,
				 .metrics = instance->around->metrics,
				 .seed = backoff_next(&process->sim->random),
				 .owner = instance->owner};

	start->sim = process->sim;
	start->process = process;
	start->config = config;
	start->instance = instance->number;
	start->number = ++instance->starts;
	start->kafka = producers->kafka;
	start->next = process->starts;
	start->source = source_new(config, &env);
	if (start->number % 2 == 0)
		peek_limit_topics(start->source, 2);
	process->starts = start;
	check_started(start);
	if (config->on_failed == ON_FAILED_BLOCK)
		people_note_blocking(instance->around->people);
	sim_trace(process->sim, "%d.%d starts", start->instance, start->number);
}

static void drain_sources(const struct process *process)
{
	for (const struct start *start = process->starts; start != NULL; start = start->next)
		source_drain(start->source);
}

static void retire_sources(const struct process *process, int64_t now_us)
{
	drain_sources(process);
	for (struct start *start = process->starts; start != NULL; start = start->next)
		if (start->leave_us == 0)
			start->leave_us = now_us + start->config->lease_us;
}

static void on_start(void *context)
{
	struct instance *instance = context;
	struct sim *sim = instance->sim;
	struct process *process;

	if (instance->process != NULL || instance->stays_down)
		return;
	process = arena_take(sim->arena, 1, sizeof(*process));
	process->sim = sim;
	process->instance = instance->number;
	process->step = step;
	process->context = instance;
	process->pool =
		fakedb_pool(instance->around->db, process, (int)instance->around->config->postgres.connections);
	instance->process = process;
	start_source(instance, instance->around->config);
	step(instance);
}

struct instance *instance_new(const struct surroundings *surroundings, int number)
{
	struct sim *sim = surroundings->sim;
	struct instance *instance = arena_take(sim->arena, 1, sizeof(*instance));

	instance->around = surroundings;
	instance->sim = sim;
	instance->number = number;
	instance->clock_us = sim_between(sim, SECOND, 1000 * SECOND);
	instance->parts_per_million = sim_between(sim, -200, 200);
	snprintf(instance->owner, sizeof(instance->owner), "host-%d", number);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, 0, SECOND), on_start, instance);
	return instance;
}

/* ---- what happens to it ---- */

bool instance_runs(const struct instance *instance)
{
	return instance->process != NULL && !process_frozen(instance->process);
}

void instance_wake(struct instance *instance)
{
	for (struct start *start = instance->process->starts; start != NULL; start = start->next)
		source_wake(start->source);
	step(instance);
}

void instance_crash(struct instance *instance)
{
	sim_trace(instance->sim, "%d CRASHES", instance->number);
	leave(instance, sim_delay(instance->sim, SECOND, 60 * SECOND));
}

struct deadline {
	struct instance *instance;
	struct process *process;
};

static void on_exit_anyway(void *context)
{
	struct deadline *deadline = context;

	if (deadline->instance->process == deadline->process)
		leave(deadline->instance, SECOND);
}

static void abandon(struct process *process)
{
	for (struct start *start = process->starts; start != NULL; start = start->next) {
		start->abandoned = true;
		source_abandon(start->source);
	}
	for (struct producers *each = process->producers; each != NULL; each = each->next) {
		for (int i = 0; i < each->n; i++)
			kafka_purge(each->all[i], true);
	}
}

/* One last settle, then it ends whatever is left. */
static void on_deadline(void *context)
{
	struct deadline *deadline = context;
	struct instance *instance = deadline->instance;
	struct sim *sim = instance->sim;

	if (instance->process != deadline->process)
		return;
	if (process_frozen(deadline->process)) {
		agenda_add(sim->agenda, deadline->process->frozen_us, on_deadline, deadline);
		return;
	}
	sim_trace(sim, "%d drains no longer", instance->number);
	abandon(deadline->process);
	agenda_add(sim->agenda, sim_now(sim) + 2 * SECOND, on_exit_anyway, deadline);
	step(instance);
}

void instance_restart(struct instance *instance)
{
	struct sim *sim = instance->sim;
	struct deadline *deadline = arena_take(sim->arena, 1, sizeof(*deadline));

	*deadline = (struct deadline){instance, instance->process};
	instance->process->draining = true;
	drain_sources(instance->process);
	agenda_add(sim->agenda, sim_now(sim) + sim_between(sim, SECOND, 60 * SECOND), on_deadline, deadline);
	step(instance);
}

static bool same_statements(const struct config_source *a, const struct config_source *b)
{
	return a->ordering == b->ordering && a->on_failed == b->on_failed && a->on_delivered == b->on_delivered;
}

void instance_reload(struct instance *instance)
{
	struct process *process = instance->process;
	const struct config_source *old = process->starts->config;
	struct config_source *config = arena_take(process->sim->arena, 1, sizeof(*config));

	if (process->draining)
		return;
	choose_other_settings(process->sim, old, config);
	if (!same_statements(old, config))
		record_other_config(process->sim);
	sim_trace(process->sim, "%d reloads", instance->number);
	retire_sources(process, clock_of(instance));
	start_source(instance, config);
	step(instance);
}

void instance_suspend(struct instance *instance, int64_t until_us)
{
	instance->process->frozen_us = until_us;
	check_trouble(instance->process, until_us + 20 * SECOND);
}

void instance_cut(struct instance *instance)
{
	fakedb_cut(instance->process->pool);
	step(instance);
}

void instance_replace(struct instance *instance)
{
	const struct producers *producers = instance->process->producers;

	fakekafka_replace(sim_chance(instance->sim, 0.7)
				  ? producers->kafka
				  : producers->all[sim_between(instance->sim, 0, producers->n - 1)]);
	step(instance);
}

void instance_flap(struct instance *instance)
{
	struct sim *sim = instance->sim;

	fakekafka_flap(instance->process->producers->kafka, sim_now(sim) + sim_delay(sim, SECOND, 20 * SECOND));
	step(instance);
}

/* ---- the end ---- */

void instance_stop(struct instance *instance)
{
	instance->stays_down = true;
	if (instance->process == NULL)
		return;
	drain_sources(instance->process);
	step(instance);
}

bool instance_stopped(const struct instance *instance)
{
	return instance->process == NULL;
}

void instance_end(struct instance *instance)
{
	instance->stays_down = true;
	if (instance->process != NULL)
		leave(instance, 0);
}
