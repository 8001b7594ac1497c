#include "race.h"

#include <string.h>

/* Not here, for a race does not show them: the guard of the claim by id (PostgreSQL's UPDATE follows a row to its newest version,
 * so it was never needed in a race; test_sql_server.c makes it fire with a trigger), the owner in the settle (two claims with
 * the same lease to the microsecond), parking and pulling (they cost time, not rows; test_sql_server.c).
 *
 * What a replacement names SQL_CLAIM for is done to SQL_CLAIM_FAR too. */
const struct race_break race_breaks[] = {
	{.name = "versions",
	 .variant = "standard",
	 .sentence = "ids are compared instead of row versions",
	 .replacements = {{SQL_CLAIM, "array_agg(r ORDER BY ord) AS rs",
			   "array_agg(r ORDER BY ord) AS rs, array_agg(id ORDER BY ord) AS ids"},
			  {SQL_CLAIM, "SELECT ARRAY(SELECT p.ctid FROM", "SELECT ARRAY(SELECT p.id FROM"},
			  {SQL_CLAIM, "AS keyed, rs, n,", "AS keyed, rs, ids, n,"},
			  {SQL_CLAIM, "WHERE rs[i] IS DISTINCT", "WHERE ids[i] IS DISTINCT"},
			  {SQL_CLAIM, "ON b.ctid = ", "ON b.id = "},
			  {SQL_CLAIM, "ALL (r.rs)", "ALL (r.ids)"}}},
	{.name = "not",
	 .variant = "standard",
	 .sentence = "a plain NOT in place of IS NOT TRUE",
	 .replacements = {{SQL_CLAIM, "AND (p.\"status\" = 'SENDING' AND p.\"lease_owner\"",
			   "AND NOT (p.\"status\" = 'SENDING' AND p.\"lease_owner\""},
			  {SQL_CLAIM, "> now()) IS NOT TRUE", "> now())"}}},
	{.name = "foreign",
	 .variant = "standard",
	 .sentence = "rows in flight elsewhere count as ours",
	 .replacements = {{SQL_CLAIM, "p.\"lease_owner\" = $1::text AND ", ""}}},
	{.name = "failed",
	 .variant = "standard",
	 .sentence = "a failed row does not hold back its key",
	 .replacements = {{SQL_CLAIM, "('PENDING', 'SENDING', 'FAILED')", "('PENDING', 'SENDING')"}}},
	{.name = "expiry",
	 .variant = "standard",
	 .sentence = "a lease that has not ended is taken",
	 .replacements = {{SQL_CLAIM, "coalesce(c.\"lease_until\", '-infinity') <= now()", "true"}}},
	{.name = "fence",
	 .variant = "no-owner",
	 .sentence = "a settle does not name its lease",
	 .replacements = {{SQL_SETTLE, "o.\"lease_until\" = x.lease", "true"},
			  {SQL_SETTLE_SENT, "o.\"lease_until\" = x.lease", "true"}}},
	{.name = "suspects",
	 .variant = "standard",
	 .sentence = "rows that may crash a process are claimed with others",
	 .replacements = {{SQL_CLAIM, "least(2, ", "least(9, "}}},
	{.name = "bytes",
	 .variant = "standard",
	 .sentence = "the claim's bytes are not bounded",
	 .replacements = {{SQL_CLAIM, "before = 0 OR", "true OR"}}},
	{.name = "share",
	 .variant = "standard",
	 .sentence = "one key may fill the memory",
	 .replacements = {{SQL_CLAIM, "greatest(0, least(n,", "greatest(0, greatest(n,"}}},
	{.name = "sweep",
	 .variant = "standard",
	 .sentence = "orphaned parked rows are not freed",
	 .sin = SIN_NO_SWEEP},
	{.name = "expire",
	 .variant = "standard",
	 .sentence = "rows without attempts stay in flight",
	 .sin = SIN_NO_EXPIRE},
	{.name = "suspect-claim",
	 .variant = "standard",
	 .sentence = "suspects are never claimed",
	 .sin = SIN_NO_SUSPECT},
	{.name = "memory-order",
	 .variant = "standard",
	 .sentence = "rule 1: rows of a key leave memory in any order",
	 .sin = SIN_DISORDER_IN_MEMORY},
	{.name = "followers",
	 .variant = "standard",
	 .sentence = "rule 2: rows behind a bad answer are not released",
	 .sin = SIN_KEEP_FOLLOWERS},
	{.name = "old-claim",
	 .variant = "standard",
	 .sentence = "rule 2: a claim older than the settle is trusted",
	 .sin = SIN_TRUST_OLD_CLAIM},
	{.name = "owner",
	 .variant = "standard",
	 .sentence = "rule 3: the owner's name outlives a crash",
	 .sin = SIN_KEEP_OWNER},
	{.name = "late",
	 .variant = "standard",
	 .sentence = "rule 4: rows are delivered after their lease",
	 .sin = SIN_LATE_DELIVERY},
	{.name = "outcomes",
	 .variant = "standard",
	 .sentence = "rule 5: outcomes are forgotten with a lost answer",
	 .sin = SIN_FORGET_OUTCOMES},
	{.name = "selves",
	 .variant = "standard",
	 .sentence = "rule 5: a row claimed again stands in memory twice",
	 .sin = SIN_TWO_SELVES},
	{.name = NULL},
};

const struct race_break *race_find_break(const char *name)
{
	const struct race_break *broken;

	for (broken = race_breaks; broken->name != NULL; broken++) {
		if (strcmp(broken->name, name) == 0)
			return broken;
	}
	return NULL;
}
