#include "io/sdnotify.h"

#include "base/buf.h"
#include "base/log.h"
#include "config/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The number in a variable, which is taken away; -1 when there is none. */
static int64_t take_number(const char *name)
{
	const char *text = getenv(name);
	int64_t number;

	if (text == NULL || !value_integer(text, &number))
		number = -1;
	unsetenv(name);
	return number;
}

/* A path, or with @ in place of the first byte a name in the kernel's own namespace. False: neither. */
static bool read_address(struct sdnotify *notify, const char *text)
{
	struct sockaddr_un *address = &notify->address;
	size_t len = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || len >= sizeof(address->sun_path))
		return false;
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(address->sun_path, text, len);
	if (text[0] == '@')
		address->sun_path[0] = '\0';
	notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return true;
}

void sdnotify_open(struct sdnotify *notify)
{
	const char *socket_name = getenv("NOTIFY_SOCKET");
	int64_t watchdog_us = take_number("WATCHDOG_USEC"), watchdog_pid = take_number("WATCHDOG_PID");

	*notify = (struct sdnotify){.fd = -1};
	if (socket_name != NULL && read_address(notify, socket_name))
		notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsetenv("NOTIFY_SOCKET");
	if (notify->fd >= 0 && watchdog_us > 0 && (watchdog_pid < 0 || watchdog_pid == getpid()))
		notify->watchdog_us = watchdog_us;
}

void sdnotify_close(struct sdnotify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

void sdnotify_send(const struct sdnotify *notify, const char *state)
{
	if (notify->fd < 0)
		return;
	if (sendto(notify->fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
		   notify->address_len) < 0)
		LOG_LIMITED(LOG_WARN, "notify_socket_failed", strerror(errno), log_str("reason", strerror(errno)));
}

void sdnotify_send_reloading(const struct sdnotify *notify)
{
	struct buf state = {0};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	buf_print(&state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
		  (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	sdnotify_send(notify, buf_text(&state));
	buf_free(&state);
}
