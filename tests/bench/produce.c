/* produce: how fast librdkafka alone publishes, with the settings and the kind of records that outboxd has. */
#include "base/mem.h"
#include "bench.h"
#include "feed.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SERVE_EVERY 1000 /* messages between two looks for reports */

struct options {
	const char *file, *source, *topic;
	int64_t rows, size, keys;
};

/* The headers of the preset. */
static const struct message_header headers[] = {
	{{"event_id", 8}, {"6f0c7f5e-5b3e-4d0e-9d1e-0a1b2c3d4e5f", 36}},
	{{"event_type", 10}, {"order_changed", 13}},
	{{"created_at", 10}, {"2026-01-01 12:00:00.123456+00", 29}},
};

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {{"config", required_argument, NULL, 'c'},
					      {"source", required_argument, NULL, 's'},
					      {"topic", required_argument, NULL, 't'},
					      {"rows", required_argument, NULL, 'n'},
					      {"size", required_argument, NULL, 'b'},
					      {"keys", required_argument, NULL, 'k'},
					      {NULL, 0, NULL, 0}};
	struct options options = {.rows = 300000, .size = 200, .keys = 1000};
	int option;

	while ((option = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (option == 'c')
			options.file = optarg;
		else if (option == 's')
			options.source = optarg;
		else if (option == 't')
			options.topic = optarg;
		else if (option == 'n')
			options.rows = bench_number("rows", optarg, 1, INT32_MAX);
		else if (option == 'b')
			options.size = bench_number("size", optarg, 1, 1 << 20);
		else if (option == 'k')
			options.keys = bench_number("keys", optarg, 1, INT32_MAX);
		else
			exit(64);
	}
	if (options.file == NULL || options.topic == NULL || optind < argc)
		bench_die("usage: produce -c FILE [--source NAME] --topic T --rows N --size BYTES --keys K");
	return options;
}

static void on_report(void *context, void *opaque)
{
	int64_t *reported = context;

	(void)opaque;
	(*reported)++;
}

static void hand_over(struct feed *feed, const struct message *message, int64_t *reported)
{
	while (!feed_send(feed, message, NULL))
		feed_serve(feed, 100, on_report, reported);
}

static void await_all(struct feed *feed, int64_t *reported)
{
	while (feed->outstanding > 0)
		feed_serve(feed, 100, on_report, reported);
}

#define KEY_SIZE 24

/* Made before the clock runs: outboxd has its keys from PostgreSQL. */
static char *make_keys(int64_t n)
{
	char *keys = mem_new((size_t)n, KEY_SIZE);

	for (int64_t i = 0; i < n; i++)
		snprintf(keys + i * KEY_SIZE, KEY_SIZE, "k%" PRId64, i);
	return keys;
}

/* Returns how many were reported. */
static int64_t produce(struct feed *feed, const struct options *options, const char *keys, struct message *message)
{
	int64_t reported = 0;

	for (int64_t i = 0; i < options->rows; i++) {
		message->key = slice_of(keys + i % options->keys * KEY_SIZE);
		hand_over(feed, message, &reported);
		if (i % SERVE_EVERY == 0)
			feed_serve(feed, 0, on_report, &reported);
	}
	await_all(feed, &reported);
	return reported;
}

/* One message before the clock runs connects to the topic's leader, and has the library fetch its producer id. */
static void warm_up(struct feed *feed, const struct message *message)
{
	int64_t reported = 0;

	hand_over(feed, message, &reported);
	await_all(feed, &reported);
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	char *keys = make_keys(options.keys), *value = mem_new((size_t)options.size, 1);
	struct message message = {.topic = options.topic,
				  .partition = -1,
				  .key = slice_of(keys),
				  .value = {value, (size_t)options.size},
				  .headers = headers,
				  .n_headers = sizeof(headers) / sizeof(headers[0])};
	struct feed feed;
	int64_t begun_us, reported;
	double cpu_before, seconds;

	memset(value, 'x', (size_t)options.size);
	feed_open(&feed, &bench_source(options.file, options.source)->kafka);
	warm_up(&feed, &message);
	cpu_before = bench_cpu_seconds();
	begun_us = bench_now_us();
	reported = produce(&feed, &options, keys, &message);
	seconds = (double)(bench_now_us() - begun_us) / 1e6;
	bench_print(json_pack("{s:I,s:f,s:f,s:f}", "rows", (json_int_t)reported, "seconds", seconds,
			      "rows_per_second", (double)reported / seconds, "cpu_seconds",
			      bench_cpu_seconds() - cpu_before));
	feed_close(&feed);
	mem_free(keys);
	mem_free(value);
	return 0;
}
