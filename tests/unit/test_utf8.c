/* utf8: what is a character and what is not, at every edge of the encoding. */
#include "unit.h"

#include "base/utf8.h"

#include <string.h>

static const struct {
	const char *bytes;
	size_t length; /* 0: no character */
	uint32_t code_point;
} cases[] = {
	{"a", 1, 'a'},
	{"\x7F", 1, 0x7F},
	{"\xC2\x80", 2, 0x80},
	{"\xDF\xBF", 2, 0x7FF},
	{"\xE0\xA0\x80", 3, 0x800},
	{"\xED\x9F\xBF", 3, 0xD7FF},
	{"\xEE\x80\x80", 3, 0xE000},
	{"\xEF\xBF\xBF", 3, 0xFFFF},
	{"\xF0\x90\x80\x80", 4, 0x10000},
	{"\xF4\x8F\xBF\xBF", 4, 0x10FFFF},
	{"\x80", 0, 0},		    /* goes on with nothing */
	{"\xC0\x80", 0, 0},	    /* overlong NUL */
	{"\xC1\xBF", 0, 0},	    /* overlong */
	{"\xE0\x9F\xBF", 0, 0},	    /* overlong */
	{"\xF0\x8F\xBF\xBF", 0, 0}, /* overlong */
	{"\xED\xA0\x80", 0, 0},	    /* surrogate */
	{"\xED\xBF\xBF", 0, 0},	    /* surrogate */
	{"\xF4\x90\x80\x80", 0, 0}, /* above the last */
	{"\xF5\x80\x80\x80", 0, 0},
	{"\xFF", 0, 0},
	{"\xC3", 0, 0}, /* cut off */
	{"\xE2\x82", 0, 0},
	{"\xF0\x9F\x98", 0, 0},
	{"\xC3(", 0, 0}, /* broken off */
	{"\xE2\x82(", 0, 0},
};

START_TEST(test_characters)
{
	uint32_t code_point = 0;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_msg(utf8_read(cases[i].bytes, strlen(cases[i].bytes), &code_point) == cases[i].length,
			      "case %zu", i);
		if (cases[i].length > 0)
			ck_assert_uint_eq(code_point, cases[i].code_point);
		ck_assert_uint_eq(utf8_read(cases[i].bytes, cases[i].length - (cases[i].length > 0), NULL), 0);
	}
	ck_assert_uint_eq(utf8_read("", 1, &code_point), 1); /* NUL is a character */
	ck_assert_uint_eq(code_point, 0);
	ck_assert_uint_eq(utf8_read("a", 0, NULL), 0);
}
END_TEST

static void expect_added(const char *bytes, size_t len, const char *expected)
{
	struct buf out = {0};

	utf8_add(&out, bytes, len);
	ck_assert_str_eq(buf_text(&out), expected);
	buf_free(&out);
}

START_TEST(test_add_makes_valid)
{
	expect_added("", 0, "");
	expect_added("plain", 5, "plain");
	expect_added("caf\xC3\xA9 \xF0\x9F\x98\x80", 10, "caf\xC3\xA9 \xF0\x9F\x98\x80");
	expect_added("a\xFF", 2, "a\xEF\xBF\xBD");
	expect_added("\xE2\x82"
		     "b",
		     3,
		     "\xEF\xBF\xBD\xEF\xBF\xBD"
		     "b");
	expect_added("\xC3\xA9", 1, "\xEF\xBF\xBD");
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("utf8");
	TCase *tcase = tcase_create("utf8");

	tcase_add_test(tcase, test_characters);
	tcase_add_test(tcase, test_add_makes_valid);
	suite_add_tcase(suite, tcase);
	return suite;
}
