#include "kafkabench.h"

#include "base/mem.h"

#include <string.h>

/* No answer may come before kafka_publish has returned. */
static bool publishing;

static void on_answer(void *tag, const struct kafka_answer *answer)
{
	struct letter *letter = tag;

	ck_assert_msg(!publishing, "answered inside kafka_publish");
	letter->answers++;
	letter->answer = *answer;
	letter->answer.text = NULL;
	strncpy(letter->text, answer->text, sizeof(letter->text) - 1);
	mem_free(letter->value);
	letter->value = NULL;
}

void bench_open(struct bench *bench)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	*bench = (struct bench){0};
	rd_kafka_conf_set_log_cb(conf, NULL);
	bench->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
	bench->cluster = rd_kafka_mock_cluster_new(bench->host, 1);
	bench->loop = ev_loop_new(EVFLAG_NOENV);
	bench->config.bootstrap_servers = rd_kafka_mock_cluster_bootstraps(bench->cluster);
	bench->config.message_timeout_us = 30000000;
	bench->config.properties = bench->properties;
}

void bench_property(struct bench *bench, const char *name, const char *value)
{
	ck_assert_uint_lt(bench->config.n_properties, sizeof(bench->properties) / sizeof(bench->properties[0]));
	bench->properties[bench->config.n_properties++] = (struct config_property){.name = name, .value = value};
}

void bench_start_unconnected(struct bench *bench)
{
	bench->kafka = kafka_new(bench->loop, &bench->config, bench->kind, on_answer);
}

void bench_start(struct bench *bench)
{
	bench_start_unconnected(bench);
	bench_wait_up(bench, true, 10);
}

void bench_close(struct bench *bench)
{
	if (bench->kafka != NULL)
		kafka_free(bench->kafka);
	ev_loop_destroy(bench->loop);
	while (bench->n_consumers > 0)
		rd_kafka_destroy(bench->consumers[--bench->n_consumers]);
	rd_kafka_mock_cluster_destroy(bench->cluster);
	rd_kafka_destroy(bench->host);
}

/* Time is counted in slices, so that a machine that stood still does not end the wait. */
#define SLICE_SECONDS 0.05

static void on_slice(struct ev_loop *loop, struct ev_timer *timer, int revents)
{
	(void)loop, (void)revents;
	*(double *)timer->data -= SLICE_SECONDS;
}

/* Turns the loop until done() holds; false when the time is over before. */
static bool run_until(struct bench *bench, bool (*done)(const struct bench *), double seconds)
{
	struct ev_timer slice;

	ev_now_update(bench->loop);
	ev_timer_init(&slice, on_slice, SLICE_SECONDS, SLICE_SECONDS);
	slice.data = &seconds;
	ev_timer_start(bench->loop, &slice);
	while (seconds > 0 && !done(bench))
		ev_run(bench->loop, EVRUN_ONCE);
	ev_timer_stop(bench->loop, &slice);
	return done(bench);
}

static bool is_up(const struct bench *bench)
{
	return kafka_up(bench->kafka);
}

static bool is_down(const struct bench *bench)
{
	return !kafka_up(bench->kafka);
}

static bool is_settled(const struct bench *bench)
{
	return kafka_outstanding(bench->kafka) == 0;
}

static bool never(const struct bench *bench)
{
	(void)bench;
	return false;
}

void bench_settle(struct bench *bench, double seconds)
{
	ck_assert_msg(run_until(bench, is_settled, seconds), "%zu messages have no answer",
		      kafka_outstanding(bench->kafka));
}

void bench_wait_up(struct bench *bench, bool up, double seconds)
{
	ck_assert_msg(run_until(bench, up ? is_up : is_down, seconds), "still %s: %s", up ? "down" : "up",
		      kafka_reason(bench->kafka));
	ck_assert_int_eq(kafka_reason(bench->kafka)[0] == '\0', up);
}

void bench_run(struct bench *bench, double seconds)
{
	run_until(bench, never, seconds);
}

bool bench_publish(struct bench *bench, struct letter *letter, const struct message *message)
{
	struct kafka_answer refusal = {.verdict = VERDICT_OK};
	enum verdict verdict;

	publishing = true;
	verdict = kafka_publish(bench->kafka, message, letter, &refusal);
	publishing = false;
	if (verdict == VERDICT_OK)
		return true;
	ck_assert_int_eq(verdict, refusal.verdict);
	letter->refused = true;
	letter->answer = refusal;
	letter->answer.text = NULL;
	strncpy(letter->text, refusal.text, sizeof(letter->text) - 1);
	mem_free(letter->value);
	letter->value = NULL;
	return false;
}

bool bench_send(struct bench *bench, struct letter *letter, const char *topic, size_t len)
{
	struct message message = {.topic = topic, .partition = -1, .key = slice_of("key")};

	*letter = (struct letter){.value = mem_new(len, 1)};
	memset(letter->value, 'v', len);
	message.value = (struct slice){letter->value, len};
	return bench_publish(bench, letter, &message);
}

void bench_fail(struct bench *bench, rd_kafka_resp_err_t code, int count)
{
	while (count-- > 0)
		rd_kafka_mock_push_request_errors(bench->cluster, API_PRODUCE, 1, code);
}

void bench_check_answered_once(const struct letter *letters, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		ck_assert_msg(letters[i].answers == (letters[i].refused ? 0 : 1), "letter %zu has %d answers", i,
			      letters[i].answers);
}

void bench_check_answer(const struct letter *letter, enum verdict verdict, enum fault fault, bool possibly_written)
{
	ck_assert_msg(letter->answer.verdict == verdict && letter->answer.fault == fault &&
			      letter->answer.possibly_written == possibly_written,
		      "%s (%s): %s, fault %s, possibly written %d", letter->answer.name, letter->text,
		      verdict_name(letter->answer.verdict), fault_name(letter->answer.fault),
		      letter->answer.possibly_written);
}

void bench_check_all(const struct letter *letters, size_t n, enum verdict verdict, enum fault fault,
		     bool possibly_written)
{
	size_t i;

	bench_check_answered_once(letters, n);
	for (i = 0; i < n; i++)
		bench_check_answer(&letters[i], verdict, fault, possibly_written);
}

void bench_send_all(struct bench *bench, struct letter *letters, size_t n, const char *topic)
{
	size_t i;

	for (i = 0; i < n; i++)
		ck_assert_msg(bench_send(bench, &letters[i], topic, 100), "refused: %s", letters[i].text);
}

/* ---- what stands on a topic ---- */

static rd_kafka_t *new_consumer(struct bench *bench)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;

	rd_kafka_conf_set_log_cb(conf, NULL);
	rd_kafka_conf_set(conf, "bootstrap.servers", bench->config.bootstrap_servers, NULL, 0);
	rd_kafka_conf_set(conf, "group.id", "bench", NULL, 0);
	rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
	rd_kafka_poll_set_consumer(rk);
	return rk;
}

/* Every partition of the topic, from its beginning. */
static void assign(rd_kafka_t *rk, const char *topic)
{
	rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(4);
	rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
	const struct rd_kafka_metadata *metadata;
	int i;

	ck_assert_int_eq(rd_kafka_metadata(rk, 0, handle, &metadata, 10000), RD_KAFKA_RESP_ERR_NO_ERROR);
	for (i = 0; i < metadata->topics[0].partition_cnt; i++)
		rd_kafka_topic_partition_list_add(partitions, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
	rd_kafka_assign(rk, partitions);
	rd_kafka_metadata_destroy(metadata);
	rd_kafka_topic_partition_list_destroy(partitions);
	rd_kafka_topic_destroy(handle);
}

void bench_consume(struct bench *bench, const char *topic, rd_kafka_message_t **records, size_t n)
{
	rd_kafka_t *rk = new_consumer(bench);
	rd_kafka_message_t *record;
	size_t got = 0;
	int patience = 200;

	assign(rk, topic);
	while (got < n && patience-- > 0) {
		record = rd_kafka_consumer_poll(rk, 100);
		if (record != NULL && record->err == RD_KAFKA_RESP_ERR_NO_ERROR)
			records[got++] = record;
		else if (record != NULL)
			rd_kafka_message_destroy(record);
	}
	ck_assert_uint_eq(got, n);
	/* The records point into it. */
	ck_assert_uint_lt(bench->n_consumers, sizeof(bench->consumers) / sizeof(bench->consumers[0]));
	bench->consumers[bench->n_consumers++] = rk;
}

int64_t bench_count(struct bench *bench, const char *topic, int partitions)
{
	rd_kafka_t *rk = new_consumer(bench);
	int64_t low, high, sum = 0;
	int i;

	for (i = 0; i < partitions; i++) {
		ck_assert_int_eq(rd_kafka_query_watermark_offsets(rk, topic, i, &low, &high, 10000), 0);
		sum += high;
	}
	rd_kafka_destroy(rk);
	return sum;
}
