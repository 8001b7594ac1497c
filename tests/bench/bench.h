/* bench: what the bare programs of the benchmark share: a clock, the end on an error, numbers from options, the result.
 * They do with nothing around it what outboxd does, so that its figures can be told as ratios: see docs/performance.md. */
#ifndef OUTBOXD_TESTS_BENCH_H
#define OUTBOXD_TESTS_BENCH_H

#include "config/config.h"

#include <jansson.h>
#include <stdint.h>

/* The sentence to stderr, and the end of the process: a figure of a run in which something went wrong is worth nothing. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CLOCK_MONOTONIC. */
int64_t bench_now_us(void);

/* What this process has used, all threads, user and system. */
double bench_cpu_seconds(void);

/* An option's value; ends the process when it is no whole number in the range. */
int64_t bench_number(const char *option, const char *text, int64_t least, int64_t most);

/* The source of a configuration file, by name or the only one (NULL). Lives as long as the process. */
const struct config_source *bench_source(const char *file, const char *name);

/* Prints the object as one line, and frees it. NULL, as json_pack returns for a mistake, ends the process. */
void bench_print(json_t *result);

#endif
