#include "core/order.h"
#include "unit.h"

static const struct {
	enum sql_order order;
	const char *a, *b;
	int sign;
} cases[] = {
	{SQL_ORDER_NUMBER, "1", "2", -1},
	{SQL_ORDER_NUMBER, "9", "10", -1},
	{SQL_ORDER_NUMBER, "10", "9", 1},
	{SQL_ORDER_NUMBER, "-1", "1", -1},
	{SQL_ORDER_NUMBER, "-10", "-9", -1},
	{SQL_ORDER_NUMBER, "-9", "-10", 1},
	{SQL_ORDER_NUMBER, "0", "-5", 1},
	{SQL_ORDER_NUMBER, "7", "7", 0},
	{SQL_ORDER_NUMBER, "3000000000", "9223372036854775807", -1},
	{SQL_ORDER_BYTES, "0a000000-0000-0000-0000-000000000000", "0b000000-0000-0000-0000-000000000000", -1},
	{SQL_ORDER_BYTES, "ff000000-0000-0000-0000-000000000000", "0b000000-0000-0000-0000-000000000000", 1},
	{SQL_ORDER_BYTES, "a", "ab", -1},
	{SQL_ORDER_BYTES, "", "a", -1},
	{SQL_ORDER_ARRIVAL, "b", "a", 0},
};

static int sign(int number)
{
	return (number > 0) - (number < 0);
}

START_TEST(test_F005_compares_as_the_database_does)
{
	struct slice a = slice_of(cases[_i].a), b = slice_of(cases[_i].b);

	ck_assert_int_eq(sign(order_compare(cases[_i].order, a, b)), cases[_i].sign);
	ck_assert_int_eq(sign(order_compare(cases[_i].order, b, a)), -cases[_i].sign);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("order");
	TCase *tests = tcase_create("order");

	tcase_add_loop_test(tests, test_F005_compares_as_the_database_does, 0, sizeof(cases) / sizeof(cases[0]));
	suite_add_tcase(suite, tests);
	return suite;
}
