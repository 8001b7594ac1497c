#include "io/library.h"

#include <ares.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>

struct library_versions library_versions(void)
{
	struct library_versions versions;
	int libpq = PQlibVersion(); /* 150020 is 15.20 */

	snprintf(versions.libpq, sizeof(versions.libpq), "%d.%d", libpq / 10000, libpq % 10000);
	snprintf(versions.libcares, sizeof(versions.libcares), "%s", ares_version(NULL));
	snprintf(versions.librdkafka, sizeof(versions.librdkafka), "%s", rd_kafka_version_str());
	return versions;
}
