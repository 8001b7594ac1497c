#include "peek.h"

#include "core/pgarray.h"
#include "relay/private.h"

int64_t peek_lease(const void *tag)
{
	return pg_get_int8(batch_cell(tag, SQL_C_LEASE));
}

void peek_limit_topics(struct source *source, size_t limit)
{
	source->topics_limit = limit;
}
