#include "core/check.h"

#include "base/mem.h"
#include "core/jsontext.h"

#include <stdarg.h>
#include <string.h>

static const struct kind {
	const char *name;
	enum check_level level;
	enum check_cause cause;
	const char *sentence;
} kinds[CHECK_KINDS] = {
	[CHECK_FILE] = {"file", CHECK_OK, CHECK_NOBODY, "the file has no mistake"},
	[CHECK_FILE_WRONG] = {"file_wrong", CHECK_ERROR, CHECK_WRONG, "a mistake of the file, with its place"},
	[CHECK_DATABASE] = {"database", CHECK_OK, CHECK_NOBODY, "a server that can be written to answers"},
	[CHECK_DATABASE_UNREACHABLE] = {"database_unreachable", CHECK_ERROR, CHECK_UNREACHABLE,
					"no server answers in time, or the connection was lost"},
	[CHECK_DATABASE_REFUSED] = {"database_refused", CHECK_ERROR, CHECK_DENIED,
				    "the server refuses the role or its password"},
	[CHECK_DATABASE_WRONG] = {"database_wrong", CHECK_ERROR, CHECK_WRONG,
				  "there is no such database, or the connection string is wrong"},
	[CHECK_STANDBY] = {"standby", CHECK_ERROR, CHECK_UNREACHABLE,
			   "the server is a standby: rows can be claimed on the primary only"},
	[CHECK_READ_ONLY] = {"read_only", CHECK_ERROR, CHECK_UNREACHABLE,
			     "transactions are read-only: no row can be claimed"},
	[CHECK_TABLE] = {"table", CHECK_OK, CHECK_NOBODY,
			 "the table has the columns, types, states and privileges"},
	[CHECK_TABLE_MISSING] = {"table_missing", CHECK_ERROR, CHECK_WRONG, "there is no such table"},
	[CHECK_TABLE_UNFIT] = {"table_unfit", CHECK_ERROR, CHECK_WRONG,
			       "a column is missing or has the wrong type, a state has no label, or rows cannot be "
			       "changed"},
	[CHECK_PRIVILEGE_MISSING] = {"privilege_missing", CHECK_ERROR, CHECK_DENIED,
				     "the role may not read or write a column, or not delete"},
	[CHECK_ROWS_HIDDEN] = {"rows_hidden", CHECK_ERROR, CHECK_DENIED,
			       "row-level security lets the role see or change no row at all"},
	[CHECK_ROWS_POLICED] = {"rows_policed", CHECK_WARN, CHECK_NOBODY,
				"policies decide which rows the role sees: others are never sent"},
	[CHECK_STATE_REFUSED] = {"state_refused", CHECK_ERROR, CHECK_WRONG,
				 "a CHECK constraint refuses a state that the relay writes"},
	[CHECK_STATE_UNKNOWN] = {"state_unknown", CHECK_WARN, CHECK_NOBODY,
				 "rows are in a state that the mapping does not name: they are never touched"},
	[CHECK_ID_NOT_UNIQUE] = {"id_not_unique", CHECK_ERROR, CHECK_WRONG,
				 "no unique index holds the id, or the order: rows could be confused"},
	[CHECK_ORDER_RANDOM] =
		{"order_random", CHECK_WARN, CHECK_NOBODY,
		 "rows of a key are ordered by a random id: their order is undefined, within a transaction "
		 "too"},
	[CHECK_TIME_ZONE_MISSING] = {"time_zone_missing", CHECK_WARN, CHECK_NOBODY,
				     "times without time zone mean what each writer's session means"},
	[CHECK_COLUMN_LEFT_OUT] = {"column_left_out", CHECK_OK, CHECK_NOBODY,
				   "optional columns that the table lacks, and what does not happen therefore"},
	[CHECK_DUE_INDEX_MISSING] = {"due_index_missing", CHECK_WARN, CHECK_NOBODY,
				     "each claim reads the whole table"},
	[CHECK_KEY_INDEX_MISSING] = {"key_index_missing", CHECK_WARN, CHECK_NOBODY,
				     "each claim reads all open rows, to find those of its keys"},
	[CHECK_INDEX_INVALID] = {"index_invalid", CHECK_WARN, CHECK_NOBODY,
				 "an index was not finished: it costs and is not used"},
	[CHECK_SETTLED_AT_MISSING] = {"settled_at_missing", CHECK_WARN, CHECK_NOBODY,
				      "without a column settled_at each claim and settle writes every index"},
	[CHECK_EVENT_ID_RANDOM] = {"event_id_random", CHECK_OK, CHECK_NOBODY,
				   "random identities make their unique index large and slow"},
	[CHECK_TABLE_SETTINGS] = {"table_settings", CHECK_WARN, CHECK_NOBODY,
				  "the table has no room for HOT updates, or is vacuumed late"},
	[CHECK_AUTOVACUUM_OFF] = {"autovacuum_off", CHECK_WARN, CHECK_NOBODY,
				  "dead rows stay, and claims slow down"},
	[CHECK_BLOAT] = {"bloat", CHECK_WARN, CHECK_NOBODY, "more dead rows than living ones"},
	[CHECK_SNAPSHOT_OLD] = {"snapshot_old", CHECK_WARN, CHECK_NOBODY,
				"somebody holds an old snapshot, for which dead rows are kept"},
	[CHECK_HISTORY_KEPT] = {"history_kept", CHECK_WARN, CHECK_NOBODY,
				"sent rows stay for ever: nothing deletes them"},
	[CHECK_JIT] = {"jit", CHECK_OK, CHECK_NOBODY, "JIT is on in the server, and off where the relay works"},
	[CHECK_JIT_ON] = {"jit_on", CHECK_WARN, CHECK_NOBODY,
			  "JIT is on where the relay works: compiling a claim takes longer than running it"},
	[CHECK_CLOCK_DIFFERS] = {"clock_differs", CHECK_WARN, CHECK_NOBODY,
				 "this host and the database disagree about the time"},
	[CHECK_NOTIFY] = {"notify", CHECK_OK, CHECK_NOBODY, "a NOTIFY of one's own was heard"},
	[CHECK_NOTIFY_UNHEARD] = {"notify_unheard", CHECK_WARN, CHECK_NOBODY,
				  "LISTEN does not work, as behind a pooler in transaction mode: rows wait for the "
				  "next poll"},
	[CHECK_TRIGGER_MISSING] = {"trigger_missing", CHECK_WARN, CHECK_NOBODY,
				   "no trigger notifies the relay: rows wait for the next poll"},
	[CHECK_LEASE] = {"lease", CHECK_OK, CHECK_NOBODY,
			 "the lease outlasts a delivery and the statements around it"},
	[CHECK_LEASE_SHORT] = {"lease_short", CHECK_WARN, CHECK_NOBODY,
			       "rows of a slow claim have no time left to be delivered in"},
	[CHECK_RELAYS_DIFFER] = {"relays_differ", CHECK_WARN, CHECK_NOBODY,
				 "a relay with other settings holds rows of the same table"},
	[CHECK_BROKER] = {"broker", CHECK_OK, CHECK_NOBODY, "the brokers answer"},
	[CHECK_BROKER_UNREACHABLE] = {"broker_unreachable", CHECK_ERROR, CHECK_UNREACHABLE,
				      "no broker answers in time"},
	[CHECK_BROKER_REFUSED] = {"broker_refused", CHECK_ERROR, CHECK_DENIED,
				  "the brokers refuse the user or its password"},
	[CHECK_TOPIC] = {"topic", CHECK_OK, CHECK_NOBODY, "the topic is there and takes what is in the table"},
	[CHECK_TOPIC_MISSING] = {"topic_missing", CHECK_ERROR, CHECK_WRONG, "there is no such topic"},
	[CHECK_TOPIC_MADE_LATER] = {"topic_made_later", CHECK_WARN, CHECK_NOBODY,
				    "there is no such topic, and the brokers make it with their own defaults"},
	[CHECK_TOPIC_DENIED] = {"topic_denied", CHECK_ERROR, CHECK_DENIED, "the topic is not ours to see"},
	[CHECK_TOPIC_UNREAD] = {"topic_unread", CHECK_WARN, CHECK_NOBODY,
				"the topic's settings cannot be read, so they were not checked"},
	[CHECK_TOPIC_TOO_SMALL] = {"topic_too_small", CHECK_ERROR, CHECK_WRONG,
				   "an open row is larger than the topic takes: it will fail"},
	[CHECK_MESSAGE_TOO_LARGE] = {"message_too_large", CHECK_ERROR, CHECK_WRONG,
				     "an open row is larger than the producer takes: it will fail"},
	[CHECK_TOPIC_COMPACTED] = {"topic_compacted", CHECK_ERROR, CHECK_WRONG,
				   "a compacted topic takes no record without a key"},
	[CHECK_REPLICAS_TOO_FEW] =
		{"replicas_too_few", CHECK_ERROR, CHECK_WRONG,
		 "min.insync.replicas asks for more copies than the topic has: acks=all can never be given"},
	[CHECK_REPLICAS_UNSAFE] =
		{"replicas_unsafe", CHECK_WARN, CHECK_NOBODY,
		 "a record counts as delivered with a single copy of it, or fewer than the topic asks for"},
};

static const char *const level_names[] = {[CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_ERROR] = "error"};

void check_init(struct check *check)
{
	*check = (struct check){.arena = arena_new()};
}

void check_free(struct check *check)
{
	arena_free(check->arena);
	mem_free(check->findings);
	*check = (struct check){0};
}

/* A finding is a line: what came from elsewhere may have several. */
static const char *one_line(struct check *check, const char *text)
{
	char *copy = arena_copy_string(check->arena, text), *at;

	for (at = copy; at != NULL && *at != '\0'; at++)
		if (*at == '\n' || *at == '\r')
			*at = ' ';
	return copy;
}

void check_add(struct check *check, enum check_kind kind, const char *source, const char *cure, const char *format,
	       ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (check->n == check->size) {
		check->size = check->size * 2 + 16;
		check->findings = mem_resize(check->findings, check->size, sizeof(*check->findings));
	}
	check->findings[check->n++] =
		(struct check_finding){kind, source, one_line(check, text), one_line(check, cure)};
}

const char *check_name(enum check_kind kind)
{
	return kinds[kind].name;
}

enum check_level check_level(enum check_kind kind)
{
	return kinds[kind].level;
}

enum check_cause check_cause(const struct check *check)
{
	enum check_cause first = CHECK_NOBODY;
	size_t i;

	for (i = 0; i < check->n; i++)
		if (kinds[check->findings[i].kind].cause < first)
			first = kinds[check->findings[i].kind].cause;
	return first;
}

void check_print(const struct check *check, FILE *out)
{
	size_t i;

	for (i = 0; i < check->n; i++) {
		const struct check_finding *finding = &check->findings[i];

		fprintf(out, "%-5s  ", level_names[kinds[finding->kind].level]);
		if (finding->source != NULL)
			fprintf(out, "%s: ", finding->source);
		fprintf(out, "%s: %s%s%s\n", kinds[finding->kind].name, finding->text,
			finding->cure == NULL ? "" : " => ", finding->cure == NULL ? "" : finding->cure);
	}
}

json_t *check_to_json(const struct check *check)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < check->n; i++) {
		const struct check_finding *finding = &check->findings[i];

		json_array_append_new(
			array,
			json_pack("{s:s, s:o, s:s, s:o, s:o}", "level", level_names[kinds[finding->kind].level],
				  "source", jsontext_new(finding->source), "finding", kinds[finding->kind].name,
				  "message", jsontext_new(finding->text), "cure", jsontext_new(finding->cure)));
	}
	return array;
}

static const char *exit_of(enum check_cause cause)
{
	static const char *const exits[] = {
		[CHECK_UNREACHABLE] = "69", [CHECK_DENIED] = "77", [CHECK_WRONG] = "78", [CHECK_NOBODY] = ""};

	return exits[cause];
}

void check_print_reference(FILE *out)
{
	int kind;

	fprintf(out, "%-20s  %-5s  %-4s  %s\n", "FINDING", "LEVEL", "EXIT", "MEANING");
	for (kind = 0; kind < CHECK_KINDS; kind++)
		fprintf(out, "%-20s  %-5s  %-4s  %s\n", kinds[kind].name, level_names[kinds[kind].level],
			exit_of(kinds[kind].cause), kinds[kind].sentence);
}
