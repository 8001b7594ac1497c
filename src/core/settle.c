#include "core/settle.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "core/pgarray.h"

#include <string.h>

/* The elements of each parameter. */
static const uint32_t oids[SQL_PARAMS] = {
	[SQL_P_IDS] = PGOID_TEXT,	 [SQL_P_LEASES] = PGOID_TIMESTAMPTZ, [SQL_P_STATES] = PGOID_TEXT,
	[SQL_P_DELAYS] = PGOID_INTERVAL, [SQL_P_BACKS] = PGOID_INT4,	     [SQL_P_ERRORS] = PGOID_TEXT,
	[SQL_P_OWNERS] = PGOID_TEXT,	 [SQL_P_FIRSTS] = PGOID_INT4,	     [SQL_P_LASTS] = PGOID_INT4,
};

struct settle {
	struct pgarray arrays[SQL_PARAMS]; /* by parameter; those without an oid stay empty */
	struct buf error;
};

struct settle *settle_new(void)
{
	return MEM_NEW(struct settle);
}

void settle_free(struct settle *settle)
{
	int param;

	if (settle == NULL)
		return;
	for (param = 0; param < SQL_PARAMS; param++)
		pgarray_free(&settle->arrays[param]);
	buf_free(&settle->error);
	mem_free(settle);
}

void settle_begin(struct settle *settle)
{
	int param;

	for (param = 0; param < SQL_PARAMS; param++)
		if (oids[param] != 0)
			pgarray_begin(&settle->arrays[param], oids[param]);
}

void settle_clean_text(struct buf *out, const char *text, size_t limit)
{
	const char *end = text + strlen(text);
	size_t len, used;

	for (used = 0; text < end; used += len) {
		len = utf8_read(text, (size_t)(end - text), NULL);
		if (used + (len > 0 ? len : 1) > limit)
			break;
		if (len == 0)
			buf_add_char(out, '?');
		else
			buf_add(out, text, len);
		len = len > 0 ? len : 1;
		text += len;
	}
}

static void end_claim(struct settle *settle)
{
	if (settle->arrays[SQL_P_LASTS].count < settle->arrays[SQL_P_FIRSTS].count)
		pgarray_add_int4(&settle->arrays[SQL_P_LASTS], settle->arrays[SQL_P_IDS].count);
}

void settle_begin_claim(struct settle *settle, struct slice lease, const char *owner)
{
	end_claim(settle);
	pgarray_add_bytes(&settle->arrays[SQL_P_LEASES], lease);
	pgarray_add_bytes(&settle->arrays[SQL_P_OWNERS], slice_of(owner));
	pgarray_add_int4(&settle->arrays[SQL_P_FIRSTS], settle->arrays[SQL_P_IDS].count + 1);
}

void settle_add_sent(struct settle *settle, struct slice id)
{
	pgarray_add_bytes(&settle->arrays[SQL_P_IDS], id);
}

void settle_add(struct settle *settle, const struct settle_row *row)
{
	pgarray_add_bytes(&settle->arrays[SQL_P_IDS], row->id);
	pgarray_add_bytes(&settle->arrays[SQL_P_LEASES], row->lease);
	pgarray_add_bytes(&settle->arrays[SQL_P_STATES], slice_of(row->state));
	pgarray_add_interval_us(&settle->arrays[SQL_P_DELAYS], row->delay_us);
	pgarray_add_int4(&settle->arrays[SQL_P_BACKS], row->back);
	pgarray_add_bytes(&settle->arrays[SQL_P_OWNERS], slice_of(row->owner));
	if (row->error == NULL) {
		pgarray_add_bytes(&settle->arrays[SQL_P_ERRORS], SLICE_NULL);
		return;
	}
	buf_clear(&settle->error);
	settle_clean_text(&settle->error, row->error, SETTLE_ERROR_BYTES);
	pgarray_add_bytes(&settle->arrays[SQL_P_ERRORS],
			  (struct slice){buf_text(&settle->error), settle->error.len});
}

void settle_values(struct settle *settle, struct slice values[SQL_PARAMS])
{
	int param;

	end_claim(settle);
	for (param = 0; param < SQL_PARAMS; param++)
		if (oids[param] != 0)
			values[param] = pgarray_end(&settle->arrays[param]);
}
