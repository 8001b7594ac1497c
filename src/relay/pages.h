/* pages: what the HTTP pages say: /livez, /readyz, /status, /metrics. Everything comes from memory; no page asks the
 * database. */
#ifndef OUTBOXD_RELAY_PAGES_H
#define OUTBOXD_RELAY_PAGES_H

#include "core/metrics.h"
#include "io/http.h"
#include "relay/fleet.h"

struct pages {
	const struct fleet *fleet;
	struct metrics *metrics;
	bool draining;
	void (*refresh)(void *context); /* brings the gauges up to date before they are shown */
	void *context;
};

/* True when every source is ready and the relay does not drain; body gets the JSON of /readyz. */
bool pages_ready(const struct pages *pages, struct buf *body);

/* An http_page_fn; context is a struct pages. */
bool pages_serve(void *context, const char *path, struct http_response *response);

#endif
