#include "io/kafkastats.h"

#include <jansson.h>
#include <string.h>

static bool has_text(const json_t *object, const char *name, const char *text)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value != NULL && strcmp(value, text) == 0;
}

static bool any_broker_up(json_t *brokers)
{
	const char *name;
	json_t *broker;

	json_object_foreach(brokers, name, broker) if (has_text(broker, "state", "UP")) return true;
	return false;
}

struct kafkastats kafkastats_parse(const char *json, size_t len)
{
	struct kafkastats stats = {0};
	json_t *root = json_loadb(json, len, 0, NULL), *eos;

	if (root == NULL)
		return stats;
	stats.broker_up = any_broker_up(json_object_get(root, "brokers"));
	eos = json_object_get(root, "eos");
	stats.producer_id = eos == NULL || has_text(eos, "idemp_state", "Assigned");
	json_decref(root);
	return stats;
}
