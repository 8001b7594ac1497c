#include "io/kafkaconf.h"

#include "base/buf.h"
#include "base/log.h"
#include "config/properties.h"
#include "config/secret.h"
#include "io/kafka.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The library's own limit of what waits in it, in place of its default of 1 GiB: memory during an outage. A source
 * holds less than this; when several share the producer, one that finds it full tries again. */
#define QUEUE_KBYTES 65536

/* How long a topic that the brokers do not know may be just being made, at most. It must end well before
 * message_timeout, else a missing topic looks like a cluster that is away. */
#define PROPAGATION_MAX_US 5000000

/* Ours; the user's own settings come later and win. */
static const struct {
	const char *name, *value;
} defaults[] = {
	{"client.id", "outboxd"},
	{"client.software.name", "outboxd"},
	{"client.software.version", OUTBOXD_VERSION},
	{"enable.idempotence", "true"},
	{"acks", "all"},
	{"partitioner",
	 "murmur2_random"}, /* the Java client's, so that a key has one partition whoever writes it */
	{"linger.ms", "0.5"},
	{"queue.buffering.max.messages", "100000"},
	{"socket.keepalive.enable", "true"},
	{"socket.connection.setup.timeout.ms", "5000"},
	{"reconnect.backoff.max.ms", "2000"}, /* an outage's end is noticed soon */
	{"enable.ssl.certificate.verification", "true"},
	{"ssl.endpoint.identification.algorithm", "https"}, /* librdkafka 2.0 leaves the host name unchecked */
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return true;
	why[strcspn(why, "\n")] = '\0'; /* some of its texts end a line */
	/* They repeat the value. */
	return secret_is_property(name) ? err_set(err, "%s: the library refuses the value", name)
					: err_set(err, "%s", why);
}

static bool set_number(rd_kafka_conf_t *conf, const char *name, int64_t value, struct err *err)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return set(conf, name, text, err);
}

/* The effective value, a property of the topic included. 0 when the library has none. */
static int64_t get_number(const rd_kafka_conf_t *conf, const char *name)
{
	char text[32];
	size_t size = sizeof(text);

	if (rd_kafka_conf_get(conf, name, text, &size) != RD_KAFKA_CONF_OK)
		return 0;
	return strtoll(text, NULL, 10);
}

static bool set_ours(rd_kafka_conf_t *conf, const struct config_kafka *config, struct err *err)
{
	int64_t propagation_us = config->message_timeout_us / 2;
	size_t i;

	for (i = 0; i < LENGTH(defaults); i++)
		if (!set(conf, defaults[i].name, defaults[i].value, err))
			return false;
	if (propagation_us > PROPAGATION_MAX_US)
		propagation_us = PROPAGATION_MAX_US;
	return set(conf, "log.queue", "true", err) && set(conf, "statistics.interval.ms", "1000", err) &&
	       set_number(conf, "message.timeout.ms", config->message_timeout_us / 1000, err) &&
	       set_number(conf, "topic.metadata.propagation.max.ms", propagation_us / 1000, err) &&
	       (config->bootstrap_servers == NULL ||
		set(conf, "bootstrap.servers", config->bootstrap_servers, err));
}

static bool set_property(rd_kafka_conf_t *conf, const struct config_kafka *config,
			 const struct config_property *property, struct err *err)
{
	/* Those carry the contract of kafka.h, or have a key of their own. */
	const char *instead = properties_instead(properties_canonical(property->name));

	if (instead != NULL)
		return err_set(err, "%s cannot be set: %s", property->name, instead);
	if (config->password_file != NULL && strcmp(property->name, "sasl.password") == 0)
		return err_set(err, "sasl.password and kafka.password_file exclude each other");
	return set(conf, property->name, property->value, err);
}

static bool set_password(rd_kafka_conf_t *conf, const struct config_kafka *config, const char *password,
			 struct err *err)
{
	struct buf text = {0};
	bool good;

	if (config->password_file == NULL)
		return true;
	if (password != NULL)
		return set(conf, "sasl.password", password, err);
	good = secret_read(config->password_file, &text, err) && set(conf, "sasl.password", buf_text(&text), err);
	buf_free(&text);
	return good;
}

/* Rules between settings that the library does not know. */
static bool finish(rd_kafka_conf_t *conf, const struct config_kafka *config, struct kafkaconf_limits *limits,
		   struct err *err)
{
	int64_t kbytes = QUEUE_KBYTES;
	size_t i;

	limits->message_timeout_ms = get_number(conf, "message.timeout.ms");
	limits->message_max_bytes = get_number(conf, "message.max.bytes");
	limits->offsets = get_number(conf, "acks") != 0;
	if (limits->message_timeout_ms <= 0)
		return err_set(err, "message.timeout.ms 0 (never) cannot be used: a lease could not outlast it");
	for (i = 0; i < config->n_properties; i++)
		if (strcmp(config->properties[i].name, "queue.buffering.max.kbytes") == 0)
			break;
	if (i < config->n_properties)
		kbytes = get_number(conf, "queue.buffering.max.kbytes");
	else if (kbytes < limits->message_max_bytes / 1024 + 1)
		kbytes = limits->message_max_bytes / 1024 + 1;
	if (kbytes < limits->message_max_bytes / 1024)
		return err_set(err,
			       "queue.buffering.max.kbytes %" PRId64
			       " cannot hold one message of message.max.bytes %" PRId64,
			       kbytes, limits->message_max_bytes);
	return set_number(conf, "queue.buffering.max.kbytes", kbytes, err);
}

static bool set_all(rd_kafka_conf_t *conf, const struct config_kafka *config, const char *password,
		    struct kafkaconf_limits *limits, struct err *err, int *property)
{
	size_t i;

	if (!set_ours(conf, config, err))
		return false;
	for (i = 0; i < config->n_properties; i++) {
		if (set_property(conf, config, &config->properties[i], err))
			continue;
		*property = (int)i;
		return false;
	}
	return set_password(conf, config, password, err) && finish(conf, config, limits, err);
}

rd_kafka_conf_t *kafkaconf_new(const struct config_kafka *config, const char *password,
			       struct kafkaconf_limits *limits, struct err *err, int *property)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	int nobody;

	if (property == NULL)
		property = &nobody;
	*property = -1;
	if (set_all(conf, config, password, limits, err, property))
		return conf;
	rd_kafka_conf_destroy(conf);
	return NULL;
}

/* The library's time-out takes messages out of the middle: those before and behind it are sent all the same. It cannot be
 * made long enough either: it goes on while the process is stopped, and then ends some messages and not the next. */
bool kafkaconf_close_gaps(rd_kafka_conf_t *conf, struct err *err)
{
	return set(conf, "enable.gapless.guarantee", "true", err) && set(conf, "message.timeout.ms", "0", err);
}

bool kafkaconf_send_singly(rd_kafka_conf_t *conf, struct err *err)
{
	return set(conf, "batch.num.messages", "1", err);
}

struct config_kafka kafkaconf_copy(struct arena *arena, const struct config_kafka *config)
{
	struct config_kafka copy = *config;
	size_t i;

	copy.bootstrap_servers = arena_copy_string(arena, config->bootstrap_servers);
	copy.password_file = arena_copy_string(arena, config->password_file);
	copy.properties = arena_take(arena, config->n_properties, sizeof(*copy.properties));
	for (i = 0; i < config->n_properties; i++) {
		copy.properties[i] = config->properties[i];
		copy.properties[i].name = arena_copy_string(arena, config->properties[i].name);
		copy.properties[i].value = arena_copy_string(arena, config->properties[i].value);
	}
	return copy;
}

void kafkaconf_warn(const struct config_kafka *config)
{
	static const struct {
		const char *name, *off, *means;
	} safeguards[] = {
		{"enable.ssl.certificate.verification", "false", "any server is taken for a broker"},
		{"ssl.endpoint.identification.algorithm", "none", "a certificate for any host name is accepted"},
	};
	size_t i, k;

	for (i = 0; i < config->n_properties; i++)
		for (k = 0; k < LENGTH(safeguards); k++)
			if (strcmp(config->properties[i].name, safeguards[k].name) == 0 &&
			    strcmp(config->properties[i].value, safeguards[k].off) == 0)
				LOG(LOG_WARN, "kafka_tls_weakened", log_str("property", safeguards[k].name),
				    log_str("value", safeguards[k].off), log_str("means", safeguards[k].means));
}

/* ---- the library's judgement ---- */

/* Builds a producer that has nowhere to connect to: only so does the library look at settings that contradict each other. */
static bool try_settings(const struct config_kafka *config, struct err *err, int *property)
{
	struct kafkaconf_limits limits;
	rd_kafka_conf_t *conf = kafkaconf_new(config, "not the password", &limits, err, property);
	bool lacks_resources;
	rd_kafka_t *rk;
	char why[512];

	if (conf == NULL)
		return false;
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (rk == NULL) {
		lacks_resources = rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
		rd_kafka_conf_destroy(conf);
		/* No memory or no thread is no mistake in the settings; whoever makes the producer will be told. */
		return lacks_resources || err_set(err, "%s", why);
	}
	rd_kafka_destroy(rk);
	return true;
}

/* The property without which all would be well, or -1. */
static int find_culprit(const struct config_kafka *config)
{
	struct config_kafka rest = *config;
	struct err ignored;
	int property, culprit = -1;
	size_t i;

	rest.n_properties = config->n_properties == 0 ? 0 : config->n_properties - 1;
	rest.properties = MEM_NEW_ARRAY(config->n_properties, struct config_property);
	for (i = config->n_properties; i-- > 0 && culprit < 0;) {
		memcpy(rest.properties, config->properties, i * sizeof(*rest.properties));
		memcpy(rest.properties + i, config->properties + i + 1,
		       (config->n_properties - i - 1) * sizeof(*rest.properties));
		if (try_settings(&rest, &ignored, &property))
			culprit = (int)i;
	}
	mem_free(rest.properties);
	return culprit;
}

bool kafka_check(const struct config_kafka *config, struct err *err, int *property)
{
	struct config_kafka nowhere = *config;

	nowhere.bootstrap_servers = NULL;
	if (try_settings(&nowhere, err, property))
		return true;
	if (*property < 0)
		*property = find_culprit(&nowhere);
	return false;
}
