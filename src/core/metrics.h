/* metrics: counters, gauges and histograms with up to three labels, and their Prometheus text.
 * Pure: whoever counts calls here; whoever serves the page asks for the text. */
#ifndef OUTBOXD_CORE_METRICS_H
#define OUTBOXD_CORE_METRICS_H

#include "base/buf.h"

#include <stdint.h>

/* One row for each family in metrics.c: name, type, labels, help. Only families that are filled are listed. */
enum metric {
	METRIC_BUILD_INFO,	      /* version, libpq, librdkafka */
	METRIC_POSTGRES_UP,	      /* source */
	METRIC_KAFKA_UP,	      /* source */
	METRIC_ROWS,		      /* source, state */
	METRIC_OLDEST_PENDING_AGE,    /* source */
	METRIC_BLOCKED_KEYS,	      /* source */
	METRIC_SNAPSHOT_AGE,	      /* source */
	METRIC_ROWS_REFRESHED,	      /* source: when METRIC_ROWS and the ages were counted, Unix seconds */
	METRIC_TOPIC_FAULTS,	      /* source: how many topics */
	METRIC_TOPIC_FAULT,	      /* source, topic, error: 1 */
	METRIC_TOPIC_NEXT_TRY,	      /* source, topic: seconds */
	METRIC_TOPIC_PUT_OFF,	      /* source, topic: rows */
	METRIC_QUEUED,		      /* source */
	METRIC_IN_FLIGHT,	      /* source */
	METRIC_UNSETTLED,	      /* source */
	METRIC_CLAIMED,		      /* source */
	METRIC_DELIVERED,	      /* source, topic */
	METRIC_SETTLED,		      /* source, outcome */
	METRIC_RETRIES,		      /* source, error */
	METRIC_FAILED,		      /* source, error */
	METRIC_DEAD_LETTERS,	      /* source */
	METRIC_DEAD_LETTERS_REFUSED,  /* source, error */
	METRIC_LEASE_EXPIRED,	      /* source */
	METRIC_RESULT_TIMEOUTS,	      /* source */
	METRIC_SETTLE_FENCED,	      /* source */
	METRIC_POSSIBLE_DUPLICATES,   /* source, window */
	METRIC_BACKPRESSURE,	      /* source, reason */
	METRIC_HEADERS_DROPPED,	      /* source, header */
	METRIC_COMMIT_TO_ACK,	      /* source; histogram, seconds */
	METRIC_TRANSACTION,	      /* source, statement; histogram, seconds */
	METRIC_LOCK_TIMEOUTS,	      /* source */
	METRIC_NOTIFY_ACTIVE,	      /* source */
	METRIC_PRODUCER_REPLACEMENTS, /* source, reason */
	METRIC_LOOP_LAG,	      /* gauge, seconds */
	METRIC_RELOAD_SUCCESS,	      /* gauge, 0 or 1 */
	METRIC_RELOAD_TIMESTAMP,      /* gauge, Unix seconds */
	METRIC_PROCESS_CPU,
	METRIC_PROCESS_RSS,
	METRIC_PROCESS_FDS,
	METRIC_PROCESS_START /* process_* */
};
#define METRICS (METRIC_PROCESS_START + 1)

struct metrics;
/* One time series: counters and gauges are set through the pointer; it lives as long as the metrics (or until
 * metrics_drop). */
struct metric_series {
	double value;
};
struct metric_histogram;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

/* A family with two labels keeps this many series; a second label's value beyond becomes "other". */
#define METRICS_SERIES_MAX 1000

/* The series with these label values (copied), made with value 0 when new. first, second: as many as the family has labels,
 * else NULL. */
struct metric_series *metrics_series(struct metrics *metrics, enum metric metric, const char *first,
				     const char *second);
struct metric_histogram *metrics_histogram(struct metrics *metrics, enum metric metric, const char *first,
					   const char *second);
/* Sets a gauge with any number of labels: as many as the family has, the others NULL. */
#define METRICS_LABELS 3
void metrics_set(struct metrics *metrics, enum metric metric, const char *const labels[METRICS_LABELS],
		 double value);
/* NaN is left out, a negative duration counts as 0. */
void metrics_observe(struct metric_histogram *histogram, double seconds);

/* Removes all series of a source (its first label): gauges must not keep yesterday's number. */
void metrics_drop(struct metrics *metrics, enum metric metric, const char *first);

/* The same in every family of gauges: the source is no more, or another one has its name from now on. So nobody keeps the
 * pointer to a gauge. Counters go on. */
void metrics_drop_gauges(struct metrics *metrics, const char *source);

/* All sources' series with this second label together. */
double metrics_sum(struct metrics *metrics, enum metric metric, const char *second);

/* Appends the page in text format 0.0.4: every family with HELP and TYPE, also those without samples. */
void metrics_print(const struct metrics *metrics, struct buf *out);

#endif
