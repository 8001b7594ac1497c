/* httpserver HOST PORT: io/http.c alone, for tests/integration/test_http.py. Prints the port it listens on, serves until
 * SIGTERM: /hello, and /big of 4 MiB; an address that it cannot have is an error on stderr and exit 1. */
#include "base/mem.h"
#include "io/http.h"

#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_BYTES (4 * 1024 * 1024)

static bool serve(void *context, const char *path, struct http_response *response)
{
	char *bytes;

	(void)context;
	response->status = 200;
	response->content_type = "text/plain; charset=utf-8";
	if (strcmp(path, "/hello") == 0) {
		buf_add_string(&response->body, "hello\n");
		return true;
	}
	if (strcmp(path, "/big") != 0)
		return false;
	bytes = mem_new(BIG_BYTES, 1);
	memset(bytes, 'x', BIG_BYTES);
	buf_add(&response->body, bytes, BIG_BYTES);
	mem_free(bytes);
	return true;
}

static void on_sigterm(struct ev_loop *loop, ev_signal *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

int main(int argc, char **argv)
{
	struct config_http config = {.host = argc > 1 ? argv[1] : "127.0.0.1"};
	struct ev_loop *loop = ev_default_loop(EVFLAG_NOENV);
	struct err err;
	struct http *http;
	ev_signal sigterm;

	config.port = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
	http = http_new(loop, &config, serve, NULL, &err);
	if (http == NULL) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	ev_signal_init(&sigterm, on_sigterm, SIGTERM);
	ev_signal_start(loop, &sigterm);
	printf("port %d\n", http_port(http));
	fflush(stdout);
	ev_run(loop, 0);
	http_free(http);
	ev_loop_destroy(loop);
	return 0;
}
