/* readyz: asks a running daemon for its own view of itself: GET /readyz. It waits a few seconds at most. */
#ifndef OUTBOXD_CLI_READYZ_H
#define OUTBOXD_CLI_READYZ_H

#include "base/err.h"
#include "config/config.h"

#include <jansson.h>

/* The object that the daemon on that address answers with; its "ready" is true or false. NULL: nobody there, or somebody
 * else, and err says so. Free with json_decref. */
json_t *readyz_ask(const struct config_http *config, struct err *err) must_check;

#endif
