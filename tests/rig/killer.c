/* killer: a row that kills the process which produces it, for tests.
 *
 *   LD_PRELOAD=killer.so KILLER=TEXT program    a message whose payload has this text is its death
 */
#include <dlfcn.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

typedef rd_kafka_error_t *produce_fn(rd_kafka_t *, const rd_kafka_vu_t *, size_t);

rd_kafka_error_t *rd_kafka_produceva(rd_kafka_t *rk, const rd_kafka_vu_t *parts, size_t n_parts)
{
	produce_fn *produce = (produce_fn *)dlsym(RTLD_NEXT, "rd_kafka_produceva");
	const char *text = getenv("KILLER");
	size_t i;

	for (i = 0; i < n_parts; i++)
		if (text != NULL && parts[i].vtype == RD_KAFKA_VTYPE_VALUE &&
		    memmem(parts[i].u.mem.ptr, parts[i].u.mem.size, text, strlen(text)) != NULL)
			abort();
	return produce(rk, parts, n_parts);
}
