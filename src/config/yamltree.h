/* yamltree: a YAML file as a tree of nodes that know their line and column.
 * One document without anchors, aliases, tags or duplicate keys. It knows nothing of settings. */
#ifndef OUTBOXD_CONFIG_YAMLTREE_H
#define OUTBOXD_CONFIG_YAMLTREE_H

#include "base/err.h"
#include "base/mem.h"
#include "config/diag.h"

#include <stdbool.h>

enum yamltree_kind {
	YAMLTREE_NULL, /* nothing, ~ or null, unquoted */
	YAMLTREE_TEXT, /* any other scalar: numbers are text too */
	YAMLTREE_MAP,
	YAMLTREE_LIST
};

struct yamltree_node {
	enum yamltree_kind kind;
	int line, column;	    /* where the value begins, from 1 */
	const char *text;	    /* of a scalar; no NUL inside */
	const char *key;	    /* in a map; NULL in a list and at the root */
	int key_line, key_column;   /* where the key begins; the value's own place where there is no key */
	struct yamltree_node *next; /* in the map or list, in the order of the file */
	struct yamltree_node *children;
	bool refused; /* told to diag, here or by the tree's reader: nothing is to be concluded from its value */
};

#define YAMLTREE_MAX_BYTES (1024 * 1024)
#define YAMLTREE_MAX_DEPTH 16
#define YAMLTREE_MAX_NODES 10000

/* The root; its nodes live in the arena. An empty file gives a null node. NULL when the syntax is broken (told to diag);
 * other mistakes are told to diag and the rest of the tree is there. */
struct yamltree_node *yamltree_parse(struct arena *arena, const char *bytes, size_t len,
				     struct diag *diag) must_check;

/* "a map", "a list", ...: for messages. */
const char *yamltree_kind_name(enum yamltree_kind kind);

/* The value of a key; NULL when there is none, or map is NULL or no map. */
const struct yamltree_node *yamltree_member(const struct yamltree_node *map, const char *key);

#endif
