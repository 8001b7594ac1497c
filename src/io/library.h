/* library: which versions of libpq and librdkafka run. */
#ifndef OUTBOXD_IO_LIBRARY_H
#define OUTBOXD_IO_LIBRARY_H

struct library_versions {
	char libpq[16], librdkafka[32];
};

struct library_versions library_versions(void);

#endif
