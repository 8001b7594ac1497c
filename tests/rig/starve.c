/* starve: no memory, at each place that asks for some, once.
 *
 *   LD_PRELOAD=starve.so STARVE=FILE program
 *
 * A site is where an allocation stands, with the calls that led there. In each process the first site that has not failed
 * yet fails, once: it gets NULL, and says on stderr where that was. FILE remembers which have, so running the program
 * again and again goes through all of them; tests that are processes of their own each do one in the same run.
 *
 * STARVE_SHARE=N[/M]  only the sites that fall on N (0) when they are dealt out to M
 * STARVE_ONLY=forked  processes that the program forks, not itself
 * STARVE_AFTER=N      the first N allocations of the process succeed (0): for sites where it works, not where it starts */
#include "callers.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SITES 65536
#define FRAMES 24     /* looked at */
#define SITE_FRAMES 6 /* that tell sites apart, of those in code that callers.c knows */
#define OWN_FRAMES 3  /* on top: ours */

/* FILE: the sites that have failed, in any order; 0 is none. */
static _Atomic uint64_t *failed;
static uint64_t share, shares = 1;
static _Atomic long after;
static _Atomic bool done; /* this process has had its failure */

/* Looking at the stack may itself allocate. */
static __thread bool looking __attribute__((tls_model("initial-exec")));

static uint64_t site_of(void *const frames[], int n_frames)
{
	uint64_t hash = 14695981039346656037u;
	uintptr_t offset;
	int i, used = 0;

	for (i = OWN_FRAMES; i < n_frames && used < SITE_FRAMES; i++) {
		enum caller caller = callers_of(frames[i], &offset);

		if (caller == OTHER)
			continue;
		hash = (hash ^ (offset * CALLERS + caller)) * 1099511628211u;
		used++;
	}
	return used == 0 ? 0 : hash | 1;
}

/* True for who is first to mark this site as failed. */
static bool mark(uint64_t site)
{
	size_t i;

	for (i = 0; i < SITES; i++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&failed[(site / 2 + i) % SITES], &there, site))
			return true;
		if (there == site)
			return false;
	}
	return false;
}

static void tell(uint64_t site, void *const frames[], int n_frames)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "starve: site %016llx\n", (unsigned long long)site);

	if (write(STDERR_FILENO, line, (size_t)len) == len)
		backtrace_symbols_fd(frames + OWN_FRAMES, n_frames - OWN_FRAMES, STDERR_FILENO);
}

static __attribute__((noinline)) bool look(void)
{
	void *frames[FRAMES];
	int n_frames = backtrace(frames, FRAMES);
	uint64_t site = site_of(frames, n_frames);

	if (site == 0 || atomic_fetch_sub(&after, 1) > 0 || site / 2 % shares != share)
		return false;
	if (!mark(site) || atomic_exchange(&done, true))
		return false;
	tell(site, frames, n_frames);
	errno = ENOMEM;
	return true;
}

static __attribute__((noinline)) bool fails(void)
{
	bool failing;

	if (failed == NULL || looking || atomic_load(&done))
		return false;
	looking = true;
	failing = look();
	looking = false;
	return failing;
}

/* What cannot fail must not look as if nothing had. */
static void *map_file(void)
{
	const char *path = getenv("STARVE");
	int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *memory = MAP_FAILED;

	if (file >= 0 && ftruncate(file, SITES * sizeof(*failed)) == 0)
		memory = mmap(NULL, SITES * sizeof(*failed), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED) {
		perror("starve: STARVE");
		exit(1);
	}
	close(file);
	return memory;
}

/* A process has a failure of its own, and so have those that it forks. */
static void on_fork(void)
{
	atomic_store(&done, false);
}

__attribute__((constructor)) static void start(void)
{
	const char *part = getenv("STARVE_SHARE"), *number = getenv("STARVE_AFTER");
	void *frames[2];
	char *end;

	atomic_store(&done, getenv("STARVE_ONLY") != NULL);
	if (part != NULL) {
		share = strtoull(part, &end, 10);
		shares = *end == '/' ? strtoull(end + 1, NULL, 10) : 1;
	}
	atomic_store(&after, number == NULL ? 0 : strtol(number, NULL, 10));
	callers_find();
	backtrace(frames, 2); /* loads what it needs */
	pthread_atfork(NULL, NULL, on_fork);
	failed = map_file();
}

/* dlsym may itself allocate, so these call glibc's by their other names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}
