#include "feed.h"

#include "bench.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define CONNECT_MS 30000

static void await_broker(struct feed *feed)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error = rd_kafka_metadata(feed->producer->rk, 0, NULL, &metadata, CONNECT_MS);

	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		bench_die("kafka: no broker answers: %s", rd_kafka_err2str(error));
	rd_kafka_metadata_destroy(metadata);
}

void feed_open(struct feed *feed, const struct config_kafka *config)
{
	struct err err;

	*feed = (struct feed){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	if (feed->fd < 0)
		bench_die("no eventfd");
	/* Without the guarantee against gaps: a lost message ends the process anyway. */
	feed->producer = kafkaproducer_new(config, KAFKA_PLAIN, feed->fd, &err);
	if (feed->producer == NULL)
		bench_die("kafka: %s", err.text);
	await_broker(feed);
	/* What stood in the queue before the descriptor was known has not been written to it. */
	feed_serve(feed, 0, NULL, NULL);
}

void feed_close(struct feed *feed)
{
	kafkaproducer_end(feed->producer);
	kafkaproducer_free(feed->producer);
	close(feed->fd);
}

bool feed_send(struct feed *feed, const struct message *message, void *opaque)
{
	rd_kafka_resp_err_t error = kafkaproducer_send(feed->producer, message, opaque);

	if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		return false;
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		bench_die("kafka refuses a message: %s", rd_kafka_err2str(error));
	feed->outstanding++;
	return true;
}

static void take_reports(struct feed *feed, rd_kafka_event_t *event, feed_report_fn *on_report, void *context)
{
	const rd_kafka_message_t *report;

	while ((report = rd_kafka_event_message_next(event)) != NULL) {
		if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR)
			bench_die("a message was not delivered: %s", rd_kafka_err2str(report->err));
		feed->outstanding--;
		on_report(context, report->_private);
	}
}

/* The descriptor is written only when the queue turns from empty to filled: so it is emptied each time. */
void feed_serve(struct feed *feed, int wait_ms, feed_report_fn *on_report, void *context)
{
	rd_kafka_event_t *event;
	uint64_t count;

	if (read(feed->fd, &count, sizeof(count)) < 0)
		count = 0; /* nothing was written; the queue is looked at all the same */
	while ((event = rd_kafka_queue_poll(feed->producer->queue, wait_ms)) != NULL) {
		wait_ms = 0;
		/* Statistics, log lines, and errors that pass: one that does not ends in a report. */
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
			take_reports(feed, event, on_report, context);
		rd_kafka_event_destroy(event);
	}
}
