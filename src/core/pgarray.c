#include "core/pgarray.h"

#include <string.h>

/* dimensions, has-null flag, element oid, length, lower bound: int32 each. */
#define HEADER_BYTES 20
#define EMPTY_HEADER_BYTES 12 /* without a dimension there is no length and no bound */

static void put_u32(char *at, uint32_t value)
{
	at[0] = (char)(value >> 24);
	at[1] = (char)(value >> 16);
	at[2] = (char)(value >> 8);
	at[3] = (char)value;
}

static void put_u64(char *at, uint64_t value)
{
	put_u32(at, (uint32_t)(value >> 32));
	put_u32(at + 4, (uint32_t)value);
}

static uint32_t get_u32(const char *at)
{
	const unsigned char *bytes = (const unsigned char *)at;

	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

void pgarray_begin(struct pgarray *array, uint32_t element_oid)
{
	char header[HEADER_BYTES] = {0};

	put_u32(header + 8, element_oid);
	buf_clear(&array->buf);
	buf_add(&array->buf, header, sizeof(header));
	array->count = 0;
}

void pgarray_add_bytes(struct pgarray *array, struct slice bytes)
{
	char len[4];

	put_u32(len, bytes.bytes == NULL ? UINT32_MAX : (uint32_t)bytes.len);
	buf_add(&array->buf, len, sizeof(len));
	if (bytes.bytes == NULL)
		put_u32(array->buf.bytes + 4, 1); /* the has-null flag */
	else
		buf_add(&array->buf, bytes.bytes, bytes.len);
	array->count++;
}

void pgarray_add_int4(struct pgarray *array, int32_t value)
{
	char bytes[4];

	pgarray_add_bytes(array, pg_put_int4(bytes, value));
}

void pgarray_add_int8(struct pgarray *array, int64_t value)
{
	char bytes[8];

	pgarray_add_bytes(array, pg_put_int8(bytes, value));
}

void pgarray_add_interval_us(struct pgarray *array, int64_t microseconds)
{
	char bytes[16];

	pgarray_add_bytes(array, pg_put_interval_us(bytes, microseconds));
}

struct slice pgarray_end(struct pgarray *array)
{
	if (array->count == 0)
		return (struct slice){array->buf.bytes, EMPTY_HEADER_BYTES};
	put_u32(array->buf.bytes, 1);
	put_u32(array->buf.bytes + 12, (uint32_t)array->count);
	put_u32(array->buf.bytes + 16, 1);
	return (struct slice){array->buf.bytes, array->buf.len};
}

void pgarray_free(struct pgarray *array)
{
	buf_free(&array->buf);
}

int32_t pg_get_int4(struct slice cell)
{
	return (int32_t)get_u32(cell.bytes);
}

int64_t pg_get_int8(struct slice cell)
{
	return (int64_t)((uint64_t)get_u32(cell.bytes) << 32 | get_u32(cell.bytes + 4));
}

struct slice pg_put_int4(char bytes[4], int32_t value)
{
	put_u32(bytes, (uint32_t)value);
	return (struct slice){bytes, 4};
}

struct slice pg_put_int8(char bytes[8], int64_t value)
{
	put_u64(bytes, (uint64_t)value);
	return (struct slice){bytes, 8};
}

struct slice pg_put_interval_us(char bytes[16], int64_t microseconds)
{
	put_u64(bytes, (uint64_t)microseconds);
	put_u64(bytes + 8, 0); /* days, months */
	return (struct slice){bytes, 16};
}
