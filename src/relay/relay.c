#include "relay/relay.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/metrics.h"
#include "io/http.h"
#include "io/library.h"
#include "io/process.h"
#include "io/sdnotify.h"
#include "relay/fleet.h"
#include "relay/pages.h"
#include "relay/reload.h"

#include <assert.h>
#include <ev.h>
#include <signal.h>
#include <unistd.h>

#define HOUSEKEEPING_SECONDS 1.0
#define AFTER_DEADLINE_SECONDS 0.8 /* for the last settles, once the drain's deadline has passed */

struct relay {
	struct ev_loop *loop;
	struct config *config; /* a share */
	struct metrics *metrics;
	struct fleet *fleet;
	struct pages pages;
	struct http *http;
	struct sdnotify supervisor;
	ev_prepare before_block;
	ev_check after_block;
	ev_timer next_pass, housekeeping, deadline, keep_alive;
	ev_idle at_once;
	ev_signal signals[4];
	int64_t turn_began_us, longest_turn_us;
	bool draining, late, was_ready;
};

/* ---- the pass ---- */

static void look_again(struct relay *relay, int64_t now_us, int64_t again_us)
{
	ev_timer_stop(relay->loop, &relay->next_pass);
	/* "Now" is an active idle watcher: epoll rounds a short timer up to a millisecond. */
	if (again_us <= now_us) {
		ev_idle_start(relay->loop, &relay->at_once);
		return;
	}
	ev_idle_stop(relay->loop, &relay->at_once);
	if (again_us == INT64_MAX)
		return;
	/* Timers count from the time the turn began. */
	ev_timer_set(&relay->next_pass, (double)(again_us - now_us) / 1e6 + (ev_time() - ev_now(relay->loop)), 0.);
	ev_timer_start(relay->loop, &relay->next_pass);
}

static void on_before_block(struct ev_loop *loop, ev_prepare *watcher, int events)
{
	struct relay *relay = watcher->data;
	int64_t now_us = process_boottime_us(), again_us, turn_us;

	(void)events;
	again_us = fleet_step(relay->fleet, now_us);
	if (relay->draining && fleet_stopped(relay->fleet))
		ev_break(loop, EVBREAK_ALL);
	look_again(relay, now_us, again_us);
	turn_us = process_boottime_us() - relay->turn_began_us;
	if (turn_us > relay->longest_turn_us)
		relay->longest_turn_us = turn_us;
}

static void on_after_block(struct ev_loop *loop, ev_check *watcher, int events)
{
	struct relay *relay = watcher->data;

	(void)loop;
	(void)events;
	relay->turn_began_us = process_boottime_us();
}

/* The pass comes before the loop blocks again; waking up is all that is needed. */
static void on_next_pass(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)loop;
	(void)watcher;
	(void)events;
}

static void on_at_once(struct ev_loop *loop, ev_idle *watcher, int events)
{
	(void)loop;
	(void)watcher;
	(void)events;
}

/* ---- metrics, readiness, logs ---- */

static void set_gauge(struct relay *relay, enum metric metric, double value)
{
	metrics_series(relay->metrics, metric, NULL, NULL)->value = value;
}

static void refresh_metrics(void *context)
{
	struct relay *relay = context;
	struct process_usage usage = process_usage();

	fleet_refresh_metrics(relay->fleet, ev_time(), process_boottime_us());
	set_gauge(relay, METRIC_LOOP_LAG, (double)relay->longest_turn_us / 1e6);
	relay->longest_turn_us = 0;
	set_gauge(relay, METRIC_PROCESS_CPU, usage.cpu_seconds);
	set_gauge(relay, METRIC_PROCESS_RSS, usage.rss_bytes);
	set_gauge(relay, METRIC_PROCESS_FDS, usage.open_fds);
	set_gauge(relay, METRIC_PROCESS_START, usage.start_seconds);
}

/* For `systemctl status`. */
static void tell_state(const struct relay *relay, const char *state, const struct buf *reasons)
{
	struct buf status = {0};

	buf_print(&status, "STATUS=%s%.*s", state, (int)(reasons->len > 0 ? reasons->len - 1 : 0),
		  buf_text(reasons));
	sdnotify_send(&relay->supervisor, buf_text(&status));
	buf_free(&status);
}

static void on_readiness(struct relay *relay, bool ready, const struct buf *reasons)
{
	relay->was_ready = ready;
	if (ready) {
		LOG(LOG_INFO, "ready", log_int("sources", (int64_t)relay->config->n_sources));
		tell_state(relay, "ready", &(struct buf){0});
	} else if (!relay->draining) {
		LOG(LOG_WARN, "not_ready", log_bytes("reasons", reasons->bytes, reasons->len - 1));
		tell_state(relay, "not ready: ", reasons);
	}
}

static void on_housekeeping(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct relay *relay = watcher->data;
	struct buf reasons = {0};
	bool ready = pages_ready(&relay->pages, &reasons);

	(void)loop;
	(void)events;
	if (ready != relay->was_ready)
		on_readiness(relay, ready, &reasons);
	buf_free(&reasons);
	log_flush_limited(false);
}

static int64_t settled(const struct relay *relay, const char *outcome)
{
	return (int64_t)metrics_sum(relay->metrics, METRIC_SETTLED, outcome);
}

/* The last line: what became of the rows, and how many are left to their leases. */
static void log_end(const struct relay *relay, int exit_code)
{
	LOG(LOG_INFO, "stopped", log_int("exit", exit_code), log_int("sent", settled(relay, "sent")),
	    log_int("awaiting", settled(relay, "awaiting")), log_int("retry", settled(relay, "retry")),
	    log_int("failed", settled(relay, "failed")), log_int("released", settled(relay, "released")),
	    log_int("left_to_leases", (int64_t)fleet_left_to_leases(relay->fleet)));
}

/* ---- signals: the drain and the reload ---- */

static void on_late(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

static void on_deadline(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct relay *relay = watcher->data;

	(void)events;
	relay->late = true;
	fleet_abandon(relay->fleet);
	ev_timer_stop(loop, watcher);
	ev_set_cb(watcher, on_late);
	ev_timer_set(watcher, AFTER_DEADLINE_SECONDS, 0.);
	ev_timer_start(loop, watcher);
}

static void drain(struct relay *relay, int signal_number)
{
	relay->draining = relay->pages.draining = true;
	sdnotify_send(&relay->supervisor, "STOPPING=1\nSTATUS=draining");
	LOG(LOG_INFO, "draining", log_str("signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"),
	    log_int("timeout_ms", relay->config->drain_timeout_us / 1000));
	fleet_drain(relay->fleet);
	ev_timer_init(&relay->deadline, on_deadline, (double)relay->config->drain_timeout_us / 1e6, 0.);
	relay->deadline.data = relay;
	ev_timer_start(relay->loop, &relay->deadline);
}

static void set_reload_metrics(struct relay *relay, bool good)
{
	set_gauge(relay, METRIC_RELOAD_SUCCESS, good);
	if (good)
		set_gauge(relay, METRIC_RELOAD_TIMESTAMP, ev_time());
}

static void reload(struct relay *relay)
{
	struct config *config;

	if (relay->draining) {
		LOG(LOG_WARN, "reload_rejected", log_str("reason", "draining: this process is about to end"));
		return;
	}
	CRASH_POINT(RELOAD_BEGUN);
	sdnotify_send_reloading(&relay->supervisor);
	config = reload_read(relay->config);
	set_reload_metrics(relay, config != NULL);
	if (config != NULL) {
		CRASH_POINT(RELOAD_READ);
		fleet_apply(relay->fleet, config, process_boottime_us());
		CRASH_POINT(RELOAD_DONE);
		reload_tell(relay->config, config);
		config_free(relay->config);
		relay->config = config;
	}
	sdnotify_send(&relay->supervisor, "READY=1");
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
	struct relay *relay = watcher->data;

	(void)loop;
	(void)events;
	if (watcher->signum == SIGHUP) {
		reload(relay);
		return;
	}
	if (watcher->signum == SIGUSR1) {
		fleet_log_status(relay->fleet);
		return;
	}
	if (!relay->draining) {
		drain(relay, watcher->signum);
		return;
	}
	/* The second one: at once, leases and all. */
	LOG(LOG_WARN, "second_signal", log_str("means", "ending at once: what is held is left to its leases"));
	log_flush_limited(true);
	log_end(relay, 1);
	_exit(1);
}

/* ---- start and end ---- */

static void start_watchers(struct relay *relay)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
	size_t i;

	/* A peer that has gone must not end the daemon. */
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		ev_signal_init(&relay->signals[i], on_signal, numbers[i]);
		relay->signals[i].data = relay;
		ev_signal_start(relay->loop, &relay->signals[i]);
	}
	ev_prepare_init(&relay->before_block, on_before_block);
	ev_check_init(&relay->after_block, on_after_block);
	ev_set_priority(&relay->after_block, EV_MAXPRI);
	ev_timer_init(&relay->next_pass, on_next_pass, 0., 0.);
	ev_idle_init(&relay->at_once, on_at_once);
	ev_timer_init(&relay->housekeeping, on_housekeeping, HOUSEKEEPING_SECONDS, HOUSEKEEPING_SECONDS);
	relay->before_block.data = relay->after_block.data = relay->housekeeping.data = relay;
	ev_prepare_start(relay->loop, &relay->before_block);
	ev_check_start(relay->loop, &relay->after_block);
	ev_timer_start(relay->loop, &relay->housekeeping);
}

/* A turn may be late by as much as the interval, and the next sign of life still comes in time. */
#define KEEP_ALIVES_A_LIMIT 3

/* Only the loop speaks for itself: whoever watches ends the process when it has stopped turning. */
static void on_keep_alive(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct relay *relay = watcher->data;

	(void)loop;
	(void)events;
	sdnotify_send(&relay->supervisor, "WATCHDOG=1");
}

static void start_keep_alives(struct relay *relay)
{
	double seconds = (double)relay->supervisor.watchdog_us / 1e6 / KEEP_ALIVES_A_LIMIT;

	if (relay->supervisor.watchdog_us == 0)
		return;
	ev_timer_init(&relay->keep_alive, on_keep_alive, seconds, seconds);
	relay->keep_alive.data = relay;
	ev_timer_start(relay->loop, &relay->keep_alive);
}

static bool start_http(struct relay *relay, struct err *err)
{
	relay->pages = (struct pages){
		.fleet = relay->fleet, .metrics = relay->metrics, .refresh = refresh_metrics, .context = relay};
	if (relay->config->http.host == NULL)
		return true;
	relay->http = http_new(relay->loop, &relay->config->http, pages_serve, &relay->pages, err);
	return relay->http != NULL;
}

static void start(struct relay *relay)
{
	struct library_versions versions = library_versions();

	sdnotify_open(&relay->supervisor);
	relay->metrics = metrics_new();
	metrics_set(relay->metrics, METRIC_BUILD_INFO,
		    (const char *const[METRICS_LABELS]){OUTBOXD_VERSION, versions.libpq, versions.librdkafka}, 1);
	set_reload_metrics(relay, true);
	start_watchers(relay);
	start_keep_alives(relay);
	relay->fleet = fleet_new(relay->loop, relay->metrics);
	fleet_apply(relay->fleet, relay->config, process_boottime_us());
}

static int run(struct relay *relay)
{
	int exit_code;

	LOG(LOG_INFO, "started", log_str("version", OUTBOXD_VERSION), log_int("pid", getpid()),
	    log_str("config", relay->config->file), log_int("sources", (int64_t)relay->config->n_sources),
	    log_str("http", relay->config->http.host),
	    log_int("port", relay->http == NULL ? 0 : http_port(relay->http)));
	/* Whether the database and Kafka are there is another question: /readyz. */
	sdnotify_send(&relay->supervisor, "READY=1");
	ev_run(relay->loop, 0);
	CRASH_POINT(LOOP_LEFT);
	exit_code = relay->late ? 1 : 0;
	log_flush_limited(true);
	log_end(relay, exit_code);
	return exit_code;
}

int relay_run(struct config *config, struct err *err)
{
	struct relay relay = {.loop = ev_default_loop(EVFLAG_NOENV), .turn_began_us = process_boottime_us()};
	int exit_code = -1;

	assert(relay.loop != NULL); /* there is always select */
	relay.config = config_share(config);
	start(&relay);
	if (start_http(&relay, err))
		exit_code = run(&relay);
	http_free(relay.http);
	fleet_free(relay.fleet);
	metrics_free(relay.metrics);
	sdnotify_close(&relay.supervisor);
	config_free(relay.config);
	return exit_code;
}
