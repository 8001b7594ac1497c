#include "hot.h"

#include "base/mem.h"

#include <string.h>

void hot_init(struct hot *hot, size_t share)
{
	*hot = (struct hot){.share = share};
	list_init(&hot->list);
}

void hot_free(struct hot *hot)
{
	struct hot_key *key, *next;

	HASH_ITER (hh, hot->table, key, next) {
		HASH_DEL(hot->table, key);
		mem_free(key);
	}
	pgarray_free(&hot->names);
	pgarray_free(&hot->held);
}

static void look_again(struct hot *hot, struct hot_key *key)
{
	bool is_hot = key->rows >= (hot->share + 1) / 2;

	if (is_hot && !key->listed)
		list_append(&hot->list, &key->node);
	else if (!is_hot && key->listed)
		list_remove(&hot->list, &key->node);
	key->listed = is_hot;
}

struct hot_key *hot_hold(struct hot *hot, struct slice bytes)
{
	struct hot_key *key;

	HASH_FIND(hh, hot->table, bytes.bytes, bytes.len, key);
	if (key == NULL) {
		key = mem_new(1, sizeof(*key) + bytes.len);
		key->len = bytes.len;
		memcpy(key->bytes, bytes.bytes, bytes.len);
		HASH_ADD_KEYPTR(hh, hot->table, key->bytes, key->len, key);
	}
	key->rows++;
	look_again(hot, key);
	return key;
}

void hot_drop(struct hot *hot, struct hot_key *key)
{
	key->rows--;
	look_again(hot, key);
	if (key->rows > 0)
		return;
	HASH_DEL(hot->table, key);
	mem_free(key);
}

void hot_values(struct hot *hot, struct slice values[SQL_PARAMS])
{
	struct list_node *node;
	const struct hot_key *key;

	pgarray_begin(&hot->names, PGOID_TEXT);
	pgarray_begin(&hot->held, PGOID_INT4);
	for (node = list_first(&hot->list); node != NULL; node = list_next(&hot->list, node)) {
		key = LIST_OWNER(node, struct hot_key, node);
		pgarray_add_bytes(&hot->names, (struct slice){key->bytes, key->len});
		pgarray_add_int4(&hot->held, (int32_t)key->rows);
	}
	values[SQL_P_HOT_KEYS] = pgarray_end(&hot->names);
	values[SQL_P_HOT_HELD] = pgarray_end(&hot->held);
}
