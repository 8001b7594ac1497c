#include "race.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ROWS 2000000
#define SHOWN_FAILURES 10
#define FINISH_SECONDS 25

int64_t race_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void race_pause_us(int64_t microseconds)
{
	struct timespec pause = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};

	nanosleep(&pause, NULL);
}

bool race_chance(struct backoff_random *random, double probability)
{
	return backoff_uniform(random) < probability;
}

int64_t race_below(struct backoff_random *random, int64_t limit)
{
	return (int64_t)(backoff_next(random) % (uint64_t)limit);
}

/* ---- the books ---- */

static void lock(struct race_world *world)
{
	pthread_mutex_lock(&world->mutex);
}

static void unlock(struct race_world *world)
{
	pthread_mutex_unlock(&world->mutex);
}

/* With the mutex held. */
__attribute__((format(printf, 2, 0))) static void fail(struct race_world *world, const char *format, va_list args)
{
	if (world->failures++ >= SHOWN_FAILURES)
		return;
	printf("%s: FAILURE: ", world->variant->name);
	vprintf(format, args);
	printf("\n");
}

void world_fail(struct race_world *world, const char *format, ...)
{
	va_list args;

	lock(world);
	va_start(args, format);
	fail(world, format, args);
	va_end(args);
	unlock(world);
}

static void fail_locked(struct race_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail_locked(struct race_world *world, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail(world, format, args);
	va_end(args);
}

void world_count(struct race_world *world, uint64_t *counter, uint64_t more)
{
	lock(world);
	*counter += more;
	unlock(world);
}

void world_error(struct race_world *world, const char *what, const PGresult *result)
{
	world_fail(world, "%s: %s %s", what, PQresultErrorField(result, PG_DIAG_SQLSTATE),
		   PQresultErrorMessage(result));
}

void world_inserted(struct race_world *world, int64_t id, int key, bool poison)
{
	if (id >= world->max_rows)
		server_die("more than %d rows", MAX_ROWS);
	lock(world);
	world->rows[id].key = (int16_t)key;
	world->rows[id].poison = poison;
	if (id > world->n_rows)
		world->n_rows = id;
	unlock(world);
}

void world_opened(struct race_world *world, int writer, int64_t id, int64_t txid)
{
	lock(world);
	world->rows[id].txid = txid;
	world->open[writer] = txid;
	unlock(world);
}

void world_closing(struct race_world *world, int writer)
{
	lock(world);
	world->open[writer] = 0;
	unlock(world);
}

void world_check_part(struct race_world *world, int worker, int64_t id, const char *what)
{
	if (world->variant->where && id % 2 != worker % 2)
		world_fail(world, "row %ld is %s by worker %d, and not in its part", (long)id, what, worker);
}

/* With the mutex held. Older than the row's transaction and open now: it was open when the row was claimed, too. */
static void check_turn(struct race_world *world, int64_t id)
{
	int writer;

	for (writer = 0; writer < RACE_WRITERS; writer++)
		if (world->open[writer] != 0 && world->open[writer] < world->rows[id].txid)
			fail_locked(world, "row %ld is delivered while a transaction older than its own is open",
				    (long)id);
}

void world_committed(struct race_world *world, int64_t id)
{
	lock(world);
	world->rows[id].committed = true;
	unlock(world);
}

void world_touched(struct race_world *world, int64_t id)
{
	lock(world);
	world->rows[id].hand = true;
	world->by_hand++;
	unlock(world);
}

/* Whoever holds it may still deliver it, and its followers no longer wait. */
void world_taken_away(struct race_world *world, int64_t id)
{
	lock(world);
	world->rows[id].hand = world->rows[id].overtaken = true;
	world->by_hand++;
	unlock(world);
}

void world_overtaken(struct race_world *world, int64_t id)
{
	if (world->variant->block)
		return;
	lock(world);
	world->rows[id].overtaken = true;
	unlock(world);
}

void world_skipped(struct race_world *world, int64_t id)
{
	lock(world);
	world->rows[id].overtaken = true;
	unlock(world);
}

int64_t world_recent(struct race_world *world, struct backoff_random *random)
{
	int64_t newest;

	lock(world);
	newest = world->n_rows;
	unlock(world);
	if (newest == 0)
		return 0;
	return newest - race_below(random, newest < 150 ? newest : 150);
}

bool world_poison(struct race_world *world, int64_t id)
{
	bool poison;

	lock(world);
	poison = world->rows[id].poison;
	unlock(world);
	return poison;
}

bool world_hand(struct race_world *world, int64_t id)
{
	bool hand;

	lock(world);
	hand = world->rows[id].hand;
	unlock(world);
	return hand;
}

uint64_t world_next_claim(struct race_world *world)
{
	uint64_t claim;

	lock(world);
	claim = ++world->claims;
	unlock(world);
	return claim;
}

/* until_us is when the claim was sent plus the lease: the server's lease ends no earlier. So of two that are alive at the
 * same time one was granted wrongly. */
void world_claimed(struct race_world *world, int64_t id, uint64_t claim, int64_t until_us)
{
	struct race_row *row = &world->rows[id];
	int64_t now = race_now_us();

	lock(world);
	if (until_us > now) {
		if (row->holder != 0 && row->held_until > now && !row->hand)
			fail_locked(world, "row %ld is claimed while another claim holds it", (long)id);
		row->holder = claim;
		row->held_until = until_us;
	}
	unlock(world);
}

void world_let_go(struct race_world *world, int64_t id, uint64_t claim)
{
	lock(world);
	if (world->rows[id].holder == claim)
		world->rows[id].holder = 0;
	unlock(world);
}

bool world_delivered(struct race_world *world, int64_t id, int key, uint64_t claim, int64_t until_us)
{
	struct race_row *row = &world->rows[id];

	lock(world);
	/* Looked at here, for on a busy machine much time may have passed since the worker looked. */
	if (race_now_us() >= until_us) {
		unlock(world);
		return false;
	}
	check_turn(world, id);
	if (row->holder != claim && !row->hand)
		fail_locked(world, "row %ld is delivered while another worker holds it", (long)id);
	if (key >= 0 && row->delivered == 0 && !row->overtaken && id < world->newest[key])
		fail_locked(world, "row %ld of key %d is delivered after row %ld", (long)id, key,
			    (long)world->newest[key]);
	if (key >= 0 && id > world->newest[key])
		world->newest[key] = id;
	row->delivered++;
	world->deliveries++;
	unlock(world);
	return true;
}

/* ---- beginning and end ---- */

static char *replaced(const char *text, const char *from, const char *to)
{
	struct buf out = {0};
	const char *found;

	if (strstr(text, from) == NULL)
		server_die("a break finds nothing to break: %s\nin\n%s", from, text);
	while ((found = strstr(text, from)) != NULL) {
		buf_add(&out, text, (size_t)(found - text));
		buf_add_string(&out, to);
		text = found + strlen(from);
	}
	buf_add_string(&out, text);
	return buf_take(&out);
}

static void replace(struct race_world *world, enum sql_kind kind, const struct race_replacement *replacement)
{
	char *text = replaced(world->texts[kind], replacement->from, replacement->to);

	mem_free(world->texts[kind]);
	world->texts[kind] = text;
}

static void break_texts(struct race_world *world)
{
	const struct race_replacement *replacement;

	for (replacement = world->broken->replacements; replacement->from != NULL; replacement++) {
		replace(world, replacement->kind, replacement);
		if (replacement->kind == SQL_CLAIM)
			replace(world, SQL_CLAIM_FAR, replacement);
	}
}

struct race_world *world_new(const char *dsn, const struct race_variant *variant, const struct race_break *broken,
			     uint64_t seed)
{
	struct race_world *world = MEM_NEW(struct race_world);
	PGconn *conn = server_connect(dsn, "race");
	struct buf table = {0};
	struct err err;
	int kind;

	buf_print(&table, "race_%s", variant->name);
	for (kind = 0; buf_text(&table)[kind] != '\0'; kind++)
		table.bytes[kind] = table.bytes[kind] == '-' ? '_' : table.bytes[kind];
	*world = (struct race_world){.variant = variant,
				     .broken = broken,
				     .dsn = dsn,
				     .table = buf_take(&table),
				     .seed = seed,
				     .max_rows = MAX_ROWS};
	world->rows = MEM_NEW_ARRAY(MAX_ROWS, struct race_row);
	pthread_mutex_init(&world->mutex, NULL);
	race_create_table(conn, variant, world->table);
	world->source = race_source(variant, world->table);
	world->sql = sql_new(&world->source, server_inspect(conn, &world->source), NULL, &err);
	if (world->sql == NULL)
		server_die("%s", err.text);
	for (kind = 0; kind < SQL_INSPECT; kind++)
		world->texts[kind] = mem_copy_string(sql_statement(world->sql, kind)->text);
	if (broken != NULL)
		break_texts(world);
	PQfinish(conn);
	return world;
}

static int64_t count_open(struct race_world *world, PGconn *conn)
{
	return server_number(conn, "SELECT count(*) FROM %s WHERE status IN ('PENDING', 'SENDING')%s", world->table,
			     !world->variant->block ? ""
			     : world->variant->settled
				     ? " OR (status = 'FAILED' AND settled_at IS NULL)"
				     : " OR (status = 'FAILED' AND (last_error LIKE 'skipped: %') IS NOT TRUE)");
}

/* Lets everything finish: no faults any more, and whatever fails is retried or skipped. */
static void finish(struct race_world *world, PGconn *conn, struct backoff_random *random)
{
	int64_t deadline = race_now_us() + FINISH_SECONDS * INT64_C(1000000), left;

	do {
		people_clean_up(world, conn, random);
		race_pause_us(100000);
		left = count_open(world, conn);
	} while (left > 0 && race_now_us() < deadline);
	if (left > 0) {
		char *first =
			server_text(conn, "SELECT t::text FROM %s t WHERE status IN ('PENDING', 'SENDING') LIMIT 1",
				    world->table);

		world_fail(world, "%ld rows are left over, for example %s", (long)left, first);
		free(first);
	}
}

static void check_row(struct race_world *world, int64_t id, const char *status, int attempts, const char *error)
{
	struct race_row *row = &world->rows[id];

	row->committed = false; /* what is left of those is gone */
	if (row->hand)
		return;
	if (strcmp(status, "SENT") == 0 && world->variant->delete)
		world_fail(world, "row %ld was settled as sent and not deleted", (long)id);
	if (strcmp(status, "SENT") == 0 && row->delivered == 0)
		world_fail(world, "row %ld is marked sent and was never delivered", (long)id);
	if (attempts > RACE_MAX_ATTEMPTS)
		world_fail(world, "row %ld has %d attempts", (long)id, attempts);
	if (strncmp(error, "lease expired", 13) == 0 && !row->poison)
		world_fail(world, "row %ld was failed for its lease and never killed anybody", (long)id);
}

static void check_gone(struct race_world *world, int64_t id)
{
	const struct race_row *row = &world->rows[id];

	if (row->committed && !row->hand && (row->delivered == 0 || !world->variant->delete))
		world_fail(world, "row %ld is gone, and was delivered %d times", (long)id, row->delivered);
}

static void check_table(struct race_world *world, PGconn *conn)
{
	PGresult *result;
	int64_t id;
	int row;

	server_run(
		conn,
		"DECLARE rows CURSOR WITH HOLD FOR SELECT id, status, attempts, coalesce(last_error, '') FROM %s",
		world->table);
	result = PQexec(conn, "FETCH ALL FROM rows");
	for (row = 0; row < PQntuples(result); row++)
		check_row(world, atoll(PQgetvalue(result, row, 0)), PQgetvalue(result, row, 1),
			  (int)strtol(PQgetvalue(result, row, 2), NULL, 10), PQgetvalue(result, row, 3));
	PQclear(result);
	for (id = 1; id <= world->n_rows; id++)
		check_gone(world, id);
}

static void start(struct race_world *world, struct race_thread *threads, int n, void *(*main)(void *))
{
	int i;

	for (i = 0; i < n; i++) {
		threads[i] = (struct race_thread){.world = world, .number = i};
		if (pthread_create(&threads[i].thread, NULL, main, &threads[i]) != 0)
			server_die("no thread");
	}
}

static void join(struct race_thread *threads, int n)
{
	int i;

	for (i = 0; i < n; i++)
		pthread_join(threads[i].thread, NULL);
}

uint64_t world_run(struct race_world *world, int seconds)
{
	struct race_thread workers[RACE_WORKERS], writers[RACE_WRITERS], people[RACE_PEOPLE];
	PGconn *conn = server_connect(world->dsn, "race");
	struct backoff_random random;

	backoff_seed(&random, world->seed);
	start(world, workers, RACE_WORKERS, worker_main);
	start(world, writers, RACE_WRITERS, writer_main);
	start(world, people, RACE_PEOPLE, people_main);
	race_pause_us(seconds * INT64_C(1000000));
	world->quiet = true;
	join(writers, RACE_WRITERS);
	join(people, RACE_PEOPLE);
	finish(world, conn, &random);
	world->stop = true;
	join(workers, RACE_WORKERS);
	check_table(world, conn);
	PQfinish(conn);
	return world->failures;
}

void world_print(struct race_world *world)
{
	printf("%s: seed %lu: %ld rows, %lu claims, %lu deliveries, %lu edits, %lu by hand, %lu crashes, %lu lost answers, %lu sleeps, "
	       "%lu raced, %lu fenced, %lu expired, %lu swept, %lu parked, %lu pulled, %lu suspects, %lu far, %lu retried, %lu skipped: %lu failures\n",
	       world->variant->name, (unsigned long)world->seed, (long)world->n_rows, (unsigned long)world->claims,
	       (unsigned long)world->deliveries, (unsigned long)world->edits, (unsigned long)world->by_hand,
	       (unsigned long)world->crashes, (unsigned long)world->lost, (unsigned long)world->slept,
	       (unsigned long)world->raced, (unsigned long)world->fenced, (unsigned long)world->expired,
	       (unsigned long)world->swept, (unsigned long)world->parked, (unsigned long)world->pulled,
	       (unsigned long)world->suspects, (unsigned long)world->far, (unsigned long)world->retried,
	       (unsigned long)world->skipped, (unsigned long)world->failures);
}
