#include "base/deadline.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

int64_t deadline_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool deadline_wait(int fd, short events, int64_t until_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};
	int64_t left;
	int ready;

	do {
		left = until_ms - deadline_now_ms();
		ready = left > 0 ? poll(&poll_fd, 1, (int)left) : 0;
	} while (ready < 0 && errno == EINTR);
	if (ready == 0)
		errno = ETIMEDOUT;
	return ready > 0;
}
