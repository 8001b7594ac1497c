#include "core/checkkafka.h"

#include "base/mem.h"
#include "config/properties.h"
#include "config/template.h"

#include <inttypes.h>
#include <string.h>

const char *checkkafka_static_topic(const char *template_text, struct arena *arena)
{
	struct template template;
	struct buf name = {0};
	const char *copy;
	size_t i;

	if (template_text == NULL || !template_parse(arena, template_text, &template, NULL))
		return NULL;
	for (i = 0; i < template.n_pieces && template.pieces[i].column == NULL; i++)
		buf_add_string(&name, template.pieces[i].literal);
	copy = i < template.n_pieces ? NULL : arena_copy_string(arena, buf_text(&name));
	buf_free(&name);
	return copy;
}

bool checkkafka_brokers(struct check *check, const struct config_source *source,
			const struct check_brokers *brokers)
{
	const char *servers = source->kafka.bootstrap_servers;

	if (brokers->link == CHECK_LINK_UP)
		check_add(check, CHECK_BROKER, source->name, NULL, "%s: %d broker%s", servers, brokers->brokers,
			  brokers->brokers == 1 ? "" : "s");
	else if (brokers->link == CHECK_LINK_REFUSED)
		check_add(check, CHECK_BROKER_REFUSED, source->name,
			  "kafka.properties: sasl.mechanism, sasl.username; kafka.password_file or sasl.password",
			  "%s: %s", servers, brokers->err.text);
	else
		check_add(check, CHECK_BROKER_UNREACHABLE, source->name,
			  "kafka.bootstrap_servers, security.protocol, and the network in between", "%s: %s",
			  servers, brokers->err.text);
	return brokers->link == CHECK_LINK_UP;
}

/* ---- a topic ---- */

static void check_missing(struct check *check, const struct config_source *source,
			  const struct check_brokers *brokers, const struct check_topic *topic)
{
	struct buf cure = {0};

	buf_print(&cure, "kafka-topics.sh --bootstrap-server %s --create --topic %s",
		  source->kafka.bootstrap_servers, topic->name);
	if (topic->denied)
		check_add(check, CHECK_TOPIC_DENIED, source->name,
			  "kafka-acls.sh --add --operation Write --operation Describe --topic", "topic %s: %s",
			  topic->name, topic->err.text);
	else if (brokers->makes_topics)
		check_add(check, CHECK_TOPIC_MADE_LATER, source->name, buf_text(&cure),
			  "there is no topic %s; the brokers will make it with their own defaults", topic->name);
	else
		check_add(check, CHECK_TOPIC_MISSING, source->name, buf_text(&cure), "there is no topic %s",
			  topic->name);
	buf_free(&cure);
}

static void set_topic_config(struct buf *cure, const struct config_source *source, const struct check_topic *topic,
			     const char *name, int64_t value)
{
	buf_print(cure, "kafka-configs.sh --bootstrap-server %s --alter --topic %s --add-config %s=%" PRId64,
		  source->kafka.bootstrap_servers, topic->name, name, value);
}

static void check_sizes(struct check *check, const struct config_source *source,
			const struct check_brokers *brokers, const struct check_topic *topic, int64_t largest)
{
	struct buf cure = {0};

	set_topic_config(&cure, source, topic, "max.message.bytes", largest + largest / 8 + 1024);
	if (topic->told && largest > topic->max_message_bytes)
		check_add(check, CHECK_TOPIC_TOO_SMALL, source->name, buf_text(&cure),
			  "topic %s takes %" PRId64 " bytes (max.message.bytes), and an open row has %" PRId64,
			  topic->name, topic->max_message_bytes, largest);
	buf_clear(&cure);
	buf_print(&cure, "kafka.properties: {message.max.bytes: %" PRId64 "}", largest + largest / 8 + 1024);
	if (largest > brokers->message_max_bytes)
		check_add(check, CHECK_MESSAGE_TOO_LARGE, source->name, buf_text(&cure),
			  "the producer takes %" PRId64 " bytes (message.max.bytes), and an open row has %" PRId64,
			  brokers->message_max_bytes, largest);
	buf_free(&cure);
}

static bool waits_for_all(const struct config_source *source)
{
	const struct config_property *acks = properties_find(&source->kafka, "acks");

	return acks == NULL || strcmp(acks->value, "all") == 0 || strcmp(acks->value, "-1") == 0;
}

static void check_replicas(struct check *check, const struct config_source *source, const struct check_topic *topic)
{
	struct buf cure = {0};

	set_topic_config(&cure, source, topic, "min.insync.replicas",
			 waits_for_all(source) && topic->min_in_sync > topic->replicas ? topic->replicas : 2);
	if (!waits_for_all(source))
		check_add(check, CHECK_REPLICAS_UNSAFE, source->name, "kafka.properties: {acks: all}",
			  "acks is not all: min.insync.replicas %" PRId64 " of topic %s counts for nothing",
			  topic->min_in_sync, topic->name);
	else if (topic->min_in_sync > topic->replicas)
		check_add(check, CHECK_REPLICAS_TOO_FEW, source->name, buf_text(&cure),
			  "topic %s has %d of the min.insync.replicas %" PRId64 ": acks=all can never be given",
			  topic->name, topic->replicas, topic->min_in_sync);
	else if (topic->min_in_sync < 2)
		check_add(check, CHECK_REPLICAS_UNSAFE, source->name,
			  topic->replicas > 1 ? buf_text(&cure) : "make the topic anew with --replication-factor 3",
			  "topic %s has %d replica%s, and min.insync.replicas %" PRId64
			  ": what was delivered may be lost with one broker",
			  topic->name, topic->replicas, topic->replicas == 1 ? "" : "s", topic->min_in_sync);
	buf_free(&cure);
}

void checkkafka_topic(struct check *check, const struct config_source *source, const struct check_brokers *brokers,
		      const struct check_topic *topic, int64_t largest_bytes)
{
	if (topic->denied || !topic->exists) {
		check_missing(check, source, brokers, topic);
		return;
	}
	check_add(check, CHECK_TOPIC, source->name, NULL, "topic %s: %d partition%s, %d replica%s", topic->name,
		  topic->partitions, topic->partitions == 1 ? "" : "s", topic->replicas,
		  topic->replicas == 1 ? "" : "s");
	check_sizes(check, source, brokers, topic, largest_bytes);
	if (!topic->told) {
		check_add(check, CHECK_TOPIC_UNREAD, source->name,
			  "kafka-acls.sh --add --operation DescribeConfigs --topic, for this check alone",
			  "the settings of topic %s cannot be read: %s", topic->name, topic->err.text);
		return;
	}
	check_replicas(check, source, topic);
	if (topic->compacted && source->columns[COLUMN_KEY] == NULL)
		check_add(check, CHECK_TOPIC_COMPACTED, source->name, "columns.key, or cleanup.policy=delete",
			  "topic %s is compacted, and records of this source have no key", topic->name);
}
