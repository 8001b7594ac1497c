/* floor: the latency that PostgreSQL and Kafka have by themselves: NOTIFY, a claim, the records, their reports, settles, with
 * nothing in between. One thread and poll(); what outboxd does beside that (order in memory, errors, metrics) is left out. */
#include "bare.h"
#include "base/mem.h"
#include "bench.h"
#include "feed.h"
#include "samples.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { FD_SIGNAL, FD_LISTEN, FD_CLAIMS, FD_SETTLES, FD_FEED, FDS };

struct floor {
	struct bare bare;
	struct lane claims, settles;
	struct feed feed;
	PGconn *listen; /* NULL: polling alone */
	int signals;
	struct slice *cells; /* of the row being composed */
	size_t n_cells;
	struct samples samples;
	int64_t rows, claims_sent, settles_sent;
	int64_t claim_due_us, end_us;
	bool ending; /* no more claims */
};

struct options {
	const char *file, *source;
	int64_t seconds;
};

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {{"config", required_argument, NULL, 'c'},
					      {"source", required_argument, NULL, 's'},
					      {"seconds", required_argument, NULL, 't'},
					      {NULL, 0, NULL, 0}};
	struct options options = {.seconds = 86400};
	int option;

	while ((option = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (option == 'c')
			options.file = optarg;
		else if (option == 's')
			options.source = optarg;
		else if (option == 't')
			options.seconds = bench_number("seconds", optarg, 1, 86400);
		else
			exit(64);
	}
	if (options.file == NULL || optind < argc)
		bench_die("usage: floor -c FILE [--source NAME] [--seconds S]");
	return options;
}

/* ---- beginning ---- */

/* Blocked before the library starts its threads, which inherit that. */
static int open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		bench_die("no signalfd");
	return fd;
}

static PGconn *open_listen(const struct config_source *source)
{
	PGconn *pg = lane_connect(&source->postgres);
	char *channel = PQescapeIdentifier(pg, source->notify, strlen(source->notify));
	struct buf sql = {0};
	PGresult *result;

	buf_print(&sql, "LISTEN %s", channel == NULL ? "" : channel);
	result = PQexec(pg, buf_text(&sql));
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		bench_die("postgres: %s", PQerrorMessage(pg));
	PQclear(result);
	PQfreemem(channel);
	buf_free(&sql);
	return pg;
}

static void begin(struct floor *floor, const struct config_source *source)
{
	floor->signals = open_signals();
	lane_open(&floor->claims, &source->postgres);
	lane_open(&floor->settles, &source->postgres);
	bare_open(&floor->bare, source, &floor->claims);
	floor->n_cells = SQL_CLAIM_COLUMNS + route_templates(floor->bare.route).n_columns;
	floor->cells = MEM_NEW_ARRAY(floor->n_cells, struct slice);
	feed_open(&floor->feed, &source->kafka);
	floor->listen = source->notify == NULL ? NULL : open_listen(source);
	/* For who starts the load. */
	fputs("ready\n", stderr);
}

static void end(struct floor *floor)
{
	feed_close(&floor->feed);
	bare_close(&floor->bare);
	lane_close(&floor->claims);
	lane_close(&floor->settles);
	PQfinish(floor->listen);
	close(floor->signals);
	samples_free(&floor->samples);
	mem_free(floor->cells);
}

/* ---- a row's way ---- */

/* As outboxd measures it: its age when the claim began, and the time since the claim was sent. */
static void on_report(void *context, void *opaque)
{
	struct floor *floor = context;
	struct bare_row *row = opaque;
	int64_t age_us;

	floor->rows++;
	if (bare_age_us(&floor->bare, row, &age_us))
		samples_add(&floor->samples, age_us + bench_now_us() - row->batch->sent_us);
	bare_deliver(&floor->bare, row);
}

static void publish(struct floor *floor, struct bare_row *row)
{
	struct message message;
	struct err err;

	for (size_t i = 0; i < floor->n_cells; i++)
		floor->cells[i] = bare_cell(row, (int)i);
	if (!route_compose(floor->bare.route, floor->cells, &message, &err))
		bench_die("%s", err.text);
	while (!feed_send(&floor->feed, &message, row))
		feed_serve(&floor->feed, 10, on_report, floor);
}

static void on_claim(struct floor *floor, PGresult *result)
{
	struct bare_batch *batch = bare_take_claim(&floor->bare, &floor->claims, result);

	if (floor->bare.more)
		floor->claim_due_us = 0;
	for (size_t i = 0; batch != NULL && i < batch->n; i++)
		publish(floor, &batch->rows[i]);
}

/* ---- the loop ---- */

static void start(struct floor *floor)
{
	int64_t now_us = bench_now_us();

	floor->ending = floor->ending || now_us >= floor->end_us;
	if (!floor->settles.busy && floor->bare.delivered.length > 0) {
		bare_send_settle(&floor->bare, &floor->settles);
		floor->settles_sent++;
	}
	if (floor->ending || floor->claims.busy || floor->claim_due_us > now_us || !bare_has_room(&floor->bare))
		return;
	floor->claim_due_us = now_us + floor->bare.source->poll_us;
	bare_send_claim(&floor->bare, &floor->claims, INT64_MAX);
	floor->claims_sent++;
}

static void serve_listen(struct floor *floor)
{
	PGnotify *notify;

	if (PQconsumeInput(floor->listen) != 1)
		bench_die("postgres: %s", PQerrorMessage(floor->listen));
	while ((notify = PQnotifies(floor->listen)) != NULL) {
		floor->claim_due_us = 0;
		PQfreemem(notify);
	}
}

static void serve(struct floor *floor, const struct pollfd *fds)
{
	PGresult *result;

	if (fds[FD_SIGNAL].revents != 0)
		floor->ending = true;
	if (fds[FD_LISTEN].revents != 0)
		serve_listen(floor);
	if (fds[FD_FEED].revents != 0)
		feed_serve(&floor->feed, 0, on_report, floor);
	if (fds[FD_CLAIMS].revents != 0 && (result = lane_serve(&floor->claims)) != NULL)
		on_claim(floor, result);
	if (fds[FD_SETTLES].revents != 0 && (result = lane_serve(&floor->settles)) != NULL)
		bare_take_settle(&floor->bare, result);
}

static bool working(const struct floor *floor)
{
	return !floor->ending || floor->claims.busy || floor->bare.rows > 0;
}

/* Rounded up: a moment too early would be a turn for nothing. */
static int wait_ms(const struct floor *floor)
{
	int64_t until_us = floor->end_us < floor->claim_due_us ? floor->end_us : floor->claim_due_us;
	int64_t ms = (until_us - bench_now_us() + 999) / 1000;

	/* Then only an answer or a report changes anything. */
	if (floor->ending || floor->claims.busy || !bare_has_room(&floor->bare))
		return -1;
	return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

static void run(struct floor *floor)
{
	struct pollfd fds[FDS] = {
		[FD_SIGNAL] = {.fd = floor->signals, .events = POLLIN},
		[FD_LISTEN] = {.fd = floor->listen == NULL ? -1 : PQsocket(floor->listen), .events = POLLIN},
		[FD_FEED] = {.fd = floor->feed.fd, .events = POLLIN}};

	/* What was written to the descriptor before it was watched is still there to be read. */
	for (start(floor); working(floor); start(floor)) {
		fds[FD_SIGNAL].fd = floor->ending ? -1 : floor->signals;
		fds[FD_CLAIMS] = lane_poll(&floor->claims);
		fds[FD_SETTLES] = lane_poll(&floor->settles);
		if (poll(fds, FDS, wait_ms(floor)) < 0 && errno != EINTR)
			bench_die("poll failed");
		serve(floor, fds);
	}
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct floor floor = {0};
	double cpu_before;

	begin(&floor, bench_source(options.file, options.source));
	cpu_before = bench_cpu_seconds();
	floor.end_us = bench_now_us() + options.seconds * 1000000;
	run(&floor);
	bench_print(json_pack("{s:I,s:I,s:I,s:f,s:o}", "rows", (json_int_t)floor.rows, "claims",
			      (json_int_t)floor.claims_sent, "settles", (json_int_t)floor.settles_sent,
			      "cpu_seconds", bench_cpu_seconds() - cpu_before, "report",
			      samples_json(&floor.samples)));
	end(&floor);
	return 0;
}
