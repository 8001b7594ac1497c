/* pgarray: one-dimensional arrays in PostgreSQL's binary format, for statement parameters.
 * Layout: int32 dimensions, int32 has-null flag, uint32 element oid, int32 length, int32 lower bound 1, then for each
 * element int32 length (-1: NULL) and bytes; an empty array has 0 dimensions. All big-endian. */
#ifndef OUTBOXD_CORE_PGARRAY_H
#define OUTBOXD_CORE_PGARRAY_H

#include "base/buf.h"

#include <stdint.h>

#define PGOID_INT8 20
#define PGOID_INT4 23
#define PGOID_TEXT 25
#define PGOID_TIMESTAMPTZ 1184
#define PGOID_INTERVAL 1186

struct pgarray {
	struct buf buf;
	int32_t count;
};

/* Starts an array (the buf is emptied, its memory kept). */
void pgarray_begin(struct pgarray *array, uint32_t element_oid);
void pgarray_add_bytes(struct pgarray *array, struct slice bytes); /* the type's binary form; SLICE_NULL: NULL */
void pgarray_add_int4(struct pgarray *array, int32_t value);
void pgarray_add_int8(struct pgarray *array, int64_t value);
void pgarray_add_interval_us(struct pgarray *array, int64_t microseconds);
/* Completes it and returns its bytes, borrowed until the next call. */
struct slice pgarray_end(struct pgarray *array);
void pgarray_free(struct pgarray *array);

/* Single values in binary format, written into the caller's bytes and borrowed from there. */
struct slice pg_put_int4(char bytes[4], int32_t value);
struct slice pg_put_int8(char bytes[8], int64_t value);
struct slice pg_put_interval_us(char bytes[16], int64_t microseconds);

/* Big-endian integers from binary results. */
int32_t pg_get_int4(struct slice cell);
int64_t pg_get_int8(struct slice cell);

#endif
