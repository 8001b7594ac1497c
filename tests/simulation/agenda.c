#include "agenda.h"

#include "base/mem.h"

#include <stddef.h>

struct entry {
	int64_t at_us;
	uint64_t order;
	agenda_fn *fn;
	void *context;
};

struct agenda {
	int64_t now_us;
	uint64_t order;
	struct entry *heap;
	size_t length, size;
};

struct agenda *agenda_new(int64_t now_us)
{
	struct agenda *agenda = MEM_NEW(struct agenda);

	agenda->now_us = now_us;
	return agenda;
}

void agenda_free(struct agenda *agenda)
{
	mem_free(agenda->heap);
	mem_free(agenda);
}

int64_t agenda_now(const struct agenda *agenda)
{
	return agenda->now_us;
}

static bool before(const struct entry *a, const struct entry *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(struct entry *a, struct entry *b)
{
	struct entry other = *a;

	*a = *b;
	*b = other;
}

void agenda_add(struct agenda *agenda, int64_t at_us, agenda_fn *fn, void *context)
{
	size_t at = agenda->length++;

	if (agenda->length > agenda->size) {
		agenda->size = agenda->size == 0 ? 256 : 2 * agenda->size;
		agenda->heap = mem_resize(agenda->heap, agenda->size, sizeof(struct entry));
	}
	agenda->heap[at] =
		(struct entry){at_us > agenda->now_us ? at_us : agenda->now_us, agenda->order++, fn, context};
	for (; at > 0 && before(&agenda->heap[at], &agenda->heap[(at - 1) / 2]); at = (at - 1) / 2)
		swap(&agenda->heap[at], &agenda->heap[(at - 1) / 2]);
}

static void sink(struct agenda *agenda)
{
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= agenda->length)
			return;
		if (child + 1 < agenda->length && before(&agenda->heap[child + 1], &agenda->heap[child]))
			child++;
		if (!before(&agenda->heap[child], &agenda->heap[at]))
			return;
		swap(&agenda->heap[at], &agenda->heap[child]);
		at = child;
	}
}

bool agenda_turn(struct agenda *agenda, int64_t until_us)
{
	struct entry entry;

	if (agenda->length == 0 || agenda->heap[0].at_us > until_us) {
		agenda->now_us = until_us;
		return false;
	}
	entry = agenda->heap[0];
	agenda->heap[0] = agenda->heap[--agenda->length];
	sink(agenda);
	agenda->now_us = entry.at_us;
	entry.fn(entry.context);
	return true;
}
