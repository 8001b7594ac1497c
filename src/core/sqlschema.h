/* sqlschema: the DDL of a source's table, piece by piece. Only sqlschema.c (a new table) and sqladopt.c (what an existing one
 * lacks) include it; sql.h has the functions that print it. */
#ifndef OUTBOXD_CORE_SQLSCHEMA_H
#define OUTBOXD_CORE_SQLSCHEMA_H

#include "config/tablename.h"
#include "core/sqltext.h"

/* The columns beside id and order, in the order of a new table. */
struct sqlschema_column {
	enum config_column role;
	bool control; /* written by the relay: --adopt adds it, and the role may update it */
	const char *type, *comment;
};
#define SQLSCHEMA_COLUMNS 19
extern const struct sqlschema_column sqlschema_columns[SQLSCHEMA_COLUMNS];

/* What is printed, and where. */
struct sqlschema {
	const struct config_source *source;
	struct sqltext text;
	struct tablename name;
	FILE *out;
};

bool sqlschema_has(const struct sqlschema *schema, enum config_column column);

/* Has the table a column of its own for it? */
bool sqlschema_is_column(const struct sqlschema *schema, const struct sqlschema_column *column);

/* Prints SQL with the names filled in. */
void sqlschema_print(const struct sqlschema *schema, const char *text);

/* The name of an index, trigger or function of the table: cut so that with the suffix it stays a legal name. Appended as it
 * is, or printed quoted, with the table's schema or without. */
void sqlschema_add_name(const struct sqlschema *schema, const char *suffix, struct buf *out);
void sqlschema_print_name(const struct sqlschema *schema, const char *suffix, bool qualified);

void sqlschema_print_literal(const struct sqlschema *schema, const char *text);

/* Pieces that a new table and an existing one share. create: "CREATE INDEX" and its options. */
void sqlschema_print_indexes(const struct sqlschema *schema, const char *create);
void sqlschema_print_function(const struct sqlschema *schema);
void sqlschema_print_trigger(const struct sqlschema *schema, const char *indent);
void sqlschema_print_grants(const struct sqlschema *schema);

/* sqladopt.c */
void sqladopt_print(const struct sqlschema *schema);

#endif
