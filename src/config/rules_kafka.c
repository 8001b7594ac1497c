/* The rules about the producer: its time-outs, and the properties that would undo a promise. */
#include "config/properties.h"
#include "config/rules.h"
#include "config/value.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define LEASE_MARGIN_US INT64_C(5000000)
#define IDEMPOTENT_IN_FLIGHT_MAX 5 /* librdkafka's own limit: a broker remembers five batches */

static const struct load_place nowhere = {0};

/* In seconds where that loses nothing, so that two durations in one message compare at a glance. */
static void print_seconds(struct buf *out, int64_t us)
{
	if (us % 1000000 == 0)
		buf_print(out, "%" PRId64 "s", us / 1000000);
	else
		buf_print(out, "%" PRId64 "ms", us / 1000);
}

static struct load_place property_place(const struct config_property *property)
{
	return (struct load_place){.line = property->line, .column = property->column};
}

static const struct yamltree_node *timeout_property(const struct yamltree_node *section)
{
	const struct yamltree_node *properties = yamltree_member(section, "properties"), *node;

	node = yamltree_member(properties, "message.timeout.ms");
	return node != NULL ? node : yamltree_member(properties, "delivery.timeout.ms");
}

static void take_timeout(struct load *load, struct config_kafka *kafka)
{
	const struct config_property *property = properties_find(kafka, "message.timeout.ms");
	int64_t ms;

	if (property == NULL) /* it was refused */
		return;
	if (!value_integer(property->value, &ms) || ms > INT32_MAX)
		diag_add(load->diag, property->line, property->column,
			 "kafka.properties.%s \"%s\" must be a whole number of milliseconds from 1 to %d",
			 property->name, property->value, INT32_MAX);
	else if (ms == 0)
		diag_add(load->diag, property->line, property->column,
			 "kafka.properties.%s 0 has no end: no lease would be longer", property->name);
	else
		kafka->message_timeout_us = ms * 1000;
}

void rules_settle_kafka(struct load *load, const struct yamltree_node *section, struct config_kafka *kafka)
{
	const struct yamltree_node *key = yamltree_member(section, "message_timeout");
	const struct yamltree_node *timeout = timeout_property(section);
	const struct config_property *password = properties_find(kafka, "sasl.password");

	if (key != NULL && timeout != NULL)
		load_conflict(
			load, load_place(key), load_place(timeout), nowhere,
			"kafka.message_timeout and kafka.properties.%s are the same setting: give one of them",
			timeout->key);
	else if (timeout != NULL)
		take_timeout(load, kafka);
	else if (key != NULL)
		properties_remove(load->config->arena, kafka, "message.timeout.ms");
	if (section != NULL && kafka->password_file != NULL && password != NULL)
		load_conflict(load, load_place(yamltree_member(section, "password_file")), property_place(password),
			      nowhere, "kafka.password_file and kafka.properties.sasl.password exclude each other");
}

/* Where the source's message_timeout comes from, and what it is called there. */
static struct load_place timeout_place(struct load *load, const struct yamltree_node *node,
				       const struct config_source *source, const char **name)
{
	const struct config_property *property = properties_find(&source->kafka, "message.timeout.ms");
	const struct yamltree_node *key = yamltree_member(yamltree_member(node, "kafka"), "message_timeout");

	if (property != NULL) {
		*name = property->name;
		return property_place(property);
	}
	*name = "message_timeout";
	if (key == NULL)
		key = yamltree_member(yamltree_member(load->root, "kafka"), "message_timeout");
	return load_place(key);
}

static void check_lease(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	struct buf lease = {0}, timeout = {0}, least = {0};
	struct load_place place;
	const char *name;

	if (source->lease_us >= source->kafka.message_timeout_us + LEASE_MARGIN_US)
		return;
	place = timeout_place(load, node, source, &name);
	print_seconds(&lease, source->lease_us);
	print_seconds(&timeout, source->kafka.message_timeout_us);
	print_seconds(&least, source->kafka.message_timeout_us + LEASE_MARGIN_US);
	load_conflict(load, load_place(yamltree_member(node, "lease")), place, load_place(node),
		      "lease %s is too short for kafka's %s %s: the smallest that would do is %s%s%s",
		      buf_text(&lease), name, buf_text(&timeout), buf_text(&least),
		      source->name == NULL ? "" : ", in source ", source->name == NULL ? "" : source->name);
	buf_free(&lease);
	buf_free(&timeout);
	buf_free(&least);
}

/* The library knows more spellings of true; only what is surely off counts as off, the rest it judges itself. */
static bool is_false(const char *value)
{
	return strcasecmp(value, "false") == 0 || strcasecmp(value, "f") == 0 || strcmp(value, "0") == 0;
}

static bool is_all(const char *acks)
{
	return strcmp(acks, "all") == 0 || strcmp(acks, "-1") == 0;
}

/* "kafka.properties.NAME: VALUE conflicts with ...", blamed on the later of the two. */
static void exclude(struct load *load, const struct config_source *source, const struct config_property *property,
		    struct load_place other, const char *what, const char *why)
{
	load_conflict(load, property_place(property), other, nowhere,
		      "kafka.properties.%s: %s conflicts with %s%s%s: %s", property->name, property->value, what,
		      source->name == NULL ? "" : " of source ", source->name == NULL ? "" : source->name, why);
}

static void check_key_order(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	const struct config_property *idempotence = properties_find(&source->kafka, "enable.idempotence");
	const struct config_property *partitioner = properties_find(&source->kafka, "partitioner");
	const struct config_property *acks = properties_find(&source->kafka, "acks");
	struct load_place ordering = load_place(yamltree_member(node, "ordering"));

	if (source->ordering != ORDERING_KEY)
		return;
	if (is_false(idempotence->value))
		exclude(load, source, idempotence, ordering, "ordering: key",
			"what the library sends again can arrive twice, and behind what follows it when "
			"max.in.flight.requests.per.connection is above 1");
	if (!is_all(acks->value))
		exclude(load, source, acks, ordering, "ordering: key", "it needs acks: all");
	if (strcmp(partitioner->value, "random") == 0)
		exclude(load, source, partitioner, ordering, "ordering: key",
			"rows of one key would come to different partitions");
}

static void check_idempotence(struct load *load, const struct config_source *source)
{
	const struct config_property *idempotence = properties_find(&source->kafka, "enable.idempotence");
	const struct config_property *in_flight =
		properties_find(&source->kafka, "max.in.flight.requests.per.connection");
	const struct config_property *acks = properties_find(&source->kafka, "acks");
	int64_t number;

	if (strcmp(acks->value, "0") == 0)
		exclude(load, source, acks, nowhere, "at least once",
			"nothing would say that a message has arrived");
	if (is_false(idempotence->value))
		return;
	if (!is_all(acks->value))
		exclude(load, source, acks, property_place(idempotence), "enable.idempotence: true",
			"it needs acks: all");
	if (in_flight != NULL && value_integer(in_flight->value, &number) && number > IDEMPOTENT_IN_FLIGHT_MAX)
		exclude(load, source, in_flight, property_place(idempotence), "enable.idempotence: true",
			"5 is the most");
}

void rules_check_kafka(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	check_lease(load, node, source);
	check_key_order(load, node, source);
	check_idempotence(load, source);
}
