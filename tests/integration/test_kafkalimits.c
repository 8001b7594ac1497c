/* kafka: sizes, limits, and the descriptor that tells of the library's reports. On a mock cluster. */
#include "../unit/unit.h"

#include "base/mem.h"
#include "kafkabench.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */

START_TEST(test_F044_a_size_error_names_both_numbers)
{
	struct letter letter;
	struct bench bench;

	bench_open(&bench);
	bench_property(&bench, "message.max.bytes", "1000");
	bench_start(&bench);
	ck_assert(bench_send(&bench, &letter, "topic", 900));
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	ck_assert(!bench_send(&bench, &letter, "topic", 2000));
	bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
	ck_assert_str_eq(letter.answer.name, "MSG_SIZE_TOO_LARGE");
	ck_assert_msg(strstr(letter.text, "has 203") != NULL, "%s", letter.text);
	ck_assert_ptr_nonnull(strstr(letter.text, "message.max.bytes is 1000"));
	/* The same from the broker. */
	bench_fail(&bench, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 1);
	ck_assert(bench_send(&bench, &letter, "topic", 800));
	bench_settle(&bench, SOON);
	bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
	ck_assert_ptr_nonnull(strstr(letter.text, "has 83"));
	ck_assert_ptr_nonnull(strstr(letter.text, "max.message.bytes of the topic"));
	ck_assert_ptr_nonnull(strstr(letter.text, "message.max.bytes is 1000"));
	bench_close(&bench);
}
END_TEST

START_TEST(test_F044_headers_count)
{
	static char half[600000];
	const struct message_header header = {{"h", 1}, {half, 500000}};
	struct letter letter = {0};
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	bench_publish(&bench, &letter,
		      &(struct message){.topic = "topic",
					.partition = -1,
					.value = {half, sizeof(half)},
					.headers = &header,
					.n_headers = 1});
	ck_assert(letter.refused);
	bench_check_answer(&letter, VERDICT_REJECT, FAULT_ROW, false);
	bench_close(&bench);
}
END_TEST

START_TEST(test_a_full_queue_is_no_error)
{
	struct letter letters[11];
	struct bench bench;

	bench_open(&bench);
	bench_property(&bench, "queue.buffering.max.messages", "10");
	bench_start(&bench);
	bench_send_all(&bench, letters, 10, "topic");
	ck_assert(!bench_send(&bench, &letters[10], "topic", 10));
	bench_check_answer(&letters[10], VERDICT_RETRY, FAULT_NONE, false);
	bench_settle(&bench, SOON);
	ck_assert(bench_send(&bench, &letters[10], "topic", 10));
	bench_settle(&bench, SOON);
	bench_check_all(letters, 11, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

/* Without a broker, for the mock one takes its time with so many; so do the locks that the thread sanitizer watches. */
#ifdef __SANITIZE_THREAD__
#define MANY_TOPICS 100
#else
#define MANY_TOPICS 2500
#endif

START_TEST(test_rows_may_name_any_number_of_topics)
{
	struct letter *letters = MEM_NEW_ARRAY(MANY_TOPICS, struct letter);
	struct bench bench;
	char topic[32];
	size_t i;

	bench_open(&bench);
	rd_kafka_mock_broker_set_down(bench.cluster, 1);
	bench_start_unconnected(&bench);
	for (i = 0; i < MANY_TOPICS; i++) {
		snprintf(topic, sizeof(topic), "topic-%zu", i);
		ck_assert(bench_send(&bench, &letters[i], topic, 10));
	}
	kafka_purge(bench.kafka, false);
	bench_settle(&bench, SOON);
	bench_check_all(letters, MANY_TOPICS, VERDICT_RETRY, FAULT_CLUSTER, false);
	mem_free(letters);
	bench_close(&bench);
}
END_TEST

static void refuse_often(struct bench *bench, int times, const char *topic, size_t value_len, int32_t partition)
{
	static const struct message_header headers[] = {{{"name", 4}, {"value", 5}}, {{"more", 4}, SLICE_NULL}};
	static char value[2000];
	struct letter letter;

	while (times-- > 0) {
		letter = (struct letter){0};
		bench_publish(bench, &letter,
			      &(struct message){.topic = topic,
						.partition = partition,
						.value = {value, value_len},
						.headers = headers,
						.n_headers = 2});
		ck_assert(letter.refused);
	}
}

static void refuse_all(struct bench *bench, int times)
{
	refuse_often(bench, times, "four", 2000, -1);
	refuse_often(bench, times, "four", 10, 99);
	refuse_often(bench, times, "nope", 10, -1);
}

START_TEST(test_F046_a_refused_message_leaves_nothing_behind)
{
	int times = getenv("OUTBOXD_LONG") == NULL ? 50000 : 350000; /* of three kinds */
	struct letter first, unknown;
	struct bench bench;
	size_t before;

	bench_open(&bench);
	bench_property(&bench, "message.max.bytes", "1000");
	bench.config.message_timeout_us = 2000000;
	rd_kafka_mock_topic_create(bench.cluster, "four", 4, 1);
	rd_kafka_mock_topic_set_error(bench.cluster, "nope", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
	bench_start(&bench);
	/* Once topics and partitions are known, or known to be unknown, the call itself refuses. */
	bench_send_all(&bench, &first, 1, "four");
	bench_send_all(&bench, &unknown, 1, "nope");
	bench_settle(&bench, SOON);
	refuse_all(&bench, 1000);
	before = mallinfo2().uordblks;
	refuse_all(&bench, times);
	/* One lost byte a message would show. */
	ck_assert_uint_lt(mallinfo2().uordblks, before + (size_t)times);
	bench_close(&bench);
}
END_TEST

/* ---- the library's descriptor ---- */

/* The loop stands still until the broker has everything, while reports fill the library's queue. */
static void stick(struct bench *bench, struct letter *letters, size_t n)
{
	bench_send_all(bench, letters, n, "topic");
	while (bench_count(bench, "topic", 4) < (int64_t)n)
		;
}

START_TEST(test_F047_no_wake_up_is_lost)
{
	size_t n = 100000;
	struct letter *letters = MEM_NEW_ARRAY(n, struct letter);
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	stick(&bench, letters, n);
	bench_settle(&bench, SOON);
	bench_check_all(letters, n, VERDICT_OK, FAULT_NONE, false);
	/* And one that comes after all that. */
	bench_send_all(&bench, letters, 1, "topic");
	bench_settle(&bench, SOON);
	bench_check_all(letters, 1, VERDICT_OK, FAULT_NONE, false);
	mem_free(letters);
	bench_close(&bench);
}
END_TEST

/* By the tick alone, which comes once a second, it would take as many seconds. */
START_TEST(test_F047_a_report_wakes_the_loop)
{
	struct letter letter;
	struct bench bench;
	int i;

	bench_open(&bench);
	bench_start(&bench);
	for (i = 0; i < 100; i++) {
		ck_assert(bench_send(&bench, &letter, "topic", 10));
		bench_settle(&bench, SOON);
	}
	bench_check_answer(&letter, VERDICT_OK, FAULT_NONE, false);
	bench_close(&bench);
}
END_TEST

static size_t turns;

static void on_turn(struct ev_loop *loop, struct ev_prepare *prepare, int revents)
{
	(void)loop, (void)prepare, (void)revents;
	turns++;
}

START_TEST(test_F047_others_have_their_turn)
{
	size_t n = 20000;
	struct letter *letters = MEM_NEW_ARRAY(n, struct letter);
	struct ev_prepare prepare;
	struct bench bench;

	bench_open(&bench);
	bench_start(&bench);
	stick(&bench, letters, n);
	ev_prepare_init(&prepare, on_turn);
	ev_prepare_start(bench.loop, &prepare);
	turns = 0;
	bench_settle(&bench, SOON);
	/* At most five hundred reports a turn; a tick may fall in one turn with them. */
	ck_assert_uint_ge(turns, n / 1000);
	bench_check_all(letters, n, VERDICT_OK, FAULT_NONE, false);
	mem_free(letters);
	bench_close(&bench);
}
END_TEST

/* The broker refuses a batch, that is one message: nobody else pays for it. */
START_TEST(test_F045_a_single_producer_has_each_message_judged_alone)
{
	struct letter letters[20];
	struct bench bench;
	size_t i, refused = 0;

	bench_open(&bench);
	bench.kind = KAFKA_SINGLE;
	bench_start_unconnected(&bench);
	bench_fail(&bench, RD_KAFKA_RESP_ERR_INVALID_RECORD, 1);
	bench_send_all(&bench, letters, 20, "topic");
	bench_settle(&bench, SOON);
	bench_check_answered_once(letters, 20);
	for (i = 0; i < 20; i++)
		refused += letters[i].answer.verdict == VERDICT_REJECT;
	ck_assert_uint_eq(refused, 1);
	bench_close(&bench);
}
END_TEST

/* ---- after a refusal ---- */

START_TEST(test_a_refused_record_is_no_reason_to_pause)
{
	struct letter letter;
	struct bench bench;
	int i;

	bench_open(&bench);
	bench.kind = KAFKA_GAPLESS;
	bench_start(&bench);
	/* The very first record of each producer is refused; the time is less than that of one pause. */
	for (i = 0; i < 2; i++) {
		bench_fail(&bench, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
		bench_send_all(&bench, &letter, 1, "topic");
		bench_settle(&bench, SOON);
		bench_check_all(&letter, 1, VERDICT_RETRY, FAULT_TOPIC, false);
		bench_wait_up(&bench, true, 3);
	}
	ck_assert_int_eq(kafka_replacements(bench.kafka, KAFKA_REPLACED_FATAL), 2);
	bench_close(&bench);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("kafkalimits");
	TCase *tcase = tcase_create("kafkalimits");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_F044_a_size_error_names_both_numbers);
	tcase_add_test(tcase, test_F044_headers_count);
	tcase_add_test(tcase, test_a_full_queue_is_no_error);
	tcase_add_test(tcase, test_rows_may_name_any_number_of_topics);
	tcase_add_test(tcase, test_F046_a_refused_message_leaves_nothing_behind);
	tcase_add_test(tcase, test_F047_no_wake_up_is_lost);
	tcase_add_test(tcase, test_F047_others_have_their_turn);
	tcase_add_test(tcase, test_F047_a_report_wakes_the_loop);
	tcase_add_test(tcase, test_a_refused_record_is_no_reason_to_pause);
	tcase_add_test(tcase, test_F045_a_single_producer_has_each_message_judged_alone);
	suite_add_tcase(suite, tcase);
	return suite;
}
