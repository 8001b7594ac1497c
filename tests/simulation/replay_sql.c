/* replay-sql: runs recorded histories of the fake database (record.h) as SQL on a real PostgreSQL, and compares each result
 * and the table after each commit.
 *
 *   OUTBOXD_TEST_DSN=... replay-sql FILE...
 *
 * Each transaction has a session of its own. Two functions of the database make that possible: an outbox.now() that stands in
 * front of pg_catalog's and gives the history's time, and that, when asked to, waits at its first call for the controller to
 * let it go on: then the statement has taken its snapshot, and no lock yet. */
#include "configs.h"
#include "replay_rows.h"

#include "base/mem.h"
#include "core/pgarray.h"
#include "core/route.h"
#include "core/rowstate.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS 24
#define CELLS_MAX 4000

struct session {
	PGconn *conn;
	int xact; /* 0: free */
	enum sql_kind kind;
	bool sent; /* a statement is under way */
};

struct replay {
	PGconn *admin;
	const char *dsn;
	struct config_source config;
	struct config_header header;
	struct route *route;
	struct sql *sql;
	struct session sessions[SESSIONS];
	const char *file;
	long line, statements, waits, gates, tables;
};

static void die(const struct replay *replay, const char *what, const char *more)
{
	fprintf(stderr, "%s:%ld: %s: %s\n", replay->file, replay->line, what, more);
	exit(1);
}

static PGresult *run(const struct replay *replay, PGconn *conn, const char *sql)
{
	PGresult *result = PQexec(conn, sql);

	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		die(replay, sql, PQerrorMessage(conn));
	return result;
}

static void command(const struct replay *replay, PGconn *conn, const char *sql)
{
	PQclear(run(replay, conn, sql));
}

/* ---- the database ---- */

static const char schema[] =
	"DROP TABLE IF EXISTS public.event_outbox; DROP SCHEMA IF EXISTS outbox CASCADE; CREATE SCHEMA outbox;"
	"CREATE TABLE public.event_outbox (id bigint PRIMARY KEY, event_id text, aggregate_id text, event_type text,"
	" payload text, headers jsonb, status text NOT NULL DEFAULT 'PENDING', attempts int NOT NULL DEFAULT 0,"
	" available_at timestamptz NOT NULL, lease_until timestamptz, lease_owner text, last_error text,"
	" created_at timestamptz NOT NULL, settled_at timestamptz) WITH (fillfactor = 50, autovacuum_enabled = off);"
	"CREATE INDEX ON public.event_outbox (coalesce(available_at, '-infinity'), id) WHERE settled_at IS NULL;"
	"CREATE INDEX ON public.event_outbox (aggregate_id, id) WHERE settled_at IS NULL;"
	"CREATE FUNCTION outbox.time(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS"
	" $$SELECT '2000-01-01Z'::timestamptz + us * interval '1 microsecond'$$;"
	"CREATE FUNCTION outbox.us(t timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS"
	" $$SELECT CASE WHEN t IS NULL THEN '-' WHEN t = 'infinity' THEN 'infinity' ELSE"
	" ((extract(epoch FROM t) * 1000000)::bigint - 946684800000000)::text END$$;"
	"CREATE FUNCTION outbox.hex(t text) RETURNS text LANGUAGE sql IMMUTABLE AS"
	" $$SELECT coalesce('x' || encode(convert_to(t, 'UTF8'), 'hex'), '-')$$;"
	"CREATE FUNCTION outbox.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$"
	" DECLARE gate text := current_setting('outbox.gate');"
	" BEGIN IF gate <> '' THEN PERFORM set_config('outbox.gate', '', false);"
	" PERFORM pg_advisory_lock_shared(gate::bigint); PERFORM pg_advisory_unlock_shared(gate::bigint); END IF;"
	" RETURN outbox.time(current_setting('outbox.now')::bigint); END $$;";

static const char session_settings[] =
	"SET search_path = outbox, pg_catalog, public; SET outbox.gate = ''; SET outbox.now = '0'; SET TimeZone = 'UTC';"
	"SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

/* Values that find nothing: they only make the session plan the statement, so that now() is not called for that later. */
static struct slice neutral(enum sql_param param, struct pgarray *array, char bytes[16])
{
	static const uint32_t arrays[SQL_PARAMS] = {
		[SQL_P_HOT_KEYS] = PGOID_TEXT,	    [SQL_P_HOT_HELD] = PGOID_INT4, [SQL_P_IDS] = PGOID_TEXT,
		[SQL_P_LEASES] = PGOID_TIMESTAMPTZ, [SQL_P_STATES] = PGOID_TEXT,   [SQL_P_DELAYS] = PGOID_INTERVAL,
		[SQL_P_BACKS] = PGOID_INT4,	    [SQL_P_ERRORS] = PGOID_TEXT,   [SQL_P_OWNERS] = PGOID_TEXT,
		[SQL_P_FIRSTS] = PGOID_INT4,	    [SQL_P_LASTS] = PGOID_INT4,	   [SQL_P_KEYS] = PGOID_TEXT,
		[SQL_P_UNTILS] = PGOID_TIMESTAMPTZ,
	};

	if (arrays[param] != 0) {
		pgarray_begin(array, arrays[param]);
		return pgarray_end(array);
	}
	if (param == SQL_P_OWNER || param == SQL_P_FAR_ID || param == SQL_P_KEY || param == SQL_P_ERROR ||
	    param == SQL_P_REASON)
		return slice_of("0");
	if (param == SQL_P_LEASE || param == SQL_P_PARK_MAX || param == SQL_P_RESULT_TIMEOUT)
		return pg_put_interval_us(bytes, 0);
	if (param == SQL_P_MAX_BYTES || param == SQL_P_FAR_DUE)
		return pg_put_int8(bytes, 0);
	return pg_put_int4(bytes, param == SQL_P_LIMIT ? 0 : 1);
}

static void send(const struct replay *replay, struct session *session, const struct slice *values, int n)
{
	const char *cells[SQL_PARAMS];
	int lengths[SQL_PARAMS], formats[SQL_PARAMS];
	char name[8];

	for (int i = 0; i < n; i++) {
		cells[i] = values[i].bytes;
		lengths[i] = (int)values[i].len;
		formats[i] = 1;
	}
	snprintf(name, sizeof(name), "k%d", (int)session->kind);
	if (!PQsendQueryPrepared(session->conn, name, n, cells, lengths, formats, 1))
		die(replay, name, PQerrorMessage(session->conn));
	session->sent = true;
}

static PGresult *finish(const struct replay *replay, struct session *session)
{
	PGresult *result = PQgetResult(session->conn);

	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		die(replay, "statement", PQerrorMessage(session->conn));
	PQclear(PQgetResult(session->conn));
	session->sent = false;
	return result;
}

static void plan(const struct replay *replay, struct session *session)
{
	const struct sql_statement *statement = sql_statement(replay->sql, session->kind);
	struct slice values[SQL_PARAMS];
	struct pgarray arrays[SQL_PARAMS] = {0};
	char bytes[SQL_PARAMS][16], name[8];
	PGresult *prepared;

	snprintf(name, sizeof(name), "k%d", (int)session->kind);
	prepared = PQprepare(session->conn, name, statement->text, 0, NULL);
	if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
		die(replay, name, PQerrorMessage(session->conn));
	PQclear(prepared);
	for (int i = 0; i < statement->n_params; i++)
		values[i] = neutral(statement->params[i], &arrays[i], bytes[i]);
	send(replay, session, values, statement->n_params);
	PQclear(finish(replay, session));
	for (int i = 0; i < statement->n_params; i++)
		pgarray_free(&arrays[i]);
}

static void open_session(const struct replay *replay, struct session *session)
{
	if (session->conn == NULL)
		session->conn = PQconnectdb(replay->dsn);
	if (PQstatus(session->conn) != CONNECTION_OK)
		die(replay, "session", PQerrorMessage(session->conn));
	command(replay, session->conn, "DEALLOCATE ALL");
	command(replay, session->conn, session_settings);
	for (int kind = 0; kind < SQL_INSPECT; kind++) {
		session->kind = (enum sql_kind)kind;
		plan(replay, session);
	}
	session->xact = 0;
}

static void begin_history(struct replay *replay, char *rest)
{
	struct sql_templates templates;
	struct err err = {""};

	configs_standard(&replay->config, &replay->header);
	replay->config.ordering = (enum config_ordering)replay_number(&rest);
	replay->config.on_failed = (enum config_on_failed)replay_number(&rest);
	replay->config.on_delivered = (enum config_on_delivered)replay_number(&rest);
	replay->config.dead_letter_topic = replay_number(&rest) > 0 ? "dead" : NULL;
	replay->config.result_timeout_us = INT64_C(1000000) * replay_number(&rest);
	route_free(replay->route);
	sql_free(replay->sql);
	replay->route = route_new(&replay->config, &err);
	templates = route_templates(replay->route);
	replay->sql = sql_new(&replay->config, NULL, &templates, &err);
	if (replay->sql == NULL)
		die(replay, "sql_new", err.text);
	command(replay, replay->admin, schema);
	command(replay, replay->admin, "SET TimeZone = 'UTC'");
	for (int i = 0; i < SESSIONS; i++)
		open_session(replay, &replay->sessions[i]);
}

/* ---- moments ---- */

static struct session *find(struct replay *replay, int xact)
{
	for (int i = 0; i < SESSIONS; i++) {
		if (replay->sessions[i].xact == xact)
			return &replay->sessions[i];
	}
	return NULL;
}

/* The session of a transaction, begun when it is new. */
static struct session *session_of(struct replay *replay, int xact)
{
	struct session *session = find(replay, xact);

	if (session != NULL)
		return session;
	session = find(replay, 0);
	if (session == NULL)
		die(replay, "session", "too many transactions at a time");
	session->xact = xact;
	command(replay, session->conn, "BEGIN ISOLATION LEVEL READ COMMITTED");
	return session;
}

/* Until the session waits for a lock (true) or has its answer. */
static bool waits(const struct replay *replay, struct session *session)
{
	char sql[100];

	snprintf(sql, sizeof(sql), "SELECT 1 FROM pg_locks WHERE pid = %d AND NOT granted",
		 PQbackendPID(session->conn));
	for (;;) {
		PGresult *result = run(replay, replay->admin, sql);
		bool waiting = PQntuples(result) > 0;

		PQclear(result);
		if (waiting)
			return true;
		if (!PQconsumeInput(session->conn))
			die(replay, "session", PQerrorMessage(session->conn));
		if (!PQisBusy(session->conn))
			return false;
	}
}

static void gate(const struct replay *replay, const struct session *session, const char *what)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "SELECT %s(%d)", what, (int)(session - replay->sessions) + 1);
	command(replay, replay->admin, sql);
}

static bool has_gate(enum sql_kind kind)
{
	return kind == SQL_CLAIM || kind == SQL_CLAIM_FAR || kind == SQL_SUSPECT || kind == SQL_EXPIRE;
}

static void start(struct replay *replay, char *rest)
{
	struct session *session = session_of(replay, replay_number(&rest));
	struct slice values[SQL_PARAMS];
	char *bytes = mem_new(strlen(rest) + SQL_PARAMS, 1), *at = bytes, sql[200];
	int n;

	session->kind = (enum sql_kind)replay_number(&rest);
	n = sql_statement(replay->sql, session->kind)->n_params;
	snprintf(sql, sizeof(sql),
		 "SELECT set_config('outbox.now', '%s', false), set_config('outbox.gate', '%.0d', false)",
		 replay_word(&rest), has_gate(session->kind) ? (int)(session - replay->sessions) + 1 : 0);
	command(replay, session->conn, sql);
	for (int i = 0; i < n; i++) {
		values[i] = replay_unhex(replay_word(&rest), at);
		at += values[i].len + 1;
	}
	if (has_gate(session->kind))
		gate(replay, session, "pg_advisory_lock");
	send(replay, session, values, n);
	if (has_gate(session->kind))
		replay->gates += waits(replay, session);
	replay->statements++;
	mem_free(bytes);
}

/* The statement goes on, and has to wait for somebody's lock. */
static void expect_wait(struct replay *replay, char *rest)
{
	struct session *session = find(replay, replay_number(&rest));

	if (session == NULL || !waits(replay, session))
		die(replay, "wait", "the server does not wait here");
	replay->waits++;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *hex_of(const PGresult *result, int row, int column)
{
	struct buf buf = {0};
	const char *cell = PQgetvalue(result, row, column);

	buf_add_string(&buf, PQgetisnull(result, row, column) ? "-" : "x");
	for (int i = 0; i < PQgetlength(result, row, column); i++)
		buf_print(&buf, "%02x", (unsigned char)cell[i]);
	return buf_take(&buf);
}

static bool returns_ids(enum sql_kind kind)
{
	return kind == SQL_SETTLE_SENT || kind == SQL_SETTLE || kind == SQL_EXPIRE;
}

/* Rows of ids come in any order. */
static void compare_cells(const struct replay *replay, char **expected, int n, const PGresult *result,
			  enum sql_kind kind)
{
	char *actual[CELLS_MAX];
	int columns = kind == SQL_COUNT ? SQL_N_SNAPSHOT_AGE : PQnfields(result), got = PQntuples(result) * columns;
	char text[200];

	for (int i = 0; i < got && i < CELLS_MAX; i++)
		actual[i] = hex_of(result, i / columns, i % columns);
	if (returns_ids(kind)) {
		qsort(actual, (size_t)got, sizeof(char *), compare_words);
		qsort(expected, (size_t)n, sizeof(char *), compare_words);
	}
	for (int i = 0; i < n || i < got; i++) {
		snprintf(text, sizeof(text), "cell %d of %d: %.60s, the server has %d: %.60s", i, n,
			 i < n ? expected[i] : "", got, i < got ? actual[i] : "");
		if (i >= n || i >= got || strcmp(expected[i], actual[i]) != 0)
			die(replay, "result", text);
	}
	for (int i = 0; i < got; i++)
		mem_free(actual[i]);
}

static void complete(struct replay *replay, char *rest)
{
	struct session *session = find(replay, replay_number(&rest));
	char *expected[CELLS_MAX];
	PGresult *result;
	int n = 0;

	if (session == NULL)
		die(replay, "L", "no such transaction");
	(void)replay_number(&rest);
	while (rest != NULL && n < CELLS_MAX) {
		char *cell = replay_word(&rest);

		if (cell[0] != '\0')
			expected[n++] = cell;
	}
	if (has_gate(session->kind))
		gate(replay, session, "pg_advisory_unlock");
	result = finish(replay, session);
	compare_cells(replay, expected, n, result, session->kind);
	PQclear(result);
}

static void end(struct replay *replay, char *rest, const char *how)
{
	struct session *session = find(replay, replay_number(&rest));

	/* One that only looked at the catalog, or did nothing. */
	if (session == NULL)
		return;
	if (session->sent && has_gate(session->kind))
		gate(replay, session, "pg_advisory_unlock");
	if (session->sent)
		PQclear(finish(replay, session));
	command(replay, session->conn, how);
	session->xact = 0;
}

static void change(struct replay *replay, char kind, char *rest)
{
	struct session *session = session_of(replay, replay_number(&rest));
	struct buf sql = {0};

	if (kind == 'I')
		replay_insert(rest, &sql);
	else
		replay_change(rest, replay->config.states, &sql);
	command(replay, session->conn, buf_text(&sql));
	buf_free(&sql);
}

static void compare_table(struct replay *replay, char *rest)
{
	PGresult *result = run(
		replay, replay->admin,
		"SELECT coalesce(string_agg(concat_ws(' ', id, CASE status WHEN 'PENDING' THEN 0 WHEN 'SENDING' THEN 1"
		" WHEN 'SENT' THEN 2 ELSE 3 END, attempts, outbox.us(available_at), outbox.us(lease_until),"
		" outbox.us(settled_at), outbox.hex(lease_owner), outbox.hex(last_error)), ' ' ORDER BY id), '')"
		" FROM public.event_outbox");
	const char *actual = PQgetvalue(result, 0, 0);
	char text[300];
	size_t same = 0;

	rest[strcspn(rest, "\n")] = '\0';
	while (actual[same] != '\0' && actual[same] == rest[same])
		same++;
	snprintf(text, sizeof(text), "...%.100s, the server has ...%.100s", rest + (same < 40 ? 0 : same - 40),
		 actual + (same < 40 ? 0 : same - 40));
	if (strcmp(actual, rest) != 0)
		die(replay, "table", text);
	PQclear(result);
	replay->tables++;
}

static void follow(struct replay *replay, char *line)
{
	char *rest = line, kind = replay_word(&rest)[0];

	switch (kind) {
	case 'H':
		begin_history(replay, rest);
		break;
	case 'I':
	case 'U':
		change(replay, kind, rest);
		break;
	case 'S':
		start(replay, rest);
		break;
	case 'W':
		expect_wait(replay, rest);
		break;
	case 'L':
		complete(replay, rest);
		break;
	case 'C':
		end(replay, rest, "COMMIT");
		break;
	case 'R':
		end(replay, rest, "ROLLBACK");
		break;
	case 'T':
		compare_table(replay, rest == NULL ? line + 1 : rest);
		break;
	default:
		die(replay, "line", line);
	}
}

static void follow_file(struct replay *replay, const char *name)
{
	FILE *file = fopen(name, "r");
	char *line = NULL;
	size_t size = 0;

	replay->file = name;
	replay->line = 0;
	if (file == NULL)
		die(replay, "open", name);
	while (getline(&line, &size, file) > 0) {
		replay->line++;
		follow(replay, line);
	}
	for (int i = 0; i < SESSIONS; i++) {
		char rest[16];

		snprintf(rest, sizeof(rest), "%d", replay->sessions[i].xact);
		if (replay->sessions[i].xact != 0)
			end(replay, rest, "ROLLBACK");
	}
	free(line);
	fclose(file);
}

int main(int argc, char **argv)
{
	struct replay replay = {.dsn = getenv("OUTBOXD_TEST_DSN"), .file = "replay-sql"};

	if (replay.dsn == NULL || argc < 2) {
		fprintf(stderr, "usage: OUTBOXD_TEST_DSN=... %s FILE...\n", argv[0]);
		return 64;
	}
	replay.admin = PQconnectdb(replay.dsn);
	if (PQstatus(replay.admin) != CONNECTION_OK)
		die(&replay, "connect", PQerrorMessage(replay.admin));
	command(&replay, replay.admin, "SET client_min_messages = warning");
	for (int i = 1; i < argc; i++)
		follow_file(&replay, argv[i]);
	printf("replay-sql: %d histories, %ld statements (%ld stopped between snapshot and lock, %ld waited for a lock), %ld tables "
	       "compared: all the same\n",
	       argc - 1, replay.statements, replay.gates, replay.waits, replay.tables);
	for (int i = 0; i < SESSIONS; i++)
		PQfinish(replay.sessions[i].conn);
	PQfinish(replay.admin);
	sql_free(replay.sql);
	route_free(replay.route);
	return 0;
}
