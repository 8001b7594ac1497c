/* The metrics page: format, escaping, buckets, limits, and that nothing stale is shown. */
#include "unit.h"

#include "base/utf8.h"
#include "core/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct metrics *metrics;
static struct buf page;

static void begin(void)
{
	metrics = metrics_new();
}

static void end(void)
{
	metrics_free(metrics);
	buf_free(&page);
}

static void print(void)
{
	buf_clear(&page);
	metrics_print(metrics, &page);
}

/* How many lines of the page begin with this. */
static int lines_with(const char *start)
{
	const char *at;
	int n = 0;

	for (at = buf_text(&page); at != NULL && *at != '\0'; at = strchr(at, '\n') + 1)
		n += strncmp(at, start, strlen(start)) == 0;
	return n;
}

static void expect_line(const char *line)
{
	char *whole = malloc(strlen(line) + 2);

	memcpy(whole, line, strlen(line));
	memcpy(whole + strlen(line), "\n", 2);
	ck_assert_msg(lines_with(whole) == 1, "not one line \"%s\" in:\n%s", line, buf_text(&page));
	free(whole);
}

/* Names and types as interface.md section 5 has them. */
static const char *const families[][2] = {
	{"outboxd_build_info", "gauge"},
	{"outboxd_postgres_up", "gauge"},
	{"outboxd_kafka_up", "gauge"},
	{"outboxd_rows", "gauge"},
	{"outboxd_oldest_pending_age_seconds", "gauge"},
	{"outboxd_blocked_keys", "gauge"},
	{"outboxd_oldest_snapshot_age_transactions", "gauge"},
	{"outboxd_rows_refreshed_timestamp_seconds", "gauge"},
	{"outboxd_topic_faults", "gauge"},
	{"outboxd_topic_fault", "gauge"},
	{"outboxd_topic_next_try_seconds", "gauge"},
	{"outboxd_topic_rows_put_off", "gauge"},
	{"outboxd_queued_messages", "gauge"},
	{"outboxd_in_flight_messages", "gauge"},
	{"outboxd_unsettled_messages", "gauge"},
	{"outboxd_claimed_total", "counter"},
	{"outboxd_delivered_total", "counter"},
	{"outboxd_settled_total", "counter"},
	{"outboxd_retries_total", "counter"},
	{"outboxd_failed_total", "counter"},
	{"outboxd_dead_letters_total", "counter"},
	{"outboxd_dead_letters_refused_total", "counter"},
	{"outboxd_lease_expired_total", "counter"},
	{"outboxd_result_timeouts_total", "counter"},
	{"outboxd_settle_fenced_total", "counter"},
	{"outboxd_possible_duplicates_total", "counter"},
	{"outboxd_backpressure_total", "counter"},
	{"outboxd_headers_dropped_total", "counter"},
	{"outboxd_commit_to_ack_seconds", "histogram"},
	{"outboxd_transaction_seconds", "histogram"},
	{"outboxd_lock_timeouts_total", "counter"},
	{"outboxd_notify_active", "gauge"},
	{"outboxd_producer_replacements_total", "counter"},
	{"outboxd_event_loop_lag_seconds", "gauge"},
	{"outboxd_config_last_reload_success", "gauge"},
	{"outboxd_config_last_reload_timestamp_seconds", "gauge"},
	{"process_cpu_seconds_total", "counter"},
	{"process_resident_memory_bytes", "gauge"},
	{"process_open_fds", "gauge"},
	{"process_start_time_seconds", "gauge"},
};

START_TEST(test_every_family_before_it_has_samples)
{
	char line[200];
	size_t i;

	ck_assert_uint_eq(sizeof(families) / sizeof(families[0]), METRICS);
	print();
	for (i = 0; i < METRICS; i++) {
		snprintf(line, sizeof(line), "# HELP %s ", families[i][0]);
		ck_assert_msg(lines_with(line) == 1, "%s", line);
		snprintf(line, sizeof(line), "# TYPE %s %s\n", families[i][0], families[i][1]);
		ck_assert_msg(lines_with(line) == 1, "%s", line);
	}
	ck_assert_int_eq(lines_with("#"), 2 * METRICS);
	ck_assert_int_eq(lines_with(""), 2 * METRICS);
	ck_assert_int_eq(page.bytes[page.len - 1], '\n');
}
END_TEST

START_TEST(test_samples)
{
	struct metric_series *claimed = metrics_series(metrics, METRIC_CLAIMED, "orders", NULL);

	claimed->value += 3;
	ck_assert_ptr_eq(metrics_series(metrics, METRIC_CLAIMED, "orders", NULL), claimed);
	metrics_series(metrics, METRIC_CLAIMED, "mail", NULL)->value = 1e15;
	metrics_series(metrics, METRIC_ROWS, "orders", "pending");
	metrics_series(metrics, METRIC_LOOP_LAG, NULL, NULL)->value = 0.1;
	metrics_series(metrics, METRIC_OLDEST_PENDING_AGE, "orders", NULL)->value = NAN;
	metrics_series(metrics, METRIC_PROCESS_START, NULL, NULL)->value = 1764525123.25;
	metrics_set(metrics, METRIC_BUILD_INFO, (const char *const[METRICS_LABELS]){"0.1.0", "15.20", "2.0.2"}, 1);
	print();
	expect_line("outboxd_claimed_total{source=\"orders\"} 3");
	expect_line("outboxd_claimed_total{source=\"mail\"} 1e+15");
	expect_line("outboxd_rows{source=\"orders\",state=\"pending\"} 0");
	expect_line("outboxd_event_loop_lag_seconds 0.1");
	expect_line("outboxd_oldest_pending_age_seconds{source=\"orders\"} NaN");
	expect_line("process_start_time_seconds 1764525123.25");
	expect_line("outboxd_build_info{version=\"0.1.0\",libpq=\"15.20\",librdkafka=\"2.0.2\"} 1");
}
END_TEST

START_TEST(test_large_counters_are_exact)
{
	metrics_series(metrics, METRIC_CLAIMED, "orders", NULL)->value = 9007199254740991;
	print();
	expect_line("outboxd_claimed_total{source=\"orders\"} 9007199254740991");
}
END_TEST

START_TEST(test_F079_label_values)
{
	metrics_series(metrics, METRIC_DELIVERED, "orders", "a\"b")->value = 1;
	metrics_series(metrics, METRIC_DELIVERED, "orders", "a\\b")->value = 2;
	metrics_series(metrics, METRIC_DELIVERED, "orders", "a\nb")->value = 3;
	metrics_series(metrics, METRIC_DELIVERED, "orders", "a\xFF\xC3\xA9\xC3")->value = 4;
	metrics_series(metrics, METRIC_DELIVERED, "orders", "\\\"")->value = 5;
	metrics_series(metrics, METRIC_DELIVERED, "orders", "")->value = 6;
	print();
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"a\\\"b\"} 1");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"a\\\\b\"} 2");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"a\\nb\"} 3");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\"} 4");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"\\\\\\\"\"} 5");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"\"} 6");
}
END_TEST

START_TEST(test_histogram)
{
	struct metric_histogram *seconds = metrics_histogram(metrics, METRIC_TRANSACTION, "orders", "claim");

	metrics_observe(seconds, 0.0005); /* a bound belongs to its own bucket */
	metrics_observe(seconds, 0.25);
	metrics_observe(seconds, 45);
	metrics_observe(seconds, 3600);
	print();
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"0.0005\"} 1");
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"0.1\"} 1");
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"0.25\"} 2");
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"30\"} 2");
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"60\"} 3");
	expect_line("outboxd_transaction_seconds_bucket{source=\"orders\",statement=\"claim\",le=\"+Inf\"} 4");
	expect_line("outboxd_transaction_seconds_sum{source=\"orders\",statement=\"claim\"} 3645.2505");
	expect_line("outboxd_transaction_seconds_count{source=\"orders\",statement=\"claim\"} 4");
}
END_TEST

/* Fine where a quantile is worth knowing to a tenth: no bucket there is wider than a third of its lower bound. */
START_TEST(test_commit_to_ack_has_narrow_buckets)
{
	struct metric_histogram *seconds = metrics_histogram(metrics, METRIC_COMMIT_TO_ACK, "orders", NULL);
	static const char start[] = "outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"";
	double bound = 0, before;
	const char *at;
	int narrow = 0;

	metrics_observe(seconds, 0.0005); /* a bound belongs to its own bucket */
	metrics_observe(seconds, 0.00051);
	metrics_observe(seconds, 0.0009);
	print();
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"0.0004\"} 0");
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"0.0005\"} 1");
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"0.00065\"} 2");
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"0.001\"} 3");
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"60\"} 3");
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"+Inf\"} 3");
	for (at = strstr(buf_text(&page), start); at != NULL; at = strstr(at, start)) {
		before = bound;
		at += strlen(start);
		bound = strtod(at, NULL);
		ck_assert_double_gt(bound, before);
		if (before >= 0.00025 && bound <= 0.03) {
			ck_assert_double_le(bound / before, 1.34);
			narrow++;
		}
	}
	ck_assert_int_gt(narrow, 16);
}
END_TEST

START_TEST(test_F024_no_duration_is_negative)
{
	struct metric_histogram *seconds = metrics_histogram(metrics, METRIC_COMMIT_TO_ACK, "orders", NULL);

	metrics_observe(seconds, -3600);
	metrics_observe(seconds, NAN);
	print();
	expect_line("outboxd_commit_to_ack_seconds_bucket{source=\"orders\",le=\"0.00025\"} 1");
	expect_line("outboxd_commit_to_ack_seconds_sum{source=\"orders\"} 0");
	expect_line("outboxd_commit_to_ack_seconds_count{source=\"orders\"} 1");
}
END_TEST

START_TEST(test_F080_dropped_gauges_are_gone)
{
	metrics_series(metrics, METRIC_ROWS, "orders", "pending")->value = 100;
	metrics_series(metrics, METRIC_ROWS, "orders", "failed")->value = 3;
	metrics_series(metrics, METRIC_ROWS, "orders-2", "failed")->value = 5;
	metrics_series(metrics, METRIC_BLOCKED_KEYS, "orders", NULL)->value = 7;
	metrics_drop(metrics, METRIC_ROWS, "orders");
	print();
	expect_line("outboxd_rows{source=\"orders-2\",state=\"failed\"} 5");
	ck_assert_int_eq(lines_with("outboxd_rows{"), 1);
	expect_line("outboxd_blocked_keys{source=\"orders\"} 7");
	metrics_drop(metrics, METRIC_BLOCKED_KEYS, "orders");
	metrics_drop(metrics, METRIC_BLOCKED_KEYS, "unknown");
	ck_assert_double_eq(metrics_series(metrics, METRIC_ROWS, "orders", "pending")->value, 0);
	print();
	ck_assert_int_eq(lines_with("outboxd_blocked_keys{"), 0);
	expect_line("outboxd_rows{source=\"orders\",state=\"pending\"} 0");
}
END_TEST

/* A topic that is well again, and the error it had before this one, are told no more. */
START_TEST(test_F080_a_gauge_with_three_labels)
{
	const char *labels[METRICS_LABELS] = {"orders", "mail", "POLICY_VIOLATION"};

	metrics_set(metrics, METRIC_TOPIC_FAULT, labels, 1);
	metrics_set(metrics, METRIC_TOPIC_NEXT_TRY, labels, 2.5);
	print();
	expect_line("outboxd_topic_fault{source=\"orders\",topic=\"mail\",error=\"POLICY_VIOLATION\"} 1");
	expect_line("outboxd_topic_next_try_seconds{source=\"orders\",topic=\"mail\"} 2.5");
	metrics_drop(metrics, METRIC_TOPIC_FAULT, "orders");
	labels[2] = "UNKNOWN_TOPIC_OR_PART";
	metrics_set(metrics, METRIC_TOPIC_FAULT, labels, 1);
	metrics_set(metrics, METRIC_TOPIC_NEXT_TRY, labels, 0);
	print();
	ck_assert_int_eq(lines_with("outboxd_topic_fault{"), 1);
	expect_line("outboxd_topic_fault{source=\"orders\",topic=\"mail\",error=\"UNKNOWN_TOPIC_OR_PART\"} 1");
	expect_line("outboxd_topic_next_try_seconds{source=\"orders\",topic=\"mail\"} 0");
}
END_TEST

START_TEST(test_series_are_bounded)
{
	char topic[32];
	int i;

	for (i = 0; i < 5000; i++) {
		snprintf(topic, sizeof(topic), "topic-%d", i);
		metrics_series(metrics, METRIC_DELIVERED, i % 2 == 0 ? "orders" : "mail", topic)->value++;
	}
	metrics_series(metrics, METRIC_DELIVERED, "orders", "topic-0")->value++;
	print();
	ck_assert_int_eq(lines_with("outboxd_delivered_total{"), METRICS_SERIES_MAX + 2);
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"topic-0\"} 2");
	expect_line("outboxd_delivered_total{source=\"orders\",topic=\"other\"} 2000");
	expect_line("outboxd_delivered_total{source=\"mail\",topic=\"other\"} 2000");
}
END_TEST

/* Any bytes as a label: the page stays UTF-8, and one series stays one line. */
START_TEST(test_F079_any_bytes)
{
	char topic[] = "a?b?";
	size_t at, length;
	int i;

	for (i = 1; i < 256; i++) {
		topic[1] = (char)i;
		topic[3] = (char)(255 - i);
		metrics_series(metrics, METRIC_DELIVERED, "orders", topic);
	}
	print();
	for (at = 0; at < page.len; at += length) {
		length = utf8_read(page.bytes + at, page.len - at, NULL);
		ck_assert_uint_gt(length, 0);
	}
	ck_assert_int_eq(lines_with(""), 2 * METRICS + lines_with("outboxd_delivered_total{"));
	ck_assert_int_gt(lines_with("outboxd_delivered_total{"), 100);
}
END_TEST

START_TEST(test_gauges_of_a_source_go_and_its_counters_stay)
{
	metrics_series(metrics, METRIC_ROWS, "orders", "pending")->value = 1;
	metrics_series(metrics, METRIC_ROWS, "orders2", "pending")->value = 2;
	metrics_series(metrics, METRIC_KAFKA_UP, "orders", NULL)->value = 1;
	metrics_series(metrics, METRIC_LOOP_LAG, NULL, NULL)->value = 3;
	metrics_series(metrics, METRIC_SETTLED, "orders", "sent")->value = 4;
	metrics_set(metrics, METRIC_BUILD_INFO, (const char *const[METRICS_LABELS]){"orders", "b", "c"}, 1);
	metrics_drop_gauges(metrics, "orders");
	print();
	ck_assert_int_eq(lines_with("outboxd_rows{source=\"orders\""), 0);
	ck_assert_int_eq(lines_with("outboxd_kafka_up{"), 0);
	expect_line("outboxd_rows{source=\"orders2\",state=\"pending\"} 2");
	expect_line("outboxd_event_loop_lag_seconds 3");
	expect_line("outboxd_settled_total{source=\"orders\",outcome=\"sent\"} 4");
	expect_line("outboxd_build_info{version=\"orders\",libpq=\"b\",librdkafka=\"c\"} 1");
}
END_TEST

START_TEST(test_sum_over_sources)
{
	ck_assert_double_eq(metrics_sum(metrics, METRIC_SETTLED, "sent"), 0);
	metrics_series(metrics, METRIC_SETTLED, "orders", "sent")->value = 1;
	metrics_series(metrics, METRIC_SETTLED, "stock", "sent")->value = 2;
	metrics_series(metrics, METRIC_SETTLED, "stock", "failed")->value = 4;
	metrics_series(metrics, METRIC_SETTLED, "stock", "resent")->value = 8;
	metrics_series(metrics, METRIC_SETTLED, "sent", "x,outcome=\"sent\"")->value = 16;
	ck_assert_double_eq(metrics_sum(metrics, METRIC_SETTLED, "sent"), 3);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("metrics");
	TCase *tcase = tcase_create("page");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, test_every_family_before_it_has_samples);
	tcase_add_test(tcase, test_samples);
	tcase_add_test(tcase, test_large_counters_are_exact);
	tcase_add_test(tcase, test_F079_label_values);
	tcase_add_test(tcase, test_histogram);
	tcase_add_test(tcase, test_commit_to_ack_has_narrow_buckets);
	tcase_add_test(tcase, test_F024_no_duration_is_negative);
	tcase_add_test(tcase, test_F080_dropped_gauges_are_gone);
	tcase_add_test(tcase, test_F080_a_gauge_with_three_labels);
	tcase_add_test(tcase, test_series_are_bounded);
	tcase_add_test(tcase, test_F079_any_bytes);
	tcase_add_test(tcase, test_gauges_of_a_source_go_and_its_counters_stay);
	tcase_add_test(tcase, test_sum_over_sources);
	suite_add_tcase(suite, tcase);
	return suite;
}
