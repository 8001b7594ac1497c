/* Topics as a source knows them: who points to them, and how long rows of one with a fault wait. */
#include "relay/private.h"

#include "base/mem.h"

#include <string.h>

/* Rows of a topic with a fault wait a little longer than its breaker, each differently. */
#define SPREAD 0.04

static void free_topic(struct source *source, struct topic *topic)
{
	HASH_DEL(source->topics, topic);
	mem_free(topic->error);
	mem_free(topic);
}

void topics_free(struct source *source)
{
	struct topic *topic, *next;

	HASH_ITER (hh, source->topics, topic, next)
		free_topic(source, topic);
}

/* Rows may name any number of topics: those that nothing depends on are forgotten beyond a limit. Also an open breaker whose
 * time has passed: the next row of that topic is let through anyway. The limit rises with what has to stay, so that not
 * each new topic costs a walk over all. */
static void forget_idle_topics(struct source *source)
{
	struct topic *topic, *next;
	size_t left;

	HASH_ITER (hh, source->topics, topic, next)
		if (topic->rows == 0 && breaker_would_pass(&topic->breaker, source->now_us))
			free_topic(source, topic);
	left = HASH_COUNT(source->topics);
	source->topics_limit = left > TOPICS_MAX / 2 ? 2 * left : TOPICS_MAX;
}

static struct topic *find_topic(struct source *source, const char *name)
{
	struct topic *topic;
	size_t len = strlen(name);

	HASH_FIND(hh, source->topics, name, len, topic);
	if (topic != NULL)
		return topic;
	if (HASH_COUNT(source->topics) >= source->topics_limit)
		forget_idle_topics(source);
	topic = mem_new(1, sizeof(*topic) + len + 1);
	memcpy(topic->name, name, len);
	topic->number = ++source->topics_made;
	topic->delivered = metrics_series(source->env.metrics, METRIC_DELIVERED, source->config->name, name);
	HASH_ADD_KEYPTR(hh, source->topics, topic->name, len, topic);
	return topic;
}

void topics_leave(struct row *row)
{
	if (row->topic == NULL)
		return;
	row->topic->rows--;
	row->topic = NULL;
}

void topics_enter(struct row *row, const char *name)
{
	if (row->topic != NULL)
		return;
	row->topic = find_topic(row->batch->source, name);
	row->topic->rows++;
}

/* How long rows of a topic with a fault wait: until its breaker lets one through, spread a little. */
int64_t topics_pause(struct source *source, const struct topic *topic)
{
	int64_t pause = breaker_remaining(&topic->breaker, source->now_us);

	if (pause < BREAKER_INITIAL_US)
		pause = BREAKER_INITIAL_US;
	return pause + (int64_t)((double)pause * SPREAD * backoff_uniform(&source->random));
}

/* The same for a row that need not even be tried, and spread so that a million of them do not come back together: they are
 * claimed again at this rate, and whoever shares the table with them is hardly slowed. */
int64_t topics_deferral(struct source *source, struct topic *topic)
{
	int64_t wait = topics_pause(source, topic) + topic->deferred++ * (SECOND / DEFERRED_A_SECOND);

	return wait < PARK_MAX_US ? wait : PARK_MAX_US;
}

/* ---- what is told of those with a fault ---- */

/* A topic is out of order while its breaker is not closed, and rows of it have been seen lately. */
static bool is_faulty(const struct source *source, const struct topic *topic)
{
	return topic->breaker.state != BREAKER_CLOSED &&
	       (topic->rows > 0 || source->now_us < topic->breaker.until_us + TOPIC_SEEN_US);
}

const struct topic *topics_next_faulty(const struct source *source, const struct topic *topic)
{
	topic = topic == NULL ? source->topics : topic->hh.next;
	while (topic != NULL && !is_faulty(source, topic))
		topic = topic->hh.next;
	return topic;
}

size_t source_get_topic_faults(const struct source *source, struct source_topic_fault *faults, size_t most)
{
	const struct topic *topic = NULL;
	size_t n = 0;

	while ((topic = topics_next_faulty(source, topic)) != NULL) {
		if (n < most)
			faults[n] = (struct source_topic_fault){
				.topic = topic->name,
				.trying = topic->breaker.state == BREAKER_PROBING,
				.error = topic->error_name,
				.reason = topic->error,
				.for_us = source->now_us - topic->breaker.since_us,
				.next_try_us = breaker_remaining(&topic->breaker, source->now_us),
				.put_off = topic->deferred,
			};
		n++;
	}
	return n;
}

void topics_update_metrics(struct source *source)
{
	static const enum metric by_topic[] = {METRIC_TOPIC_FAULT, METRIC_TOPIC_NEXT_TRY, METRIC_TOPIC_PUT_OFF};
	struct source_topic_fault faults[SOURCE_TOPIC_FAULTS];
	size_t n = source_get_topic_faults(source, faults, SOURCE_TOPIC_FAULTS), i;
	struct metrics *metrics = source->env.metrics;
	const char *labels[METRICS_LABELS] = {source->config->name};

	for (i = 0; i < sizeof(by_topic) / sizeof(by_topic[0]); i++)
		metrics_drop(metrics, by_topic[i], source->config->name);
	metrics_set(metrics, METRIC_TOPIC_FAULTS, labels, (double)n);
	for (i = 0; i < n && i < SOURCE_TOPIC_FAULTS; i++) {
		labels[1] = faults[i].topic;
		metrics_set(metrics, METRIC_TOPIC_NEXT_TRY, labels, (double)faults[i].next_try_us / 1e6);
		metrics_set(metrics, METRIC_TOPIC_PUT_OFF, labels, (double)faults[i].put_off);
		labels[2] = faults[i].error;
		metrics_set(metrics, METRIC_TOPIC_FAULT, labels, 1);
		labels[2] = NULL;
	}
}
