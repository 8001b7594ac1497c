/* sqltext: SQL written once over the columns' roles, and filled in for one table. Only sql*.c and checktable.c include it.
 * A statement is a list of parts; a part is taken when the table has all of `when` and nothing of `unless`.
 * In a part: {table}; {role} or {alias.role}, a mapped column (see config_column_name) or an expression that sqltext.c
 * defines over them; {$param}, which becomes $n with its type; {:word}, a type or list found out for this table. */
#ifndef OUTBOXD_CORE_SQLTEXT_H
#define OUTBOXD_CORE_SQLTEXT_H

#include "base/mem.h"
#include "core/sql.h"

#define SQLTEXT_HAS(column) (UINT64_C(1) << (column))
#define SQLTEXT_FLAG(n) (UINT64_C(1) << (CONFIG_COLUMNS + (n)))

#define SQLTEXT_KEYED SQLTEXT_FLAG(0)	     /* ordering: key */
#define SQLTEXT_BLOCK SQLTEXT_FLAG(1)	     /* ... and on_failed: block */
#define SQLTEXT_PLAIN SQLTEXT_FLAG(2)	     /* a table of its own: ctid names a row's version */
#define SQLTEXT_NULLABLE SQLTEXT_FLAG(3)     /* available_at may be NULL */
#define SQLTEXT_KEY_INDEX SQLTEXT_FLAG(4)    /* some index begins with the key */
#define SQLTEXT_AGE SQLTEXT_FLAG(5)	     /* created_at is there and is a time */
#define SQLTEXT_BYTEA SQLTEXT_FLAG(6)	     /* the payload is bytes, not text */
#define SQLTEXT_MILLIS SQLTEXT_FLAG(7)	     /* the record's timestamp is a number of milliseconds */
#define SQLTEXT_FAR SQLTEXT_FLAG(8)	     /* this claim begins behind the far position */
#define SQLTEXT_DELETE SQLTEXT_FLAG(9)	     /* on_delivered: delete */
#define SQLTEXT_LENGTH SQLTEXT_FLAG(10)	     /* the payload tells its length without being read */
#define SQLTEXT_COMPRESSION SQLTEXT_FLAG(11) /* the server tells whether a value is compressed (14 and later) */

#define SQLTEXT_BY_KEY SQLTEXT_FLAG(12) /* this pick is of one key */
#define SQLTEXT_SKIP SQLTEXT_FLAG(13)	/* this pick or change is a skip, not a retry */
#define SQLTEXT_UNPARK SQLTEXT_FLAG(14) /* this sweep is of some keys, and at once */

#define SQLTEXT_AWAIT SQLTEXT_FLAG(15) /* on_delivered: await */
/* Without an owner: a lease ends as long after updated_at as leases last, and a time for results does not. */
#define SQLTEXT_DATED SQLTEXT_FLAG(16)
#define SQLTEXT_WHERE SQLTEXT_FLAG(24) /* the operator chooses among the rows */
/* What has used its attempts is claimed once more, for its dead letter. */
#define SQLTEXT_DEAD_LETTERS SQLTEXT_FLAG(22)

/* A number that a macro names, as part of a statement's text. */
#define SQLTEXT_NUMBER(macro) SQLTEXT_LITERAL(macro)
#define SQLTEXT_LITERAL(number) #number

/* COLUMN_LEASE_UNTIL counts as there only when it is a column of its own; COLUMN_ORDER only when it is not the id. */
struct sqltext {
	uint64_t has;
	const char *table;		     /* quoted */
	const char *columns[CONFIG_COLUMNS]; /* quoted; NULL: not there */
	const char *labels[CONFIG_STATES];   /* quoted literals */
	const char *id_type, *order_type,
		*key_type; /* without a length: what is longer than the column must not match */
	const char *error_type;
	const char *status_cast;    /* "" or "::type" */
	const char *attempts_limit; /* one less than the largest number the column holds */
	const char *result_timeout; /* for people to read */
	const char *template_values, *template_names;
	const char *media_type; /* of the payload */
	const char *where;	/* the operator's own SQL, with SQLTEXT_WHERE */
	enum sql_order order;
};

struct sqltext_part {
	uint64_t when, unless;
	const char *text;
};

/* Finds out the dialect of one source and its table; it borrows from both and lives in the arena. False and err: sql_new. */
bool sqltext_fit(struct sqltext *out, const struct config_source *source, const struct sql_table_facts *facts,
		 const struct sql_templates *templates, struct arena *arena, struct err *err) must_check;

/* Fills in the parts, each on lines of its own (the last one has no text). The statement's text lives in the arena. */
void sqltext_build(const struct sqltext *dialect, const struct sqltext_part *parts, struct arena *arena,
		   struct sql_statement *out);

/* Appends one expression, as a statement has it, for DDL. */
void sqltext_expand(const struct sqltext *dialect, const char *text, struct buf *out);

/* Append a quoted identifier, a quoted literal. */
void sqltext_identifier(struct buf *out, const char *name);
void sqltext_literal(struct buf *out, const char *text);

/* The statements. */
extern const struct sqltext_part sqlclaim_claim[], sqlclaim_suspect[], sqlclaim_try[];
extern const struct sqltext_part sqlsettle_expire[], sqlsettle_sent[], sqlsettle_settle[], sqlsettle_sweep[];
extern const struct sqltext_part sqlawait_expire[], sqlawait_dispatched[], sqlawait_settle[];
extern const struct sqltext_part sqlcount_count[];
extern const struct sqltext_part sqlcheck_survey[];
extern const struct sqltext_part sqlcommand_pick[], sqlcommand_named[], sqlcommand_change[];

#endif
