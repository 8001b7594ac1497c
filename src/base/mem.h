/* mem: allocation that cannot fail, and arenas that free by lifetime.
 * Out of memory aborts the process: the leases in the table cover it. */
#ifndef OUTBOXD_BASE_MEM_H
#define OUTBOXD_BASE_MEM_H

#include <stddef.h>

/* Zeroed memory for count items of size bytes; free with mem_free. Aborts on overflow. */
void *mem_new(size_t count, size_t size) __attribute__((malloc, returns_nonnull));

/* Grows or shrinks to count items of size bytes; what is new is not zeroed. */
void *mem_resize(void *old, size_t count, size_t size) __attribute__((returns_nonnull));

/* size bytes, not zeroed, for a library that takes malloc and free of its user. */
void *mem_take(size_t size) __attribute__((malloc, returns_nonnull));

/* What all of these do when there is no memory: says so on stderr and aborts. For a library that tells by its answer. */
void mem_exhausted(void) __attribute__((noreturn, cold));

/* A copy of a C string, or of len bytes with a NUL behind them. NULL gives NULL. */
char *mem_copy_string(const char *text);
char *mem_copy_bytes(const void *bytes, size_t len);

/* free(); NULL is fine. */
void mem_free(void *memory);

#define MEM_NEW(type) ((type *)mem_new(1, sizeof(type)))
#define MEM_NEW_ARRAY(count, type) ((type *)mem_new((count), sizeof(type)))

/* A pool: pieces of one size that come and go all the time. What was given back is taken first; all zero but for the size, it
 * is ready for use. */
struct mem_pool {
	size_t size; /* bytes of a piece, at least those of a pointer */
	void *spare; /* what was given back, chained by the first bytes */
};

/* Zeroed memory; give it back to this pool. */
void *mem_pool_take(struct mem_pool *pool) __attribute__((returns_nonnull));
void mem_pool_give(struct mem_pool *pool, void *memory);
/* Frees what was given back. */
void mem_pool_clear(struct mem_pool *pool);

/* An arena: many small pieces that live and die together. */
struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* Zeroed memory that lives as long as the arena. */
void *arena_take(struct arena *arena, size_t count, size_t size) __attribute__((returns_nonnull));

/* A copy of text (NULL gives NULL), or of len bytes with a NUL behind them. */
char *arena_copy_string(struct arena *arena, const char *text);
char *arena_copy_bytes(struct arena *arena, const void *bytes, size_t len);

#endif
