#include "core/sqltext.h"

#include "core/rowstate.h"

#include <stdlib.h>
#include <string.h>

#define DEATHS_MAX SQLTEXT_NUMBER(SQL_DEATHS_MAX)

/* Expressions over the roles. Of several with one name the first that fits the table counts; {.role} in a text has the
 * alias of whoever names the expression. */
static const struct expression {
	const char *name;
	uint64_t when;
	const char *text;
} expressions[] = {
	/* What names a row inside one statement. ctid is its version: a row changed since the snapshot has another one, so
	 * it counts as an obstacle. Partitions repeat ctids and views have none: there it is the id. */
	{"r", SQLTEXT_PLAIN, "{.ctid}"},
	{"r", 0, "{.id}"},

	/* NULL is due now. A comparison or an index knows no NULL, so scan, order and index all use this expression. */
	{"due", SQLTEXT_NULLABLE, "coalesce({.available_at}, '-infinity')"},
	{"due", 0, "{.available_at}"},

	/* A row in flight without a lease (set by hand) has expired. */
	{"lease_end", SQLTEXT_HAS(COLUMN_LEASE_UNTIL), "coalesce({.lease_until}, '-infinity')"},
	{"lease_end", 0, "{.due}"},
	{"lease", SQLTEXT_HAS(COLUMN_LEASE_UNTIL), "{.lease_until}"},
	{"lease", 0, "{.available_at}"},
	{"expired", 0, "{.status} = {in_flight} AND {.lease_end} <= now()"},

	/* The operator's own condition, on lines of its own: its last may end in a comment. It says "column", so it may stand
	 * only where a statement reads the table alone. Whoever looks after the other rows may have other limits, so it
	 * is asked of all rows that are taken or given up; what holds a key back, or is parked, is told without it. */
	{"and_wanted", SQLTEXT_WHERE, "\n     AND (\n{:where}\n         )"},
	{"and_wanted", 0, ""},
	{"and_expired_wanted", SQLTEXT_WHERE, ", CASE WHEN {.expired} THEN (\n{:where}\n         ) END AS wanted"},
	{"and_expired_wanted", 0, ""},
	{"wanted", SQLTEXT_WHERE, "wanted AND "},
	{"wanted", 0, ""},
	/* No row overtakes one of a transaction that is older than its own and still open. A transaction that is newer than the
	 * snapshot and seen all the same is of the database that this one was restored from: it is over. Those before the
	 * column was added are, too: NULL. */
	{"and_in_turn", SQLTEXT_HAS(COLUMN_TXID),
	 "\n     AND ({.txid} >= (SELECT pg_snapshot_xmin(pg_current_snapshot()))\n"
	 "          AND {.txid} < (SELECT pg_snapshot_xmax(pg_current_snapshot()))) IS NOT TRUE"},
	{"and_in_turn", 0, ""},

	{"tries", 0, "coalesce({.attempts}, 0)"},
	{"max", SQLTEXT_HAS(COLUMN_MAX_ATTEMPTS),
	 "least(coalesce({.max_attempts}, {$max_attempts}), 2147483647)::int"},
	{"max", 0, "{$max_attempts}"},

	/* Of expired rows: those without another attempt; the others may have crashed their process if they had two. With dead
	 * letters one beyond its last attempt was lost by somebody who had it for nothing but that. */
	{"used_up", SQLTEXT_DEAD_LETTERS | SQLTEXT_AWAIT,
	 "({.tries} = {.max} OR {.never} OR ({.tries} > {.max} AND {.late}))"},
	{"used_up", SQLTEXT_DEAD_LETTERS, "({.tries} = {.max} OR {.never})"},
	{"used_up", 0, "{.tries} >= {.max}"},
	{"crasher", SQLTEXT_DEAD_LETTERS, "{.tries} >= 2 AND {.tries} <> {.max} AND NOT {.never}"},
	{"crasher", 0, "{.tries} >= 2 AND {.tries} < {.max}"},
	/* Its dead letter will never be: what kills whoever has it, or what the database takes no outcome of, would go round and
	 * round. */
	{"never", 0, "({.tries} - " DEATHS_MAX " >= {.max})"},
	{"expired_status", SQLTEXT_DEAD_LETTERS,
	 "CASE WHEN {.never} THEN {failed} ELSE {pending} END{:status_cast}"},
	{"expired_status", 0, "{failed}"},
	{"expired_due", SQLTEXT_DEAD_LETTERS, "CASE WHEN {.never} THEN {sentinel} ELSE {.available_at} END"},
	{"expired_due", 0, "{sentinel}"},
	/* Of a row that was claimed for its dead letter alone the error stays. */
	{"lost", SQLTEXT_DEAD_LETTERS,
	 "CASE WHEN {.never} THEN concat({.last_error}, '; no dead letter, for its lease expired each time')\n"
	 "                          WHEN {.tries} > {.max} THEN {.last_error}::text ELSE "},
	{"lost", 0, ""},
	{"end_lost", SQLTEXT_DEAD_LETTERS, " END"},
	{"end_lost", 0, ""},

	/* The range of the due index: it must be word for word the index's predicate. */
	{"unfinished", SQLTEXT_HAS(COLUMN_SETTLED_AT), "{.settled_at} IS NULL"},
	{"unfinished", 0, "{.status} IN ({pending}, {in_flight})"},

	/* Open: what holds a key back. Rows in a state of somebody else's never do. */
	{"open", SQLTEXT_HAS(COLUMN_SETTLED_AT) | SQLTEXT_BLOCK,
	 "{.settled_at} IS NULL AND {.status} IN ({pending}, {in_flight}, {failed})"},
	{"open", SQLTEXT_HAS(COLUMN_SETTLED_AT), "{.settled_at} IS NULL AND {.status} IN ({pending}, {in_flight})"},
	{"open", SQLTEXT_BLOCK, "({.status} IN ({pending}, {in_flight}) OR {.unskipped})"},
	{"open", 0, "{.status} IN ({pending}, {in_flight})"},
	/* The key index covers at least what is open. */
	{"key_range", SQLTEXT_HAS(COLUMN_SETTLED_AT), "{.settled_at} IS NULL"},
	{"key_range", 0, "{.open}"},
	{"unskipped", 0, "({.status} = {failed} AND ({.last_error} LIKE 'skipped: %') IS NOT TRUE)"},

	/* What the commands retry and skip may change: failed, and nobody has decided about it yet. */
	{"undecided", SQLTEXT_HAS(COLUMN_SETTLED_AT), "{.settled_at} IS NULL"},
	{"undecided", SQLTEXT_HAS(COLUMN_LAST_ERROR), "({.last_error} LIKE 'skipped: %') IS NOT TRUE"},
	{"undecided", 0, "true"},
	/* Rows that somebody names by their ids: a decision may be changed, and a row skipped before it has failed. */
	{"changeable", SQLTEXT_SKIP,
	 "({.status} = {failed} OR ({.status} = {pending} AND {$named} > 0)) AND {.undecided}"},
	{"changeable", 0, "{.status} = {failed} AND ({.undecided} OR {$named} > 0)"},
	{"error_matches", SQLTEXT_HAS(COLUMN_LAST_ERROR),
	 "({$error} IS NULL OR strpos({.last_error}::text, {$error}) > 0)"},
	{"error_matches", 0, "{$error} IS NULL"},
	{"error_text", SQLTEXT_HAS(COLUMN_LAST_ERROR), "{.last_error}::text"},
	{"error_text", 0, "NULL::text"},

	/* Where rows stand that wait without a date: out of the due range, and told apart from 'infinity', which is the
	 * people's own way to hold a row and is never written here. */
	{"sentinel", 0, "'9999-12-31Z'::timestamptz"},
	/* How long the rest of a key waits behind an obstacle: no longer than park_max, for people may delete the obstacle
	 * or move it. */
	{"until", 0,
	 "CASE WHEN {.status} = {failed} OR {.due} = 'infinity' THEN {sentinel} ELSE least({.due}, now() + {$park_max}) END"},

	/* await: of a row in flight whose time is over, that it had been delivered: then nobody owns it. Without an owner's
	 * column its lease tells; where nothing does, deliveries that await a result are by far the most. */
	{"late", SQLTEXT_AWAIT | SQLTEXT_HAS(COLUMN_LEASE_OWNER), "({.lease_owner} IS NULL)"},
	{"late", SQLTEXT_AWAIT | SQLTEXT_DATED, "(({.lease} = {.updated_at} + {$lease}) IS NOT TRUE)"},
	{"late", SQLTEXT_AWAIT, "true"},
	/* A row whose result is late has crashed nobody who relays, however often: it is no suspect. */
	{"and_not_late", SQLTEXT_AWAIT, " AND NOT {.late}"},
	{"and_not_late", 0, ""},

	/* With dead letters more attempts may count as used than were. */
	{"tries_left", SQLTEXT_DEAD_LETTERS, "least(greatest({.tries} - x.back, 0), {:attempts_limit})"},
	{"tries_left", 0, "greatest({.tries} - x.back, 0)"},

	/* Which lease a claim takes over: an enum sql_taken. */
	{"taken", SQLTEXT_AWAIT | SQLTEXT_HAS(COLUMN_LEASE_OWNER),
	 "CASE WHEN {.status} = {pending} THEN 0 WHEN {.late} THEN 3 WHEN {.lease_owner} = {$owner} THEN 1 ELSE 2 END"},
	{"taken", SQLTEXT_AWAIT, "CASE WHEN {.status} = {pending} THEN 0 WHEN {.late} THEN 3 ELSE 2 END"},
	{"when_late", SQLTEXT_AWAIT,
	 " WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 3) THEN 3\n           "},
	{"when_late", 0, ""},
	{"taken", SQLTEXT_HAS(COLUMN_LEASE_OWNER),
	 "CASE WHEN {.status} = {pending} THEN 0 WHEN {.lease_owner} = {$owner} THEN 1 ELSE 2 END"},
	{"taken", 0, "CASE WHEN {.status} = {pending} THEN 0 ELSE 2 END"},

	/* A claim charges the attempt, so that a row that kills the process runs out of them. */
	{"set_claimed", 0,
	 "{status} = {in_flight}, {attempts} = least(coalesce({attempts}, 0), {:attempts_limit}) + 1, {lease} = now() + {$lease}{and_due_later}{and_owner}{and_updated}"},
	/* await: no row in flight is among those that are due. */
	{"and_due_later", SQLTEXT_AWAIT | SQLTEXT_HAS(COLUMN_LEASE_UNTIL), ", {available_at} = now() + {$lease}"},
	{"and_due_later", 0, ""},
	{"and_deadline", SQLTEXT_HAS(COLUMN_LEASE_UNTIL), ", {lease_until} = now() + {$result_timeout}"},
	{"and_deadline", 0, ""},
	{"and_owner", SQLTEXT_HAS(COLUMN_LEASE_OWNER), ", {lease_owner} = {$owner}"},
	{"and_owner", 0, ""},
	{"and_unleased", SQLTEXT_HAS(COLUMN_LEASE_UNTIL), ", {lease_until} = NULL{and_unowned}"},
	{"and_unleased", 0, "{and_unowned}"},
	{"and_unowned", SQLTEXT_HAS(COLUMN_LEASE_OWNER), ", {lease_owner} = NULL"},
	{"and_unowned", 0, ""},
	{"and_updated", SQLTEXT_HAS(COLUMN_UPDATED_AT), ", {updated_at} = now()"},
	{"and_updated", 0, ""},

	/* Not a row that this process holds itself. IS NOT TRUE: a row in flight without owner or lease (set by hand) is
	 * foreign; a plain NOT would lose it. */
	{"and_not_ours", SQLTEXT_HAS(COLUMN_LEASE_OWNER),
	 "\n                      AND ({.status} = {in_flight} AND {.lease_owner} = {$owner} AND {.lease_end} > now()) IS NOT TRUE"},
	{"and_not_ours", 0, ""},
	/* The fence of a settle, x: each claim of a row gives it another lease, and a row cannot be claimed before its lease has
	 * ended, so whoever names state and lease still holds the row. A release or retry makes an earlier claim possible,
	 * whose lease might be the same: so the owner of the row's own claim is named too. CASE, so that the planner sees no
	 * more than the id: knowing the state, it walks an index of open rows that its statistics call empty. */
	{"held", SQLTEXT_HAS(COLUMN_LEASE_OWNER),
	 "CASE WHEN {.status} = {in_flight} THEN {.lease} = x.lease AND {.lease_owner} = x.owner END"},
	{"held", 0, "CASE WHEN {.status} = {in_flight} THEN {.lease} = x.lease END"},

	/* await: the same, but what its consumer has finished is NULL, not false. */
	{"holding", SQLTEXT_HAS(COLUMN_LEASE_OWNER),
	 "CASE WHEN {.status} = {in_flight} THEN coalesce({.lease} = x.lease AND {.lease_owner} = x.owner, false) END"},
	{"holding", 0, "CASE WHEN {.status} = {in_flight} THEN coalesce({.lease} = x.lease, false) END"},

	/* NULL comes back as it was: -infinity would look strange to people. */
	{"pulled_due", SQLTEXT_NULLABLE, "nullif(r.due, '-infinity')"},
	{"pulled_due", 0, "r.due"},

	/* What a claim returns of a row, and in the end selects. All but bytes is text or a number of known width, so that
	 * nobody who reads it needs to know the columns' types. */
	{"returned", 0,
	 "{.id} AS id, {.order} AS ord, {.key_text} AS key, {.attempts}::int AS attempts, {.max} AS max,\n"
	 "            {.lease}::timestamptz AS lease, {.created} AS created, {.value} AS payload,\n"
	 "            {.headers_text} AS headers, {.topic_text} AS topic, {.partition_text} AS partition,\n"
	 "            {.millis} AS millis{:template_values}"},
	{"claimed_id", SQLTEXT_HAS(COLUMN_ORDER), "claimed.id::text, claimed.ord::text"},
	{"claimed_id", 0, "claimed.id::text, NULL::text"},
	{"claimed_rest", 0,
	 "claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis{:template_names}"},
	{"key_text", SQLTEXT_HAS(COLUMN_KEY), "{.key}::text"},
	{"key_text", 0, "NULL::text"},
	{"headers_text", SQLTEXT_HAS(COLUMN_HEADERS), "{.headers}::text"},
	{"headers_text", 0, "NULL::text"},
	{"topic_text", SQLTEXT_HAS(COLUMN_TOPIC), "{.topic}::text"},
	{"topic_text", 0, "NULL::text"},
	{"partition_text", SQLTEXT_HAS(COLUMN_PARTITION), "{.partition}::text"},
	{"partition_text", 0, "NULL::text"},
	{"value", SQLTEXT_BYTEA, "{.payload}"},
	{"value", 0, "{.payload}::text"},
	/* What the payload takes when it is read: compressed on disk it may be a hundredth of that. In an array it is not
	 * compressed, which costs less than making its text. */
	{"bytes", SQLTEXT_LENGTH, "octet_length({.payload})"},
	{"bytes", SQLTEXT_COMPRESSION,
	 "CASE WHEN pg_column_compression({.payload}) IS NULL THEN pg_column_size({.payload})\n"
	 "                       ELSE pg_column_size(ARRAY[{.payload}]) END"},
	{"bytes", 0, "pg_column_size({.payload})"},
	/* An infinite time has no epoch and would fail the whole statement. */
	{"age", SQLTEXT_AGE,
	 "CASE WHEN isfinite({.created_at}) THEN (extract(epoch FROM now() - {.created_at}) * 1000000)::bigint END"},
	{"age", 0, "NULL::bigint"},
	/* For each claimed row as it is: an epoch is a numeric, and costs ten times as much. */
	{"created", SQLTEXT_AGE, "{.created_at}::timestamptz"},
	{"created", 0, "NULL::timestamptz"},
	{"millis", SQLTEXT_MILLIS, "{.timestamp}::bigint"},
	{"millis", SQLTEXT_HAS(COLUMN_TIMESTAMP),
	 "CASE WHEN isfinite({.timestamp}) THEN (extract(epoch FROM {.timestamp}::timestamptz) * 1000)::bigint END"},
	{"millis", 0, "NULL::bigint"},

	{"full", SQLTEXT_AWAIT,
	 "CASE WHEN (SELECT count(*) FROM in_flight) + (SELECT count(*) FROM fresh) >= {$max_in_flight} THEN 1 ELSE 0 END"},
	{"full", 0, "0"},
	{"parked", SQLTEXT_KEYED,
	 "(SELECT count(*) FROM parked) AS parked,\n"
	 "               (SELECT count(*) FROM candidate WHERE taken = 1 AND r IN (SELECT r FROM parked)) AS parked_own,\n"
	 "               (SELECT count(*) FROM candidate WHERE taken = 2 AND r IN (SELECT r FROM parked)) AS parked_foreign"},
	{"parked", 0, "0::bigint AS parked, 0::bigint AS parked_own, 0::bigint AS parked_foreign"},

	/* What can be counted without reading settled rows: see sqlcount.c. */
	{"failed_count", SQLTEXT_HAS(COLUMN_SETTLED_AT), "(SELECT count(*) FROM failed)"},
	{"failed_count", SQLTEXT_BLOCK | SQLTEXT_KEY_INDEX, "(SELECT count(*) FROM failed)"},
	{"failed_count", 0, "NULL::bigint"},
	{"blocked_count", SQLTEXT_HAS(COLUMN_SETTLED_AT) | SQLTEXT_BLOCK,
	 "(SELECT count(DISTINCT key) FROM failed)"},
	{"blocked_count", SQLTEXT_BLOCK | SQLTEXT_KEY_INDEX, "(SELECT count(DISTINCT key) FROM failed)"},
	{"blocked_count", SQLTEXT_BLOCK, "NULL::bigint"},
	{"blocked_count", 0, "0::bigint"},
	{"unknown_count", SQLTEXT_HAS(COLUMN_SETTLED_AT), "unknown"},
	{"unknown_count", 0, "NULL::bigint"},
};

static const struct {
	const char *name, *type;
} params[SQL_PARAMS] = {
	[SQL_P_MAX_ATTEMPTS] = {"max_attempts", "int"},
	[SQL_P_LIMIT] = {"limit", "int"},
	[SQL_P_MAX_BYTES] = {"max_bytes", "bigint"},
	[SQL_P_OWNER] = {"owner", "text"},
	[SQL_P_SHARE] = {"share", "int"},
	[SQL_P_HOT_KEYS] = {"hot_keys", "text[]"},
	[SQL_P_HOT_HELD] = {"hot_held", "int[]"},
	[SQL_P_LEASE] = {"lease", "interval"},
	[SQL_P_PARK_MAX] = {"park_max", "interval"},
	[SQL_P_FAR_DUE] = {"far_due", "timestamptz"},
	[SQL_P_FAR_ID] = {"far_id", "text"},
	[SQL_P_IDS] = {"ids", "text[]"},
	[SQL_P_LEASES] = {"leases", "timestamptz[]"},
	[SQL_P_STATES] = {"states", "text[]"},
	[SQL_P_DELAYS] = {"delays", "interval[]"},
	[SQL_P_BACKS] = {"backs", "int[]"},
	[SQL_P_ERRORS] = {"errors", "text[]"},
	[SQL_P_OWNERS] = {"owners", "text[]"},
	[SQL_P_FIRSTS] = {"firsts", "int[]"},
	[SQL_P_LASTS] = {"lasts", "int[]"},
	[SQL_P_NAMED] = {"named", "int"},
	[SQL_P_KEY] = {"key", "text"},
	[SQL_P_ERROR] = {"error", "text"},
	[SQL_P_REASON] = {"reason", "text"},
	[SQL_P_KEYS] = {"keys", "text[]"},
	[SQL_P_UNTILS] = {"untils", "timestamptz[]"},
	[SQL_P_TABLE] = {"table", "text"},
	[SQL_P_KEY_COLUMN] = {"key_column", "text"},
	[SQL_P_MAX_IN_FLIGHT] = {"max_in_flight", "int"},
	[SQL_P_RESULT_TIMEOUT] = {"result_timeout", "interval"},
};

struct filling {
	const struct sqltext *dialect;
	struct sql_statement *statement; /* collects the parameters; NULL where none may come */
	struct buf *out;
};

static void fill(const struct filling *filling, const char *text, struct slice alias);

static bool names(struct slice name, const char *text)
{
	return slice_equal(name, slice_of(text));
}

/* A role without a column, or a word that nobody defines: a mistake in a statement above. */
static void undefined(struct slice name)
{
	fprintf(stderr, "outboxd: no column or expression {%.*s} for this table\n", (int)name.len, name.bytes);
	abort();
}

static int param_number(struct sql_statement *statement, enum sql_param param)
{
	int i;

	for (i = 0; i < statement->n_params; i++) {
		if (statement->params[i] == param)
			return i + 1;
	}
	statement->params[statement->n_params] = param;
	return ++statement->n_params;
}

static void fill_param(const struct filling *filling, struct slice name)
{
	int param;

	for (param = 0; param < SQL_PARAMS; param++) {
		if (!names(name, params[param].name) || filling->statement == NULL)
			continue;
		buf_print(filling->out, "$%d::%s", param_number(filling->statement, param), params[param].type);
		return;
	}
	undefined(name);
}

static void fill_word(const struct filling *filling, struct slice name)
{
	const struct sqltext *dialect = filling->dialect;
	const struct {
		const char *name, *text;
	} words[] = {{"id_type", dialect->id_type},
		     {"order_type", dialect->order_type},
		     {"key_type", dialect->key_type},
		     {"error_type", dialect->error_type},
		     {"status_cast", dialect->status_cast},
		     {"attempts_limit", dialect->attempts_limit},
		     {"result_timeout", dialect->result_timeout},
		     {"template_values", dialect->template_values},
		     {"template_names", dialect->template_names},
		     {"where", dialect->where}};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (names(name, words[i].name)) {
			buf_add_string(filling->out, words[i].text);
			return;
		}
	}
	undefined(name);
}

static const char *find_expression(const struct sqltext *dialect, struct slice name)
{
	size_t i;

	for (i = 0; i < sizeof(expressions) / sizeof(expressions[0]); i++) {
		if (names(name, expressions[i].name) && (dialect->has & expressions[i].when) == expressions[i].when)
			return expressions[i].text;
	}
	return NULL;
}

/* What stands behind the alias, or NULL: a column, or ctid. */
static const char *find_column(const struct sqltext *dialect, struct slice name)
{
	int column;

	if (names(name, "ctid"))
		return "ctid";
	for (column = 0; column < CONFIG_COLUMNS; column++) {
		if (names(name, config_column_name(column)))
			return dialect->columns[column];
	}
	return NULL;
}

static const char *find_label(const struct sqltext *dialect, struct slice name)
{
	int state;

	for (state = 0; state < ROW_STATES; state++) {
		if (names(name, row_state_name(state)))
			return dialect->labels[state];
	}
	return names(name, "table") ? dialect->table : NULL;
}

static void fill_role(const struct filling *filling, struct slice name, struct slice alias)
{
	const char *text = find_label(filling->dialect, name);

	if (text != NULL) {
		buf_add_string(filling->out, text);
		return;
	}
	text = find_expression(filling->dialect, name);
	if (text != NULL) {
		fill(filling, text, alias);
		return;
	}
	text = find_column(filling->dialect, name);
	if (text == NULL)
		undefined(name);
	buf_add(filling->out, alias.bytes, alias.len);
	if (alias.len > 0)
		buf_add_char(filling->out, '.');
	buf_add_string(filling->out, text);
}

/* What stands between braces. */
static void fill_name(const struct filling *filling, struct slice name, struct slice alias)
{
	const char *dot = memchr(name.bytes, '.', name.len);
	struct slice rest;

	if (name.bytes[0] == '$') {
		fill_param(filling, (struct slice){name.bytes + 1, name.len - 1});
	} else if (name.bytes[0] == ':') {
		fill_word(filling, (struct slice){name.bytes + 1, name.len - 1});
	} else if (dot == NULL) {
		fill_role(filling, name, (struct slice){"", 0});
	} else {
		rest = (struct slice){dot + 1, name.len - (size_t)(dot + 1 - name.bytes)};
		fill_role(filling, rest,
			  dot == name.bytes ? alias : (struct slice){name.bytes, (size_t)(dot - name.bytes)});
	}
}

static void fill(const struct filling *filling, const char *text, struct slice alias)
{
	const char *open, *close;

	while ((open = strchr(text, '{')) != NULL) {
		close = strchr(open, '}');
		buf_add(filling->out, text, (size_t)(open - text));
		fill_name(filling, (struct slice){open + 1, (size_t)(close - open - 1)}, alias);
		text = close + 1;
	}
	buf_add_string(filling->out, text);
}

void sqltext_build(const struct sqltext *dialect, const struct sqltext_part *parts, struct arena *arena,
		   struct sql_statement *out)
{
	struct buf text = {0};
	const struct filling filling = {dialect, out, &text};

	for (; parts->text != NULL; parts++) {
		if ((dialect->has & parts->when) != parts->when || (dialect->has & parts->unless) != 0)
			continue;
		if (text.len > 0)
			buf_add_char(&text, '\n');
		fill(&filling, parts->text, (struct slice){"", 0});
	}
	out->text = arena_copy_bytes(arena, text.bytes, text.len);
	buf_free(&text);
}

void sqltext_expand(const struct sqltext *dialect, const char *text, struct buf *out)
{
	const struct filling filling = {dialect, NULL, out};

	fill(&filling, text, (struct slice){"", 0});
}

static void quote(struct buf *out, const char *text, char mark)
{
	buf_add_char(out, mark);
	for (; *text != '\0'; text++) {
		if (*text == mark)
			buf_add_char(out, mark);
		buf_add_char(out, *text);
	}
	buf_add_char(out, mark);
}

void sqltext_identifier(struct buf *out, const char *name)
{
	quote(out, name, '"');
}

/* E'' where a backslash occurs, so that it means the same whatever standard_conforming_strings says. */
void sqltext_literal(struct buf *out, const char *text)
{
	const char *from;

	if (strchr(text, '\\') == NULL) {
		quote(out, text, '\'');
		return;
	}
	buf_add_string(out, "E'");
	for (from = text; *from != '\0'; from++) {
		if (*from == '\\' || *from == '\'')
			buf_add_char(out, *from);
		buf_add_char(out, *from);
	}
	buf_add_char(out, '\'');
}
