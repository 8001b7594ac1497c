/* kafkabench: a mock cluster, a struct kafka and messages that count their answers, for the tests of src/io/kafka*.
 * Everything lives in the test's own process, which Check forks for each test. */
#ifndef OUTBOXD_TESTS_KAFKABENCH_H
#define OUTBOXD_TESTS_KAFKABENCH_H

#include "io/kafka.h"

#include <check.h>
#include <ev.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

/* What a test waits for at most; an unloaded machine needs a fraction. */
#define SOON 20.0

#define API_PRODUCE 0
#define API_INIT_PRODUCER_ID 22

struct bench {
	struct ev_loop *loop;
	rd_kafka_t *host; /* what the mock cluster needs to live */
	rd_kafka_mock_cluster_t *cluster;
	struct config_kafka config;
	enum kafka_kind kind; /* KAFKA_PLAIN unless set before bench_start */
	struct config_property properties[8];
	struct kafka *kafka;
	rd_kafka_t *consumers[4]; /* of bench_consume */
	size_t n_consumers;
};

/* A message handed over, and what became of it. The value is freed by the answer: under an address checker, a library that
 * still reads it is seen. */
struct letter {
	char *value;
	int answers;
	bool refused;
	struct kafka_answer answer; /* the last answer or the refusal; its text is cut off */
	char text[256];
};

/* One mock broker, nothing started yet: set config and properties, then bench_start. */
void bench_open(struct bench *bench);
void bench_property(struct bench *bench, const char *name, const char *value);

/* Makes the producer, and waits until it is up. */
void bench_start(struct bench *bench);
void bench_start_unconnected(struct bench *bench);

/* Frees everything; each letter has its answer by then. */
void bench_close(struct bench *bench);

/* Runs the loop until there are no messages without an answer, or until the producer is up (or down); fails after the
 * seconds. */
void bench_settle(struct bench *bench, double seconds);
void bench_wait_up(struct bench *bench, bool up, double seconds);
void bench_run(struct bench *bench, double seconds);

/* Publishes a message whose value is of `len` bytes. True when it was accepted. */
bool bench_send(struct bench *bench, struct letter *letter, const char *topic, size_t len);

/* The same for n of them to one topic, each of which must be accepted. */
void bench_send_all(struct bench *bench, struct letter *letters, size_t n, const char *topic);

/* Publishes a message as it is; its value has to live until the answer. */
bool bench_publish(struct bench *bench, struct letter *letter, const struct message *message);

/* The next `count` Produce requests fail. */
void bench_fail(struct bench *bench, rd_kafka_resp_err_t code, int count);

/* Fails unless each of the letters was answered exactly once (a refused one: never). */
void bench_check_answered_once(const struct letter *letters, size_t n);

/* Fails unless the letter's answer or refusal is this; for all, unless each was answered once, and so. */
void bench_check_answer(const struct letter *letter, enum verdict verdict, enum fault fault, bool possibly_written);
void bench_check_all(const struct letter *letters, size_t n, enum verdict verdict, enum fault fault,
		     bool possibly_written);

/* Reads `n` records of a topic from its beginning; destroy each before bench_close. Fails when they do not come. */
void bench_consume(struct bench *bench, const char *topic, rd_kafka_message_t **records, size_t n);

/* How many records were ever written to a topic. */
int64_t bench_count(struct bench *bench, const char *topic, int partitions);

#endif
