#include "config/keys.h"

#include "config/config.h"
#include "config/value.h"

#include <string.h>

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)
#define SHORTEST (SECOND / 10)
#define LONGEST (365 * DAY)
#define LONGEST_MS (24 * DAY) /* PostgreSQL and librdkafka keep milliseconds in 31 bits */

#define SECTION(path, keys)                                  \
	{                                                    \
		path, keys, sizeof(keys) / sizeof((keys)[0]) \
	}

static const char *const ordering_words[] = {[ORDERING_KEY] = "key", [ORDERING_NONE] = "none", NULL};
static const char *const on_failed_words[] = {[ON_FAILED_BLOCK] = "block", [ON_FAILED_CONTINUE] = "continue", NULL};
static const char *const format_of_record_words[] = {
	[FORMAT_PLAIN] = "plain", [FORMAT_CLOUDEVENTS] = "cloudevents", NULL};
static const char *const on_delivered_words[] = {
	[ON_DELIVERED_MARK] = "mark", [ON_DELIVERED_DELETE] = "delete", [ON_DELIVERED_AWAIT] = "await", NULL};
static const char *const preset_words[] = {"outboxd", "message", "task", "debezium", NULL};
static const char *const boolean_words[] = {"false", "true", NULL};
static const char *const level_words[] = {
	[LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug", NULL};
static const char *const format_words[] = {
	[LOG_AUTO] = "auto", [LOG_TEXT] = "text", [LOG_LOGFMT] = "logfmt", [LOG_JSON] = "json", NULL};

static const struct key postgres_keys[] = {
	{"dsn", KEY_DSN, offsetof(struct config_postgres, dsn),
	 .sentence = "Where PostgreSQL is: a libpq connection string or URI, several hosts allowed. Required, here "
		     "or in "
		     "each source. Empty: all from libpq's own environment variables."},
	{"password_file", KEY_TEXT, offsetof(struct config_postgres, password_file), .flags = KEY_NULLABLE,
	 .sentence = "A file with the password, read again on each connect. A name without a slash is looked up in "
		     "$CREDENTIALS_DIRECTORY."},
	{"connections", KEY_INTEGER, offsetof(struct config_postgres, connections), "2", .min = 1, .max = 1000,
	 .sentence =
		 "Connections for requests, shared by the sources of one connection string; LISTEN has its own, and for a moment one more, when it begins."},
	{"connect_timeout", KEY_DURATION, offsetof(struct config_postgres, connect_timeout_us), "5s",
	 .min = SHORTEST, .max = LONGEST_MS,
	 .sentence = "How long one attempt to connect may take; looking its host names up, half of that."},
	{"statement_timeout", KEY_DURATION, offsetof(struct config_postgres, statement_timeout_us), "10s",
	 .min = SHORTEST, .max = LONGEST_MS,
	 .sentence = "How long one statement may run before PostgreSQL ends it."},
	{"lock_timeout", KEY_DURATION, offsetof(struct config_postgres, lock_timeout_us), "1s", .min = SHORTEST,
	 .max = LONGEST_MS,
	 .sentence = "How long a statement may wait for a lock, such as that of an ALTER TABLE."},
};
static const struct section postgres_section = SECTION("postgres.", postgres_keys);

static const struct key kafka_keys[] = {
	{"bootstrap_servers", KEY_TEXT, offsetof(struct config_kafka, bootstrap_servers),
	 .sentence = "The brokers to ask first: host:port, several with commas. Required, here or in each source."},
	{"message_timeout", KEY_DURATION, offsetof(struct config_kafka, message_timeout_us), "30s", .min = SHORTEST,
	 .max = LONGEST_MS,
	 .sentence =
		 "How long a message may take from hand-over to the last acknowledgement, repeats by the library "
		 "included (librdkafka's message.timeout.ms). The lease must be longer by 5s."},
	{"password_file", KEY_TEXT, offsetof(struct config_kafka, password_file), .flags = KEY_NULLABLE,
	 .sentence =
		 "A file with the SASL password. A name without a slash is looked up in $CREDENTIALS_DIRECTORY."},
	{"properties", KEY_PROPERTIES, offsetof(struct config_kafka, properties),
	 .derived = "{enable.idempotence: true, acks: all, partitioner: murmur2_random}",
	 .sentence =
		 "Properties for librdkafka, word for word; it judges them. What a source gives is added to what "
		 "stands at the top."},
};
static const struct section kafka_section = SECTION("kafka.", kafka_keys);

#define COLUMN(role) (COLUMN_##role * sizeof(const char *))

static const struct key columns_keys[] = {
	{"id", KEY_IDENTIFIER, COLUMN(ID), "id", .sentence = "The row's identity: unique, not NULL, of any type."},
	{"order", KEY_IDENTIFIER, COLUMN(ORDER), .derived = "columns.id", .flags = KEY_NULLABLE,
	 .sentence =
		 "Gives the order of a key's rows; needs a unique index. ~: the id. uuids stand in the order of "
		 "their bytes, which for random ones is not that of insertion."},
	{"event_id", KEY_IDENTIFIER, COLUMN(EVENT_ID), "event_id", .flags = KEY_NULLABLE,
	 .sentence = "The event's own identity, by which a consumer recognises a repeat."},
	{"key", KEY_IDENTIFIER, COLUMN(KEY), "aggregate_id", .flags = KEY_NULLABLE,
	 .sentence = "The record's key; rows of one key keep their order with ordering: key."},
	{"type", KEY_IDENTIFIER, COLUMN(TYPE), "event_type", .flags = KEY_NULLABLE,
	 .sentence = "The event's type."},
	{"payload", KEY_IDENTIFIER, COLUMN(PAYLOAD), "payload",
	 .sentence = "The record's value: bytea as it is, anything else as its text; NULL is a tombstone."},
	{"headers", KEY_IDENTIFIER, COLUMN(HEADERS), "headers", .flags = KEY_NULLABLE,
	 .sentence = "A JSON object of more headers; they win over templates of the same name."},
	{"topic", KEY_IDENTIFIER, COLUMN(TOPIC), .flags = KEY_NULLABLE,
	 .sentence = "The row's own topic; where it is NULL the template decides."},
	{"partition", KEY_IDENTIFIER, COLUMN(PARTITION), .flags = KEY_NULLABLE,
	 .sentence = "The row's own partition; where it is NULL the partitioner decides."},
	{"timestamp", KEY_IDENTIFIER, COLUMN(TIMESTAMP), .flags = KEY_NULLABLE,
	 .sentence = "The record's timestamp in place of the time of publishing. A broker deletes by it: an old "
		     "row may be "
		     "gone before anybody reads it."},
	{"status", KEY_IDENTIFIER, COLUMN(STATUS), "status", .sentence = "The row's state; see states."},
	{"attempts", KEY_IDENTIFIER, COLUMN(ATTEMPTS), "attempts",
	 .sentence = "Claims so far; 1 after a first success. NULL counts as 0."},
	{"max_attempts", KEY_IDENTIFIER, COLUMN(MAX_ATTEMPTS), .flags = KEY_NULLABLE,
	 .sentence = "The row's own limit in place of retry.max_attempts."},
	{"available_at", KEY_IDENTIFIER, COLUMN(AVAILABLE_AT), "available_at",
	 .sentence = "Not before this time; NULL is now. May be the column of lease_until."},
	{"lease_until", KEY_IDENTIFIER, COLUMN(LEASE_UNTIL), "lease_until", .flags = KEY_NULLABLE,
	 .sentence = "Until when an instance holds the row; without it the lease stands in available_at."},
	{"lease_owner", KEY_IDENTIFIER, COLUMN(LEASE_OWNER), "lease_owner", .flags = KEY_NULLABLE,
	 .sentence = "Who holds the row; with it one key may have many rows under way, without it one batch."},
	{"last_error", KEY_IDENTIFIER, COLUMN(LAST_ERROR), "last_error", .flags = KEY_NULLABLE,
	 .sentence = "Why the last attempt failed."},
	{"created_at", KEY_IDENTIFIER, COLUMN(CREATED_AT), "created_at", .flags = KEY_NULLABLE,
	 .sentence = "When the row was written; for ages and latencies."},
	{"updated_at", KEY_IDENTIFIER, COLUMN(UPDATED_AT), .flags = KEY_NULLABLE,
	 .sentence = "Set to the current time by each change."},
	{"settled_at", KEY_IDENTIFIER, COLUMN(SETTLED_AT), "settled_at", .flags = KEY_NULLABLE,
	 .sentence = "When the row was finished; its partial index is what makes claims fast."},
	{"txid", KEY_IDENTIFIER, COLUMN(TXID), .flags = KEY_NULLABLE,
	 .sentence =
		 "The transaction that wrote the row: xid8 with the default pg_current_xact_id(). With it no row is "
		 "claimed while an older transaction is open, so that none overtakes a late commit."},
};
static const struct section columns_section = SECTION("sources[].columns.", columns_keys);

static const struct key states_keys[] = {
	{"pending", KEY_TEXT, 0 * sizeof(const char *), "PENDING", .sentence = "Label of rows that wait."},
	{"in_flight", KEY_TEXT, 1 * sizeof(const char *), "SENDING", .sentence = "Label of rows that are claimed."},
	{"sent", KEY_TEXT, 2 * sizeof(const char *), "SENT", .sentence = "Label of rows that Kafka has."},
	{"failed", KEY_TEXT, 3 * sizeof(const char *), "FAILED", .sentence = "Label of rows that were given up."},
};
static const struct section states_section = SECTION("sources[].states.", states_keys);

static const struct key retry_keys[] = {
	{"initial", KEY_DURATION, offsetof(struct config_retry, initial_us), "1s", .min = SHORTEST, .max = LONGEST,
	 .sentence = "The wait before the second attempt."},
	{"multiplier", KEY_NUMBER, offsetof(struct config_retry, multiplier), "2", .min = 1, .max = 100,
	 .sentence = "Each further wait is longer by this factor."},
	{"max", KEY_DURATION, offsetof(struct config_retry, max_us), "5m", .min = SHORTEST, .max = LONGEST,
	 .sentence = "The longest wait, before jitter."},
	{"jitter", KEY_NUMBER, offsetof(struct config_retry, jitter), "0.2", .min = 0, .max = 1,
	 .sentence = "Each wait is longer or shorter by a random part of at most this, so that retries do not come "
		     "as a "
		     "herd."},
	{"max_attempts", KEY_INTEGER, offsetof(struct config_retry, max_attempts), "10", .min = 1, .max = INT32_MAX,
	 .sentence = "After so many attempts the row is failed."},
};
static const struct section retry_section = SECTION("sources[].retry.", retry_keys);

static const struct key source_keys[] = {
	{"name", KEY_NAME, offsetof(struct config_source, name),
	 .sentence = "The source's name in logs, metrics and commands: lower-case letters, digits, _ and -. "
		     "Required, unique."},
	{"table", KEY_TABLE, offsetof(struct config_source, table), "event_outbox",
	 "by preset: event_outbox, agent_message, task_execution, outbox",
	 .sentence = "The table: name or schema.name; \"quotes\" around a part that has capitals, spaces or dots."},
	{"preset", KEY_CHOICE, offsetof(struct config_source, preset), "outboxd", .words = preset_words,
	 .sentence = "A known kind of table, which gives the defaults of table, columns, states, topic, headers, "
		     "retry, ordering and on_delivered."},
	{"paused", KEY_WORD, offsetof(struct config_source, paused), "false", .words = boolean_words,
	 .sentence =
		 "true: no row is claimed; what is in hand is finished, and the rows in the table are still counted."},
	{"columns", KEY_SECTION, offsetof(struct config_source, columns), .section = &columns_section,
	 .sentence = "The table's column for each role; ~ for none. A column that is named here must exist; one "
		     "that only "
		     "the preset names may be missing where it is optional."},
	{"states", KEY_SECTION, offsetof(struct config_source, states), .section = &states_section,
	 .sentence = "The labels of the states in the status column."},
	{"topic", KEY_TEMPLATE, offsetof(struct config_source, topic),
	 .derived = "the column of columns.type in braces; with preset debezium outbox.event.{aggregatetype}",
	 .sentence = "The topic: text with {column} in it, any column of the table; {{ and }} are braces."},
	{"headers", KEY_HEADERS, offsetof(struct config_source, headers),
	 .derived =
		 "by preset: event_id, event_type and created_at from their columns; event_id from the id; event_id from the id and attempt from attempts; id",
	 .sentence = "Headers by name, each a template as in topic; no header where a column is NULL. Takes the "
		     "place of "
		     "the preset's."},
	{"format", KEY_WORD, offsetof(struct config_source, format), "plain", .words = format_of_record_words,
	 .sentence =
		 "plain: the record has the headers said here. cloudevents: it is a CloudEvent 1.0 in binary mode, with the "
		 "headers ce_id (columns.event_id, else the id), ce_source, ce_type, ce_subject (the key), ce_time "
		 "(columns.created_at) and content-type (by the payload's column type) beside them; headers of the "
		 "same name win."},
	{"cloudevents_source", KEY_TEXT, offsetof(struct config_source, cloudevents_source),
	 .derived = "//outboxd/NAME", .sentence = "ce_source of format: cloudevents: a URI, or a part of one."},
	{"ordering", KEY_WORD, offsetof(struct config_source, ordering), "key", .words = ordering_words,
	 .sentence = "key: rows of one key are delivered in order, one after the other. none: as fast as may be, "
		     "in any "
		     "order."},
	{"on_failed", KEY_WORD, offsetof(struct config_source, on_failed), "block", .words = on_failed_words,
	 .sentence = "With ordering: key, a failed row blocks its key until it is retried or skipped, or the key's "
		     "rows "
		     "continue without it."},
	{"on_delivered", KEY_WORD, offsetof(struct config_source, on_delivered), "mark",
	 .words = on_delivered_words,
	 .sentence =
		 "mark: a delivered row stays, in the state sent. delete: it is deleted, which costs PostgreSQL "
		 "a third less and keeps the table small; the role needs the privilege DELETE. await: it stays in flight "
		 "until its consumer writes a result into it; not with ordering: key."},
	{"result_timeout", KEY_DURATION, offsetof(struct config_source, result_timeout_us), "10m", .min = SHORTEST,
	 .max = LONGEST,
	 .sentence =
		 "With on_delivered: await, how long the consumer may take. Then the row is sent again; after the last "
		 "attempt it is failed."},
	{"batch", KEY_INTEGER, offsetof(struct config_source, batch), "500", .min = 1, .max = 100000,
	 .sentence = "Rows that one claim takes at most."},
	{"max_in_flight", KEY_INTEGER, offsetof(struct config_source, max_in_flight), "4000", .min = 1,
	 .max = 1000000,
	 .sentence =
		 "Rows held in memory at most, claimed and not yet settled; not less than batch. With on_delivered: "
		 "await also the rows of the table that are in flight at most, those that await a result included."},
	{"max_in_flight_per_key", KEY_INTEGER, offsetof(struct config_source, max_in_flight_per_key), "1000",
	 .min = 1, .max = 1000000,
	 .sentence =
		 "Rows of one key that may be with Kafka at once, with ordering: key; never more than a quarter of "
		 "max_in_flight. They keep their order: see README. 1: one after the other."},
	{"max_in_flight_bytes", KEY_SIZE, offsetof(struct config_source, max_in_flight_bytes), "64MiB", .min = 1024,
	 .max = INT64_C(1) << 40, .sentence = "The same in bytes; one row is always taken, however large."},
	{"rate_limit", KEY_INTEGER, offsetof(struct config_source, rate_limit), .min = 1, .max = 1000000,
	 .flags = KEY_NULLABLE,
	 .sentence =
		 "Rows a second that this instance takes at most, retries included: on average, and never more at once "
		 "than in a second. ~: no limit."},
	{"where", KEY_CONDITION, offsetof(struct config_source, where), .flags = KEY_NULLABLE,
	 .sentence =
		 "SQL over the table's columns: only rows for which it is true are taken, such as region = 'eu'. A row "
		 "that it leaves out still holds back the younger ones of its key. ~: all rows."},
	{"lease", KEY_DURATION, offsetof(struct config_source, lease_us), "60s", .min = SHORTEST, .max = LONGEST,
	 .sentence = "How long a claimed row belongs to this instance; after a crash others wait so long. At least "
		     "5s more "
		     "than kafka.message_timeout."},
	{"poll", KEY_DURATION, offsetof(struct config_source, poll_us), "1s", .min = SHORTEST, .max = LONGEST,
	 .sentence = "The longest wait between two claims when there is nothing to do."},
	{"notify", KEY_IDENTIFIER, offsetof(struct config_source, notify), .derived = "outboxd_NAME",
	 .flags = KEY_NULLABLE,
	 .sentence = "The channel of NOTIFY that wakes the relay, at most 63 bytes; ~: polling only."},
	{"retry", KEY_SECTION, offsetof(struct config_source, retry), .section = &retry_section,
	 .sentence = "When and how often a row is tried again."},
	{"dead_letter_topic", KEY_TEXT, offsetof(struct config_source, dead_letter_topic), .flags = KEY_NULLABLE,
	 .sentence =
		 "A row that is given up is published to this topic first, with its error in headers; it is failed only when "
		 "Kafka has that. ~: no dead letters."},
	{"postgres", KEY_SECTION, offsetof(struct config_source, postgres), .section = &postgres_section,
	 .sentence = "For this source only: what differs from postgres at the top."},
	{"kafka", KEY_SECTION, offsetof(struct config_source, kafka), .section = &kafka_section,
	 .sentence = "For this source only: what differs from kafka at the top."},
};
const struct section keys_source = SECTION("sources[].", source_keys);

static const struct key http_keys[] = {
	{"listen", KEY_LISTEN, 0, "127.0.0.1:9187", .flags = KEY_NULLABLE | KEY_RESTART,
	 .sentence = "Where /livez, /readyz, /status and /metrics are served: host:port or [v6]:port; ~: nowhere."},
};
static const struct section http_section = SECTION("http.", http_keys);

#define IN_LOG(member) (offsetof(struct config, member) - offsetof(struct config, log_level))

static const struct key log_keys[] = {
	{"level", KEY_WORD, IN_LOG(log_level), "info", .words = level_words,
	 .sentence = "What is logged: this and worse."},
	{"format", KEY_WORD, IN_LOG(log_format), "auto", .words = format_words,
	 .sentence = "auto: text on a terminal, else logfmt, with a priority in front where systemd's journal "
		     "reads it."},
};
static const struct section log_section = SECTION("log.", log_keys);

static const struct key top_keys[] = {
	{"postgres", KEY_SECTION, offsetof(struct config, postgres), .section = &postgres_section,
	 .sentence = "The database, for every source that does not say otherwise."},
	{"kafka", KEY_SECTION, offsetof(struct config, kafka), .section = &kafka_section,
	 .sentence = "The producer, for every source that does not say otherwise."},
	{"sources", KEY_SOURCES, offsetof(struct config, sources), .section = &keys_source,
	 .sentence = "The tables that are relayed. Required, one at least."},
	{"http", KEY_SECTION, offsetof(struct config, http), .section = &http_section,
	 .sentence = "The HTTP server."},
	{"log", KEY_SECTION, offsetof(struct config, log_level), .section = &log_section,
	 .sentence = "The log, on stderr."},
	{"drain_timeout", KEY_DURATION, offsetof(struct config, drain_timeout_us), "25s", .min = SHORTEST,
	 .max = LONGEST, .sentence = "How long a stop waits for what is in flight."},
};
const struct section keys_top = SECTION("", top_keys);

const struct key *keys_find(const struct section *section, const char *name)
{
	for (size_t i = 0; i < section->n_keys; i++)
		if (strcmp(section->keys[i].name, name) == 0)
			return &section->keys[i];
	return NULL;
}

/* Sections may stand in several places; the first is told. */
static const struct key *find_below(const struct section *section, const char *name, const struct section **where)
{
	const struct key *found = keys_find(section, name);

	*where = section;
	for (size_t i = 0; found == NULL && i < section->n_keys; i++)
		if (section->keys[i].section != NULL)
			found = find_below(section->keys[i].section, name, where);
	return found;
}

const struct key *keys_nearest(const struct section *section, const char *name, const struct section **elsewhere)
{
	const struct key *nearest = find_below(&keys_top, name, elsewhere);
	size_t distance, best = SIZE_MAX;

	if (nearest != NULL)
		return nearest;
	*elsewhere = NULL;
	for (size_t i = 0; i < section->n_keys; i++) {
		distance = value_distance(name, section->keys[i].name);
		if (distance < best) {
			nearest = &section->keys[i];
			best = distance;
		}
	}
	return nearest;
}

const char *keys_short_path(const struct section *section)
{
	static const char prefix[] = "sources[].";
	size_t len = sizeof(prefix) - 1;

	return strncmp(section->path, prefix, len) == 0 ? section->path + len : section->path;
}
