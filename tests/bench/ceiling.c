/* ceiling: how fast PostgreSQL alone lets rows be claimed and settled: the relay's two statements, and no Kafka.
 *
 * One connection: a claim, its settle, the next claim. Two: claims on one, settles on the other, both as busy as the limits
 * on rows in memory allow: the most that a relay with two connections can reach. */
#include "bare.h"
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

struct ceiling {
	struct bare bare;
	struct lane lanes[2];
	struct lane *claims, *settles; /* the same one, or two */
	bool claiming, settling;       /* under way */
	int64_t limit;		       /* rows to claim in all */
	int64_t claimed, rows;	       /* claimed, settled */
	int64_t n_claims, n_settles, claim_us, settle_us;
	int64_t settles_then; /* settles answered when the last claim was sent */
	size_t held_then;     /* rows in memory when it was sent */
	bool exhausted;	      /* it found nothing, and nothing was held that could have been in its way */
	int64_t begun_us, ended_us;
};

struct options {
	const char *file, *source;
	int64_t connections, limit;
};

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {{"config", required_argument, NULL, 'c'},
					      {"source", required_argument, NULL, 's'},
					      {"connections", required_argument, NULL, 'n'},
					      {"limit", required_argument, NULL, 'l'},
					      {NULL, 0, NULL, 0}};
	struct options options = {.connections = 2, .limit = INT64_MAX};
	int option;

	while ((option = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (option == 'c')
			options.file = optarg;
		else if (option == 's')
			options.source = optarg;
		else if (option == 'n')
			options.connections = bench_number("connections", optarg, 1, 2);
		else if (option == 'l')
			options.limit = bench_number("limit", optarg, 1, INT64_MAX);
		else
			exit(64);
	}
	if (options.file == NULL || optind < argc)
		bench_die("usage: ceiling -c FILE [--source NAME] [--connections 1|2] [--limit ROWS]");
	return options;
}

/* After a claim that found nothing the next one waits for a settle: it frees the shares of keys. */
static bool may_claim(const struct ceiling *ceiling)
{
	if (ceiling->claiming || ceiling->exhausted || ceiling->claimed >= ceiling->limit)
		return false;
	if (ceiling->bare.idle && ceiling->settles_then == ceiling->n_settles && ceiling->bare.rows > 0)
		return false;
	return bare_has_room(&ceiling->bare);
}

static void start(struct ceiling *ceiling)
{
	if (!ceiling->settles->busy && ceiling->bare.delivered.length > 0) {
		bare_send_settle(&ceiling->bare, ceiling->settles);
		ceiling->settling = true;
	}
	if (!ceiling->claims->busy && may_claim(ceiling)) {
		bare_send_claim(&ceiling->bare, ceiling->claims, ceiling->limit - ceiling->claimed);
		ceiling->claiming = true;
		ceiling->settles_then = ceiling->n_settles;
		ceiling->held_then = ceiling->bare.rows;
	}
}

static void on_claim(struct ceiling *ceiling, PGresult *result)
{
	struct bare_batch *batch = bare_take_claim(&ceiling->bare, ceiling->claims, result);

	ceiling->claiming = false;
	ceiling->n_claims++;
	ceiling->claim_us += ceiling->claims->duration_us;
	ceiling->exhausted = ceiling->bare.idle && ceiling->held_then == 0;
	if (batch == NULL)
		return;
	ceiling->claimed += (int64_t)batch->n;
	for (size_t i = 0; i < batch->n; i++)
		bare_deliver(&ceiling->bare, &batch->rows[i]);
}

static void on_settle(struct ceiling *ceiling, PGresult *result)
{
	ceiling->rows += (int64_t)bare_take_settle(&ceiling->bare, result);
	ceiling->settling = false;
	ceiling->n_settles++;
	ceiling->settle_us += ceiling->settles->duration_us;
	ceiling->ended_us = bench_now_us();
}

static void serve(struct ceiling *ceiling, struct lane *lane)
{
	PGresult *result = lane_serve(lane);

	if (result == NULL)
		return;
	if (lane == ceiling->claims && ceiling->claiming)
		on_claim(ceiling, result);
	else
		on_settle(ceiling, result);
}

static void drain(struct ceiling *ceiling, nfds_t n_lanes)
{
	struct pollfd fds[2];

	ceiling->begun_us = ceiling->ended_us = bench_now_us();
	for (start(ceiling); ceiling->claiming || ceiling->settling; start(ceiling)) {
		for (nfds_t i = 0; i < n_lanes; i++)
			fds[i] = lane_poll(&ceiling->lanes[i]);
		if (poll(fds, n_lanes, -1) < 0 && errno != EINTR)
			bench_die("poll failed");
		for (nfds_t i = 0; i < n_lanes; i++)
			if (fds[i].revents != 0)
				serve(ceiling, &ceiling->lanes[i]);
	}
}

static void print(const struct ceiling *ceiling, double cpu_seconds)
{
	double seconds = (double)(ceiling->ended_us - ceiling->begun_us) / 1e6;

	bench_print(json_pack("{s:I,s:f,s:f,s:I,s:I,s:f,s:f,s:f}", "rows", (json_int_t)ceiling->rows, "seconds",
			      seconds, "rows_per_second", seconds > 0 ? (double)ceiling->rows / seconds : 0.,
			      "claims", (json_int_t)ceiling->n_claims, "settles", (json_int_t)ceiling->n_settles,
			      "cpu_seconds", cpu_seconds, "claim_seconds", (double)ceiling->claim_us / 1e6,
			      "settle_seconds", (double)ceiling->settle_us / 1e6));
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	const struct config_source *source = bench_source(options.file, options.source);
	struct ceiling ceiling = {.limit = options.limit};
	nfds_t n_lanes = (nfds_t)options.connections;
	double cpu_before;

	for (nfds_t i = 0; i < n_lanes; i++)
		lane_open(&ceiling.lanes[i], &source->postgres);
	ceiling.claims = &ceiling.lanes[0];
	ceiling.settles = &ceiling.lanes[n_lanes - 1];
	bare_open(&ceiling.bare, source, ceiling.claims);
	cpu_before = bench_cpu_seconds();
	drain(&ceiling, n_lanes);
	print(&ceiling, bench_cpu_seconds() - cpu_before);
	bare_close(&ceiling.bare);
	for (nfds_t i = 0; i < n_lanes; i++)
		lane_close(&ceiling.lanes[i]);
	return 0;
}
