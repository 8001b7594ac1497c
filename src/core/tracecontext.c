#include "core/tracecontext.h"

#include <string.h>

/* version-traceid-parentid-flags */
#define PARENT_BYTES 55
#define TRACE_ID 3
#define TRACE_ID_DIGITS 32
#define PARENT_ID 36
#define PARENT_ID_DIGITS 16
#define FLAGS 53

#define MEMBERS_MAX 32
#define KEY_MAX_BYTES 256
#define VALUE_MAX_BYTES 256

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool all_hex(const char *at, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!is_digit(at[i]) && !(at[i] >= 'a' && at[i] <= 'f'))
			return false;
	return true;
}

/* Hexadecimal, and not all zeros: those say that there is none. */
static bool is_id(const char *at, size_t len)
{
	size_t zeros = 0;

	while (zeros < len && at[zeros] == '0')
		zeros++;
	return zeros < len && all_hex(at, len);
}

bool tracecontext_parent_valid(struct slice value)
{
	const char *at = value.bytes;

	if (at == NULL || value.len < PARENT_BYTES || !all_hex(at, 2) || memcmp(at, "ff", 2) == 0)
		return false;
	/* A later version may have more behind another dash. */
	if (value.len > PARENT_BYTES && (memcmp(at, "00", 2) == 0 || at[PARENT_BYTES] != '-'))
		return false;
	return at[TRACE_ID - 1] == '-' && is_id(at + TRACE_ID, TRACE_ID_DIGITS) && at[PARENT_ID - 1] == '-' &&
	       is_id(at + PARENT_ID, PARENT_ID_DIGITS) && at[FLAGS - 1] == '-' && all_hex(at + FLAGS, 2);
}

static bool is_key(struct slice key)
{
	size_t i;

	if (key.len == 0 || key.len > KEY_MAX_BYTES || !(is_lower(key.bytes[0]) || is_digit(key.bytes[0])))
		return false;
	for (i = 1; i < key.len; i++)
		if (!is_lower(key.bytes[i]) && !is_digit(key.bytes[i]) &&
		    (key.bytes[i] == '\0' || strchr("_-*/@", key.bytes[i]) == NULL))
			return false;
	return true;
}

static bool is_value(struct slice value)
{
	size_t i;

	if (value.len == 0 || value.len > VALUE_MAX_BYTES || value.bytes[value.len - 1] == ' ')
		return false;
	for (i = 0; i < value.len; i++)
		if (value.bytes[i] < ' ' || value.bytes[i] > '~' || value.bytes[i] == '=')
			return false;
	return true;
}

static struct slice trim(struct slice text)
{
	while (text.len > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t')) {
		text.bytes++;
		text.len--;
	}
	while (text.len > 0 && (text.bytes[text.len - 1] == ' ' || text.bytes[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* The text up to the mark, which is gone from the rest with it. */
static struct slice cut(struct slice *rest, char mark)
{
	const char *at = rest->len == 0 ? NULL : memchr(rest->bytes, mark, rest->len);
	struct slice part = {rest->bytes, at == NULL ? rest->len : (size_t)(at - rest->bytes)};
	size_t used = part.len + (at != NULL);

	*rest = (struct slice){rest->bytes + used, rest->len - used};
	return part;
}

static bool is_among(struct slice key, const struct slice *keys, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (slice_equal(key, keys[i]))
			return true;
	return false;
}

bool tracecontext_state_valid(struct slice value)
{
	struct slice keys[MEMBERS_MAX], member, key;
	size_t n = 0;

	if (value.bytes == NULL)
		return false;
	while (value.len > 0) {
		member = trim(cut(&value, ','));
		if (member.len == 0)
			continue; /* an empty member is allowed, and is none */
		key = cut(&member, '=');
		if (n == MEMBERS_MAX || !is_key(key) || !is_value(member) || is_among(key, keys, n))
			return false;
		keys[n++] = key;
	}
	return true;
}
