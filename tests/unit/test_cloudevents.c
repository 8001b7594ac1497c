/* A row as a CloudEvent 1.0 in the binary mode of its Kafka protocol binding: names and values of the headers, what is
 * required, and whose word counts when several say something. */
#include "headertext.h"
#include "unit.h"

#include "core/pgarray.h"
#include "core/route.h"

#include <stdio.h>
#include <string.h>

static struct config_header header;
static struct config_source source;
static struct slice cells[SQL_CLAIM_COLUMNS + 3];
static struct route *route;
static struct message message;
static struct err err;
static char created_at[8];

/* Cells of the columns that a CloudEvent needs beside those of a claim; a template's stands before them. */
static struct slice *event_id, *type;

static void set_created(int64_t us)
{
	cells[SQL_C_CREATED_AT] = pg_put_int8(created_at, us);
}

/* name: of a header that the configuration has beside; NULL: none. */
static void begin(const char *name, const char *text)
{
	size_t n = name == NULL ? 0 : 1;

	header = (struct config_header){.name = name, .template_text = text};
	source = (struct config_source){.name = "orders",
					.topic = "orders",
					.headers = &header,
					.n_headers = n,
					.format = FORMAT_CLOUDEVENTS,
					.cloudevents_source = "//outboxd/orders",
					.columns = {[COLUMN_EVENT_ID] = "event_id", [COLUMN_TYPE] = "event_type"}};
	route = route_new(&source, &err);
	ck_assert_ptr_nonnull(route);
	ck_assert_uint_eq(route_templates(route).n_columns, 2 + n);
	event_id = &cells[SQL_CLAIM_COLUMNS + n];
	type = event_id + 1;
	memset(cells, 0, sizeof(cells));
	cells[SQL_C_ID] = slice_of("7");
	cells[SQL_C_KEY] = slice_of("order-7");
	cells[SQL_C_PAYLOAD] = slice_of("{}");
	*event_id = slice_of("0b5c");
	*type = slice_of("order.created");
	set_created(0);
}

/* "name=value|" of all headers. */
static void expect(const char *expected)
{
	ck_assert_msg(route_compose(route, cells, &message, &err), "%s", err.text);
	headertext_expect(&message, expected);
}

static void expect_refused(const char *words)
{
	ck_assert(!route_compose(route, cells, &message, &err));
	ck_assert_msg(strstr(err.text, words) != NULL, "\"%s\" does not hold \"%s\"", err.text, words);
}

#define WHOLE                                                                                                \
	"ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|ce_subject=order-7|" \
	"ce_time=2000-01-01T00:00:00.000000Z|content-type=application/octet-stream|"

START_TEST(test_headers_of_an_event)
{
	begin(NULL, NULL);
	expect(WHOLE);
	ck_assert(slice_equal(message.key, slice_of("order-7")));
	ck_assert(slice_equal(message.value, slice_of("{}")));
	cells[SQL_C_HEADERS] = slice_of("{\"more\": 1}");
	expect("more=1|" WHOLE);
	route_free(route);
}
END_TEST

START_TEST(test_optional_attributes_are_left_out)
{
	begin(NULL, NULL);
	cells[SQL_C_KEY] = cells[SQL_C_CREATED_AT] = cells[SQL_C_PAYLOAD] = SLICE_NULL;
	expect("ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|");
	cells[SQL_C_KEY] = slice_of("");
	expect("ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|");
	cells[SQL_C_KEY] = slice_of("a\nb"); /* the record's key has it as it is */
	expect("ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|");
	ck_assert(slice_equal(message.key, slice_of("a\nb")));
	route_free(route);
}
END_TEST

START_TEST(test_media_type)
{
	begin(NULL, NULL);
	cells[SQL_C_KEY] = cells[SQL_C_CREATED_AT] = SLICE_NULL;
	route_set_media_type(route, "application/json");
	expect("ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|"
	       "content-type=application/json|");
	route_free(route);
}
END_TEST

START_TEST(test_id_is_the_rows_where_the_event_has_none)
{
	begin(NULL, NULL);
	cells[SQL_C_KEY] = cells[SQL_C_CREATED_AT] = cells[SQL_C_PAYLOAD] = *event_id = SLICE_NULL;
	expect("ce_specversion=1.0|ce_id=7|ce_source=//outboxd/orders|ce_type=order.created|");
	route_free(route);
}
END_TEST

/* Microseconds since 2000, and RFC 3339; NULL: none. */
static const struct {
	int64_t us;
	const char *text;
} times[] = {
	{0, "2000-01-01T00:00:00.000000Z"},
	{-1, "1999-12-31T23:59:59.999999Z"},
	{INT64_C(5097599999999), "2000-02-28T23:59:59.999999Z"},
	{INT64_C(5097600000000), "2000-02-29T00:00:00.000000Z"},
	{INT64_C(5184000000000), "2000-03-01T00:00:00.000000Z"},
	{INT64_C(839161845678901), "2026-08-04T12:30:45.678901Z"},
	{INT64_C(-63082281600000000), "0001-01-01T00:00:00.000000Z"},
	{INT64_C(-63082281600000001), NULL},
	{INT64_C(252455615999999999), "9999-12-31T23:59:59.999999Z"},
	{INT64_C(252455616000000000), NULL},
	{INT64_MAX, NULL}, /* infinity */
	{INT64_MIN, NULL},
};

START_TEST(test_times)
{
	char expected[160];

	begin(NULL, NULL);
	cells[SQL_C_KEY] = cells[SQL_C_PAYLOAD] = SLICE_NULL;
	set_created(times[_i].us);
	snprintf(expected, sizeof(expected),
		 "ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|%s%s%s",
		 times[_i].text == NULL ? "" : "ce_time=", times[_i].text == NULL ? "" : times[_i].text,
		 times[_i].text == NULL ? "" : "|");
	expect(expected);
	route_free(route);
}
END_TEST

/* What required attributes must not be: the row's fault. */
static const struct slice bad_texts[] = {
	{NULL, 0},
	{"", 0},
	{"a\nb", 3},
	{"a\x7f", 2},
	{"\xc2\x85", 2},
	{"\xff", 1},
	{"a\0", 2},
	{"\xef\xb7\x90", 3},
	{"\xef\xb7\xaf", 3},
	{"\xef\xbf\xbf", 3},
	{"\xf0\x9f\xbf\xbe", 4},
	{"a\x1f", 2},
};

START_TEST(test_required_attributes_are_texts)
{
	begin(NULL, NULL);
	*type = bad_texts[_i];
	expect_refused("no CloudEvent: ce_type");
	*type = slice_of("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80~\xc2\xa0");
	if (bad_texts[_i].bytes != NULL) { /* NULL is the id's place */
		*event_id = bad_texts[_i];
		expect_refused("no CloudEvent: ce_id");
	}
	*event_id = slice_of("x");
	ck_assert(route_compose(route, cells, &message, &err));
	route_free(route);
}
END_TEST

START_TEST(test_templates_and_the_column_win)
{
	begin("ce_type", "com.example.{kind}");
	cells[SQL_C_KEY] = cells[SQL_C_CREATED_AT] = cells[SQL_C_PAYLOAD] = SLICE_NULL;
	cells[SQL_CLAIM_COLUMNS] = slice_of("made");
	expect("ce_type=com.example.made|ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|");
	cells[SQL_CLAIM_COLUMNS] = SLICE_NULL; /* no header from the template */
	expect("ce_specversion=1.0|ce_id=0b5c|ce_source=//outboxd/orders|ce_type=order.created|");
	cells[SQL_C_HEADERS] = slice_of("{\"ce_type\": \"mine\", \"ce_source\": \"/x\"}");
	expect("ce_type=mine|ce_source=/x|ce_specversion=1.0|ce_id=0b5c|");
	cells[SQL_C_HEADERS] = slice_of("{\"ce_type\": null}");
	expect_refused("ce_type is missing");
	cells[SQL_C_HEADERS] = slice_of("{\"ce_id\": \"\"}");
	expect_refused("ce_id is missing, empty");
	cells[SQL_C_HEADERS] = slice_of("{\"ce_specversion\": \"0.3\"}");
	expect_refused("another ce_specversion");
	cells[SQL_C_HEADERS] = slice_of("{\"ce_specversion\": null}");
	expect_refused("another ce_specversion");
	route_free(route);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("cloudevents");
	TCase *tests = tcase_create("cloudevents");

	tcase_add_test(tests, test_headers_of_an_event);
	tcase_add_test(tests, test_optional_attributes_are_left_out);
	tcase_add_test(tests, test_media_type);
	tcase_add_test(tests, test_id_is_the_rows_where_the_event_has_none);
	tcase_add_loop_test(tests, test_times, 0, sizeof(times) / sizeof(times[0]));
	tcase_add_loop_test(tests, test_required_attributes_are_texts, 0, sizeof(bad_texts) / sizeof(bad_texts[0]));
	tcase_add_test(tests, test_templates_and_the_column_win);
	suite_add_tcase(suite, tests);
	return suite;
}
