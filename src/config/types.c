#include "config/types.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "config/condition.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/tablename.h"
#include "config/template.h"
#include "config/value.h"

#include <inttypes.h>
#include <string.h>

static bool quoted_err(struct err *err, const char *text, const char *what)
{
	return err_set(err, "\"%s\" %s", text, what);
}

static bool read_listen(struct arena *arena, const char *text, struct config_http *http, struct err *err)
{
	const char *host = text, *colon = strrchr(text, ':'), *end = colon;
	int64_t port;

	if (colon != NULL && text[0] == '[' && colon > text && colon[-1] == ']') {
		host++;
		end--;
	} else if (colon == NULL || memchr(text, ':', (size_t)(colon - text)) != NULL) {
		return quoted_err(err, text, "must be host:port or [v6]:port, with a port from 1 to 65535");
	}
	if (end <= host || !value_integer(colon + 1, &port) || port < 1 || port > 65535 ||
	    strcspn(text, " \t\r\n/@") != strlen(text))
		return quoted_err(err, text, "must be host:port or [v6]:port, with a port from 1 to 65535");
	http->host = arena_copy_bytes(arena, host, (size_t)(end - host));
	http->port = (int)port;
	return true;
}

static bool check_name(const char *text, struct err *err)
{
	size_t len = strlen(text);

	if (len == 0 || len > TABLENAME_MAX_BYTES || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") != len)
		return quoted_err(err, text, "must be 1 to 63 lower-case letters, digits, _ or -");
	return true;
}

static bool check_identifier(const char *text, struct err *err)
{
	size_t len = strlen(text);

	if (len == 0)
		return err_set(err, "must not be empty (~ is none)");
	if (len > TABLENAME_MAX_BYTES)
		return err_set(err, "\"%s\" has %zu bytes; PostgreSQL's names have at most %d", text, len,
			       TABLENAME_MAX_BYTES);
	if (len > 1 && text[0] == '"' && text[len - 1] == '"')
		return err_set(err, "%s must be written without the quotes: it is taken exactly as it stands",
			       text);
	return true;
}

static bool check_text(const struct key *key, const char *text, struct err *err)
{
	struct tablename table;

	switch (key->type) {
	case KEY_DSN:
		return true;
	case KEY_NAME:
		return check_name(text, err);
	case KEY_TABLE:
		return tablename_parse(text, &table, err);
	case KEY_IDENTIFIER:
		return check_identifier(text, err);
	case KEY_CONDITION:
		return condition_check(text, err);
	default:
		return text[0] != '\0' || err_set(err, "must not be empty");
	}
}

static bool read_text(struct arena *arena, const struct key *key, const char *text, const char **field,
		      struct err *err)
{
	struct template template;
	struct err why;

	if (key->type == KEY_TEMPLATE && !template_parse(arena, text, &template, &why))
		return err_set(err, "\"%s\": %s", text, why.text);
	if (!check_text(key, text, err))
		return false;
	*field = arena_copy_string(arena, text);
	return true;
}

/* The number of a word; -1 and err with the nearest one when there is none such. */
static int find_word(const struct key *key, const char *text, struct err *err)
{
	struct buf message = {0};
	const char *nearest = NULL;
	size_t best = SIZE_MAX;

	for (int i = 0; key->words[i] != NULL; i++) {
		if (strcmp(key->words[i], text) == 0) {
			buf_free(&message);
			return i;
		}
		buf_print(&message, "%s%s", i > 0 ? ", " : "", key->words[i]);
		if (value_distance(text, key->words[i]) < best) {
			nearest = key->words[i];
			best = value_distance(text, nearest);
		}
	}
	err_set(err, "\"%s\" must be one of %s%s%s%s", text, buf_text(&message),
		nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
		nearest == NULL ? "" : "?)");
	buf_free(&message);
	return -1;
}

static bool range_err(const struct key *key, const char *text, const char *must_be, const char *example,
		      struct err *err)
{
	struct buf range = {0};

	types_print_range(&range, key);
	err_set(err, "\"%s\" must be %s%s%s", text, must_be, buf_text(&range), example);
	buf_free(&range);
	return false;
}

static bool read_quantity(const struct key *key, const char *text, int64_t *field, struct err *err)
{
	int64_t value = 0;
	bool good;

	if (key->type == KEY_DURATION)
		good = value_duration(text, &value);
	else if (key->type == KEY_SIZE)
		good = value_size(text, &value);
	else
		good = value_integer(text, &value);
	if (good && value >= key->min && value <= key->max) {
		*field = value;
		return true;
	}
	if (key->type == KEY_DURATION)
		return range_err(key, text, "a duration", ", such as 250ms, 5s, 10m, 2h, 7d", err);
	if (key->type == KEY_SIZE)
		return range_err(key, text, "a size", ", such as 64KiB, 1MiB", err);
	return range_err(key, text, "a whole number", "", err);
}

static bool read_number(const struct key *key, const char *text, double *field, struct err *err)
{
	double value;

	if (!value_number(text, &value) || value < (double)key->min || value > (double)key->max)
		return range_err(key, text, "a number", ", with up to 6 decimals", err);
	*field = value;
	return true;
}

bool types_parse(struct arena *arena, const struct key *key, const char *text, void *field, struct err *err)
{
	int word;

	switch (key->type) {
	case KEY_INTEGER:
	case KEY_DURATION:
	case KEY_SIZE:
		return read_quantity(key, text, field, err);
	case KEY_NUMBER:
		return read_number(key, text, field, err);
	case KEY_LISTEN:
		return read_listen(arena, text, field, err);
	case KEY_WORD:
	case KEY_CHOICE:
		word = find_word(key, text, err);
		if (word < 0)
			return false;
		if (key->type == KEY_WORD)
			memcpy(field, &(unsigned){(unsigned)word}, sizeof(unsigned));
		else
			*(const char **)field = key->words[word];
		return true;
	default:
		return read_text(arena, key, text, field, err);
	}
}

void types_set_none(const struct key *key, void *field)
{
	switch (key->type) {
	case KEY_LISTEN:
		*(struct config_http *)field = (struct config_http){0};
		break;
	case KEY_INTEGER:
	case KEY_DURATION:
	case KEY_SIZE:
		*(int64_t *)field = 0;
		break;
	default:
		*(const char **)field = NULL;
	}
}

static bool is_plain(const char *text)
{
	static const char *const not_text[] = {"null", "Null", "NULL"};
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";

	for (size_t i = 0; i < sizeof(not_text) / sizeof(not_text[0]); i++)
		if (strcmp(text, not_text[i]) == 0)
			return false;
	return text[0] != '\0' && text[0] != '-' && text[0] != '.' && strspn(text, allowed) == strlen(text);
}

static void print_quoted_character(struct buf *out, const char *at, size_t length, uint32_t code)
{
	if (code == '"' || code == '\\')
		buf_print(out, "\\%c", (int)code);
	else if (code == '\n')
		buf_add_string(out, "\\n");
	else if (code < 0x20 || (code >= 0x7F && code < 0xA0))
		buf_print(out, "\\x%02x", (unsigned)code);
	else if (code == '$')
		buf_add_string(out, "$$");
	else
		buf_add(out, at, length);
}

void types_print_text(struct buf *out, const char *text)
{
	size_t length;
	uint32_t code;

	if (is_plain(text)) {
		buf_add_string(out, text);
		return;
	}
	buf_add_char(out, '"');
	for (; *text != '\0'; text += length) {
		length = utf8_read(text, strlen(text), &code);
		if (length == 0) { /* YAML cannot say it: this is for people */
			length = 1;
			buf_add_string(out, "\xEF\xBF\xBD");
			continue;
		}
		print_quoted_character(out, text, length, code);
	}
	buf_add_char(out, '"');
}

static void print_listen(struct buf *out, const struct config_http *http)
{
	bool v6 = strchr(http->host, ':') != NULL;
	struct buf text = {0};

	buf_print(&text, v6 ? "[%s]:%d" : "%s:%d", http->host, http->port);
	types_print_text(out, buf_text(&text));
	buf_free(&text);
}

static void print_dsn(struct buf *out, const char *dsn)
{
	struct buf shown = {0};

	secret_print_dsn(&shown, dsn);
	types_print_text(out, buf_text(&shown));
	buf_free(&shown);
}

static bool is_none(const struct key *key, const void *field)
{
	switch (key->type) {
	case KEY_INTEGER:
	case KEY_DURATION:
	case KEY_SIZE:
		return (key->flags & KEY_NULLABLE) != 0 && *(const int64_t *)field == 0;
	case KEY_NUMBER:
	case KEY_WORD:
		return false;
	case KEY_LISTEN:
		return ((const struct config_http *)field)->host == NULL;
	default:
		return *(const char *const *)field == NULL;
	}
}

static void print_word(struct buf *out, const struct key *key, const void *field)
{
	unsigned word;

	memcpy(&word, field, sizeof(word));
	buf_add_string(out, key->words[word]);
}

void types_print(struct buf *out, const struct key *key, const void *field)
{
	if (is_none(key, field)) {
		buf_add_char(out, '~');
		return;
	}
	switch (key->type) {
	case KEY_INTEGER:
		buf_print(out, "%" PRId64, *(const int64_t *)field);
		return;
	case KEY_DURATION:
		value_print_duration(out, *(const int64_t *)field);
		return;
	case KEY_SIZE:
		value_print_size(out, *(const int64_t *)field);
		return;
	case KEY_NUMBER:
		value_print_number(out, *(const double *)field);
		return;
	case KEY_WORD:
		print_word(out, key, field);
		return;
	case KEY_LISTEN:
		print_listen(out, field);
		return;
	case KEY_DSN:
		print_dsn(out, *(const char *const *)field);
		return;
	default:
		types_print_text(out, *(const char *const *)field);
	}
}

void types_print_name(struct buf *out, const struct key *key)
{
	static const char *const names[] = {
		[KEY_TEXT] = "text",
		[KEY_DSN] = "connection string",
		[KEY_NAME] = "name",
		[KEY_TABLE] = "table name",
		[KEY_IDENTIFIER] = "name",
		[KEY_TEMPLATE] = "template",
		[KEY_CONDITION] = "SQL condition",
		[KEY_INTEGER] = "whole number",
		[KEY_NUMBER] = "number",
		[KEY_DURATION] = "duration",
		[KEY_SIZE] = "size",
		[KEY_LISTEN] = "address",
		[KEY_HEADERS] = "map of templates",
		[KEY_PROPERTIES] = "map of texts",
		[KEY_SECTION] = "section",
		[KEY_SOURCES] = "list of sections",
	};

	if (key->words == NULL) {
		buf_add_string(out, names[key->type]);
		return;
	}
	buf_add_string(out, "one of ");
	for (int i = 0; key->words[i] != NULL; i++)
		buf_print(out, "%s%s", i > 0 ? ", " : "", key->words[i]);
}

void types_print_range(struct buf *out, const struct key *key)
{
	if (key->min == key->max)
		return;
	buf_add_string(out, " from ");
	if (key->type == KEY_NUMBER) {
		buf_print(out, "%" PRId64 " to %" PRId64, key->min, key->max);
		return;
	}
	types_print(out, key, &key->min);
	buf_add_string(out, " to ");
	types_print(out, key, &key->max);
}
