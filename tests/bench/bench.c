#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

void bench_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

int64_t bench_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

double bench_cpu_seconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		bench_die("getrusage failed");
	return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t bench_number(const char *option, const char *text, int64_t least, int64_t most)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || number < least || number > most)
		bench_die("--%s %s: a whole number from %lld to %lld is wanted", option, text, (long long)least,
			  (long long)most);
	return number;
}

const struct config_source *bench_source(const char *file, const char *name)
{
	struct buf problems = {0};
	const struct config *config = config_load(file, &problems);
	const struct config_source *source;

	if (config == NULL)
		bench_die("%s", buf_text(&problems));
	buf_free(&problems);
	if (name == NULL && config->n_sources != 1)
		bench_die("%s has several sources: say with --source which one", file);
	source = name == NULL ? &config->sources[0] : config_find_source(config, name);
	if (source == NULL)
		bench_die("%s has no source %s", file, name);
	return source;
}

void bench_print(json_t *result)
{
	if (result == NULL)
		bench_die("the result cannot be told");
	if (json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 || putchar('\n') == EOF ||
	    fflush(stdout) != 0)
		bench_die("the result cannot be printed");
	json_decref(result);
}
