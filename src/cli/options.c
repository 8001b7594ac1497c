/* The options of a command, read by getopt_long. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdarg.h>
#include <string.h>

#define OPTIONS_MAX 16

/* What getopt_long wants to know: --help first, then the command's own; an option's number is its val. */
struct spec {
	struct option long_options[OPTIONS_MAX + 2];
	char letters[2 * OPTIONS_MAX + 2];
};

enum { VAL_HELP = 256, VAL_FIRST = 257 };

static void describe(const struct cli_option *options, struct spec *spec)
{
	size_t n_letters = 0, i;

	*spec = (struct spec){.long_options[0] = {"help", no_argument, NULL, VAL_HELP}};
	spec->letters[n_letters++] = 'h';
	for (i = 0; i < OPTIONS_MAX && options[i].name != NULL; i++) {
		spec->long_options[i + 1] =
			(struct option){options[i].name, options[i].flag == NULL ? required_argument : no_argument,
					NULL, VAL_FIRST + (int)i};
		if (options[i].letter == '\0')
			continue;
		spec->letters[n_letters++] = options[i].letter;
		if (options[i].flag == NULL)
			spec->letters[n_letters++] = ':';
	}
}

static const struct cli_option *find_option(const struct cli_option *options, int val)
{
	if (val >= VAL_FIRST)
		return &options[val - VAL_FIRST];
	while (options->name != NULL && options->letter != val)
		options++;
	return options;
}

static void set(const struct cli_option *option, const char *value)
{
	if (option->flag != NULL)
		*option->flag = true;
	else if (option->text != NULL)
		*option->text = value;
	else
		option->list->items[option->list->n++] = value;
}

/* What has no option in front of it belongs to the list, when that has begun. */
static void take_rest(const struct cli_option *options, char **argv, int argc)
{
	while (options->name != NULL && (options->list == NULL || options->list->n == 0))
		options++;
	for (; options->name != NULL && optind < argc; optind++)
		set(options, argv[optind]);
}

bool cli_options(int argc, char **argv, const struct cli_option *options, int *exit_code)
{
	struct spec spec;
	int val;

	describe(options, &spec);
	optind = 1;
	while ((val = getopt_long(argc, argv, spec.letters, spec.long_options, NULL)) != -1) {
		if (val == 'h' || val == VAL_HELP || val == '?') {
			cli_print_usage(argv[0], val == '?' ? stderr : stdout);
			*exit_code = val == '?' ? CLI_USAGE : CLI_OK;
			return false;
		}
		set(find_option(options, val), optarg);
	}
	take_rest(options, argv, argc);
	if (optind == argc)
		return true;
	*exit_code = cli_usage_error(argv[0], "unexpected argument %s", argv[optind]);
	return false;
}

int cli_usage_error(const char *command, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\n\n", stderr);
	cli_print_usage(command, stderr);
	return CLI_USAGE;
}
