/* tablename: a table's name as a configuration writes it: name or schema.name.
 * A part is a plain word, folded to lower case as PostgreSQL does, or "anything in quotes" (a quote inside is doubled). */
#ifndef OUTBOXD_CONFIG_TABLENAME_H
#define OUTBOXD_CONFIG_TABLENAME_H

#include "base/err.h"

#define TABLENAME_MAX_BYTES 63 /* of a part; PostgreSQL would cut what is longer */

struct tablename {
	char schema[TABLENAME_MAX_BYTES + 1]; /* unquoted; "" when none was written: search_path decides */
	char name[TABLENAME_MAX_BYTES + 1];
};

bool tablename_parse(const char *text, struct tablename *out, struct err *err) must_check;

#endif
