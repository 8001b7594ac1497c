/* listener: one PostgreSQL connection that LISTENs on the channels of all sources of a DSN.
 * It is only a hint to claim now: polling finds the same rows. It proves itself by a NOTIFY to itself on a channel of
 * its own, for a transaction pooler accepts LISTEN and never delivers; it tries again for ever. */
#ifndef OUTBOXD_IO_LISTENER_H
#define OUTBOXD_IO_LISTENER_H

#include "config/config.h"

struct dbpool;
struct ev_loop;
struct listener;

/* A notification came on a channel (context is that of listener_add). Never inside listener_add. */
typedef void listener_wake_fn(void *context);

/* pool (NULL: none) is told when the listener has reached the server again, for it may be waiting out a longer backoff; while it
 * has no connection the listener gives up its own, which may be the last that the server has to give. */
struct listener *listener_new(struct ev_loop *loop, const struct config_postgres *config, struct dbpool *pool);
void listener_free(struct listener *listener);

/* Listens on channel (copied) from the next connect or at once. Logs notify_unavailable once when the proof fails;
 * on every (re)connect each wake function is called once, for notifications may have been missed meanwhile. A channel that
 * another subscription has is not told to the session again, nor is it given up before the last one has gone. */
void listener_add(struct listener *listener, const char *channel, const char *source, listener_wake_fn *on_wake,
		  void *context);
void listener_remove(struct listener *listener, void *context);

/* Is the proof given and the connection up? */
bool listener_active(const struct listener *listener);

#endif
