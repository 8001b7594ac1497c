/* hash: uthash, with our way of running out of memory. Tables live inside the structs that own them. */
#ifndef OUTBOXD_BASE_HASH_H
#define OUTBOXD_BASE_HASH_H

#include "base/mem.h"

#include <stdlib.h>

#define uthash_fatal(message) abort()
#include <uthash.h>

#endif
