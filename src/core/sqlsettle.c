/* What follows a claim: outcomes, leases that ended for good, and freeing what was parked. */
#include "core/sqltext.h"

#define KEYED SQLTEXT_KEYED
#define INDEXED (SQLTEXT_KEYED | SQLTEXT_KEY_INDEX)
#define OWN_LEASE SQLTEXT_HAS(COLUMN_LEASE_UNTIL)
#define ERROR SQLTEXT_HAS(COLUMN_LAST_ERROR)
#define OWNER SQLTEXT_HAS(COLUMN_LEASE_OWNER)
#define DELETE SQLTEXT_DELETE
#define UNPARK SQLTEXT_UNPARK
#define LIMIT SQLTEXT_NUMBER(SQL_SWEEP_LIMIT)

/* An expired row that has used its last attempt is failed, never claimed again. With dead letters it becomes pending: the
 * next claim finds no attempt left, and publishes its dead letter. But not for ever: what kills whoever has it, or what the
 * database takes no outcome of, would go round and round. */
const struct sqltext_part sqlsettle_expire[] = {
	{0, 0,
	 "UPDATE {table} SET {status} = {expired_status}, {available_at} = {expired_due}{and_unleased}{and_updated}"},
	{ERROR, 0,
	 "     , {last_error} = {lost}format('lease expired, attempt %s of %s', {attempts}, {max}){end_lost}::{:error_type}"},
	{0, 0,
	 " WHERE {id} = ANY (ARRAY(SELECT {p.id} FROM {table} p\n"
	 "                          WHERE {p.unfinished} AND {p.due} <= now() AND {p.expired} AND {p.used_up}{and_wanted}\n"
	 "                          ORDER BY {p.due}, {p.order} LIMIT 500 FOR UPDATE SKIP LOCKED))\n"
	 "RETURNING {id}::text, 0, ({status} = {failed})::int"},
	{0, 0, NULL},
};

/* Delivered rows, nearly all there are. Lease and owner are compared a claim and not a row, and the ids of a claim are looked
 * up in one index scan: a tenth of the time less than with arrays of one element a row. */
const struct sqltext_part sqlsettle_sent[] = {
	{DELETE, 0, "DELETE FROM {table} o\n USING unnest({$leases}, {$firsts}, {$lasts}"},
	{0, DELETE, "UPDATE {table} o\n   SET {status} = {sent}{and_unleased}{and_updated}"},
	{ERROR, DELETE, "     , {last_error} = NULL"},
	{SQLTEXT_HAS(COLUMN_SETTLED_AT), DELETE, "     , {settled_at} = now()"},
	{0, DELETE, "  FROM unnest({$leases}, {$firsts}, {$lasts}"},
	{OWNER, 0, "     , {$owners}"},
	{0, 0, "     ) AS x (lease, first, last"},
	{OWNER, 0, "     , owner"},
	{0, 0,
	 "     )\n WHERE {o.id} = ANY (({$ids})[x.first:x.last]::{:id_type}[]) AND {o.held}\n"
	 "RETURNING {o.id}::text"},
	{0, 0, NULL},
};

/* The others: pending with a delay (retry); pending without one and the attempt given back (release); failed. */
const struct sqltext_part sqlsettle_settle[] = {
	{0, 0,
	 "UPDATE {table} o\n"
	 "   SET {status} = x.status{:status_cast}, {attempts} = {o.tries_left},\n"
	 /* The sentinel takes a failed row out of the due range. */
	 "       {available_at} = CASE WHEN x.status = {failed} THEN {sentinel}"},
	{OWN_LEASE, 0, "            WHEN x.delay > '0' THEN now() + x.delay ELSE {o.available_at} END"},
	/* One column for both: it holds the lease, so a time has to be written there. */
	{0, OWN_LEASE, "            ELSE now() + x.delay END"},
	{ERROR, 0, "     , {last_error} = coalesce(x.error, {o.last_error})::{:error_type}"},
	{0, 0,
	 "       {and_unleased}{and_updated}\n  FROM unnest({$ids}::{:id_type}[], {$leases}, {$states}, {$delays}, {$backs}"},
	{ERROR, 0, "     , {$errors}"},
	{OWNER, 0, "     , {$owners}"},
	{0, 0, "     ) AS x (id, lease, status, delay, back"},
	{ERROR, 0, "     , error"},
	{OWNER, 0, "     , owner"},
	/* BETWEEN: with = the planner may also join by walking the whole primary key, settled rows and all, and does so when
	 * the table was empty the last time somebody looked. Written so only looking each id up is left. */
	{0, 0, "     )\n WHERE {o.id} BETWEEN x.id AND x.id AND {o.held}\nRETURNING {o.id}::text"},
	{0, 0, NULL},
};

/* Rows parked at the sentinel come back when what they waited for is gone: people delete or edit rows by hand, and on_failed
 * or ordering may have been changed. Bounded; to be repeated while it freed SQL_SWEEP_LIMIT.
 * Behind rows that the commands have changed they come back at once, and those too that stand at the time for which a skipped
 * row waited. Whoever parks rows holds the lock of the row they are parked behind, so in the transaction that has changed
 * that row all of them can be seen. */
const struct sqltext_part sqlsettle_sweep[] = {
	{0, 0, "WITH"},
	{KEYED | UNPARK, 0,
	 "keys AS MATERIALIZED (SELECT DISTINCT u.key::{:key_type} AS key FROM unnest({$keys}) u (key)),"},
	{KEYED, UNPARK,
	 "keys AS MATERIALIZED (\n"
	 "  SELECT DISTINCT {p.key} AS key FROM {table} p\n"
	 "   WHERE {p.unfinished} AND {p.due} = {sentinel} AND {p.status} IN ({pending}, {in_flight})),"},
	/* Keys whose first open row neither failed nor is held at infinity. */
	{INDEXED, 0,
	 "free AS MATERIALIZED (\n"
	 "  SELECT k.key FROM keys k CROSS JOIN LATERAL (\n"
	 "    SELECT {p.status} AS status, {p.due} AS due FROM {table} p\n"
	 "     WHERE {p.key} BETWEEN k.key AND k.key AND {p.open}\n"
	 "     ORDER BY {p.key}, {p.order} LIMIT 1 OFFSET 0) h"},
	{KEYED, SQLTEXT_KEY_INDEX,
	 "free AS MATERIALIZED (\n"
	 "  SELECT h.key FROM (\n"
	 "    SELECT DISTINCT ON ({p.key}) {p.key} AS key, {p.status} AS status, {p.due} AS due FROM {table} p\n"
	 "     WHERE ({p.key} IN (SELECT key FROM keys)) IS TRUE AND {p.open}\n"
	 "     ORDER BY {p.key}, {p.order}) h"},
	{KEYED, 0, "   WHERE h.status <> {failed} AND h.due <> 'infinity'),"},
	/* Where they may stand. */
	{KEYED | UNPARK, 0,
	 "places AS MATERIALIZED (\n"
	 "  SELECT key, {sentinel} AS due FROM free UNION\n"
	 "  SELECT f.key, u.until FROM unnest({$keys}, {$untils}) u (key, until) JOIN free f ON f.key = u.key::{:key_type}\n"
	 "   WHERE u.until > now()),"},
	{0, 0,
	 "freed AS (\n"
	 "  UPDATE {table} SET {available_at} = now(){and_updated}\n"
	 "   WHERE {id} = ANY (ARRAY("},
	{INDEXED | UNPARK, 0,
	 "     SELECT f.id FROM places x CROSS JOIN LATERAL (\n"
	 "       SELECT {p.id} AS id FROM {table} p\n"
	 "        WHERE {p.key} BETWEEN x.key AND x.key AND {p.key_range} AND {p.due} = x.due AND {p.status} = {pending}\n"
	 "        ORDER BY {p.key}, {p.order} LIMIT " LIMIT " FOR UPDATE SKIP LOCKED) f LIMIT " LIMIT},
	{KEYED | UNPARK, SQLTEXT_KEY_INDEX,
	 "     SELECT {p.id} FROM {table} p\n"
	 "      WHERE {p.unfinished} AND {p.due} = ANY (ARRAY(SELECT DISTINCT due FROM places)) AND {p.status} = {pending}\n"
	 "        AND (({p.key}, {p.due}) IN (SELECT key, due FROM places)) IS TRUE LIMIT " LIMIT
	 " FOR UPDATE SKIP LOCKED"},
	{KEYED, UNPARK,
	 "     SELECT {p.id} FROM {table} p\n"
	 "      WHERE {p.unfinished} AND {p.due} = {sentinel} AND {p.status} IN ({pending}, {in_flight})\n"
	 "        AND ({p.key} IS NULL OR {p.key} IN (SELECT key FROM free))\n"
	 "      ORDER BY {p.order} LIMIT " LIMIT " FOR UPDATE SKIP LOCKED"},
	{0, KEYED,
	 "     SELECT {p.id} FROM {table} p\n"
	 "      WHERE {p.unfinished} AND {p.due} = {sentinel} AND {p.status} IN ({pending}, {in_flight})\n"
	 "      ORDER BY {p.order} LIMIT " LIMIT " FOR UPDATE SKIP LOCKED"},
	{0, 0, "   )) RETURNING 1)\nSELECT count(*) FROM freed"},
	{0, 0, NULL},
};
