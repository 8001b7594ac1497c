/* kafka: each accepted message has exactly one answer, whatever the brokers and the library do. On a mock cluster. */
#include "../unit/unit.h"

#include "base/mem.h"
#include "kafkabench.h"

#include <string.h>

/* ---- bytes ---- */

static void check_bytes(const char *what, const void *bytes, size_t len, struct slice want)
{
	ck_assert_msg((bytes == NULL) == (want.bytes == NULL), "%s is %s", what,
		      bytes == NULL ? "NULL" : "not NULL");
	ck_assert_msg(len == want.len && (len == 0 || memcmp(bytes, want.bytes, len) == 0), "%s differs", what);
}

START_TEST(test_F001_F002_key_and_value_byte_for_byte)
{
	static char all[256], large[900000];
	const struct slice values[] = {
		SLICE_NULL, {"", 0}, {"null", 4}, {"\0", 1}, {all, sizeof(all)}, {large, sizeof(large)}};
	const struct slice keys[] = {SLICE_NULL, {"", 0}, {"a\0b", 3}, {"\xff", 1}, {all, sizeof(all)}, {"k", 1}};
	struct letter letters[6] = {0};
	rd_kafka_message_t *records[6];
	struct bench bench;
	size_t i;

	for (i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * 2654435761U >> 13);
	for (i = 0; i < sizeof(all); i++)
		all[i] = (char)i;
	bench_open(&bench);
	rd_kafka_mock_topic_create(bench.cluster, "bytes", 1, 1);
	bench_start(&bench);
	for (i = 0; i < 6; i++)
		ck_assert(bench_publish(
			&bench, &letters[i],
			&(struct message){.topic = "bytes", .partition = -1, .key = keys[i], .value = values[i]}));
	bench_settle(&bench, SOON);
	bench_check_all(letters, 6, VERDICT_OK, FAULT_NONE, false);
	bench_consume(&bench, "bytes", records, 6);
	for (i = 0; i < 6; i++) {
		check_bytes("value", records[i]->payload, records[i]->len, values[i]);
		check_bytes("key", records[i]->key, records[i]->key_len, keys[i]);
		rd_kafka_message_destroy(records[i]);
	}
	bench_close(&bench);
}
END_TEST

START_TEST(test_F002_headers_byte_for_byte)
{
	const struct message_header headers[] = {
		{{"event_id!", 8}, {"1\0002", 3}}, {{"nothing", 7}, SLICE_NULL}, {{"empty", 5}, {"", 0}}};
	struct letter letter = {0};
	rd_kafka_message_t *record;
	rd_kafka_headers_t *got;
	const char *name;
	const void *value;
	struct bench bench;
	size_t i, len;

	bench_open(&bench);
	rd_kafka_mock_topic_create(bench.cluster, "headers", 1, 1);
	bench_start(&bench);
	ck_assert(bench_publish(&bench, &letter,
				&(struct message){.topic = "headers",
						  .partition = 0,
						  .headers = headers,
						  .n_headers = 3,
						  .timestamp_ms = 1234567890123}));
	bench_settle(&bench, SOON);
	bench_consume(&bench, "headers", &record, 1);
	ck_assert_int_eq(rd_kafka_message_timestamp(record, NULL), 1234567890123);
	ck_assert_int_eq(rd_kafka_message_headers(record, &got), RD_KAFKA_RESP_ERR_NO_ERROR);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(rd_kafka_header_get_all(got, i, &name, &value, &len), RD_KAFKA_RESP_ERR_NO_ERROR);
		check_bytes("header's name", name, strlen(name), headers[i].name);
		check_bytes("header's value", value, len, headers[i].value);
	}
	ck_assert_int_eq(rd_kafka_header_get_all(got, 3, &name, &value, &len), RD_KAFKA_RESP_ERR__NOENT);
	rd_kafka_message_destroy(record);
	bench_close(&bench);
}
END_TEST

/* ---- partitions ---- */

static int32_t partition_of(struct bench *bench, const char *topic, const char *key)
{
	struct letter letter = {0};
	rd_kafka_message_t *record;
	int32_t partition;

	ck_assert(bench_publish(
		bench, &letter,
		&(struct message){.topic = topic, .partition = -1, .key = slice_of(key), .value = slice_of("v")}));
	bench_settle(bench, SOON);
	bench_consume(bench, topic, &record, 1);
	partition = record->partition;
	rd_kafka_message_destroy(record);
	return partition;
}

#define UUID "fd7af248-ce5c-46a5-93d7-1c0c9005b99d"

/* Where the Java client puts them; and where the library would by itself. */
static const struct {
	const char *partitioner, *key;
	int partitions, expected;
} keys[] = {{"murmur2_random", "TT0124", 15, 10},
	    {"murmur2_random", UUID, 32, 26},
	    {"consistent_random", "TT0124", 15, 9},
	    {"consistent_random", UUID, 32, 23}};

START_TEST(test_F039_partition_as_the_java_client)
{
	struct bench bench;

	bench_open(&bench);
	if (_i >= 2) /* what is not the default has to be asked for */
		bench_property(&bench, "partitioner", keys[_i].partitioner);
	rd_kafka_mock_topic_create(bench.cluster, "topic", keys[_i].partitions, 1);
	bench_start(&bench);
	ck_assert_int_eq(partition_of(&bench, "topic", keys[_i].key), keys[_i].expected);
	bench_close(&bench);
}
END_TEST

/* With headers: the library before 2.12 frees them twice, unless they are given as a list. */
static void send_to_partition(struct bench *bench, struct letter *letter, int32_t partition)
{
	static const struct message_header header = {{"name", 4}, {"value", 5}};

	*letter = (struct letter){0};
	bench_publish(bench, letter,
		      &(struct message){.topic = "four",
					.partition = partition,
					.value = {"v", 1},
					.headers = &header,
					.n_headers = 1});
}

START_TEST(test_F039_a_partition_that_does_not_exist_is_the_rows_fault)
{
	static const int32_t partitions[] = {4, 99, -2, INT32_MAX, INT32_MIN};
	struct letter letter;
	struct bench bench;
	size_t i;

	bench_open(&bench);
	rd_kafka_mock_topic_create(bench.cluster, "four", 4, 1);
	bench_start(&bench);
	/* Before the topic's metadata is known this comes as a report, afterwards as a refusal. */
	rd_kafka_mock_broker_set_down(bench.cluster, 1);
	bench_wait_up(&bench, false, SOON);
	send_to_partition(&bench, &letter, 99);
	ck_assert(!letter.refused);
	rd_kafka_mock_broker_set_up(bench.cluster, 1);
	bench_settle(&bench, SOON);
	bench_check_answered_once(&letter, 1);
	bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
	for (i = 0; i < sizeof(partitions) / sizeof(partitions[0]); i++) {
		send_to_partition(&bench, &letter, partitions[i]);
		ck_assert(letter.refused);
		bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
		ck_assert_str_eq(letter.answer.name, "_UNKNOWN_PARTITION");
	}
	send_to_partition(&bench, &letter, 3);
	bench_settle(&bench, SOON);
	bench_check_answered_once(&letter, 1);
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

/* ---- what the brokers may answer ---- */

static const struct {
	rd_kafka_resp_err_t code;
	enum verdict verdict;
	enum fault fault;
} at_once[] = {
	{RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, VERDICT_REJECT, FAULT_ROW},
	{RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, VERDICT_REJECT, FAULT_ROW},
	{RD_KAFKA_RESP_ERR_INVALID_RECORD, VERDICT_REJECT, FAULT_ROW},
	{RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, VERDICT_REJECT, FAULT_ROW},
	{RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, VERDICT_REJECT, FAULT_ROW},
	{RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, VERDICT_RETRY, FAULT_TOPIC},
	{RD_KAFKA_RESP_ERR_POLICY_VIOLATION, VERDICT_RETRY, FAULT_TOPIC},
	{RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, VERDICT_RETRY, FAULT_CLUSTER},
	{RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, VERDICT_RETRY, FAULT_CLUSTER},
	{RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, VERDICT_RETRY, FAULT_NONE},
	{RD_KAFKA_RESP_ERR_UNKNOWN, VERDICT_RETRY, FAULT_NONE},
};

START_TEST(test_F041_an_error_comes_back_as_what_it_is)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	bench_property(&bench, "linger.ms", "200");
	bench_start(&bench);
	bench_fail(&bench, at_once[_i].code, 1);
	/* One request carries them all: an error of one record is the answer to each. */
	bench_send_all(&bench, letters, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, at_once[_i].verdict, at_once[_i].fault, false);
	ck_assert_str_eq(letters[0].answer.name, rd_kafka_err2name(at_once[_i].code));
	ck_assert_int_eq(letters[0].answer.code, at_once[_i].code);
	/* The text is the error's; the library's own function for it returns the payload. */
	ck_assert_str_ne(letters[0].text, "");
	ck_assert_ptr_null(strstr(letters[0].text, "vvv"));
	ck_assert(!letters[0].answer.timed_out && !letters[0].answer.replaced);
	ck_assert_int_eq(bench_count(&bench, "topic", 4), 0);
	bench_close(&bench);
}
END_TEST

static const rd_kafka_resp_err_t passing[] = {
	RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
	RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__TRANSPORT};

START_TEST(test_F049_F050_a_passing_error_is_no_answer)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	bench_fail(&bench, passing[_i], 3);
	bench_send_all(&bench, letters, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, VERDICT_OK, FAULT_NONE, false);
	ck_assert_int_eq(bench_count(&bench, "topic", 4), 10);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F050_not_enough_replicas_for_too_long)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 1500000;
	bench_start(&bench);
	bench_fail(&bench, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1000);
	bench_send_all(&bench, letters, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, VERDICT_UNKNOWN, FAULT_CLUSTER, true);
	ck_assert(letters[0].answer.timed_out);
	bench_close(&bench);
}
END_TEST

/* ---- time-outs, outages, purges ---- */

START_TEST(test_F042_an_answer_that_comes_too_late)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 1500000;
	bench_start(&bench);
	rd_kafka_mock_broker_push_request_error_rtts(bench.cluster, 1, API_PRODUCE, 1, RD_KAFKA_RESP_ERR_NO_ERROR,
						     5000);
	bench_send_all(&bench, letters, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, VERDICT_UNKNOWN, FAULT_CLUSTER, true);
	ck_assert(letters[0].answer.timed_out);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_STALLED), 0);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F040_a_broker_that_is_away)
{
	struct letter letters[20];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 1500000;
	bench_start(&bench);
	rd_kafka_mock_broker_set_down(bench.cluster, -1);
	bench_wait_up(&bench, false, SOON);
	bench_send_all(&bench, letters, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, VERDICT_RETRY, FAULT_CLUSTER, false);
	ck_assert(letters[0].answer.timed_out);
	rd_kafka_mock_broker_set_up(bench.cluster, -1);
	bench_wait_up(&bench, true, SOON);
	bench_send_all(&bench, letters + 10, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters + 10, 10, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F040_what_waits_out_an_outage_is_delivered)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	rd_kafka_mock_broker_set_down(bench.cluster, 1);
	bench_wait_up(&bench, false, SOON);
	bench_send_all(&bench, letters, 10, "topic");
	bench_run(&bench, 0.5);
	ck_assert_uint_eq(kafka_outstanding(bench.kafka), 10);
	rd_kafka_mock_broker_set_up(bench.cluster, 1);
	bench_settle(&bench, SOON);
	bench_check_all(letters, 10, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F070_a_purge_tells_queued_from_sent)
{
	struct letter sent[5], queued[20];
	struct bench bench;

	bench_open(&bench);
	rd_kafka_mock_topic_create(bench.cluster, "sent", 1, 1);
	rd_kafka_mock_topic_create(bench.cluster, "queued", 1, 1);
	rd_kafka_mock_partition_set_leader(bench.cluster, "queued", 0, -1);
	bench_start(&bench);
	rd_kafka_mock_broker_push_request_error_rtts(bench.cluster, 1, API_PRODUCE, 1, RD_KAFKA_RESP_ERR_NO_ERROR,
						     60000);
	bench_send_all(&bench, sent, 5, "sent");
	bench_send_all(&bench, queued, 20, "queued");
	bench_run(&bench, 1);
	kafka_purge(bench.kafka, false);
	bench_run(&bench, 1);
	bench_check_all(queued, 20, VERDICT_RETRY, FAULT_CLUSTER, false);
	ck_assert_uint_eq(kafka_outstanding(bench.kafka), 5);
	kafka_purge(bench.kafka, true);
	bench_settle(&bench, SOON);
	bench_check_all(sent, 5, VERDICT_UNKNOWN, FAULT_CLUSTER, true);
	ck_assert(!sent[0].answer.replaced);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F048_freed_with_messages_outstanding)
{
	struct letter *letters = MEM_NEW_ARRAY(1000, struct letter);
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	rd_kafka_mock_broker_set_rtt(bench.cluster, 1, 500);
	bench_send_all(&bench, letters, 1000, "topic");
	bench_run(&bench, 0.2);
	ck_assert_uint_eq(kafka_outstanding(bench.kafka), 1000);
	bench_close(&bench);
	bench_check_answered_once(letters, 1000);
	mem_free(letters);
}
END_TEST

START_TEST(test_F048_freed_while_no_broker_was_ever_there)
{
	struct letter letters[10];
	struct bench bench;

	bench_open(&bench);
	rd_kafka_mock_broker_set_down(bench.cluster, -1);
	bench_start_unconnected(&bench);
	bench_send_all(&bench, letters, 10, "topic");
	bench_run(&bench, 2.5);
	ck_assert(!kafka_up(bench.kafka));
	ck_assert_str_ne(kafka_reason(bench.kafka), "");
	bench_close(&bench);
	bench_check_all(letters, 10, VERDICT_RETRY, FAULT_CLUSTER, false);
}
END_TEST

/* ---- the producer's end ---- */

static const rd_kafka_resp_err_t fatal[] = {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
					    RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH};

START_TEST(test_F043_a_fatal_error_replaces_the_producer)
{
	struct letter letters[100], again[100];
	struct bench bench;
	size_t i;

	bench_open(&bench);
	bench_start(&bench);
	bench_send_all(&bench, again, 1, "topic");
	bench_settle(&bench, SOON);
	bench_fail(&bench, fatal[_i], 1);
	for (i = 0; i < 100; i++)
		bench_send(&bench, &letters[i], "topic", 10);
	bench_settle(&bench, SOON);
	bench_check_answered_once(letters, 100);
	for (i = 0; i < 100; i++) {
		if (letters[i].answer.verdict == VERDICT_OK)
			continue;
		if (letters[i].refused) { /* it was too late */
			bench_check_answer(&letters[i], VERDICT_RETRY, FAULT_NONE, false);
			continue;
		}
		ck_assert_int_eq(letters[i].answer.fault, FAULT_PRODUCER);
		ck_assert(letters[i].answer.replaced);
		ck_assert_int_eq(letters[i].answer.verdict == VERDICT_UNKNOWN, letters[i].answer.possibly_written);
	}
	ck_assert_int_eq(letters[0].answer.fault, FAULT_PRODUCER);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_FATAL), 1);
	bench_wait_up(&bench, true, SOON);
	bench_send_all(&bench, again, 100, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(again, 100, VERDICT_OK, FAULT_NONE, false);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_FATAL), 1);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F043_nothing_is_taken_while_the_producer_is_replaced)
{
	struct letter dead, letter;
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	/* One that has delivered nothing is followed after a pause. */
	bench_fail(&bench, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 1);
	bench_send_all(&bench, &dead, 1, "topic");
	bench_settle(&bench, SOON);
	ck_assert(!kafka_up(bench.kafka));
	ck_assert_ptr_nonnull(strstr(kafka_reason(bench.kafka), "OUT_OF_ORDER_SEQUENCE_NUMBER"));
	ck_assert(!bench_send(&bench, &letter, "topic", 10));
	bench_check_answer(&letter, VERDICT_RETRY, FAULT_NONE, false);
	bench_wait_up(&bench, true, SOON);
	ck_assert(bench_send(&bench, &letter, "topic", 10));
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

/* The linker puts this in front of the library's: a library that takes messages and loses them. */
static size_t to_lose;

rd_kafka_error_t *__real_rd_kafka_produceva(rd_kafka_t *rk, const rd_kafka_vu_t *parts, size_t n);
rd_kafka_error_t *__wrap_rd_kafka_produceva(rd_kafka_t *rk, const rd_kafka_vu_t *parts, size_t n);

rd_kafka_error_t *__wrap_rd_kafka_produceva(rd_kafka_t *rk, const rd_kafka_vu_t *parts, size_t n)
{
	size_t i;

	if (to_lose == 0)
		return __real_rd_kafka_produceva(rk, parts, n);
	to_lose--;
	for (i = 0; i < n; i++)
		if (parts[i].vtype == RD_KAFKA_VTYPE_HEADERS)
			rd_kafka_headers_destroy(parts[i].u.headers);
	return NULL;
}

START_TEST(test_F043_a_producer_without_progress_is_replaced)
{
	struct letter lost[3], good[10];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 1000000;
	bench_start(&bench);
	to_lose = 3;
	bench_send_all(&bench, lost, 3, "topic");
	/* Others going through is no progress of these. */
	bench_send_all(&bench, good, 10, "topic");
	bench_run(&bench, 3);
	ck_assert_uint_eq(kafka_outstanding(bench.kafka), 3);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_STALLED), 0);
	bench_settle(&bench, SOON);
	bench_check_all(lost, 3, VERDICT_UNKNOWN, FAULT_PRODUCER, true);
	ck_assert(lost[0].answer.replaced);
	bench_check_all(good, 10, VERDICT_OK, FAULT_NONE, false);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_STALLED), 1);
	bench_wait_up(&bench, true, SOON);
	bench_send_all(&bench, good, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(good, 10, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F051_no_right_to_write_idempotently)
{
	struct letter letter;
	struct bench bench;

	bench_open(&bench);
	rd_kafka_mock_push_request_errors(bench.cluster, API_INIT_PRODUCER_ID, 1,
					  RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
	bench_start_unconnected(&bench);
	bench_run(&bench, 2);
	ck_assert(!kafka_up(bench.kafka));
	ck_assert_ptr_nonnull(strstr(kafka_reason(bench.kafka), "CLUSTER_AUTHORIZATION_FAILED"));
	ck_assert_ptr_nonnull(strstr(kafka_reason(bench.kafka), "the right IdempotentWrite on the cluster"));
	/* The right is granted: no restart is needed. */
	bench_wait_up(&bench, true, SOON);
	ck_assert(bench_send(&bench, &letter, "topic", 10));
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

/* ---- no gaps ---- */

/* How many letters, from the first on, were delivered; none behind the first that was not. */
static size_t check_no_gap(const struct letter *letters, size_t n)
{
	size_t i = 0, delivered;

	while (i < n && letters[i].answer.verdict == VERDICT_OK)
		i++;
	delivered = i;
	for (; i < n; i++)
		ck_assert_msg(letters[i].answer.verdict != VERDICT_OK, "letter %zu was delivered, %zu was not", i,
			      delivered);
	return delivered;
}

/* A gapless producer that has delivered one message: only then do the brokers know it. */
static void start_gapless(struct bench *bench)
{
	struct letter first;

	bench->kind = KAFKA_GAPLESS;
	bench_property(bench, "batch.num.messages", "10");
	rd_kafka_mock_topic_create(bench->cluster, "topic", 1, 1);
	bench_start(bench);
	bench_send_all(bench, &first, 1, "topic");
	bench_settle(bench, SOON);
	bench_check_all(&first, 1, VERDICT_OK, FAULT_NONE, false);
}

START_TEST(test_F033_nothing_is_delivered_behind_a_refused_message)
{
	struct letter *letters = MEM_NEW_ARRAY(200, struct letter);
	uint64_t generation;
	struct bench bench;
	size_t delivered;

	bench_open(&bench);
	start_gapless(&bench);
	generation = kafka_generation(bench.kafka);
	rd_kafka_mock_push_request_errors(bench.cluster, API_PRODUCE, 3, RD_KAFKA_RESP_ERR_NO_ERROR,
					  RD_KAFKA_RESP_ERR_NO_ERROR, RD_KAFKA_RESP_ERR_INVALID_RECORD);
	/* All are handed over before the first answer. */
	rd_kafka_mock_broker_set_rtt(bench.cluster, 1, 500);
	bench_send_all(&bench, letters, 200, "topic");
	ck_assert_uint_eq(kafka_generation(bench.kafka), generation);
	bench_settle(&bench, SOON);
	bench_check_answered_once(letters, 200);
	delivered = check_no_gap(letters, 200);
	ck_assert_uint_gt(delivered, 0);
	ck_assert_uint_lt(delivered, 200);
	/* The batch has its own error; the rest falls with the producer. */
	bench_check_answer(&letters[delivered], VERDICT_REJECT, FAULT_ROW, false);
	ck_assert_int_eq(letters[199].answer.fault, FAULT_PRODUCER);
	ck_assert(letters[199].answer.replaced);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_FATAL), 1);
	bench_wait_up(&bench, true, SOON);
	ck_assert_uint_eq(kafka_generation(bench.kafka), generation + 1);
	mem_free(letters);
	bench_close(&bench);
}
END_TEST

/* The library's own time-out would take out the first and send the last. */
START_TEST(test_F042_a_gapless_producer_has_one_deadline_for_all)
{
	struct letter first[10], last[10];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 3000000;
	start_gapless(&bench);
	rd_kafka_mock_broker_set_down(bench.cluster, 1);
	bench_send_all(&bench, first, 10, "topic");
	bench_run(&bench, 2);
	bench_send_all(&bench, last, 10, "topic");
	bench_settle(&bench, SOON);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_STALLED), 1);
	bench_check_answered_once(first, 10);
	ck_assert_int_eq(first[0].answer.fault, FAULT_CLUSTER);
	ck_assert(first[0].answer.timed_out && !first[0].answer.replaced);
	bench_check_answered_once(last, 10);
	ck_assert_int_eq(last[9].answer.fault, FAULT_PRODUCER);
	ck_assert(last[9].answer.replaced && !last[9].answer.timed_out);
	rd_kafka_mock_broker_set_up(bench.cluster, 1);
	bench_wait_up(&bench, true, SOON);
	bench_send_all(&bench, last, 10, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(last, 10, VERDICT_OK, FAULT_NONE, false);
	ck_assert_int_eq(bench_count(&bench, "topic", 1), 11);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F070_a_gapless_producer_is_purged_as_a_whole)
{
	struct letter sent[5], queued[20];
	uint64_t generation;
	struct bench bench;

	bench_open(&bench);
	start_gapless(&bench);
	generation = kafka_generation(bench.kafka);
	kafka_purge(bench.kafka, false); /* there is nothing */
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_PURGED), 0);
	rd_kafka_mock_topic_create(bench.cluster, "queued", 1, 1);
	rd_kafka_mock_partition_set_leader(bench.cluster, "queued", 0, -1);
	rd_kafka_mock_broker_push_request_error_rtts(bench.cluster, 1, API_PRODUCE, 1, RD_KAFKA_RESP_ERR_NO_ERROR,
						     60000);
	bench_send_all(&bench, sent, 5, "topic");
	bench_send_all(&bench, queued, 20, "queued");
	bench_run(&bench, 1);
	kafka_purge(bench.kafka, false);
	ck_assert(!bench_send(&bench, &(struct letter){0}, "topic", 10));
	bench_settle(&bench, SOON);
	bench_check_answered_once(sent, 5);
	ck_assert_int_eq(sent[0].answer.verdict, VERDICT_UNKNOWN);
	bench_check_answered_once(queued, 20);
	ck_assert_int_eq(queued[0].answer.verdict, VERDICT_RETRY);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_PURGED), 1);
	bench_wait_up(&bench, true, SOON);
	ck_assert_uint_eq(kafka_generation(bench.kafka), generation + 1);
	bench_close(&bench);
}
END_TEST

START_TEST(test_a_careful_producer_is_made_when_needed)
{
	struct letter letters[20];
	struct bench bench;

	bench_open(&bench);
	bench.kind = KAFKA_CAREFUL;
	bench_start_unconnected(&bench);
	bench_run(&bench, 1.5);
	ck_assert_uint_eq(kafka_generation(bench.kafka), 0);
	bench_fail(&bench, RD_KAFKA_RESP_ERR_INVALID_RECORD, 1);
	bench_send_all(&bench, letters, 1, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 1, VERDICT_REJECT, FAULT_ROW, false);
	/* It lives on. */
	bench_send_all(&bench, letters, 20, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 20, VERDICT_OK, FAULT_NONE, false);
	ck_assert_uint_eq(kafka_generation(bench.kafka), 1);
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_FATAL), 0);
	bench_close(&bench);
}
END_TEST

/* ---- topics ---- */

START_TEST(test_F049_an_unknown_topic_stops_no_other)
{
	struct letter unknown[3], good[10];
	struct bench bench;

	bench_open(&bench);
	bench.config.message_timeout_us = 4000000;
	rd_kafka_mock_topic_set_error(bench.cluster, "nope", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
	bench_start(&bench);
	bench_send_all(&bench, unknown, 3, "nope");
	bench_send_all(&bench, good, 10, "good");
	bench_run(&bench, 1);
	bench_check_all(good, 10, VERDICT_OK, FAULT_NONE, false);
	bench_settle(&bench, SOON);
	bench_check_all(unknown, 3, VERDICT_RETRY, FAULT_TOPIC, false);
	/* Now the call itself refuses. */
	ck_assert(!bench_send(&bench, &unknown[0], "nope", 10));
	bench_check_answer(&unknown[0], VERDICT_RETRY, FAULT_TOPIC, false);
	rd_kafka_mock_topic_set_error(bench.cluster, "nope", RD_KAFKA_RESP_ERR_NO_ERROR);
	bench_run(&bench, 3);
	ck_assert(bench_send(&bench, &unknown[0], "nope", 10));
	bench_settle(&bench, SOON);
	bench_check_answer(&unknown[0], VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_F028_a_topic_is_tried_again_after_the_right_was_given)
{
	struct letter letter;
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	bench_fail(&bench, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
	bench_send_all(&bench, &letter, 1, "topic");
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_RETRY, FAULT_TOPIC, false);
	/* The library refuses it by itself until metadata shows it sound; it looks once a second. */
	bench_run(&bench, 3);
	ck_assert(bench_send(&bench, &letter, "topic", 10));
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_a_topic_name_that_the_library_refuses)
{
	struct letter letter;
	struct bench bench;
	char topic[600];

	memset(topic, 't', sizeof(topic));
	topic[sizeof(topic) - 1] = '\0';
	bench_open(&bench);
	bench_start(&bench);
	ck_assert(!bench_send(&bench, &letter, topic, 10));
	bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
	bench_close(&bench);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	return tcase;
}

#define ADD_ALL(tcase, test, table) tcase_add_loop_test(tcase, test, 0, sizeof(table) / sizeof((table)[0]))

/* Each case can run beside the others (CK_RUN_CASE): they mostly wait. */
Suite *suite(void)
{
	Suite *suite = suite_create("kafka");
	TCase *tcase;

	tcase = add_case(suite, "bytes");
	tcase_add_test(tcase, test_F001_F002_key_and_value_byte_for_byte);
	tcase_add_test(tcase, test_F002_headers_byte_for_byte);
	ADD_ALL(tcase, test_F039_partition_as_the_java_client, keys);
	tcase_add_test(tcase, test_F039_a_partition_that_does_not_exist_is_the_rows_fault);
	tcase = add_case(suite, "answers");
	ADD_ALL(tcase, test_F041_an_error_comes_back_as_what_it_is, at_once);
	ADD_ALL(tcase, test_F049_F050_a_passing_error_is_no_answer, passing);
	tcase_add_test(tcase, test_F050_not_enough_replicas_for_too_long);
	tcase = add_case(suite, "outages");
	tcase_add_test(tcase, test_F042_an_answer_that_comes_too_late);
	tcase_add_test(tcase, test_F040_a_broker_that_is_away);
	tcase_add_test(tcase, test_F040_what_waits_out_an_outage_is_delivered);
	tcase_add_test(tcase, test_F070_a_purge_tells_queued_from_sent);
	tcase_add_test(tcase, test_F048_freed_with_messages_outstanding);
	tcase_add_test(tcase, test_F048_freed_while_no_broker_was_ever_there);
	tcase = add_case(suite, "producer");
	ADD_ALL(tcase, test_F043_a_fatal_error_replaces_the_producer, fatal);
	tcase_add_test(tcase, test_F043_nothing_is_taken_while_the_producer_is_replaced);
	tcase_add_test(tcase, test_F043_a_producer_without_progress_is_replaced);
	tcase_add_test(tcase, test_F051_no_right_to_write_idempotently);
	tcase = add_case(suite, "gaps");
	tcase_add_test(tcase, test_F033_nothing_is_delivered_behind_a_refused_message);
	tcase_add_test(tcase, test_F042_a_gapless_producer_has_one_deadline_for_all);
	tcase_add_test(tcase, test_F070_a_gapless_producer_is_purged_as_a_whole);
	tcase_add_test(tcase, test_a_careful_producer_is_made_when_needed);
	tcase = add_case(suite, "topics");
	tcase_add_test(tcase, test_F049_an_unknown_topic_stops_no_other);
	tcase_add_test(tcase, test_F028_a_topic_is_tried_again_after_the_right_was_given);
	tcase_add_test(tcase, test_a_topic_name_that_the_library_refuses);
	return suite;
}
