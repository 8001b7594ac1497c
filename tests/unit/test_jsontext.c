/* Any bytes as a JSON string. */
#include "unit.h"

#include "core/jsontext.h"

static void expect(const char *text, const char *expected)
{
	json_t *json = jsontext_new(text);

	ck_assert_str_eq(json_string_value(json), expected);
	json_decref(json);
}

START_TEST(test_text_becomes_a_string)
{
	json_t *none = jsontext_new(NULL);

	expect("", "");
	expect("topic \"a\"\n", "topic \"a\"\n");
	expect("caf\xC3\xA9", "caf\xC3\xA9");
	expect("caf\xE9!", "caf\xEF\xBF\xBD!");
	ck_assert(json_is_null(none));
	json_decref(none);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("jsontext");
	TCase *tcase = tcase_create("jsontext");

	tcase_add_test(tcase, test_text_becomes_a_string);
	suite_add_tcase(suite, tcase);
	return suite;
}
