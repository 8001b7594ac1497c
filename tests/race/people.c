/* Everybody else who writes to the table: applications that insert and edit, and people with a SQL prompt. */
#include "race.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPEN 400 /* writers wait for the workers */

static const char *unleased(const struct race_variant *variant)
{
	if (variant->one_column)
		return "";
	return variant->owner ? ", lease_until = NULL, lease_owner = NULL" : ", lease_until = NULL";
}

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
	buf_print(&text, " RETURNING id");
	PQclear(run(world, conn, "begin", "BEGIN"));
	result = run(world, conn, "insert", buf_text(&text));
	for (i = 0; i < PQntuples(result); i++)
		world_inserted(world, atoll(PQgetvalue(result, i, 0)), keys[i], race_chance(random, 0.003));
	if (race_chance(random, 0.3))
		race_pause_us(race_below(random, 20000));
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
	int i;

	backoff_seed(&random, world->seed * 1000 + 100 + (uint64_t)thread->number);
	while (!world->quiet) {
		if (count_open(world, conn) < MOST_OPEN)
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

/* The commands retry and skip: first the heads, then, in the same transaction, what is parked behind them. */
static void command(struct race_world *world, PGconn *conn, int key, bool retry)
{
	const char *columns = retry			? "status = 'PENDING', attempts = 0, available_at = now()"
			      : world->variant->settled ? "last_error = 'skipped: race', settled_at = now()"
							: "last_error = 'skipped: race'";
	char text[1000], condition[40] = "aggregate_id IS NULL";
	PGresult *result;
	int i, n;

	if (key >= 0)
		snprintf(condition, sizeof(condition), "aggregate_id = 'k%d'", key);
	snprintf(
		text, sizeof(text),
		"UPDATE %s SET %s%s WHERE id = ANY (ARRAY(SELECT id FROM %s WHERE %s AND %s ORDER BY id FOR UPDATE)) RETURNING id",
		world->table, columns, retry ? unleased(world->variant) : "", world->table, failed(world->variant),
		condition);
	PQclear(run(world, conn, "begin", "BEGIN"));
	result = run(world, conn, retry ? "retry" : "skip", text);
	n = PQntuples(result);
	for (i = 0; i < n; i++)
		world_overtaken(world, atoll(PQgetvalue(result, i, 0)));
	PQclear(result);
	if (n > 0)
		run_print(world, conn, "unpark",
			  "UPDATE %s SET available_at = now() WHERE id = ANY (ARRAY(SELECT id FROM %s WHERE %s AND "
			  "status = 'PENDING' AND available_at = '9999-12-31Z' FOR UPDATE SKIP LOCKED))",
			  world->table, world->table, condition);
	PQclear(run(world, conn, "commit", "COMMIT"));
}

static void act(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	int64_t id = race_chance(random, 0.5) ? world_recent(world, random) : early_row(world, conn, random);

	switch (race_below(random, 12)) {
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
		command(world, conn, (int)race_below(random, RACE_KEYS + 1) - 1, race_chance(random, 0.6));
	}
}

void *people_main(void *argument)
{
	struct race_thread *thread = argument;
	struct race_world *world = thread->world;
	PGconn *conn = server_connect(world->dsn, "race people");
	struct backoff_random random;

	backoff_seed(&random, world->seed * 1000 + 200);
	while (!world->quiet) {
		act(world, conn, &random);
		race_pause_us(race_below(&random, 30000));
	}
	PQfinish(conn);
	return NULL;
}

void people_clean_up(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	int key;

	run_print(world, conn, "let go",
		  "UPDATE %s SET available_at = now() WHERE available_at = 'infinity' AND status = 'PENDING'",
		  world->table);
	for (key = -1; world->variant->block && key < RACE_KEYS; key++)
		command(world, conn, key, race_chance(random, 0.5));
}
