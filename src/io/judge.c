#include "io/judge.h"

#include "config/secret.h"
#include "config/value.h"

#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

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

/* The library prints its properties as a table, `name | C/P | ...`: the only list that has them all, aliases and
 * passwords too. */
static void find_nearest(const char *name, char *table, char *nearest, size_t size)
{
	size_t best = SIZE_MAX, distance;
	char *line, *next;

	nearest[0] = '\0';
	for (line = table; line != NULL && *line != '\0'; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		line[strcspn(line, " |")] = '\0';
		distance = value_distance(name, line);
		if (distance >= best)
			continue;
		best = distance;
		snprintf(nearest, size, "%s", line);
	}
}

static bool unknown_property(const char *name, struct err *err)
{
	char *table = NULL, nearest[128] = "";
	size_t size;
	FILE *stream = open_memstream(&table, &size);

	if (stream != NULL) {
		rd_kafka_conf_properties_show(stream);
		fclose(stream);
		find_nearest(name, table, nearest, sizeof(nearest));
		free(table);
	}
	return err_set(err, "librdkafka has no such property%s%s%s", nearest[0] == '\0' ? "" : ": did you mean ",
		       nearest, nearest[0] == '\0' ? "" : "?");
}

static bool judge_property(const char *name, const char *value, struct err *err)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256] = "";
	rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, why, sizeof(why));

	why[strcspn(why, "\n")] = '\0'; /* some of its messages end a line */
	if (result == RD_KAFKA_CONF_UNKNOWN)
		unknown_property(name, err);
	else if (result != RD_KAFKA_CONF_OK)
		err_set(err, "%s", secret_is_property(name) ? "librdkafka refuses the value" : why);
	rd_kafka_conf_destroy(conf);
	return result == RD_KAFKA_CONF_OK;
}

const struct config_judge judge_libraries = {.dsn = judge_dsn, .property = judge_property};
