#include "core/order.h"

#include <string.h>

static int compare_bytes(struct slice a, struct slice b)
{
	size_t shorter = a.len < b.len ? a.len : b.len;
	int order = shorter == 0 ? 0 : memcmp(a.bytes, b.bytes, shorter);

	if (order != 0 || a.len == b.len)
		return order;
	return a.len < b.len ? -1 : 1;
}

static bool negative(struct slice number)
{
	return number.len > 0 && number.bytes[0] == '-';
}

/* PostgreSQL prints integers without leading zeros: the longer one is the larger one. */
static int compare_numbers(struct slice a, struct slice b)
{
	int order;

	if (negative(a) != negative(b))
		return negative(a) ? -1 : 1;
	if (a.len != b.len)
		order = a.len < b.len ? -1 : 1;
	else
		order = compare_bytes(a, b);
	return negative(a) ? -order : order;
}

int order_compare(enum sql_order order, struct slice a, struct slice b)
{
	switch (order) {
	case SQL_ORDER_NUMBER:
		return compare_numbers(a, b);
	case SQL_ORDER_BYTES:
		return compare_bytes(a, b);
	case SQL_ORDER_ARRIVAL:
		break;
	}
	return 0;
}
