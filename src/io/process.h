/* process: what the kernel says of this process, for the process_* metrics. */
#ifndef OUTBOXD_IO_PROCESS_H
#define OUTBOXD_IO_PROCESS_H

#include <stdint.h>

struct process_usage {
	double cpu_seconds, rss_bytes, open_fds, start_seconds; /* start: Unix time */
};

/* What cannot be read stays 0. */
struct process_usage process_usage(void);

/* CLOCK_BOOTTIME in microseconds: goes on while the host is suspended, and never jumps. */
int64_t process_boottime_us(void);

#endif
