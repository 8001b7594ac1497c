/* Whole files: what is read, what is refused and where, what is printed. */
#include "unit.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The smallest good file, and what goes before the first source's own lines. */
#define TOP "postgres: {dsn: host=h}\nkafka: {bootstrap_servers: b}\n"
#define SOURCE TOP "sources:\n  - name: orders\n"

static char path[] = "/tmp/outboxd-config-XXXXXX";
static struct buf problems;

static void set_up(void)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void tear_down(void)
{
	unlink(path);
	buf_free(&problems);
}

static struct config *load(const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
	buf_clear(&problems);
	return config_load(path, &problems);
}

static struct config *load_good(const char *text)
{
	struct config *config = load(text);

	ck_assert_msg(config != NULL, "%s\nwas refused:\n%s", text, buf_text(&problems));
	ck_assert_str_eq(buf_text(&problems), "");
	return config;
}

/* The problems, each path replaced by F. */
static const char *refused(const char *text)
{
	static struct buf shown;
	size_t len = strlen(path);

	ck_assert_msg(load(text) == NULL, "%s\nwas accepted", text);
	buf_clear(&shown);
	for (const char *at = buf_text(&problems); *at != '\0'; at++) {
		if (strncmp(at, path, len) == 0) {
			buf_add_char(&shown, 'F');
			at += len;
		}
		buf_add_char(&shown, *at);
	}
	return buf_text(&shown);
}

static char *printed(const struct config *config)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	config_print(config, stream);
	fclose(stream);
	return text;
}

START_TEST(test_defaults)
{
	struct config *config = load_good(SOURCE);
	const struct config_source *source = config_find_source(config, "orders");

	ck_assert_ptr_eq(source, &config->sources[0]);
	ck_assert_ptr_null(config_find_source(config, "order"));
	ck_assert_str_eq(source->table, "event_outbox");
	ck_assert_str_eq(source->topic, "{event_type}");
	ck_assert_str_eq(source->notify, "outboxd_orders");
	ck_assert_str_eq(source->columns[COLUMN_ORDER], "id");
	ck_assert_str_eq(source->columns[COLUMN_KEY], "aggregate_id");
	ck_assert_ptr_null(source->columns[COLUMN_TOPIC]);
	ck_assert(source->column_required[COLUMN_PAYLOAD] && !source->column_required[COLUMN_KEY]);
	ck_assert_uint_eq(source->n_headers, 3);
	ck_assert_str_eq(source->headers[1].name, "event_type");
	ck_assert_str_eq(source->headers[1].template_text, "{event_type}");
	ck_assert(source->headers[1].optional);
	ck_assert_int_eq(source->ordering, ORDERING_KEY);
	ck_assert_int_eq(source->on_failed, ON_FAILED_BLOCK);
	ck_assert_int_eq(source->on_delivered, ON_DELIVERED_MARK);
	ck_assert_int_eq(source->result_timeout_us, 600000000);
	ck_assert_int_eq(source->lease_us, 60000000);
	ck_assert_int_eq(source->max_in_flight_bytes, 64 << 20);
	ck_assert_double_eq(source->retry.multiplier, 2);
	ck_assert_int_eq(source->retry.max_attempts, 10);
	ck_assert_str_eq(source->postgres.dsn, "host=h");
	ck_assert_int_eq(source->kafka.message_timeout_us, 30000000);
	ck_assert_str_eq(config->http.host, "127.0.0.1");
	ck_assert_int_eq(config->http.port, 9187);
	ck_assert_int_eq(config->log_level, LOG_INFO);
	ck_assert_int_eq(config->drain_timeout_us, 25000000);
	config_free(config);
}
END_TEST

START_TEST(test_preset_task)
{
	struct config *config = load_good(SOURCE "    preset: task\n    result_timeout: 90s\n");
	const struct config_source *source = &config->sources[0];

	ck_assert_str_eq(source->table, "task_execution");
	ck_assert_str_eq(source->topic, "{task_type}");
	ck_assert_str_eq(source->columns[COLUMN_KEY], "id");
	ck_assert_str_eq(source->columns[COLUMN_STATUS], "state");
	ck_assert_str_eq(source->columns[COLUMN_AVAILABLE_AT], "next_run_at");
	ck_assert_str_eq(source->columns[COLUMN_LEASE_UNTIL], "next_run_at");
	ck_assert_str_eq(source->columns[COLUMN_UPDATED_AT], "updated_at");
	ck_assert_str_eq(source->states[0], "RUNABLE");
	ck_assert_str_eq(source->states[1], "RUNNING");
	ck_assert_str_eq(source->states[2], "SUCCESS");
	ck_assert_str_eq(source->states[3], "FAILED");
	ck_assert_uint_eq(source->n_headers, 2);
	ck_assert_str_eq(source->headers[0].name, "event_id");
	ck_assert_str_eq(source->headers[0].template_text, "{id}");
	ck_assert_str_eq(source->headers[1].name, "attempt");
	ck_assert_str_eq(source->headers[1].template_text, "{attempts}");
	ck_assert_int_eq(source->ordering, ORDERING_NONE);
	ck_assert_int_eq(source->on_delivered, ON_DELIVERED_AWAIT);
	ck_assert_int_eq(source->result_timeout_us, 90000000);
	config_free(config);
}
END_TEST

START_TEST(test_preset_message)
{
	struct config *config = load_good(SOURCE "    preset: message\n    columns: {key: ~, created_at: made}\n"
						 "    ordering: none\n    retry: {max: 1h}\n");
	const struct config_source *source = &config->sources[0];

	ck_assert_str_eq(source->table, "agent_message");
	ck_assert_str_eq(source->topic, "{message_type}");
	ck_assert_str_eq(source->columns[COLUMN_AVAILABLE_AT], "next_retry_time");
	ck_assert_str_eq(source->columns[COLUMN_LEASE_UNTIL], "next_retry_time");
	ck_assert_ptr_null(source->columns[COLUMN_KEY]);
	ck_assert_str_eq(source->columns[COLUMN_CREATED_AT], "made");
	ck_assert(source->column_required[COLUMN_CREATED_AT] && !source->column_required[COLUMN_LAST_ERROR]);
	ck_assert_str_eq(source->states[3], "FAILED_PERMANENTLY");
	ck_assert_uint_eq(source->n_headers, 1);
	ck_assert_str_eq(source->headers[0].template_text, "{id}");
	ck_assert_int_eq(source->retry.initial_us, 10000000);
	ck_assert_int_eq(source->retry.max_us, INT64_C(3600000000));
	config_free(config);
}
END_TEST

START_TEST(test_preset_debezium)
{
	struct config *config = load_good(SOURCE "    preset: debezium\n    columns: {type: kind}\n");
	const struct config_source *source = &config->sources[0];

	ck_assert_str_eq(source->table, "outbox");
	ck_assert_str_eq(source->topic, "outbox.event.{aggregatetype}");
	ck_assert_str_eq(source->columns[COLUMN_KEY], "aggregateid");
	ck_assert_str_eq(source->columns[COLUMN_ORDER], "outboxd_seq");
	ck_assert_str_eq(source->columns[COLUMN_TYPE], "kind");
	ck_assert_str_eq(source->columns[COLUMN_SETTLED_AT], "settled_at");
	ck_assert_ptr_null(source->columns[COLUMN_EVENT_ID]);
	ck_assert_ptr_null(source->columns[COLUMN_HEADERS]);
	ck_assert_str_eq(source->states[1], "SENDING");
	ck_assert_uint_eq(source->n_headers, 1);
	ck_assert_str_eq(source->headers[0].name, "id");
	ck_assert_str_eq(source->headers[0].template_text, "{id}");
	config_free(config);
}
END_TEST

START_TEST(test_overrides)
{
	struct config *config =
		load_good("sources:\n"
			  "  - name: a\n    postgres: {lock_timeout: 2s}\n"
			  "    kafka: {properties: {linger.ms: 5, acks: -1}}\n"
			  "  - name: b\n    postgres: {dsn: host=other}\n    notify: ~\n    headers: {}\n"
			  "    columns: {type: kind}\n"
			  "postgres: {dsn: host=h, lock_timeout: 3s}\n"
			  "kafka: {bootstrap_servers: b, properties: {linger.ms: 1, client.id: x}}\n"
			  "http: {listen: \"[::1]:80\"}\n");
	const struct config_source *a = &config->sources[0], *b = &config->sources[1];

	ck_assert_str_eq(a->postgres.dsn, "host=h");
	ck_assert_int_eq(a->postgres.lock_timeout_us, 2000000);
	ck_assert_int_eq(b->postgres.lock_timeout_us, 3000000);
	ck_assert_str_eq(b->postgres.dsn, "host=other");
	ck_assert_uint_eq(a->kafka.n_properties, 5);
	ck_assert_str_eq(a->kafka.properties[1].value, "-1");
	ck_assert_str_eq(a->kafka.properties[3].value, "5");
	ck_assert_str_eq(b->kafka.properties[3].value, "1");
	ck_assert_ptr_null(b->notify);
	ck_assert_uint_eq(b->n_headers, 0);
	ck_assert_str_eq(b->topic, "{kind}");
	ck_assert_str_eq(config->http.host, "::1");
	ck_assert_int_eq(config->http.port, 80);
	config_free(config);
}
END_TEST

/* A file of good values around one line of a source. */
static const struct {
	const char *text, *problems;
} mistakes[] = {
	{"", "F:1:1: postgres.dsn is missing\nF:1:1: kafka.bootstrap_servers is missing\n"
	     "F:1:1: sources is missing: one at least is needed\n"},
	{"# nothing\n", "F:1:1: postgres.dsn is missing\nF:1:1: kafka.bootstrap_servers is missing\n"
			"F:1:1: sources is missing: one at least is needed\n"},
	{TOP "sources: []\n", "F:3:10: sources is missing: one at least is needed\n"},
	{TOP "sources: {name: x}\n", "F:3:10: sources: must be a list, not a map\n"},
	{TOP "sources: [x, ~]\n", "F:3:11: sources[]: must be a map, not a single value\n"
				  "F:3:14: sources[]: must be a map, not nothing\n"},
	{TOP "sources:\n  - table: x\n", "F:4:5: name is missing\n"},
	{SOURCE "  - name: orders\n", "F:5:11: name orders is that of another source before\n"},
	{"postgres: {dns: host=h}\nkafka: {bootstrap_servers: b}\nsources: [{name: x}]\n",
	 "F:1:11: postgres.dsn is missing\nF:1:12: unknown key postgres.dns: did you mean dsn?\n"},
	{"postgres: {dsn: \"${UNSET_VARIABLE}\"}\nkafka: {bootstrap_servers: b}\nsources: [{name: x}]\n",
	 "F:1:17: postgres.dsn: the environment variable UNSET_VARIABLE is not set (${UNSET_VARIABLE:-default} would have "
	 "a default)\n"},
	{SOURCE "    pol: 1s\n    lesae: 5s\n",
	 "F:5:5: unknown key pol: did you mean poll?\nF:6:5: unknown key lesae: did you mean lease?\n"},
	{SOURCE "batch: 5\n", "F:5:1: unknown key batch: it belongs elsewhere: sources[].batch\n"},
	{SOURCE "log: {levels: debug}\n", "F:5:7: unknown key log.levels: did you mean level?\n"},
	{SOURCE "http: {xyz: 1}\n", "F:5:8: unknown key http.xyz: the keys here are listen\n"},
	{SOURCE "    batch: 7\n    batch: 8\n",
	 "F:6:5: batch is given twice: here in line 6 and before in line 5\n"},
	{SOURCE "http: ~\nhttp: ~\n", "F:6:1: http is given twice: here in line 6 and before in line 5\n"},
	{SOURCE "    lease: 5 s\n",
	 "F:5:12: lease: \"5 s\" must be a duration from 100ms to 365d, such as 250ms, 5s, 10m, 2h, 7d\n"},
	{SOURCE "    poll: 99ms\n",
	 "F:5:11: poll: \"99ms\" must be a duration from 100ms to 365d, such as 250ms, 5s, 10m, 2h, 7d\n"},
	{SOURCE "    batch: 2147483648\n",
	 "F:5:12: batch: \"2147483648\" must be a whole number from 1 to 100000\n"},
	{SOURCE "    batch: 0\n", "F:5:12: batch: \"0\" must be a whole number from 1 to 100000\n"},
	{SOURCE "    batch: [1]\n", "F:5:12: batch: must be a single value, not a list\n"},
	{SOURCE "    batch:\n", "F:5:5: batch: must be a single value, not nothing\n"},
	{SOURCE "    max_in_flight_bytes: 64MB\n",
	 "F:5:26: max_in_flight_bytes: \"64MB\" must be a size from 1KiB to 1TiB, such as 64KiB, 1MiB\n"},
	{SOURCE "    retry: {jitter: 1.5}\n",
	 "F:5:21: retry.jitter: \"1.5\" must be a number from 0 to 1, with up to 6 decimals\n"},
	{SOURCE "    ordering: keys\n",
	 "F:5:15: ordering: \"keys\" must be one of key, none (did you mean key?)\n"},
	{SOURCE "    on_delivered: deleted\n",
	 "F:5:19: on_delivered: \"deleted\" must be one of mark, delete, await (did you mean delete?)\n"},
	{SOURCE "    preset: tasks\n",
	 "F:5:13: preset: \"tasks\" must be one of outboxd, message, task, debezium (did you mean task?)\n"},
	{SOURCE "    table: a.b.c\n",
	 "F:5:12: table: a.b.c is no table name: write name or schema.name, with \"quotes\" "
	 "around a part that has capitals, spaces or dots\n"},
	{SOURCE "    topic: \"{\"\n",
	 "F:5:12: topic: \"{\": the brace at character 1 is not closed ({{ is a brace itself)\n"},
	{SOURCE "    format: cloudevent\n",
	 "F:5:13: format: \"cloudevent\" must be one of plain, cloudevents (did you mean cloudevents?)\n"},
	{SOURCE "    cloudevents_source: \"/a b\"\n",
	 "F:5:25: cloudevents_source: \"/a b\" is no URI: what else there is in it is written as %20 and so on\n"},
	{SOURCE "    cloudevents_source: \"/%2g\"\n",
	 "F:5:25: cloudevents_source: \"/%2g\" is no URI: what else there is in it is written as %20 and so on\n"},
	{SOURCE "    cloudevents_source: \"/%2\"\n",
	 "F:5:25: cloudevents_source: \"/%2\" is no URI: what else there is in it is written as %20 and so on\n"},
	{SOURCE "    cloudevents_source: \"\"\n", "F:5:25: cloudevents_source: must not be empty\n"},
	{SOURCE "    dead_letter_topic: \"a b\"\n",
	 "F:5:24: dead_letter_topic: \"a b\" is not a topic's name, which has at most 249 letters, "
	 "digits, . _ and -, and is not . or ..\n"},
	{SOURCE "    dead_letter_topic: ..\n",
	 "F:5:24: dead_letter_topic: \"..\" is not a topic's name, which has at most 249 letters, "
	 "digits, . _ and -, and is not . or ..\n"},
	{SOURCE "    topic: a b\n",
	 "F:5:12: topic: \"a b\" cannot be in a topic's name, which has at most 249 letters, "
	 "digits, . _ and -, and is not . or ..\n"},
	{SOURCE "    headers: {x: \"{}\", y: ~}\n",
	 "F:5:18: headers.x: the braces at character 1 hold no column name\n"
	 "F:5:24: headers.y: must be a single value, not nothing\n"},
	{SOURCE "    columns: {id: ~, status: '\"S\"'}\n",
	 "F:5:15: columns.id: must be a single value, not nothing\n"
	 "F:5:30: columns.status: \"S\" must be written without the quotes: it is taken exactly as it stands\n"},
	{SOURCE "    where: a) OR (b\n", "F:5:12: where: closes a parenthesis that it has not opened\n"},
	{SOURCE "    where: ''\n", "F:5:12: where: must not be empty\n"},
	{SOURCE "    rate_limit: 0\n", "F:5:17: rate_limit: \"0\" must be a whole number from 1 to 1000000\n"},
	{SOURCE "    notify: x123456789012345678901234567890123456789012345678901234567890123\n",
	 "F:5:13: notify: \"x123456789012345678901234567890123456789012345678901234567890123\" has 64 bytes; PostgreSQL's "
	 "names have at most 63\n"},
	{TOP "sources:\n  - name: x1234567890123456789012345678901234567890123456789012345\n",
	 "F:4:11: name is so long that outboxd_x1234567890123456789012345678901234567890123456789012345, the default of "
	 "notify, has 64 bytes: a channel has at most 63\n"},
	{TOP "sources:\n  - name: Orders\n",
	 "F:4:11: name: \"Orders\" must be 1 to 63 lower-case letters, digits, _ or -\n"},
};

START_TEST(test_F074_F075_F077_mistakes)
{
	unsetenv("UNSET_VARIABLE");
	ck_assert_str_eq(refused(mistakes[_i].text), mistakes[_i].problems);
}
END_TEST

/* Keys of interface.md whose function is not there yet. */
START_TEST(test_keys_without_a_function_are_unknown)
{
	static const char *const keys[] = {
		"archive_table",
		"retention",
	};
	char text[256];

	for (int i = 0; i < COUNT(keys); i++) {
		snprintf(text, sizeof(text), SOURCE "    %s: 1\n", keys[i]);
		ck_assert_ptr_nonnull(strstr(refused(text), "F:5:5: unknown key "));
	}
	ck_assert_ptr_nonnull(strstr(refused(SOURCE "alerts: []\n"), "F:5:1: unknown key alerts"));
}
END_TEST

START_TEST(test_F089_listen)
{
	static const char *const bad[] = {"9187",  ":9187", "h:0", "h:65536", "::1:80", "[::1]", "[::1]80",
					  "[]:80", "h:80x", "h:",  "a b:80",  "h:-1",	"h:080", "http://h:80"};
	static const char *const good[] = {"0.0.0.0:1", "localhost:65535", "[::]:9187"};
	char text[256];

	for (int i = 0; i < COUNT(bad); i++) {
		snprintf(text, sizeof(text), SOURCE "http: {listen: \"%s\"}\n", bad[i]);
		ck_assert_ptr_nonnull(
			strstr(refused(text), "must be host:port or [v6]:port, with a port from 1 to 65535"));
	}
	for (int i = 0; i < COUNT(good); i++) {
		snprintf(text, sizeof(text), SOURCE "http: {listen: \"%s\"}\n", good[i]);
		config_free(load_good(text));
	}
}
END_TEST

/* Rules between settings: blamed on the one that is there, the other one named. */
static const struct {
	const char *text, *problems;
} conflicts[] = {
	{SOURCE "    max_in_flight: 100\n",
	 "F:5:20: max_in_flight 100 is less than batch 500: one claim would not fit in\n"},
	{SOURCE "    max_in_flight: 6000\n    batch: 7000\n",
	 "F:6:12: max_in_flight 6000 is less than batch 7000: one claim would not fit in\n"},
	{SOURCE "    retry: {initial: 10m}\n", "F:5:22: retry.max is shorter than retry.initial\n"},
	{SOURCE "    columns: {type: ~}\n    topic: t\n    format: cloudevents\n",
	 "F:7:13: format: cloudevents needs columns.type: each event has a type\n"},
	{SOURCE "    topic: t\n    dead_letter_topic: t\n",
	 "F:6:24: dead_letter_topic is the topic of all rows: name another one\n"},
	{SOURCE "    columns: {key: ~}\n",
	 "F:5:15: ordering: key needs columns.key: name the column, or set ordering: none\n"},
	{SOURCE "    on_delivered: await\n",
	 "F:5:19: on_delivered: await and ordering: key exclude each other: set ordering: none\n"},
	{SOURCE "    preset: task\n    ordering: key\n",
	 "F:6:15: on_delivered: await and ordering: key exclude each other: set ordering: none\n"},
	{SOURCE "    columns: {key: ~}\n    ordering: key\n",
	 "F:6:15: ordering: key needs columns.key: name the column, or set ordering: none\n"},
	{SOURCE "    columns: {settled_at: ~, last_error: ~}\n",
	 "F:5:30: on_failed: block needs columns.settled_at or columns.last_error: without both a skipped row cannot be "
	 "told from a failed one\n"},
	{SOURCE "    columns: {attempts: status}\n",
	 "F:5:25: columns.status and columns.attempts are both status, and the relay writes to it\n"},
	{SOURCE "    columns: {lease_until: settled_at}\n",
	 "F:5:28: columns.lease_until and columns.settled_at are both settled_at, and the relay writes to it\n"},
	{SOURCE "    states: {sent: PENDING}\n", "F:5:20: states.pending and states.sent are both PENDING\n"},
	{SOURCE "    columns: {type: ~}\n", "F:5:15: topic is missing, and columns.type gives no default for it\n"},
	{SOURCE "    lease: 0s\n    batch: x\n    max_in_flight: 1\n",
	 "F:5:12: lease: \"0s\" must be a duration from 100ms to 365d, such as 250ms, 5s, 10m, 2h, 7d\n"
	 "F:6:12: batch: \"x\" must be a whole number from 1 to 100000\n"},
};

START_TEST(test_conflicts)
{
	ck_assert_str_eq(refused(conflicts[_i].text), conflicts[_i].problems);
}
END_TEST

static const char *const agreements[] = {
	SOURCE "    columns: {key: ~}\n    ordering: none\n",
	SOURCE "    columns: {settled_at: ~, last_error: ~}\n    on_failed: continue\n",
	SOURCE "    columns: {settled_at: ~}\n",
	SOURCE "    columns: {last_error: ~}\n",
	SOURCE "    columns: {lease_until: available_at, key: id, event_id: id, order: id}\n",
	SOURCE "    columns: {type: ~}\n    topic: orders\n",
	SOURCE "    lease: 35s\n",
	SOURCE "    lease: 10s\n    kafka: {message_timeout: 4s}\n",
	SOURCE "    lease: 10s\n    kafka: {properties: {message.timeout.ms: 5000}}\n",
};

START_TEST(test_agreements)
{
	config_free(load_good(agreements[_i]));
}
END_TEST

static const struct {
	const char *text, *problems;
} leases[] = {
	{SOURCE "    lease: 30s\n    kafka: {message_timeout: 120s}\n",
	 "F:6:30: lease 30s is too short for kafka's message_timeout 120s: the smallest that would do is 125s, in source "
	 "orders\n"},
	{SOURCE "    kafka: {message_timeout: 2m}\n    lease: 30s\n",
	 "F:6:12: lease 30s is too short for kafka's message_timeout 120s: the smallest that would do is 125s, in source "
	 "orders\n"},
	{SOURCE "    lease: 34999ms\n",
	 "F:5:12: lease 34999ms is too short for kafka's message_timeout 30s: the smallest that would do is 35s, in source "
	 "orders\n"},
	{"postgres: {dsn: host=h}\nkafka: {bootstrap_servers: b, properties: {message.timeout.ms: 120000}}\n"
	 "sources: [{name: orders}]\n",
	 "F:2:64: lease 60s is too short for kafka's message.timeout.ms 120s: the smallest that would do is 125s, in source "
	 "orders\n"},
	{SOURCE "    kafka: {properties: {delivery.timeout.ms: 120500}}\n",
	 "F:5:47: lease 60s is too short for kafka's delivery.timeout.ms 120500ms: the smallest that would do is 125500ms, "
	 "in source orders\n"},
	{SOURCE "    kafka: {properties: {message.timeout.ms: 0}}\n",
	 "F:5:46: kafka.properties.message.timeout.ms 0 has no end: no lease would be longer\n"},
	{SOURCE "    kafka: {properties: {message.timeout.ms: 5s}}\n",
	 "F:5:46: kafka.properties.message.timeout.ms \"5s\" must be a whole number of milliseconds from 1 to 2147483647\n"},
	{SOURCE "    kafka: {message_timeout: 5s, properties: {message.timeout.ms: 5000}}\n",
	 "F:5:67: kafka.message_timeout and kafka.properties.message.timeout.ms are the same setting: give one of them\n"},
};

START_TEST(test_F015_lease_and_delivery_timeout)
{
	ck_assert_str_eq(refused(leases[_i].text), leases[_i].problems);
}
END_TEST

/* A source's own time-out, in either form, takes the place of the one at the top, in either form. */
START_TEST(test_F015_timeouts_replace_each_other)
{
	struct config *config = load_good("postgres: {dsn: host=h}\n"
					  "kafka: {bootstrap_servers: b, properties: {message.timeout.ms: 50000}}\n"
					  "sources: [{name: a}, {name: b, kafka: {message_timeout: 7s}},\n"
					  "  {name: c, kafka: {properties: {delivery.timeout.ms: 8000}}}]\n");

	ck_assert_int_eq(config->sources[0].kafka.message_timeout_us, 50000000);
	ck_assert_int_eq(config->sources[1].kafka.message_timeout_us, 7000000);
	ck_assert_int_eq(config->sources[2].kafka.message_timeout_us, 8000000);
	ck_assert_uint_eq(config->sources[0].kafka.n_properties, 4);
	ck_assert_uint_eq(config->sources[1].kafka.n_properties, 3);
	ck_assert_uint_eq(config->sources[2].kafka.n_properties, 4);
	ck_assert_str_eq(config->sources[2].kafka.properties[3].name, "delivery.timeout.ms");
	config_free(config);
}
END_TEST

#define KEY_CONFLICT " conflicts with ordering: key of source orders: "
#define IDEMPOTENCE_CONFLICT " conflicts with enable.idempotence: true of source orders: "

static const struct {
	const char *source, *properties, *problems; /* NULL: all is well */
} guarantees[] = {
	{"", "{enable.idempotence: false, max.in.flight: 5}",
	 "F:6:46: kafka.properties.enable.idempotence: false" KEY_CONFLICT
	 "what the library sends again can arrive twice, and behind what follows it when "
	 "max.in.flight.requests.per.connection is above 1\n"},
	{"", "{acks: 1}",
	 "F:6:32: kafka.properties.acks: 1" KEY_CONFLICT "it needs acks: all\n"
	 "F:6:32: kafka.properties.acks: 1" IDEMPOTENCE_CONFLICT "it needs acks: all\n"},
	{"", "{request.required.acks: 1}",
	 "F:6:49: kafka.properties.request.required.acks: 1" KEY_CONFLICT "it needs acks: all\n"
	 "F:6:49: kafka.properties.request.required.acks: 1" IDEMPOTENCE_CONFLICT "it needs acks: all\n"},
	{"", "{max.in.flight.requests.per.connection: 6}",
	 "F:6:65: kafka.properties.max.in.flight.requests.per.connection: 6" IDEMPOTENCE_CONFLICT
	 "5 is the most\n"},
	{"", "{partitioner: random}",
	 "F:6:39: kafka.properties.partitioner: random" KEY_CONFLICT
	 "rows of one key would come to different partitions\n"},
	{"", "{acks: -1, enable.idempotence: True, max.in.flight: 5, partitioner: murmur2}", NULL},
	{"ordering: none", "{enable.idempotence: false, acks: 1, max.in.flight: 100, partitioner: random}", NULL},
	{"ordering: none", "{acks: 1}",
	 "F:6:32: kafka.properties.acks: 1" IDEMPOTENCE_CONFLICT "it needs acks: all\n"},
	{"ordering: none", "{enable.idempotence: false, acks: 0}",
	 "F:6:59: kafka.properties.acks: 0 conflicts with at least once of source orders: nothing would say that a message "
	 "has arrived\n"},
	{"", "{bootstrap.servers: x}",
	 "F:6:26: kafka.properties: bootstrap.servers cannot be set: use kafka.bootstrap_servers\n"},
	{"", "{metadata.broker.list: x}",
	 "F:6:26: kafka.properties: metadata.broker.list cannot be set: use kafka.bootstrap_servers\n"},
	{"", "{transactional.id: x}",
	 "F:6:26: kafka.properties: transactional.id cannot be set: outboxd does not use Kafka's transactions\n"},
	{"", "{linger.ms: 1, queue.buffering.max.ms: 2}",
	 "F:6:40: kafka.properties: queue.buffering.max.ms is another name of linger.ms in line 6\n"},
	{"", "{linger.ms: ~}", "F:6:26: kafka.properties.linger.ms: must be a single value, not nothing\n"},
};

START_TEST(test_F038_guarantees)
{
	char text[512];

	snprintf(text, sizeof(text), SOURCE "    %s\n    kafka: {properties: %s}\n", guarantees[_i].source,
		 guarantees[_i].properties);
	if (guarantees[_i].problems == NULL)
		config_free(load_good(text));
	else
		ck_assert_str_eq(refused(text), guarantees[_i].problems);
}
END_TEST

/* The later of the two is blamed, and one source's ordering does not bind another. */
START_TEST(test_F038_several_sources)
{
	ck_assert_str_eq(
		refused("postgres: {dsn: host=h}\n"
			"kafka: {bootstrap_servers: b, properties: {enable.idempotence: false}}\n"
			"sources: [{name: a, ordering: none}, {name: b,\n  ordering: key}]\n"),
		"F:4:13: kafka.properties.enable.idempotence: false conflicts with ordering: key of source b: "
		"what the library sends again can arrive twice, and behind what follows it when "
		"max.in.flight.requests.per.connection is above 1\n");
}
END_TEST

START_TEST(test_F038_effective_values_are_printed)
{
	struct config *config = load_good(SOURCE);
	char *text = printed(config);

	ck_assert_ptr_nonnull(
		strstr(text, "    enable.idempotence: true\n    acks: all\n    partitioner: murmur2_random\n"));
	free(text);
	config_free(config);
}
END_TEST

START_TEST(test_F076_values_from_the_environment)
{
	static const char hostile[] = ": #{}\"\\'\n- x: ~";
	struct config *config;

	setenv("HOSTILE", hostile, 1);
	setenv("BATCH", "7", 1);
	config = load_good(
		SOURCE
		"    batch: ${BATCH}\n    poll: ${UNSET_VARIABLE:-3s}\n"
		"    kafka: {properties: {client.id: \"${HOSTILE}\", sasl.password: 'pa$$$$w0rd$${X}#:\"'''}}\n");
	ck_assert_int_eq(config->sources[0].batch, 7);
	ck_assert_int_eq(config->sources[0].poll_us, 3000000);
	ck_assert_str_eq(config->sources[0].kafka.properties[3].value, hostile);
	ck_assert_str_eq(config->sources[0].kafka.properties[4].value, "pa$$w0rd${X}#:\"'");
	config_free(config);
}
END_TEST

START_TEST(test_F088_printed_configuration_has_no_secrets)
{
	struct config *config = load_good(
		"postgres: {dsn: 'postgresql://u:S3cr3t%21@h/d'}\n"
		"kafka: {bootstrap_servers: b, properties: {sasl.password: S3cr3t, sasl.username: visible}}\n"
		"sources: [{name: x, postgres: {dsn: 'host=h password=S3cr3t'}}, {name: y, postgres: {dsn: S3cr3t}}]\n");
	char *text = printed(config);

	ck_assert_ptr_null(strstr(text, "S3cr3t"));
	ck_assert_ptr_nonnull(strstr(text, "sasl.password: \"***\"\n    sasl.username: visible\n"));
	ck_assert_ptr_nonnull(strstr(text, "dsn: \"postgresql://u:***@h/d\"\n"));
	ck_assert_ptr_nonnull(strstr(text, "dsn: \"host=h password=***\"\n"));
	free(text);
	config_free(config);
}
END_TEST

/* What is printed can be loaded, and says the same. */
START_TEST(test_printed_configuration_is_one)
{
	struct config *config = load_good(
		SOURCE "    table: '\"Billing\".\"Out \"\"Box\"'\n    notify: \"a $$ b\\n\\x85\"\n"
		       "    headers: {\"a: b\": \"{{x}} \\\\ '\", c: 'null{id}'}\n"
		       "    columns: {key: Key, topic: 'null', updated_at: \"\\U0001F600\"}\n"
		       "    kafka: {message_timeout: 1500ms, properties: {linger.ms: 0.5}}\n"
		       "    rate_limit: 250\n    where: \"a = '$$1' -- b\\n  AND c\"\n"
		       "    retry: {multiplier: 1.25, jitter: 0}\n    max_in_flight_bytes: 1025B\n"
		       "  - name: second\n    preset: message\n    notify: ~\n    rate_limit: ~\n    where: ~\n"
		       "http: {listen: '[::1]:80'}\nlog: {level: debug, format: json}\n");
	char *first = printed(config), *second;

	config_free(config);
	config = load_good(first);
	second = printed(config);
	ck_assert_str_eq(first, second);
	ck_assert_str_eq(config->sources[0].table, "\"Billing\".\"Out \"\"Box\"");
	ck_assert_str_eq(config->sources[0].notify, "a $ b\n\xC2\x85");
	ck_assert_str_eq(config->sources[0].columns[COLUMN_TOPIC], "null");
	ck_assert_int_eq(config->sources[0].kafka.message_timeout_us, 1500000);
	ck_assert_int_eq(config->sources[1].kafka.message_timeout_us, 30000000);
	ck_assert_int_eq(config->sources[0].rate_limit, 250);
	ck_assert_int_eq(config->sources[1].rate_limit, 0);
	ck_assert_str_eq(config->sources[0].where, "a = '$1' -- b\n  AND c");
	ck_assert_ptr_null(config->sources[1].where);
	config_free(config);
	free(first);
	free(second);
}
END_TEST

START_TEST(test_F075_byte_order_mark_and_line_ends)
{
	config_free(load_good("\xEF\xBB\xBFpostgres: {dsn: host=h}\r\nkafka: {bootstrap_servers: b}\r\nsources:\r\n"
			      "  - name: orders\r\n"));
}
END_TEST

START_TEST(test_files_that_cannot_be_read)
{
	struct buf why = {0};

	ck_assert_ptr_null(config_load("/nowhere/at/all", &why));
	ck_assert_str_eq(buf_text(&why), "/nowhere/at/all: No such file or directory\n");
	buf_clear(&why);
	ck_assert_ptr_null(config_load("/tmp", &why));
	ck_assert_str_eq(buf_text(&why), "/tmp: Is a directory\n");
	buf_free(&why);
}
END_TEST

static bool refuse_dsn(const char *dsn, struct err *err)
{
	return strcmp(dsn, "host=h") == 0 || err_set(err, "no");
}

static bool refuse_property(const char *name, const char *value, struct err *err)
{
	(void)value;
	return strcmp(name, "bad") != 0 || err_set(err, "no such property");
}

START_TEST(test_libraries_judge_in_the_same_go)
{
	static const struct config_judge judge = {.dsn = refuse_dsn, .property = refuse_property};

	ck_assert_ptr_null(
		load(SOURCE "    pol: 1s\n    postgres: {dsn: x}\n    kafka: {properties: {bad: 1, good: 2}}\n"));
	buf_clear(&problems);
	ck_assert_ptr_null(config_load_judged(path, &judge, &problems));
	ck_assert_ptr_nonnull(strstr(buf_text(&problems), ":5:5: unknown key pol"));
	ck_assert_ptr_nonnull(strstr(buf_text(&problems), ":6:21: postgres.dsn: no\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&problems), ":7:31: kafka.properties.bad: no such property\n"));
	ck_assert_ptr_null(strstr(buf_text(&problems), "good"));
}
END_TEST

static char *read_whole(const char *name)
{
	FILE *file = fopen(name, "r");
	char *bytes = calloc(1, 1 << 20);

	ck_assert_msg(file != NULL, "%s: run the tests from the top of the tree", name);
	ck_assert_uint_gt(fread(bytes, 1, (1 << 20) - 1, file), 0);
	fclose(file);
	return bytes;
}

/* Each `key:` that is printed stands in the text as well. */
static void expect_keys(const char *text, const char *printed_lines)
{
	char key[64];

	for (const char *line = printed_lines; *line != '\0'; line += strcspn(line, "\n") + 1) {
		line += strspn(line, " -");
		snprintf(key, sizeof(key), "%.*s:", (int)strcspn(line, ":"), line);
		ck_assert_msg(strstr(text, key) != NULL, "there is no %s", key);
	}
}

/* The commented file has the defaults, all of them, and nothing else. */
START_TEST(test_default_configuration)
{
	struct config *commented = config_load("conf/outboxd.yaml", &problems), *minimal;
	char *text = read_whole("conf/outboxd.yaml"), *all, *defaults;

	ck_assert_str_eq(buf_text(&problems), "");
	minimal = load_good("postgres: {dsn: host=/run/postgresql dbname=shop user=outboxd}\n"
			    "kafka: {bootstrap_servers: \"127.0.0.1:9092\"}\nsources: [{name: orders}]\n");
	all = printed(commented);
	defaults = printed(minimal);
	ck_assert_str_eq(all, defaults);
	expect_keys(text, defaults);
	config_free(commented);
	config_free(minimal);
	free(text);
	free(all);
	free(defaults);
}
END_TEST

START_TEST(test_documentation_has_the_reference)
{
	char *reference = NULL, *documentation = read_whole("docs/configuration.md");
	size_t size;
	FILE *stream = open_memstream(&reference, &size);

	config_print_reference(stream);
	fclose(stream);
	ck_assert_uint_gt(size, 1000);
	ck_assert_msg(strstr(documentation, reference) != NULL, "docs/configuration.md is behind: make docs");
	free(reference);
	free(documentation);
}
END_TEST

/* Files made of broken pieces: no crash, and a refusal always has a reason. The seed is fixed: a failure repeats. */
START_TEST(test_random_files)
{
	static const char *const pieces[] = {SOURCE,
					     "sources:",
					     "\n  - ",
					     "name: x",
					     "\n    ",
					     "kafka: ",
					     "{properties: ",
					     "{acks: 1}",
					     "}",
					     "columns: {",
					     "key: ~",
					     ", ",
					     "headers: {",
					     "a: '{b}'",
					     "\n",
					     "postgres:",
					     "sources: [1]",
					     "lease: 1s",
					     "batch: 5",
					     "topic: '{'",
					     "[",
					     "]",
					     "preset: message",
					     "${X}",
					     "~",
					     "message_timeout: 9d",
					     "states: {sent: A"};
	struct buf text = {0};
	struct config *config;

	srandom(3);
	for (int i = 0; i < 3000; i++) {
		buf_clear(&text);
		for (long n = random() % 20; n >= 0; n--)
			buf_add_string(&text, pieces[(size_t)random() % (sizeof(pieces) / sizeof(pieces[0]))]);
		config = load(buf_text(&text));
		ck_assert_int_eq(config == NULL, problems.len > 0);
		config_free(config);
	}
	buf_free(&text);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("config");
	TCase *tcase = tcase_create("config");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, test_defaults);
	tcase_add_test(tcase, test_preset_message);
	tcase_add_test(tcase, test_preset_debezium);
	tcase_add_test(tcase, test_preset_task);
	tcase_add_test(tcase, test_overrides);
	tcase_add_loop_test(tcase, test_F074_F075_F077_mistakes, 0, COUNT(mistakes));
	tcase_add_test(tcase, test_keys_without_a_function_are_unknown);
	tcase_add_test(tcase, test_F089_listen);
	tcase_add_loop_test(tcase, test_conflicts, 0, COUNT(conflicts));
	tcase_add_loop_test(tcase, test_agreements, 0, COUNT(agreements));
	tcase_add_loop_test(tcase, test_F015_lease_and_delivery_timeout, 0, COUNT(leases));
	tcase_add_test(tcase, test_F015_timeouts_replace_each_other);
	tcase_add_loop_test(tcase, test_F038_guarantees, 0, COUNT(guarantees));
	tcase_add_test(tcase, test_F038_several_sources);
	tcase_add_test(tcase, test_F038_effective_values_are_printed);
	tcase_add_test(tcase, test_F076_values_from_the_environment);
	tcase_add_test(tcase, test_F088_printed_configuration_has_no_secrets);
	tcase_add_test(tcase, test_printed_configuration_is_one);
	tcase_add_test(tcase, test_F075_byte_order_mark_and_line_ends);
	tcase_add_test(tcase, test_files_that_cannot_be_read);
	tcase_add_test(tcase, test_libraries_judge_in_the_same_go);
	tcase_add_test(tcase, test_default_configuration);
	tcase_add_test(tcase, test_documentation_has_the_reference);
	tcase_add_test(tcase, test_random_files);
	suite_add_tcase(suite, tcase);
	return suite;
}
