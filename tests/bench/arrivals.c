#include "arrivals.h"

#include "base/mem.h"
#include "bench.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MS 30000
#define GIVE_UP_US 10000000 /* after the last arrival, once all has been written */

struct arrivals {
	rd_kafka_t *rk;
	pthread_t thread;
	unsigned run;
	size_t n, seen;
	int64_t *at_us;
	atomic_bool written; /* all that will come has been written */
};

/* The longest that a fetch waits is a bound for an idle topic only: any record ends it. */
static const struct {
	const char *name, *value;
} settings[] = {
	{"group.id", "load"},	      {"enable.auto.commit", "false"},	{"fetch.min.bytes", "1"},
	{"fetch.wait.max.ms", "100"}, {"fetch.error.backoff.ms", "10"}, {"socket.nagle.disable", "true"},
};

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		bench_die("kafka: %s", why);
}

static rd_kafka_t *new_consumer(const char *bootstrap)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;
	char why[256];

	set(conf, "bootstrap.servers", bootstrap);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		set(conf, settings[i].name, settings[i].value);
	rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (rk == NULL)
		bench_die("kafka: %s", why);
	rd_kafka_poll_set_consumer(rk);
	return rk;
}

static int partitions(rd_kafka_t *rk, const char *topic)
{
	rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, handle, &metadata, ANSWER_MS);
	int n;

	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		bench_die("kafka: %s", rd_kafka_err2str(error));
	n = metadata->topics[0].partition_cnt;
	if (n == 0)
		bench_die("kafka: there is no topic %s", topic);
	rd_kafka_metadata_destroy(metadata);
	rd_kafka_topic_destroy(handle);
	return n;
}

/* From offsets asked for now: "the end" would be looked up some time later, and what was written until then be missed. */
static void assign(rd_kafka_t *rk, const char *topic)
{
	int n = partitions(rk, topic);
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);
	rd_kafka_resp_err_t error;
	int64_t low, high;

	for (int i = 0; i < n; i++) {
		error = rd_kafka_query_watermark_offsets(rk, topic, i, &low, &high, ANSWER_MS);
		if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
			bench_die("kafka: %s", rd_kafka_err2str(error));
		rd_kafka_topic_partition_list_add(list, topic, i)->offset = high;
	}
	error = rd_kafka_assign(rk, list);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		bench_die("kafka: %s", rd_kafka_err2str(error));
	rd_kafka_topic_partition_list_destroy(list);
}

/* The number of a record of this run; n for any other. */
static size_t number_of(const struct arrivals *arrivals, const rd_kafka_message_t *message)
{
	size_t len = message->len < 63 ? message->len : 63, number;
	char text[64];
	unsigned run;

	memcpy(text, message->payload, len);
	text[len] = '\0';
	if (sscanf(text, ARRIVALS_PAYLOAD, &number, &run) != 2 || run != arrivals->run)
		return arrivals->n;
	return number < arrivals->n ? number : arrivals->n;
}

static void note(struct arrivals *arrivals, const rd_kafka_message_t *message, int64_t now_us)
{
	size_t number;

	/* Other errors pass: the library goes on by itself. */
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR || message->payload == NULL)
		return;
	number = number_of(arrivals, message);
	if (number == arrivals->n || arrivals->at_us[number] != 0)
		return;
	arrivals->at_us[number] = now_us;
	arrivals->seen++;
}

static void *read_topic(void *context)
{
	struct arrivals *arrivals = context;
	int64_t last_us = bench_now_us(), now_us = last_us;
	rd_kafka_message_t *message;

	while (arrivals->seen < arrivals->n && (!arrivals->written || now_us - last_us < GIVE_UP_US)) {
		message = rd_kafka_consumer_poll(arrivals->rk, 100);
		now_us = bench_now_us();
		if (message == NULL)
			continue;
		last_us = now_us;
		note(arrivals, message, now_us);
		rd_kafka_message_destroy(message);
	}
	return NULL;
}

struct arrivals *arrivals_open(const char *bootstrap, const char *topic, unsigned run, size_t n)
{
	struct arrivals *arrivals = MEM_NEW(struct arrivals);

	arrivals->rk = new_consumer(bootstrap);
	arrivals->run = run;
	arrivals->n = n;
	arrivals->at_us = MEM_NEW_ARRAY(n, int64_t);
	assign(arrivals->rk, topic);
	if (pthread_create(&arrivals->thread, NULL, read_topic, arrivals) != 0)
		bench_die("no thread");
	return arrivals;
}

const int64_t *arrivals_wait(struct arrivals *arrivals)
{
	arrivals->written = true;
	pthread_join(arrivals->thread, NULL);
	return arrivals->at_us;
}

void arrivals_close(struct arrivals *arrivals)
{
	rd_kafka_consumer_close(arrivals->rk);
	rd_kafka_destroy(arrivals->rk);
	mem_free(arrivals->at_us);
	mem_free(arrivals);
}
