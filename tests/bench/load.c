/* load: commits rows at an even pace, one a transaction, and can say how long each took from there to a consumer.
 *
 * The schedule is absolute: a row is due at its time, whatever became of the one before. Several connections take turns, for
 * a commit may take longer than the time between two rows. */
#include "arrivals.h"
#include "base/buf.h"
#include "base/mem.h"
#include "bench.h"
#include "core/sql.h"
#include "samples.h"

#include <errno.h>
#include <getopt.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LATE_US 1000 /* a send so much behind its time counts as late */
#define CONNECTIONS_MAX 64
#define ROWS_A_CONNECTION 250 /* a second: commits may take 4 ms */

struct options {
	const char *dsn, *table, *bootstrap, *topic;
	int64_t rate, seconds, keys, size;
};

struct writer {
	PGconn *pg;
	bool busy, unsent;
	size_t number; /* of the row under way */
};

struct load {
	struct options options;
	struct writer writers[CONNECTIONS_MAX];
	size_t n_writers;
	int timer;
	unsigned run; /* tells this run's records from those of another */
	char *payload;
	size_t n, due, sent, committed; /* rows: in all, due by the clock, so far sent, committed */
	size_t late;
	int64_t begun_us;
	int64_t *committed_us; /* when each commit was answered */
	struct arrivals *arrivals;
};

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"dsn", required_argument, NULL, 'd'},	   {"table", required_argument, NULL, 't'},
		{"rate", required_argument, NULL, 'r'},	   {"seconds", required_argument, NULL, 's'},
		{"keys", required_argument, NULL, 'k'},	   {"size", required_argument, NULL, 'b'},
		{"consume", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	struct options options = {.table = "event_outbox", .rate = 1000, .seconds = 30, .keys = 1000, .size = 200};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'd')
			options.dsn = optarg;
		else if (option == 't')
			options.table = optarg;
		else if (option == 'r')
			options.rate = bench_number("rate", optarg, 1, 100000);
		else if (option == 's')
			options.seconds = bench_number("seconds", optarg, 1, 3600);
		else if (option == 'k')
			options.keys = bench_number("keys", optarg, 1, INT32_MAX);
		else if (option == 'b')
			options.size = bench_number("size", optarg, 64, 1 << 20);
		else if (option == 'c')
			options.bootstrap = optarg;
		else
			exit(64);
	}
	if (options.bootstrap != NULL && optind < argc)
		options.topic = argv[optind++];
	if (options.dsn == NULL || optind < argc || (options.bootstrap != NULL && options.topic == NULL))
		bench_die("usage: load --dsn D --table T --rate R --seconds S --keys K --size BYTES"
			  " [--consume BOOTSTRAP TOPIC]");
	return options;
}

/* ---- connections ---- */

static void prepare(const struct load *load, PGconn *pg)
{
	struct buf sql = {0};
	struct err err;
	PGresult *result;

	buf_add_string(&sql, "INSERT INTO ");
	if (!sql_table_name(load->options.table, &sql, &err))
		bench_die("%s", err.text);
	buf_add_string(&sql, " (aggregate_id, event_type, payload) VALUES ($1, $2, $3)");
	result = PQprepare(pg, "insert", buf_text(&sql), 3, NULL);
	if (PQresultStatus(result) != PGRES_COMMAND_OK || PQsetnonblocking(pg, 1) != 0)
		bench_die("postgres: %s", PQerrorMessage(pg));
	PQclear(result);
	buf_free(&sql);
}

static void connect_all(struct load *load)
{
	load->n_writers = 1 + (size_t)load->options.rate / ROWS_A_CONNECTION;
	if (load->n_writers < 2)
		load->n_writers = 2;
	if (load->n_writers > CONNECTIONS_MAX)
		load->n_writers = CONNECTIONS_MAX;
	for (size_t i = 0; i < load->n_writers; i++) {
		load->writers[i].pg = PQconnectdb(load->options.dsn);
		if (PQstatus(load->writers[i].pg) != CONNECTION_OK)
			bench_die("postgres: %s", PQerrorMessage(load->writers[i].pg));
		prepare(load, load->writers[i].pg);
	}
}

static void flush(struct writer *writer)
{
	int unsent = PQflush(writer->pg);

	if (unsent < 0)
		bench_die("postgres: %s", PQerrorMessage(writer->pg));
	writer->unsent = unsent > 0;
}

/* ---- rows ---- */

static int64_t due_us(const struct load *load, size_t number)
{
	return load->begun_us + (int64_t)number * 1000000 / load->options.rate;
}

/* {"i": 12, "r": 345, "pad": "xxx"}, as long as is wanted. */
static const char *make_payload(struct load *load, size_t number)
{
	size_t size = (size_t)load->options.size, len;

	memset(load->payload, 'x', size);
	len = (size_t)snprintf(load->payload, size, ARRIVALS_PAYLOAD ", \"pad\": \"", number, load->run);
	load->payload[len] = 'x'; /* in place of the NUL */
	memcpy(load->payload + size - 2, "\"}", 3);
	return load->payload;
}

static void send_row(struct load *load, struct writer *writer)
{
	const char *type = load->options.topic == NULL ? "load" : load->options.topic;
	char key[24];
	const char *values[] = {key, type, make_payload(load, load->sent)};

	snprintf(key, sizeof(key), "k%zu", load->sent % (size_t)load->options.keys);
	writer->number = load->sent++;
	writer->busy = true;
	if (bench_now_us() - due_us(load, writer->number) > LATE_US)
		load->late++;
	if (PQsendQueryPrepared(writer->pg, "insert", 3, values, NULL, NULL, 0) != 1)
		bench_die("postgres: %s", PQerrorMessage(writer->pg));
	flush(writer);
}

/* The first that is free, so that no more are in use than are needed. */
static struct writer *find_free(struct load *load)
{
	for (size_t i = 0; i < load->n_writers; i++)
		if (!load->writers[i].busy)
			return &load->writers[i];
	return NULL;
}

static void send_due(struct load *load)
{
	struct writer *writer;

	while (load->sent < load->due && (writer = find_free(load)) != NULL)
		send_row(load, writer);
}

static void on_answer(struct load *load, struct writer *writer, PGresult *result)
{
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		bench_die("postgres: %s", PQresultErrorMessage(result));
	load->committed_us[writer->number] = bench_now_us();
	load->committed++;
	PQclear(result);
}

static void serve(struct load *load, struct writer *writer)
{
	PGresult *result;

	if (PQconsumeInput(writer->pg) != 1)
		bench_die("postgres: %s", PQerrorMessage(writer->pg));
	flush(writer);
	while (writer->busy && !PQisBusy(writer->pg)) {
		result = PQgetResult(writer->pg);
		if (result == NULL)
			writer->busy = false;
		else
			on_answer(load, writer, result);
	}
}

/* ---- the clock ---- */

static void start_timer(struct load *load)
{
	int64_t nanoseconds = 1000000000 / load->options.rate;
	struct itimerspec every = {.it_interval = {nanoseconds / 1000000000, nanoseconds % 1000000000},
				   .it_value = {0, 1}};

	load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	load->begun_us = bench_now_us();
	if (load->timer < 0 || timerfd_settime(load->timer, 0, &every, NULL) != 0)
		bench_die("no timer");
}

/* The timer rings late when the machine is busy, but tells how often it should have rung. */
static void on_timer(struct load *load)
{
	uint64_t rings;

	if (read(load->timer, &rings, sizeof(rings)) != sizeof(rings))
		return;
	load->due = rings < load->n - load->due ? load->due + rings : load->n;
}

static void run(struct load *load)
{
	struct pollfd fds[CONNECTIONS_MAX + 1] = {{.fd = load->timer, .events = POLLIN}};

	while (load->committed < load->n) {
		for (size_t i = 0; i < load->n_writers; i++)
			fds[i + 1] = (struct pollfd){
				.fd = PQsocket(load->writers[i].pg),
				.events = (short)(load->writers[i].unsent ? POLLIN | POLLOUT : POLLIN)};
		fds[0].fd = load->due < load->n ? load->timer : -1;
		if (poll(fds, load->n_writers + 1, -1) < 0 && errno != EINTR)
			bench_die("poll failed");
		for (size_t i = 0; i < load->n_writers; i++)
			if (fds[i + 1].revents != 0)
				serve(load, &load->writers[i]);
		if (fds[0].revents != 0)
			on_timer(load);
		send_due(load);
	}
}

/* ---- beginning and end ---- */

static void begin(struct load *load)
{
	load->n = (size_t)(load->options.rate * load->options.seconds);
	load->payload = mem_new((size_t)load->options.size + 1, 1);
	load->committed_us = MEM_NEW_ARRAY(load->n, int64_t);
	if (getentropy(&load->run, sizeof(load->run)) != 0)
		bench_die("no random number");
	connect_all(load);
	if (load->options.bootstrap != NULL)
		load->arrivals = arrivals_open(load->options.bootstrap, load->options.topic, load->run, load->n);
}

static void end(struct load *load)
{
	for (size_t i = 0; i < load->n_writers; i++)
		PQfinish(load->writers[i].pg);
	close(load->timer);
	mem_free(load->committed_us);
	mem_free(load->payload);
}

static void add_arrivals(struct load *load, json_t *json)
{
	const int64_t *arrived_us = arrivals_wait(load->arrivals);
	struct samples samples = {0};

	for (size_t i = 0; i < load->n; i++)
		if (arrived_us[i] != 0)
			samples_add(&samples, arrived_us[i] - load->committed_us[i]);
	json_object_set_new(json, "missing", json_integer((json_int_t)(load->n - samples.length)));
	json_object_set_new(json, "commit_to_consumer", samples_json(&samples));
	samples_free(&samples);
	arrivals_close(load->arrivals);
}

int main(int argc, char **argv)
{
	struct load load = {.options = parse(argc, argv)};
	json_t *json;

	begin(&load);
	start_timer(&load);
	run(&load);
	json = json_pack("{s:I,s:f,s:I}", "rows", (json_int_t)load.committed, "seconds",
			 (double)(bench_now_us() - load.begun_us) / 1e6, "late", (json_int_t)load.late);
	if (load.arrivals != NULL)
		add_arrivals(&load, json);
	bench_print(json);
	end(&load);
	return 0;
}
