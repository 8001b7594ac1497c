#include "sim.h"

#include <stdarg.h>
#include <string.h>

static const char *const break_names[SIM_BREAKS] = {
	[BREAK_NOTHING] = "nothing",
	[BREAK_CTID] = "ctid",
	[BREAK_RECHECK] = "recheck",
	[BREAK_KEY_ORDER] = "key-order",
	[BREAK_LEASE_TIME] = "lease-time",
	[BREAK_FENCE_LEASE] = "fence-lease",
	[BREAK_FENCE_OWNER] = "fence-owner",
	[BREAK_FENCE_DELETE] = "fence-delete",
	[BREAK_SHARE] = "share",
	[BREAK_PULL] = "pull",
	[BREAK_PARK_STATE] = "park-state",
	[BREAK_SWEEP] = "sweep",
	[BREAK_ATTEMPTS] = "attempts",
	[BREAK_SUSPECTS] = "suspects",
	[BREAK_EXPIRE] = "expire",
	[BREAK_GIVE_BACK] = "give-back",
	[BREAK_EARLY_ANSWER] = "early-answer",
	[BREAK_ACK] = "ack",
	[BREAK_SILENCE] = "silence",
	[BREAK_REENTRY] = "reentry",
	[BREAK_GAPS] = "gaps",
	[BREAK_DEADLINE] = "deadline",
	[BREAK_TURN] = "turn",
	[BREAK_FENCE_RESULT] = "fence-result",
};

const char *sim_break_name(enum sim_break broken)
{
	return break_names[broken];
}

enum sim_break sim_break_find(const char *name)
{
	int i = 0;

	while (i < SIM_BREAKS && strcmp(break_names[i], name) != 0)
		i++;
	return (enum sim_break)i;
}

int64_t sim_between(struct sim *sim, int64_t from, int64_t to)
{
	return from + (int64_t)(backoff_next(&sim->random) % (uint64_t)(to - from + 1));
}

bool sim_chance(struct sim *sim, double probability)
{
	return backoff_uniform(&sim->random) < probability;
}

bool sim_fault(struct sim *sim, double probability)
{
	return !sim->calm && sim_chance(sim, probability);
}

int64_t sim_delay(struct sim *sim, int64_t low_us, int64_t high_us)
{
	return sim_fault(sim, 0.05) ? sim_between(sim, low_us, high_us) : sim_between(sim, low_us / 2, low_us * 2);
}

const char *sim_copy(struct sim *sim, const char *text)
{
	return arena_copy_string(sim->arena, text);
}

void sim_trace(const struct sim *sim, const char *format, ...)
{
	va_list args;

	if (!sim->trace)
		return;
	printf("%12.6f ", (double)(sim_now(sim) - SIM_START) / SECOND);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void sim_fail(struct sim *sim, const char *rule, const char *format, ...)
{
	va_list args;

	if (sim->rule[0] != '\0')
		return;
	snprintf(sim->rule, sizeof(sim->rule), "%s", rule);
	va_start(args, format);
	vsnprintf(sim->failure, sizeof(sim->failure), format, args);
	va_end(args);
	sim_trace(sim, "BROKEN %s: %s", sim->rule, sim->failure);
}
