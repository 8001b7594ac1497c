/* Templates and table names: texts taken apart. */
#include "unit.h"

#include "base/buf.h"
#include "config/tablename.h"
#include "config/template.h"

#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct {
	const char *text,
		*pieces; /* literal text as it is, columns between < and >, a bar between pieces; NULL: refused */
} templates[] = {
	{"", ""},
	{"orders", "orders"},
	{"{event_type}", "<event_type>"},
	{"a{b}c{d}e", "a|<b>|c|<d>|e"},
	{"{a}{b}", "<a>|<b>"},
	{"{{}}", "{}"},
	{"x{{y}}{z}", "x{y}|<z>"},
	{"{{{a}}}", "{|<a>|}"},
	{"{Event Type}", "<Event Type>"},
	{"{", NULL},
	{"}", NULL},
	{"{}", NULL},
	{"a{b", NULL},
	{"a}b", NULL},
	{"{a{b}}", NULL},
	{"{a}}", NULL},
};

START_TEST(test_templates)
{
	struct arena *arena = arena_new();
	struct template template;
	struct buf pieces = {0};
	struct err err = {""};
	bool good = template_parse(arena, templates[_i].text, &template, &err);

	ck_assert_int_eq(good, templates[_i].pieces != NULL);
	ck_assert_int_eq(good, err.text[0] == '\0');
	for (size_t i = 0; good && i < template.n_pieces; i++) {
		buf_add_string(&pieces, i > 0 ? "|" : "");
		if (template.pieces[i].literal != NULL)
			buf_add_string(&pieces, template.pieces[i].literal);
		else
			buf_print(&pieces, "<%s>", template.pieces[i].column);
	}
	if (good)
		ck_assert_str_eq(buf_text(&pieces), templates[_i].pieces);
	buf_free(&pieces);
	arena_free(arena);
}
END_TEST

START_TEST(test_template_mistake_has_its_position)
{
	struct arena *arena = arena_new();
	struct template template;
	struct err err;

	ck_assert(!template_parse(arena, "abc{", &template, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "character 4"));
	ck_assert(!template_parse(arena, "ab}", &template, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "character 3"));
	arena_free(arena);
}
END_TEST

#define LONG_63 "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc"

static const struct {
	const char *text, *schema, *name; /* name NULL: refused */
} tables[] = {
	{"event_outbox", "", "event_outbox"},
	{"public.event_outbox", "public", "event_outbox"},
	{"Public.Event_Outbox", "public", "event_outbox"},
	{"\"Billing\".\"Out Box\"", "Billing", "Out Box"},
	{"billing.\"a.b\"", "billing", "a.b"},
	{"\"a\"\"b\"", "", "a\"b"},
	{"t\xC3\xA4"
	 "ble$1",
	 "",
	 "t\xC3\xA4"
	 "ble$1"},
	{LONG_63 "." LONG_63, LONG_63, LONG_63},
	{"", NULL, NULL},
	{".x", NULL, NULL},
	{"x.", NULL, NULL},
	{"a.b.c", NULL, NULL},
	{"a b", NULL, NULL},
	{"1a", NULL, NULL},
	{"\"a", NULL, NULL},
	{"\"\"", NULL, NULL},
	{"a\"b\"", NULL, NULL},
	{"x; DROP TABLE y", NULL, NULL},
	{LONG_63 "d", NULL, NULL},
	{LONG_63 "d.x", NULL, NULL},
	{"\"" LONG_63 "d\"", NULL, NULL},
};

START_TEST(test_F006_table_names)
{
	struct tablename table;
	struct err err;

	ck_assert_int_eq(tablename_parse(tables[_i].text, &table, &err), tables[_i].name != NULL);
	if (tables[_i].name == NULL)
		return;
	ck_assert_str_eq(table.schema, tables[_i].schema);
	ck_assert_str_eq(table.name, tables[_i].name);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("template");
	TCase *tcase = tcase_create("template");

	tcase_add_loop_test(tcase, test_templates, 0, COUNT(templates));
	tcase_add_test(tcase, test_template_mistake_has_its_position);
	tcase_add_loop_test(tcase, test_F006_table_names, 0, COUNT(tables));
	suite_add_tcase(suite, tcase);
	return suite;
}
