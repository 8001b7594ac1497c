#include "io/judge.h"

#include "config/secret.h"
#include "config/value.h"

#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>

/* libpq's own message repeats parts of the string, and with them perhaps the password: it is not passed on. */
static bool judge_dsn(const char *dsn, struct err *err)
{
	char *message = NULL;
	PQconninfoOption *options = PQconninfoParse(dsn, &message);
	bool good = options != NULL;

	PQfreemem(message);
	PQconninfoFree(options);
	return good ||
	       err_set(err, "libpq does not understand this connection string (it may hold a password, so it "
			    "is not shown)");
}

/* dump: names and values in turn. */
static void find_nearest(const char *name, const char **dump, size_t n_dump, struct buf *nearest, size_t *best)
{
	size_t distance;

	for (size_t i = 0; i < n_dump; i += 2) {
		distance = value_distance(name, dump[i]);
		if (distance >= *best)
			continue;
		*best = distance;
		buf_clear(nearest);
		buf_add_string(nearest, dump[i]);
	}
	rd_kafka_conf_dump_free(dump, n_dump);
}

static bool unknown_property(rd_kafka_conf_t *conf, const char *name, struct err *err)
{
	rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
	struct buf nearest = {0};
	size_t best = SIZE_MAX, n_dump;
	const char **dump;

	dump = rd_kafka_conf_dump(conf, &n_dump);
	find_nearest(name, dump, n_dump, &nearest, &best);
	dump = rd_kafka_topic_conf_dump(topic_conf, &n_dump);
	find_nearest(name, dump, n_dump, &nearest, &best);
	if (best == SIZE_MAX)
		err_set(err, "librdkafka has no such property");
	else
		err_set(err, "librdkafka has no such property: did you mean %s?", buf_text(&nearest));
	rd_kafka_topic_conf_destroy(topic_conf);
	buf_free(&nearest);
	return false;
}

static bool judge_property(const char *name, const char *value, struct err *err)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];
	rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, why, sizeof(why));

	if (result == RD_KAFKA_CONF_UNKNOWN)
		unknown_property(conf, name, err);
	else if (result != RD_KAFKA_CONF_OK)
		err_set(err, "%s", secret_is_property(name) ? "librdkafka refuses the value" : why);
	rd_kafka_conf_destroy(conf);
	return result == RD_KAFKA_CONF_OK;
}

const struct config_judge judge_libraries = {.dsn = judge_dsn, .property = judge_property};
