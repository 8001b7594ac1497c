/* Which headers of W3C Trace Context are well-formed, by the rules and examples of the recommendation; and what becomes of those
 * of a row that are not. */
#include "headertext.h"
#include "unit.h"

#include "core/route.h"
#include "core/tracecontext.h"

#include <stdio.h>
#include <string.h>

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

START_TEST(test_parents)
{
	static const char *const good[] = {
		GOOD,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-00000000000000000000000000000001-0000000000000001-ff",
		"cc-12345678901234567890123456789012-1234567890123456-01",
		"cc-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-be-like",
		"01-12345678901234567890123456789012-1234567890123456-01-",
	};
	static const char *const bad[] = {
		"",
		"00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
		"cc-12345678901234567890123456789012-1234567890123456-01.what",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b`-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
		"0/-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		".0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
		" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
	};
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(tracecontext_parent_valid(slice_of(good[i])), "%s", good[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!tracecontext_parent_valid(slice_of(bad[i])), "%s", bad[i]);
	ck_assert(!tracecontext_parent_valid(SLICE_NULL));
}
END_TEST

START_TEST(test_states)
{
	static const char *const good[] = {"",
					   " ",
					   ",",
					   "rojo=00f067aa0ba902b7",
					   "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
					   "congo=t61rcWkgMzE , \trojo=00f067aa0ba902b7",
					   "fw529a3039@dt=FfffffeefAAAAAAAA",
					   "0a@b=1,a-_*/@z=~ !",
					   "a=1,,b=2,"};
	static const char *const bad[] = {"rojo",    "=1",	  "a=",	   "a=b=c",   "A=1",
					  "-a=1",    "a b=1",	  "a =1",  "a=\x7f",  "a=\x1f",
					  "a=1,a=2", "a=1,b,c=3", "ab{=1", "a\xc3=1", "a=\xc3"};
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(tracecontext_state_valid(slice_of(good[i])), "%s", good[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!tracecontext_state_valid(slice_of(bad[i])), "%s", bad[i]);
	ck_assert(!tracecontext_state_valid(SLICE_NULL));
	ck_assert(!tracecontext_state_valid((struct slice){"a\0=1", 4}));
	ck_assert(!tracecontext_state_valid((struct slice){"a=\0", 3}));
}
END_TEST

static bool state_of(int members, int key_bytes, int value_bytes)
{
	struct buf state = {0};
	bool valid;
	int i;

	for (i = 0; i < members; i++)
		buf_print(&state, "%sk%0*d=%0*d", i == 0 ? "" : ",", key_bytes - 1, i, value_bytes, 0);
	valid = tracecontext_state_valid((struct slice){state.bytes, state.len});
	buf_free(&state);
	return valid;
}

START_TEST(test_bounds_of_states)
{
	ck_assert(state_of(32, 4, 1));
	ck_assert(!state_of(33, 4, 1));
	ck_assert(state_of(1, 256, 1));
	ck_assert(!state_of(1, 257, 1));
	ck_assert(state_of(1, 2, 256));
	ck_assert(!state_of(1, 2, 257));
}
END_TEST

/* What is left of these headers, as "name=value|", and what was dropped. */
static unsigned send(const char *json, const char *expected)
{
	static struct config_header template = {.name = "traceparent", .template_text = "{trace}"};
	static const struct config_source source = {
		.name = "orders", .topic = "orders", .headers = &template, .n_headers = 1};
	struct slice cells[SQL_CLAIM_COLUMNS + 1] = {0};
	struct route *route = route_new(&source, NULL);
	struct message message;
	struct err err;

	cells[SQL_C_HEADERS] = slice_of(json);
	cells[SQL_CLAIM_COLUMNS] = slice_of(json == NULL ? "nonsense" : NULL);
	ck_assert(route_compose(route, cells, &message, &err));
	headertext_expect(&message, expected);
	route_free(route);
	return message.dropped;
}

#define BOTH (MESSAGE_DROPPED_PARENT | MESSAGE_DROPPED_STATE)

START_TEST(test_malformed_ones_are_dropped)
{
	ck_assert_uint_eq(send("{\"a\": 1}", "a=1|"), 0);
	ck_assert_uint_eq(
		send("{\"a\": 1, \"traceparent\": \"" GOOD "\", \"b\": 2}", "a=1|traceparent=" GOOD "|b=2|"), 0);
	ck_assert_uint_eq(send("{\"tracestate\": \"x=1\", \"traceparent\": \"" GOOD "\"}",
			       "tracestate=x=1|traceparent=" GOOD "|"),
			  0);
	ck_assert_uint_eq(send("{\"traceparent\": \"" GOOD "\", \"tracestate\": \"X=1\", \"b\": 2}",
			       "traceparent=" GOOD "|b=2|"),
			  MESSAGE_DROPPED_STATE);
	ck_assert_uint_eq(send("{\"a\": 1, \"traceparent\": \"x\", \"b\": 2}", "a=1|b=2|"), MESSAGE_DROPPED_PARENT);
	/* A state without its parent means nothing. */
	ck_assert_uint_eq(send("{\"tracestate\": \"x=1\", \"traceparent\": \"x\", \"b\": 2}", "b=2|"), BOTH);
	ck_assert_uint_eq(send("{\"a\": 1, \"tracestate\": \"x=1\"}", "a=1|"), MESSAGE_DROPPED_STATE);
	/* Other names are nobody's affair. */
	ck_assert_uint_eq(send("{\"Traceparent\": \"x\", \"traceparents\": 1}", "Traceparent=x|traceparents=1|"),
			  0);
	/* From a template, the only header. */
	ck_assert_uint_eq(send(NULL, ""), MESSAGE_DROPPED_PARENT);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("tracecontext");
	TCase *tests = tcase_create("tracecontext");

	tcase_add_test(tests, test_parents);
	tcase_add_test(tests, test_states);
	tcase_add_test(tests, test_bounds_of_states);
	tcase_add_test(tests, test_malformed_ones_are_dropped);
	suite_add_tcase(suite, tests);
	return suite;
}
