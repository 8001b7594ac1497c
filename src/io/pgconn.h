/* pgconn: one non-blocking libpq connection inside the loop, kept up for ever: what db and listener share.
 * It connects, waits out its backoff, reads and flushes; what is sent and what it means is its owner's. No event comes
 * inside a call of the owner, with one exception: pgconn_lose. */
#ifndef OUTBOXD_IO_PGCONN_H
#define OUTBOXD_IO_PGCONN_H

#include "base/err.h"
#include "config/config.h"
#include "core/backoff.h"
#include "io/pgdsn.h"

#include <ev.h>
#include <libpq-fe.h>

/* Below that of I/O: after a long stop of the process, what has arrived in time is looked at before its time-out. */
#define PGCONN_TIMER_PRIORITY (-1)

enum pgconn_state {
	PGCONN_DOWN,	   /* not connected: waits out a backoff */
	PGCONN_CONNECTING, /* until connect_timeout: first names are looked up, in half of it, if need be */
	PGCONN_READY,	   /* may be sent to */
	PGCONN_CLOSED	   /* for good */
};

struct pgconn_events {
	void (*on_ready)(void *context);
	void (*on_input)(void *context); /* something was read: look for results and notifications */
	/* A connection is gone, or an attempt at one failed; the next attempt follows by itself. The reason has no secrets
	 * and is borrowed for the call. conn->pg is NULL by now. */
	void (*on_lost)(void *context, const char *reason, bool was_ready);
};

struct resolve;

struct pgconn {
	enum pgconn_state state;
	PGconn *pg; /* the owner sends and reads through it while READY */
	struct ev_loop *loop;
	const struct config_postgres *config;
	const struct pgconn_events *events;
	void *context;
	struct pgdsn dsn;	 /* of the current attempt */
	struct resolve *resolve; /* its names being looked up; NULL before and after */
	size_t first_host;	 /* where it begins in the list of hosts and their addresses */
	ev_io io;
	ev_timer timer;	    /* DOWN: the next attempt; CONNECTING: its limit; READY: started when doomed */
	ev_tstamp ready_at; /* loop time */
	int32_t attempt;    /* failures since it was last known to be sound */
	bool sound;
	struct backoff_random random;
	struct err fatal; /* the server's last words */
};

/* Begins to connect, from the loop. config, events and context are borrowed until pgconn_stop. */
void pgconn_start(struct pgconn *conn, struct ev_loop *loop, const struct config_postgres *config,
		  const struct pgconn_events *events, void *context);

/* Cuts a backoff short: somebody else has just reached the server. */
void pgconn_hurry(struct pgconn *conn);

/* CLOSED, without an event. An all-zero pgconn, or one that is CLOSED, may be stopped too. */
void pgconn_stop(struct pgconn *conn);

/* Closes a bad connection (or gives up an attempt): on_lost is called before this returns. Only from an event or a timer.
 * reason NULL: what the server or libpq said last. */
void pgconn_lose(struct pgconn *conn, const char *reason);

/* The same (for what libpq said last), but later, from the loop: for use inside a call of the owner's owner. */
void pgconn_doom(struct pgconn *conn);

/* Sends what libpq has queued, now or when the socket takes it. False: the connection is broken. */
bool pgconn_flush(struct pgconn *conn) must_check;

/* It has proved useful: after its loss the backoff begins anew. (So does it after 10 s of standing.) */
void pgconn_mark_sound(struct pgconn *conn);

/* The primary message of an error alone, for detail and context quote rows; borrowed from it. */
const char *pgconn_message(const PGresult *error);

#endif
