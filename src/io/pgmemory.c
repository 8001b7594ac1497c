#include "io/pgmemory.h"

#include "base/mem.h"

#include <string.h>

/* Sentences about somebody's words begin otherwise. */
void pgmemory_check(const char *message)
{
	static const char no_memory[] = "out of memory";

	if (message == NULL || strncmp(message, no_memory, strlen(no_memory)) == 0)
		mem_exhausted();
}
