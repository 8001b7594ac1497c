#include "core/metrics.h"

#include "base/hash.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { GAUGE, COUNTER, HISTOGRAM };

static const char *const type_names[] = {"gauge", "counter", "histogram"};

#define OTHER "other"

struct family {
	const char *name;
	enum type type;
	const char *help;
	const char *labels[METRICS_LABELS];
};

/* One row a family: the labels come last. */
#define FAMILY(metric, name, type, help, ...) [METRIC_##metric] = {name, type, help, {__VA_ARGS__}}

static const struct family families[METRICS] = {
	FAMILY(BUILD_INFO, "outboxd_build_info", GAUGE, "Always 1; the labels are the running versions.", "version",
	       "libpq", "librdkafka"),
	FAMILY(POSTGRES_UP, "outboxd_postgres_up", GAUGE, "1 while a connection to the source's database is ready.",
	       "source"),
	FAMILY(KAFKA_UP, "outboxd_kafka_up", GAUGE, "1 while a broker of the source's cluster is up.", "source"),
	FAMILY(ROWS, "outboxd_rows", GAUGE,
	       "Unsettled rows in the table by state, as last counted there; at 100000 the count stops.", "source",
	       "state"),
	FAMILY(OLDEST_PENDING_AGE, "outboxd_oldest_pending_age_seconds", GAUGE,
	       "Age of the oldest unfinished row, as last counted.", "source"),
	FAMILY(BLOCKED_KEYS, "outboxd_blocked_keys", GAUGE, "Keys that wait behind a failed row, as last counted.",
	       "source"),
	FAMILY(SNAPSHOT_AGE, "outboxd_oldest_snapshot_age_transactions", GAUGE,
	       "Transactions begun since the oldest snapshot that anybody in the database still holds, as last counted: what "
	       "was changed since then cannot be removed, and claims read over it.",
	       "source"),
	FAMILY(ROWS_REFRESHED, "outboxd_rows_refreshed_timestamp_seconds", GAUGE,
	       "When the rows, ages and blocked keys were last counted, in Unix time.", "source"),
	FAMILY(TOPIC_FAULTS, "outboxd_topic_faults", GAUGE,
	       "Topics that refuse their rows: rows of others go on, and one row after a pause tries again.",
	       "source"),
	FAMILY(TOPIC_FAULT, "outboxd_topic_fault", GAUGE,
	       "1 for each topic that refuses its rows, with Kafka's error; a hundred of a source at most.",
	       "source", "topic", "error"),
	FAMILY(TOPIC_NEXT_TRY, "outboxd_topic_next_try_seconds", GAUGE,
	       "Until the next row of a topic with a fault is tried; 0 while one is, or waits to be.", "source",
	       "topic"),
	FAMILY(TOPIC_PUT_OFF, "outboxd_topic_rows_put_off", GAUGE,
	       "Rows of a topic with a fault that were put off untried since it refused the last one.", "source",
	       "topic"),
	FAMILY(QUEUED, "outboxd_queued_messages", GAUGE, "Claimed rows that have not been handed to Kafka yet.",
	       "source"),
	FAMILY(IN_FLIGHT, "outboxd_in_flight_messages", GAUGE, "Messages handed to Kafka and not answered yet.",
	       "source"),
	FAMILY(UNSETTLED, "outboxd_unsettled_messages", GAUGE,
	       "Answered messages whose outcome is not written to the table yet.", "source"),
	FAMILY(CLAIMED, "outboxd_claimed_total", COUNTER, "Rows claimed.", "source"),
	FAMILY(DELIVERED, "outboxd_delivered_total", COUNTER, "Messages that Kafka has acknowledged.", "source",
	       "topic"),
	FAMILY(SETTLED, "outboxd_settled_total", COUNTER,
	       "Outcomes written to the table: sent, retry, failed, released; awaiting: delivered, and left to its consumer.",
	       "source", "outcome"),
	FAMILY(RETRIES, "outboxd_retries_total", COUNTER,
	       "Rows put back to be tried again, by Kafka's error or SQLSTATE.", "source", "error"),
	FAMILY(FAILED, "outboxd_failed_total", COUNTER, "Rows given up, by Kafka's error or SQLSTATE.", "source",
	       "error"),
	FAMILY(DEAD_LETTERS, "outboxd_dead_letters_total", COUNTER,
	       "Rows given up whose dead letter Kafka has acknowledged.", "source"),
	FAMILY(DEAD_LETTERS_REFUSED, "outboxd_dead_letters_refused_total", COUNTER,
	       "Times that a dead letter was refused, by Kafka's error: its row is not failed, and is tried again.",
	       "source", "error"),
	FAMILY(LEASE_EXPIRED, "outboxd_lease_expired_total", COUNTER,
	       "Rows taken over from a lease that had run out.", "source"),
	FAMILY(RESULT_TIMEOUTS, "outboxd_result_timeouts_total", COUNTER,
	       "Rows whose consumer had written no result in time: sent again, or failed.", "source"),
	FAMILY(SETTLE_FENCED, "outboxd_settle_fenced_total", COUNTER,
	       "Outcomes refused by the table, for the row was no longer this instance's.", "source"),
	FAMILY(POSSIBLE_DUPLICATES, "outboxd_possible_duplicates_total", COUNTER,
	       "Rows that Kafka may get twice: lease_expired, crash_recovered, producer_replaced, timed_out.",
	       "source", "window"),
	FAMILY(BACKPRESSURE, "outboxd_backpressure_total", COUNTER,
	       "Times that publishing or claiming had to wait.", "source", "reason"),
	FAMILY(HEADERS_DROPPED, "outboxd_headers_dropped_total", COUNTER,
	       "Headers of W3C Trace Context that a row had and its record was sent without, for they were malformed.",
	       "source", "header"),
	FAMILY(COMMIT_TO_ACK, "outboxd_commit_to_ack_seconds", HISTOGRAM,
	       "From the row's created_at to Kafka's acknowledgement.", "source"),
	FAMILY(TRANSACTION, "outboxd_transaction_seconds", HISTOGRAM,
	       "From sending a statement's transaction to its answer.", "source", "statement"),
	FAMILY(LOCK_TIMEOUTS, "outboxd_lock_timeouts_total", COUNTER, "Statements given up after lock_timeout.",
	       "source"),
	FAMILY(NOTIFY_ACTIVE, "outboxd_notify_active", GAUGE,
	       "1 while NOTIFY has proved to arrive; at 0 the source polls.", "source"),
	FAMILY(PRODUCER_REPLACEMENTS, "outboxd_producer_replacements_total", COUNTER,
	       "Times that the Kafka producer was replaced.", "source", "reason"),
	FAMILY(LOOP_LAG, "outboxd_event_loop_lag_seconds", GAUGE,
	       "Longest turn of the event loop since the last scrape: what came meanwhile had to wait.", NULL),
	FAMILY(RELOAD_SUCCESS, "outboxd_config_last_reload_success", GAUGE,
	       "0 when the last reload was rejected: the configuration before it goes on.", NULL),
	FAMILY(RELOAD_TIMESTAMP, "outboxd_config_last_reload_timestamp_seconds", GAUGE,
	       "When the running configuration was read, in Unix time.", NULL),
	FAMILY(PROCESS_CPU, "process_cpu_seconds_total", COUNTER,
	       "Total user and system CPU time spent in seconds.", NULL),
	FAMILY(PROCESS_RSS, "process_resident_memory_bytes", GAUGE, "Resident memory size in bytes.", NULL),
	FAMILY(PROCESS_FDS, "process_open_fds", GAUGE, "Number of open file descriptors.", NULL),
	FAMILY(PROCESS_START, "process_start_time_seconds", GAUGE,
	       "Start time of the process since unix epoch in seconds.", NULL),
};

/* Upper bounds in seconds; above the last is +Inf. A local round trip takes about a millisecond, an outage minutes. */
static const double coarse[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
				0.25,	0.5,   1,      2.5,   5,    10,	   30,	 60};
/* Steps of about a quarter where the path from commit to acknowledgement lies while all is well: quantiles of it,
 * interpolated, are good to a tenth. 1.1: without NOTIFY many rows wait for a whole poll interval, 1 s by default. */
static const double fine[] = {0.00025, 0.0003, 0.0004, 0.0005, 0.00065, 0.0008, 0.001, 0.00125, 0.0016, 0.002,
			      0.0025,  0.0032, 0.004,  0.005,  0.0065,	0.008,	0.01,  0.013,	0.016,	0.02,
			      0.025,   0.03,   0.05,   0.07,   0.1,	0.15,	0.25,  0.35,	0.5,	0.75,
			      1,       1.1,    1.5,    2.5,    5,	10,	30,    60};
#define BOUNDS_MAX (sizeof(fine) / sizeof(fine[0]))

struct scale {
	const double *bounds;
	size_t n_bounds;
};
#define SCALE(bounds)                                        \
	{                                                    \
		bounds, sizeof(bounds) / sizeof((bounds)[0]) \
	}

static const struct scale scales[METRICS] = {
	[METRIC_COMMIT_TO_ACK] = SCALE(fine),
	[METRIC_TRANSACTION] = SCALE(coarse),
};

struct metric_histogram {
	const struct scale *scale;
	uint64_t counts[BOUNDS_MAX + 1]; /* each for its own bucket; summed up when printed */
	double sum;
};

struct series {
	struct metric_series value; /* first: it is what callers hold */
	struct metric_histogram histogram;
	UT_hash_handle hh;
	char labels[]; /* the key, as printed: source="orders",topic="created" */
};

struct metrics {
	struct series *families[METRICS]; /* hash tables; they keep the order in which the series came */
	struct buf labels;		  /* scratch */
};

struct metrics *metrics_new(void)
{
	return MEM_NEW(struct metrics);
}

static void remove_series(struct series **family, struct series *series)
{
	HASH_DEL(*family, series);
	mem_free(series);
}

void metrics_free(struct metrics *metrics)
{
	struct series *series, *next;
	int i;

	if (metrics == NULL)
		return;
	for (i = 0; i < METRICS; i++) {
		HASH_ITER (hh, metrics->families[i], series, next)
			remove_series(&metrics->families[i], series);
	}
	buf_free(&metrics->labels);
	mem_free(metrics);
}

/* The format escapes these three, and all must be UTF-8; what is not becomes U+FFFD. */
static void add_escaped(struct buf *out, const char *text)
{
	size_t left = strlen(text), length;

	for (; left > 0; text += length, left -= length) {
		length = utf8_read(text, left, NULL);
		if (*text == '\\' || *text == '"')
			buf_add_char(out, '\\');
		if (*text == '\n')
			buf_add_string(out, "\\n");
		else if (length > 0)
			buf_add(out, text, length);
		else
			buf_add_string(out, "\xEF\xBF\xBD");
		length = length > 0 ? length : 1;
	}
}

static void write_labels(struct buf *out, const struct family *family, const char *const values[METRICS_LABELS])
{
	int i;

	buf_clear(out);
	for (i = 0; i < METRICS_LABELS && family->labels[i] != NULL; i++) {
		buf_print(out, "%s%s=\"", i > 0 ? "," : "", family->labels[i]);
		add_escaped(out, values[i] == NULL ? "" : values[i]);
		buf_add_char(out, '"');
	}
}

static struct series *find_series(struct metrics *metrics, enum metric metric,
				  const char *const values[METRICS_LABELS])
{
	struct series *series;

	write_labels(&metrics->labels, &families[metric], values);
	HASH_FIND(hh, metrics->families[metric], buf_text(&metrics->labels), metrics->labels.len, series);
	return series;
}

static struct series *add_series(struct metrics *metrics, enum metric metric)
{
	size_t len = metrics->labels.len;
	struct series *series = mem_new(1, sizeof(*series) + len + 1);

	series->histogram.scale = &scales[metric];
	memcpy(series->labels, buf_text(&metrics->labels), len);
	HASH_ADD(hh, metrics->families[metric], labels[0], len, series);
	return series;
}

/* The first label is a source, and sources stand in the configuration; the second may come from rows and so must be
 * bounded. */
static struct series *get_series(struct metrics *metrics, enum metric metric,
				 const char *const values[METRICS_LABELS])
{
	struct series *series = find_series(metrics, metric, values);

	if (series == NULL && families[metric].labels[1] != NULL &&
	    HASH_COUNT(metrics->families[metric]) >= METRICS_SERIES_MAX)
		series = find_series(metrics, metric, (const char *const[METRICS_LABELS]){values[0], OTHER});
	return series != NULL ? series : add_series(metrics, metric);
}

struct metric_series *metrics_series(struct metrics *metrics, enum metric metric, const char *first,
				     const char *second)
{
	return &get_series(metrics, metric, (const char *const[METRICS_LABELS]){first, second})->value;
}

struct metric_histogram *metrics_histogram(struct metrics *metrics, enum metric metric, const char *first,
					   const char *second)
{
	return &get_series(metrics, metric, (const char *const[METRICS_LABELS]){first, second})->histogram;
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *const labels[METRICS_LABELS],
		 double value)
{
	get_series(metrics, metric, labels)->value.value = value;
}

void metrics_observe(struct metric_histogram *histogram, double seconds)
{
	size_t i = 0;

	if (isnan(seconds))
		return;
	/* Clocks of two hosts may disagree: a negative duration is none. */
	seconds = seconds > 0 ? seconds : 0;
	while (i < histogram->scale->n_bounds && seconds > histogram->scale->bounds[i])
		i++;
	histogram->counts[i]++;
	histogram->sum += seconds;
}

void metrics_drop(struct metrics *metrics, enum metric metric, const char *first)
{
	const char *const values[METRICS_LABELS] = {first};
	struct family source_only = {.labels = {families[metric].labels[0]}};
	struct series *series, *next;
	size_t len;

	write_labels(&metrics->labels, &source_only, values);
	len = metrics->labels.len;
	HASH_ITER (hh, metrics->families[metric], series, next) {
		/* A quote inside a value is escaped, so a prefix that ends with one is a whole label. */
		if (strncmp(series->labels, buf_text(&metrics->labels), len) == 0)
			remove_series(&metrics->families[metric], series);
	}
}

void metrics_drop_gauges(struct metrics *metrics, const char *source)
{
	int i;

	for (i = 0; i < METRICS; i++)
		if (families[i].type == GAUGE && families[i].labels[0] != NULL &&
		    strcmp(families[i].labels[0], "source") == 0)
			metrics_drop(metrics, i, source);
}

double metrics_sum(struct metrics *metrics, enum metric metric, const char *second)
{
	const struct family second_only = {.labels = {families[metric].labels[1]}};
	const struct series *series;
	size_t len, own;
	double sum = 0;

	write_labels(&metrics->labels, &second_only, (const char *const[METRICS_LABELS]){second});
	own = metrics->labels.len;
	for (series = metrics->families[metric]; series != NULL; series = series->hh.next) {
		len = strlen(series->labels);
		/* The comma before it cannot be inside a value whose quotes are escaped: it is the whole last label. */
		if (len > own && series->labels[len - own - 1] == ',' &&
		    strcmp(series->labels + len - own, buf_text(&metrics->labels)) == 0)
			sum += series->value.value;
	}
	return sum;
}

/* The shortest of two forms that reads back as the same number. */
static void print_number(struct buf *out, double number)
{
	char text[32];

	if (isnan(number)) {
		buf_add_string(out, "NaN");
	} else if (isinf(number)) {
		buf_add_string(out, number > 0 ? "+Inf" : "-Inf");
	} else {
		snprintf(text, sizeof(text), "%.15g", number);
		if (strtod(text, NULL) != number)
			snprintf(text, sizeof(text), "%.17g", number);
		buf_add_string(out, text);
	}
}

/* One line: name, suffix, labels and the bucket's bound (NULL: none), number. */
static void print_sample(struct buf *out, const char *name, const char *suffix, const char *labels,
			 const char *bound, double number)
{
	const char *comma = labels[0] != '\0' && bound != NULL ? "," : "";

	buf_print(out, "%s%s", name, suffix);
	if (bound != NULL)
		buf_print(out, "{%s%sle=\"%s\"}", labels, comma, bound);
	else if (labels[0] != '\0')
		buf_print(out, "{%s}", labels);
	buf_add_char(out, ' ');
	print_number(out, number);
	buf_add_char(out, '\n');
}

static void print_histogram(struct buf *out, const char *name, const struct series *series)
{
	const struct scale *scale = series->histogram.scale;
	uint64_t count = 0;
	char bound[16];
	size_t i;

	for (i = 0; i < scale->n_bounds; i++) {
		count += series->histogram.counts[i];
		snprintf(bound, sizeof(bound), "%g", scale->bounds[i]);
		print_sample(out, name, "_bucket", series->labels, bound, (double)count);
	}
	count += series->histogram.counts[scale->n_bounds];
	print_sample(out, name, "_bucket", series->labels, "+Inf", (double)count);
	print_sample(out, name, "_sum", series->labels, NULL, series->histogram.sum);
	print_sample(out, name, "_count", series->labels, NULL, (double)count);
}

void metrics_print(const struct metrics *metrics, struct buf *out)
{
	const struct series *series;
	int i;

	for (i = 0; i < METRICS; i++) {
		const struct family *family = &families[i];

		buf_print(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
			  type_names[family->type]);
		for (series = metrics->families[i]; series != NULL; series = series->hh.next) {
			if (family->type == HISTOGRAM)
				print_histogram(out, family->name, series);
			else
				print_sample(out, family->name, "", series->labels, NULL, series->value.value);
		}
	}
}
