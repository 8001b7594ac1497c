#include "replay_rows.h"

#include <stdlib.h>
#include <string.h>

char *replay_word(char **rest)
{
	char *at = strsep(rest, " \n");

	return at == NULL ? "" : at;
}

int replay_number(char **rest)
{
	return (int)strtol(replay_word(rest), NULL, 10);
}

struct slice replay_unhex(const char *text, char *bytes)
{
	size_t n = strlen(text) / 2;

	if (text[0] == '-' || text[0] == '\0')
		return SLICE_NULL;
	for (size_t i = 0; i < n; i++) {
		char digits[3] = {text[1 + 2 * i], text[2 + 2 * i], '\0'};

		bytes[i] = (char)strtol(digits, NULL, 16);
	}
	bytes[n] = '\0';
	return (struct slice){bytes, n};
}

void replay_insert(char *rest, struct buf *sql)
{
	const char *id = replay_word(&rest), *key = replay_word(&rest), *topic = replay_word(&rest),
		   *payload = replay_word(&rest), *created = replay_word(&rest);

	buf_print(
		sql,
		"INSERT INTO public.event_outbox (id, event_id, aggregate_id, event_type, payload, available_at, created_at)"
		" VALUES (%s, 'event-%s'",
		id, id);
	for (int i = 0; i < 3; i++) {
		const char *text = i == 0 ? key : i == 1 ? topic : payload;

		if (text[0] == '-')
			buf_add_string(sql, ", NULL");
		else
			buf_print(sql, ", convert_from('\\%s', 'UTF8')", text);
	}
	buf_print(sql, ", outbox.time(%s), outbox.time(%s))", created, created);
}

static void add_time(struct buf *sql, const char *column, const char *text)
{
	if (text[0] == '-')
		buf_print(sql, ", %s = NULL", column);
	else if (text[0] == 'i')
		buf_print(sql, ", %s = 'infinity'", column);
	else
		buf_print(sql, ", %s = outbox.time(%s)", column, text);
}

static void add_text(struct buf *sql, const char *column, const char *text)
{
	if (text[0] == '-')
		buf_print(sql, ", %s = NULL", column);
	else
		buf_print(sql, ", %s = convert_from('\\%s', 'UTF8')", column, text);
}

void replay_change(char *rest, const char *const states[], struct buf *sql)
{
	static const char *const texts[] = {"lease_owner", "last_error", "payload"};
	static const char *const times[] = {"available_at", "lease_until", "settled_at"};
	const char *id = replay_word(&rest);

	if (replay_number(&rest) != 0) {
		buf_print(sql, "DELETE FROM public.event_outbox WHERE id = %s", id);
	} else {
		buf_print(sql, "UPDATE public.event_outbox SET status = '%s'", states[replay_number(&rest)]);
		buf_print(sql, ", attempts = %d", replay_number(&rest));
		for (int i = 0; i < 3; i++)
			add_time(sql, times[i], replay_word(&rest));
		for (int i = 0; i < 3; i++)
			add_text(sql, texts[i], replay_word(&rest));
		buf_print(sql, " WHERE id = %s", id);
	}
}
