/* The commands retry and skip. First rows are picked, without locks; then they are changed some at a time, each only if what
 * it was picked for still holds: two people and a relay may be at it at once. */
#include "core/sqltext.h"

#define SETTLED SQLTEXT_HAS(COLUMN_SETTLED_AT)
#define ERROR SQLTEXT_HAS(COLUMN_LAST_ERROR)
#define KEY SQLTEXT_HAS(COLUMN_KEY)
#define BY_KEY SQLTEXT_BY_KEY
#define SKIP SQLTEXT_SKIP
/* Without settled_at failed rows stand in the key index alone, and there only where they block. */
#define IN_KEY_INDEX (SQLTEXT_BLOCK | SQLTEXT_KEY_INDEX)

#define PICKED \
	"  SELECT {p.id} AS id, {p.order} AS ord, {p.key_text} AS key, {p.tries} AS tries, {p.error_text} AS error\n"

/* What has failed, or what of a key has. As with counting, the ORDER BY is there for the index that goes with it: settled rows
 * are not read, but where no index knows failed rows. The result is sorted afterwards, else the planner might walk the whole
 * primary key to have it in order. */
const struct sqltext_part sqlcommand_pick[] = {
	{0, 0,
	 "WITH picked AS MATERIALIZED (\n" PICKED
	 "    FROM {table} p WHERE {p.status} = {failed} AND {p.undecided} AND {p.error_matches}"},
	{BY_KEY | KEY, 0, "     AND {p.key} BETWEEN {$key}::{:key_type} AND {$key}::{:key_type}"},
	{BY_KEY, KEY, "     AND false"},
	{BY_KEY | KEY | SQLTEXT_KEY_INDEX, 0, "   ORDER BY {p.key}, {p.order}"},
	{SETTLED | BY_KEY, SQLTEXT_KEY_INDEX, "   ORDER BY {p.due}, {p.order}"},
	{SETTLED, BY_KEY, "   ORDER BY {p.due}, {p.order}"},
	{IN_KEY_INDEX, SETTLED | BY_KEY, "   ORDER BY {p.key}, {p.order}"},
	{0, 0, "   LIMIT {$limit})\nSELECT id::text, key, tries, error FROM picked ORDER BY ord"},
	{0, 0, NULL},
};

/* The ids first, which OFFSET 0 sees to: one that is none is an error also when the table is empty. IS TRUE, here and in the
 * change, hides from the planner that these are open rows: it might look for each id through the whole of an index of those,
 * in which ids come second, when the table was smaller the last time somebody looked. */
const struct sqltext_part sqlcommand_named[] = {
	{0, 0,
	 "WITH picked AS MATERIALIZED (\n"
	 "  SELECT f.* FROM (SELECT DISTINCT id FROM unnest({$ids}::{:id_type}[]) g (id)) u CROSS JOIN LATERAL (\n" PICKED
	 "    FROM {table} p WHERE {p.id} BETWEEN u.id AND u.id AND ({p.changeable}) IS TRUE AND {p.error_matches} OFFSET 0) f\n"
	 "   LIMIT {$limit})\nSELECT id::text, key, tries, error FROM picked ORDER BY ord"},
	{0, 0, NULL},
};

/* Retried: as new, at once. Skipped: given up on purpose. Its time stays as it was, for whatever was parked behind it stands
 * there too. BETWEEN: see the settle. */
const struct sqltext_part sqlcommand_change[] = {
	{0, SKIP,
	 "UPDATE {table} SET {status} = {pending}, {attempts} = 0, {available_at} = now(){and_unleased}{and_updated}"},
	{SETTLED, SKIP, "     , {settled_at} = NULL"},
	{ERROR, SKIP,
	 "     , {last_error} = CASE WHEN {last_error} LIKE 'skipped: %' THEN NULL ELSE {last_error} END"},
	{SKIP, 0, "UPDATE {table} SET {status} = {failed}{and_unleased}{and_updated}"},
	{SKIP | SETTLED, 0, "     , {settled_at} = now()"},
	{SKIP | ERROR, 0, "     , {last_error} = ('skipped: ' || {$reason})::{:error_type}"},
	{0, 0,
	 " WHERE {id} = ANY (ARRAY(\n"
	 "   SELECT {p.id} FROM unnest({$ids}::{:id_type}[]) u (id) JOIN {table} p ON {p.id} BETWEEN u.id AND u.id\n"
	 "    WHERE ({p.changeable}) IS TRUE AND {p.error_matches} FOR UPDATE OF p))\n"
	 "RETURNING {id}::text, {key_text},"},
	{0, SKIP, "          NULL::timestamptz"},
	/* A row that was tried waits for its next time; of one that was not, the application has chosen the time, and
	 * perhaps that of its followers too. */
	{SKIP, 0, "          CASE WHEN {tries} > 0 THEN {due}::timestamptz END"},
	{0, 0, NULL},
};
