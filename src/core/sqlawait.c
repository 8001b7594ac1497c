/* on_delivered: await. A delivered row stays in flight, without an owner, until its consumer has written a result into it; a
 * claim takes it again when that is late (sqlclaim.c). These are the statements that have to respect what the consumer
 * writes, at any moment. */
#include "core/sqltext.h"

#define ERROR SQLTEXT_HAS(COLUMN_LAST_ERROR)
#define OWNER SQLTEXT_HAS(COLUMN_LEASE_OWNER)

/* Whose time is over after the last attempt. */
const struct sqltext_part sqlawait_expire[] = {
	{0, 0,
	 "WITH over AS MATERIALIZED (\n"
	 "  SELECT {p.id} AS id, {p.late} AS late FROM {table} p\n"
	 "   WHERE {p.unfinished} AND {p.due} <= now() AND {p.expired} AND {p.used_up}{and_wanted}\n"
	 "   ORDER BY {p.due}, {p.order} LIMIT 500 FOR UPDATE SKIP LOCKED)\n"
	 "UPDATE {table} o SET {status} = {o.expired_status}, {available_at} = {o.expired_due}{and_unleased}{and_updated}"},
	{ERROR, 0,
	 "     , {last_error} = {o.lost}(CASE WHEN x.late THEN 'no result within {:result_timeout}' ELSE 'lease expired' END\n"
	 "                       || format(', attempt %s of %s', {o.attempts}, {o.max})){o.end_lost}::{:error_type}"},
	{0, 0,
	 "  FROM over x WHERE {o.id} BETWEEN x.id AND x.id\nRETURNING {o.id}::text, x.late::int, ({o.status} = {failed})::int"},
	{0, 0, NULL},
};

/* What of the rows of a settle is not told as settled: those still in flight that somebody else holds. What its consumer has
 * finished, or deleted, is left alone, and the relay's part is done. So the rows are locked first, and looked at as they
 * are then. */
#define UNFENCED                                                               \
	"SELECT a.id::text FROM asked a WHERE a.held IS NOT FALSE UNION ALL\n" \
	"SELECT u.id FROM unnest({$ids}) u (id) WHERE (u.id IN (SELECT a.id::text FROM asked a)) IS NOT TRUE"

const struct sqltext_part sqlawait_dispatched[] = {
	{0, 0,
	 "WITH asked AS MATERIALIZED (\n"
	 "  SELECT {o.id} AS id, {o.holding} AS held\n"
	 "    FROM unnest({$leases}, {$firsts}, {$lasts}"},
	{OWNER, 0, "       , {$owners}"},
	{0, 0, "       ) AS x (lease, first, last"},
	{OWNER, 0, "       , owner"},
	{0, 0,
	 "       ) JOIN {table} o ON {o.id} = ANY (({$ids})[x.first:x.last]::{:id_type}[])\n"
	 "     FOR UPDATE OF o),\n"
	 "written AS (\n"
	 "  UPDATE {table} o SET {available_at} = now() + {$result_timeout}{and_deadline}{and_unowned}{and_updated}\n"
	 "    FROM asked x WHERE {o.id} BETWEEN x.id AND x.id AND x.held)\n" UNFENCED},
	{0, 0, NULL},
};

/* As sqlsettle_settle. */
const struct sqltext_part sqlawait_settle[] = {
	{0, 0,
	 "WITH asked AS MATERIALIZED (\n"
	 "  SELECT {o.id} AS id, {o.holding} AS held, x.status, x.delay, x.back"},
	{ERROR, 0, "       , x.error"},
	{0, 0, "    FROM unnest({$ids}::{:id_type}[], {$leases}, {$states}, {$delays}, {$backs}"},
	{ERROR, 0, "       , {$errors}"},
	{OWNER, 0, "       , {$owners}"},
	{0, 0, "       ) AS x (id, lease, status, delay, back"},
	{ERROR, 0, "       , error"},
	{OWNER, 0, "       , owner"},
	{0, 0,
	 "       ) JOIN {table} o ON {o.id} BETWEEN x.id AND x.id\n"
	 "     FOR UPDATE OF o),\n"
	 "written AS (\n"
	 "  UPDATE {table} o\n"
	 "     SET {status} = x.status{:status_cast}, {attempts} = {o.tries_left},\n"
	 "         {available_at} = CASE WHEN x.status = {failed} THEN {sentinel} ELSE now() + x.delay END"},
	{ERROR, 0, "       , {last_error} = coalesce(x.error, {o.last_error})::{:error_type}"},
	{0, 0,
	 "         {and_unleased}{and_updated}\n"
	 "    FROM asked x WHERE {o.id} BETWEEN x.id AND x.id AND x.held)\n" UNFENCED},
	{0, 0, NULL},
};
