/* mem: zeroed memory, copies, arenas, and the end of the process where there is none. */
#include "unit.h"

#include "base/mem.h"

#include <signal.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define PIECES 1000

static void expect_zeroes(const unsigned char *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len && bytes[i] == 0; i++)
		;
	ck_assert_uint_eq(i, len);
}

START_TEST(test_new_is_zeroed)
{
	uint64_t *numbers = MEM_NEW_ARRAY(1000, uint64_t);
	void *nothing = mem_new(0, 8);

	expect_zeroes((unsigned char *)numbers, 8000);
	ck_assert_ptr_nonnull(nothing);
	mem_free(nothing);
	mem_free(numbers);
	mem_free(NULL);
}
END_TEST

START_TEST(test_pool_pieces_are_zeroed_and_apart)
{
	struct mem_pool pool = {.size = 40};
	unsigned char *pieces[3];
	int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 3; i++) {
			pieces[i] = mem_pool_take(&pool);
			expect_zeroes(pieces[i], 40);
			memset(pieces[i], 0xff, 40);
		}
		ck_assert(pieces[0] != pieces[1] && pieces[1] != pieces[2] && pieces[0] != pieces[2]);
		for (i = 0; i < 3; i++)
			mem_pool_give(&pool, pieces[i]);
	}
	mem_pool_clear(&pool);
	ck_assert_ptr_null(pool.spare);
}
END_TEST

START_TEST(test_resize_keeps_what_was_there)
{
	char *text = mem_resize(NULL, 4, 1);

	memcpy(text, "abc", 4);
	text = mem_resize(text, 100000, 1);
	ck_assert_str_eq(text, "abc");
	text = mem_resize(text, 2, 1);
	ck_assert_mem_eq(text, "ab", 2);
	text = mem_resize(text, 0, 1);
	ck_assert_ptr_nonnull(text);
	mem_free(text);
}
END_TEST

START_TEST(test_copies)
{
	char *text = mem_copy_string("text"), *bytes = mem_copy_bytes("a\0bc", 3), *empty = mem_copy_bytes(NULL, 0);

	ck_assert_str_eq(text, "text");
	ck_assert_mem_eq(bytes, "a\0b\0", 4);
	ck_assert_str_eq(empty, "");
	ck_assert_ptr_null(mem_copy_string(NULL));
	mem_free(text);
	mem_free(bytes);
	mem_free(empty);
}
END_TEST

/* Pieces of all sizes, each filled whole: none may touch another, all are aligned and were zero. */
START_TEST(test_arena_pieces_are_apart)
{
	struct arena *arena = arena_new();
	unsigned char *pieces[PIECES];
	size_t i, j;

	for (i = 0; i < PIECES; i++) {
		pieces[i] = arena_take(arena, i % 700, 1 + i % 17);
		ck_assert_uint_eq((uintptr_t)pieces[i] % alignof(max_align_t), 0);
		expect_zeroes(pieces[i], (i % 700) * (1 + i % 17));
		memset(pieces[i], (int)(i % 256), (i % 700) * (1 + i % 17));
	}
	for (i = 0; i < PIECES; i++) {
		for (j = 0; j < (i % 700) * (1 + i % 17); j += 97)
			ck_assert_uint_eq(pieces[i][j], i % 256);
	}
	arena_free(arena);
	arena_free(NULL);
}
END_TEST

START_TEST(test_arena_copies)
{
	struct arena *arena = arena_new();

	ck_assert_str_eq(arena_copy_string(arena, "text"), "text");
	ck_assert_ptr_null(arena_copy_string(arena, NULL));
	ck_assert_mem_eq(arena_copy_bytes(arena, "a\0bc", 3), "a\0b\0", 4);
	ck_assert_str_eq(arena_copy_bytes(arena, NULL, 0), "");
	arena_free(arena);
}
END_TEST

/* A size that does not fit in a size_t must not come out as a small piece. */
START_TEST(test_resize_overflow_aborts)
{
	mem_free(mem_resize(NULL, SIZE_MAX / 2 + 1, 2));
}
END_TEST

START_TEST(test_arena_overflow_aborts)
{
	arena_take(arena_new(), SIZE_MAX / 8, 16);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* there calloc itself ends the process, with another signal */
START_TEST(test_new_overflow_aborts)
{
	mem_free(mem_new(SIZE_MAX / 2 + 1, 2));
}
END_TEST
#endif

Suite *suite(void)
{
	Suite *suite = suite_create("mem");
	TCase *tcase = tcase_create("mem");

	tcase_add_test(tcase, test_new_is_zeroed);
	tcase_add_test(tcase, test_resize_keeps_what_was_there);
	tcase_add_test(tcase, test_copies);
	tcase_add_test(tcase, test_pool_pieces_are_zeroed_and_apart);
	tcase_add_test(tcase, test_arena_pieces_are_apart);
	tcase_add_test(tcase, test_arena_copies);
	tcase_add_test_raise_signal(tcase, test_resize_overflow_aborts, SIGABRT);
	tcase_add_test_raise_signal(tcase, test_arena_overflow_aborts, SIGABRT);
#ifndef __SANITIZE_ADDRESS__
	tcase_add_test_raise_signal(tcase, test_new_overflow_aborts, SIGABRT);
#endif
	suite_add_tcase(suite, tcase);
	return suite;
}
