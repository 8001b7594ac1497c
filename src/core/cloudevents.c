#include "core/cloudevents.h"

#include "base/utf8.h"
#include "core/pgarray.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND_US INT64_C(1000000)
#define DAY_US (86400 * SECOND_US)
/* Of 0001-01-01 and 10000-01-01, from PostgreSQL's 2000-01-01: RFC 3339 has years of four digits. */
#define FIRST_DAY INT64_C(-730119)
#define BEHIND_LAST_DAY INT64_C(2921940)

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

/* ---- time ---- */

struct date {
	int64_t year;
	int month, day;
};

/* Days from 2000-01-01 to a date of the Gregorian calendar. Years begin in March, so that a leap day is the last; 306 days are
 * those from March to December, and 5 months of 153 days the rhythm of their lengths. */
static struct date date_of(int64_t day)
{
	int64_t since = day + 730425; /* from 0000-03-01 */
	int64_t era = since / 146097, of_era = since % 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;

	return (struct date){.year = year + era * 400 + (month >= 10),
			     .month = (int)(month < 10 ? month + 3 : month - 9),
			     .day = (int)(of_year - (153 * month + 2) / 5 + 1)};
}

/* RFC 3339 in UTC, or SLICE_NULL. */
static struct slice time_text(struct headers *headers, struct slice created_at)
{
	int64_t us = created_at.len == sizeof(int64_t) ? pg_get_int8(created_at) : INT64_MIN;
	int64_t day = us / DAY_US - (us % DAY_US < 0);
	struct date date;
	char *text;
	int len;

	if (day < FIRST_DAY || day >= BEHIND_LAST_DAY)
		return SLICE_NULL;
	us -= day * DAY_US;
	date = date_of(day);
	text = headers_text(headers, CLOUDEVENTS_TEXT_BYTES);
	len = snprintf(text, CLOUDEVENTS_TEXT_BYTES,
		       "%04" PRId64 "-%02d-%02dT%02" PRId64 ":%02" PRId64 ":%02" PRId64 ".%06" PRId64 "Z",
		       date.year, date.month, date.day, us / (3600 * SECOND_US), us / (60 * SECOND_US) % 60,
		       us / SECOND_US % 60, us % SECOND_US);
	return (struct slice){text, (size_t)len};
}

/* ---- headers ---- */

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
