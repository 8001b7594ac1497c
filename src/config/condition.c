#include "config/condition.h"

#include <string.h>

static const char word_begins[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char digits[] = "0123456789";

static bool is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

static bool begins_word(char c)
{
	return is_one_of(c, word_begins) || (unsigned char)c >= 0x80;
}

static bool in_word(char c)
{
	return begins_word(c) || is_one_of(c, digits) || c == '$';
}

/* Behind a quoted text, of which at is the opening quote; NULL: it does not end. Two quotes are one in it. */
static const char *skip_quoted(const char *at, bool backslashes)
{
	char mark = *at++;

	for (; *at != '\0'; at++) {
		if (backslashes && *at == '\\' && at[1] != '\0')
			at++;
		else if (*at == mark && at[1] == mark)
			at++;
		else if (*at == mark)
			return at + 1;
	}
	return NULL;
}

/* Comments of this kind may stand in one another. */
static const char *skip_comment(const char *at)
{
	int depth = 0;

	for (; *at != '\0'; at++) {
		if (at[0] == '/' && at[1] == '*') {
			depth++;
			at++;
		} else if (at[0] == '*' && at[1] == '/') {
			at++;
			if (--depth == 0)
				return at + 1;
		}
	}
	return NULL;
}

/* $tag$ ... $tag$, at stands on the first $; at + 1 when it is none. */
static const char *skip_dollars(const char *at)
{
	const char *end = at + 1, *found;
	size_t len;

	if (begins_word(*end))
		while (in_word(*end) && *end != '$')
			end++;
	if (*end != '$')
		return at + 1;
	len = (size_t)(end + 1 - at);
	for (found = strchr(end + 1, '$'); found != NULL; found = strchr(found + 1, '$'))
		if (strncmp(found, at, len) == 0)
			return found + len;
	return NULL;
}

/* A word, and the text behind it when it is one of E'...'. */
static const char *skip_word(const char *at)
{
	const char *begin = at;

	while (in_word(*at))
		at++;
	if (*at == '\'' && at == begin + 1 && is_one_of(*begin, "eE"))
		return skip_quoted(at, true);
	return at;
}

/* Behind the token at this place; NULL: it has no end. */
static const char *skip_token(const char *at)
{
	if (*at == '\'' || *at == '"')
		return skip_quoted(at, false);
	if (at[0] == '-' && at[1] == '-')
		return at + strcspn(at, "\r\n");
	if (at[0] == '/' && at[1] == '*')
		return skip_comment(at);
	if (*at == '$')
		return skip_dollars(at);
	return begins_word(*at) ? skip_word(at) : at + 1;
}

static bool is_nothing(const char *at)
{
	return is_one_of(*at, " \t\r\n\f") || strncmp(at, "--", 2) == 0 || strncmp(at, "/*", 2) == 0;
}

bool condition_check(const char *text, struct err *err)
{
	const char *at, *next;
	bool empty = true;
	int depth = 0;

	for (at = text; *at != '\0'; at = next) {
		if (*at == ';')
			return err_set(err, "must be one condition, without a semicolon");
		if (at[0] == '$' && is_one_of(at[1], digits))
			return err_set(err, "has a parameter, $%c, which nobody gives a value", at[1]);
		depth += *at == '(';
		depth -= *at == ')';
		if (depth < 0)
			return err_set(err, "closes a parenthesis that it has not opened");
		next = skip_token(at);
		if (next == NULL)
			return err_set(err, "does not close what begins with %.20s", at);
		empty = empty && is_nothing(at);
	}
	if (empty)
		return err_set(err, "must not be empty");
	return depth == 0 || err_set(err, "does not close a parenthesis that it has opened");
}
