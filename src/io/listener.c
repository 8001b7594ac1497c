/* The proof needs a second session: behind a transaction pooler a NOTIFY that the listening client itself sends is likely
 * to run on the very server session that holds the LISTEN, and its notification then comes back inside that
 * transaction, though no other ever will. So a connection of its own sends it, and is closed again. */
#include "io/listener.h"

#include "base/crash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/verdict.h"
#include "io/db.h"
#include "io/pgconn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_SECONDS 5. /* for LISTEN, for the proof, for a ping */
#define RETRY_SECONDS 30. /* between two tries of what was refused */
#define PING_SECONDS 10.  /* at rest, for a dead peer behind a proxy acknowledges keepalives */

enum phase {
	DISCONNECTED, /* pgconn sees to it */
	LISTENING,    /* LISTEN was sent */
	PROVING,      /* the channels are listened on; waits for its own notification */
	ACTIVE,	      /* proven */
	PINGED,	      /* proven; waits for the answer of a query */
	REFUSED	      /* LISTEN or the proof has failed: waits for the next try */
};

struct subscription {
	struct list_node node;
	char *channel, *source;
	listener_wake_fn *on_wake;
	void *context;
	bool wake;	  /* on_wake is due */
	const char *told; /* the kind of trouble that was logged last; NULL: none since it last worked */
};

struct listener {
	struct ev_loop *loop;
	struct dbpool *pool; /* NULL: none */
	struct config_postgres config;
	struct pgconn conn, prover;
	enum phase phase;
	ev_timer timer;
	struct list subscriptions;
	bool changed; /* the session does not listen on just these channels */
	bool proven;
	struct err refusal;	   /* of the query outstanding */
	struct err prover_trouble; /* "" when the NOTIFY was committed */
	char proof_channel[40];
};

static void enter(struct listener *listener, enum phase phase, ev_tstamp seconds)
{
	listener->phase = phase;
	ev_timer_stop(listener->loop, &listener->timer);
	if (seconds <= 0)
		return;
	ev_timer_set(&listener->timer, seconds, 0.);
	ev_timer_start(listener->loop, &listener->timer);
}

static struct subscription *subscription_of(struct list_node *node)
{
	return node == NULL ? NULL : LIST_OWNER(node, struct subscription, node);
}

static struct subscription *first(const struct listener *listener)
{
	return subscription_of(list_first(&listener->subscriptions));
}

static struct subscription *next(const struct listener *listener, const struct subscription *subscription)
{
	return subscription_of(list_next(&listener->subscriptions, &subscription->node));
}

static struct subscription *find_due(const struct listener *listener)
{
	struct subscription *each = first(listener);

	while (each != NULL && !each->wake)
		each = next(listener, each);
	return each;
}

/* channel NULL: all. */
static void mark_due(struct listener *listener, const char *channel)
{
	for (struct subscription *each = first(listener); each != NULL; each = next(listener, each))
		if (channel == NULL || strcmp(each->channel, channel) == 0)
			each->wake = true;
}

/* Looks from the start each time: a callback may add and remove. */
static void wake_due(struct listener *listener)
{
	struct subscription *due;

	while ((due = find_due(listener)) != NULL) {
		due->wake = false;
		due->on_wake(due->context);
	}
}

static void tell_unavailable(struct listener *listener, const char *kind, const char *reason)
{
	for (struct subscription *each = first(listener); each != NULL; each = next(listener, each)) {
		if (each->told == kind)
			continue;
		LOG(LOG_WARN, "notify_unavailable", log_str("source", each->source),
		    log_str("channel", each->channel), log_str("reason", reason));
		each->told = kind;
	}
}

static bool add_command(PGconn *pg, struct buf *sql, const char *command, const char *channel)
{
	char *quoted = PQescapeIdentifier(pg, channel, strlen(channel));

	if (quoted == NULL)
		return false;
	buf_print(sql, "%s %s;", command, quoted);
	PQfreemem(quoted);
	return true;
}

/* One transaction makes the session listen on these channels and no other. */
static bool send_listen(struct listener *listener)
{
	PGconn *pg = listener->conn.pg;
	struct buf sql = {0};
	bool sent;

	buf_add_string(&sql, "UNLISTEN *;");
	sent = add_command(pg, &sql, "LISTEN", listener->proof_channel);
	for (struct subscription *each = first(listener); sent && each != NULL; each = next(listener, each))
		sent = add_command(pg, &sql, "LISTEN", each->channel);
	sent = sent && PQsendQuery(pg, buf_text(&sql)) == 1 && pgconn_flush(&listener->conn);
	buf_free(&sql);
	return sent;
}

static void listen_now(struct listener *listener)
{
	listener->changed = false;
	listener->refusal.text[0] = '\0';
	enter(listener, LISTENING, ANSWER_SECONDS);
	if (!send_listen(listener))
		pgconn_doom(&listener->conn);
}

/* At rest, and with a change to make? */
static void listen_if_changed(struct listener *listener)
{
	if (listener->changed && (listener->phase == ACTIVE || listener->phase == REFUSED))
		listen_now(listener);
}

static void rest(struct listener *listener)
{
	enter(listener, ACTIVE, PING_SECONDS);
	CRASH_POINT(LISTENER_AT_REST);
	listen_if_changed(listener);
}

static void refuse(struct listener *listener, const char *kind, const char *reason)
{
	pgconn_stop(&listener->prover);
	listener->proven = false;
	enter(listener, REFUSED, RETRY_SECONDS);
	tell_unavailable(listener, kind, reason);
	listen_if_changed(listener);
}

/* Where connections are few this one may be what the rows wait for, and they are worth more than news of them. */
static bool give_way(struct listener *listener)
{
	if (listener->pool == NULL || dbpool_up(listener->pool))
		return false;
	pgconn_lose(&listener->conn, "the connections for rows come first");
	dbpool_hurry(listener->pool);
	return true;
}

/* ---- the proof ---- */

static void on_prover_ready(void *context)
{
	struct listener *listener = context;
	struct buf sql = {0};
	bool sent = add_command(listener->prover.pg, &sql, "NOTIFY", listener->proof_channel) &&
		    PQsendQuery(listener->prover.pg, buf_text(&sql)) == 1 && pgconn_flush(&listener->prover);

	buf_free(&sql);
	if (!sent)
		pgconn_lose(&listener->prover, NULL);
}

static void on_prover_input(void *context)
{
	struct listener *listener = context;
	PGresult *result;

	while (!PQisBusy(listener->prover.pg)) {
		result = PQgetResult(listener->prover.pg);
		if (result == NULL) {
			pgconn_stop(&listener->prover);
			enter(listener, PROVING, ANSWER_SECONDS);
			return;
		}
		if (PQresultStatus(result) == PGRES_COMMAND_OK)
			listener->prover_trouble.text[0] = '\0';
		else
			err_set(&listener->prover_trouble, "%s", pgconn_message(result));
		PQclear(result);
	}
}

static void on_prover_lost(void *context, const char *reason, bool was_ready)
{
	struct listener *listener = context;

	(void)was_ready;
	err_set(&listener->prover_trouble, "%s", reason);
	give_way(listener);
}

static const struct pgconn_events prover_events = {on_prover_ready, on_prover_input, on_prover_lost};

static void prove(struct listener *listener)
{
	err_set(&listener->prover_trouble, "no second connection in time");
	enter(listener, PROVING, (ev_tstamp)listener->config.connect_timeout_us / 1e6 + ANSWER_SECONDS);
	pgconn_start(&listener->prover, listener->loop, &listener->config, &prover_events, listener);
}

static void on_proven(struct listener *listener)
{
	pgconn_stop(&listener->prover);
	pgconn_mark_sound(&listener->conn);
	listener->proven = true;
	for (struct subscription *each = first(listener); each != NULL; each = next(listener, each))
		each->told = NULL;
	LOG(LOG_INFO, "notify_active", log_int("subscriptions", (int64_t)listener->subscriptions.length));
	rest(listener);
}

static void on_no_proof(struct listener *listener)
{
	if (listener->prover_trouble.text[0] != '\0')
		refuse(listener, "proof", listener->prover_trouble.text);
	else
		refuse(listener, "proof", "LISTEN delivers nothing: is a transaction pooler in between?");
}

/* ---- the connection ---- */

/* From now on nothing is missed, and what came before may have been. */
static void on_listening(struct listener *listener)
{
	if (listener->proven)
		rest(listener);
	else
		prove(listener);
	mark_due(listener, NULL);
}

static void on_query_done(struct listener *listener)
{
	if (listener->phase == PINGED)
		rest(listener);
	else if (listener->phase == LISTENING && listener->refusal.text[0] != '\0')
		refuse(listener, "listen", listener->refusal.text);
	else if (listener->phase == LISTENING)
		on_listening(listener);
}

/* After a failover, what is notified is notified elsewhere. Does the ping's answer say that here nobody can write? */
static bool is_read_only(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 &&
	       strcmp(PQgetvalue(result, 0, 0), "on") == 0;
}

/* False: the connection was given up. */
static bool take_result(struct listener *listener, PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool failed = PQresultStatus(result) == PGRES_FATAL_ERROR;
	bool read_only = is_read_only(result);
	bool useless = read_only ||
		       (failed && (sqlstate == NULL || verdict_of_sqlstate(sqlstate).fault == SQL_CONNECTION));

	if (failed || read_only)
		err_set(&listener->refusal, "%s",
			failed ? pgconn_message(result) : "the server has become read-only");
	PQclear(result);
	if (!useless)
		return true;
	tell_unavailable(listener, "listen", listener->refusal.text);
	pgconn_lose(&listener->conn, listener->refusal.text);
	return false;
}

static void take_notifications(struct listener *listener)
{
	PGnotify *notify;

	while ((notify = PQnotifies(listener->conn.pg)) != NULL) {
		if (strcmp(notify->relname, listener->proof_channel) != 0)
			mark_due(listener, notify->relname);
		else if (listener->phase == PROVING)
			on_proven(listener);
		PQfreemem(notify);
	}
}

static void on_input(void *context)
{
	struct listener *listener = context;
	PGresult *result;

	while ((listener->phase == LISTENING || listener->phase == PINGED) && !PQisBusy(listener->conn.pg)) {
		result = PQgetResult(listener->conn.pg);
		if (result == NULL)
			on_query_done(listener);
		else if (!take_result(listener, result))
			return;
	}
	take_notifications(listener);
	wake_due(listener);
}

static void on_ready(void *context)
{
	struct listener *listener = context;

	if (listener->pool != NULL)
		dbpool_hurry(listener->pool);
	listen_now(listener);
}

static void on_lost(void *context, const char *reason, bool was_ready)
{
	struct listener *listener = context;

	pgconn_stop(&listener->prover);
	listener->proven = false;
	enter(listener, DISCONNECTED, 0.);
	if (!was_ready)
		tell_unavailable(listener, "connection", reason);
}

static const struct pgconn_events events = {on_ready, on_input, on_lost};

/* It costs the server no transaction id and no snapshot, unlike a NOTIFY. */
static void ping(struct listener *listener)
{
	if (give_way(listener))
		return;
	enter(listener, PINGED, ANSWER_SECONDS);
	if (PQsendQuery(listener->conn.pg, "SHOW transaction_read_only") != 1 || !pgconn_flush(&listener->conn))
		pgconn_lose(&listener->conn, NULL);
}

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int revents)
{
	struct listener *listener = watcher->data;

	(void)loop;
	(void)revents;
	switch (listener->phase) {
	case DISCONNECTED:
		break;
	case LISTENING:
	case PINGED:
		pgconn_lose(&listener->conn, "no answer within 5 s");
		break;
	case PROVING:
		on_no_proof(listener);
		break;
	case ACTIVE:
		ping(listener);
		break;
	case REFUSED:
		listen_now(listener);
		break;
	}
}

struct listener *listener_new(struct ev_loop *loop, const struct config_postgres *config, struct dbpool *pool)
{
	struct listener *listener = MEM_NEW(struct listener);

	listener->loop = loop;
	listener->pool = pool;
	listener->config = pgdsn_copy_config(config);
	list_init(&listener->subscriptions);
	ev_init(&listener->timer, on_timer);
	ev_set_priority(&listener->timer, PGCONN_TIMER_PRIORITY);
	listener->timer.data = listener;
	pgconn_start(&listener->conn, loop, &listener->config, &events, listener);
	snprintf(listener->proof_channel, sizeof(listener->proof_channel), "outboxd_proof_%016" PRIx64,
		 backoff_next(&listener->conn.random));
	return listener;
}

static bool is_subscribed(const struct listener *listener, const char *channel)
{
	for (struct subscription *each = first(listener); each != NULL; each = next(listener, each))
		if (strcmp(each->channel, channel) == 0)
			return true;
	return false;
}

static void remove_subscription(struct listener *listener, struct subscription *subscription)
{
	list_remove(&listener->subscriptions, &subscription->node);
	if (!is_subscribed(listener, subscription->channel))
		listener->changed = true;
	mem_free(subscription->channel);
	mem_free(subscription->source);
	mem_free(subscription);
}

void listener_free(struct listener *listener)
{
	struct subscription *each;

	if (listener == NULL)
		return;
	pgconn_stop(&listener->prover);
	pgconn_stop(&listener->conn);
	ev_timer_stop(listener->loop, &listener->timer);
	while ((each = first(listener)) != NULL)
		remove_subscription(listener, each);
	pgdsn_free_config(&listener->config);
	mem_free(listener);
}

void listener_add(struct listener *listener, const char *channel, const char *source, listener_wake_fn *on_wake,
		  void *context)
{
	struct subscription *subscription = MEM_NEW(struct subscription);

	subscription->channel = mem_copy_string(channel);
	subscription->source = mem_copy_string(source);
	subscription->on_wake = on_wake;
	subscription->context = context;
	if (!is_subscribed(listener, channel))
		listener->changed = true;
	list_append(&listener->subscriptions, &subscription->node);
	listen_if_changed(listener);
}

void listener_remove(struct listener *listener, void *context)
{
	struct subscription *each = first(listener), *behind;

	for (; each != NULL; each = behind) {
		behind = next(listener, each);
		if (each->context == context)
			remove_subscription(listener, each);
	}
	listen_if_changed(listener);
}

bool listener_active(const struct listener *listener)
{
	return listener->proven;
}
