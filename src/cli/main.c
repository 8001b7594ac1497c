/* The program's entry: the table of commands, their help, and what holds for all of them. */
#include "cli/cli.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_HELP "  -c, --config FILE  the configuration (default " CONFIG_DEFAULT_FILE ")\n"
#define SELECTOR_HELP                                               \
	"      --source NAME  the source, when there are several\n" \
	"      --id ID ...    these rows, as far as they have failed;\n"
#define SELECTORS_HELP                                                          \
	"      --key KEY      the failed rows of this key\n"                    \
	"      --all          all failed rows\n"                                \
	"      --error TEXT   of these, those whose error contains this text\n" \
	"      --dry-run      print the rows that would change, and change none\n"
#define CHANGE_EXITS                                                                                                  \
	"Ctrl-C ends it between two transactions.\n\n"                                                                \
	"Exit code: 0; 1 when nothing matches; 69 when the database is unreachable, 75 when it ended early (run it\n" \
	"again), 77 when a privilege is missing, 78 when the configuration or the table is wrong.\n\n"
#define HELP_HELP "  -h, --help         this text\n"

static const struct cli_command commands[] = {
	{"run", "relay rows from PostgreSQL to Kafka, in the foreground",
	 "usage: outboxd run [-c FILE]\n\n"
	 "The daemon. It logs to stderr. SIGTERM and SIGINT let it finish what is in flight (a second one ends it "
	 "at\n"
	 "once), SIGUSR1 logs a status line.\n\n" CONFIG_HELP HELP_HELP "\n"
	 "Exit code: 0 after a complete drain, 1 when the drain deadline passed with work in flight or at a second\n"
	 "signal, 75 when it cannot start, such as for a port that is in use, 78 when the configuration is wrong.\n\n"
	 "example: outboxd run -c outboxd.yaml\n",
	 cli_run},
	{"check", "check the file, the databases, the tables and the brokers",
	 "usage: outboxd check [-c FILE] [--offline] [--json]\n"
	 "       outboxd check --reference\n\n"
	 "Reports every mistake of the file at once, as FILE:LINE:COLUMN: message, librdkafka's and libpq's judgement of\n"
	 "their own settings included. Then it connects, and changes nothing: a line for each finding, ok, warn or error,\n"
	 "with what is the case => and the statement or setting that mends it.\n\n"
	 "      --offline      the file alone, without connecting to anything\n"
	 "      --json         an array of {level, source, finding, message, cure}\n"
	 "      --reference    every finding there is; reads no file\n" CONFIG_HELP HELP_HELP "\n"
	 "Exit code: 0 when there is no error; else the first that applies: 69 a server is unreachable, 77 a privilege or\n"
	 "the right password is missing, 78 the file, a table or a topic is wrong.\n\n"
	 "example: outboxd check -c outboxd.yaml\n"
	 "         outboxd check --json | jq '.[] | select(.level != \"ok\")'\n",
	 cli_check},
	{"schema", "print the SQL that makes a source's table",
	 "usage: outboxd schema [-c FILE] [--source NAME] [--adopt | --drop-trigger | --inbox]\n\n"
	 "Prints table, indexes, trigger and settings; connects to nothing and changes nothing.\n\n"
	 "      --source NAME  the source, when there are several\n"
	 "      --adopt        only what an existing table may lack: ALTER and CREATE INDEX CONCURRENTLY\n"
	 "      --drop-trigger only what removes the NOTIFY trigger\n"
	 "      --inbox        the table by which a consumer knows what it has done already; no file is read\n" CONFIG_HELP
		 HELP_HELP "\n"
	 "example: outboxd schema --source orders | psql shop\n",
	 cli_schema},
	{"status", "show rows by state, ages and blocked keys",
	 "usage: outboxd status [-c FILE] [--source NAME] [--json]\n\n"
	 "A row a source, counted in the database now, and what the daemon says of itself. It works while the daemon\n"
	 "is down.\n\n"
	 "      --source NAME  this source alone\n"
	 "      --json         {version, daemon, sources: [...]}; daemon is null when it cannot be reached\n" CONFIG_HELP
		 HELP_HELP "\n"
	 "Exit code: 0; 69 when a database is unreachable, 77 when a privilege is missing, 78 when the configuration\n"
	 "or a table is wrong.\n\n"
	 "example: outboxd status --json | jq '.sources[].rows'\n",
	 cli_status},
	{"retry", "send failed rows again",
	 "usage: outboxd retry [-c FILE] [--source NAME] (--id ID ... | --key KEY | --all) [--error TEXT] [--dry-run]\n\n"
	 "Failed rows become pending, with no attempts, due at once; the rows that wait behind them follow. It works on\n"
	 "the database: the daemon may be up or down. Prints how many rows it changed.\n\n" SELECTOR_HELP
	 "                     those that were skipped too\n" SELECTORS_HELP CONFIG_HELP HELP_HELP "\n" CHANGE_EXITS
	 "example: outboxd retry --source orders --all --error MSG_SIZE_TOO_LARGE --dry-run\n"
	 "         outboxd retry --source orders --id 4711 4712\n",
	 cli_retry},
	{"skip", "give failed rows up, so that their keys go on",
	 "usage: outboxd skip [-c FILE] [--source NAME] (--id ID ... | --key KEY | --all) [--error TEXT]\n"
	 "                    [--reason TEXT] [--dry-run]\n\n"
	 "Failed rows stay failed and are settled, with `skipped: TEXT` for their error: they are not counted any more and\n"
	 "hold back nothing. It works on the database: the daemon may be up or down. Prints how many rows it changed.\n\n" SELECTOR_HELP
	 "                     a pending row too, which is then never sent\n" SELECTORS_HELP
	 "      --reason TEXT  why\n" CONFIG_HELP HELP_HELP "\n" CHANGE_EXITS
	 "example: outboxd skip --source orders --key order-7 --reason 'order was cancelled'\n"
	 "         outboxd skip --source orders --id 4711 --reason 'test data'\n",
	 cli_skip},
	{"states", "print the table of a row's states",
	 "usage: outboxd states [--json]\n\n"
	 "      --json         an array of {from, event, to, note}\n" HELP_HELP,
	 cli_states},
	{"config", "print the effective configuration, or every key",
	 "usage: outboxd config [-c FILE]\n"
	 "       outboxd config --reference\n\n"
	 "Defaults are filled in; passwords are shown as ***.\n\n"
	 "      --reference    every key with type, default, range and meaning; reads no file\n" CONFIG_HELP
		 HELP_HELP "\n"
	 "example: outboxd config -c outboxd.yaml | less\n",
	 cli_config},
	{"version", "print the versions of the program and its libraries", "usage: outboxd version\n\n" HELP_HELP,
	 cli_version},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void print_commands(FILE *out)
{
	fputs("usage: outboxd COMMAND [options]\n\n"
	      "Relays rows of an outbox table in PostgreSQL to Kafka.\n\n",
	      out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fputs("\nEach command takes -h, --help.\n", out);
}

void cli_print_usage(const char *command, FILE *out)
{
	const char *word = strrchr(command, ' ');

	fputs(find_command(word == NULL ? command : word + 1)->usage, out);
}

/* argv[0] becomes "outboxd COMMAND": getopt_long puts it before what it has to say. */
static int run_command(const struct cli_command *command, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "outboxd %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

/* What was printed must have arrived, else a script takes half an answer for a whole one. */
static int finish_output(int exit_code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	fputs("outboxd: the output could not be written\n", stderr);
	return exit_code == CLI_OK ? CLI_INTERNAL : exit_code;
}

int main(int argc, char **argv)
{
	const struct cli_command *command;

	/* jansson tells of memory it does not get as of a mistake in the text. */
	json_set_alloc_funcs(mem_take, mem_free);
	/* Timestamps without a time zone, and times as text, must mean the same to every instance and command. */
	setenv("PGTZ", "UTC", 0);
	setenv("PGDATESTYLE", "ISO", 0);
	if (argc < 2) {
		print_commands(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
		print_commands(stdout);
		return finish_output(CLI_OK);
	}
	command = find_command(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
	if (command == NULL) {
		if (argv[1][0] == '-')
			fprintf(stderr, "outboxd: the command comes first, before %s\n\n", argv[1]);
		else
			fprintf(stderr, "outboxd: unknown command %s\n\n", argv[1]);
		print_commands(stderr);
		return CLI_USAGE;
	}
	return finish_output(run_command(command, argc - 1, argv + 1));
}
