#include "cli/change.h"

#include "base/mem.h"
#include "cli/sourcedb.h"
#include "core/pgarray.h"
#include "core/settle.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define PICK_ROWS 1000000 /* their ids take some tens of MiB */
#define CHUNK_ROWS 500	  /* changed in one transaction: relays and applications never wait long for their locks */
#define TRIES 3		  /* of a transaction that met a deadlock or somebody's lock */

struct changing {
	const struct change *change;
	const char *done_word; /* "retried" */
	struct sourcedb db;
	struct slice values[SQL_PARAMS]; /* of all statements; what follows is their memory */
	char named[4], limit[4];
	struct buf reason;
	struct pgarray ids, keys, untils;
	PGresult *picked;
	int next; /* of the picked rows: those in front of it are done */
	int64_t changed;
	time_t told; /* when the progress was */
};

/* ---- picking ---- */

static void fill_values(struct changing *changing)
{
	const struct change *change = changing->change;
	struct slice *values = changing->values;

	values[SQL_P_NAMED] = pg_put_int4(changing->named, change->ids.n > 0);
	values[SQL_P_LIMIT] = pg_put_int4(changing->limit, PICK_ROWS);
	values[SQL_P_KEY] = slice_of(change->key);
	values[SQL_P_ERROR] = slice_of(change->error);
	settle_clean_text(&changing->reason, change->reason == NULL ? "no reason given" : change->reason,
			  SETTLE_ERROR_BYTES);
	values[SQL_P_REASON] = slice_of(buf_text(&changing->reason));
	pgarray_begin(&changing->ids, PGOID_TEXT);
	for (size_t i = 0; i < change->ids.n; i++)
		pgarray_add_bytes(&changing->ids, slice_of(change->ids.items[i]));
	values[SQL_P_IDS] = pgarray_end(&changing->ids);
}

static enum sql_kind pick_kind(const struct change *change)
{
	if (change->ids.n > 0)
		return change->skip ? SQL_PICK_SKIP : SQL_PICK_RETRY;
	return change->key != NULL ? SQL_PICK_KEY : SQL_PICK_FAILED;
}

/* What the table lacks for this. */
static const char *missing_column(const struct changing *changing)
{
	const struct change *change = changing->change;
	const struct sql *sql = changing->db.sql;

	if (change->key != NULL && !sql_has_column(sql, COLUMN_KEY))
		return "--key needs columns.key";
	if (change->error != NULL && !sql_has_column(sql, COLUMN_LAST_ERROR))
		return "--error needs columns.last_error";
	if (change->skip && !sql_may_skip(sql))
		return "a skipped row could not be told from a failed one: map columns.settled_at or columns.last_error";
	return NULL;
}

static int complain(const struct changing *changing)
{
	fprintf(stderr, "%s: %s\n", changing->change->command, changing->db.err.text);
	return changing->db.exit_code;
}

/* CLI_OK: there are rows to be changed. */
static int pick(struct changing *changing)
{
	const struct change *change = changing->change;
	const char *missing = missing_column(changing);

	if (missing != NULL) {
		fprintf(stderr, "%s: source %s: %s\n", change->command, changing->db.source->name, missing);
		return CLI_CONFIG;
	}
	changing->picked = sourcedb_run(&changing->db, pick_kind(change), changing->values);
	/* It reads only, so nothing but an id or a key that is none of its type is refused as data. */
	if (changing->picked == NULL && changing->db.exit_code == CLI_INTERNAL)
		return cli_usage_error(change->command, "%s", changing->db.err.text);
	return changing->picked == NULL ? complain(changing) : CLI_OK;
}

/* ---- printing ---- */

/* What came out of a table may hold anything; a terminal is to print it, not to obey it. */
static void print_text(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		putchar((unsigned char)text.bytes[i] < ' ' || text.bytes[i] == 0x7f ? '?' : text.bytes[i]);
}

static void print_picked(const PGresult *picked)
{
	int row;

	for (row = 0; row < PQntuples(picked); row++) {
		print_text(sourcedb_cell(picked, row, SQL_PICKED_ID));
		printf("  attempts=%" PRId32, pg_get_int4(sourcedb_cell(picked, row, SQL_PICKED_ATTEMPTS)));
		if (!PQgetisnull(picked, row, SQL_PICKED_KEY)) {
			fputs("  key=", stdout);
			print_text(sourcedb_cell(picked, row, SQL_PICKED_KEY));
		}
		fputs("  ", stdout);
		print_text(sourcedb_cell(picked, row, SQL_PICKED_ERROR));
		putchar('\n');
	}
}

static void print_count(const struct changing *changing, int64_t rows, const char *would)
{
	printf("%" PRId64 " row%s %s%s\n", rows, rows == 1 ? "" : "s", would, changing->done_word);
}

/* All was looked at, and so many rows were, or would be, changed. */
static int conclude(const struct changing *changing, int64_t rows, const char *would)
{
	const struct change *change = changing->change;

	print_count(changing, rows, would);
	if (rows == 0) {
		fprintf(stderr, "%s: nothing matches\n", change->command);
		return CLI_NOTHING;
	}
	if (rows < (int64_t)change->ids.n)
		fprintf(stderr, "%s: %" PRId64 " of %zu ids name no row that can be %s\n", change->command,
			(int64_t)change->ids.n - rows, change->ids.n, changing->done_word);
	if (PQntuples(changing->picked) == PICK_ROWS)
		fprintf(stderr, "%s: there may be more: run it again\n", change->command);
	return CLI_OK;
}

static void tell_progress(struct changing *changing)
{
	int all = PQntuples(changing->picked);
	time_t now = time(NULL);

	if (changing->told == now || changing->next == all)
		return;
	changing->told = now;
	fprintf(stderr, "%s: %d of %d rows done\n", changing->change->command, changing->next, all);
}

/* ---- changing ---- */

static void block_interrupts(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
}

/* They wait until somebody looks. */
static bool interrupted(void)
{
	sigset_t signals;

	return sigpending(&signals) == 0 &&
	       (sigismember(&signals, SIGINT) == 1 || sigismember(&signals, SIGTERM) == 1);
}

/* The ids of the next rows; returns where they end. */
static int take_ids(struct changing *changing)
{
	int left = PQntuples(changing->picked) - changing->next;
	int end = changing->next + (left < CHUNK_ROWS ? left : CHUNK_ROWS), row;

	pgarray_begin(&changing->ids, PGOID_TEXT);
	for (row = changing->next; row < end; row++)
		pgarray_add_bytes(&changing->ids, sourcedb_cell(changing->picked, row, SQL_PICKED_ID));
	changing->values[SQL_P_IDS] = pgarray_end(&changing->ids);
	return end;
}

/* The keys of changed rows; false: there are none that anything could be parked behind. */
static bool take_keys(struct changing *changing, const PGresult *changed)
{
	int row;

	pgarray_begin(&changing->keys, PGOID_TEXT);
	pgarray_begin(&changing->untils, PGOID_TIMESTAMPTZ);
	for (row = 0; row < PQntuples(changed); row++) {
		if (PQgetisnull(changed, row, SQL_CHANGED_KEY))
			continue;
		pgarray_add_bytes(&changing->keys, sourcedb_cell(changed, row, SQL_CHANGED_KEY));
		pgarray_add_bytes(&changing->untils, sourcedb_cell(changed, row, SQL_CHANGED_UNTIL));
	}
	changing->values[SQL_P_KEYS] = pgarray_end(&changing->keys);
	changing->values[SQL_P_UNTILS] = pgarray_end(&changing->untils);
	return changing->keys.count > 0 && changing->db.source->ordering == ORDERING_KEY;
}

/* *more: not all were freed yet. */
static bool read_freed(PGresult *result, bool *more)
{
	if (result == NULL)
		return false;
	*more = pg_get_int8(sourcedb_cell(result, 0, 0)) >= SQL_SWEEP_LIMIT;
	PQclear(result);
	return true;
}

static bool change_and_unpark(struct changing *changing, int64_t *changed, bool *more)
{
	struct sourcedb *db = &changing->db;
	PGresult *result = sourcedb_add(db, changing->change->skip ? SQL_SKIP : SQL_RETRY, changing->values);
	bool good = result != NULL;

	*more = false;
	if (!good)
		return false;
	*changed = PQntuples(result);
	if (take_keys(changing, result))
		good = read_freed(sourcedb_add(db, SQL_UNPARK, changing->values), more);
	PQclear(result);
	return good;
}

/* One transaction. Somebody's locks, or a deadlock with somebody's statement: it is simply done again. */
static bool change_chunk(struct changing *changing, bool *more)
{
	int64_t changed = 0;
	bool good = false;
	int tries;

	for (tries = 0; !good && tries < TRIES; tries++) {
		if (tries > 0 && (changing->db.exit_code != CLI_TEMPORARY || interrupted()))
			return false;
		good = sourcedb_begin(&changing->db) && change_and_unpark(changing, &changed, more);
		good = sourcedb_end(&changing->db, good) && good;
	}
	changing->changed += good ? changed : 0;
	return good;
}

/* Very many may be parked behind one row; the sweep of a relay would find what is left after an interruption. */
static bool unpark_rest(struct changing *changing, bool more)
{
	while (more && !interrupted())
		if (!read_freed(sourcedb_run(&changing->db, SQL_UNPARK, changing->values), &more))
			return false;
	return true;
}

static int stop_short(const struct changing *changing, int exit_code)
{
	print_count(changing, changing->changed, "");
	fprintf(stderr, "%s: it ended early: %d of %d rows were looked at, the others are as they were%s\n",
		changing->change->command, changing->next, PQntuples(changing->picked),
		exit_code == CLI_UNAVAILABLE ? "; of the last ones, nobody knows" : "");
	return exit_code;
}

static int change_all(struct changing *changing)
{
	bool more = false;
	int end;

	block_interrupts();
	while (changing->next < PQntuples(changing->picked)) {
		if (interrupted())
			return stop_short(changing, CLI_TEMPORARY);
		end = take_ids(changing);
		if (!change_chunk(changing, &more))
			return stop_short(changing, complain(changing));
		changing->next = end;
		if (!unpark_rest(changing, more))
			return stop_short(changing, complain(changing));
		tell_progress(changing);
	}
	return conclude(changing, changing->changed, "");
}

/* ---- all of it ---- */

static int change_picked(struct changing *changing)
{
	if (!changing->change->dry_run)
		return change_all(changing);
	print_picked(changing->picked);
	return conclude(changing, PQntuples(changing->picked), "would be ");
}

int change_rows(const struct config_source *source, const struct change *change)
{
	struct changing changing = {.change = change, .done_word = change->skip ? "skipped" : "retried"};
	int exit_code;

	if (!sourcedb_open(&changing.db, source)) {
		exit_code = complain(&changing);
	} else {
		fill_values(&changing);
		exit_code = pick(&changing);
		if (exit_code == CLI_OK)
			exit_code = change_picked(&changing);
	}
	PQclear(changing.picked);
	sourcedb_close(&changing.db);
	buf_free(&changing.reason);
	pgarray_free(&changing.ids);
	pgarray_free(&changing.keys);
	pgarray_free(&changing.untils);
	return exit_code;
}
