/* rowstate: every pair of state and event, against a table written by hand. */
#include "unit.h"

#include "core/rowstate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO (-1)

/* [state][event]: the next state with attempts left, and at the last attempt. */
static const int expected[ROW_STATES][ROW_EVENTS][2] = {
	[ROW_PENDING] = {[ROW_CLAIM] = {ROW_IN_FLIGHT, ROW_IN_FLIGHT},
			 [ROW_DELIVERED] = {NO, NO},
			 [ROW_DISPATCHED] = {NO, NO},
			 [ROW_RESULT_SENT] = {NO, NO},
			 [ROW_RESULT_FAILED] = {NO, NO},
			 [ROW_RESULT_PENDING] = {NO, NO},
			 [ROW_RESULT_LATE] = {NO, NO},
			 [ROW_RETRY] = {NO, NO},
			 [ROW_REJECT] = {NO, NO},
			 [ROW_LEASE_EXPIRED] = {NO, NO},
			 [ROW_RELEASE] = {NO, NO},
			 [ROW_POSTPONE] = {NO, NO},
			 [ROW_COMMAND_RETRY] = {NO, NO},
			 [ROW_COMMAND_SKIP] = {ROW_FAILED, ROW_FAILED}},
	[ROW_IN_FLIGHT] = {[ROW_CLAIM] = {NO, NO},
			   [ROW_DELIVERED] = {ROW_SENT, ROW_SENT},
			   [ROW_DISPATCHED] = {ROW_IN_FLIGHT, ROW_IN_FLIGHT},
			   [ROW_RESULT_SENT] = {ROW_SENT, ROW_SENT},
			   [ROW_RESULT_FAILED] = {ROW_FAILED, ROW_FAILED},
			   [ROW_RESULT_PENDING] = {ROW_PENDING, ROW_PENDING},
			   [ROW_RESULT_LATE] = {ROW_PENDING, ROW_FAILED},
			   [ROW_RETRY] = {ROW_PENDING, ROW_FAILED},
			   [ROW_REJECT] = {ROW_FAILED, ROW_FAILED},
			   [ROW_LEASE_EXPIRED] = {ROW_PENDING, ROW_FAILED},
			   [ROW_RELEASE] = {ROW_PENDING, ROW_PENDING},
			   [ROW_POSTPONE] = {ROW_PENDING, ROW_PENDING},
			   [ROW_COMMAND_RETRY] = {NO, NO},
			   [ROW_COMMAND_SKIP] = {NO, NO}},
	[ROW_SENT] = {[ROW_CLAIM] = {NO, NO},
		      [ROW_DELIVERED] = {NO, NO},
		      [ROW_DISPATCHED] = {NO, NO},
		      [ROW_RESULT_SENT] = {NO, NO},
		      [ROW_RESULT_FAILED] = {NO, NO},
		      [ROW_RESULT_PENDING] = {NO, NO},
		      [ROW_RESULT_LATE] = {NO, NO},
		      [ROW_RETRY] = {NO, NO},
		      [ROW_REJECT] = {NO, NO},
		      [ROW_LEASE_EXPIRED] = {NO, NO},
		      [ROW_RELEASE] = {NO, NO},
		      [ROW_POSTPONE] = {NO, NO},
		      [ROW_COMMAND_RETRY] = {NO, NO},
		      [ROW_COMMAND_SKIP] = {NO, NO}},
	[ROW_FAILED] = {[ROW_CLAIM] = {NO, NO},
			[ROW_DELIVERED] = {NO, NO},
			[ROW_DISPATCHED] = {NO, NO},
			[ROW_RESULT_SENT] = {NO, NO},
			[ROW_RESULT_FAILED] = {NO, NO},
			[ROW_RESULT_PENDING] = {NO, NO},
			[ROW_RESULT_LATE] = {NO, NO},
			[ROW_RETRY] = {NO, NO},
			[ROW_REJECT] = {NO, NO},
			[ROW_LEASE_EXPIRED] = {NO, NO},
			[ROW_RELEASE] = {NO, NO},
			[ROW_POSTPONE] = {NO, NO},
			[ROW_COMMAND_RETRY] = {ROW_PENDING, ROW_PENDING},
			[ROW_COMMAND_SKIP] = {ROW_FAILED, ROW_FAILED}},
};

static void check_pair(enum row_state state, enum row_event event, int32_t attempts, int32_t max, int want)
{
	enum row_state next = ROW_STATES;

	ck_assert_msg(row_next(state, event, attempts, max, &next) == (want != NO), "%s, %s, attempt %d of %d",
		      row_state_name(state), row_event_name(event), attempts, max);
	ck_assert_int_eq(next, want == NO ? ROW_STATES : want);
}

START_TEST(test_every_pair)
{
	int state, event;

	for (state = 0; state < ROW_STATES; state++) {
		for (event = 0; event < ROW_EVENTS; event++) {
			check_pair(state, event, 1, 3, expected[state][event][0]);
			check_pair(state, event, 2, 3, expected[state][event][0]);
			check_pair(state, event, 3, 3, expected[state][event][1]);
			check_pair(state, event, INT32_MAX, 3, expected[state][event][1]);
			check_pair(state, event, INT32_MAX, INT32_MAX, expected[state][event][1]);
		}
	}
}
END_TEST

START_TEST(test_names)
{
	int i;

	ck_assert_str_eq(row_state_name(ROW_PENDING), "pending");
	ck_assert_str_eq(row_state_name(ROW_IN_FLIGHT), "in_flight");
	ck_assert_str_eq(row_state_name(ROW_SENT), "sent");
	ck_assert_str_eq(row_state_name(ROW_FAILED), "failed");
	for (i = 0; i < ROW_EVENTS; i++)
		ck_assert_uint_gt(strlen(row_event_name(i)), 0);
}
END_TEST

/* The printed table; to be freed. */
static char *printed(bool json)
{
	FILE *out = tmpfile();
	char *text = calloc(1, 8192);

	ck_assert(out != NULL && text != NULL);
	row_print_table(out, json);
	rewind(out);
	ck_assert_uint_gt(fread(text, 1, 8191, out), 0);
	fclose(out);
	return text;
}

START_TEST(test_text_aligns)
{
	char *text = printed(false), *line = text, *end;
	size_t column = (size_t)(strstr(text, "TO ") - text);

	for (; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		ck_assert_int_eq(line[column - 1], ' ');
		ck_assert_int_ne(line[column], ' ');
	}
	ck_assert_ptr_nonnull(strstr(text, "pending    claim "));
	free(text);
}
END_TEST

START_TEST(test_json)
{
	char *text = printed(true);

	ck_assert_ptr_nonnull(strstr(text, "{\"from\": \"in_flight\", \"event\": \"retry, no attempts left\", "
					   "\"to\": \"failed\", \"note\": "));
	ck_assert_int_eq(text[0], '[');
	ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
	free(text);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("rowstate");
	TCase *tcase = tcase_create("rowstate");

	tcase_add_test(tcase, test_every_pair);
	tcase_add_test(tcase, test_names);
	tcase_add_test(tcase, test_text_aligns);
	tcase_add_test(tcase, test_json);
	suite_add_tcase(suite, tcase);
	return suite;
}
