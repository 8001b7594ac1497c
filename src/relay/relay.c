#include "relay/relay.h"

#include "base/crash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/metrics.h"
#include "io/db.h"
#include "io/http.h"
#include "io/kafka.h"
#include "io/library.h"
#include "io/listener.h"
#include "io/process.h"
#include "relay/pages.h"
#include "relay/source.h"

#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define HOUSEKEEPING_SECONDS 1.0
#define AFTER_DEADLINE_SECONDS 0.8 /* for the last settles, once the drain's deadline has passed */

/* What sources with the same settings share. */
struct database {
	const struct config_postgres *config;
	struct dbpool *pool;
	struct listener *listener;
};
struct broker {
	const struct config_kafka *config;
	bool gapless;
	struct kafka *kafka;
	struct kafka *careful; /* beside a gapless one; else NULL */
	struct kafka *single;
};

struct relay {
	struct ev_loop *loop;
	const struct config *config;
	struct metrics *metrics;
	struct database *databases; /* n_sources of each at most */
	struct broker *brokers;
	size_t n_databases, n_brokers;
	struct source **sources;
	size_t n_sources,
		first; /* the one stepped first in the next pass: everyone gets a turn at a free connection */
	struct pages pages;
	struct http *http;
	ev_prepare before_block;
	ev_check after_block;
	ev_timer next_pass, housekeeping, deadline;
	ev_idle at_once;
	ev_signal signals[4];
	int64_t turn_began_us, longest_turn_us;
	bool draining, late, was_ready;
};

/* ---- what is shared ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_database(const struct config_postgres *a, const struct config_postgres *b)
{
	return same_text(a->dsn, b->dsn) && same_text(a->password_file, b->password_file) &&
	       a->connections == b->connections && a->connect_timeout_us == b->connect_timeout_us &&
	       a->statement_timeout_us == b->statement_timeout_us && a->lock_timeout_us == b->lock_timeout_us;
}

static bool same_broker(const struct config_kafka *a, const struct config_kafka *b)
{
	size_t i;

	if (!same_text(a->bootstrap_servers, b->bootstrap_servers) ||
	    !same_text(a->password_file, b->password_file) || a->message_timeout_us != b->message_timeout_us ||
	    a->n_properties != b->n_properties)
		return false;
	for (i = 0; i < a->n_properties; i++)
		if (!same_text(a->properties[i].name, b->properties[i].name) ||
		    !same_text(a->properties[i].value, b->properties[i].value))
			return false;
	return true;
}

static struct database *share_database(struct relay *relay, const struct config_postgres *config)
{
	struct database *database;
	size_t i;

	for (i = 0; i < relay->n_databases; i++)
		if (same_database(relay->databases[i].config, config))
			return &relay->databases[i];
	database = &relay->databases[relay->n_databases++];
	database->config = config;
	database->pool = dbpool_new(relay->loop, config);
	return database;
}

static struct broker *share_broker(struct relay *relay, const struct config_source *config)
{
	bool gapless = source_wants_gapless(config);
	struct broker *broker;
	size_t i;

	for (i = 0; i < relay->n_brokers; i++)
		if (relay->brokers[i].gapless == gapless && same_broker(relay->brokers[i].config, &config->kafka))
			return &relay->brokers[i];
	broker = &relay->brokers[relay->n_brokers++];
	broker->config = &config->kafka;
	broker->gapless = gapless;
	broker->kafka = kafka_new(relay->loop, broker->config, gapless ? KAFKA_GAPLESS : KAFKA_PLAIN,
				  source_on_kafka_answer);
	if (gapless)
		broker->careful = kafka_new(relay->loop, broker->config, KAFKA_CAREFUL, source_on_kafka_answer);
	broker->single = kafka_new(relay->loop, broker->config, KAFKA_SINGLE, source_on_kafka_answer);
	return broker;
}

/* ---- sources ---- */

static void on_wake(void *context)
{
	source_wake(context);
}

static void add_source(struct relay *relay, const struct config_source *config)
{
	struct database *database = share_database(relay, &config->postgres);
	const struct broker *broker = share_broker(relay, config);
	char host[200] = "localhost", owner[260];
	struct source_env env = {.pool = database->pool, .metrics = relay->metrics, .owner = owner};
	struct source *source;

	gethostname(host, sizeof(host) - 1);
	snprintf(owner, sizeof(owner), "%s-%ld", host, (long)getpid());
	/* Without random bytes the pid alone has to tell instances apart. */
	if (getrandom(&env.seed, sizeof(env.seed), 0) != sizeof(env.seed))
		env.seed = (uint64_t)getpid() ^ (uint64_t)process_boottime_us();
	env.kafka = broker->kafka;
	env.careful = broker->careful;
	env.single = broker->single;
	source = source_new(config, &env);
	relay->sources[relay->n_sources++] = source;
	if (config->notify == NULL)
		return;
	if (database->listener == NULL)
		database->listener = listener_new(relay->loop, &config->postgres, database->pool);
	listener_add(database->listener, config->notify, config->name, on_wake, source);
}

/* ---- the pass ---- */

static bool all_stopped(const struct relay *relay)
{
	size_t i;

	for (i = 0; i < relay->n_sources; i++)
		if (source_get_state(relay->sources[i]) != SOURCE_STOPPED)
			return false;
	return true;
}

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
	int64_t now_us = process_boottime_us(), again_us = INT64_MAX, source_us, turn_us;
	size_t i;

	(void)events;
	for (i = 0; i < relay->n_sources; i++) {
		source_us = source_step(relay->sources[(relay->first + i) % relay->n_sources], now_us);
		again_us = source_us < again_us ? source_us : again_us;
	}
	relay->first = (relay->first + 1) % relay->n_sources;
	if (relay->draining && all_stopped(relay))
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

static void set_gauge(struct relay *relay, enum metric metric, const char *first, const char *second, double value)
{
	metrics_series(relay->metrics, metric, first, second)->value = value;
}

static void refresh_source(struct relay *relay, struct source *source)
{
	static const char *const reasons[KAFKA_REPLACEMENTS] = {"fatal", "stalled", "purged"};
	const struct config_source *config = source_config(source);
	struct listener *listener =
		config->notify == NULL ? NULL : share_database(relay, &config->postgres)->listener;
	const struct broker *broker = share_broker(relay, config);
	int64_t counted_us = source_counted_us(source);
	int i;

	source_update_metrics(source);
	if (counted_us != 0)
		set_gauge(relay, METRIC_ROWS_REFRESHED, config->name, NULL,
			  ev_time() - (double)(process_boottime_us() - counted_us) / 1e6);
	set_gauge(relay, METRIC_NOTIFY_ACTIVE, config->name, NULL, listener != NULL && listener_active(listener));
	for (i = 0; i < KAFKA_REPLACEMENTS; i++)
		set_gauge(relay, METRIC_PRODUCER_REPLACEMENTS, config->name, reasons[i],
			  (double)(kafka_replacements(broker->kafka, i) + kafka_replacements(broker->single, i) +
				   (broker->careful == NULL ? 0 : kafka_replacements(broker->careful, i))));
}

static void refresh_metrics(void *context)
{
	struct relay *relay = context;
	struct process_usage usage = process_usage();
	size_t i;

	for (i = 0; i < relay->n_sources; i++)
		refresh_source(relay, relay->sources[i]);
	set_gauge(relay, METRIC_LOOP_LAG, NULL, NULL, (double)relay->longest_turn_us / 1e6);
	relay->longest_turn_us = 0;
	set_gauge(relay, METRIC_PROCESS_CPU, NULL, NULL, usage.cpu_seconds);
	set_gauge(relay, METRIC_PROCESS_RSS, NULL, NULL, usage.rss_bytes);
	set_gauge(relay, METRIC_PROCESS_FDS, NULL, NULL, usage.open_fds);
	set_gauge(relay, METRIC_PROCESS_START, NULL, NULL, usage.start_seconds);
}

static void on_housekeeping(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct relay *relay = watcher->data;
	struct buf reasons = {0};
	bool ready = pages_ready(&relay->pages, &reasons);

	(void)loop;
	(void)events;
	if (ready && !relay->was_ready)
		LOG(LOG_INFO, "ready", log_int("sources", (int64_t)relay->n_sources));
	if (!ready && relay->was_ready && !relay->draining)
		LOG(LOG_WARN, "not_ready", log_bytes("reasons", reasons.bytes, reasons.len - 1));
	relay->was_ready = ready;
	buf_free(&reasons);
	log_flush_limited(false);
}

static int64_t settled(const struct relay *relay, const struct source *source, const char *outcome)
{
	return (int64_t)metrics_series(relay->metrics, METRIC_SETTLED, source_config(source)->name, outcome)->value;
}

static void log_status(const struct relay *relay, const struct source *source)
{
	LOG(LOG_INFO, "status", log_str("source", source_config(source)->name),
	    log_str("state", source_state_name(source_get_state(source))),
	    log_int("sent", settled(relay, source, "sent")), log_int("retry", settled(relay, source, "retry")),
	    log_int("failed", settled(relay, source, "failed")),
	    log_int("released", settled(relay, source, "released")), log_int("held", (int64_t)source_held(source)),
	    log_int("in_flight", (int64_t)source_in_flight(source)));
}

static int64_t settled_by_all(const struct relay *relay, const char *outcome)
{
	int64_t sum = 0;
	size_t i;

	for (i = 0; i < relay->n_sources; i++)
		sum += settled(relay, relay->sources[i], outcome);
	return sum;
}

/* The last line: what became of the rows, and how many are left to their leases. */
static void log_end(const struct relay *relay, int exit_code)
{
	int64_t left = 0;
	size_t i;

	for (i = 0; i < relay->n_sources; i++)
		left += (int64_t)source_left_to_leases(relay->sources[i]);
	LOG(LOG_INFO, "stopped", log_int("exit", exit_code), log_int("sent", settled_by_all(relay, "sent")),
	    log_int("retry", settled_by_all(relay, "retry")), log_int("failed", settled_by_all(relay, "failed")),
	    log_int("released", settled_by_all(relay, "released")), log_int("left_to_leases", left));
}

/* ---- signals and the drain ---- */

static void on_late(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

static void on_deadline(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct relay *relay = watcher->data;
	size_t i;

	(void)events;
	relay->late = true;
	for (i = 0; i < relay->n_sources; i++)
		source_abandon(relay->sources[i]);
	for (i = 0; i < relay->n_brokers; i++) {
		kafka_purge(relay->brokers[i].kafka, true);
		kafka_purge(relay->brokers[i].single, true);
		if (relay->brokers[i].careful != NULL)
			kafka_purge(relay->brokers[i].careful, true);
	}
	ev_timer_stop(loop, watcher);
	ev_set_cb(watcher, on_late);
	ev_timer_set(watcher, AFTER_DEADLINE_SECONDS, 0.);
	ev_timer_start(loop, watcher);
}

static void drain(struct relay *relay, int signal_number)
{
	size_t i;

	relay->draining = relay->pages.draining = true;
	LOG(LOG_INFO, "draining", log_str("signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"),
	    log_int("timeout_ms", relay->config->drain_timeout_us / 1000));
	for (i = 0; i < relay->n_sources; i++)
		source_drain(relay->sources[i]);
	ev_timer_init(&relay->deadline, on_deadline, (double)relay->config->drain_timeout_us / 1e6, 0.);
	relay->deadline.data = relay;
	ev_timer_start(relay->loop, &relay->deadline);
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
	struct relay *relay = watcher->data;
	size_t i;

	(void)loop;
	(void)events;
	if (watcher->signum == SIGHUP) {
		LOG(LOG_WARN, "reload_rejected",
		    log_str("reason", "this version reads its configuration at start only"));
		return;
	}
	if (watcher->signum == SIGUSR1) {
		for (i = 0; i < relay->n_sources; i++)
			log_status(relay, relay->sources[i]);
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

static bool start_http(struct relay *relay, struct err *err)
{
	relay->pages = (struct pages){.sources = relay->sources,
				      .n_sources = relay->n_sources,
				      .metrics = relay->metrics,
				      .refresh = refresh_metrics,
				      .context = relay};
	if (relay->config->http.host == NULL)
		return true;
	relay->http = http_new(relay->loop, &relay->config->http, pages_serve, &relay->pages, err);
	return relay->http != NULL;
}

static void free_relay(struct relay *relay)
{
	size_t i;

	http_free(relay->http);
	for (i = 0; i < relay->n_databases; i++)
		listener_free(relay->databases[i].listener);
	/* Their last answers still find the rows. */
	for (i = 0; i < relay->n_brokers; i++) {
		kafka_free(relay->brokers[i].kafka);
		kafka_free(relay->brokers[i].careful);
		kafka_free(relay->brokers[i].single);
	}
	for (i = 0; i < relay->n_databases; i++)
		dbpool_free(relay->databases[i].pool);
	for (i = 0; i < relay->n_sources; i++)
		source_free(relay->sources[i]);
	mem_free(relay->sources);
	mem_free(relay->databases);
	mem_free(relay->brokers);
	metrics_free(relay->metrics);
}

int relay_run(const struct config *config, struct err *err)
{
	struct library_versions versions = library_versions();
	struct relay relay = {.config = config, .turn_began_us = process_boottime_us()};
	int exit_code = -1;
	size_t i;

	relay.loop = ev_default_loop(EVFLAG_NOENV);
	relay.metrics = metrics_new();
	metrics_set(relay.metrics, METRIC_BUILD_INFO,
		    (const char *const[METRICS_LABELS]){OUTBOXD_VERSION, versions.libpq, versions.librdkafka}, 1);
	relay.sources = MEM_NEW_ARRAY(config->n_sources, struct source *);
	relay.databases = MEM_NEW_ARRAY(config->n_sources, struct database);
	relay.brokers = MEM_NEW_ARRAY(config->n_sources, struct broker);
	start_watchers(&relay);
	for (i = 0; i < config->n_sources; i++)
		add_source(&relay, &config->sources[i]);
	if (start_http(&relay, err)) {
		LOG(LOG_INFO, "started", log_str("version", OUTBOXD_VERSION), log_int("pid", getpid()),
		    log_str("config", config->file), log_int("sources", (int64_t)config->n_sources),
		    log_str("http", config->http.host),
		    log_int("port", relay.http == NULL ? 0 : http_port(relay.http)));
		ev_run(relay.loop, 0);
		CRASH_POINT(LOOP_LEFT);
		exit_code = relay.late ? 1 : 0;
		log_flush_limited(true);
		log_end(&relay, exit_code);
	}
	free_relay(&relay);
	return exit_code;
}
