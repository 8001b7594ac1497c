#include "io/pgconn.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/resolve.h"

#include <string.h>
#include <unistd.h>

#define BACKOFF_INITIAL_US 100000
#define BACKOFF_MAX_US 10000000
#define BACKOFF_JITTER 0.2

static const char *state_name(enum pgconn_state state)
{
	static const char *const names[] = {"down", "connecting", "ready", "closed"};

	return names[state];
}

static void set_state(struct pgconn *conn, enum pgconn_state state, const char *why)
{
	LOG(LOG_DEBUG, "postgres_connection", log_str("from", state_name(conn->state)),
	    log_str("to", state_name(state)), log_str("why", why));
	conn->state = state;
}

static void start_timer(struct pgconn *conn, ev_tstamp after)
{
	ev_timer_stop(conn->loop, &conn->timer);
	ev_timer_set(&conn->timer, after, 0.);
	ev_timer_start(conn->loop, &conn->timer);
}

/* The socket may be another one, even with the same number: libev finds out by ev_io_set only. */
static void watch(struct pgconn *conn, int events)
{
	ev_io_stop(conn->loop, &conn->io);
	ev_io_set(&conn->io, PQsocket(conn->pg), events);
	ev_io_start(conn->loop, &conn->io);
}

/* The watcher goes before the socket: a closed one in epoll would make the loop spin, or watch a stranger. */
static void drop(struct pgconn *conn)
{
	ev_io_stop(conn->loop, &conn->io);
	ev_timer_stop(conn->loop, &conn->timer);
	PQfinish(conn->pg);
	conn->pg = NULL;
	resolve_free(conn->resolve);
	conn->resolve = NULL;
	pgdsn_free(&conn->dsn);
}

static ev_tstamp next_delay(struct pgconn *conn)
{
	int64_t delay_us;

	if (conn->sound)
		conn->attempt = 0;
	conn->sound = false;
	if (conn->attempt < INT32_MAX)
		conn->attempt++;
	delay_us =
		backoff_delay(BACKOFF_INITIAL_US, 2, BACKOFF_MAX_US, BACKOFF_JITTER, conn->attempt, &conn->random);
	return (ev_tstamp)delay_us / 1e6;
}

/* What libpq or, better, the server itself has said. */
static void describe(const struct pgconn *conn, struct err *why)
{
	pgdsn_describe(&conn->dsn, conn->fatal.text[0] != '\0' ? conn->fatal.text : PQerrorMessage(conn->pg), why);
	if (why->text[0] == '\0')
		err_set(why, "the connection was closed");
}

void pgconn_lose(struct pgconn *conn, const char *reason)
{
	bool was_ready = conn->state == PGCONN_READY;
	struct err why; /* reason may live in what is freed here */

	if (conn->state != PGCONN_READY && conn->state != PGCONN_CONNECTING)
		return;
	if (reason != NULL)
		err_set(&why, "%s", reason);
	else
		describe(conn, &why);
	if (was_ready && ev_now(conn->loop) - conn->ready_at >= BACKOFF_MAX_US / 1e6)
		conn->sound = true;
	drop(conn);
	set_state(conn, PGCONN_DOWN, why.text);
	start_timer(conn, next_delay(conn));
	conn->events->on_lost(conn->context, why.text, was_ready);
}

void pgconn_doom(struct pgconn *conn)
{
	if (conn->state == PGCONN_READY)
		start_timer(conn, 0.);
}

bool pgconn_flush(struct pgconn *conn)
{
	int unsent = PQflush(conn->pg);
	int events = unsent > 0 ? EV_READ | EV_WRITE : EV_READ;

	if (unsent < 0)
		return false;
	if ((conn->io.events & (EV_READ | EV_WRITE)) != events)
		watch(conn, events);
	return true;
}

void pgconn_mark_sound(struct pgconn *conn)
{
	conn->sound = true;
}

/* libpq would print notices to stderr. A session that is ended while idle hears of it by one. The text of others may quote
 * rows: a trigger's RAISE. */
static void on_notice(void *context, const PGresult *notice)
{
	struct pgconn *conn = context;
	const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

	LOG(LOG_DEBUG, "postgres_notice", log_str("severity", severity),
	    log_str("sqlstate", PQresultErrorField(notice, PG_DIAG_SQLSTATE)));
	if (severity != NULL && strcmp(severity, "FATAL") == 0 && message != NULL)
		err_set(&conn->fatal, "%s", message);
}

static void on_connected(struct pgconn *conn)
{
	ev_timer_stop(conn->loop, &conn->timer);
	if (PQsetnonblocking(conn->pg, 1) != 0) {
		pgconn_lose(conn, NULL);
		return;
	}
	conn->ready_at = ev_now(conn->loop);
	set_state(conn, PGCONN_READY, "connected");
	watch(conn, EV_READ);
	conn->events->on_ready(conn->context);
}

static void poll_connect(struct pgconn *conn)
{
	ev_io_stop(conn->loop, &conn->io); /* PQconnectPoll may close the socket */
	switch (PQconnectPoll(conn->pg)) {
	case PGRES_POLLING_READING:
		watch(conn, EV_READ);
		break;
	case PGRES_POLLING_WRITING:
		watch(conn, EV_WRITE);
		break;
	case PGRES_POLLING_OK:
		on_connected(conn);
		break;
	default:
		pgconn_lose(conn, NULL);
	}
}

/* A name without an address is passed over, and nothing later would mention it. */
static void take_answer(struct pgconn *conn, size_t i, const struct resolve_answer *answer)
{
	if (answer->n == 0)
		LOG_LIMITED(LOG_WARN, "postgres_lookup_failed", answer->error.text,
			    log_str("reason", answer->error.text));
	pghosts_replace(&conn->dsn.hosts, i, answer->addresses, answer->n);
}

static void connect_to_addresses(struct pgconn *conn)
{
	pgdsn_aim(&conn->dsn, conn->first_host);
	conn->pg = PQconnectStartParams(conn->dsn.keywords, (const char *const *)conn->dsn.values, 0);
	if (conn->pg == NULL || PQstatus(conn->pg) == CONNECTION_BAD) {
		pgconn_lose(conn, NULL);
		return;
	}
	PQsetNoticeReceiver(conn->pg, on_notice, conn);
	watch(conn, EV_WRITE);
}

static void on_resolved(void *context, const struct resolve_answer *answers)
{
	struct pgconn *conn = context;
	struct pghosts *hosts = &conn->dsn.hosts;
	struct err why = {""};

	for (size_t i = hosts->n; i-- > 0;) {
		if (pghosts_name_to_look_up(&hosts->list[i]) == NULL)
			continue;
		if (answers[i].n == 0)
			why = answers[i].error;
		take_answer(conn, i, &answers[i]);
	}
	resolve_free(conn->resolve);
	conn->resolve = NULL;
	if (hosts->n > 0)
		connect_to_addresses(conn);
	else
		pgconn_lose(conn, why.text);
}

/* PQconnectStartParams would look names up itself, and block as long as its resolver does. */
static bool look_up_names(struct pgconn *conn)
{
	const struct pghosts *hosts = &conn->dsn.hosts;
	const char **names = MEM_NEW_ARRAY(hosts->n, const char *);
	size_t wanted = 0;

	for (size_t i = 0; i < hosts->n; i++) {
		names[i] = pghosts_name_to_look_up(&hosts->list[i]);
		wanted += names[i] != NULL;
	}
	if (wanted > 0)
		conn->resolve = resolve_new(conn->loop, names, hosts->n, conn->config->connect_timeout_us / 2,
					    on_resolved, conn);
	mem_free(names);
	return wanted > 0;
}

static void begin_connect(struct pgconn *conn)
{
	struct err err;

	set_state(conn, PGCONN_CONNECTING, "backoff over");
	conn->fatal.text[0] = '\0';
	if (!pgdsn_read(&conn->dsn, conn->config, &err)) {
		pgconn_lose(conn, err.text);
		return;
	}
	start_timer(conn,
		    (ev_tstamp)conn->config->connect_timeout_us / 1e6); /* libpq's own is for PQconnectdb only */
	if (!look_up_names(conn))
		connect_to_addresses(conn);
}

/* With TLS one record may be larger than what libpq reads at once, and its rest is invisible to the socket's watcher. */
static bool consume_input(PGconn *pg)
{
	return PQconsumeInput(pg) == 1 && (!PQsslInUse(pg) || PQconsumeInput(pg) == 1);
}

static void on_io(struct ev_loop *loop, ev_io *watcher, int revents)
{
	struct pgconn *conn = watcher->data;

	(void)loop;
	(void)revents;
	if (conn->state == PGCONN_CONNECTING) {
		poll_connect(conn);
		return;
	}
	/* Read before every flush: the server may be waiting to be read before it reads itself. */
	if (consume_input(conn->pg) && pgconn_flush(conn))
		conn->events->on_input(conn->context);
	else
		pgconn_lose(conn, NULL);
}

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int revents)
{
	struct pgconn *conn = watcher->data;
	struct err why;

	(void)loop;
	(void)revents;
	if (conn->state == PGCONN_DOWN) {
		begin_connect(conn);
	} else if (conn->state == PGCONN_CONNECTING) {
		/* libpq would never leave a silent host by itself: let the next attempt begin with the one behind it. */
		conn->first_host = (conn->first_host + 1) % conn->dsn.hosts.n;
		err_set(&why, "no connection within %lld ms", (long long)(conn->config->connect_timeout_us / 1000));
		pgconn_lose(conn, why.text);
	} else {
		pgconn_lose(conn, NULL);
	}
}

void pgconn_start(struct pgconn *conn, struct ev_loop *loop, const struct config_postgres *config,
		  const struct pgconn_events *events, void *context)
{
	uint64_t seed;

	*conn = (struct pgconn){.loop = loop, .config = config, .events = events, .context = context};
	if (getentropy(&seed, sizeof(seed)) != 0)
		seed = (uint64_t)getpid() ^ (uintptr_t)conn;
	backoff_seed(&conn->random, seed);
	ev_init(&conn->io, on_io);
	ev_init(&conn->timer, on_timer);
	ev_set_priority(&conn->timer, PGCONN_TIMER_PRIORITY);
	conn->io.data = conn->timer.data = conn;
	start_timer(conn, 0.);
}

void pgconn_hurry(struct pgconn *conn)
{
	if (conn->state == PGCONN_DOWN)
		start_timer(conn, 0.);
}

void pgconn_stop(struct pgconn *conn)
{
	if (conn->loop == NULL || conn->state == PGCONN_CLOSED)
		return;
	drop(conn);
	set_state(conn, PGCONN_CLOSED, "closed");
}

const char *pgconn_message(const PGresult *error)
{
	const char *message = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);

	return message == NULL ? "the connection was lost" : message;
}
