/* hot: which keys hold so many rows in memory that a claim has to be told of them, as relay/keys.c reckons it: half of the
 * share of one key, or more. */
#ifndef OUTBOXD_TESTS_HOT_H
#define OUTBOXD_TESTS_HOT_H

#include "base/hash.h"
#include "base/list.h"
#include "core/pgarray.h"
#include "core/sql.h"

struct hot_key {
	UT_hash_handle hh;
	struct list_node node; /* in hot.list */
	size_t rows;
	bool listed;
	size_t len;
	char bytes[];
};

struct hot {
	struct hot_key *table;
	struct list list;
	size_t share; /* rows one key may hold */
	struct pgarray names, held;
};

void hot_init(struct hot *hot, size_t share);
void hot_free(struct hot *hot);

/* The key of these bytes has one more row. */
struct hot_key *hot_hold(struct hot *hot, struct slice bytes);

/* It has one less; with none it is freed. */
void hot_drop(struct hot *hot, struct hot_key *key);

/* Fills in the parameters of a claim; borrowed until the next call. */
void hot_values(struct hot *hot, struct slice values[SQL_PARAMS]);

#endif
