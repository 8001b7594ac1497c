/* keys: the order of rows of one key in memory.
 * Rows of a key stand in a FIFO in the order column's order:
 *
 *   [with Kafka: in flight or refused ...] [next: waiting or queued] [waiting ...]
 *
 * Those with Kafka are all on one *lane*: one topic, one partition, one producer, which delivers in order and leaves no
 * gaps. How many they may be is the lane's window, but 1 until a row of the key was delivered on it: before, the broker
 * does not see gaps. The next row follows while the window has room. When Kafka refuses a row, none follows, and what
 * becomes of it is decided when nothing of the key is in flight.
 *
 * When a row leaves otherwise than delivered, all behind it are released with it and the key is *broken*: until that settle
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

struct kafka;

/* The way of a row through Kafka. Equal lanes keep the order of their rows. */
struct lane {
	struct kafka *kafka;
	uint64_t generation; /* of its producer */
	uint64_t topic;	     /* its number */
	int32_t partition;   /* -1: the one of the key */
	size_t window;	     /* rows of a key that it carries at once */
};

struct key {
	UT_hash_handle hh;
	struct list fifo;	    /* rows without an outcome, in order */
	struct row *next;	    /* the first of them that is not with Kafka, or NULL */
	size_t with_kafka;	    /* rows in front of it */
	size_t refused;		    /* of these: with a bad answer */
	struct lane lane;	    /* of those with Kafka, or of the last that were */
	bool proven;		    /* one was delivered on it */
	bool turning;		    /* the next row takes another lane: it waits until nothing is with Kafka */
	uint64_t turns;		    /* hand-overs so far */
	uint64_t delivered;	    /* the latest turn that was delivered */
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
	struct mem_pool small; /* keys of the usual length */
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

/* Puts the row into its key's FIFO: behind rows that are with Kafka, or were, or are older. Returns a row that was the next
 * one and no longer waits, so that it has to wait again; or NULL. */
struct row *keys_enter(struct keys *keys, struct row *row);

/* Takes the row out of the FIFO. */
void keys_leave(struct row *row);

/* The next row if it waits and nothing speaks against its turn, else NULL. */
struct row *keys_next(const struct key *key);

/* May the next row be handed over on this lane? When not, some answer changes that. */
bool keys_may_join(struct key *key, const struct lane *lane);

/* The next row was handed over on this lane; the one behind it is the next. */
void keys_hand_over(struct row *row, const struct lane *lane);

/* What Kafka said of a row that it has: a delivered one leaves at once, a refused one waits. */
void keys_note_delivered(struct row *row);
void keys_note_refused(struct row *row);

/* Has Kafka refused all that it has of the key? Then its first row is the first of these. */
bool keys_refused(const struct key *key);

/* They are with Kafka no longer: the first of them is the next row. */
void keys_take_back(struct key *key);

/* The first row of the FIFO, and the one behind a row; NULL when there is none. */
struct row *keys_first(const struct key *key);
struct row *keys_behind(const struct row *row);

/* The hot keys and what they hold, as parameters of a claim. */
void keys_hot(const struct keys *keys, struct pgarray *names, struct pgarray *held);

#endif
