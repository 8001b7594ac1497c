#include "relay/reload.h"

#include "base/log.h"
#include "config/diff.h"
#include "io/judge.h"

#include <string.h>

static void reject_mistakes(const char *problems)
{
	const char *end;

	for (; (end = strchr(problems, '\n')) != NULL; problems = end + 1)
		LOG(LOG_ERROR, "reload_rejected", log_bytes("reason", problems, (size_t)(end - problems)));
}

static bool waits_for_restart(const struct config *running, const struct config *read)
{
	struct diff diff = {0};
	bool waits;

	diff_find(running, read, &diff);
	waits = diff.restart.len > 0;
	if (waits)
		LOG(LOG_ERROR, "reload_rejected", log_str("settings", buf_text(&diff.restart)),
		    log_str("reason", "these wait for a restart, and with them the whole file"));
	diff_free(&diff);
	return waits;
}

struct config *reload_read(const struct config *running)
{
	struct buf problems = {0};
	struct config *read = judge_load(running->file, running, &problems);

	if (read == NULL)
		reject_mistakes(buf_text(&problems));
	buf_free(&problems);
	if (read == NULL || !waits_for_restart(running, read))
		return read;
	config_free(read);
	return NULL;
}

static const char *or_none(const struct buf *list)
{
	return list->len > 0 ? buf_text(list) : NULL;
}

static void log_reloaded(const struct config *after, const struct diff *diff)
{
	bool anything = diff->changed.len + diff->added.len + diff->removed.len > 0;

	LOG(LOG_INFO, "reloaded", log_str("config", after->file),
	    log_str("changed", anything ? or_none(&diff->changed) : "nothing"),
	    log_str("added", or_none(&diff->added)), log_str("removed", or_none(&diff->removed)),
	    log_int("sources", (int64_t)after->n_sources));
}

void reload_tell(const struct config *before, const struct config *after)
{
	struct diff diff = {0};
	bool tells = log_enabled(LOG_INFO);

	diff_find(before, after, &diff);
	/* By whichever level shows the line. */
	if (tells)
		log_reloaded(after, &diff);
	log_configure(after->log_level, after->log_format);
	if (!tells)
		log_reloaded(after, &diff);
	diff_free(&diff);
}
