/* c11threads: the C library's threads.h in terms of pthreads, for the thread sanitizer: it watches pthreads alone, and knows
 * nothing of librdkafka's threads and locks otherwise. What the library uses; and one call of our own that the sanitizer does not
 * know either. Linked into the programs of `make tsan`. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define SECOND_NS 1000000000

struct start {
	thrd_start_t function;
	void *argument;
};

static void *run(void *context)
{
	struct start start = *(struct start *)context;

	free(context);
	return (void *)(intptr_t)start.function(start.argument);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *argument)
{
	struct start *start = malloc(sizeof(*start));

	if (start == NULL)
		return thrd_nomem;
	*start = (struct start){function, argument};
	if (pthread_create(thread, NULL, run, start) == 0)
		return thrd_success;
	free(start);
	return thrd_error;
}

int thrd_join(thrd_t thread, int *result)
{
	void *value;

	if (pthread_join(thread, &value) != 0)
		return thrd_error;
	if (result != NULL)
		*result = (int)(intptr_t)value;
	return thrd_success;
}

int mtx_init(mtx_t *lock, int type)
{
	pthread_mutexattr_t attributes;
	int failure;

	pthread_mutexattr_init(&attributes);
	if ((type & mtx_recursive) != 0)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	failure = pthread_mutex_init((pthread_mutex_t *)lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return failure == 0 ? thrd_success : thrd_error;
}

int mtx_lock(mtx_t *lock)
{
	return pthread_mutex_lock((pthread_mutex_t *)lock) == 0 ? thrd_success : thrd_error;
}

int mtx_unlock(mtx_t *lock)
{
	return pthread_mutex_unlock((pthread_mutex_t *)lock) == 0 ? thrd_success : thrd_error;
}

void mtx_destroy(mtx_t *lock)
{
	pthread_mutex_destroy((pthread_mutex_t *)lock);
}

int cnd_init(cnd_t *condition)
{
	return pthread_cond_init((pthread_cond_t *)condition, NULL) == 0 ? thrd_success : thrd_error;
}

int cnd_signal(cnd_t *condition)
{
	return pthread_cond_signal((pthread_cond_t *)condition) == 0 ? thrd_success : thrd_error;
}

int cnd_broadcast(cnd_t *condition)
{
	return pthread_cond_broadcast((pthread_cond_t *)condition) == 0 ? thrd_success : thrd_error;
}

int cnd_wait(cnd_t *condition, mtx_t *lock)
{
	return pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)lock) == 0 ? thrd_success
											    : thrd_error;
}

int cnd_timedwait(cnd_t *condition, mtx_t *lock, const struct timespec *until)
{
	int failure = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)lock, until);

	return failure == 0 ? thrd_success : failure == ETIMEDOUT ? thrd_timedout : thrd_error;
}

void cnd_destroy(cnd_t *condition)
{
	pthread_cond_destroy((pthread_cond_t *)condition);
}

int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until)
{
	struct timespec now, wall;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &wall);
	wall.tv_sec += until->tv_sec - now.tv_sec;
	wall.tv_nsec += until->tv_nsec - now.tv_nsec;
	if (wall.tv_nsec < 0) {
		wall.tv_sec--;
		wall.tv_nsec += SECOND_NS;
	} else if (wall.tv_nsec >= SECOND_NS) {
		wall.tv_sec++;
		wall.tv_nsec -= SECOND_NS;
	}
	return pthread_timedjoin_np(thread, value, &wall);
}
