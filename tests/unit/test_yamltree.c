/* YAML with places: odd files, mistakes with line and column, bounds. */
#include "unit.h"

#include "base/buf.h"
#include "config/yamltree.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct arena *arena;
static struct diag diag;

static void set_up(void)
{
	arena = arena_new();
	diag = (struct diag){.file = "f"};
}

static void tear_down(void)
{
	diag_free(&diag);
	arena_free(arena);
}

static const struct yamltree_node *parse(const char *text)
{
	return yamltree_parse(arena, text, strlen(text), &diag);
}

static void expect_problems(const char *expected)
{
	struct buf problems = {0};

	diag_print(&diag, &problems);
	ck_assert_str_eq(buf_text(&problems), expected);
	buf_free(&problems);
}

START_TEST(test_tree)
{
	const struct yamltree_node *root = parse("a: 1\nb:\n  - x\n  - {c: 'd', e: }\nf: \"~\"\n"), *b, *map;

	ck_assert_ptr_nonnull(root);
	expect_problems("");
	ck_assert_int_eq(root->kind, YAMLTREE_MAP);
	ck_assert_str_eq(yamltree_member(root, "a")->text, "1");
	b = yamltree_member(root, "b");
	ck_assert_int_eq(b->kind, YAMLTREE_LIST);
	ck_assert_int_eq(b->key_line, 2);
	ck_assert_int_eq(b->key_column, 1);
	ck_assert_str_eq(b->children->text, "x");
	map = b->children->next;
	ck_assert_ptr_null(map->next);
	ck_assert_str_eq(yamltree_member(map, "c")->text, "d");
	ck_assert_int_eq(yamltree_member(map, "c")->line, 4);
	ck_assert_int_eq(yamltree_member(map, "c")->column, 9);
	ck_assert_int_eq(yamltree_member(map, "e")->kind, YAMLTREE_NULL);
	ck_assert_int_eq(yamltree_member(root, "f")->kind, YAMLTREE_TEXT);
	ck_assert_ptr_null(yamltree_member(root, "g"));
	ck_assert_ptr_null(yamltree_member(NULL, "g"));
	ck_assert_ptr_null(yamltree_member(b, "g"));
}
END_TEST

/* Files that say nothing, or the same as `a: b`. */
static const struct {
	const char *text;
	enum yamltree_kind kind;
} odd_files[] = {
	{"", YAMLTREE_NULL},
	{"# a comment\n\n", YAMLTREE_NULL},
	{"\xEF\xBB\xBF", YAMLTREE_NULL},
	{"---\n", YAMLTREE_NULL},
	{"\xEF\xBB\xBF"
	 "a: b\n",
	 YAMLTREE_MAP},
	{"a: b\r\n", YAMLTREE_MAP},
	{"---\r\na: b\r\n...\r\n", YAMLTREE_MAP},
	{"a:\tb\n", YAMLTREE_MAP},
	{"{\"a\": \"b\"}", YAMLTREE_MAP},
};

START_TEST(test_F075_odd_files)
{
	const struct yamltree_node *root = parse(odd_files[_i].text);

	ck_assert_ptr_nonnull(root);
	expect_problems("");
	ck_assert_int_eq(root->kind, odd_files[_i].kind);
	if (root->kind == YAMLTREE_MAP)
		ck_assert_str_eq(yamltree_member(root, "a")->text, "b");
}
END_TEST

static const struct {
	const char *text, *problems;
} mistakes[] = {
	{"a: 1\nb: 2\na: 3\n", "f:3:1: a is given twice: here in line 3 and before in line 1\n"},
	{"x:\n  a: 1\n  a:\n    c: 2\n", "f:3:3: a is given twice: here in line 3 and before in line 2\n"},
	{"a: 1\n---\nb: 2\n",
	 "f:2:1: a second document begins here in line 2, the first in line 1: one file holds one document\n"},
	{"a: &x 1\n", "f:1:4: anchors (&name) are not supported\n"},
	{"a: &x [1]\nb: &y {c: d}\n",
	 "f:1:4: anchors (&name) are not supported\nf:2:4: anchors (&name) are not supported\n"},
	{"a: *x\n", "f:1:4: aliases (*name) are not supported\n"},
	{"<<: {a: 1}\n", "f:1:1: merge keys (<<) are not supported\n"},
	{"a: !!str 1\n", "f:1:4: tags (!name) are not supported\n"},
	{"a: \"x\\0y\"\n", "f:1:4: NUL characters are not supported\n"},
	{"a:\n\tb: c\n", "f:2:1: a tab cannot indent YAML: use spaces\n"},
	{"a:\n  b: c\n  \td: e\n", "f:3:3: a tab cannot indent YAML: use spaces\n"},
	{"- a\n b: c\n", "f:2:3: mapping values are not allowed in this context\n"},
	{"a: \xFF\n", "f:1:4: invalid leading UTF-8 octet\n"},
	{"a: 1\nb: \x01\n", "f:2:4: control characters are not allowed\n"},
	{"a: [1, 2\nb: c\n", "f:2:2: did not find expected ',' or ']' (while parsing a flow sequence in line 1)\n"},
	{"? [a]\n: b\n", "f:1:3: a key must be a single word\n"},
};

START_TEST(test_F074_F075_mistakes)
{
	(void)!parse(mistakes[_i].text);
	expect_problems(mistakes[_i].problems);
}
END_TEST

START_TEST(test_depth_is_bounded)
{
	char text[200] = "";

	memset(text, '[', YAMLTREE_MAX_DEPTH);
	memset(text + YAMLTREE_MAX_DEPTH, ']', YAMLTREE_MAX_DEPTH);
	ck_assert_ptr_nonnull(parse(text));
	expect_problems("");
	memset(text, '[', 100);
	ck_assert_ptr_null(parse(text));
	expect_problems("f:1:18: nested deeper than 16 levels\n");
}
END_TEST

START_TEST(test_size_is_bounded)
{
	struct buf text = {0};

	for (int i = 0; i < YAMLTREE_MAX_NODES; i++)
		buf_add_string(&text, "- \n");
	ck_assert_ptr_null(yamltree_parse(arena, text.bytes, text.len, &diag));
	expect_problems("f:10000:2: more than 10000 values\n");
	buf_free(&text);
	diag_free(&diag);
	while (text.len <= YAMLTREE_MAX_BYTES)
		buf_add_string(&text, "# nothing but a comment\n");
	ck_assert_ptr_null(yamltree_parse(arena, text.bytes, text.len, &diag));
	expect_problems("f:1:1: larger than 1048576 bytes\n");
	buf_free(&text);
}
END_TEST

/* No bytes may crash it. The seed is fixed: a failure repeats. */
START_TEST(test_random_bytes)
{
	static const char alphabet[] = "ab:- \n\t[]{}\"'&*!|>%@#,?~\\$\xC3\xA4\xFF\r";
	char text[64];

	srandom(7);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)random() % sizeof(text);

		for (size_t k = 0; k < len; k++)
			text[k] = alphabet[(size_t)random() % sizeof(alphabet)];
		if (yamltree_parse(arena, text, len, &diag) == NULL)
			ck_assert_uint_gt(diag.n_lines, 0);
		diag_free(&diag);
		arena_free(arena);
		arena = arena_new();
	}
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("yamltree");
	TCase *tcase = tcase_create("yamltree");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, test_tree);
	tcase_add_loop_test(tcase, test_F075_odd_files, 0, COUNT(odd_files));
	tcase_add_loop_test(tcase, test_F074_F075_mistakes, 0, COUNT(mistakes));
	tcase_add_test(tcase, test_depth_is_bounded);
	tcase_add_test(tcase, test_size_is_bounded);
	tcase_add_test(tcase, test_random_bytes);
	suite_add_tcase(suite, tcase);
	return suite;
}
