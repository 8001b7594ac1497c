/* cli: the commands, and what they share. Each command is one row of the table in main.c.
 * A command gets its own word as argv[0] ("outboxd schema") and returns the exit code. */
#ifndef OUTBOXD_CLI_CLI_H
#define OUTBOXD_CLI_CLI_H

#include "base/err.h"
#include "config/config.h"

#include <stdio.h>

/* sysexits.h names most of them; interface.md section 1 is the contract. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NOTHING = 1, /* nothing matched; `run`: the drain deadline passed with work in flight */
	CLI_USAGE = 64,
	CLI_UNAVAILABLE = 69, /* a service cannot be reached */
	CLI_INTERNAL = 70,
	CLI_TEMPORARY = 75,
	CLI_PERMISSION = 77,
	CLI_CONFIG = 78
};

typedef int cli_function(int argc, char **argv);

struct cli_command {
	const char *name;
	const char *summary; /* one line, for the list of commands */
	const char *usage;   /* options and examples, for -h */
	cli_function *run;
};

cli_function cli_run, cli_check, cli_schema, cli_status, cli_retry, cli_skip, cli_states, cli_config, cli_version;

/* The values of an option that may come several times. */
struct cli_list {
	const char **items; /* the caller's, with room for argc of them; what they point to belongs to argv */
	size_t n;
};

/* An option of a command: exactly one of flag, text and list is not NULL and is set when the option is there. Arguments without
 * an option are more values of the command's one list, if that option is there: --id 1 2 3. */
struct cli_option {
	const char *name; /* without the dashes; NULL ends the array */
	char letter;	  /* 0: none */
	bool *flag;
	const char **text;
	struct cli_list *list;
};

/* -c/--config FILE; let *file be CONFIG_DEFAULT_FILE before. */
#define CLI_OPTION_CONFIG(file)                   \
	{                                         \
		"config", 'c', NULL, (file), NULL \
	}
#define CLI_OPTION_END                    \
	{                                 \
		NULL, 0, NULL, NULL, NULL \
	}

/* Reads the options; -h/--help is known to every command. False when the command has to end at once with
 * *exit_code: the help was printed, or an option was wrong (usage on stderr), or there are arguments without an option. */
bool cli_options(int argc, char **argv, const struct cli_option *options, int *exit_code) must_check;

/* The command's help. command is argv[0]. */
void cli_print_usage(const char *command, FILE *out);

/* Prints the sentence and the command's help to stderr, and returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Loads and checks a configuration, librdkafka's and libpq's own judgement included, and prints every mistake to
 * stderr. NULL: end with CLI_CONFIG. Free with config_free. */
struct config *cli_load(const char *file) must_check;

/* The source of that name; with name NULL the only one. NULL: a message was printed, end with CLI_USAGE. */
const struct config_source *cli_source(const char *command, const struct config *config,
				       const char *name) must_check;

#endif
