/* Findings from facts, and what they come to. */
#include "../standard.h"
#include "unit.h"

#include "base/mem.h"
#include "core/checkkafka.h"
#include "core/checktable.h"
#include "core/fingerprint.h"

#include <string.h>

static struct config_source source(void)
{
	return (struct config_source){STANDARD_SOURCE,
				      .table = "event_outbox",
				      .lease_us = 60000000,
				      .kafka = {.bootstrap_servers = "b:1", .message_timeout_us = 30000000},
				      .postgres = {.statement_timeout_us = 10000000},
				      .retry = {.max_attempts = 10}};
}

static const struct check_finding *find(const struct check *check, enum check_kind kind)
{
	for (size_t i = 0; i < check->n; i++)
		if (check->findings[i].kind == kind)
			return &check->findings[i];
	return NULL;
}

static void assert_finding(const struct check *check, enum check_kind kind, const char *text, const char *cure)
{
	const struct check_finding *finding = find(check, kind);

	ck_assert_msg(finding != NULL, "no finding %s", check_name(kind));
	ck_assert_msg(strstr(finding->text, text) != NULL, "%s", finding->text);
	if (cure != NULL)
		ck_assert_msg(finding->cure != NULL && strstr(finding->cure, cure) != NULL, "%s", finding->cure);
}

/* ---- what findings come to ---- */

START_TEST(test_the_first_cause_decides)
{
	struct check check;

	check_init(&check);
	ck_assert_int_eq(check_cause(&check), CHECK_NOBODY);
	check_add(&check, CHECK_BLOAT, "s", NULL, "a warning");
	ck_assert_int_eq(check_cause(&check), CHECK_NOBODY);
	check_add(&check, CHECK_TABLE_MISSING, "s", NULL, "wrong");
	ck_assert_int_eq(check_cause(&check), CHECK_WRONG);
	check_add(&check, CHECK_PRIVILEGE_MISSING, "s", NULL, "denied");
	ck_assert_int_eq(check_cause(&check), CHECK_DENIED);
	check_add(&check, CHECK_STANDBY, "s", NULL, "unreachable");
	check_add(&check, CHECK_TABLE_UNFIT, "s", NULL, "wrong");
	ck_assert_int_eq(check_cause(&check), CHECK_UNREACHABLE);
	check_free(&check);
}
END_TEST

START_TEST(test_errors_and_nothing_else_have_a_cause)
{
	struct check check;

	for (int kind = 0; kind < CHECK_KINDS; kind++) {
		check_init(&check);
		check_add(&check, kind, NULL, NULL, "%s", "");
		ck_assert_msg((check_cause(&check) != CHECK_NOBODY) == (check_level(kind) == CHECK_ERROR), "%s",
			      check_name(kind));
		check_free(&check);
	}
}
END_TEST

START_TEST(test_how_findings_are_shown)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct check check;
	json_t *array, *json;

	check_init(&check);
	check_add(&check, CHECK_FILE, NULL, NULL, "f: %d sources", 2);
	check_add(&check, CHECK_BLOAT, "orders", "VACUUM t", "two\nlines");
	check_print(&check, out);
	fclose(out);
	ck_assert_str_eq(text, "ok     file: f: 2 sources\nwarn   orders: bloat: two lines => VACUUM t\n");
	array = check_to_json(&check);
	json = json_pack("[{s:s, s:n, s:s, s:s, s:n}, {s:s, s:s, s:s, s:s, s:s}]", "level", "ok", "source",
			 "finding", "file", "message", "f: 2 sources", "cure", "level", "warn", "source", "orders",
			 "finding", "bloat", "message", "two lines", "cure", "VACUUM t");
	ck_assert(json_equal(array, json));
	json_decref(array);
	json_decref(json);
	free(text);
	check_free(&check);
}
END_TEST

START_TEST(test_the_reference_has_every_finding)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	check_print_reference(out);
	fclose(out);
	for (int kind = 0; kind < CHECK_KINDS; kind++)
		ck_assert_ptr_nonnull(strstr(text, check_name(kind)));
	ck_assert_ptr_nonnull(strstr(text, "\nstandby               error  69    "));
	free(text);
}
END_TEST

/* ---- the server ---- */

static const struct {
	struct check_server server;
	bool good;
	enum check_kind kind;
	const char *text;
} servers[] = {
	{{.version = "15.4"}, true, CHECK_DATABASE, "PostgreSQL 15.4"},
	{{.version = "15.4", .standby = true, .read_only = true}, false, CHECK_STANDBY, "standby"},
	{{.version = "15.4", .read_only = true}, false, CHECK_READ_ONLY, "read-only"},
	{{.version = "15.4", .jit = true, .jit_applies = true}, true, CHECK_JIT_ON, "own transactions"},
	{{.version = "15.4", .jit = true}, true, CHECK_JIT, "switched off"},
	{{.version = "15.4", .clock_us = 2000000}, true, CHECK_CLOCK_DIFFERS, "is 2 s ahead of"},
	{{.version = "15.4", .clock_us = -7000000}, true, CHECK_CLOCK_DIFFERS, "is 7 s behind"},
	{{.version = "15.4", .snapshot_age = 20000}, true, CHECK_SNAPSHOT_OLD, "somebody holds a snapshot 20000"},
};

START_TEST(test_servers)
{
	struct config_source config = source();
	struct check check;

	check_init(&check);
	ck_assert(checktable_server(&check, &config, &servers[_i].server, 0) == servers[_i].good);
	assert_finding(&check, servers[_i].kind, servers[_i].text, NULL);
	ck_assert_uint_eq(check.n, servers[_i].kind == CHECK_DATABASE || !servers[_i].good ? 1 : 2);
	check_free(&check);
}
END_TEST

START_TEST(test_small_differences_are_none)
{
	const struct check_server server = {.version = "15", .clock_us = 1999999, .snapshot_age = 19999};
	struct config_source config = source();
	struct check check;

	check_init(&check);
	ck_assert(checktable_server(&check, &config, &server, 0));
	ck_assert_uint_eq(check.n, 1);
	check_free(&check);
}
END_TEST

/* ---- rows ---- */

START_TEST(test_owners_and_states)
{
	struct config_source config = source();
	char own[FINGERPRINT_SIZE], owners[200];
	const struct check_rows rows = {.states = "[\"LOST\", null]", .owners = owners};
	struct check check;

	fingerprint_write(&config, own);
	snprintf(owners, sizeof(owners), "[\"h-1/%s\", \"h-2/00000000\", \"a person\", \"path/of/mine\"]", own);
	check_init(&check);
	checktable_rows(&check, &config, &rows);
	ck_assert_uint_eq(check.n, 3);
	assert_finding(&check, CHECK_STATE_UNKNOWN, "the state \"LOST\"", NULL);
	ck_assert_ptr_nonnull(strstr(check.findings[1].text, "the state NULL"));
	assert_finding(&check, CHECK_RELAYS_DIFFER, "h-2/00000000 holds rows", NULL);
	check_free(&check);
}
END_TEST

static void change_key(struct config_source *config)
{
	config->columns[COLUMN_KEY] = "other";
}
static void drop_key(struct config_source *config)
{
	config->columns[COLUMN_KEY] = NULL;
}
static void change_state(struct config_source *config)
{
	config->states[0] = "NEW";
}
static void change_topic(struct config_source *config)
{
	config->topic = "t";
}
static void change_ordering(struct config_source *config)
{
	config->ordering = ORDERING_NONE;
}
static void change_on_failed(struct config_source *config)
{
	config->on_failed = ON_FAILED_CONTINUE;
}
static void change_on_delivered(struct config_source *config)
{
	config->on_delivered = ON_DELIVERED_DELETE;
}
static void change_attempts(struct config_source *config)
{
	config->retry.max_attempts = 3;
}

static void add_header(struct config_source *config)
{
	static struct config_header header = {.name = "a", .template_text = "{id}"};

	config->headers = &header;
	config->n_headers = 1;
}

static void (*const changes[])(struct config_source *) = {change_key,	       drop_key,	change_state,
							  change_topic,	       change_ordering, change_on_failed,
							  change_on_delivered, change_attempts, add_header};

START_TEST(test_what_relays_must_share)
{
	struct config_source config = source();
	char before[FINGERPRINT_SIZE], after[FINGERPRINT_SIZE];

	fingerprint_write(&config, before);
	ck_assert_uint_eq(strlen(before), 8);
	config.lease_us++;
	config.batch = 7;
	config.poll_us = 3;
	fingerprint_write(&config, after);
	ck_assert_str_eq(before, after);
	changes[_i](&config);
	fingerprint_write(&config, after);
	ck_assert_str_ne(before, after);
}
END_TEST

/* ---- settings ---- */

START_TEST(test_leases_and_history)
{
	struct config_source config = source();
	struct check check;

	check_init(&check);
	config.lease_us = 42000000;
	checktable_settings(&check, &config);
	ck_assert_ptr_nonnull(find(&check, CHECK_LEASE));
	ck_assert_ptr_nonnull(find(&check, CHECK_HISTORY_KEPT));
	check_free(&check);
	check_init(&check);
	config.lease_us--;
	config.on_delivered = ON_DELIVERED_DELETE;
	checktable_settings(&check, &config);
	assert_finding(&check, CHECK_LEASE_SHORT, "statement_timeout", "lease: 42000ms");
	ck_assert_uint_eq(check.n, 1);
	check_free(&check);
}
END_TEST

/* ---- Kafka ---- */

START_TEST(test_static_topics)
{
	struct arena *arena = arena_new();

	ck_assert_str_eq(checkkafka_static_topic("a{{b}}", arena), "a{b}");
	ck_assert_ptr_null(checkkafka_static_topic("a{b}", arena));
	ck_assert_ptr_null(checkkafka_static_topic("{", arena));
	ck_assert_ptr_null(checkkafka_static_topic(NULL, arena));
	arena_free(arena);
}
END_TEST

static const struct {
	enum check_link link;
	enum check_kind kind;
} links[] = {{CHECK_LINK_UP, CHECK_BROKER},
	     {CHECK_LINK_DOWN, CHECK_BROKER_UNREACHABLE},
	     {CHECK_LINK_REFUSED, CHECK_BROKER_REFUSED}};

START_TEST(test_brokers)
{
	const struct check_brokers brokers = {.link = links[_i].link, .brokers = 1, .err = {"why"}};
	struct config_source config = source();
	struct check check;

	check_init(&check);
	ck_assert(checkkafka_brokers(&check, &config, &brokers) == (links[_i].link == CHECK_LINK_UP));
	ck_assert_uint_eq(check.n, 1);
	assert_finding(&check, links[_i].kind, links[_i].link == CHECK_LINK_UP ? "b:1: 1 broker" : "b:1: why",
		       NULL);
	check_free(&check);
}
END_TEST

#define GOOD_TOPIC                                                                                               \
	.name = "t", .exists = true, .partitions = 3, .replicas = 3, .told = true, .max_message_bytes = 1000000, \
	.min_in_sync = 2

static struct config_property hasty = {.name = "acks", .value = "1"};

static const struct {
	struct check_topic topic;
	int64_t largest;
	bool makes_topics, keyless, hasty;
	enum check_kind kind; /* beside CHECK_TOPIC */
	const char *cure;
} topics[] = {
	{{GOOD_TOPIC}, 1000, false, true, false, CHECK_TOPIC, NULL},
	{{.name = "t"}, 0, false, false, false, CHECK_TOPIC_MISSING, "--create --topic t"},
	{{.name = "t"}, 0, true, false, false, CHECK_TOPIC_MADE_LATER, "--create --topic t"},
	{{.name = "t", .denied = true}, 0, true, false, false, CHECK_TOPIC_DENIED, "kafka-acls.sh"},
	{{.name = "t", .exists = true}, 0, false, false, false, CHECK_TOPIC_UNREAD, "DescribeConfigs"},
	{{GOOD_TOPIC, .compacted = true}, 0, false, false, false, CHECK_TOPIC, NULL},
	{{GOOD_TOPIC, .compacted = true}, 0, false, true, false, CHECK_TOPIC_COMPACTED, "columns.key"},
	{{GOOD_TOPIC}, 1000001, false, false, false, CHECK_TOPIC_TOO_SMALL, "max.message.bytes=1126025"},
	{{.name = "t", .exists = true, .replicas = 1, .told = true, .max_message_bytes = 9, .min_in_sync = 2},
	 0,
	 false,
	 false,
	 false,
	 CHECK_REPLICAS_TOO_FEW,
	 "min.insync.replicas=1"},
	{{.name = "t", .exists = true, .replicas = 3, .told = true, .max_message_bytes = 9, .min_in_sync = 1},
	 0,
	 false,
	 false,
	 false,
	 CHECK_REPLICAS_UNSAFE,
	 "min.insync.replicas=2"},
	{{.name = "t", .exists = true, .replicas = 1, .told = true, .max_message_bytes = 9, .min_in_sync = 1},
	 0,
	 false,
	 false,
	 false,
	 CHECK_REPLICAS_UNSAFE,
	 "--replication-factor 3"},
	{{GOOD_TOPIC}, 0, false, false, true, CHECK_REPLICAS_UNSAFE, "acks: all"},
};

START_TEST(test_topics)
{
	const struct check_brokers brokers = {
		.link = CHECK_LINK_UP, .makes_topics = topics[_i].makes_topics, .message_max_bytes = 2000000};
	struct config_source config = source();
	struct check check;

	if (topics[_i].keyless)
		config.columns[COLUMN_KEY] = NULL;
	if (topics[_i].hasty) {
		config.kafka.properties = &hasty;
		config.kafka.n_properties = 1;
	}
	check_init(&check);
	checkkafka_topic(&check, &config, &brokers, &topics[_i].topic, topics[_i].largest);
	if (topics[_i].cure == NULL) {
		ck_assert_uint_eq(check.n, 1);
		ck_assert_int_eq(check.findings[0].kind, CHECK_TOPIC);
	} else {
		assert_finding(&check, topics[_i].kind, "t", topics[_i].cure);
		ck_assert_uint_eq(check.n, topics[_i].topic.exists ? 2 : 1);
	}
	check_free(&check);
}
END_TEST

START_TEST(test_what_the_producer_takes)
{
	const struct check_brokers brokers = {.link = CHECK_LINK_UP, .message_max_bytes = 900};
	const struct check_topic topic = {GOOD_TOPIC};
	struct config_source config = source();
	struct check check;

	check_init(&check);
	checkkafka_topic(&check, &config, &brokers, &topic, 901);
	assert_finding(&check, CHECK_MESSAGE_TOO_LARGE, "the producer takes 900 bytes", "message.max.bytes: 2037");
	checkkafka_topic(&check, &config, &brokers, &topic, 900);
	ck_assert_uint_eq(check.n, 3);
	check_free(&check);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("check");
	TCase *tcase = tcase_create("check");

	tcase_add_test(tcase, test_the_first_cause_decides);
	tcase_add_test(tcase, test_errors_and_nothing_else_have_a_cause);
	tcase_add_test(tcase, test_how_findings_are_shown);
	tcase_add_test(tcase, test_the_reference_has_every_finding);
	tcase_add_loop_test(tcase, test_servers, 0, sizeof(servers) / sizeof(servers[0]));
	tcase_add_test(tcase, test_small_differences_are_none);
	tcase_add_test(tcase, test_owners_and_states);
	tcase_add_loop_test(tcase, test_what_relays_must_share, 0, sizeof(changes) / sizeof(changes[0]));
	tcase_add_test(tcase, test_leases_and_history);
	tcase_add_test(tcase, test_static_topics);
	tcase_add_loop_test(tcase, test_brokers, 0, sizeof(links) / sizeof(links[0]));
	tcase_add_loop_test(tcase, test_topics, 0, sizeof(topics) / sizeof(topics[0]));
	tcase_add_test(tcase, test_what_the_producer_takes);
	suite_add_tcase(suite, tcase);
	return suite;
}
