/* race --dsn DSN [--seconds N] [--seed S] [--variant NAME|all] [--break NAME|all]
 *
 * Without --break: exit 0 when nothing went wrong. With --break NAME: the same, with one safeguard left out. With --break all:
 * each break in turn, in the variant where it shows; exit 0 when every one was noticed. Variants run side by side, each in a
 * process and a table of its own. */
#include "race.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *dsn, *variant, *broken;
	int seconds;
	uint64_t seed;
};

static _Noreturn void usage(void)
{
	const struct race_break *broken;
	const struct race_variant *variant;

	fprintf(stderr,
		"usage: race --dsn DSN [--seconds N] [--seed S] [--variant NAME|all] [--break NAME|all]\nvariants:");
	for (variant = race_variants; variant->name != NULL; variant++)
		fprintf(stderr, " %s", variant->name);
	fprintf(stderr, "\nbreaks:\n");
	for (broken = race_breaks; broken->name != NULL; broken++)
		fprintf(stderr, "  %-14s %s (%s)\n", broken->name, broken->sentence, broken->variant);
	exit(2);
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{"dsn", required_argument, NULL, 'd'},	 {"seconds", required_argument, NULL, 's'},
		{"seed", required_argument, NULL, 'r'},	 {"variant", required_argument, NULL, 'v'},
		{"break", required_argument, NULL, 'b'}, {NULL, 0, NULL, 0}};
	struct options options = {.variant = "all", .seconds = 20, .seed = 1};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'd')
			options.dsn = optarg;
		else if (option == 's')
			options.seconds = (int)strtol(optarg, NULL, 10);
		else if (option == 'r')
			options.seed = strtoull(optarg, NULL, 10);
		else if (option == 'v')
			options.variant = optarg;
		else if (option == 'b')
			options.broken = optarg;
		else
			usage();
	}
	if (options.dsn == NULL || options.seconds <= 0)
		usage();
	return options;
}

/* The child's exit code is 1 when something went wrong. */
static pid_t race(const struct options *options, const struct race_variant *variant,
		  const struct race_break *broken)
{
	struct race_world *world;
	uint64_t failures;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child != 0)
		return child;
	alarm((unsigned)options->seconds + 60); /* a deadline for what hangs */
	world = world_new(options->dsn, variant, broken, options->seed);
	failures = world_run(world, options->seconds);
	world_print(world);
	fflush(stdout);
	_exit(failures == 0 ? 0 : 1);
}

static int wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		server_die("a race could not be started");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static int race_all(const struct options *options, const struct race_break *broken)
{
	pid_t children[32];
	const struct race_variant *variant;
	int n = 0, worst = 0, i, code;

	for (variant = race_variants; variant->name != NULL; variant++) {
		if (strcmp(options->variant, "all") == 0 || strcmp(options->variant, variant->name) == 0)
			children[n++] = race(options, variant, broken);
	}
	if (n == 0)
		usage();
	for (i = 0; i < n; i++) {
		code = wait_for(children[i]);
		worst = code > worst ? code : worst;
	}
	return worst;
}

/* What a break spoils may need luck to show: some seeds. */
static bool is_noticed(struct options options, const struct race_break *broken)
{
	int tries;

	for (tries = 0; tries < 5; tries++, options.seed++) {
		if (wait_for(race(&options, race_find_variant(broken->variant), broken)) == 1)
			return true;
	}
	return false;
}

static int break_all(const struct options *options)
{
	const struct race_break *broken;
	int unnoticed = 0;
	bool noticed;

	for (broken = race_breaks; broken->name != NULL; broken++) {
		noticed = is_noticed(*options, broken);
		printf("%s: %s: %s\n", noticed ? "noticed" : "NOT NOTICED", broken->name, broken->sentence);
		unnoticed += !noticed;
	}
	return unnoticed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	const struct race_break *broken = NULL;

	if (options.broken != NULL && strcmp(options.broken, "all") == 0)
		return break_all(&options);
	if (options.broken != NULL) {
		broken = race_find_break(options.broken);
		if (broken == NULL)
			usage();
		options.variant = strcmp(options.variant, "all") == 0 ? broken->variant : options.variant;
	}
	return race_all(&options, broken);
}
