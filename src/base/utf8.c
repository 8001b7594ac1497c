#include "base/utf8.h"

/* The first byte says how long a character is and which bits of its own count; least is the smallest code point that
 * needs this length, so that overlong forms are refused. */
static size_t lead(uint8_t byte, uint32_t *bits, uint32_t *least)
{
	if (byte < 0x80)
		return *bits = byte, *least = 0, 1;
	if (byte >= 0xC2 && byte <= 0xDF)
		return *bits = byte & 0x1F, *least = 0x80, 2;
	if (byte >= 0xE0 && byte <= 0xEF)
		return *bits = byte & 0x0F, *least = 0x800, 3;
	if (byte >= 0xF0 && byte <= 0xF4)
		return *bits = byte & 0x07, *least = 0x10000, 4;
	return 0;
}

size_t utf8_read(const char *bytes, size_t left, uint32_t *code_point)
{
	uint32_t code = 0, least = 0;
	size_t length = left == 0 ? 0 : lead((uint8_t)bytes[0], &code, &least);

	if (length == 0 || length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if (((uint8_t)bytes[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | ((uint8_t)bytes[i] & 0x3F);
	}
	if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
		return 0;
	if (code_point != NULL)
		*code_point = code;
	return length;
}

void utf8_add(struct buf *out, const char *bytes, size_t len)
{
	size_t length;

	for (; len > 0; bytes += length, len -= length) {
		length = utf8_read(bytes, len, NULL);
		if (length > 0) {
			buf_add(out, bytes, length);
			continue;
		}
		buf_add_string(out, "\xEF\xBF\xBD");
		length = 1;
	}
}
