/* http: a small HTTP server inside the loop (GET and HEAD only); what it serves comes from a callback.
 * No request changes anything, and none waits for the database or for Kafka. */
#ifndef OUTBOXD_IO_HTTP_H
#define OUTBOXD_IO_HTTP_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

struct ev_loop;
struct http;

struct http_response {
	int status;
	const char *content_type; /* static */
	struct buf body;	  /* taken by http */
};

/* Fills the response for a path such as "/metrics". False: there is no such page (404). */
typedef bool http_page_fn(void *context, const char *path, struct http_response *response);

/* Listens on config->host and port (0: any free one). NULL and err when it cannot. */
struct http *http_new(struct ev_loop *loop, const struct config_http *config, http_page_fn *page, void *context,
		      struct err *err) must_check;
void http_free(struct http *http);

/* The port it listens on. */
int http_port(const struct http *http);

#endif
