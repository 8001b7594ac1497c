/* tally: counts a program's allocations and system calls, by who makes them.
 *
 *   LD_PRELOAD=tally.so TALLY=FILE program
 *
 * FILE is an array of struct tally in shared memory: whoever reads it (tally.py) sees the counts of that moment, and the
 * program is neither asked nor stopped for it. A call counts for the object that it returns to, so malloc by strdup is libc's.
 * What the C library asks of the kernel by itself is not seen, futexes above all. */
#include "callers.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum call {
	MALLOC,
	CALLOC,
	REALLOC,
	READ,
	READV,
	RECV,
	RECVFROM,
	RECVMSG,
	WRITE,
	WRITEV,
	SEND,
	SENDTO,
	SENDMSG,
	POLL,
	EPOLL_WAIT,
	EPOLL_CTL,
	CALLS
};

static const char *const calls[CALLS] = {"malloc",   "calloc",	"realloc",    "read",	  "readv", "recv",
					 "recvfrom", "recvmsg", "write",      "writev",	  "send",  "sendto",
					 "sendmsg",  "poll",	"epoll_wait", "epoll_ctl"};

struct tally {
	char caller[16], call[16];
	_Atomic uint64_t count;
};

/* NULL until the program is loaded. */
static struct tally (*tallies)[CALLS];

static void count(enum call call, const void *return_address)
{
	enum caller caller;

	if (tallies == NULL)
		return;
	caller = callers_of(return_address, NULL);
	atomic_fetch_add_explicit(&tallies[caller][call].count, 1, memory_order_relaxed);
}

/* What cannot count must not look as if nothing was called. */
static void *map_file(size_t size)
{
	const char *path = getenv("TALLY");
	int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	void *memory = MAP_FAILED;

	if (file >= 0 && ftruncate(file, (off_t)size) == 0)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED) {
		perror("tally: TALLY");
		exit(1);
	}
	close(file);
	return memory;
}

__attribute__((constructor)) static void start(void)
{
	struct tally(*made)[CALLS] = map_file(CALLERS * sizeof(*tallies));
	int caller, call;

	callers_find();
	for (caller = 0; caller < CALLERS; caller++)
		for (call = 0; call < CALLS; call++) {
			snprintf(made[caller][call].caller, sizeof(made[caller][call].caller), "%s",
				 callers_names[caller]);
			snprintf(made[caller][call].call, sizeof(made[caller][call].call), "%s", calls[call]);
		}
	tallies = made;
}

/* ---- memory: dlsym may itself allocate, so these call glibc's by their other names ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	count(MALLOC, __builtin_return_address(0));
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	count(CALLOC, __builtin_return_address(0));
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	count(REALLOC, __builtin_return_address(0));
	return __libc_realloc(old, size);
}

/* ---- the kernel ---- */

/* Looked up each time: these are few. */
#define COUNTED(call, type, name, parameters, arguments)                              \
	type name parameters                                                          \
	{                                                                             \
		type(*next) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
                                                                                      \
		count(call, __builtin_return_address(0));                             \
		return next arguments;                                                \
	}

COUNTED(READ, ssize_t, read, (int fd, void *bytes, size_t size), (fd, bytes, size))
COUNTED(READV, ssize_t, readv, (int fd, const struct iovec *parts, int n), (fd, parts, n))
COUNTED(RECV, ssize_t, recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
COUNTED(RECVFROM, ssize_t, recvfrom,
	(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *from_size),
	(fd, bytes, size, flags, from, from_size))
COUNTED(RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
COUNTED(WRITE, ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
COUNTED(WRITEV, ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
COUNTED(SEND, ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
COUNTED(SENDTO, ssize_t, sendto,
	(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to, socklen_t to_size),
	(fd, bytes, size, flags, to, to_size))
COUNTED(SENDMSG, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
COUNTED(POLL, int, poll, (struct pollfd * fds, nfds_t n, int wait_ms), (fds, n, wait_ms))
COUNTED(EPOLL_WAIT, int, epoll_wait, (int fd, struct epoll_event *events, int most, int wait_ms),
	(fd, events, most, wait_ms))
COUNTED(EPOLL_CTL, int, epoll_ctl, (int fd, int operation, int of, struct epoll_event *event),
	(fd, operation, of, event))

/* poll, recv and read of objects that were compiled with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t n, int wait_ms, size_t size);
ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags);
ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room);

COUNTED(POLL, int, __poll_chk, (struct pollfd * fds, nfds_t n, int wait_ms, size_t size), (fds, n, wait_ms, size))
COUNTED(RECV, ssize_t, __recv_chk, (int fd, void *bytes, size_t size, size_t room, int flags),
	(fd, bytes, size, room, flags))
COUNTED(READ, ssize_t, __read_chk, (int fd, void *bytes, size_t size, size_t room), (fd, bytes, size, room))
