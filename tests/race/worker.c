/* A worker: what source.c does with the statements, one step after the other, and what can go wrong on the way. */
#include "race.h"

#include "base/mem.h"
#include "core/settle.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HELD 64
#define NO_KEY (-1)

enum stage { STAGE_FREE, STAGE_WAITING, STAGE_OUTCOME };

struct held {
	enum stage stage;
	int64_t id;
	int key;
	uint64_t claim;
	int32_t attempts, max;
	char lease[8];
	char owner[48];
	int64_t until_us;
	/* the outcome */
	enum row_state state;
	int64_t delay_us;
	int32_t back;
	const char *error;
	bool sent_before; /* in a settle whose answer was lost: perhaps done */
};

/* Rule 2: a key whose rows were released is broken until that settle was answered, and every claim sent before. */
struct key_state {
	bool broken;
	uint64_t older_claims; /* claims up to this number are older than the settle */
};

struct worker {
	struct race_world *world;
	enum race_sin sin;
	struct backoff_random random;
	PGconn *claims, *settles;
	int number, births;
	char owner[48];
	struct held held[MAX_HELD];
	struct key_state keys[RACE_KEYS];

	bool claiming, far, suspect;
	bool orphaned; /* the worker that sent this claim has crashed */
	uint64_t claim;
	char claim_owner[48];
	int64_t claim_sent_us;
	int64_t limit, max_bytes;
	bool suspect_in_memory;
	bool drowsy; /* has just slept past its leases: claims before it settles */
	bool has_position;
	char far_due[8];
	char far_id[24];

	struct pgarray hot_keys, hot_held;
	struct settle *settle;
};

/* ---- memory ---- */

static struct held *find_held(struct worker *worker, int64_t id)
{
	size_t i;

	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage != STAGE_FREE && worker->held[i].id == id)
			return &worker->held[i];
	}
	return NULL;
}

static int count_stage(const struct worker *worker, enum stage stage)
{
	int n = 0;
	size_t i;

	for (i = 0; i < MAX_HELD; i++)
		n += worker->held[i].stage == stage;
	return n;
}

static int count_key(const struct worker *worker, int key)
{
	int n = 0;
	size_t i;

	for (i = 0; i < MAX_HELD; i++)
		n += worker->held[i].stage != STAGE_FREE && worker->held[i].key == key;
	return n;
}

static void new_owner(struct worker *worker)
{
	if (worker->sin == SIN_KEEP_OWNER && worker->births > 0)
		return;
	snprintf(worker->owner, sizeof(worker->owner), "worker-%d-%d", worker->number, ++worker->births);
}

/* All memory goes; the leases in the table cover it. */
static void crash(struct worker *worker)
{
	memset(worker->held, 0, sizeof(worker->held));
	memset(worker->keys, 0, sizeof(worker->keys));
	worker->suspect_in_memory = false;
	worker->has_position = false;
	worker->orphaned = worker->claiming;
	new_owner(worker);
	world_count(worker->world, &worker->world->crashes, 1);
}

static void set_outcome(struct worker *worker, struct held *held, enum row_state state, int64_t delay_us,
			int32_t back, const char *error)
{
	held->stage = STAGE_OUTCOME;
	held->state = state;
	held->delay_us = delay_us;
	held->back = back;
	held->error = error;
	if (held->key != NO_KEY && state != ROW_SENT && worker->sin != SIN_KEEP_FOLLOWERS)
		worker->keys[held->key].broken = true;
	if (state == ROW_FAILED)
		world_overtaken(worker->world, held->id);
	world_let_go(worker->world, held->id, held->claim);
}

/* Rule 2: with a row that leaves otherwise than delivered go all behind it. */
static void release_followers(struct worker *worker, const struct held *head)
{
	size_t i;

	if (head->key == NO_KEY || worker->sin == SIN_KEEP_FOLLOWERS)
		return;
	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage == STAGE_WAITING && worker->held[i].key == head->key &&
		    worker->held[i].id > head->id)
			set_outcome(worker, &worker->held[i], ROW_PENDING, 0, 1, NULL);
	}
}

/* ---- claim ---- */

static void hot_keys(struct worker *worker, struct server_values *values)
{
	char name[8];
	int key, n;

	pgarray_begin(&worker->hot_keys, PGOID_TEXT);
	pgarray_begin(&worker->hot_held, PGOID_INT4);
	for (key = 0; key < RACE_KEYS; key++) {
		n = count_key(worker, key);
		if (n < RACE_SHARE / 2)
			continue;
		snprintf(name, sizeof(name), "k%d", key);
		pgarray_add_bytes(&worker->hot_keys, slice_of(name));
		pgarray_add_int4(&worker->hot_held, n);
	}
	values->values[SQL_P_HOT_KEYS] = pgarray_end(&worker->hot_keys);
	values->values[SQL_P_HOT_HELD] = pgarray_end(&worker->hot_held);
}

/* Before its first row is locked, or before each, the scan may sleep. */
static char *with_pause(struct worker *worker, const char *text)
{
	const char *where = strstr(text, "\n   WHERE ");
	struct buf out = {0};

	buf_add(&out, text, (size_t)(where - text));
	if (race_chance(&worker->random, 0.5))
		buf_print(&out, "\n   WHERE (SELECT pg_sleep(%.3f))::text = '' AND ",
			  0.001 * (double)race_below(&worker->random, 40));
	else
		buf_print(&out, "\n   WHERE pg_sleep(0.001)::text = '' AND ");
	buf_add_string(&out, where + strlen("\n   WHERE "));
	return buf_take(&out);
}

static void send_claim(struct worker *worker, enum sql_kind kind)
{
	struct race_world *world = worker->world;
	char max[4], limit[4], share[4], bytes[8], lease[16], park[16], *text = NULL;
	struct server_values values = {0};
	int room = MAX_HELD - count_stage(worker, STAGE_WAITING) - count_stage(worker, STAGE_OUTCOME);

	worker->limit = room < RACE_BATCH ? room : RACE_BATCH;
	worker->max_bytes = 200 + race_below(&worker->random, 8000);
	values.values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max, RACE_MAX_ATTEMPTS);
	values.values[SQL_P_LIMIT] = pg_put_int4(limit, (int32_t)worker->limit);
	values.values[SQL_P_SHARE] = pg_put_int4(share, RACE_SHARE);
	values.values[SQL_P_MAX_BYTES] = pg_put_int8(bytes, worker->max_bytes);
	values.values[SQL_P_LEASE] = pg_put_interval_us(lease, RACE_LEASE_US);
	values.values[SQL_P_PARK_MAX] = pg_put_interval_us(park, RACE_PARK_US);
	values.values[SQL_P_OWNER] = slice_of(worker->owner);
	values.values[SQL_P_FAR_DUE] = (struct slice){worker->far_due, 8};
	values.values[SQL_P_FAR_ID] = slice_of(worker->far_id);
	hot_keys(worker, &values);
	if (race_chance(&worker->random, 0.3))
		text = with_pause(worker, world->texts[kind]);
	worker->claiming = true;
	worker->orphaned = false;
	memcpy(worker->claim_owner, worker->owner, sizeof(worker->owner));
	worker->suspect = kind == SQL_SUSPECT;
	worker->far = kind == SQL_CLAIM_FAR;
	worker->claim = world_next_claim(world);
	worker->claim_sent_us = race_now_us();
	server_send(worker->claims, sql_statement(world->sql, kind), text != NULL ? text : world->texts[kind],
		    &values);
	free(text);
}

static int key_of(struct slice cell)
{
	return cell.bytes == NULL ? NO_KEY : cell.bytes[1] - '0';
}

static void fill_held(struct worker *worker, struct held *held, const PGresult *result, int row)
{
	struct slice lease = server_cell(result, row, SQL_C_LEASE);

	held->claim = worker->claim;
	held->attempts = server_int4(result, row, SQL_C_ATTEMPTS);
	held->max = server_int4(result, row, SQL_C_MAX_ATTEMPTS);
	held->until_us = worker->claim_sent_us + RACE_LEASE_US;
	memcpy(held->lease, lease.bytes, sizeof(held->lease));
	memcpy(held->owner, worker->claim_owner, sizeof(held->owner));
}

/* A row of a claim that is older than a release of its key's rows, or of a key that is broken still. */
static bool is_broken(const struct worker *worker, int key)
{
	if (key == NO_KEY)
		return false;
	if (worker->keys[key].broken)
		return true;
	return worker->sin != SIN_TRUST_OLD_CLAIM && worker->claim <= worker->keys[key].older_claims;
}

/* A claim asks for no more rows than there is room. */
static struct held *free_place(struct worker *worker)
{
	size_t i = 0;

	while (i < MAX_HELD - 1 && worker->held[i].stage != STAGE_FREE)
		i++;
	if (worker->held[i].stage != STAGE_FREE)
		server_die("more rows than room");
	return &worker->held[i];
}

static void take_row(struct worker *worker, const PGresult *result, int row)
{
	int64_t id = atoll(PQgetvalue(result, row, SQL_C_ID));
	struct held *held = worker->sin == SIN_TWO_SELVES ? NULL : find_held(worker, id);

	world_check_part(worker->world, worker->number, id, "claimed");
	world_claimed(worker->world, id, worker->claim, worker->claim_sent_us + RACE_LEASE_US);
	/* Claimed again while its older self is in memory: one row, under the new lease. */
	if (held != NULL && held->stage == STAGE_OUTCOME && held->state != ROW_SENT) {
		/* What was to be written belongs to the old lease; the row is claimed, so it is released. */
		fill_held(worker, held, result, row);
		set_outcome(worker, held, ROW_PENDING, 0, 1, NULL);
		held->sent_before = false;
		return;
	}
	if (held == NULL) {
		held = free_place(worker);
		*held = (struct held){
			.stage = STAGE_WAITING, .id = id, .key = key_of(server_cell(result, row, SQL_C_KEY))};
	}
	held->sent_before = false;
	fill_held(worker, held, result, row);
	if (held->stage == STAGE_WAITING && is_broken(worker, held->key))
		set_outcome(worker, held, ROW_PENDING, 0, 1, NULL);
	if (worker->suspect)
		worker->suspect_in_memory = true;
}

static void check_bounds(struct worker *worker, const PGresult *result)
{
	int64_t sum = 0, largest = 0, len;
	int row, key;

	for (row = 1; row < PQntuples(result); row++) {
		if (!worker->suspect && server_int4(result, row, SQL_C_TAKEN) != 0 &&
		    server_int4(result, row, SQL_C_ATTEMPTS) > 2)
			world_fail(worker->world, "row %s has had %d attempts and is claimed with others",
				   PQgetvalue(result, row, SQL_C_ID), server_int4(result, row, SQL_C_ATTEMPTS));
		len = PQgetlength(result, row, SQL_C_PAYLOAD);
		sum += len;
		largest = len > largest ? len : largest;
	}
	if (!worker->suspect && sum - largest >= worker->max_bytes)
		world_fail(worker->world, "a claim of %ld bytes brought %ld", (long)worker->max_bytes, (long)sum);
	for (key = 0; key < RACE_KEYS; key++) {
		if (count_key(worker, key) > RACE_SHARE + RACE_SHARE / 2)
			world_fail(worker->world, "key %d holds %d rows in one memory", key,
				   count_key(worker, key));
	}
}

/* A full claim that found less than a quarter free and parked nothing makes the next one go on behind it. That far position
 * moves by its own candidates, and ends when it comes back short. */
static void keep_position(struct worker *worker, const PGresult *result)
{
	int64_t candidates = server_int8(result, 0, SQL_C_CANDIDATES);
	bool stuck = candidates >= worker->limit && server_int8(result, 0, SQL_C_FREE) * 4 < candidates &&
		     server_int8(result, 0, SQL_C_PARKED) == 0;

	if (worker->far)
		worker->has_position = candidates >= worker->limit;
	else if (worker->has_position || !stuck)
		return;
	else
		worker->has_position = true;
	if (!worker->has_position)
		return;
	memcpy(worker->far_due, PQgetvalue(result, 0, SQL_C_LAST_DUE), sizeof(worker->far_due));
	snprintf(worker->far_id, sizeof(worker->far_id), "%s", PQgetvalue(result, 0, SQL_C_LAST_ID));
}

static void take_rows(struct worker *worker, const PGresult *result)
{
	struct race_world *world = worker->world;
	int row;

	world_count(world, &world->parked, (uint64_t)server_int8(result, 0, SQL_C_PARKED));
	world_count(world, &world->pulled, (uint64_t)server_int8(result, 0, SQL_C_PULLED));
	world_count(world, worker->far ? &world->far : &world->suspects,
		    worker->far || (worker->suspect && PQntuples(result) > 1));
	if (!worker->suspect)
		keep_position(worker, result);
	for (row = 1; row < PQntuples(result); row++) /* the first is the tail */
		take_row(worker, result, row);
	check_bounds(worker, result);
}

static bool is_raced(const PGresult *result)
{
	return strstr(PQresultErrorMessage(result), SQL_RACED_MARK) != NULL;
}

static void finish_claim(struct worker *worker)
{
	struct race_world *world = worker->world;
	PGresult *result;

	if (!worker->claiming)
		return;
	result = server_finish(worker->claims);
	worker->claiming = false;
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		if (is_raced(result))
			world_count(world, &world->raced, 1);
		else
			world_error(world, "claim", result);
	} else if (worker->orphaned) {
		worker->orphaned = false;
	} else if (!world->quiet && !worker->suspect && race_chance(&worker->random, 0.03)) {
		/* Lost: nobody's memory holds these rows, so they must count as foreign until their leases end. */
		world_count(world, &world->lost, 1);
		new_owner(worker);
	} else {
		take_rows(worker, result);
	}
	PQclear(result);
}

/* ---- deliver ---- */

/* The first row of its key in memory, or any when order is sinned against. */
static bool is_head(const struct worker *worker, const struct held *held)
{
	size_t i;

	if (held->key == NO_KEY || worker->sin == SIN_DISORDER_IN_MEMORY)
		return true;
	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage == STAGE_WAITING && worker->held[i].key == held->key &&
		    worker->held[i].id < held->id)
			return false;
	}
	return true;
}

/* What this memory knows to be delivered must not be sent again. */
static void check_selves(struct worker *worker, const struct held *held)
{
	size_t i;

	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage == STAGE_OUTCOME && worker->held[i].id == held->id &&
		    worker->held[i].state == ROW_SENT)
			world_fail(worker->world, "row %ld is sent again by the worker that has just delivered it",
				   (long)held->id);
	}
}

/* False: its lease has ended on the way; it is released. */
static bool hand_over(struct worker *worker, struct held *held)
{
	int64_t until = worker->sin == SIN_LATE_DELIVERY ? INT64_MAX : held->until_us;
	bool delivered;

	check_selves(worker, held);
	delivered = world_delivered(worker->world, held->id, held->key, held->claim, until);
	set_outcome(worker, held, delivered ? ROW_SENT : ROW_PENDING, 0, delivered ? 0 : 1, NULL);
	return delivered;
}

static void judge(struct worker *worker, struct held *held)
{
	double luck = worker->world->quiet || worker->suspect_in_memory ? 1 : backoff_uniform(&worker->random);

	if (luck < 0.02)
		set_outcome(worker, held, ROW_FAILED, 0, 0, "rejected");
	else if (luck < 0.07 && held->attempts < 2)
		set_outcome(worker, held, ROW_PENDING, race_below(&worker->random, 400000) + 1, 0, "try again");
	else if (luck < 0.09)
		set_outcome(worker, held, ROW_PENDING, 0, 1, NULL);
	else if (hand_over(worker, held))
		return;
	release_followers(worker, held);
}

/* False: the worker has crashed. */
static bool deliver_one(struct worker *worker, struct held *held)
{
	if (held->until_us - RACE_MARGIN_US < race_now_us() && worker->sin != SIN_LATE_DELIVERY) {
		set_outcome(worker, held, ROW_PENDING, 0, 1, NULL);
		release_followers(worker, held);
		return true;
	}
	if (!worker->world->quiet && world_poison(worker->world, held->id)) {
		crash(worker);
		return false;
	}
	judge(worker, held);
	return true;
}

static void deliver(struct worker *worker, int n)
{
	size_t first = (size_t)race_below(&worker->random, MAX_HELD), i;

	for (i = 0; i < MAX_HELD && n > 0; i++) {
		struct held *held = &worker->held[(first + i) % MAX_HELD];

		if (held->stage != STAGE_WAITING || !is_head(worker, held))
			continue;
		n--;
		if (!deliver_one(worker, held))
			return;
	}
}

/* ---- settle ---- */

/* By claim, then ascending. */
static int compare_held(const void *a, const void *b)
{
	const struct held *x = *(struct held *const *)a, *y = *(struct held *const *)b;

	if (x->claim != y->claim)
		return x->claim < y->claim ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void add_outcome(struct worker *worker, const struct held *held, const struct held *before)
{
	struct settle_row other = {.lease = {held->lease, sizeof(held->lease)},
				   .owner = held->owner,
				   .state = worker->world->source.states[held->state],
				   .delay_us = held->delay_us,
				   .back = held->back != 0,
				   .error = held->error};
	char id[24];

	snprintf(id, sizeof(id), "%ld", (long)held->id);
	other.id = slice_of(id);
	if (held->state != ROW_SENT) {
		settle_add(worker->settle, &other);
		return;
	}
	if (before == NULL || before->claim != held->claim)
		settle_begin_claim(worker->settle, other.lease, other.owner);
	settle_add_sent(worker->settle, other.id);
}

/* Collects the outcomes of delivered rows, or those of the others. */
static int collect(struct worker *worker, bool sent, struct held **list, struct server_values *values)
{
	int n = 0, i;

	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage == STAGE_OUTCOME && (worker->held[i].state == ROW_SENT) == sent)
			list[n++] = &worker->held[i];
	}
	qsort(list, (size_t)n, sizeof(list[0]), compare_held);
	settle_begin(worker->settle);
	for (i = 0; i < n; i++)
		add_outcome(worker, list[i], i == 0 ? NULL : list[i - 1]);
	settle_values(worker->settle, values->values);
	return n;
}

static bool returned(const PGresult *result, int64_t id)
{
	int row;

	for (row = 0; row < PQntuples(result); row++) {
		if (atoll(PQgetvalue(result, row, 0)) == id)
			return true;
	}
	return false;
}

/* Fenced: allowed when the lease may have ended, when people meddled, and when the first answer was lost. */
static void check_fence(struct worker *worker, const struct held *held, int64_t sent_us)
{
	if (held->sent_before || world_hand(worker->world, held->id) || race_now_us() >= held->until_us)
		return;
	world_fail(worker->world, "row %ld: its settle (%s) was refused %ld us before the end of its lease",
		   (long)held->id, row_state_name(held->state), (long)(held->until_us - sent_us));
}

static void forget(struct worker *worker, struct held **list, int n)
{
	int i, key;

	for (i = 0; i < n; i++) {
		key = list[i]->key;
		if (key != NO_KEY && worker->keys[key].broken && list[i]->state != ROW_SENT) {
			worker->keys[key].broken = false;
			worker->keys[key].older_claims = worker->claim;
		}
		memset(list[i], 0, sizeof(*list[i]));
	}
	if (count_stage(worker, STAGE_WAITING) == 0)
		worker->suspect_in_memory = false;
}

static void answered(struct worker *worker, const PGresult *result, struct held **list, int n, int64_t sent_us)
{
	int i;

	for (i = 0; i < n; i++) {
		if (returned(result, list[i]->id))
			continue;
		world_count(worker->world, &worker->world->fenced, 1);
		check_fence(worker, list[i], sent_us);
	}
	forget(worker, list, n);
}

/* No answer came: the outcomes stay, perhaps written and perhaps not. */
static void lose(struct worker *worker, struct held **list, int n)
{
	int i;

	world_count(worker->world, &worker->world->lost, 1);
	for (i = 0; i < n; i++)
		list[i]->sent_before = true;
	if (worker->sin == SIN_FORGET_OUTCOMES)
		forget(worker, list, n);
}

/* One settle; it may be lost before or after it was done, and is then sent again later, with all that came meanwhile. */
static void settle(struct worker *worker, bool sent)
{
	struct race_world *world = worker->world;
	struct held *list[MAX_HELD] = {NULL};
	struct server_values values = {0};
	int64_t sent_us = race_now_us();
	PGresult *result;
	double luck = world->quiet || worker->suspect_in_memory ? 1 : backoff_uniform(&worker->random);
	enum sql_kind kind = sent ? SQL_SETTLE_SENT : SQL_SETTLE;
	int n = collect(worker, sent, list, &values);

	if (n == 0)
		return;
	if (luck < 0.06) { /* lost on its way */
		lose(worker, list, n);
		return;
	}
	result = server_execute(worker->settles, sql_statement(world->sql, kind), world->texts[kind], &values);
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		world_error(world, "settle", result);
	} else if (luck < 0.09) { /* its answer was lost */
		lose(worker, list, n);
	} else {
		answered(worker, result, list, n, sent_us);
	}
	PQclear(result);
}

/* ---- the rest ---- */

static int64_t housekeeping(struct worker *worker, enum sql_kind kind)
{
	struct race_world *world = worker->world;
	struct server_values values = {0};
	char max[4], *text = NULL;
	int64_t n = 0;
	PGresult *result;
	int row;

	values.values[SQL_P_MAX_ATTEMPTS] = pg_put_int4(max, RACE_MAX_ATTEMPTS);
	if (kind == SQL_SWEEP && race_chance(&worker->random, 0.5))
		text = with_pause(worker, world->texts[kind]);
	result = server_execute(worker->settles, sql_statement(world->sql, kind),
				text != NULL ? text : world->texts[kind], &values);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		world_error(world, kind == SQL_SWEEP ? "sweep" : "expire", result);
	else if (kind == SQL_SWEEP)
		n = server_int8(result, 0, 0);
	else
		n = PQntuples(result);
	for (row = 0; kind == SQL_EXPIRE && row < n; row++) {
		world_overtaken(world, atoll(PQgetvalue(result, row, 0)));
		world_check_part(world, worker->number, atoll(PQgetvalue(result, row, 0)), "given up");
	}
	world_count(world, kind == SQL_SWEEP ? &world->swept : &world->expired, (uint64_t)n);
	PQclear(result);
	free(text);
	return n;
}

static void sometimes(struct worker *worker)
{
	if (race_chance(&worker->random, 0.02) && worker->sin != SIN_NO_SWEEP)
		housekeeping(worker, SQL_SWEEP);
	if (race_chance(&worker->random, 0.03) && worker->sin != SIN_NO_EXPIRE)
		housekeeping(worker, SQL_EXPIRE);
	if (worker->world->quiet || worker->suspect_in_memory)
		return;
	if (race_chance(&worker->random, 0.02)) {
		world_count(worker->world, &worker->world->slept, 1);
		worker->drowsy = true;
		race_pause_us(RACE_LEASE_US + race_below(&worker->random, RACE_LEASE_US / 2));
	}
	if (race_chance(&worker->random, 0.03))
		crash(worker);
}

static void begin_claim(struct worker *worker)
{
	int busy = count_stage(worker, STAGE_WAITING) + count_stage(worker, STAGE_OUTCOME);

	if (worker->claiming || worker->suspect_in_memory)
		return;
	/* Alone in memory, and nothing else is claimed until it is settled. */
	if (busy == 0 && race_chance(&worker->random, 0.3)) {
		if (worker->sin != SIN_NO_SUSPECT)
			send_claim(worker, SQL_SUSPECT);
		return;
	}
	if (MAX_HELD - busy < 2)
		return;
	send_claim(worker, worker->has_position && race_chance(&worker->random, 0.5) ? SQL_CLAIM_FAR : SQL_CLAIM);
}

static bool has_lost_outcomes(const struct worker *worker)
{
	size_t i;

	for (i = 0; i < MAX_HELD; i++) {
		if (worker->held[i].stage == STAGE_OUTCOME && worker->held[i].sent_before)
			return true;
	}
	return false;
}

static void step(struct worker *worker)
{
	/* Rule 5: after a lost answer no claim before all outcomes were answered. */
	if (!has_lost_outcomes(worker))
		begin_claim(worker);
	if (race_chance(&worker->random, 0.7))
		deliver(worker, 1 + (int)race_below(&worker->random, 12));
	if (race_chance(&worker->random, worker->drowsy ? 0.2 : 0.7))
		settle(worker, true);
	if (race_chance(&worker->random, worker->drowsy ? 0.2 : 0.7))
		settle(worker, false);
	worker->drowsy = false;
	if (race_chance(&worker->random, 0.7) || worker->suspect)
		finish_claim(worker);
	sometimes(worker);
	race_pause_us(race_below(&worker->random, 1500));
}

void *worker_main(void *argument)
{
	struct race_thread *thread = argument;
	struct race_world *world = thread->world;
	struct worker *worker = MEM_NEW(struct worker);

	worker->world = world;
	worker->number = thread->number;
	worker->sin = world->broken == NULL ? SIN_NONE : world->broken->sin;
	worker->claims = server_connect(world->dsn, "race claims");
	worker->settles = server_connect(world->dsn, "race settles");
	server_run(worker->claims, "SET race.part = '%d'", worker->number % 2);
	server_run(worker->settles, "SET race.part = '%d'", worker->number % 2);
	worker->settle = settle_new();
	backoff_seed(&worker->random, world->seed * 1000 + (uint64_t)thread->number);
	new_owner(worker);
	while (!world->stop)
		step(worker);
	finish_claim(worker);
	PQfinish(worker->claims);
	PQfinish(worker->settles);
	settle_free(worker->settle);
	mem_free(worker);
	return NULL;
}
