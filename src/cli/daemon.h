/* daemon: asks a running daemon for its own view of itself: GET /status. It waits a few seconds at most. */
#ifndef OUTBOXD_CLI_DAEMON_H
#define OUTBOXD_CLI_DAEMON_H

#include "base/err.h"
#include "config/config.h"

#include <jansson.h>

/* What the daemon on that address says of itself, the page's "daemon": its "ready" is true or false. NULL: nobody there, or
 * somebody else, and err says so. Free with json_decref. */
json_t *daemon_ask(const struct config_http *config, struct err *err) must_check;

#endif
