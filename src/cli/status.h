/* status: what `outboxd status` knows of a source, and its two ways to show it. */
#ifndef OUTBOXD_CLI_STATUS_H
#define OUTBOXD_CLI_STATUS_H

#include "cli/cli.h"
#include "core/sql.h"

#include <jansson.h>

#define STATUS_UNCOUNTED (-1)

struct status_row {
	const struct config_source *source;
	enum cli_exit exit_code; /* not CLI_OK: it could not be counted, and err says why */
	struct err err;
	int64_t counts[SQL_COUNT_COLUMNS]; /* those that are int8; STATUS_UNCOUNTED for what the query leaves out */
	bool has_oldest;
	bool bounded; /* counting stopped early: there may be more */
};

/* Connects and counts; source is set, the rest is filled in. */
void status_count(struct status_row *row);

/* view: what the daemon says of itself; NULL: nothing, and err says why. */
void status_print_text(const struct config_http *http, const json_t *view, const struct err *err,
		       const struct status_row *rows, size_t n_rows);
void status_print_json(json_t *view, const struct status_row *rows, size_t n_rows);

#endif
