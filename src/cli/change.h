/* change: what `outboxd retry` and `outboxd skip` do. Rows are picked first, then changed in transactions of their own, some
 * hundreds each, with the rows that are parked behind them. It works on the database alone; relays may be running. */
#ifndef OUTBOXD_CLI_CHANGE_H
#define OUTBOXD_CLI_CHANGE_H

#include "cli/cli.h"

struct change {
	const char *command; /* argv[0] */
	bool skip;	     /* else retry */
	bool dry_run;	     /* prints the rows and leaves them as they are */
	struct cli_list
		ids; /* n == 0: not by ids; then one key's rows, or, with key == NULL, all that have failed */
	const char *key;
	const char *error;  /* only rows whose last error contains it; NULL: any */
	const char *reason; /* of a skip */
};

/* Prints what it did, and what went wrong; returns the exit code. From the first change on SIGINT and SIGTERM end it between
 * two transactions; the process is expected to end afterwards. */
int change_rows(const struct config_source *source, const struct change *change);

#endif
