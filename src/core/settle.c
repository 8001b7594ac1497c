#include "core/settle.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "core/pgarray.h"

#include <string.h>

struct settle {
	struct pgarray ids, leases, states, delays, backs, errors, owners, firsts, lasts;
	struct buf error;
};

struct settle *settle_new(void)
{
	return MEM_NEW(struct settle);
}

void settle_free(struct settle *settle)
{
	if (settle == NULL)
		return;
	pgarray_free(&settle->ids);
	pgarray_free(&settle->leases);
	pgarray_free(&settle->states);
	pgarray_free(&settle->delays);
	pgarray_free(&settle->backs);
	pgarray_free(&settle->errors);
	pgarray_free(&settle->owners);
	pgarray_free(&settle->firsts);
	pgarray_free(&settle->lasts);
	buf_free(&settle->error);
	mem_free(settle);
}

void settle_begin(struct settle *settle)
{
	pgarray_begin(&settle->ids, PGOID_TEXT);
	pgarray_begin(&settle->leases, PGOID_TIMESTAMPTZ);
	pgarray_begin(&settle->states, PGOID_TEXT);
	pgarray_begin(&settle->delays, PGOID_INTERVAL);
	pgarray_begin(&settle->backs, PGOID_INT4);
	pgarray_begin(&settle->errors, PGOID_TEXT);
	pgarray_begin(&settle->owners, PGOID_TEXT);
	pgarray_begin(&settle->firsts, PGOID_INT4);
	pgarray_begin(&settle->lasts, PGOID_INT4);
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
	if (settle->lasts.count < settle->firsts.count)
		pgarray_add_int4(&settle->lasts, settle->ids.count);
}

void settle_begin_claim(struct settle *settle, struct slice lease, const char *owner)
{
	end_claim(settle);
	pgarray_add_bytes(&settle->leases, lease);
	pgarray_add_bytes(&settle->owners, slice_of(owner));
	pgarray_add_int4(&settle->firsts, settle->ids.count + 1);
}

void settle_add_sent(struct settle *settle, struct slice id)
{
	pgarray_add_bytes(&settle->ids, id);
}

void settle_add(struct settle *settle, const struct settle_row *row)
{
	pgarray_add_bytes(&settle->ids, row->id);
	pgarray_add_bytes(&settle->leases, row->lease);
	pgarray_add_bytes(&settle->states, slice_of(row->state));
	pgarray_add_interval_us(&settle->delays, row->delay_us);
	pgarray_add_int4(&settle->backs, row->give_back ? 1 : 0);
	pgarray_add_bytes(&settle->owners, slice_of(row->owner));
	if (row->error == NULL) {
		pgarray_add_bytes(&settle->errors, SLICE_NULL);
		return;
	}
	buf_clear(&settle->error);
	settle_clean_text(&settle->error, row->error, SETTLE_ERROR_BYTES);
	pgarray_add_bytes(&settle->errors, (struct slice){buf_text(&settle->error), settle->error.len});
}

void settle_values(struct settle *settle, struct slice values[SQL_PARAMS])
{
	end_claim(settle);
	values[SQL_P_IDS] = pgarray_end(&settle->ids);
	values[SQL_P_LEASES] = pgarray_end(&settle->leases);
	values[SQL_P_STATES] = pgarray_end(&settle->states);
	values[SQL_P_DELAYS] = pgarray_end(&settle->delays);
	values[SQL_P_BACKS] = pgarray_end(&settle->backs);
	values[SQL_P_ERRORS] = pgarray_end(&settle->errors);
	values[SQL_P_OWNERS] = pgarray_end(&settle->owners);
	values[SQL_P_FIRSTS] = pgarray_end(&settle->firsts);
	values[SQL_P_LASTS] = pgarray_end(&settle->lasts);
}
