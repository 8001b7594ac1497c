/* bare: a source without a relay: its statements with the parameters that outboxd would give them, and the rows it holds.
 * It decides nothing: its programs say when to claim and what has been delivered. All outcomes are "sent". */
#ifndef OUTBOXD_TESTS_BARE_H
#define OUTBOXD_TESTS_BARE_H

#include "core/route.h"
#include "core/settle.h"
#include "hot.h"
#include "lane.h"

/* The rows of one claim, freed with the last of them. */
struct bare_batch {
	PGresult *result;
	int64_t sent_us; /* when the claim was sent */
	size_t live, n;
	struct bare_row {
		struct bare_batch *batch;
		int index;
		size_t bytes; /* what it counts against max_in_flight_bytes */
		struct hot_key *key;
	} rows[];
};

struct bare_rows {
	struct bare_row **list;
	size_t length, size;
};

/* The front of a backlog: the first row that the last claim from the beginning met. For a moment claims start there, as
 * relay/claim.c has it, for before it lie the dead entries of what was settled. */
struct bare_front {
	bool known;
	char due[8], id[512]; /* as received */
	size_t id_len;
	int64_t seen_us;
};

struct bare {
	const struct config_source *source;
	struct route *route;
	struct sql *sql;
	char owner[300];
	struct hot hot;
	struct settle *settle;
	size_t rows; /* claimed and not yet settled */
	int64_t bytes;
	int64_t limit;	 /* of the last claim */
	bool from_front; /* it left out what lies before the front */
	bool backlog;	 /* it was full, and took what it found: the next may start at the front */
	bool more;	 /* it was full, or left something out: there may be more */
	bool idle;	 /* it saw all, and took nothing, parked nothing, drew nothing forward */
	struct bare_front front;
	struct bare_rows delivered, settling; /* waiting for a settle; in the one under way */
};

/* Looks at the source's table through the lane, and builds the statements. */
void bare_open(struct bare *bare, const struct config_source *source, struct lane *lane);
void bare_close(struct bare *bare);

/* May a claim be sent, by the limits on rows in memory? As core/sched.c has it. */
bool bare_has_room(const struct bare *bare);

/* Claims what there is room for, at most `most`. */
void bare_send_claim(struct bare *bare, struct lane *lane, int64_t most);

/* Takes a claim's answer, and the result with it. NULL: no row. */
struct bare_batch *bare_take_claim(struct bare *bare, const struct lane *lane, PGresult *result);

/* A cell of the row, by enum sql_claim_column. */
struct slice bare_cell(const struct bare_row *row, int column);

/* How old the row was when it was claimed, by the database's clock. False: not known, or infinite. */
bool bare_age_us(const struct bare *bare, const struct bare_row *row, int64_t *age_us);

/* The row was delivered: the next settle writes it. */
void bare_deliver(struct bare *bare, struct bare_row *row);

/* Settles all that were delivered, one at least, in one statement. */
void bare_send_settle(struct bare *bare, struct lane *lane);

/* Takes a settle's answer, and the result with it; returns the number of rows, which leave memory. */
size_t bare_take_settle(struct bare *bare, PGresult *result);

#endif
