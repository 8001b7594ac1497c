/* sdnotify: what systemd, or whoever watches over the daemon in its way, is told of it: sd_notify(3). Nothing is waited for. */
#ifndef OUTBOXD_IO_SDNOTIFY_H
#define OUTBOXD_IO_SDNOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sdnotify {
	int fd; /* -1: nobody wants to be told */
	struct sockaddr_un address;
	socklen_t address_len;
	int64_t watchdog_us; /* a sign of life is wanted at least so often; 0: none is */
};

/* Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and takes them out of the environment: no child may speak for us. */
void sdnotify_open(struct sdnotify *notify);
void sdnotify_close(struct sdnotify *notify);

/* Sends assignments, one a line, such as "READY=1". */
void sdnotify_send(const struct sdnotify *notify, const char *state);

/* "RELOADING=1", with the time that systemd wants to know. READY=1 is to follow. */
void sdnotify_send_reloading(const struct sdnotify *notify);

#endif
