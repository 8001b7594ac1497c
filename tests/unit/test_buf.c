/* buf: bytes that grow, always with a NUL behind them; slices. */
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

static void expect_text(const struct buf *buf, const char *text)
{
	ck_assert_str_eq(buf_text(buf), text);
	ck_assert_uint_eq(buf->len, strlen(text));
}

START_TEST(test_empty)
{
	struct buf buf = {0};

	expect_text(&buf, "");
	buf_clear(&buf);
	expect_text(&buf, "");
	buf_add(&buf, NULL, 0);
	ck_assert_ptr_nonnull(buf.bytes); /* a present, empty value */
	expect_text(&buf, "");
	buf_free(&buf);
	ck_assert_ptr_null(buf.bytes);
	ck_assert_uint_eq(buf.size, 0);
	buf_free(&buf);
}
END_TEST

START_TEST(test_add)
{
	struct buf buf = {0};

	buf_add_string(&buf, "one");
	buf_add_char(&buf, ' ');
	buf_add(&buf, "two three", 3);
	buf_print(&buf, " %d%s", 3, "!");
	expect_text(&buf, "one two 3!");
	buf_clear(&buf);
	expect_text(&buf, "");
	ck_assert_uint_gt(buf.size, 0);
	buf_add_string(&buf, "again");
	expect_text(&buf, "again");
	buf_free(&buf);
}
END_TEST

START_TEST(test_nul_inside)
{
	struct buf buf = {0};

	buf_add(&buf, "a\0b", 3);
	buf_add_char(&buf, '\0');
	ck_assert_uint_eq(buf.len, 4);
	ck_assert_mem_eq(buf.bytes, "a\0b\0\0", 5);
	buf_free(&buf);
}
END_TEST

/* Every length, so that each edge of growing is met; the sanitizer watches the NUL. */
START_TEST(test_grows)
{
	struct buf buf = {0}, printed = {0};
	char text[1000];
	size_t len, i;

	memset(text, 'x', sizeof(text));
	for (len = 0; len < sizeof(text); len++) {
		buf_free(&buf);
		buf_free(&printed);
		buf_add(&buf, text, len);
		buf_print(&printed, "%.*s", (int)len, text);
		ck_assert_uint_eq(strlen(buf.bytes), len);
		ck_assert_uint_eq(strlen(printed.bytes), len);
	}
	buf_clear(&buf);
	for (i = 0; i < 100000; i++)
		buf_add_char(&buf, (char)i);
	for (i = 0; i < 100000; i++)
		ck_assert_int_eq(buf.bytes[i], (char)i);
	buf_free(&buf);
	buf_free(&printed);
}
END_TEST

START_TEST(test_take)
{
	struct buf buf = {0};
	char *bytes = buf_take(&buf);

	ck_assert_str_eq(bytes, ""); /* never NULL */
	mem_free(bytes);
	buf_add_string(&buf, "mine");
	bytes = buf_take(&buf);
	ck_assert_str_eq(bytes, "mine");
	expect_text(&buf, "");
	mem_free(bytes);
}
END_TEST

START_TEST(test_slices)
{
	ck_assert_ptr_null(slice_of(NULL).bytes);
	ck_assert_uint_eq(slice_of("abc").len, 3);
	ck_assert(slice_equal(slice_of("abc"), (struct slice){"abcd", 3}));
	ck_assert(!slice_equal(slice_of("abc"), slice_of("abd")));
	ck_assert(!slice_equal(slice_of("abc"), slice_of("ab")));
	ck_assert(slice_equal(SLICE_NULL, SLICE_NULL));
	ck_assert(!slice_equal(SLICE_NULL, slice_of(""))); /* NULL is not empty */
	ck_assert(!slice_equal(slice_of(""), SLICE_NULL));
	ck_assert(slice_equal((struct slice){"a\0b", 3}, (struct slice){"a\0b", 3}));
	ck_assert(!slice_equal((struct slice){"a\0b", 3}, (struct slice){"a\0c", 3}));
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("buf");
	TCase *tcase = tcase_create("buf");

	tcase_add_test(tcase, test_empty);
	tcase_add_test(tcase, test_add);
	tcase_add_test(tcase, test_nul_inside);
	tcase_add_test(tcase, test_grows);
	tcase_add_test(tcase, test_take);
	tcase_add_test(tcase, test_slices);
	suite_add_tcase(suite, tcase);
	return suite;
}
