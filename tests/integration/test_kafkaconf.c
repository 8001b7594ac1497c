/* kafka_check: settings are judged as the library judges them, without connecting, and the culprit is named. */
#include "../unit/unit.h"

#include "base/log.h"
#include "io/kafka.h"
#include "io/kafkaconf.h"
#include "io/kafkastats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 4

struct trial {
	struct config_property properties[MOST]; /* ends with a NULL name */
	int culprit;
	const char *in_text;
};

static struct config_kafka config_of(struct config_property *properties)
{
	struct config_kafka config = {
		.bootstrap_servers = "127.0.0.1:1", .message_timeout_us = 30000000, .properties = properties};

	while (config.n_properties < MOST && properties[config.n_properties].name != NULL)
		config.n_properties++;
	return config;
}

#define P(n, v)                           \
	{                                 \
		.name = (n), .value = (v) \
	}

static struct trial bad[] = {
	{{P("linger.ms", "1"), P("compresion.type", "lz4")}, 1, "compresion.type"},
	{{P("compression.type", "lzma")}, 0, "lzma"},
	{{P("linger.ms", "-5")}, 0, "range 0..900000"},
	/* F038: contradictions */
	{{P("linger.ms", "1"), P("acks", "1")}, 1, "acks"},
	{{P("request.required.acks", "0"), P("linger.ms", "1")}, 0, "acks"},
	{{P("max.in.flight", "6")}, 0, "max.in.flight"},
	{{P("queuing.strategy", "lifo")}, 0, "queuing.strategy"},
	{{P("linger.ms", "60000")}, 0, "linger.ms"},
	{{P("security.protocol", "sasl_plaintext"), P("sasl.mechanism", "NOSUCH")}, 0, "NOSUCH"},
	/* what carries the contract of kafka.h */
	{{P("transactional.id", "t")}, 0, "transactional.id"},
	{{P("delivery.report.only.error", "true")}, 0, "delivery.report.only.error"},
	{{P("bootstrap.servers", "b:9092")}, 0, "kafka.bootstrap_servers"},
	{{P("metadata.broker.list", "b:9092")}, 0, "kafka.bootstrap_servers"},
	{{P("statistics.interval.ms", "0")}, 0, "statistics.interval.ms"},
	{{P("log.queue", "false")}, 0, "log.queue"},
	{{P("message.timeout.ms", "0")}, 0, "message.timeout.ms"},
	{{P("delivery.timeout.ms", "0")}, 0, "message.timeout.ms"},
	{{P("message.max.bytes", "2000000"), P("queue.buffering.max.kbytes", "1000")}, 1, "2000000"},
};

START_TEST(test_F038_F075_settings_that_are_refused)
{
	struct config_kafka config = config_of(bad[_i].properties);
	struct err err = {""};
	int property = -2;

	ck_assert(!kafka_check(&config, &err, &property));
	ck_assert_msg(property == bad[_i].culprit, "property %d: %s", property, err.text);
	ck_assert_msg(strstr(err.text, bad[_i].in_text) != NULL, "%s", err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

static struct trial good[] = {
	{{{0}}, -1, ""},
	{{P("compression.type", "lz4"), P("linger.ms", "0"), P("debug", "msg")}, -1, ""},
	{{P("enable.idempotence", "false"), P("acks", "1"), P("max.in.flight", "100")}, -1, ""},
	{{P("partitioner", "consistent"), P("message.max.bytes", "100000000")}, -1, ""},
	{{P("delivery.timeout.ms", "60000"), P("client.id", "mine")}, -1, ""},
	{{P("security.protocol", "ssl"), P("ssl.endpoint.identification.algorithm", "none")}, -1, ""},
};

START_TEST(test_settings_that_are_fine)
{
	struct config_kafka config = config_of(good[_i].properties);
	struct err err = {""};
	int property = -2;

	ck_assert_msg(kafka_check(&config, &err, &property), "%s", err.text);
	ck_assert_int_eq(property, -1);
}
END_TEST

/* What the library goes by, with these settings of the user. */
static void check_effective(struct config_property *properties, const char *name, const char *want)
{
	struct config_kafka config = config_of(properties);
	struct kafkaconf_limits limits;
	struct err err = {""};
	rd_kafka_conf_t *conf = kafkaconf_new(&config, NULL, &limits, &err, NULL);
	char value[256] = "";
	size_t size = sizeof(value);

	ck_assert_msg(conf != NULL, "%s", err.text);
	ck_assert_int_eq(rd_kafka_conf_get(conf, name, value, &size), RD_KAFKA_CONF_OK);
	ck_assert_msg(strcmp(value, want) == 0, "%s is %s", name, value);
	rd_kafka_conf_destroy(conf);
}

static const struct {
	const char *name, *value;
} defaults[] = {
	{"enable.idempotence", "true"},
	{"acks", "-1"},
	{"partitioner", "murmur2_random"},
	{"message.timeout.ms", "30000"},
	{"queue.buffering.max.kbytes", "65536"},
	{"queue.buffering.max.messages", "100000"},
	{"socket.keepalive.enable", "true"},
	{"enable.ssl.certificate.verification", "true"},
	{"ssl.endpoint.identification.algorithm", "https"},
	{"bootstrap.servers", "127.0.0.1:1"},
	{"client.software.name", "outboxd"},
};

START_TEST(test_F055_F090_what_is_set_unless_told_otherwise)
{
	struct config_property none[MOST] = {{0}};

	check_effective(none, defaults[_i].name, defaults[_i].value);
}
END_TEST

START_TEST(test_the_users_own_settings_win)
{
	struct config_property properties[MOST] = {P("enable.idempotence", "false"), P("acks", "1"),
						   P("partitioner", "consistent"),
						   P("message.max.bytes", "200000000")};

	check_effective(properties, "enable.idempotence", "false");
	check_effective(properties, "acks", "1");
	check_effective(properties, "partitioner", "consistent");
	/* The queue holds one message at least. */
	check_effective(properties, "queue.buffering.max.kbytes", "195313");
}
END_TEST

START_TEST(test_limits_are_those_that_hold)
{
	struct config_property properties[MOST] = {P("delivery.timeout.ms", "45000"),
						   P("message.max.bytes", "5000")};
	struct config_kafka config = config_of(properties);
	struct kafkaconf_limits limits;
	rd_kafka_conf_t *conf = kafkaconf_new(&config, NULL, &limits, NULL, NULL);

	ck_assert_ptr_nonnull(conf);
	ck_assert_int_eq(limits.message_timeout_ms, 45000);
	ck_assert_int_eq(limits.message_max_bytes, 5000);
	rd_kafka_conf_destroy(conf);
}
END_TEST

/* ---- secrets ---- */

START_TEST(test_F088_a_refused_secret_is_not_repeated)
{
	struct config_property properties[MOST] = {P("ssl.key.pem", "S3cr3t")};
	struct config_kafka config = config_of(properties);
	struct err err = {""};
	int property;

	properties[0].value = "S3cr3t";
	ck_assert(!kafka_check(&config, &err, &property) || err.text[0] == '\0');
	ck_assert_msg(strstr(err.text, "S3cr3t") == NULL, "%s", err.text);
}
END_TEST

START_TEST(test_the_password_comes_from_its_file)
{
	char file[] = "/tmp/outboxd-test-XXXXXX";
	struct config_property properties[MOST] = {P("sasl.password", "other")};
	struct config_kafka config = config_of(properties);
	struct kafkaconf_limits limits;
	struct err err = {""};
	char value[64] = "";
	size_t size = sizeof(value);
	rd_kafka_conf_t *conf;
	int fd = mkstemp(file), property;

	ck_assert_int_eq(write(fd, "S3cr3t\n", 7), 7);
	close(fd);
	config.password_file = file;
	ck_assert(!kafka_check(&config, &err, &property));
	ck_assert_int_eq(property, 0);
	config.n_properties = 0;
	conf = kafkaconf_new(&config, NULL, &limits, &err, NULL);
	ck_assert_msg(conf != NULL, "%s", err.text);
	ck_assert_int_eq(rd_kafka_conf_get(conf, "sasl.password", value, &size), RD_KAFKA_CONF_OK);
	ck_assert_str_eq(value, "S3cr3t");
	rd_kafka_conf_destroy(conf);
	unlink(file);
	/* The file may come later than the configuration: it is no matter of kafka_check. */
	ck_assert_msg(kafka_check(&config, &err, &property), "%s", err.text);
	ck_assert_ptr_null(kafkaconf_new(&config, NULL, &limits, &err, NULL));
	ck_assert_msg(strstr(err.text, file) != NULL, "%s", err.text);
}
END_TEST

/* ---- statistics ---- */

static const struct {
	const char *json;
	bool broker_up, producer_id;
} statistics[] = {
	{"{\"brokers\":{\"a/1\":{\"state\":\"DOWN\"},\"b/2\":{\"state\":\"UP\"}}}", true, true},
	{"{\"brokers\":{\"a/1\":{\"state\":\"DOWN\"},\"b/2\":{\"state\":\"TRY_CONNECT\"}}}", false, true},
	{"{\"brokers\":{},\"eos\":{\"idemp_state\":\"Assigned\"}}", false, true},
	{"{\"brokers\":{\"a/1\":{\"state\":\"UP\"}},\"eos\":{\"idemp_state\":\"WaitPID\"}}", true, false},
	{"{\"brokers\":[1,2],\"eos\":7}", false, false},
	{"{}", false, true},
	{"[]", false, true},
	{"{\"brokers\":{\"a/1\":{\"state\":", false, false},
	{"", false, false},
};

START_TEST(test_statistics_tell_what_is_up)
{
	struct kafkastats stats = kafkastats_parse(statistics[_i].json, strlen(statistics[_i].json));

	ck_assert_int_eq(stats.broker_up, statistics[_i].broker_up);
	ck_assert_int_eq(stats.producer_id, statistics[_i].producer_id);
}
END_TEST

/* ---- warnings ---- */

static void log_to(const char *file, struct config_property *properties)
{
	struct config_kafka config = config_of(properties);

	ck_assert_ptr_nonnull(freopen(file, "w+", stderr));
	log_configure(LOG_INFO, LOG_LOGFMT);
	kafkaconf_warn(&config);
}

START_TEST(test_F090_a_weakened_tls_is_warned_of)
{
	char file[] = "/tmp/outboxd-test-XXXXXX", text[4096] = "";
	struct config_property properties[MOST] = {P("ssl.endpoint.identification.algorithm", "none"),
						   P("enable.ssl.certificate.verification", "false"),
						   P("compression.type", "none")};
	int fd = mkstemp(file);

	log_to(file, properties);
	ck_assert_int_gt(read(fd, text, sizeof(text) - 1), 0);
	ck_assert_ptr_nonnull(strstr(text, "property=ssl.endpoint.identification.algorithm"));
	ck_assert_ptr_nonnull(strstr(text, "property=enable.ssl.certificate.verification"));
	ck_assert_ptr_null(strstr(text, "compression.type"));
	close(fd);
	unlink(file);
}
END_TEST

#define ADD_ALL(tcase, test, table) tcase_add_loop_test(tcase, test, 0, sizeof(table) / sizeof((table)[0]))

Suite *suite(void)
{
	Suite *suite = suite_create("kafkaconf");
	TCase *tcase = tcase_create("kafkaconf");

	tcase_set_timeout(tcase, 60);
	ADD_ALL(tcase, test_F038_F075_settings_that_are_refused, bad);
	ADD_ALL(tcase, test_settings_that_are_fine, good);
	ADD_ALL(tcase, test_F055_F090_what_is_set_unless_told_otherwise, defaults);
	tcase_add_test(tcase, test_the_users_own_settings_win);
	tcase_add_test(tcase, test_limits_are_those_that_hold);
	tcase_add_test(tcase, test_F088_a_refused_secret_is_not_repeated);
	tcase_add_test(tcase, test_the_password_comes_from_its_file);
	ADD_ALL(tcase, test_statistics_tell_what_is_up, statistics);
	tcase_add_test(tcase, test_F090_a_weakened_tls_is_warned_of);
	suite_add_tcase(suite, tcase);
	return suite;
}
