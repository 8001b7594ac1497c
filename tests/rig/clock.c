/* clock: a wall clock that is wrong, and jumps, for one program.
 *
 *   LD_PRELOAD=clock.so CLOCK=FILE program    the clock is wrong by the microseconds (int64) that FILE holds just now
 *
 * The wall clock alone is shifted: monotonic clocks, and time as the kernel counts it for other calls, go on undisturbed.
 * (Not by libfaketime, which knows nothing of C11's threads: librdkafka waits for its own with them, and does not start.) */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000LL /* microseconds */
#define SLICE (SECOND / 20)

static const _Atomic int64_t *shift;

/* Before anything else runs: no thread, no fork. */
static void __attribute__((constructor)) open_clock(void)
{
	const char *path = getenv("CLOCK");
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	void *memory;

	if (path == NULL)
		return;
	memory = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		perror(path);
		abort();
	}
	close(fd);
	shift = memory;
}

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (found == NULL)
		abort();
	return found;
}

static struct timespec to_timespec(int64_t us)
{
	return (struct timespec){us / SECOND, us % SECOND * 1000};
}

static int64_t real_us(void)
{
	static int (*real)(clockid_t, struct timespec *);
	struct timespec now;

	if (real == NULL)
		real = next("clock_gettime");
	real(CLOCK_REALTIME, &now);
	return now.tv_sec * SECOND + now.tv_nsec / 1000;
}

static int64_t shifted_us(void)
{
	return real_us() + (shift == NULL ? 0 : atomic_load(shift));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);

	if (shift != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		*now = to_timespec(shifted_us());
		return 0;
	}
	if (real == NULL)
		real = next("clock_gettime");
	return real(clock, now);
}

int gettimeofday(struct timeval *now, void *zone)
{
	int64_t us = shifted_us();

	(void)zone;
	*now = (struct timeval){us / SECOND, us % SECOND};
	return 0;
}

time_t time(time_t *now)
{
	time_t seconds = shifted_us() / SECOND;

	if (now != NULL)
		*now = seconds;
	return seconds;
}

int timespec_get(struct timespec *now, int base)
{
	*now = to_timespec(shifted_us());
	return base;
}

/* Who waits until a time of the wall clock waits longer when it is set back. It wakes for nothing now and then, as it may. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int64_t left;
	struct timespec slice;
	int failure;

	if (real == NULL)
		real = next("pthread_cond_timedwait");
	if (shift == NULL)
		return real(cond, mutex, until);
	left = until->tv_sec * SECOND + until->tv_nsec / 1000 - shifted_us();
	slice = to_timespec(real_us() + (left < SLICE ? left : SLICE));
	failure = real(cond, mutex, &slice);
	return failure == ETIMEDOUT && left > SLICE ? 0 : failure;
}

/* What the C library makes of it, but through the function above. */
int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until)
{
	int failure = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, until);

	return failure == 0 ? thrd_success : failure == ETIMEDOUT ? thrd_timedout : thrd_error;
}
