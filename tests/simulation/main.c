/* simulation: histories of the relay from seeds, judged by the checker.
 *
 *   simulation --seeds N [--from S]   N histories from seed S on (1)
 *   simulation --seed S [--trace]     one of them again, exactly, with what happened
 *   --stop                            at the first that fails
 *   --break NAME                      with one rule of the database or of Kafka broken: the checker must notice
 *   --record FILE                     writes the statements of --seed, for replay-sql */
#include "world.h"

#include "base/mem.h"

#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
	uint64_t from, seeds;
	bool stop;
	const char *record;
	struct world_options options;
};

static volatile uint64_t running_seed;

/* An assertion or a crash of the relay ends everything; which seed it was must not be lost. */
static void on_crash(int number)
{
	printf("FAILED seed %llu: crashed\n", (unsigned long long)running_seed);
	fflush(stdout);
	signal(number, SIG_DFL);
	raise(number);
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s --seeds N [--from S] [--stop] | --seed S [--trace] [--record FILE]   [--break NAME]\nbreaks:",
		program);
	for (int i = 1; i < SIM_BREAKS; i++)
		fprintf(stderr, " %s", sim_break_name((enum sim_break)i));
	fputc('\n', stderr);
	return 64;
}

static bool parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"seeds", required_argument, NULL, 'n'},  {"from", required_argument, NULL, 'f'},
		{"seed", required_argument, NULL, 's'},	  {"trace", no_argument, NULL, 't'},
		{"stop", no_argument, NULL, 'x'},	  {"break", required_argument, NULL, 'b'},
		{"record", required_argument, NULL, 'r'}, {0}};
	int option;

	*arguments = (struct arguments){.from = 1};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n') {
			arguments->seeds = strtoull(optarg, NULL, 10);
		} else if (option == 'f') {
			arguments->from = strtoull(optarg, NULL, 10);
		} else if (option == 's') {
			arguments->from = strtoull(optarg, NULL, 10);
			arguments->seeds = 1;
		} else if (option == 't') {
			arguments->options.trace = true;
		} else if (option == 'x') {
			arguments->stop = true;
		} else if (option == 'r') {
			arguments->record = optarg;
		} else if (option == 'b') {
			arguments->options.broken = sim_break_find(optarg);
		} else {
			return false;
		}
	}
	return arguments->seeds > 0 && arguments->options.broken != SIM_BREAKS && optind == argc;
}

static void add(struct check_totals *sum, const struct check_totals *more)
{
	sum->claims += more->claims;
	sum->publications += more->publications;
	sum->written += more->written;
	sum->duplicates += more->duplicates;
	sum->takeovers += more->takeovers;
	sum->fenced += more->fenced;
	sum->failed += more->failed;
	sum->letters += more->letters;
	sum->changed += more->changed;
}

static void report(const char *program, const struct arguments *arguments, uint64_t seed,
		   const struct world_result *result)
{
	printf("FAILED seed %llu: %s: %s\n", (unsigned long long)seed, result->rule, result->failure);
	printf("  again: %s --seed %llu --trace", program, (unsigned long long)seed);
	if (arguments->options.broken != BREAK_NOTHING)
		printf(" --break %s", sim_break_name(arguments->options.broken));
	putchar('\n');
	fflush(stdout);
}

static void print_totals(uint64_t passed, uint64_t failed, const struct check_totals *sum, double virtual_hours)
{
	printf("simulation: %.1f virtual hours: %llu rows claimed, %llu published, %llu written, %llu of them again; "
	       "%llu leases taken over, %llu outcomes fenced, %llu rows failed, %llu dead letters, %llu changed between snapshot and lock\n",
	       virtual_hours, (unsigned long long)sum->claims, (unsigned long long)sum->publications,
	       (unsigned long long)sum->written, (unsigned long long)sum->duplicates,
	       (unsigned long long)sum->takeovers, (unsigned long long)sum->fenced, (unsigned long long)sum->failed,
	       (unsigned long long)sum->letters, (unsigned long long)sum->changed);
	printf("simulation: %llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	struct check_totals sum = {0};
	uint64_t passed = 0, failed = 0;
	double hours = 0;

	json_set_alloc_funcs(mem_take, mem_free); /* as the program does */
	if (!parse(argc, argv, &arguments))
		return usage(argv[0]);
	if (arguments.record != NULL && (arguments.options.record = fopen(arguments.record, "w")) == NULL) {
		perror(arguments.record);
		return 1;
	}
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	for (uint64_t seed = arguments.from;
	     seed < arguments.from + arguments.seeds && !(arguments.stop && failed > 0); seed++) {
		struct world_result result;

		arguments.options.seed = running_seed = seed;
		result = world_run(&arguments.options);
		add(&sum, &result.totals);
		hours += (double)result.virtual_us / (3600.0 * SECOND);
		if (!result.passed)
			report(argv[0], &arguments, seed, &result);
		passed += result.passed;
		failed += !result.passed;
	}
	if (arguments.options.record != NULL)
		fclose(arguments.options.record);
	print_totals(passed, failed, &sum, hours);
	return failed == 0 ? 0 : 1;
}
