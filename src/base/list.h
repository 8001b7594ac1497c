/* list: doubly linked, intrusive, with its length.
 * What stands in a list is in that state; a count is a length, never a second variable. */
#ifndef OUTBOXD_BASE_LIST_H
#define OUTBOXD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *prev, *next;
};

struct list {
	struct list_node head; /* a ring: head.next is the first, head.prev the last */
	size_t length;
};

/* The struct that holds the node. */
#define LIST_OWNER(node, type, member) ((type *)(void *)(((char *)(node)) - offsetof(type, member)))

static inline void list_init(struct list *list)
{
	list->head.prev = list->head.next = &list->head;
	list->length = 0;
}

static inline bool list_empty(const struct list *list)
{
	return list->length == 0;
}

/* NULL when there is none. */
static inline struct list_node *list_first(const struct list *list)
{
	return list->length == 0 ? NULL : list->head.next;
}

/* The one behind node, or NULL at the end. */
static inline struct list_node *list_next(const struct list *list, const struct list_node *node)
{
	return node->next == &list->head ? NULL : node->next;
}

static inline struct list_node *list_last(const struct list *list)
{
	return list->length == 0 ? NULL : list->head.prev;
}

static inline struct list_node *list_prev(const struct list *list, const struct list_node *node)
{
	return node->prev == &list->head ? NULL : node->prev;
}

/* Puts node behind `where`, a member of the list, or first when where is NULL. */
static inline void list_insert_after(struct list *list, struct list_node *where, struct list_node *node)
{
	struct list_node *before = where == NULL ? &list->head : where;

	node->prev = before;
	node->next = before->next;
	before->next->prev = node;
	before->next = node;
	list->length++;
}

static inline void list_append(struct list *list, struct list_node *node)
{
	list_insert_after(list, list->head.prev == &list->head ? NULL : list->head.prev, node);
}

static inline void list_remove(struct list *list, struct list_node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = node->next = NULL;
	list->length--;
}

static inline void list_move(struct list *from, struct list *to, struct list_node *node)
{
	list_remove(from, node);
	list_append(to, node);
}

#endif
