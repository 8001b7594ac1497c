#include "core/headers.h"

#include "base/mem.h"

#include <jansson.h>
#include <string.h>

/* jansson judges the text and knows its names, but a number that went through a double is another text (0.1 comes
 * back as 0.10000000000000001). So values are cut out of the text that it found valid, and most need no copy. */

/* Kept from row to row; a row that needs more gets it for itself. */
#define TEXT_KEPT_BYTES ((size_t)64 * 1024)

struct cursor {
	const char *at, *end;
};

void headers_free(struct headers *headers)
{
	mem_free(headers->list);
	mem_free(headers->text);
}

static bool has_byte(const struct cursor *cursor, const char *set)
{
	return cursor->at < cursor->end && *cursor->at != '\0' && strchr(set, *cursor->at) != NULL;
}

static void skip(struct cursor *cursor, const char *set)
{
	while (has_byte(cursor, set))
		cursor->at++;
}

/* From the opening quote to behind the closing one. */
static void skip_string(struct cursor *cursor)
{
	for (cursor->at++; cursor->at < cursor->end && *cursor->at != '"'; cursor->at++) {
		if (*cursor->at == '\\' && cursor->end - cursor->at > 1)
			cursor->at++;
	}
	if (cursor->at < cursor->end)
		cursor->at++;
}

/* Over a string, a number or a word, or an object or array with all that is in it. */
static void skip_value(struct cursor *cursor)
{
	size_t depth = 0;

	while (cursor->at < cursor->end) {
		if (depth == 0 && has_byte(cursor, ",:} \t\r\n"))
			return;
		if (has_byte(cursor, "\"")) {
			skip_string(cursor);
			continue;
		}
		if (has_byte(cursor, "{["))
			depth++;
		else if (has_byte(cursor, "}]"))
			depth--;
		cursor->at++;
	}
}

/* The next name or value of the outermost object; false at its end. */
static bool next_token(struct cursor *cursor, struct slice *token)
{
	skip(cursor, ",: \t\r\n");
	token->bytes = cursor->at;
	skip_value(cursor);
	token->len = (size_t)(cursor->at - token->bytes);
	return token->len > 0;
}

char *headers_text(struct headers *headers, size_t len)
{
	char *text = headers->text + headers->text_used;

	headers->text_used += len;
	return text;
}

/* What a string stands for: as it is between its quotes, or unescaped into the text block (never longer). */
static struct slice unquote(struct headers *headers, struct slice token)
{
	struct slice plain = {token.bytes + 1, token.len - 2};
	json_t *string;
	char *copy;

	if (memchr(plain.bytes, '\\', plain.len) == NULL)
		return plain;
	string = json_loadb(token.bytes, token.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	plain.len = json_string_length(string);
	copy = headers_text(headers, plain.len);
	if (plain.len > 0)
		memcpy(copy, json_string_value(string), plain.len);
	plain.bytes = copy;
	json_decref(string);
	return plain;
}

void headers_add(struct headers *headers, struct slice name, struct slice value)
{
	if (headers->length == headers->size) {
		headers->size = headers->size * 2 + 16;
		headers->list = mem_resize(headers->list, headers->size, sizeof(*headers->list));
	}
	headers->list[headers->length++] = (struct message_header){name, value};
}

/* Lists every member that is not null. */
static void list_members(struct headers *headers, struct slice json)
{
	struct cursor cursor = {json.bytes, json.bytes + json.len};
	struct slice name, value;

	skip(&cursor, " \t\r\n");
	cursor.at++; /* the brace */
	while (next_token(&cursor, &name) && next_token(&cursor, &value)) {
		if (value.bytes[0] == 'n')
			continue;
		name = unquote(headers, name);
		headers_add(headers, name, value.bytes[0] == '"' ? unquote(headers, value) : value);
	}
	headers->from_json = headers->length;
}

/* jansson's own sentence would quote the row's data. */
static bool refuse(const json_error_t *error, struct err *err)
{
	if (json_error_code(error) == json_error_duplicate_key)
		return err_set(err, "the headers have a name twice: at line %d, column %d", error->line,
			       error->column);
	return err_set(err, "the headers are no JSON object: mistake at line %d, column %d", error->line,
		       error->column);
}

static bool read_json(struct headers *headers, struct slice json, struct err *err)
{
	json_error_t error;

	if (json.len > HEADERS_JSON_MAX_BYTES)
		return err_set(err, "the headers are %zu bytes of JSON; %d are allowed", json.len,
			       HEADERS_JSON_MAX_BYTES);
	/* jansson bounds the nesting. As reals, for an integer beyond 64 bits is a fine header. */
	headers->json = json_loadb(json.bytes, json.len,
				   JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, &error);
	if (headers->json == NULL)
		return refuse(&error, err);
	if (!json_is_object(headers->json)) {
		json_decref(headers->json);
		headers->json = NULL;
		return err_set(err, "the headers are no JSON object but an array");
	}
	list_members(headers, json);
	return true;
}

bool headers_begin(struct headers *headers, struct slice json, size_t text_bytes, struct err *err)
{
	size_t need = text_bytes + json.len;

	need = need > TEXT_KEPT_BYTES ? need : TEXT_KEPT_BYTES;
	if (need != headers->text_size) {
		headers->text = mem_resize(headers->text, need, 1);
		headers->text_size = need;
	}
	headers->text_used = 0;
	headers->length = headers->from_json = 0;
	return json.bytes == NULL || read_json(headers, json, err);
}

bool headers_has(const struct headers *headers, const char *name)
{
	return json_object_get(headers->json, name) != NULL;
}

void headers_end(struct headers *headers, struct message *message)
{
	message->n_headers = headers->length;
	message->headers = headers->length == 0 ? NULL : headers->list;
	json_decref(headers->json);
	headers->json = NULL;
}

size_t headers_find(const struct message *message, const char *name)
{
	struct slice wanted = slice_of(name);
	size_t i = 0;

	while (i < message->n_headers && !slice_equal(message->headers[i].name, wanted))
		i++;
	return i;
}

void headers_take_out(struct headers *headers, struct message *message, size_t i)
{
	memmove(&headers->list[i], &headers->list[i + 1], (--message->n_headers - i) * sizeof(headers->list[0]));
}
