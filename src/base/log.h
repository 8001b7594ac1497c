/* log: one event a line on stderr: time, level, event=name and facts.
 * It never sees payloads or passwords: callers give ids, names and library texts.
 * Not for several threads: librdkafka's lines arrive through its queue. */
#ifndef OUTBOXD_BASE_LOG_H
#define OUTBOXD_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_format {
	LOG_AUTO,   /* text on a terminal, <N> logfmt under systemd, else logfmt */
	LOG_TEXT,   /* coloured on a terminal */
	LOG_LOGFMT, /* time= level= event= ... */
	LOG_JSON    /* one object a line */
};

/* A fact: name and value. Values are made valid UTF-8 and escaped for the format. */
struct log_fact {
	const char *name;
	const char *text; /* used when not NULL */
	size_t len;
	int64_t number; /* used when text is NULL */
	bool skip;	/* a fact that is not there (a NULL text) */
};

struct log_fact log_str(const char *name, const char *text); /* NULL text: the fact is left out */
struct log_fact log_bytes(const char *name, const char *bytes, size_t len);
struct log_fact log_int(const char *name, int64_t number);

void log_configure(enum log_level level, enum log_format format);
bool log_enabled(enum log_level level);

/* Writes one line. event is a stable snake_case name. */
void log_write(enum log_level level, const char *event, const struct log_fact *facts, size_t n_facts);

/* The same, but of lines with the same event and `class` (for example source and error name) the first is
 * written at once, the rest counted and summed up in one line (suppressed=N) at most every 10 s. */
void log_write_limited(enum log_level level, const char *event, const char *class, const struct log_fact *facts,
		       size_t n_facts);

/* Writes the sums that are due; call it about once a second (all = true: at exit, whatever their age). */
void log_flush_limited(bool all);

#define LOG_FACTS(...)                            \
	((const struct log_fact[]){__VA_ARGS__}), \
		(sizeof((const struct log_fact[]){__VA_ARGS__}) / sizeof(struct log_fact))

/* LOG(LOG_INFO, "started", log_str("version", v), log_int("pid", pid)); at least one fact */
#define LOG(level, event, ...) log_write((level), (event), LOG_FACTS(__VA_ARGS__))
#define LOG_LIMITED(level, event, class, ...) log_write_limited((level), (event), (class), LOG_FACTS(__VA_ARGS__))

#endif
