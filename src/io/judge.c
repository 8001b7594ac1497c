#include "io/judge.h"

#include "config/diff.h"
#include "config/secret.h"
#include "config/value.h"
#include "io/kafka.h"
#include "io/pgdsn.h"

#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

/* libpq's own message repeats parts of the string, and with them perhaps the password: it is not passed on. */
static bool judge_dsn(const char *dsn, struct err *err)
{
	PQconninfoOption *options = pgdsn_parse(dsn);
	bool good = options != NULL;

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

static const struct config_judge judge_libraries = {.dsn = judge_dsn, .property = judge_property};

/* ---- settings that contradict each other ---- */

static bool is_among(const struct config_kafka *kafka, const struct config_source *sources, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (diff_same_kafka(&sources[i].kafka, kafka))
			return true;
	return false;
}

static bool judge_kafka(const struct config *config, const struct config_source *source, struct buf *problems)
{
	const struct config_property *property;
	struct err err;
	int index;

	if (kafka_check(&source->kafka, &err, &index))
		return true;
	/* What one said already is not said again. */
	if (strstr(buf_text(problems), err.text) != NULL)
		return false;
	property = index < 0 ? NULL : &source->kafka.properties[index];
	if (property != NULL && property->line > 0)
		buf_print(problems, "%s:%d:%d: kafka.properties.%s: %s\n", config->file, property->line,
			  property->column, property->name, err.text);
	else
		buf_print(problems, "%s: kafka of source %s: %s\n", config->file, source->name, err.text);
	return false;
}

/* Sources mostly share them: each is tried once. */
static bool judge_all(const struct config *config, const struct config *known, struct buf *problems)
{
	bool good = true;
	size_t i;

	for (i = 0; i < config->n_sources; i++) {
		if (is_among(&config->sources[i].kafka, config->sources, i) ||
		    (known != NULL && is_among(&config->sources[i].kafka, known->sources, known->n_sources)))
			continue;
		good = judge_kafka(config, &config->sources[i], problems) && good;
	}
	return good;
}

struct config *judge_load(const char *file, const struct config *known, struct buf *problems)
{
	struct config *config = config_load_judged(file, &judge_libraries, problems);

	if (config == NULL || judge_all(config, known, problems))
		return config;
	config_free(config);
	return NULL;
}
