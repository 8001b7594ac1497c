/* sql: every statement the relay sends, built for one table and its mapping.
 * It sends nothing: io/db does for the daemon, cli for the commands. Why each part of a statement is there stands in
 * sql.c beside it. */
#ifndef OUTBOXD_CORE_SQL_H
#define OUTBOXD_CORE_SQL_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

#include <stdint.h>
#include <stdio.h>

struct arena;

enum sql_kind {
	SQL_CLAIM,	 /* due rows, from the beginning of the due index */
	SQL_CLAIM_FAR,	 /* the same from behind (far_due, far_id) */
	SQL_SUSPECT,	 /* one expired row with two attempts or more */
	SQL_EXPIRE,	 /* expired rows with no attempt left become failed, or pending for their dead letters */
	SQL_SETTLE_SENT, /* claimed rows that were delivered: marked, or deleted */
	SQL_SETTLE,	 /* claimed rows that were not: retried, released, failed */
	SQL_SWEEP,	 /* frees parked rows whose key is no longer obstructed */
	SQL_COUNT,	 /* rows by state, ages, blocked keys: bounded */
	SQL_PICK_FAILED, /* the commands retry and skip: which rows; all that have failed and are not settled */
	SQL_PICK_KEY,	 /* those of one key; there must be a key column */
	SQL_PICK_RETRY,	 /* of these ids those that may be retried: skipped ones too */
	SQL_PICK_SKIP,	 /* of these ids those that may be skipped: pending ones too */
	SQL_RETRY,	 /* picked rows become pending, as new */
	SQL_SKIP,	 /* picked rows become failed and settled */
	SQL_UNPARK, /* frees the rows parked behind them: in the same transaction, for it must see what was parked till then */
	SQL_TRY,    /* reads no row: what it says of the operator's own condition, before anything is claimed */
	SQL_SURVEY, /* for `check`: what the first open rows and the newest ones tell; reads little of a long table */
	SQL_INSPECT /* asks the catalog for the table; the only one that needs no struct sql */
};
#define SQL_KINDS (SQL_INSPECT + 1)

/* What a statement's $n stands for. The builder uses only those that the mapping needs. */
enum sql_param {
	SQL_P_MAX_ATTEMPTS, /* int4 */
	SQL_P_LIMIT,	    /* int4: rows to claim */
	SQL_P_MAX_BYTES,    /* int8: bytes to claim (at least one row is claimed) */
	SQL_P_OWNER,	    /* text: this process's current owner name */
	SQL_P_SHARE,	    /* int4: rows one key may have in flight */
	SQL_P_HOT_KEYS,	    /* text[]: keys that hold half a share or more in memory */
	SQL_P_HOT_HELD,	    /* int4[]: how many each holds */
	SQL_P_LEASE,	    /* interval */
	SQL_P_PARK_MAX,	    /* interval: the longest a row is parked behind a waiting head */
	SQL_P_FAR_DUE,	    /* timestamptz, as received in SQL_C_FIRST_DUE or SQL_C_LAST_DUE */
	SQL_P_FAR_ID,	    /* text: as received in SQL_C_FIRST_ID or SQL_C_LAST_ID */
	SQL_P_IDS,	    /* text[] ascending in the order column, cast to the id's type in SQL */
	SQL_P_LEASES,	    /* timestamptz[] as received */
	SQL_P_STATES,	    /* text[]: labels of the table's states */
	SQL_P_DELAYS,	    /* interval[] (0: none) */
	SQL_P_BACKS,	    /* int4[]: attempts given back */
	SQL_P_ERRORS,	    /* text[], NULL: keep */
	SQL_P_OWNERS,	    /* text[]: the owner names of the rows' own claims */
	SQL_P_FIRSTS,	    /* int4[]: where the ids of each claim begin in SQL_P_IDS, from 1, */
	SQL_P_LASTS,	    /* int4[]: and where they end; leases and owners are then one a claim, not one a row */
	SQL_P_NAMED, /* int4: 1 when SQL_P_IDS are ids that somebody named, 0 when they were found by key or state */
	SQL_P_KEY,   /* text, cast to the key's type in SQL */
	SQL_P_ERROR,	     /* text: only rows whose last error contains it; NULL: any */
	SQL_P_REASON,	     /* text: why rows are skipped */
	SQL_P_KEYS,	     /* text[]: keys of changed rows, as SQL_RETRY and SQL_SKIP return them */
	SQL_P_UNTILS,	     /* timestamptz[]: until when rows may be parked behind them, in the same order */
	SQL_P_TABLE,	     /* text: the quoted name as sql_table_name gives it */
	SQL_P_KEY_COLUMN,    /* text: the key column's name, "" when none is mapped */
	SQL_P_MAX_IN_FLIGHT, /* int4: rows of the table in flight at most, with on_delivered: await */
	SQL_P_RESULT_TIMEOUT /* interval: from its delivery until a row's result is late */
};
#define SQL_PARAMS (SQL_P_RESULT_TIMEOUT + 1)

/* The columns of SQL_CLAIM, SQL_CLAIM_FAR and SQL_SUSPECT, always all of them; what the mapping lacks is NULL.
 * The first row of an answer is the tail: it has only the columns in front of SQL_C_ID. A claimed row each follows,
 * ascending in the order column, without them. Template columns follow behind the last, in the order of struct
 * sql_templates. */
enum sql_claim_column {
	SQL_C_CANDIDATES, /* int8: due rows found; as many as the limit: there may be more. 0 for a suspect claim */
	SQL_C_PARKED,	  /* int8 */
	SQL_C_PARKED_OWN, /* int8: of these, rows that were in flight under an ended lease of the same owner, */
	SQL_C_PARKED_FOREIGN, /* int8: and of another owner, or nobody knows whose */
	SQL_C_PULLED,	      /* int8 */
	SQL_C_FREE,	      /* int8: rows found free, of keys or without */
	SQL_C_FIRST_DUE,      /* timestamptz: position of the first candidate; NULL: none */
	SQL_C_FIRST_ID,	      /* text */
	SQL_C_LAST_DUE,	      /* timestamptz: position of the last one whose bytes were in the bound; NULL: none */
	SQL_C_LAST_ID,	      /* text */
	SQL_C_FULL, /* int4: 1 when the table now has as many rows in flight as it may: more may be due. 0 without await */
	SQL_C_ID,	    /* text */
	SQL_C_ORDER,	    /* text; NULL when it is the id */
	SQL_C_KEY,	    /* text or NULL */
	SQL_C_ATTEMPTS,	    /* int4, this claim counted */
	SQL_C_MAX_ATTEMPTS, /* int4: the row's own limit or the setting */
	SQL_C_LEASE,	    /* timestamptz, to be sent back as received */
	SQL_C_CREATED_AT,   /* timestamptz, perhaps infinite; NULL when unknown */
	SQL_C_TAKEN,	    /* int4, an enum sql_taken */
	SQL_C_PAYLOAD,	    /* the record's value: bytea as it is, anything else as its text */
	SQL_C_HEADERS,	    /* text: a JSON object, or NULL */
	SQL_C_TOPIC,	    /* text */
	SQL_C_PARTITION,    /* text: to be parsed, for the column may be of any type */
	SQL_C_TIMESTAMP_MS  /* int8: Unix milliseconds; NULL when not mapped, NULL or not finite */
};
#define SQL_CLAIM_COLUMNS (SQL_C_TIMESTAMP_MS + 1)

/* What a claimed row was before. */
enum sql_taken {
	SQL_TAKEN_PENDING,
	SQL_TAKEN_OWN,	   /* in flight under a lease of the same owner, which has ended */
	SQL_TAKEN_FOREIGN, /* ... of another owner, or nobody knows whose */
	SQL_TAKEN_LATE	   /* it had been delivered, and its result is late: only with await */
};

/* The columns of SQL_PICK_*: at most SQL_P_LIMIT rows, ascending in the order column. */
enum sql_pick_column {
	SQL_PICKED_ID,	     /* text */
	SQL_PICKED_KEY,	     /* text or NULL */
	SQL_PICKED_ATTEMPTS, /* int4 */
	SQL_PICKED_ERROR     /* text or NULL */
};

/* The columns of SQL_SURVEY, one row, all text. */
enum sql_survey_column {
	SQL_SURVEYED_LARGEST, /* bytes of the largest payload of an open row; 0: there is none */
	SQL_SURVEYED_STATES,  /* a JSON array: states that the mapping does not name; NULL among them */
	SQL_SURVEYED_OWNERS   /* a JSON array: who holds rows in flight */
};

/* The columns of SQL_RETRY and SQL_SKIP: the rows they changed. */
enum sql_change_column {
	SQL_CHANGED_ID,	  /* text */
	SQL_CHANGED_KEY,  /* text or NULL */
	SQL_CHANGED_UNTIL /* timestamptz: when a row was due that waited for its retry; else NULL */
};

/* SQL_TRY returns nothing. SQL_SETTLE_SENT and SQL_SETTLE return one column: the ids (text) they changed, or which their consumers have finished meanwhile.
 * SQL_EXPIRE returns three: the ids it changed, int4 1 where the result was late, not a lease over, and int4 1 where the row has failed. SQL_SWEEP and SQL_UNPARK return one row:
 * int8 rows freed.
 * SQL_COUNT returns one row; failed, unknown and blocked keys are NULL where the table's layout has no index for them: */
enum sql_count_column {
	SQL_N_PENDING,	    /* int8: due or waiting, without the parked */
	SQL_N_PARKED,	    /* int8: pending at the sentinel or at infinity */
	SQL_N_IN_FLIGHT,    /* int8 */
	SQL_N_FAILED,	    /* int8: failed and not settled */
	SQL_N_UNKNOWN,	    /* int8: rows in a state that the mapping does not name */
	SQL_N_BLOCKED_KEYS, /* int8 */
	SQL_N_SUSPECTS,	    /* int8: expired, two attempts or more, one left at least */
	SQL_N_EXHAUSTED,    /* int8: expired, none left */
	SQL_N_OLDEST_US,    /* int8: age of the oldest open row in microseconds; NULL when there is none */
	SQL_N_BOUNDED,	    /* int4: 1 when the bound was reached and the numbers are lower limits */
	SQL_N_SNAPSHOT_AGE  /* int8: transactions begun since the oldest snapshot still held in the database */
};
#define SQL_COUNT_COLUMNS (SQL_N_SNAPSHOT_AGE + 1)
#define SQL_COUNT_BOUND 100000
/* With dead letters: leases that may end for a row that was claimed for nothing but its own; then it is failed without. */
#define SQL_DEATHS_MAX 6
/* Rows SQL_SWEEP or SQL_UNPARK frees at most: when it freed so many it is to be repeated at once. */
#define SQL_SWEEP_LIMIT 10000

/* "outboxd_" and 16 digits. */
#define SQL_NAME_SIZE 25

struct sql_statement {
	enum sql_kind kind;
	const char *text;
	char name[SQL_NAME_SIZE];	   /* to prepare it under, one for each text; "": not worth it */
	enum sql_param params[SQL_PARAMS]; /* what $1.. stand for */
	int n_params;
	const char *before; /* sent in front of it, in the same transaction, without parameters; NULL: nothing */
};

/* SQL_CLAIM on a partitioned table or a view fails with this word in its message (SQLSTATE 22P02) when a row changed
 * between snapshot and lock: nothing was claimed, claim again. */
#define SQL_RACED_MARK "outboxd: claim raced"

/* What the catalog says of the table: filled from the rows of sql_inspect. */
struct sql_column_facts {
	const char *name, *type; /* type as format_type() prints it */
	bool bytea, not_null, microseconds;
	bool may_select, may_update; /* the session's role */
	const char *labels;	     /* of an enum: a JSON array; NULL: it is none */
};
struct sql_table_facts {
	const char *schema, *name; /* as the catalog has them, unquoted */
	char relkind;		   /* r p v ... */
	struct sql_column_facts *columns;
	size_t n_columns;
	bool has_key_index;	/* some index has the key column first; false when the file maps no key */
	const char *role;	/* the session's, quoted */
	bool may_select;	/* the role may read whole rows, and where they stand */
	bool may_delete;	/* it may delete rows */
	bool policed;		/* row-level security decides which rows it sees, */
	bool hidden;		/* and no policy lets it see or change any */
	bool unchangeable;	/* a view that PostgreSQL cannot change rows through */
	bool tells_compression; /* the server has pg_column_compression */
};

/* The statement that asks the catalog (SQL_INSPECT, parameters SQL_P_TABLE and SQL_P_KEY_COLUMN). One row a column: schema, name, relkind,
 * column name, type, bytea, not null, microseconds, key index, may delete, tells compression, may select the column, may update it, labels, role, may select, policed, hidden,
 * unchangeable (all text, booleans t/f). No row: no such table. The role needs no privilege on the table for it. */
extern const struct sql_statement sql_inspect;

/* A cell of an answer, whoever holds it; SLICE_NULL: NULL. */
typedef struct slice sql_cell_fn(const void *result, int row, int column);

/* The facts from sql_inspect's rows, of which there is one at least; they live in the arena. */
void sql_read_facts(struct sql_table_facts *facts, sql_cell_fn *cell, const void *result, size_t n_rows,
		    struct arena *arena);

/* The table's name quoted for SQL from what the file says (dots inside quotes stay characters). False: malformed. */
bool sql_table_name(const char *table, struct buf *out, struct err *err) must_check;

/* The table columns that templates name, each once; their values follow SQL_CLAIM_COLUMNS. */
struct sql_templates {
	const char *const *columns;
	size_t n_columns;
};

/* Has the role all privileges that relaying takes? False: err names those that are missing by the statement that grants them. */
bool sql_check_grants(const struct config_source *source, const struct sql_table_facts *facts,
		      const struct sql_templates *templates, struct err *err) must_check;

struct sql;

/* Builds all statements. The config must outlive it. facts == NULL: the mapping as configured, every mapped column is
 * there, bytea unknown (offline). NULL and err when the table does not fit: a required column missing, ... */
struct sql *sql_new(const struct config_source *source, const struct sql_table_facts *facts,
		    const struct sql_templates *templates, struct err *err) must_check;
void sql_free(struct sql *sql);

const struct sql_statement *sql_statement(const struct sql *sql, enum sql_kind kind);

/* Is the column there (mapped, and not left out because the table lacks it)? */
bool sql_has_column(const struct sql *sql, enum config_column column);

/* Can a failed row be told from a skipped one? Without it SQL_SKIP would change nothing. */
bool sql_may_skip(const struct sql *sql);

/* What kind of value the payload's column holds, as a media type; static. */
const char *sql_media_type(const struct sql *sql);

/* The statements that make the index of what is due, and that of the keys. */
const char *sql_due_index(const struct sql *sql);
const char *sql_key_index(const struct sql *sql);

/* How to compare two values of the order column as text. */
enum sql_order { SQL_ORDER_NUMBER, SQL_ORDER_BYTES, SQL_ORDER_ARRIVAL };
enum sql_order sql_order(const struct sql *sql);

/* Prints the DDL of the source's table, indexes, trigger and settings (adopt: only what an existing table may lack). */
void sql_print_schema(const struct config_source *source, bool adopt, FILE *out);

/* Prints the DDL of a consumer's table of events that it knows. */
void sql_print_inbox(FILE *out);

/* Prints the SQL that takes the NOTIFY trigger away again. */
void sql_print_drop_trigger(const struct config_source *source, FILE *out);

#endif
