/* check: what `outboxd check` has found: each finding is of a kind, and kinds are rows of one table, from which the
 * documentation is made too. Here is no knowledge of databases or brokers: see checktable.h and checkkafka.h. */
#ifndef OUTBOXD_CORE_CHECK_H
#define OUTBOXD_CORE_CHECK_H

#include "base/buf.h"

#include <jansson.h>
#include <stdio.h>

struct arena;

enum check_level { CHECK_OK, CHECK_WARN, CHECK_ERROR };

/* Whose trouble an error is, the first that decides on the exit code first. */
enum check_cause { CHECK_UNREACHABLE, CHECK_DENIED, CHECK_WRONG, CHECK_NOBODY };

enum check_kind {
	CHECK_FILE,
	CHECK_FILE_WRONG,
	CHECK_DATABASE,
	CHECK_DATABASE_UNREACHABLE,
	CHECK_DATABASE_REFUSED,
	CHECK_DATABASE_WRONG,
	CHECK_STANDBY,
	CHECK_READ_ONLY,
	CHECK_TABLE,
	CHECK_TABLE_MISSING,
	CHECK_TABLE_UNFIT,
	CHECK_PRIVILEGE_MISSING,
	CHECK_ROWS_HIDDEN,
	CHECK_ROWS_POLICED,
	CHECK_STATE_REFUSED,
	CHECK_STATE_UNKNOWN,
	CHECK_ID_NOT_UNIQUE,
	CHECK_ORDER_RANDOM,
	CHECK_TIME_ZONE_MISSING,
	CHECK_COLUMN_LEFT_OUT,
	CHECK_DUE_INDEX_MISSING,
	CHECK_KEY_INDEX_MISSING,
	CHECK_INDEX_INVALID,
	CHECK_SETTLED_AT_MISSING,
	CHECK_EVENT_ID_RANDOM,
	CHECK_TABLE_SETTINGS,
	CHECK_AUTOVACUUM_OFF,
	CHECK_BLOAT,
	CHECK_SNAPSHOT_OLD,
	CHECK_HISTORY_KEPT,
	CHECK_JIT,
	CHECK_JIT_ON,
	CHECK_CLOCK_DIFFERS,
	CHECK_NOTIFY,
	CHECK_NOTIFY_UNHEARD,
	CHECK_TRIGGER_MISSING,
	CHECK_LEASE,
	CHECK_LEASE_SHORT,
	CHECK_RELAYS_DIFFER,
	CHECK_BROKER,
	CHECK_BROKER_UNREACHABLE,
	CHECK_BROKER_REFUSED,
	CHECK_TOPIC,
	CHECK_TOPIC_MISSING,
	CHECK_TOPIC_MADE_LATER,
	CHECK_TOPIC_DENIED,
	CHECK_TOPIC_UNREAD,
	CHECK_TOPIC_TOO_SMALL,
	CHECK_MESSAGE_TOO_LARGE,
	CHECK_TOPIC_COMPACTED,
	CHECK_REPLICAS_TOO_FEW,
	CHECK_REPLICAS_UNSAFE
};
#define CHECK_KINDS (CHECK_REPLICAS_UNSAFE + 1)

struct check_finding {
	enum check_kind kind;
	const char *source; /* its name; NULL: of the file */
	const char *text;   /* what is the case, */
	const char *cure;   /* and the statement or setting that mends it; NULL: there is nothing to do */
};

struct check {
	struct arena *arena; /* owns the findings and their texts */
	struct check_finding *findings;
	size_t n, size;
};

void check_init(struct check *check);
void check_free(struct check *check);

/* Adds a finding; source is borrowed, the texts are copied. cure may be NULL. */
void check_add(struct check *check, enum check_kind kind, const char *source, const char *cure, const char *format,
	       ...) __attribute__((format(printf, 5, 6)));

const char *check_name(enum check_kind kind);
enum check_level check_level(enum check_kind kind);

/* The first cause in the order of enum check_cause that some error has; CHECK_NOBODY: there is no error. */
enum check_cause check_cause(const struct check *check);

/* A line each: level, source, name, text, cure. */
void check_print(const struct check *check, FILE *out);

/* An array of {level, source, finding, message, cure}; the caller owns it. */
json_t *check_to_json(const struct check *check);

/* Every kind with its level and what it means. */
void check_print_reference(FILE *out);

#endif
