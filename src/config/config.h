/* config: the whole configuration, checked, with defaults filled in; immutable once loaded, and counted by its users.
 * It does not connect to anything; what a table or a broker says is found out later. */
#ifndef OUTBOXD_CONFIG_CONFIG_H
#define OUTBOXD_CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"

#include <stdint.h>
#include <stdio.h>

struct arena;

#define CONFIG_DEFAULT_FILE "/etc/outboxd/outboxd.yaml"

/* The columns of a table that the relay knows by role. */
enum config_column {
	COLUMN_ID,
	COLUMN_ORDER, /* the column that gives the order; by default the id */
	COLUMN_EVENT_ID,
	COLUMN_KEY,
	COLUMN_TYPE,
	COLUMN_PAYLOAD,
	COLUMN_HEADERS,
	COLUMN_TOPIC,
	COLUMN_PARTITION,
	COLUMN_TIMESTAMP,
	COLUMN_STATUS,
	COLUMN_ATTEMPTS,
	COLUMN_MAX_ATTEMPTS,
	COLUMN_AVAILABLE_AT,
	COLUMN_LEASE_UNTIL,
	COLUMN_LEASE_OWNER,
	COLUMN_LAST_ERROR,
	COLUMN_CREATED_AT,
	COLUMN_UPDATED_AT,
	COLUMN_SETTLED_AT,
	COLUMN_TXID
};
#define CONFIG_COLUMNS (COLUMN_TXID + 1)

/* The key under `columns:`, e.g. "available_at". */
const char *config_column_name(enum config_column column);

/* Labels of the row's states, in the order pending, in_flight, sent, failed (core/rowstate.h has the enum). */
#define CONFIG_STATES 4

enum config_format { FORMAT_PLAIN, FORMAT_CLOUDEVENTS };
enum config_ordering { ORDERING_KEY, ORDERING_NONE };
enum config_on_failed { ON_FAILED_BLOCK, ON_FAILED_CONTINUE };
enum config_on_delivered { ON_DELIVERED_MARK, ON_DELIVERED_DELETE, ON_DELIVERED_AWAIT };

struct config_property {
	const char *name, *value;
	bool secret;	  /* shown as *** */
	int line, column; /* where the value stands, for the library's own judgement */
};

struct config_postgres {
	const char *dsn;
	const char *password_file; /* NULL: none */
	int64_t connections;
	int64_t connect_timeout_us, statement_timeout_us, lock_timeout_us;
};

struct config_kafka {
	const char *bootstrap_servers;
	int64_t message_timeout_us;
	const char *password_file; /* NULL: none */
	struct config_property *properties;
	size_t n_properties;
};

struct config_retry {
	int64_t initial_us, max_us;
	double multiplier, jitter;
	int64_t max_attempts; /* 1 .. INT32_MAX */
};

struct config_header {
	const char *name, *template_text;
	bool optional; /* a default of the preset: left out when the table lacks a column that it names */
};

struct config_source {
	const char *name;
	const char *table; /* as written: schema.table, parts may be "quoted" */
	const char *preset;
	unsigned paused;		      /* 0 or 1 */
	const char *columns[CONFIG_COLUMNS];  /* NULL: not mapped */
	bool column_required[CONFIG_COLUMNS]; /* the file itself maps it, or it may never be left out */
	const char *states[CONFIG_STATES];    /* labels */
	const char *topic;		      /* template */
	struct config_header *headers;
	size_t n_headers;
	enum config_format format;
	const char *cloudevents_source; /* a URI reference */
	enum config_ordering ordering;
	enum config_on_failed on_failed;
	enum config_on_delivered on_delivered;
	int64_t result_timeout_us; /* of ON_DELIVERED_AWAIT */
	int64_t batch, max_in_flight, max_in_flight_per_key, max_in_flight_bytes;
	int64_t rate_limit; /* rows a second; 0: none */
	const char *where;  /* SQL; NULL: none */
	int64_t lease_us, poll_us;
	const char *notify; /* channel; NULL: polling only */
	struct config_retry retry;
	const char *dead_letter_topic;	 /* NULL: none */
	struct config_postgres postgres; /* the defaults with this source's overrides */
	struct config_kafka kafka;
};

struct config_http {
	const char *host; /* NULL: off */
	int port;
};

struct config {
	const char *file;
	struct config_postgres postgres; /* what the sources have unless they say otherwise */
	struct config_kafka kafka;
	struct config_source *sources;
	size_t n_sources;
	struct config_http http;
	enum log_level log_level;
	enum log_format log_format;
	int64_t drain_timeout_us;
	struct arena *arena; /* owns all of the above */
	size_t users;
};

/* Reads and checks a file. On mistakes returns NULL, and problems holds one line for each,
 * `FILE:LINE:COLUMN: message` (a file that cannot be read: `FILE: message`). Free with config_free. */
struct config *config_load(const char *file, struct buf *problems) must_check;

/* What only a library can judge. False: the setting is wrong, and err says why without repeating a secret. */
struct config_judge {
	bool (*dsn)(const char *dsn, struct err *err);
	bool (*property)(const char *name, const char *value, struct err *err); /* of librdkafka */
};

/* The same, with the libraries' judgement among the problems: io/judge.h is the way to it. */
struct config *config_load_judged(const char *file, const struct config_judge *judge,
				  struct buf *problems) must_check;

/* One user more, who gives it up with config_free. Returns config. */
struct config *config_share(struct config *config);

/* Gives up a config; the last user's call frees it. NULL is fine. */
void config_free(struct config *config);

/* Prints the effective configuration as YAML, secrets as ***. */
void config_print(const struct config *config, FILE *out);

/* Prints every key with type, default, range, whether it reloads, and its sentence. */
void config_print_reference(FILE *out);

/* NULL when there is none of that name. */
const struct config_source *config_find_source(const struct config *config, const char *name);

#endif
