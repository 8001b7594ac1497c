/* proxy: a TCP proxy on 127.0.0.1 inside the test's own loop, which can swallow, refuse and cut. For small messages. */
#ifndef OUTBOXD_TESTS_PROXY_H
#define OUTBOXD_TESTS_PROXY_H

#include "base/list.h"

#include <ev.h>
#include <stdbool.h>

struct proxy {
	struct ev_loop *loop;
	ev_io accepting;
	int port;
	const char *host, *target_port; /* of the server; host may be a socket's folder */
	bool swallow_answers;		/* the server's bytes are dropped, the client's still arrive */
	bool drop_notifications;	/* as a pooler does: what the server says unasked gets lost */
	bool silent;			/* new connections are accepted and never answered */
	bool refuse;			/* new connections are closed at once */
	int accepted;
	struct list links;
};

void proxy_start(struct proxy *proxy, struct ev_loop *loop, const char *host, const char *target_port);
void proxy_stop(struct proxy *proxy);

/* Resets every connection. */
void proxy_cut(struct proxy *proxy);

#endif
