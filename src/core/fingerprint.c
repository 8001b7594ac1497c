#include "core/fingerprint.h"

#include <inttypes.h>

/* FNV-1a, the end of the text included, so that "ab", "c" is not "a", "bc". NULL is told from "". */
static uint32_t add_text(uint32_t hash, const char *text)
{
	const char *at = text == NULL ? "\001" : text;

	do {
		hash = (hash ^ (unsigned char)*at) * UINT32_C(0x01000193);
	} while (*at++ != '\0');
	return hash;
}

static uint32_t add_number(uint32_t hash, int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, number);
	return add_text(hash, text);
}

void fingerprint_write(const struct config_source *source, char out[FINGERPRINT_SIZE])
{
	uint32_t hash = UINT32_C(0x811c9dc5);
	size_t i;

	for (i = 0; i < CONFIG_COLUMNS; i++)
		hash = add_text(hash, source->columns[i]);
	for (i = 0; i < CONFIG_STATES; i++)
		hash = add_text(hash, source->states[i]);
	hash = add_text(hash, source->topic);
	for (i = 0; i < source->n_headers; i++)
		hash = add_text(add_text(hash, source->headers[i].name), source->headers[i].template_text);
	hash = add_number(hash, source->ordering);
	hash = add_number(hash, source->on_failed);
	hash = add_number(hash, source->on_delivered);
	hash = add_number(hash, source->retry.max_attempts);
	snprintf(out, FINGERPRINT_SIZE, "%08" PRIx32, hash);
}
