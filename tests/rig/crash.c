/* The crash points of a program that was compiled with them (base/crash.h).
 *   OUTBOXD_CRASH=NAME:N    SIGKILL at the N-th passage of that point
 *   OUTBOXD_PASSAGES=FILE   how often each was passed, so far: a uint64 for each in the table's order, kept up to date while
 *                           the process runs and readable when it was killed; the numbers of an earlier process go on */
#include "base/crash.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const names[] = {
#define CRASH_NAME(name, moment) #name,
	CRASH_POINTS(CRASH_NAME)
#undef CRASH_NAME
};
#define POINTS (sizeof(names) / sizeof(names[0]))

static uint64_t own[POINTS];	    /* passages of this process */
static uint64_t *kept = NULL;	    /* those in the file */
static size_t fatal_point = POINTS; /* POINTS: none */
static uint64_t fatal_passage;

static void refuse(const char *what, const char *value)
{
	fprintf(stderr, "crash points: %s: %s\n", what, value);
	exit(70);
}

static void choose(const char *chosen)
{
	const char *colon = strchr(chosen, ':');
	size_t len = colon == NULL ? 0 : (size_t)(colon - chosen);
	size_t i;

	for (i = 0; i < POINTS; i++)
		if (strlen(names[i]) == len && strncmp(names[i], chosen, len) == 0)
			fatal_point = i;
	if (fatal_point == POINTS)
		refuse("NAME:N with a name from base/crash.h is wanted", chosen);
	fatal_passage = strtoull(colon + 1, NULL, 10);
}

static void keep(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)sizeof(own)) != 0)
		refuse("cannot be written", path);
	kept = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (kept == MAP_FAILED)
		refuse("cannot be mapped", path);
	close(fd);
}

__attribute__((constructor)) static void begin(void)
{
	const char *chosen = getenv("OUTBOXD_CRASH"), *path = getenv("OUTBOXD_PASSAGES");

	if (chosen != NULL)
		choose(chosen);
	if (path != NULL)
		keep(path);
}

void crash_pass(enum crash_point point)
{
	if (kept != NULL)
		kept[point]++;
	if (++own[point] != fatal_passage || (size_t)point != fatal_point)
		return;
	/* A signal to the process may take another thread first: this one must not go on. */
	for (;;)
		kill(getpid(), SIGKILL);
}
