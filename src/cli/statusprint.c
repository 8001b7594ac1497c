#include "cli/status.h"

#include "core/jsontext.h"

#include <string.h>

static const struct {
	const char *title, *name;
	enum sql_count_column column;
} states[] = {
	{"PENDING", "pending", SQL_N_PENDING},	     {"PARKED", "parked", SQL_N_PARKED},
	{"IN_FLIGHT", "in_flight", SQL_N_IN_FLIGHT}, {"FAILED", "failed", SQL_N_FAILED},
	{"UNKNOWN", "unknown", SQL_N_UNKNOWN},
};
#define STATES (sizeof(states) / sizeof(states[0]))

/* ---- for people ---- */

static void write_duration(long long seconds, char *text, size_t size)
{
	if (seconds < 60)
		snprintf(text, size, "%llds", seconds);
	else if (seconds < 3600)
		snprintf(text, size, "%lldm %llds", seconds / 60, seconds % 60);
	else if (seconds < 86400)
		snprintf(text, size, "%lldh %lldm", seconds / 3600, seconds / 60 % 60);
	else
		snprintf(text, size, "%lldd %lldh", seconds / 86400, seconds / 3600 % 24);
}

static void print_age(const struct status_row *row)
{
	char text[32] = "-";

	if (row->exit_code == CLI_OK && row->has_oldest)
		write_duration((long long)(row->counts[SQL_N_OLDEST_US] / 1000000), text, sizeof(text));
	printf("  %9s", text);
}

static void print_count(const struct status_row *row, enum sql_count_column column, int width)
{
	char text[32] = "-";

	/* Which of the numbers met the bound, the query does not say. */
	if (row->exit_code == CLI_OK && row->counts[column] != STATUS_UNCOUNTED)
		snprintf(text, sizeof(text), "%lld%s", (long long)row->counts[column], row->bounded ? "+" : "");
	printf("  %*s", width, text);
}

static void print_row(const struct status_row *row, const int widths[2])
{
	size_t i;

	printf("%-*s  %-*s", widths[0], row->source->name, widths[1], row->source->table);
	for (i = 0; i < STATES; i++)
		print_count(row, states[i].column, 9);
	print_age(row);
	print_count(row, SQL_N_BLOCKED_KEYS, 12);
	putchar('\n');
}

/* The page comes from another process: what is missing there is shown as nothing. */
static const char *get_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text == NULL ? "" : text;
}

static void print_reason(const json_t *reason)
{
	const char *source = get_text(reason, "source");

	printf("  %s%s%s: %s\n", source, source[0] == '\0' ? "" : ": ", get_text(reason, "dependency"),
	       get_text(reason, "reason"));
}

static void print_topic_fault(const json_t *fault)
{
	double since = json_number_value(json_object_get(fault, "for_seconds"));
	double next_try = json_number_value(json_object_get(fault, "next_try_seconds"));
	bool trying = strcmp(get_text(fault, "state"), "trying") == 0;
	char duration[32], when[32];

	write_duration((long long)since, duration, sizeof(duration));
	write_duration((long long)(next_try + 0.5), when, sizeof(when));
	printf("  %s: topic %s: refuses its rows for %s, %lld put off, %s%s: %s\n", get_text(fault, "source"),
	       get_text(fault, "topic"), duration,
	       (long long)json_integer_value(json_object_get(fault, "rows_put_off")),
	       trying	      ? "trying now"
	       : next_try > 0 ? "next try in "
			      : "next try with the next row",
	       trying || next_try <= 0 ? "" : when, get_text(fault, "reason"));
}

static void print_daemon(const struct config_http *http, const json_t *view, const struct err *err)
{
	const json_t *entry;
	size_t i;

	if (http->host == NULL)
		printf("daemon: unknown, for http.listen is off\n");
	else if (view == NULL)
		printf("daemon: down, or not at %s port %d (%s)\n", http->host, http->port, err->text);
	else
		printf("daemon: %s\n", json_is_true(json_object_get(view, "ready")) ? "ready" : "not ready");
	json_array_foreach(json_object_get(view, "reasons"), i, entry)
	{
		print_reason(entry);
	}
	json_array_foreach(json_object_get(view, "topic_faults"), i, entry)
	{
		print_topic_fault(entry);
	}
}

static int wider(int width, const char *text)
{
	int len = (int)strlen(text);

	return len > width ? len : width;
}

static void print_table(const struct status_row *rows, size_t n_rows)
{
	int widths[2] = {6, 5};
	bool bounded = false;
	size_t i;

	for (i = 0; i < n_rows; i++) {
		widths[0] = wider(widths[0], rows[i].source->name);
		widths[1] = wider(widths[1], rows[i].source->table);
		bounded = bounded || rows[i].bounded;
	}
	printf("\n%-*s  %-*s", widths[0], "SOURCE", widths[1], "TABLE");
	for (i = 0; i < STATES; i++)
		printf("  %9s", states[i].title);
	printf("  %9s  %12s\n", "OLDEST", "BLOCKED_KEYS");
	for (i = 0; i < n_rows; i++)
		print_row(&rows[i], widths);
	if (bounded)
		printf("\n+: counting stopped at %d rows; there may be more\n", SQL_COUNT_BOUND);
}

void status_print_text(const struct config_http *http, const json_t *view, const struct err *err,
		       const struct status_row *rows, size_t n_rows)
{
	print_daemon(http, view, err);
	print_table(rows, n_rows);
}

/* ---- for programs ---- */

static json_t *count_to_json(int64_t count)
{
	return count == STATUS_UNCOUNTED ? json_null() : json_integer(count);
}

static json_t *row_to_json(const struct status_row *row)
{
	json_t *json = json_pack("{s:s, s:s, s:n, s:n, s:n}", "name", row->source->name, "table",
				 row->source->table, "rows", "oldest_pending_age_seconds", "blocked_keys");
	json_t *counts;
	size_t i;

	if (row->exit_code != CLI_OK) {
		json_object_set_new(json, "error", jsontext_new(row->err.text));
		return json;
	}
	counts = json_object();
	for (i = 0; i < STATES; i++)
		json_object_set_new(counts, states[i].name, count_to_json(row->counts[states[i].column]));
	json_object_set_new(json, "rows", counts);
	if (row->has_oldest)
		json_object_set_new(json, "oldest_pending_age_seconds",
				    json_real((double)row->counts[SQL_N_OLDEST_US] / 1e6));
	json_object_set_new(json, "blocked_keys", count_to_json(row->counts[SQL_N_BLOCKED_KEYS]));
	json_object_set_new(json, "bounded", json_boolean(row->bounded));
	return json;
}

void status_print_json(json_t *view, const struct status_row *rows, size_t n_rows)
{
	json_t *sources = json_array(), *json;
	size_t i;

	for (i = 0; i < n_rows; i++)
		json_array_append_new(sources, row_to_json(&rows[i]));
	json = json_pack("{s:s, s:O?, s:o}", "version", OUTBOXD_VERSION, "daemon", view, "sources", sources);
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	putchar('\n');
	json_decref(json);
}
