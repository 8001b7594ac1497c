#include "core/cloudevents.h"

#include "base/utf8.h"
#include "core/pgarray.h"

/* Neither control characters nor code points that are none are in a String of the specification. */
static bool is_character(uint32_t code)
{
	return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) && !(code >= 0xfdd0 && code <= 0xfdef) &&
	       (code & 0xfffe) != 0xfffe;
}

static bool is_string(struct slice text)
{
	uint32_t code = 0;
	size_t at, len;

	for (at = 0; at < text.len; at += len) {
		len = utf8_read(text.bytes + at, text.len - at, &code);
		if (len == 0 || !is_character(code))
			return false;
	}
	return text.bytes != NULL && text.len > 0;
}

/* RFC 3339, or SLICE_NULL. */
static struct slice time_text(struct headers *headers, struct slice created_at)
{
	char *text = headers_text(headers, TIMETEXT_BYTES);
	size_t len = created_at.len == sizeof(int64_t) ? timetext_rfc3339(pg_get_int8(created_at), text) : 0;

	return len > 0 ? (struct slice){text, len} : SLICE_NULL;
}

static bool is_given(const struct headers *headers, const char *name)
{
	size_t i;

	for (i = headers->from_json; i < headers->length; i++)
		if (slice_equal(headers->list[i].name, slice_of(name)))
			return true;
	return headers_has(headers, name);
}

static void add(struct headers *headers, const char *name, struct slice value)
{
	if (value.bytes != NULL && value.len > 0 && !is_given(headers, name))
		headers_add(headers, slice_of(name), value);
}

void cloudevents_add(struct headers *headers, const struct cloudevent *event)
{
	add(headers, "ce_specversion", slice_of("1.0"));
	add(headers, "ce_id", event->id);
	add(headers, "ce_source", event->source);
	add(headers, "ce_type", event->type);
	add(headers, "ce_subject", is_string(event->subject) ? event->subject : SLICE_NULL);
	add(headers, "ce_time", time_text(headers, event->created_at));
	add(headers, "content-type", event->media_type);
}

static struct slice value_of(const struct message *message, const char *name)
{
	size_t i = headers_find(message, name);

	return i < message->n_headers ? message->headers[i].value : SLICE_NULL;
}

bool cloudevents_check(const struct message *message, struct err *err)
{
	static const char *const required[] = {"ce_id", "ce_source", "ce_type"};
	size_t i;

	for (i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (!is_string(value_of(message, required[i])))
			return err_set(
				err,
				"no CloudEvent: %s is missing, empty, or has characters that are none of a text",
				required[i]);
	if (!slice_equal(value_of(message, "ce_specversion"), slice_of("1.0")))
		return err_set(err, "no CloudEvent 1.0: the headers have another ce_specversion");
	return true;
}
