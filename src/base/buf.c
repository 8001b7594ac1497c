#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void reserve(struct buf *buf, size_t more)
{
	size_t need = buf->len + more + 1;

	if (need <= buf->size)
		return;
	buf->size = need < 64 ? 64 : need + need / 2;
	buf->bytes = mem_resize(buf->bytes, buf->size, 1);
}

void buf_free(struct buf *buf)
{
	mem_free(buf->bytes);
	*buf = (struct buf){0};
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
	if (buf->bytes != NULL)
		buf->bytes[0] = '\0';
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
	reserve(buf, len);
	if (len > 0)
		memcpy(buf->bytes + buf->len, bytes, len);
	buf->len += len;
	buf->bytes[buf->len] = '\0';
}

void buf_add_string(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_print(struct buf *buf, const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (len < 0)
		return;
	reserve(buf, (size_t)len);
	va_start(args, format);
	vsnprintf(buf->bytes + buf->len, (size_t)len + 1, format, args);
	va_end(args);
	buf->len += (size_t)len;
}

const char *buf_text(const struct buf *buf)
{
	return buf->bytes == NULL ? "" : buf->bytes;
}

char *buf_take(struct buf *buf)
{
	char *bytes = buf->bytes == NULL ? mem_copy_string("") : buf->bytes;

	*buf = (struct buf){0};
	return bytes;
}

struct slice slice_of(const char *text)
{
	return text == NULL ? SLICE_NULL : (struct slice){text, strlen(text)};
}

bool slice_equal(struct slice a, struct slice b)
{
	if (a.bytes == NULL || b.bytes == NULL)
		return a.bytes == b.bytes;
	return a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
}
