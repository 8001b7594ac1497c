#include "core/jsontext.h"

#include "base/utf8.h"

#include <string.h>

json_t *jsontext_new(const char *text)
{
	struct buf valid = {0};
	json_t *json;

	if (text == NULL)
		return json_null();
	utf8_add(&valid, text, strlen(text));
	json = json_string(buf_text(&valid));
	buf_free(&valid);
	return json;
}
