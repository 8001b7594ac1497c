/* Everybody else who writes to the table: applications that insert and edit, and people with a SQL prompt. */
#include "command.h"
#include "race.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Writers wait for the workers. With few rows open the newest are claimed while transactions older than theirs go on. */
#define MOST_OPEN 400
#define MOST_OPEN_TXID 30

/* Failed, and neither skipped nor retried. */
static const char *failed(const struct race_variant *variant)
{
	return variant->settled ? "status = 'FAILED' AND settled_at IS NULL"
				: "status = 'FAILED' AND (last_error LIKE 'skipped: %') IS NOT TRUE";
}

/* Runs a statement that may meet nothing, but no error. Returns the rows it brings, to be cleared. */
static PGresult *run(struct race_world *world, PGconn *conn, const char *what, const char *text)
{
	PGresult *result = PQexec(conn, text);

	if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
		world_error(world, what, result);
		PQclear(PQexec(conn, "ROLLBACK"));
	}
	return result;
}

static void run_print(struct race_world *world, PGconn *conn, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static void run_print(struct race_world *world, PGconn *conn, const char *what, const char *format, ...)
{
	char text[1000];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	PQclear(run(world, conn, what, text));
}

/* ---- writers ---- */

static void insert(struct race_world *world, PGconn *conn, int writer, struct backoff_random *random)
{
	struct buf text = {0};
	int keys[15], n = 1 + (int)race_below(random, 15), i;
	bool one_key = race_chance(random, 0.3), commit;
	PGresult *result;

	buf_print(&text, "INSERT INTO %s (aggregate_id, payload%s) VALUES ", world->table,
		  world->variant->one_column ? "" : ", available_at");
	for (i = 0; i < n; i++) {
		/* The keys of a writer are its own: only a writer can order the commits of a key's rows. */
		keys[i] = race_chance(random, 0.1)
				  ? -1
				  : (int)race_below(random, RACE_KEYS / RACE_WRITERS) * RACE_WRITERS + writer;
		keys[i] = one_key ? keys[0] : keys[i];
		buf_print(&text, i > 0 ? ", (" : "(");
		buf_print(&text, keys[i] < 0 ? "NULL" : "'k%d'", keys[i]);
		buf_print(&text, ", repeat('x', %d)", (int)race_below(random, 600));
		if (!world->variant->one_column)
			buf_print(&text, ", now() + interval '%d ms'",
				  race_chance(random, 0.05) ? (int)race_below(random, 500) : 0);
		buf_print(&text, ")");
	}
	buf_print(&text, " RETURNING id, pg_current_xact_id()::text");
	PQclear(run(world, conn, "begin", "BEGIN"));
	result = run(world, conn, "insert", buf_text(&text));
	for (i = 0; i < PQntuples(result); i++)
		world_inserted(world, atoll(PQgetvalue(result, i, 0)), keys[i], race_chance(random, 0.003));
	for (i = 0; world->variant->txid && i < PQntuples(result); i++)
		world_opened(world, writer, atoll(PQgetvalue(result, i, 0)), atoll(PQgetvalue(result, i, 1)));
	if (race_chance(random, 0.3))
		race_pause_us(race_below(random, world->variant->txid ? 400000 : 20000));
	world_closing(world, writer);
	commit = race_chance(random, 0.95);
	PQclear(run(world, conn, "commit", commit ? "COMMIT" : "ROLLBACK"));
	for (i = 0; commit && i < PQntuples(result); i++)
		world_committed(world, atoll(PQgetvalue(result, i, 0)));
	PQclear(result);
	buf_free(&text);
}

/* One of the rows that will be claimed next. */
static int64_t early_row(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	return server_number(conn, "SELECT id FROM %s WHERE status = 'PENDING' ORDER BY id LIMIT 1 OFFSET %d",
			     world->table, (int)race_below(random, 25));
}

static void edit(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	int64_t id = race_chance(random, 0.3) ? world_recent(world, random) : early_row(world, conn, random);

	run_print(world, conn, "edit",
		  "UPDATE %s SET payload = right(payload || 'e', 600) WHERE id = %ld AND status = 'PENDING'",
		  world->table, (long)id);
	world_count(world, &world->edits, 1);
}

static int64_t count_open(struct race_world *world, PGconn *conn)
{
	return server_number(conn, "SELECT count(*) FROM %s WHERE status IN ('PENDING', 'SENDING')", world->table);
}

void *writer_main(void *argument)
{
	struct race_thread *thread = argument;
	struct race_world *world = thread->world;
	PGconn *conn = server_connect(world->dsn, "race writer");
	struct backoff_random random;
	int i, most = world->variant->txid ? MOST_OPEN_TXID : MOST_OPEN;

	backoff_seed(&random, world->seed * 1000 + 100 + (uint64_t)thread->number);
	while (!world->quiet) {
		if (count_open(world, conn) < most)
			insert(world, conn, thread->number, &random);
		for (i = 0; i < 15; i++) {
			edit(world, conn, &random);
			race_pause_us(race_below(&random, 1500));
		}
	}
	PQfinish(conn);
	return NULL;
}

/* ---- people ---- */

static void delete_row(struct race_world *world, PGconn *conn, int64_t id)
{
	world_taken_away(world, id);
	run_print(world, conn, "delete", "DELETE FROM %s WHERE id = %ld", world->table, (long)id);
}

static void mark_sent(struct race_world *world, PGconn *conn, int64_t id)
{
	world_taken_away(world, id);
	run_print(world, conn, "mark sent",
		  "UPDATE %s SET status = 'SENT'%s WHERE id = %ld AND status IN ('PENDING', 'SENDING')",
		  world->table, world->variant->settled ? ", settled_at = now()" : "", (long)id);
}

static void mark_pending(struct race_world *world, PGconn *conn, int64_t id)
{
	world_taken_away(world, id);
	run_print(world, conn, "mark pending",
		  "UPDATE %s SET status = 'PENDING' WHERE id = %ld AND status = 'SENDING'", world->table, (long)id);
}

/* In flight with a lease, and nobody's: it is foreign to every worker. Not one that is held at infinity: it would stay there. */
static void mark_in_flight(struct race_world *world, PGconn *conn, int64_t id)
{
	world_touched(world, id);
	run_print(
		world, conn, "mark in flight",
		"UPDATE %s SET status = 'SENDING', %s = now() + interval '400 ms' WHERE id = %ld AND status = 'PENDING' "
		"AND available_at IS DISTINCT FROM 'infinity'",
		world->table, world->variant->one_column ? "available_at" : "lease_until", (long)id);
}

static void reschedule(struct race_world *world, PGconn *conn, int64_t id, struct backoff_random *random)
{
	run_print(world, conn, "reschedule",
		  "UPDATE %s SET available_at = now() + interval '%d ms' WHERE id = %ld AND status = 'PENDING'",
		  world->table, (int)race_below(random, 600) - 100, (long)id);
}

static void hold(struct race_world *world, PGconn *conn, int64_t id)
{
	run_print(world, conn, "hold",
		  "UPDATE %s SET available_at = 'infinity' WHERE id = %ld AND status = 'PENDING'", world->table,
		  (long)id);
}

static void let_go(struct race_world *world, PGconn *conn)
{
	run_print(
		world, conn, "let go",
		"UPDATE %s SET available_at = now() WHERE id = ANY (ARRAY(SELECT id FROM %s WHERE available_at = 'infinity' "
		"AND status = 'PENDING' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED))",
		world->table, world->table);
}

/* A failed row set pending with a plain UPDATE: what waits behind it at the sentinel is for the sweep. */
static void retry_by_hand(struct race_world *world, PGconn *conn, int64_t id)
{
	world_touched(world, id);
	world_overtaken(world, id);
	run_print(world, conn, "retry by hand",
		  "UPDATE %s SET status = 'PENDING', attempts = 0, available_at = now() WHERE id = %ld AND %s",
		  world->table, (long)id, failed(world->variant));
}

/* ---- the commands retry and skip ---- */

#define CHUNK 3 /* rows a transaction: small, for a command to have several */

/* Between the statement's snapshot and its locks it may sleep. To be freed. */
static char *change_text(const struct race_world *world, bool skip, struct backoff_random *random)
{
	static const char where[] = "\n    WHERE ";
	const char *text = world->texts[skip ? SQL_SKIP : SQL_RETRY], *place = strstr(text, where);
	struct buf out = {0};

	buf_add(&out, text, (size_t)(place - text));
	buf_print(&out, "%s(SELECT pg_sleep(%.3f))::text = '' AND ", where,
		  race_chance(random, 0.7) ? 0.001 * (double)race_below(random, 40) : 0.0);
	buf_add_string(&out, place + strlen(where));
	return buf_take(&out);
}

/* Books what was changed before anybody can see it. */
static void book(struct race_world *world, const struct command *command, const PGresult *changed)
{
	int64_t id;

	for (int row = 0; row < PQntuples(changed); row++) {
		id = atoll(PQgetvalue(changed, row, SQL_CHANGED_ID));
		if (command->skip)
			world_skipped(world, id);
		else
			world_overtaken(world, id);
	}
	world_count(world, command->skip ? &world->skipped : &world->retried, (uint64_t)PQntuples(changed));
}

static void change(struct race_world *world, PGconn *conn, const struct command *command, const PGresult *picked,
		   int from, struct backoff_random *random)
{
	char *text = change_text(world, command->skip, random);
	PGresult *changed, *freed = NULL;

	server_begin(conn);
	changed = command_change(conn, world->sql, command, text, picked, from, CHUNK);
	if (PQresultStatus(changed) == PGRES_TUPLES_OK) {
		book(world, command, changed);
		race_pause_us(race_below(random, 5000));
		freed = command_unpark(conn, world->sql, changed);
	}
	if (freed == NULL || PQresultStatus(freed) != PGRES_TUPLES_OK)
		world_error(world, command->skip ? "skip" : "retry", freed == NULL ? changed : freed);
	server_end(conn);
	PQclear(freed);
	PQclear(changed);
	mem_free(text);
}

static void run_command(struct race_world *world, PGconn *conn, const struct command *command,
			struct backoff_random *random)
{
	PGresult *picked = command_pick(conn, world->sql, command);

	if (PQresultStatus(picked) != PGRES_TUPLES_OK)
		world_error(world, "pick", picked);
	for (int from = 0; from < PQntuples(picked); from += CHUNK) {
		if (!world->quiet)
			race_pause_us(race_below(random, 50000));
		change(world, conn, command, picked, from, random);
	}
	PQclear(picked);
}

/* Rows that failed or were skipped, that will be claimed next, or any: a skip gives pending ones up, a retry takes skipped ones
 * back, and whatever else they are they must not change. */
static int64_t some_row(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	switch (race_below(random, 3)) {
	case 0:
		return server_number(conn,
				     "SELECT id FROM %s WHERE status = 'FAILED' ORDER BY id DESC LIMIT 1 OFFSET %d",
				     world->table, (int)race_below(random, 6));
	case 1:
		return early_row(world, conn, random);
	default:
		return world_recent(world, random);
	}
}

static void command_by_id(struct race_world *world, PGconn *conn, bool skip, struct backoff_random *random)
{
	struct buf ids = {0};

	for (int i = 0; i < 4; i++)
		buf_print(&ids, "%ld ", (long)some_row(world, conn, random));
	run_command(world, conn, &(struct command){.ids = buf_text(&ids), .skip = skip, .reason = "race"}, random);
	buf_free(&ids);
}

static void command_by_key(struct race_world *world, PGconn *conn, bool skip, struct backoff_random *random)
{
	char key[8];

	snprintf(key, sizeof(key), "k%d", (int)race_below(random, RACE_KEYS));
	run_command(world, conn, &(struct command){.key = key, .skip = skip, .reason = "race"}, random);
}

static void command_all(struct race_world *world, PGconn *conn, bool skip, struct backoff_random *random)
{
	run_command(world, conn, &(struct command){.skip = skip, .reason = "race"}, random);
}

static void command(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	bool skip = race_chance(random, 0.4);

	if (race_chance(random, 0.5))
		command_by_id(world, conn, skip, random);
	else if (race_chance(random, 0.7))
		command_by_key(world, conn, skip, random);
	else
		command_all(world, conn, skip, random);
}

/* ---- all of it ---- */

static void act(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	int64_t id = race_chance(random, 0.5) ? world_recent(world, random) : early_row(world, conn, random);

	switch (race_below(random, 16)) {
	case 0:
		delete_row(world, conn, id);
		break;
	case 1:
		mark_sent(world, conn, id);
		break;
	case 2:
		mark_pending(world, conn, id);
		break;
	case 3:
		mark_in_flight(world, conn, id);
		break;
	case 4:
		reschedule(world, conn, id, random);
		break;
	case 5:
		hold(world, conn, id);
		break;
	case 6:
	case 7:
		let_go(world, conn);
		break;
	case 8:
		retry_by_hand(world, conn, id);
		break;
	default:
		command(world, conn, random);
	}
}

void *people_main(void *argument)
{
	struct race_thread *thread = argument;
	struct race_world *world = thread->world;
	PGconn *conn = server_connect(world->dsn, "race people");
	struct backoff_random random;

	backoff_seed(&random, world->seed * 1000 + 200 + (uint64_t)thread->number);
	while (!world->quiet) {
		act(world, conn, &random);
		race_pause_us(race_below(&random, 30000));
	}
	PQfinish(conn);
	return NULL;
}

void people_clean_up(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	run_print(world, conn, "let go",
		  "UPDATE %s SET available_at = now() WHERE available_at = 'infinity' AND status = 'PENDING'",
		  world->table);
	if (world->variant->block)
		command_all(world, conn, race_chance(random, 0.5), random);
}
