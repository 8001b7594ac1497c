#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mem_exhausted(void)
{
	fputs("outboxd: out of memory\n", stderr);
	abort();
}

void *mem_new(size_t count, size_t size)
{
	void *memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);

	if (memory == NULL)
		mem_exhausted();
	return memory;
}

void *mem_resize(void *old, size_t count, size_t size)
{
	void *memory;

	if (size > 0 && count > SIZE_MAX / size)
		mem_exhausted();
	memory = realloc(old, count * size > 0 ? count * size : 1);
	if (memory == NULL)
		mem_exhausted();
	return memory;
}

void *mem_take(size_t size)
{
	return mem_resize(NULL, size, 1);
}

char *mem_copy_bytes(const void *bytes, size_t len)
{
	char *copy = mem_new(len + 1, 1);

	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

char *mem_copy_string(const char *text)
{
	return text == NULL ? NULL : mem_copy_bytes(text, strlen(text));
}

void mem_free(void *memory)
{
	free(memory);
}

void *mem_pool_take(struct mem_pool *pool)
{
	void *memory = pool->spare;

	if (memory == NULL)
		return mem_new(1, pool->size);
	memcpy(&pool->spare, memory, sizeof(pool->spare));
	return memset(memory, 0, pool->size);
}

void mem_pool_give(struct mem_pool *pool, void *memory)
{
#ifdef __SANITIZE_ADDRESS__
	(void)pool;
	mem_free(memory); /* who uses it later is found */
#else
	memcpy(memory, &pool->spare, sizeof(pool->spare));
	pool->spare = memory;
#endif
}

void mem_pool_clear(struct mem_pool *pool)
{
	void *memory;

	while ((memory = pool->spare) != NULL) {
		memcpy(&pool->spare, memory, sizeof(pool->spare));
		mem_free(memory);
	}
}

/* A chunk holds pieces one behind the other; a piece larger than a chunk gets its own. */
#define ARENA_CHUNK_BYTES 4096
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

struct arena {
	struct arena_chunk *chunks;
};

struct arena *arena_new(void)
{
	return MEM_NEW(struct arena);
}

void arena_free(struct arena *arena)
{
	struct arena_chunk *chunk, *next;

	if (arena == NULL)
		return;
	for (chunk = arena->chunks; chunk != NULL; chunk = next) {
		next = chunk->next;
		mem_free(chunk);
	}
	mem_free(arena);
}

void *arena_take(struct arena *arena, size_t count, size_t size)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t need, chunk_size;
	void *piece;

	if (size > 0 && count > (SIZE_MAX / 2) / size)
		mem_exhausted();
	need = (count * size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	if (chunk == NULL || chunk->size - chunk->used < need) {
		chunk_size = need > ARENA_CHUNK_BYTES ? need : ARENA_CHUNK_BYTES;
		chunk = mem_new(1, sizeof(*chunk) + chunk_size);
		chunk->size = chunk_size;
		chunk->next = arena->chunks;
		arena->chunks = chunk;
	}
	piece = chunk->bytes + chunk->used;
	chunk->used += need;
	return piece;
}

char *arena_copy_bytes(struct arena *arena, const void *bytes, size_t len)
{
	char *copy = arena_take(arena, len + 1, 1);

	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

char *arena_copy_string(struct arena *arena, const char *text)
{
	return text == NULL ? NULL : arena_copy_bytes(arena, text, strlen(text));
}
