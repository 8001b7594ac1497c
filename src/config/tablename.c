#include "config/tablename.h"

#include <string.h>

static bool is_word_byte(unsigned char byte, bool first)
{
	if (byte == '_' || byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'))
		return true;
	return !first && (byte == '$' || (byte >= '0' && byte <= '9'));
}

static char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Reads one part and moves *text behind it. *len is its length, which may exceed what out holds. */
static bool read_part(const char **text, char *out, size_t *len)
{
	const char *at = *text;
	bool quoted = *at == '"';
	char c;

	*len = 0;
	at += quoted ? 1 : 0;
	while (quoted ? *at != '\0' && (at[0] != '"' || at[1] == '"')
		      : is_word_byte((unsigned char)*at, *len == 0)) {
		at += *at == '"' ? 1 : 0;
		c = quoted ? *at : fold(*at);
		at++;
		if (*len < TABLENAME_MAX_BYTES)
			out[*len] = c;
		++*len;
	}
	if (quoted && *at++ != '"')
		return false;
	out[*len < TABLENAME_MAX_BYTES ? *len : TABLENAME_MAX_BYTES] = '\0';
	*text = at;
	return *len > 0;
}

bool tablename_parse(const char *text, struct tablename *out, struct err *err)
{
	size_t schema_len = 0, name_len;
	const char *at = text;
	bool good;

	out->schema[0] = '\0';
	good = read_part(&at, out->name, &name_len);
	if (good && *at == '.') {
		at++;
		memcpy(out->schema, out->name, sizeof(out->schema));
		schema_len = name_len;
		good = read_part(&at, out->name, &name_len);
	}
	if (!good || *at != '\0')
		return err_set(err,
			       "%s is no table name: write name or schema.name, with \"quotes\" around a part that "
			       "has capitals, spaces or dots",
			       text);
	if (schema_len > TABLENAME_MAX_BYTES || name_len > TABLENAME_MAX_BYTES)
		return err_set(err, "%s: a name has at most %d bytes", text, TABLENAME_MAX_BYTES);
	return true;
}
