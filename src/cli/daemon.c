#include "cli/daemon.h"

#include "base/buf.h"
#include "base/deadline.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_MS 3000
#define ANSWER_MAX_BYTES ((size_t)1024 * 1024)

/* HTTP/1.0, so that the answer ends where the connection does. */
#define REQUEST "GET /status HTTP/1.0\r\nHost: outboxd\r\n\r\n"

static int connect_to(const struct addrinfo *address, int64_t until_ms)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int failure = 0;
	socklen_t len = sizeof(failure);

	if (fd < 0)
		return -1;
	if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
		return fd;
	if (errno == EINPROGRESS && deadline_wait(fd, POLLOUT, until_ms) &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) == 0 && failure == 0)
		return fd;
	failure = failure != 0 ? failure : errno;
	close(fd);
	errno = failure;
	return -1;
}

static int connect_any(const struct config_http *config, int64_t until_ms, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *addresses, *address;
	char port[16];
	int fd = -1, failure;

	snprintf(port, sizeof(port), "%d", config->port);
	failure = getaddrinfo(config->host, port, &hints, &addresses);
	if (failure == EAI_MEMORY)
		mem_exhausted();
	if (failure != 0) {
		err_set(err, "%s", gai_strerror(failure));
		return -1;
	}
	for (address = addresses; address != NULL && fd < 0; address = address->ai_next)
		fd = connect_to(address, until_ms);
	if (fd < 0)
		err_set(err, "%s", strerror(errno));
	freeaddrinfo(addresses);
	return fd;
}

/* All that comes until the other side hangs up. */
static bool read_answer(int fd, int64_t until_ms, struct buf *answer)
{
	char piece[4096];
	ssize_t len;

	while (answer->len < ANSWER_MAX_BYTES && deadline_wait(fd, POLLIN, until_ms)) {
		len = recv(fd, piece, sizeof(piece), 0);
		if (len == 0)
			return true;
		if (len > 0)
			buf_add(answer, piece, (size_t)len);
		else if (errno != EAGAIN && errno != EINTR)
			return false;
	}
	return false;
}

static bool exchange(int fd, int64_t until_ms, struct buf *answer)
{
	/* A fresh socket's buffer takes a request of this size whole. */
	return send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL) == (ssize_t)strlen(REQUEST) &&
	       read_answer(fd, until_ms, answer);
}

static json_t *read_body(const struct buf *answer)
{
	const char *text = buf_text(answer), *body = strstr(text, "\r\n\r\n");
	json_t *page, *view = NULL;

	if (body == NULL || strncmp(text, "HTTP/1.", 7) != 0)
		return NULL;
	page = json_loads(body, 0, NULL);
	if (json_is_boolean(json_object_get(json_object_get(page, "daemon"), "ready")))
		view = json_incref(json_object_get(page, "daemon"));
	json_decref(page);
	return view;
}

json_t *daemon_ask(const struct config_http *config, struct err *err)
{
	int64_t until_ms = deadline_now_ms() + TIMEOUT_MS;
	struct buf answer = {0};
	json_t *view = NULL;
	int fd = connect_any(config, until_ms, err);

	if (fd < 0)
		return NULL;
	if (!exchange(fd, until_ms, &answer))
		err_set(err, "no answer to GET /status");
	else if ((view = read_body(&answer)) == NULL)
		err_set(err, "something else answers there");
	close(fd);
	buf_free(&answer);
	return view;
}
