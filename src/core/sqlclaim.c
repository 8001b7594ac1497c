/* The claims. They are raced against crashes, lost answers, writers and people who change rows by hand (tests/race); each
 * part is there because leaving it out was seen to break something. All run under READ COMMITTED: the moment of the
 * snapshot and the moment of a row's lock differ, and other transactions commit between them. */
#include "core/sqltext.h"

#define KEYED SQLTEXT_KEYED
#define INDEXED (SQLTEXT_KEYED | SQLTEXT_KEY_INDEX)
#define AWAIT SQLTEXT_AWAIT
#define FOUND "  SELECT {c.r} AS r, {c.id} AS id, {c.order} AS ord, {c.due} AS due, {c.taken} AS taken,"

const struct sqltext_part sqlclaim_claim[] = {
	/* Due rows, oldest due time first, locked; a row that somebody else has locked is passed over. An expired row with two
	 * attempts or more may be the one that crashes processes: it is left to the suspect claim. */
	{0, AWAIT, "WITH scanned AS MATERIALIZED (\n" FOUND},
	{KEYED, 0, "         {c.key} AS key,"},
	{0, AWAIT,
	 "         coalesce({c.bytes}, 0) AS bytes\n"
	 "    FROM {table} c\n"
	 "   WHERE {c.unfinished} AND {c.due} <= now()"},
	{SQLTEXT_FAR, AWAIT, "     AND ({c.due}, {c.order}) > ({$far_due}, {$far_id}::{:order_type})"},
	{0, AWAIT,
	 "     AND ({c.status} = {pending} OR ({c.expired} AND {c.tries} < least(2, {c.max}))){and_wanted}{c.and_in_turn}\n"
	 "   ORDER BY {c.due}, {c.order} LIMIT {$limit} FOR UPDATE SKIP LOCKED),"},

	/* await: what is in flight in the table is bounded, and this claim is alone (see sql.c). First the rows whose time is
	 * over, which take no more room than they have; a backlog in front of them would keep them waiting. IS TRUE: as in
	 * late below. */
	{AWAIT, 0,
	 "WITH in_flight AS MATERIALIZED (\n"
	 "  SELECT {p.id} AS id, {p.due} AS due FROM {table} p WHERE {p.unfinished} AND {p.status} = {in_flight}{and_wanted}\n"
	 "   ORDER BY {p.due}, {p.order} LIMIT {$max_in_flight}),\n"
	 "over AS MATERIALIZED (\n" FOUND "\n"
	 "         coalesce({c.bytes}, 0) AS bytes\n"
	 "    FROM {table} c WHERE {c.id} = ANY (ARRAY(SELECT f.id FROM in_flight f WHERE f.due <= now() LIMIT {$limit}))\n"
	 "     AND ({c.due} <= now() AND {c.expired} AND {c.tries} < CASE WHEN {c.late} THEN {c.max} ELSE least(2, {c.max}) END) IS TRUE\n"
	 "     FOR UPDATE SKIP LOCKED),\n"
	 "fresh AS MATERIALIZED (\n" FOUND "\n"
	 "         coalesce({c.bytes}, 0) AS bytes\n"
	 "    FROM {table} c WHERE {c.unfinished} AND {c.due} <= now() AND {c.status} = {pending}{and_wanted}{c.and_in_turn}"},
	{AWAIT | SQLTEXT_FAR, 0, "     AND ({c.due}, {c.order}) > ({$far_due}, {$far_id}::{:order_type})"},
	{AWAIT, 0,
	 "   ORDER BY {c.due}, {c.order}\n"
	 "   LIMIT greatest(0, least({$limit} - (SELECT count(*) FROM over), {$max_in_flight} - (SELECT count(*) FROM in_flight)))\n"
	 "     FOR UPDATE SKIP LOCKED),\n"
	 "scanned AS MATERIALIZED (SELECT * FROM over UNION ALL SELECT * FROM fresh),"},

	/* As many of them as their bytes allow, one at least: 4000 rows of 1 MB must not arrive. */
	{0, 0,
	 "candidate AS MATERIALIZED (\n"
	 "  SELECT * FROM (\n"
	 "    SELECT *, sum(bytes) OVER (ORDER BY due, ord ROWS UNBOUNDED PRECEDING) - bytes AS before FROM "
	 "scanned) s\n"
	 "   WHERE before = 0 OR before < {$max_bytes}),"},

	/* The candidates of each key in order, and how many more of the key may be in flight. Sorted once, not once a key; were the
	 * order ever lost on the way, fewer would be found free below, never the wrong ones. */
	{KEYED, 0,
	 "by_key AS MATERIALIZED (\n"
	 "  SELECT g.*, greatest(0, least(n, {$share} - coalesce(\n"
	 "           CASE WHEN cardinality({$hot_keys}) > 0 THEN\n"
	 "             (SELECT u.held FROM unnest({$hot_keys}, {$hot_held}) u (key, held) WHERE u.key = g.key::text) END, 0))) AS room\n"
	 "    FROM (SELECT key, array_agg(r) AS rs, count(*)::int AS n, min(due) AS due\n"
	 "            FROM (SELECT * FROM candidate ORDER BY key, ord) s GROUP BY key) g),"},
	/* The first open rows of each key that are not ours. BETWEEN: with = the planner drops the key from the ORDER BY and
	 * may walk the primary key through all settled rows; written so only the key index fits. OFFSET 0: else the list is
	 * computed twice. */
	{INDEXED, 0,
	 "listed AS MATERIALIZED (\n"
	 "  SELECT k.*, h.open FROM by_key k CROSS JOIN LATERAL (\n"
	 "      SELECT ARRAY(SELECT {p.r} FROM {table} p\n"
	 "                    WHERE {p.key} BETWEEN k.key AND k.key\n"
	 "                      AND {p.open}{p.and_not_ours}\n"
	 "                    ORDER BY {p.key}, {p.order} LIMIT k.room) AS open OFFSET 0) h),"},
	/* Without an index on the key: from one scan for all keys, not one scan a key. IS TRUE makes the IN a hash table; left
	 * to itself the planner may compare each row with each key. */
	{KEYED, SQLTEXT_KEY_INDEX,
	 "listed AS MATERIALIZED (\n"
	 "  SELECT k.*, h.open[1:k.room] AS open FROM by_key k LEFT JOIN (\n"
	 "    SELECT key, array_agg(r ORDER BY i) AS open FROM (\n"
	 "      SELECT {p.key} AS key, {p.r} AS r, row_number() OVER (PARTITION BY {p.key} ORDER BY {p.order}) AS i\n"
	 "        FROM {table} p\n"
	 "       WHERE ({p.key} IN (SELECT key FROM by_key)) IS TRUE\n"
	 "                      AND {p.open}{p.and_not_ours}) o\n"
	 "     WHERE i <= {$limit} GROUP BY key) h ON h.key = k.key),"},
	/* free: how many of a key's candidates are exactly these first open rows. Then nothing older is in flight elsewhere,
	 * waits for its retry, has failed, or was locked or changed by somebody since the snapshot. Rows that this process
	 * holds stand in front of the new ones in its memory, so they do not count. */
	{KEYED, 0,
	 "run AS MATERIALIZED (\n"
	 "  SELECT key IS NOT NULL AS keyed, rs, n, due, open,\n"
	 "         CASE WHEN key IS NULL OR rs = open THEN n\n"
	 "              ELSE coalesce((SELECT min(i) - 1 FROM generate_subscripts(rs, 1) i\n"
	 "                              WHERE rs[i] IS DISTINCT FROM open[i]), n) END AS free\n"
	 "    FROM listed),"},

	/* Those are claimed. = ANY (ARRAY(...)) is faster than a join and takes exactly the chosen rows. */
	{0, 0, "claimed AS (\n  UPDATE {table} o SET {set_claimed}"},
	{KEYED, 0, "   WHERE {o.r} = ANY (ARRAY(SELECT unnest(rs[1:free]) FROM run))"},
	{0, KEYED, "   WHERE {o.r} = ANY (ARRAY(SELECT r FROM candidate))"},
	{0, 0, "  RETURNING {o.returned})"},

	/* The obstacle behind which the rest of a key's candidates must wait: it has failed, is held, or waits for its time.
	 * Not one in flight: where the lease stands in available_at its time is the lease, and may end at any moment. Nor one
	 * that was skipped since the snapshot: the lock brings its newest version, and nobody would free what is parked
	 * behind it now. */
	{KEYED, 0,
	 ", waiting AS MATERIALIZED (\n"
	 "  SELECT r.rs[r.free + 1 : r.n] AS rs, {b.until} AS until\n"
	 "    FROM run r JOIN {table} b ON {b.r} = r.open[r.free + 1]\n"
	 "   WHERE r.free < r.n AND {b.open} AND {b.status} <> {in_flight} AND ({b.status} = {failed} OR {b.due} > now())\n"
	 "     FOR NO KEY UPDATE OF b SKIP LOCKED),"},
	/* They get the obstacle's time, once, so that no later claim reads and locks them; nor are they in flight any more. So it
	 * is here that a lease which has ended is told of. */
	{KEYED, 0,
	 "parked AS (\n"
	 "  UPDATE {table} o SET {available_at} = w.until, {status} = {pending}{and_unleased}{and_updated}\n"
	 "    FROM (SELECT unnest(rs) AS r, until FROM waiting) w WHERE {o.r} = w.r RETURNING w.r),"},
	/* Open rows of a key that are due, but later than its candidates (due order need not be id order): the scan would meet
	 * only followers for ever. They are drawn forward for the next claim. Heads whose lease has ended too: where the lease
	 * stands in available_at they are behind all followers that were never claimed. IS TRUE hides from the planner that
	 * these are open rows: it would go through an index of all of those instead of to the few. */
	{KEYED, 0,
	 "late AS MATERIALIZED (\n"
	 "  SELECT {b.r} AS r, {pulled_due} AS due\n"
	 "    FROM run r CROSS JOIN LATERAL unnest(r.open[r.free + 1 : r.n]) u (r) JOIN {table} b ON {b.r} = u.r\n"
	 "   WHERE r.free < r.n AND u.r <> ALL (r.rs)\n"
	 "     AND ({b.status} = {pending} OR ({b.expired})) IS TRUE AND {b.due} > r.due AND {b.due} <= now()\n"
	 "     FOR NO KEY UPDATE OF b SKIP LOCKED),\n"
	 "pulled AS (\n"
	 "  UPDATE {table} o SET {available_at} = l.due{and_updated} FROM late l WHERE {o.r} = l.r RETURNING 1)"},

	/* The first row is the tail, which comes back also when nothing was free; then the claimed rows in order. */
	{0, 0,
	 "SELECT tail.*, {claimed_id}, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,\n"
	 "       CASE{when_late} WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 2) THEN 2\n"
	 "            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 1) THEN 1 ELSE 0 END,\n"
	 "       {claimed_rest}\n"
	 "  FROM (SELECT (SELECT count(*) FROM scanned) AS candidates,"},
	{KEYED, 0, "               {parked}, (SELECT count(*) FROM pulled) AS pulled,"},
	{0, KEYED, "               {parked}, 0::bigint AS pulled, (SELECT count(*) FROM candidate) AS free,"},
	{KEYED | SQLTEXT_PLAIN, 0, "               (SELECT coalesce(sum(free), 0) FROM run) AS free,"},
	/* By id a row that changed since the snapshot may drop out of the update, and its followers would go without it. Then
	 * the statement fails as a whole, in the same round trip: the text is no number. */
	{KEYED, SQLTEXT_PLAIN,
	 "               (SELECT CASE WHEN chosen = taken THEN free\n"
	 "                            ELSE concat('" SQL_RACED_MARK ", ', taken, ' of ', chosen)::int END\n"
	 "                  FROM (SELECT coalesce(sum(free), 0) AS free, coalesce(sum(free) FILTER (WHERE keyed), 0) AS chosen,\n"
	 "                               (SELECT count(*) FROM claimed WHERE key IS NOT NULL) AS taken FROM run) f) AS free,"},
	{0, 0,
	 "               first.due::timestamptz AS first_due, first.ord::text AS first_id,\n"
	 "               last.due::timestamptz AS last_due, last.ord::text AS last_id, {full} AS full\n"
	 "          FROM (VALUES (1)) one LEFT JOIN\n"
	 "               (SELECT due, ord FROM candidate ORDER BY due, ord LIMIT 1) first ON true LEFT JOIN\n"
	 "               (SELECT due, ord FROM candidate ORDER BY due DESC, ord DESC LIMIT 1) last ON true) tail\n"
	 "  FULL JOIN claimed ON false ORDER BY claimed.ord NULLS FIRST"},
	{0, 0, NULL},
};

/* Of a batch that crashed its process only the culprit may run out of attempts: so expired rows with two attempts or more are
 * claimed one a statement, with nothing else in memory. */
const struct sqltext_part sqlclaim_suspect[] = {
	{0, 0, "WITH candidate AS MATERIALIZED ("},
	{KEYED, 0, "  SELECT {c.r} AS r, {c.order} AS ord, {c.key} AS key, {c.taken} AS taken FROM {table} c"},
	{0, KEYED, "  SELECT {c.r} AS r FROM {table} c"},
	{0, 0,
	 "   WHERE {c.unfinished} AND {c.due} <= now() AND {c.expired} AND {c.crasher}{c.and_not_late}{and_wanted}\n"
	 "   ORDER BY {c.due}, {c.order} LIMIT 100 FOR UPDATE SKIP LOCKED),"},
	/* The first open row of each suspect's key: only that one may be claimed. Strict: rows of ours count too. */
	{KEYED, 0,
	 "by_key AS MATERIALIZED (SELECT key, array_agg(r ORDER BY ord) AS rs FROM candidate GROUP BY key),"},
	{INDEXED, 0,
	 "head AS MATERIALIZED (\n"
	 "  SELECT k.rs, coalesce(h.r, k.rs[1]) AS r FROM by_key k LEFT JOIN LATERAL (\n"
	 "      SELECT {p.r} AS r FROM {table} p WHERE {p.key} BETWEEN k.key AND k.key AND {p.open}\n"
	 "       ORDER BY {p.key}, {p.order} LIMIT 1 OFFSET 0) h ON true),"},
	{KEYED, SQLTEXT_KEY_INDEX,
	 "head AS MATERIALIZED (\n"
	 "  SELECT k.rs, coalesce(h.r, k.rs[1]) AS r FROM by_key k LEFT JOIN (\n"
	 "      SELECT DISTINCT ON ({p.key}) {p.key} AS key, {p.r} AS r FROM {table} p\n"
	 "       WHERE ({p.key} IN (SELECT key FROM by_key)) IS TRUE AND {p.open}\n"
	 "       ORDER BY {p.key}, {p.order}) h ON h.key = k.key),"},
	{0, KEYED, "head AS MATERIALIZED (SELECT r FROM candidate),"},
	{0, 0,
	 "one AS MATERIALIZED (\n"
	 "  SELECT {o.r} AS r, {o.taken} AS taken FROM {table} o\n"
	 "   WHERE {o.r} = ANY (ARRAY(SELECT r FROM head))\n"
	 "     AND {o.unfinished} AND {o.due} <= now() AND {o.expired} AND {o.crasher}{o.and_not_late}{and_wanted}\n"
	 "   LIMIT 1 FOR UPDATE SKIP LOCKED),\n"
	 "claimed AS (\n"
	 "  UPDATE {table} o SET {set_claimed}\n"
	 "   WHERE {o.r} = ANY (ARRAY(SELECT r FROM one))\n"
	 "  RETURNING {o.returned})"},
	/* Parking, as in the claim. */
	{KEYED, 0,
	 ", waiting AS MATERIALIZED (\n"
	 "  SELECT h.rs, {b.until} AS until FROM head h JOIN {table} b ON {b.r} = h.r\n"
	 "   WHERE {b.open} AND {b.status} <> {in_flight} AND ({b.status} = {failed} OR {b.due} > now())\n"
	 "     FOR NO KEY UPDATE OF b SKIP LOCKED),\n"
	 "parked AS (\n"
	 "  UPDATE {table} o SET {available_at} = w.until, {status} = {pending}{and_unleased}{and_updated}\n"
	 "    FROM (SELECT unnest(rs) AS r, until FROM waiting) w WHERE {o.r} = w.r RETURNING w.r)"},
	{0, 0,
	 "SELECT tail.*, {claimed_id}, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,\n"
	 "       CASE WHEN claimed.id IS NOT NULL THEN (SELECT taken FROM one) END,\n"
	 "       {claimed_rest}\n"
	 "  FROM (SELECT 0::bigint AS candidates, {parked}, 0::bigint AS pulled, (SELECT count(*) FROM one) AS free,\n"
	 "               NULL::timestamptz AS first_due, NULL::text AS first_id,\n"
	 "               NULL::timestamptz AS last_due, NULL::text AS last_id, 0 AS full) tail\n"
	 "  FULL JOIN claimed ON false ORDER BY claimed.id NULLS FIRST"},
	{0, 0, NULL},
};

/* A mistake in the operator's condition shows before anything is claimed, and by itself: no row is read. */
const struct sqltext_part sqlclaim_try[] = {
	{0, 0, "SELECT FROM {table} c WHERE true{and_wanted} LIMIT 0"},
	{0, 0, NULL},
};
