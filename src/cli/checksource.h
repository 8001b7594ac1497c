/* checksource: one source's database and brokers, asked for `outboxd check`. */
#ifndef OUTBOXD_CLI_CHECKSOURCE_H
#define OUTBOXD_CLI_CHECKSOURCE_H

#include "config/config.h"
#include "core/check.h"

#include <stdint.h>

struct checksource {
	const struct config_source *source;
	int64_t largest_bytes; /* of an open row's payload, as far as known */
	bool away;	       /* its database cannot be reached, */
	struct err err;	       /* and why */
};

/* Connects, asks and adds findings. before: another source of the same database, which is not tried again when it was away;
 * NULL: there is none. */
void checksource_database(struct check *check, struct checksource *one, const struct checksource *before);

/* The brokers and topics of those sources that have the same producer as the first. */
void checksource_kafka(struct check *check, const struct checksource *sources, size_t n);

#endif
