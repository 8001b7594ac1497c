/* library: which versions of libpq, librdkafka and c-ares run. */
#ifndef OUTBOXD_IO_LIBRARY_H
#define OUTBOXD_IO_LIBRARY_H

struct library_versions {
	char libpq[16], librdkafka[32], libcares[16];
};

struct library_versions library_versions(void);

#endif
