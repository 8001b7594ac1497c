/* fakelog: the other side of base/log.h: lines go to the trace, under virtual time, or nowhere. */
#include "sim.h"

#include "base/log.h"

#include <string.h>

/* The library calls it without a context, so the history that runs is remembered here. */
static const struct sim *current;

void sim_log_to(const struct sim *sim)
{
	current = sim;
}

struct log_fact log_str(const char *name, const char *text)
{
	return (struct log_fact){
		.name = name, .text = text, .len = text == NULL ? 0 : strlen(text), .skip = text == NULL};
}

struct log_fact log_bytes(const char *name, const char *bytes, size_t len)
{
	return (struct log_fact){.name = name, .text = bytes, .len = len, .skip = bytes == NULL};
}

struct log_fact log_int(const char *name, int64_t number)
{
	return (struct log_fact){.name = name, .number = number};
}

bool log_enabled(enum log_level level)
{
	(void)level;
	return current != NULL && current->trace;
}

void log_write(enum log_level level, const char *event, const struct log_fact *facts, size_t n_facts)
{
	char line[1000];
	size_t at = 0;

	if (!log_enabled(level))
		return;
	line[0] = '\0';
	for (size_t i = 0; i < n_facts && at < sizeof(line); i++) {
		if (facts[i].text != NULL)
			at += (size_t)snprintf(line + at, sizeof(line) - at, " %s=%.*s", facts[i].name,
					       (int)facts[i].len, facts[i].text);
		else if (!facts[i].skip)
			at += (size_t)snprintf(line + at, sizeof(line) - at, " %s=%lld", facts[i].name,
					       (long long)facts[i].number);
	}
	sim_trace(current, "  log %s%s", event, line);
}

void log_write_limited(enum log_level level, const char *event, const char *class, const struct log_fact *facts,
		       size_t n_facts)
{
	(void)class;
	log_write(level, event, facts, n_facts);
}
