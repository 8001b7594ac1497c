/* Dead letters: what is said of a row's end, what is left out of it, and that a row which is wrong in any way has one. */
#include "headertext.h"
#include "unit.h"

#include "core/route.h"

#include <stdio.h>
#include <string.h>

static struct config_header header = {.name = "kind", .template_text = "<{kind}>"};
static const struct config_source source = {.name = "orders",
					    .topic = "t-{kind}",
					    .headers = &header,
					    .n_headers = 1,
					    .dead_letter_topic = "dead",
					    .columns = {[COLUMN_LAST_ERROR] = "last_error"}};
static struct slice cells[SQL_CLAIM_COLUMNS + 2];
static struct route_death death;
static struct route *route;
static struct message message;

#define KIND (SQL_CLAIM_COLUMNS)
#define LAST_ERROR (SQL_CLAIM_COLUMNS + 1)

static void begin(void)
{
	struct err err;

	memset(cells, 0, sizeof(cells));
	cells[SQL_C_ID] = slice_of("7");
	cells[SQL_C_KEY] = slice_of("k");
	cells[SQL_C_PAYLOAD] = slice_of("{}");
	cells[KIND] = slice_of("x");
	death = (struct route_death){.source = slice_of("orders"),
				     .error = slice_of("E: why"),
				     .topic = "dead",
				     .attempts = 3,
				     .failed_at = 1};
	route = route_new(&source, &err);
	ck_assert_uint_eq(route_templates(route).n_columns, 2);
	ck_assert_str_eq(route_templates(route).columns[1], "last_error");
}

/* "name=value|" of all headers, those before the usual end of a letter. */
static void expect(const char *headers, const char *end)
{
	struct buf wanted = {0};

	route_compose_letter(route, cells, &death, &message);
	buf_print(&wanted, "%s%s", headers, end);
	headertext_expect(&message, buf_text(&wanted));
	ck_assert_str_eq(message.topic, "dead");
	ck_assert_int_eq(message.partition, -1);
	ck_assert_int_eq(message.timestamp_ms, 0);
	buf_free(&wanted);
}

#define END(topic, error)                                                                         \
	"outboxd-source=orders|" topic "outboxd-id=7|outboxd-error=" error "|outboxd-attempts=3|" \
	"outboxd-failed-at=2000-01-01T00:00:00.000001Z|"
#define USUAL END("outboxd-topic=t-x|", "E: why")

START_TEST(test_a_whole_letter)
{
	begin();
	cells[SQL_C_HEADERS] = slice_of("{\"a\": 1, \"traceparent\": \"x\"}");
	cells[SQL_C_PARTITION] = slice_of("99");
	expect("a=1|kind=<x>|", USUAL);
	ck_assert(slice_equal(message.key, slice_of("k")));
	ck_assert(slice_equal(message.value, slice_of("{}")));
	cells[SQL_C_HEADERS] = slice_of("{\"outboxd-id\": \"old\", \"a\": 1, \"outboxd-idle\": 2}");
	expect("a=1|outboxd-idle=2|kind=<x>|", USUAL);
	route_free(route);
}
END_TEST

START_TEST(test_less_of_it)
{
	begin();
	cells[SQL_C_HEADERS] = slice_of("{\"a\": 1}");
	death.letter = LETTER_WITHOUT_VALUE;
	expect("a=1|kind=<x>|outboxd-payload=omitted|", USUAL);
	ck_assert(slice_equal(message.key, slice_of("k")));
	ck_assert_ptr_null(message.value.bytes);
	death.letter = LETTER_BARE;
	expect("outboxd-key=omitted|outboxd-headers=omitted|outboxd-payload=omitted|", USUAL);
	ck_assert_ptr_null(message.key.bytes);
	ck_assert_ptr_null(message.value.bytes);
	cells[SQL_C_KEY] = cells[SQL_C_PAYLOAD] = SLICE_NULL; /* nothing is omitted that was not there */
	expect("outboxd-headers=omitted|", USUAL);
	death.letter = LETTER_WITHOUT_VALUE;
	expect("a=1|kind=<x>|", USUAL);
	route_free(route);
}
END_TEST

START_TEST(test_what_cannot_be_made_is_left_out)
{
	begin();
	cells[SQL_C_HEADERS] = slice_of("[1]");
	expect("kind=<x>|outboxd-headers=omitted|", USUAL);
	cells[SQL_C_HEADERS] = SLICE_NULL;
	cells[KIND] = SLICE_NULL;
	expect("", END("", "E: why"));
	cells[KIND] = slice_of("no name!");
	expect("kind=<no name!>|", END("outboxd-topic=t-no name!|", "E: why"));
	cells[SQL_C_TOPIC] = slice_of("own");
	expect("kind=<no name!>|", END("outboxd-topic=own|", "E: why"));
	route_free(route);
}
END_TEST

START_TEST(test_the_rows_own_error)
{
	begin();
	death.error = SLICE_NULL;
	expect("kind=<x>|", END("outboxd-topic=t-x|", "unknown"));
	cells[LAST_ERROR] = slice_of("before");
	expect("kind=<x>|", END("outboxd-topic=t-x|", "before"));
	ck_assert(slice_equal(route_last_error(route, cells), slice_of("before")));
	route_free(route);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("letter");
	TCase *tests = tcase_create("letter");

	tcase_add_test(tests, test_a_whole_letter);
	tcase_add_test(tests, test_less_of_it);
	tcase_add_test(tests, test_what_cannot_be_made_is_left_out);
	tcase_add_test(tests, test_the_rows_own_error);
	suite_add_tcase(suite, tests);
	return suite;
}
