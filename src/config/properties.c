#include "config/properties.h"

#include "base/mem.h"

#include <string.h>

const char *properties_canonical(const char *name)
{
	static const struct {
		const char *alias, *canonical;
	} aliases[] = {
		{"metadata.broker.list", "bootstrap.servers"},
		{"delivery.timeout.ms", "message.timeout.ms"},
		{"request.required.acks", "acks"},
		{"max.in.flight", "max.in.flight.requests.per.connection"},
		{"message.send.max.retries", "retries"},
		{"queue.buffering.max.ms", "linger.ms"},
		{"compression.codec", "compression.type"},
		{"sasl.mechanism", "sasl.mechanisms"},
	};

	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(aliases[i].alias, name) == 0)
			return aliases[i].canonical;
	return name;
}

const char *properties_instead(const char *canonical)
{
	static const struct {
		const char *name, *instead;
	} owned[] = {
		{"bootstrap.servers", "use kafka.bootstrap_servers"},
		{"transactional.id", "outboxd does not use Kafka's transactions"},
		{"log.queue", "the relay sets it: the library's lines come through our log"},
		{"statistics.interval.ms", "the relay sets it: it sees from the statistics whether a broker is up"},
		{"delivery.report.only.error", "the relay needs the report of each message"},
		{"queuing.strategy", "the relay needs fifo"},
		{"enable.gapless.guarantee", "use max_in_flight_per_key"},
	};

	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		if (strcmp(owned[i].name, canonical) == 0)
			return owned[i].instead;
	return NULL;
}

static bool has_name(const struct config_property *property, const char *canonical)
{
	return strcmp(properties_canonical(property->name), canonical) == 0;
}

const struct config_property *properties_find(const struct config_kafka *kafka, const char *canonical)
{
	for (size_t i = kafka->n_properties; i > 0; i--)
		if (has_name(&kafka->properties[i - 1], canonical))
			return &kafka->properties[i - 1];
	return NULL;
}

void properties_remove(struct arena *arena, struct config_kafka *kafka, const char *canonical)
{
	struct config_property *kept = arena_take(arena, kafka->n_properties, sizeof(*kept));
	size_t n_kept = 0;

	for (size_t i = 0; i < kafka->n_properties; i++)
		if (!has_name(&kafka->properties[i], canonical))
			kept[n_kept++] = kafka->properties[i];
	kafka->properties = kept;
	kafka->n_properties = n_kept;
}

void properties_set(struct arena *arena, struct config_kafka *kafka, const struct config_property *property)
{
	struct config_property *all = arena_take(arena, kafka->n_properties + 1, sizeof(*all));
	const char *canonical = properties_canonical(property->name);
	size_t i;

	for (i = 0; i < kafka->n_properties; i++)
		all[i] = kafka->properties[i];
	for (i = 0; i < kafka->n_properties && !has_name(&all[i], canonical); i++)
		continue;
	all[i] = *property;
	kafka->n_properties += i == kafka->n_properties;
	kafka->properties = all;
}

struct config_kafka properties_standard(struct arena *arena)
{
	/* librdkafka's own defaults are no idempotence and a partitioner that disagrees with the Java client's. */
	static const struct config_property standard[] = {
		{.name = "enable.idempotence", .value = "true"},
		{.name = "acks", .value = "all"},
		{.name = "partitioner", .value = "murmur2_random"},
	};
	struct config_kafka kafka = {0};

	for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
		properties_set(arena, &kafka, &standard[i]);
	return kafka;
}
