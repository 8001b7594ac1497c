/* hash: uthash, with our way of running out of memory. Tables live inside the structs that own them. */
#ifndef OUTBOXD_BASE_HASH_H
#define OUTBOXD_BASE_HASH_H

#include "base/mem.h"

#include <stdlib.h>

#define uthash_malloc(size) mem_new(1, size)
#define uthash_free(memory, size) mem_free(memory)
#define uthash_fatal(message) abort() /* never, since mem_new does it; its own is exit() */
#include <uthash.h>

#endif
