/* checktable: what the database tells about itself, a source's table and its rows, and what of it is worth a finding.
 * The statements that ask for it are those of sqlcheck.h. */
#ifndef OUTBOXD_CORE_CHECKTABLE_H
#define OUTBOXD_CORE_CHECKTABLE_H

#include "config/config.h"
#include "core/check.h"
#include "core/sql.h"

#include <stdint.h>

/* Of the server and its database, as a transaction of the relay sees them. */
struct check_server {
	const char *version;
	bool standby, read_only;
	bool jit;			  /* the session's own setting */
	bool jit_applies;		  /* with the relay's time limits and settings */
	int64_t clock_us;		  /* Unix */
	int64_t snapshot_age;		  /* transactions begun since the oldest snapshot that is held */
	const char *holder, *holder_cure; /* who holds it, as far as the role may see; NULL: unknown */
};

/* Of the table, beside struct sql_table_facts. A text that is NULL: there is no such trouble; a cure is the statement. */
struct check_table {
	bool has_due_index, unique_id, unique_order;
	const char *invalid_cure;
	int64_t rows, bytes; /* by the last ANALYZE, and on disk without indexes */
	bool autovacuum;     /* it is on in the server */
	const char *vacuum_cure, *settings_cure, *bloat_cure;
	bool notifies; /* some trigger does, on the source's channel */
	const char *event_id_default, *order_default;
};

/* Of the rows: the first open ones and the newest. */
struct check_rows {
	int64_t largest_bytes; /* of an open row's payload */
	const char *states;    /* those that the mapping does not name: a JSON array */
	const char *owners;    /* who holds rows: a JSON array */
};

/* now_us: Unix time of this host when the server told its own. False: nothing can be claimed there. */
bool checktable_server(struct check *check, const struct config_source *source, const struct check_server *server,
		       int64_t now_us);

/* sql: built for these facts. */
void checktable_table(struct check *check, const struct config_source *source, const struct sql *sql,
		      const struct sql_table_facts *facts, const struct check_table *table);

void checktable_rows(struct check *check, const struct config_source *source, const struct check_rows *rows);

/* What the configuration alone does not know to be wrong. */
void checktable_settings(struct check *check, const struct config_source *source);

#endif
