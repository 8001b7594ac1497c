#include "io/http.h"

#include "base/mem.h"

#include <errno.h>
#include <ev.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a stranger may take: connections, memory for each, silence, and time for a whole request. libmicrohttpd itself
 * only knows silence, so a client that sends a byte now and then would stay for ever. */
#define CONNECTIONS_MAX 64u
#define CONNECTION_BYTES ((size_t)16 * 1024)
#define SILENCE_MAX_S 5u
#define REQUEST_MAX_S 10.0
/* So long nobody is let in when there is no descriptor for one more. */
#define PAUSE_S 1.0

struct http {
	struct ev_loop *loop;
	struct MHD_Daemon *daemon;
	ev_io readable; /* of libmicrohttpd's own epoll descriptor */
	ev_timer timer; /* when it wants to be run in any case */
	ev_io knocking; /* of the listening socket, while there is room */
	ev_timer pause;
	unsigned n_clients;
	http_page_fn *page;
	void *context;
	int port;
};

/* One connection. */
struct client {
	ev_timer deadline; /* for its current request */
	int fd;
};

static void run(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	MHD_run(http->daemon);
	ev_timer_stop(http->loop, &http->timer);
	if (MHD_get_timeout(http->daemon, &wait_ms) != MHD_YES)
		return;
	ev_timer_set(&http->timer, (double)wait_ms / 1000, 0);
	ev_timer_start(http->loop, &http->timer);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	(void)events;
	run(watcher->data);
}

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)loop;
	(void)events;
	run(watcher->data);
}

/* ---- connections: libmicrohttpd, left to accept them itself, would spin while there is no descriptor for one ---- */

static bool has_hung_up(int fd)
{
	struct pollfd hangup = {.fd = fd, .events = POLLRDHUP};

	return poll(&hangup, 1, 0) == 1 && (hangup.revents & POLLRDHUP) != 0;
}

static void on_knocking(struct ev_loop *loop, ev_io *watcher, int events)
{
	struct http *http = watcher->data;
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	int fd = accept4(watcher->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	bool gone;

	(void)events;
	if (fd >= 0) {
		gone = has_hung_up(fd);
		/* It closes what it does not take. */
		MHD_add_connection(http->daemon, fd, (struct sockaddr *)&address, len);
		run(http);
		/* It waits for an edge that came before, and would keep who is gone until the silence is too long. */
		if (gone)
			shutdown(fd, SHUT_RD);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
		ev_io_stop(loop, watcher);
		ev_timer_again(loop, &http->pause);
	}
}

/* Who is one too many waits in the kernel. */
static void on_room(struct http *http)
{
	ev_timer_stop(http->loop, &http->pause);
	if (http->n_clients < CONNECTIONS_MAX)
		ev_io_start(http->loop, &http->knocking);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)loop;
	(void)events;
	on_room(watcher->data);
}

/* libmicrohttpd then finds its connection closed, and forgets it. */
static void on_deadline(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct client *client = watcher->data;

	(void)loop;
	(void)events;
	shutdown(client->fd, SHUT_RDWR);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http *http = context;
	struct client *client = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		ev_timer_stop(http->loop, &client->deadline);
		http->n_clients--;
		on_room(http);
		mem_free(client);
		return;
	}
	if (++http->n_clients == CONNECTIONS_MAX)
		ev_io_stop(http->loop, &http->knocking);
	client = MEM_NEW(struct client);
	client->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	ev_timer_init(&client->deadline, on_deadline, REQUEST_MAX_S, REQUEST_MAX_S);
	client->deadline.data = client;
	ev_timer_start(http->loop, &client->deadline);
	*socket_context = client;
}

/* A request is done: the next one has all its time. */
static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
			 enum MHD_RequestTerminationCode code)
{
	struct http *http = context;
	struct client *client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

	(void)request_context;
	(void)code;
	ev_timer_again(http->loop, &client->deadline);
}

/* Takes the body. */
static enum MHD_Result respond(struct MHD_Connection *connection, struct http_response *page, const char *allow)
{
	size_t len = page->body.len;
	char *body = buf_take(&page->body);
	/* MUST_FREE is free(), and so is mem_free(). */
	struct MHD_Response *response = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result;

	if (response == NULL) { /* no memory: this one connection ends */
		mem_free(body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page->content_type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (allow != NULL)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	result = MHD_queue_response(connection, (unsigned)page->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int status, const char *text, const char *allow)
{
	struct http_response page = {.status = status, .content_type = "text/plain; charset=utf-8"};

	buf_add_string(&page.body, text);
	return respond(connection, &page, allow);
}

/* Called with the head of a request, then with pieces of its body, then once more at its end. An answer at the head
 * would cost the connection, for the library then reads nothing more from it: right for what is refused. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *body, size_t *body_len,
				  void **request_context)
{
	struct http *http = context;
	struct http_response page = {0};

	(void)version;
	(void)body;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n", "GET, HEAD");
	if (*request_context == NULL) {
		*request_context = http;
		return MHD_YES;
	}
	if (*body_len > 0)
		return MHD_NO; /* a GET has no body: close */
	if (!http->page(http->context, path, &page))
		return refuse(connection, MHD_HTTP_NOT_FOUND, "no such page\n", NULL);
	return respond(connection, &page, NULL);
}

static int listen_on(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, saved;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* A name is looked up, which may block; it is done once, before the loop turns. */
static int open_socket(const struct config_http *config, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *addresses, *address;
	char port[16];
	int fd = -1, failure;

	snprintf(port, sizeof(port), "%d", config->port);
	failure = getaddrinfo(config->host, port, &hints, &addresses);
	if (failure != 0) {
		err_set(err, "cannot listen on %s: %s", config->host, gai_strerror(failure));
		return -1;
	}
	for (address = addresses; address != NULL && fd < 0; address = address->ai_next)
		fd = listen_on(address);
	if (fd < 0)
		err_set(err, "cannot listen on %s port %d: %s", config->host, config->port, strerror(errno));
	freeaddrinfo(addresses);
	return fd;
}

static int bound_port(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char port[16];

	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
	    getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0)
		return 0;
	return (int)strtol(port, NULL, 10);
}

static bool start(struct http *http, int fd, struct err *err)
{
	const union MHD_DaemonInfo *info;

	errno = 0; /* the library tells no reason, but for what the system has told it */
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, http,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MAX_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
	if (http->daemon == NULL)
		return err_set(err, "the HTTP server does not start%s%s", errno == 0 ? "" : ": ",
			       errno == 0 ? "" : strerror(errno));
	info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	ev_io_init(&http->readable, on_readable, info->epoll_fd, EV_READ);
	ev_timer_init(&http->timer, on_timer, 0, 0);
	ev_io_init(&http->knocking, on_knocking, fd, EV_READ);
	ev_init(&http->pause, on_pause_over);
	http->pause.repeat = PAUSE_S;
	http->readable.data = http->timer.data = http->knocking.data = http->pause.data = http;
	ev_io_start(http->loop, &http->readable);
	ev_io_start(http->loop, &http->knocking);
	return true;
}

struct http *http_new(struct ev_loop *loop, const struct config_http *config, http_page_fn *page, void *context,
		      struct err *err)
{
	int fd = open_socket(config, err);
	struct http *http;

	if (fd < 0)
		return NULL;
	http = MEM_NEW(struct http);
	http->loop = loop;
	http->page = page;
	http->context = context;
	http->port = bound_port(fd);
	if (start(http, fd, err))
		return http;
	close(fd);
	mem_free(http);
	return NULL;
}

void http_free(struct http *http)
{
	if (http == NULL)
		return;
	ev_io_stop(http->loop, &http->readable);
	ev_timer_stop(http->loop, &http->timer);
	MHD_stop_daemon(http->daemon); /* the end of each connection makes room for another */
	ev_io_stop(http->loop, &http->knocking);
	ev_timer_stop(http->loop, &http->pause);
	close(http->knocking.fd);
	mem_free(http);
}

int http_port(const struct http *http)
{
	return http->port;
}
