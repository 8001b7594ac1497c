/* keys: the order of rows of one key in memory.
 * Rows of a key stand in a FIFO in the order column's order; one is queued or in flight, its successor follows when it
 * was delivered. When a row leaves otherwise, all behind it are released with it and the key is *broken*: until that settle
 * was answered, and every claim sent before that answer too, rows of it that a claim brings are released at once, for a
 * claim's snapshot may be older than the settle. */
#ifndef OUTBOXD_RELAY_KEYS_H
#define OUTBOXD_RELAY_KEYS_H

#include "base/hash.h"
#include "base/list.h"
#include "core/pgarray.h"
#include "core/sql.h"
#include "relay/batch.h"

#include <stdint.h>

struct key {
	UT_hash_handle hh;
	struct list fifo;	    /* rows without an outcome, in order */
	struct list_node hot_node;  /* in keys.hot */
	struct list_node free_node; /* in keys.lingering */
	size_t rows;		    /* in memory, those with an outcome included */
	bool broken, hot, lingering;
	uint64_t barrier; /* lingering: until the claim of this number was answered */
	size_t len;
	char bytes[];
};

struct keys {
	struct key *table;
	struct list hot;       /* keys that hold half a share or more, and broken ones */
	struct list lingering; /* broken keys without rows, whose barrier has not been passed */
	size_t share;	       /* rows one key may hold */
	enum sql_order order;
};

void keys_init(struct keys *keys, size_t share);
/* Frees the keys; rows must not be used through them any more. */
void keys_free(struct keys *keys);

/* The key of these bytes, made when new. The row counts as held by it from now on. */
struct key *keys_hold(struct keys *keys, struct slice bytes);

/* A row of the key has left memory. claim: the number of the claim under way, 0 when there is none. */
void keys_drop(struct keys *keys, struct key *key, uint64_t claim);

/* Rows of the key left otherwise than delivered. */
void keys_break(struct keys *keys, struct key *key);

/* The claim of that number was answered, and its rows have been entered. True: some key is broken no more. */
bool keys_claim_answered(struct keys *keys, uint64_t claim);

/* Puts the row into its key's FIFO: behind rows that are in flight or older. Returns the row now first if that is a
 * different one than before and it may be published, else NULL; *demoted is a queued row that must wait again, or NULL. */
void keys_enter(struct keys *keys, struct row *row, struct row **first, struct row **demoted);

/* Takes the row out of the FIFO; returns the row that is now first and WAITING, or NULL. */
struct row *keys_leave(struct row *row);

/* Is nothing of its key in front of the row? */
bool keys_is_first(const struct row *row);

/* The row behind this one in its FIFO, or NULL. */
struct row *keys_behind(const struct row *row);

/* The hot keys and what they hold, as parameters of a claim. */
void keys_hot(const struct keys *keys, struct pgarray *names, struct pgarray *held);

#endif
