#include "relay/keys.h"

#include "base/mem.h"
#include "core/order.h"

#include <string.h>

#define SMALL_BYTES 64 /* keys up to this length are pooled */
#define KEY_ROW(node) LIST_OWNER(node, struct row, key_node)

void keys_init(struct keys *keys, size_t share)
{
	*keys = (struct keys){
		.share = share, .order = SQL_ORDER_ARRIVAL, .small.size = sizeof(struct key) + SMALL_BYTES};
	list_init(&keys->hot);
	list_init(&keys->lingering);
}

static void free_key(struct keys *keys, struct key *key)
{
	if (key->hot)
		list_remove(&keys->hot, &key->hot_node);
	HASH_DEL(keys->table, key);
	if (key->len <= SMALL_BYTES)
		mem_pool_give(&keys->small, key);
	else
		mem_free(key);
}

void keys_free(struct keys *keys)
{
	struct key *key, *next;

	HASH_ITER (hh, keys->table, key, next)
		free_key(keys, key);
	mem_pool_clear(&keys->small);
}

static void set_hot(struct keys *keys, struct key *key)
{
	bool hot = key->broken || key->rows >= (keys->share + 1) / 2;

	if (hot == key->hot)
		return;
	key->hot = hot;
	if (hot)
		list_append(&keys->hot, &key->hot_node);
	else
		list_remove(&keys->hot, &key->hot_node);
}

struct key *keys_hold(struct keys *keys, struct slice bytes)
{
	struct key *key;

	HASH_FIND(hh, keys->table, bytes.bytes, bytes.len, key);
	if (key == NULL) {
		key = bytes.len <= SMALL_BYTES ? mem_pool_take(&keys->small) : mem_new(1, sizeof(*key) + bytes.len);
		list_init(&key->fifo);
		key->len = bytes.len;
		memcpy(key->bytes, bytes.bytes, bytes.len);
		HASH_ADD_KEYPTR(hh, keys->table, key->bytes, key->len, key);
	}
	if (key->lingering) {
		list_remove(&keys->lingering, &key->free_node);
		key->lingering = false;
	}
	key->rows++;
	set_hot(keys, key);
	return key;
}

void keys_break(struct keys *keys, struct key *key)
{
	key->broken = true;
	set_hot(keys, key);
}

void keys_drop(struct keys *keys, struct key *key, uint64_t claim)
{
	key->rows--;
	set_hot(keys, key);
	if (key->rows > 0)
		return;
	if (!key->broken || claim == 0) {
		free_key(keys, key);
		return;
	}
	key->barrier = claim;
	key->lingering = true;
	list_append(&keys->lingering, &key->free_node);
}

bool keys_claim_answered(struct keys *keys, uint64_t claim)
{
	struct list_node *node, *next;
	struct key *key;
	bool any = false;

	for (node = list_first(&keys->lingering); node != NULL; node = next) {
		next = list_next(&keys->lingering, node);
		key = LIST_OWNER(node, struct key, free_node);
		if (key->barrier > claim)
			continue;
		list_remove(&keys->lingering, node);
		free_key(keys, key);
		any = true;
	}
	return any;
}

/* A row that Kafka has, or had, keeps its place: what comes later stands behind it, also when it is older. */
static bool movable(const struct row *row)
{
	return !row->trial && (row->stage == STAGE_WAITING || row->stage == STAGE_QUEUED);
}

struct row *keys_enter(struct keys *keys, struct row *row)
{
	struct key *key = row->key;
	struct list_node *place = list_last(&key->fifo);
	struct row *old_next = key->next;

	while (place != NULL && movable(KEY_ROW(place)) &&
	       order_compare(keys->order, KEY_ROW(place)->order, row->order) > 0)
		place = list_prev(&key->fifo, place);
	list_insert_after(&key->fifo, place, &row->key_node);
	if (place != NULL && KEY_ROW(place)->turn == 0)
		return NULL;
	key->next = row;
	return old_next != NULL && old_next->stage != STAGE_WAITING ? old_next : NULL;
}

void keys_leave(struct row *row)
{
	struct key *key = row->key;

	if (key->next == row)
		key->next = keys_behind(row);
	list_remove(&key->fifo, &row->key_node);
	if (row->turn == 0)
		return;
	row->turn = 0;
	key->refused -= row->stage == STAGE_REFUSED;
	if (--key->with_kafka == 0)
		key->turning = false;
}

static bool has_room(const struct key *key)
{
	if (key->with_kafka == 0)
		return true;
	return key->refused == 0 && !key->turning && key->with_kafka < (key->proven ? key->lane.window : 1);
}

struct row *keys_next(const struct key *key)
{
	struct row *next = key->next;

	if (next == NULL || next->stage != STAGE_WAITING || next->awaits_elder || !has_room(key))
		return NULL;
	return next;
}

static bool same_lane(const struct lane *a, const struct lane *b)
{
	return a->kafka == b->kafka && a->generation == b->generation && a->topic == b->topic &&
	       a->partition == b->partition && a->window == b->window;
}

bool keys_may_join(struct key *key, const struct lane *lane)
{
	if (key->with_kafka > 0 && !same_lane(&key->lane, lane))
		key->turning = true;
	return has_room(key);
}

void keys_hand_over(struct row *row, const struct lane *lane)
{
	struct key *key = row->key;

	if (!same_lane(&key->lane, lane)) {
		key->lane = *lane;
		key->proven = false;
	}
	row->turn = ++key->turns;
	key->with_kafka++;
	key->next = keys_behind(row);
}

void keys_note_delivered(struct row *row)
{
	struct key *key = row->key;

	key->proven = true;
	if (key->delivered < row->turn)
		key->delivered = row->turn;
}

void keys_note_refused(struct row *row)
{
	row->key->refused++;
}

bool keys_refused(const struct key *key)
{
	return key->refused > 0 && key->refused == key->with_kafka;
}

void keys_take_back(struct key *key)
{
	struct row *row;

	key->next = keys_first(key);
	for (row = key->next; row != NULL && row->turn != 0; row = keys_behind(row))
		row->turn = 0;
	key->with_kafka = key->refused = 0;
	key->turning = false;
}

struct row *keys_first(const struct key *key)
{
	return list_empty(&key->fifo) ? NULL : KEY_ROW(list_first(&key->fifo));
}

struct row *keys_behind(const struct row *row)
{
	struct list_node *node = list_next(&row->key->fifo, &row->key_node);

	return node == NULL ? NULL : KEY_ROW(node);
}

void keys_hot(const struct keys *keys, struct pgarray *names, struct pgarray *held)
{
	struct list_node *node;
	const struct key *key;

	pgarray_begin(names, PGOID_TEXT);
	pgarray_begin(held, PGOID_INT4);
	for (node = list_first(&keys->hot); node != NULL; node = list_next(&keys->hot, node)) {
		key = LIST_OWNER(node, struct key, hot_node);
		pgarray_add_bytes(names, (struct slice){key->bytes, key->len});
		/* A broken key holds its share, so that no claim brings more of it: else it might never come to rest. */
		pgarray_add_int4(held, (int32_t)(key->broken && key->rows < keys->share ? keys->share : key->rows));
	}
}
