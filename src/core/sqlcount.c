/* Rows by state, for the gauges. Whatever is counted is read through a partial index and bounded: never settled rows. */
#include "core/sqltext.h"

#define SETTLED SQLTEXT_HAS(COLUMN_SETTLED_AT)
/* Without settled_at failed rows are outside of the due index; where they block a key they stand in the key index. */
#define IN_KEY_INDEX (SQLTEXT_BLOCK | SQLTEXT_KEY_INDEX)
#define BOUND SQLTEXT_NUMBER(SQL_COUNT_BOUND)

#define UNFINISHED_ROW                                                                 \
	"  SELECT {p.status} AS status, {p.due} AS due, {p.lease_end} AS lease_end,\n" \
	"         ({p.crasher}{p.and_not_late}) AS crasher, {p.used_up} AS used_up,\n" \
	"         {p.age} AS age, {p.key_text} AS key{p.and_expired_wanted}\n"
#define EXPIRED "status = {in_flight} AND due <= now() AND lease_end <= now()"

const struct sqltext_part sqlcount_count[] = {
	/* The due index in two pieces, each bounded by itself: else a long backlog would hide the failed rows behind it. */
	{0, 0,
	 "WITH front AS MATERIALIZED (\n" UNFINISHED_ROW
	 "    FROM {table} p WHERE {p.unfinished} AND {p.due} < {sentinel}\n"
	 "   ORDER BY {p.due}, {p.order} LIMIT " BOUND "),\n"
	 "back AS MATERIALIZED (\n" UNFINISHED_ROW
	 "    FROM {table} p WHERE {p.unfinished} AND {p.due} >= {sentinel}\n"
	 "   ORDER BY {p.due}, {p.order} LIMIT " BOUND "),\n"
	 "unfinished AS (SELECT * FROM front UNION ALL SELECT * FROM back),"},
	{SETTLED, 0, "failed AS (SELECT key FROM unfinished WHERE status = {failed}),"},
	{IN_KEY_INDEX, SETTLED,
	 "open AS MATERIALIZED (\n"
	 "  SELECT {p.status} AS status, {p.key_text} AS key FROM {table} p WHERE {p.open}\n"
	 "   ORDER BY {p.key}, {p.order} LIMIT " BOUND "),\n"
	 "failed AS (SELECT key FROM open WHERE status = {failed}),"},
	{0, 0,
	 "n AS (\n"
	 "  SELECT count(*) FILTER (WHERE status = {pending} AND due < {sentinel}) AS pending,\n"
	 "         count(*) FILTER (WHERE status = {pending} AND due >= {sentinel}) AS parked,\n"
	 "         count(*) FILTER (WHERE status = {in_flight}) AS in_flight,\n"
	 "         count(*) FILTER (WHERE status IS NULL\n"
	 "                          OR status NOT IN ({pending}, {in_flight}, {sent}, {failed})) AS unknown,\n"
	 "         count(*) FILTER (WHERE {wanted}" EXPIRED " AND crasher) AS suspects,\n"
	 "         count(*) FILTER (WHERE {wanted}" EXPIRED " AND used_up) AS exhausted,\n"
	 "         max(CASE WHEN age < 0 THEN 0 ELSE age END) FILTER (WHERE status IN ({pending}, {in_flight})) AS oldest\n"
	 "    FROM unfinished)\n"
	 "SELECT pending, parked, in_flight, {failed_count}, {unknown_count}, {blocked_count},\n"
	 "       suspects, exhausted, oldest,\n"
	 "       CASE WHEN (SELECT count(*) FROM front) >= " BOUND " OR (SELECT count(*) FROM back) >= " BOUND},
	{IN_KEY_INDEX, SETTLED, "              OR (SELECT count(*) FROM open) >= " BOUND},
	/* Rows that were changed since the oldest snapshot are kept for it, whoever holds it: a session, a standby, a slot, or a
	 * transaction that writes. Everybody may see how old it is in transactions; in seconds only a monitor may. */
	{0, 0,
	 "            THEN 1 ELSE 0 END,\n"
	 "       greatest(txid_snapshot_xmax(s) - txid_snapshot_xmin(s),\n"
	 "                (SELECT max(age(a.backend_xmin)) FROM pg_stat_activity a\n"
	 "                  WHERE a.datname = current_database() OR a.datname IS NULL),\n"
	 "                (SELECT max(age(r.xmin)) FROM pg_replication_slots r))::bigint\n"
	 "  FROM n, txid_current_snapshot() s"},
	{0, 0, NULL},
};
