#include "io/kafkaproducer.h"

#include "base/crash.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000L
#define LEAVE_NS (SECOND_NS / 2)

static const uint64_t one = 1; /* an eventfd takes nothing shorter than 8 bytes */

static rd_kafka_t *new_client(const struct config_kafka *config, enum kafka_kind kind,
			      struct kafkaconf_limits *limits, struct err *err)
{
	rd_kafka_conf_t *conf = kafkaconf_new(config, NULL, limits, err, NULL);
	rd_kafka_t *rk;

	if (conf == NULL)
		return NULL;
	if ((kind == KAFKA_GAPLESS && !kafkaconf_close_gaps(conf, err)) ||
	    (kind == KAFKA_SINGLE && !kafkaconf_send_singly(conf, err))) {
		rd_kafka_conf_destroy(conf);
		return NULL;
	}
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_STATS |
					       RD_KAFKA_EVENT_LOG);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err->text, sizeof(err->text));
	if (rk == NULL)
		rd_kafka_conf_destroy(conf);
	return rk;
}

int kafkaproducer_descriptor(void)
{
	/* A blocking one would stop the library's threads once it is full. */
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	if (fd >= 0)
		return fd;
	LOG(LOG_ERROR, "no_descriptor", log_str("reason", strerror(errno)));
	abort();
}

struct kafkaproducer *kafkaproducer_new(const struct config_kafka *config, enum kafka_kind kind, int fd,
					struct err *err)
{
	struct kafkaconf_limits limits;
	rd_kafka_t *rk = new_client(config, kind, &limits, err);
	struct kafkaproducer *producer;

	if (rk == NULL)
		return NULL;
	producer = MEM_NEW(struct kafkaproducer);
	producer->rk = rk;
	producer->limits = limits;
	producer->fd = fd;
	producer->topics = kafkatopics_new(rk);
	rd_kafka_set_log_queue(rk, NULL); /* to the main queue, else lines come in the library's threads */
	producer->queue = rd_kafka_queue_get_main(rk);
	rd_kafka_queue_io_event_enable(producer->queue, fd, &one, sizeof(one));
	CRASH_POINT(PRODUCER_MADE);
	return producer;
}

/* The first one to give it up leaves it to the other. */
static void give_up(struct kafkaproducer *producer)
{
	if (atomic_exchange(&producer->given_up, true))
		mem_free(producer);
}

static void *end(void *context)
{
	struct kafkaproducer *producer = context;
	ssize_t told;

	kafkatopics_free(producer->topics);
	rd_kafka_queue_destroy(producer->queue);
	rd_kafka_destroy(producer->rk);
	atomic_store(&producer->ended, true);
	told = write(producer->fd, &one, sizeof(one));
	(void)told; /* the owner looks once a second in any case */
	close(producer->fd);
	give_up(producer);
	return NULL;
}

void kafkaproducer_end(struct kafkaproducer *producer)
{
	sigset_t all, before;

	rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
	producer->fd = fcntl(producer->fd, F_DUPFD_CLOEXEC, 0); /* the owner may leave, and close its own */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
	producer->has_thread = pthread_create(&producer->end, NULL, end, producer) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!producer->has_thread)
		end(producer); /* late is better than not at all */
}

rd_kafka_resp_err_t kafkaproducer_fatal(const struct kafkaproducer *producer, struct err *why)
{
	char text[sizeof(why->text)];
	rd_kafka_resp_err_t code = rd_kafka_fatal_error(producer->rk, text, sizeof(text));

	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return code;
	/* Only for its id, which it asks for first, does a producer need a right on the cluster. */
	err_set(why, "%s%s", text,
		code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED
			? ": the right IdempotentWrite on the cluster, or Write on some topic, is missing"
			: "");
	return code;
}

bool kafkaproducer_was_refused(const struct kafkaproducer *producer)
{
	return rd_kafka_fatal_error(producer->rk, NULL, 0) == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE;
}

bool kafkaproducer_has_ended(const struct kafkaproducer *producer)
{
	return atomic_load(&producer->ended);
}

void kafkaproducer_free(struct kafkaproducer *producer)
{
	if (producer->has_thread)
		pthread_join(producer->end, NULL);
	give_up(producer);
	CRASH_POINT(PRODUCER_ENDED);
}

/* At the end of the process, so that all is tidied up if it can be. */
void kafkaproducer_leave(struct kafkaproducer *producer)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LEAVE_NS;
	until.tv_sec += until.tv_nsec / SECOND_NS;
	until.tv_nsec %= SECOND_NS;
	if (producer->has_thread && pthread_clockjoin_np(producer->end, NULL, CLOCK_MONOTONIC, &until) != 0)
		pthread_detach(producer->end);
	give_up(producer);
	CRASH_POINT(PRODUCER_ENDED);
}

static rd_kafka_headers_t *make_headers(const struct message *message)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(message->n_headers);
	size_t i;

	for (i = 0; i < message->n_headers; i++) {
		const struct message_header *header = &message->headers[i];

		/* Of a list of our own this never fails; a NULL value is a header without one. */
		rd_kafka_header_add(headers, header->name.bytes, (ssize_t)header->name.len, header->value.bytes,
				    (ssize_t)header->value.len);
	}
	return headers;
}

rd_kafka_resp_err_t kafkaproducer_send(struct kafkaproducer *producer, const struct message *message, void *opaque)
{
	rd_kafka_topic_t *topic = kafkatopics_get(producer->topics, message->topic);
	/* Headers go as a list of our own: given one by one, the library frees them twice when it refuses the message
	 * (all versions before 2.12). The list is the library's once it has taken the message. */
	rd_kafka_headers_t *headers = make_headers(message);
	const rd_kafka_vu_t parts[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = message->partition},
		/* The value is neither copied nor freed; a NULL one is a tombstone. */
		{.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)message->value.bytes, message->value.len}},
		{.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)message->key.bytes, message->key.len}},
		{.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
		{.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = message->timestamp_ms},
		{.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque},
	};
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__INVALID_ARG;
	rd_kafka_error_t *error;

	if (topic != NULL) {
		error = rd_kafka_produceva(producer->rk, parts, sizeof(parts) / sizeof(parts[0]));
		if (error == NULL) {
			CRASH_POINT(MESSAGE_QUEUED);
			return RD_KAFKA_RESP_ERR_NO_ERROR;
		}
		code = rd_kafka_error_code(error);
		rd_kafka_error_destroy(error);
	}
	rd_kafka_headers_destroy(headers);
	return code;
}

void kafkaproducer_purge(struct kafkaproducer *producer, bool in_flight)
{
	int what = RD_KAFKA_PURGE_F_QUEUE | (in_flight ? RD_KAFKA_PURGE_F_INFLIGHT : 0);

	/* Blocking, it would wait for each broker's thread, and one may be looking up a host name. */
	rd_kafka_purge(producer->rk, what | RD_KAFKA_PURGE_F_NON_BLOCKING);
	CRASH_POINT(PRODUCER_PURGED);
}
