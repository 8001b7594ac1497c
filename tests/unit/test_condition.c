/* A condition of the operator's: what may stand between the parentheses, and what would reach beyond them. */
#include "unit.h"

#include "config/condition.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char *const good[] = {
	"region = 'eu'",
	"(a) AND (b OR (c))",
	"name = 'it''s) -- ;' AND \"odd\"\")\" IS NULL",
	"name = E'\\') ; --' AND e'\\\\' = 'x'",
	"type = '\\'", /* no escape in a plain text */
	"body LIKE $$ ) ; ' $$ AND body <> $tag$ $$ ) $tag$",
	"a$1 = b AND tab$le = 1", /* a dollar inside a word */
	"region = 'eu' -- canary ( '",
	"a -- one ' (\n AND b",
	"a /* ) /* nested ' */ ; */ AND b",
	"amount - -1 > 2 / 3 * 4",
	"name = N'\xc3\xa4' AND \xc3\xa4$x$ = 1",
	"a::text ~ '^[(]'",
};

static const struct {
	const char *text, *error;
} bad[] = {
	{"a = 1) OR (b = 2", "closes a parenthesis that it has not opened"},
	{"a = 1)", "closes a parenthesis that it has not opened"},
	{"((a = 1)", "does not close a parenthesis that it has opened"},
	{"a = 1 -- (\n)", "closes a parenthesis that it has not opened"},
	{"a = 'x", "does not close what begins with 'x"},
	{"a = 'x''", "does not close what begins with 'x''"},
	{"a = E'x\\'", "does not close what begins with E'x\\'"},
	{"\"a", "does not close what begins with \"a"},
	{"a /* b", "does not close what begins with /* b"},
	{"a /* /* */", "does not close what begins with /* /* */"},
	{"a = $x$ $y$", "does not close what begins with $x$ $y$"},
	{"a = 1; DROP TABLE t", "must be one condition, without a semicolon"},
	{"id > $1", "has a parameter, $1, which nobody gives a value"},
	{"", "must not be empty"},
	{" -- nothing\n", "must not be empty"},
};

START_TEST(test_good)
{
	struct err err = {""};

	ck_assert_msg(condition_check(good[_i], &err), "%s: %s", good[_i], err.text);
}
END_TEST

START_TEST(test_bad)
{
	struct err err = {""};

	ck_assert_msg(!condition_check(bad[_i].text, &err), "%s", bad[_i].text);
	ck_assert_str_eq(err.text, bad[_i].error);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("condition");
	TCase *tcase = tcase_create("condition");

	tcase_add_loop_test(tcase, test_good, 0, COUNT(good));
	tcase_add_loop_test(tcase, test_bad, 0, COUNT(bad));
	suite_add_tcase(suite, tcase);
	return suite;
}
