/* order: compares two values of the order column as the database does, from their text. */
#ifndef OUTBOXD_CORE_ORDER_H
#define OUTBOXD_CORE_ORDER_H

#include "base/buf.h"
#include "core/sql.h"

/* Less than, equal to or greater than 0, as in strcmp. With SQL_ORDER_ARRIVAL always 0: only the database knows its
 * collation, so what came first stays first. */
int order_compare(enum sql_order order, struct slice a, struct slice b);

#endif
