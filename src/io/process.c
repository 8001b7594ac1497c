#include "io/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double rss_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double open_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int n = 0;

	if (directory == NULL)
		return 0;
	while (readdir(directory) != NULL)
		n++;
	closedir(directory);
	return n - 3; /* ".", ".." and the directory itself */
}

/* Field 22 of stat, in clock ticks since boot; the command's name before it may hold anything, but ends with ')'. */
static double start_seconds(void)
{
	FILE *file = fopen("/proc/self/stat", "re");
	struct timespec now;
	char line[1024], *field;
	unsigned long long ticks = 0;

	if (file == NULL)
		return 0;
	field = fgets(line, sizeof(line), file) == NULL ? NULL : strrchr(line, ')');
	fclose(file);
	if (field == NULL ||
	    sscanf(field, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ticks) != 1)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec - (double)process_boottime_us() / 1e6 +
	       (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

struct process_usage process_usage(void)
{
	struct process_usage usage = {
		.rss_bytes = rss_bytes(), .open_fds = open_fds(), .start_seconds = start_seconds()};
	struct rusage cpu;

	if (getrusage(RUSAGE_SELF, &cpu) == 0)
		usage.cpu_seconds = (double)(cpu.ru_utime.tv_sec + cpu.ru_stime.tv_sec) +
				    (double)(cpu.ru_utime.tv_usec + cpu.ru_stime.tv_usec) / 1e6;
	return usage;
}

int64_t process_boottime_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
