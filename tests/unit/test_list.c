/* list: order, length and both directions after every kind of change; then random changes against an array. */
#include "unit.h"

#include "base/list.h"
#include "core/backoff.h"

#include <string.h>

#define ITEMS 16

struct item {
	int number;
	struct list_node node;
};

static struct item items[ITEMS];
static struct list list, other;

static void begin(void)
{
	int i;

	memset(items, 0, sizeof(items));
	for (i = 0; i < ITEMS; i++)
		items[i].number = i;
	list_init(&list);
	list_init(&other);
}

static int number_of(const struct list_node *node)
{
	return LIST_OWNER(node, struct item, node)->number;
}

/* The list holds exactly these, seen from both ends. */
static void expect(const struct list *seen, const int *numbers, size_t n)
{
	struct list_node *node;
	size_t i;

	ck_assert_uint_eq(seen->length, n);
	ck_assert_int_eq(list_empty(seen), n == 0);
	for (node = list_first(seen), i = 0; i < n; node = list_next(seen, node), i++)
		ck_assert_int_eq(number_of(node), numbers[i]);
	ck_assert_ptr_null(node);
	for (node = list_last(seen); i > 0; node = list_prev(seen, node))
		ck_assert_int_eq(number_of(node), numbers[--i]);
	ck_assert_ptr_null(node);
}

#define EXPECT(seen, ...) \
	expect((seen), (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

START_TEST(test_empty)
{
	expect(&list, NULL, 0);
}
END_TEST

START_TEST(test_append_and_remove)
{
	int i;

	for (i = 0; i < 4; i++)
		list_append(&list, &items[i].node);
	EXPECT(&list, 0, 1, 2, 3);
	list_remove(&list, &items[2].node);
	EXPECT(&list, 0, 1, 3);
	list_remove(&list, &items[0].node);
	EXPECT(&list, 1, 3);
	list_remove(&list, &items[3].node);
	EXPECT(&list, 1);
	list_remove(&list, &items[1].node);
	expect(&list, NULL, 0);
	list_append(&list, &items[2].node);
	EXPECT(&list, 2);
}
END_TEST

START_TEST(test_insert_after)
{
	list_insert_after(&list, NULL, &items[0].node);
	list_insert_after(&list, NULL, &items[1].node);
	EXPECT(&list, 1, 0);
	list_insert_after(&list, &items[1].node, &items[2].node);
	EXPECT(&list, 1, 2, 0);
	list_insert_after(&list, &items[0].node, &items[3].node);
	EXPECT(&list, 1, 2, 0, 3);
}
END_TEST

START_TEST(test_move)
{
	list_append(&list, &items[0].node);
	list_append(&list, &items[1].node);
	list_append(&other, &items[2].node);
	list_move(&list, &other, &items[0].node);
	EXPECT(&list, 1);
	EXPECT(&other, 2, 0);
	list_move(&other, &other, &items[2].node); /* to its own end */
	EXPECT(&other, 0, 2);
	list_move(&list, &other, &items[1].node);
	expect(&list, NULL, 0);
	EXPECT(&other, 0, 2, 1);
}
END_TEST

/* The model: numbers in an array. */
static void random_change(struct backoff_random *random, int *model, size_t *n)
{
	int number = (int)(backoff_next(random) % ITEMS);
	size_t at;

	for (at = 0; at < *n && model[at] != number; at++)
		;
	if (at < *n) {
		list_remove(&list, &items[number].node);
		memmove(model + at, model + at + 1, (*n - at - 1) * sizeof(*model));
		(*n)--;
		return;
	}
	at = backoff_next(random) % (*n + 1);
	list_insert_after(&list, at == 0 ? NULL : &items[model[at - 1]].node, &items[number].node);
	memmove(model + at + 1, model + at, (*n - at) * sizeof(*model));
	model[at] = number;
	(*n)++;
}

START_TEST(test_random_changes)
{
	struct backoff_random random = {5};
	int model[ITEMS] = {0}, i;
	size_t n = 0;

	for (i = 0; i < 5000; i++) {
		random_change(&random, model, &n);
		expect(&list, model, n);
	}
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("list");
	TCase *tcase = tcase_create("list");

	tcase_add_checked_fixture(tcase, begin, NULL);
	tcase_add_test(tcase, test_empty);
	tcase_add_test(tcase, test_append_and_remove);
	tcase_add_test(tcase, test_insert_after);
	tcase_add_test(tcase, test_move);
	tcase_add_test(tcase, test_random_changes);
	suite_add_tcase(suite, tcase);
	return suite;
}
