/* What a row becomes: by examples, then hostile and random cells, which may be refused but never crash. */
#include "unit.h"

#include "config/config.h"
#include "core/backoff.h"
#include "core/headers.h"
#include "core/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX (SQL_CLAIM_COLUMNS + 4)

static struct slice cells[CELLS_MAX];
static struct message message;
static struct err err;
static struct route *route;

static void begin_row(void)
{
	memset(cells, 0, sizeof(cells));
	cells[SQL_C_KEY] = slice_of("key-1");
	cells[SQL_C_PAYLOAD] = slice_of("{\"a\": 1}");
}

/* A source with that topic and those headers (name, template, name, ..., NULL). */
static void make_route(const char *topic, const char *const *headers)
{
	static struct config_header list[8];
	static struct config_source source;
	size_t n;

	for (n = 0; headers != NULL && headers[2 * n] != NULL; n++)
		list[n] = (struct config_header){.name = headers[2 * n], .template_text = headers[2 * n + 1]};
	source = (struct config_source){.name = "orders", .topic = topic, .headers = list, .n_headers = n};
	err.text[0] = '\0';
	route = route_new(&source, &err);
	begin_row();
}

#define MAKE_ROUTE(topic, ...) make_route(topic, (const char *const[]){__VA_ARGS__, NULL, NULL})

/* The cell of a template column. */
static struct slice *column(const char *name)
{
	struct sql_templates templates = route_templates(route);
	size_t i;

	for (i = 0; i < templates.n_columns && strcmp(templates.columns[i], name) != 0; i++)
		;
	ck_assert_msg(i < templates.n_columns, "no template names %s", name);
	return &cells[SQL_CLAIM_COLUMNS + i];
}

static void compose(void)
{
	ck_assert_msg(route_compose(route, cells, &message, &err), "%s", err.text);
}

/* The row is refused, and the sentence holds these words. */
static void expect_refused(const char *words)
{
	ck_assert(!route_compose(route, cells, &message, &err));
	ck_assert_msg(strstr(err.text, words) != NULL, "\"%s\" does not hold \"%s\"", err.text, words);
}

static void expect_slice(struct slice slice, const char *bytes, size_t len)
{
	ck_assert_ptr_nonnull(slice.bytes);
	ck_assert_mem_eq(slice.bytes, bytes, slice.len < len ? slice.len : len);
	ck_assert_uint_eq(slice.len, len);
}

static void expect_header(size_t i, const char *name, const char *value)
{
	ck_assert_uint_lt(i, message.n_headers);
	expect_slice(message.headers[i].name, name, strlen(name));
	expect_slice(message.headers[i].value, value, strlen(value));
}

START_TEST(test_topic_from_template)
{
	MAKE_ROUTE("outbox.{kind}.{{v}}-{kind}{region}", "event_id", "{event_id}");
	ck_assert_uint_eq(route_templates(route).n_columns, 3);
	*column("kind") = slice_of("order");
	*column("region") = slice_of("");
	expect_refused("invalid topic name \"outbox.order.{v}-order\"");
	route_free(route);

	MAKE_ROUTE("outbox.{kind}", "kind", "{kind}");
	ck_assert_uint_eq(route_templates(route).n_columns, 1);
	*column("kind") = slice_of("order");
	compose();
	ck_assert_str_eq(message.topic, "outbox.order");
	ck_assert_int_eq(message.partition, -1);
	ck_assert_int_eq(message.timestamp_ms, 0);
	expect_slice(message.key, "key-1", 5);
	expect_slice(message.value, "{\"a\": 1}", 8);
	expect_header(0, "kind", "order");
	route_free(route);
}
END_TEST

START_TEST(test_F001_null_and_empty_payloads_differ)
{
	MAKE_ROUTE("orders", NULL);
	cells[SQL_C_PAYLOAD] = SLICE_NULL;
	cells[SQL_C_KEY] = SLICE_NULL;
	compose();
	ck_assert_ptr_null(message.value.bytes);
	ck_assert_ptr_null(message.key.bytes);
	cells[SQL_C_PAYLOAD] = slice_of("");
	cells[SQL_C_KEY] = slice_of("");
	compose();
	expect_slice(message.value, "", 0);
	expect_slice(message.key, "", 0);
	cells[SQL_C_PAYLOAD] = slice_of("null");
	compose();
	expect_slice(message.value, "null", 4);
	ck_assert_uint_eq(message.n_headers, 0);
	route_free(route);
}
END_TEST

START_TEST(test_F002_payload_is_borrowed_not_copied)
{
	static const char bytes[] = "\0\x01\xFF{\"";

	MAKE_ROUTE("orders", NULL);
	cells[SQL_C_PAYLOAD] = (struct slice){bytes, sizeof(bytes)};
	compose();
	ck_assert_ptr_eq(message.value.bytes, bytes);
	ck_assert_uint_eq(message.value.len, sizeof(bytes));
	route_free(route);
}
END_TEST

START_TEST(test_topic_column_wins_and_falls_back)
{
	MAKE_ROUTE("{kind}", NULL);
	cells[SQL_C_TOPIC] = slice_of("own");
	compose(); /* the template's NULL does not matter */
	ck_assert_str_eq(message.topic, "own");
	cells[SQL_C_TOPIC] = SLICE_NULL;
	expect_refused("column kind is NULL");
	*column("kind") = slice_of("order");
	compose();
	ck_assert_str_eq(message.topic, "order");
	cells[SQL_C_TOPIC] = slice_of("");
	expect_refused("invalid topic name \"\"");
	route_free(route);
}
END_TEST

START_TEST(test_topic_names)
{
	static const char *const good[] = {"a", "A-Z_0.9", "...", "a.", "__x"};
	static const char *const bad[] = {"", ".", "..", "a b", "a/b", "\xC3\xA9", "a\n", "a\"b", "{", "a\\b"};
	char name[251];
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(route_topic_valid(slice_of(good[i])), "%s", good[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!route_topic_valid(slice_of(bad[i])), "%s", bad[i]);
	memset(name, 'a', sizeof(name));
	ck_assert(route_topic_valid((struct slice){name, 249}));
	ck_assert(!route_topic_valid((struct slice){name, 250}));
	ck_assert(!route_topic_valid((struct slice){"a\0b", 3}));
	ck_assert(!route_topic_valid(SLICE_NULL));
}
END_TEST

/* Hostile names reach the log and last_error only as printable ASCII. */
START_TEST(test_F079_refused_topics_are_shown_harmless)
{
	char name[300];

	MAKE_ROUTE("{kind}", NULL);
	*column("kind") = (struct slice){"a\0\xFF\n\x1b[0m\"b", 10};
	expect_refused("invalid topic name \"a????[0m\"b\"");
	memset(name, 'a', sizeof(name));
	*column("kind") = (struct slice){name, 249};
	compose();
	ck_assert_uint_eq(strlen(message.topic), 249);
	*column("kind") = (struct slice){name, 250};
	expect_refused("it has 250 bytes, 249 are allowed");
	name[248] = ' ';
	*column("kind") = (struct slice){name, 249};
	expect_refused("invalid topic name");
	route_free(route);
}
END_TEST

START_TEST(test_partition)
{
	static const char *const bad[] = {"",	 "-1", "+1",	     " 1",	    "1 ",
					  "1.0", "x",  "2147483648", "21474836470", "18446744073709551617"};
	size_t i;

	MAKE_ROUTE("orders", NULL);
	cells[SQL_C_PARTITION] = slice_of("1290");
	compose();
	ck_assert_int_eq(message.partition, 1290);
	cells[SQL_C_PARTITION] = slice_of("0");
	compose();
	ck_assert_int_eq(message.partition, 0);
	cells[SQL_C_PARTITION] = slice_of("2147483647");
	compose();
	ck_assert_int_eq(message.partition, INT32_MAX);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cells[SQL_C_PARTITION] = slice_of(bad[i]);
		expect_refused("the partition is no ");
	}
	route_free(route);
}
END_TEST

START_TEST(test_timestamp)
{
	MAKE_ROUTE("orders", NULL);
	cells[SQL_C_TIMESTAMP_MS] = (struct slice){"\0\0\x01\x8c\xc2\x51\xf4\0", 8};
	compose();
	ck_assert_int_eq(message.timestamp_ms, 1704067200000);
	cells[SQL_C_TIMESTAMP_MS] = (struct slice){"\xff\xff\xff\xff\xff\xff\xff\xff", 8};
	expect_refused("before 1970");
	route_free(route);
}
END_TEST

START_TEST(test_header_templates)
{
	MAKE_ROUTE("orders", "id", "{id}", "both", "{id}-{kind}!", "fixed", "v1", "empty", "");
	*column("id") = slice_of("17");
	*column("kind") = slice_of("order");
	compose();
	ck_assert_uint_eq(message.n_headers, 4);
	expect_header(0, "id", "17");
	ck_assert_ptr_eq(message.headers[0].value.bytes, column("id")->bytes);
	expect_header(1, "both", "17-order!");
	expect_header(2, "fixed", "v1");
	expect_header(3, "empty", "");

	*column("kind") = SLICE_NULL; /* a NULL column: no header */
	compose();
	ck_assert_uint_eq(message.n_headers, 3);
	expect_header(1, "fixed", "v1");

	*column("kind") = slice_of(""); /* an empty one: a header */
	compose();
	expect_header(1, "both", "17-!");
	route_free(route);
}
END_TEST

/* The column's text, and the headers that come of it: "name=value|name=value". */
struct json_case {
	const char *json, *headers;
};

static void expect_headers(const char *json, const char *expected)
{
	struct buf seen = {0};
	size_t i;

	cells[SQL_C_HEADERS] = slice_of(json);
	compose();
	for (i = 0; i < message.n_headers; i++) {
		const struct message_header *header = &message.headers[i];

		buf_add_string(&seen, i > 0 ? "|" : "");
		buf_add(&seen, header->name.bytes, header->name.len);
		buf_add_char(&seen, '=');
		buf_add(&seen, header->value.bytes, header->value.len);
	}
	ck_assert_str_eq(buf_text(&seen), expected);
	buf_free(&seen);
}

START_TEST(test_json_headers)
{
	static const struct json_case cases[] = {
		{"{}", ""},
		{" { } \n", ""},
		{"{\"a\": \"x\"}", "a=x"},
		{"{\"a\":\"\",\"\":\"b\"}", "a=|=b"},
		{"{\"n\": 1, \"r\": 0.1, \"big\": 12345678901234567890123, \"e\": -1.50e+2}",
		 "n=1|r=0.1|big=12345678901234567890123|e=-1.50e+2"},
		{"{\"t\": true, \"f\":false , \"z\": null}", "t=true|f=false"},
		{"{\"o\": {\"x\": [1, {\"y\": \"}\"}]}, \"l\": [ ] , \"m\":[]}",
		 "o={\"x\": [1, {\"y\": \"}\"}]}|l=[ ]|m=[]"},
		{"{\"esc\": \"a\\\"b\\\\c\\u00e9\\n\", \"\\u0061b\": \"\\ud83d\\ude00\"}",
		 "esc=a\"b\\c\xC3\xA9\n|ab=\xF0\x9F\x98\x80"},
		{"{\"a\": \"{,:}[\\\"]\", \"b\": \"\\\\\"}", "a={,:}[\"]|b=\\"},
		{"{\"a\": null, \"b\": null, \"A\": \"x\"}", "A=x"},
		{"\t{\r\n\"a\"\t:\r\"b\"\n}", "a=b"},
	};
	size_t i;

	MAKE_ROUTE("orders", NULL);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_headers(cases[i].json, cases[i].headers);
	route_free(route);
}
END_TEST

START_TEST(test_json_headers_win_over_templates)
{
	MAKE_ROUTE("orders", "kind", "{kind}", "fixed", "v1", "x", "a{kind}");
	*column("kind") = slice_of("order");
	expect_headers("{\"other\": 1}", "other=1|kind=order|fixed=v1|x=aorder");
	expect_headers("{\"kind\": \"mine\"}", "kind=mine|fixed=v1|x=aorder");
	expect_headers("{\"fixed\": null, \"y\": \"\\t\"}", "y=\t|kind=order|x=aorder");
	expect_headers("{\"x\": 2, \"kind\": null, \"fixed\": \"\"}", "x=2|fixed=");
	cells[SQL_C_HEADERS] = SLICE_NULL;
	compose();
	ck_assert_uint_eq(message.n_headers, 3);
	route_free(route);
}
END_TEST

START_TEST(test_json_header_with_nul_inside)
{
	MAKE_ROUTE("orders", NULL);
	cells[SQL_C_HEADERS] = slice_of("{\"a\": \"x\\u0000y\"}");
	compose();
	ck_assert_uint_eq(message.n_headers, 1);
	expect_slice(message.headers[0].value, "x\0y", 3);
	route_free(route);
}
END_TEST

START_TEST(test_json_that_is_no_object_is_the_rows_fault)
{
	static const char *const bad[] = {"",	      " ",	   "null",	 "1",
					  "\"a\"",    "[]",	   "[{}]",	 "{",
					  "{\"a\"}",  "{\"a\":}",  "{\"a\":1,}", "{} {}",
					  "{'a': 1}", "{\"a\" 1}", "{\"a\":\"}", "{\"\\u0000\": 1}"};
	size_t i;

	MAKE_ROUTE("orders", NULL);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cells[SQL_C_HEADERS] = slice_of(bad[i]);
		expect_refused("the headers are no JSON object");
	}
	cells[SQL_C_HEADERS] = slice_of("{\"password\": hunter2}");
	expect_refused("line 1");
	ck_assert_ptr_null(strstr(err.text, "hunter2"));
	cells[SQL_C_HEADERS] = (struct slice){"{\"a\": \"\xFF\"}", 10};
	expect_refused("no JSON object");
	cells[SQL_C_HEADERS] = (struct slice){"{\"a\": \0}", 8};
	expect_refused("no JSON object");
	cells[SQL_C_HEADERS] = slice_of("{\"a\": 1}"); /* and the next row is none the worse for it */
	compose();
	ck_assert_uint_eq(message.n_headers, 1);
	route_free(route);
}
END_TEST

START_TEST(test_json_with_a_name_twice_is_the_rows_fault)
{
	static const char *const bad[] = {"{\"a\": 1, \"b\": 2, \"a\": 3}", "{\"a\": 1, \"\\u0061\": null}",
					  "{\"a\": null, \"a\": \"x\"}", "{\"\": 1, \"\": 1}"};
	size_t i;

	MAKE_ROUTE("orders", NULL);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cells[SQL_C_HEADERS] = slice_of(bad[i]);
		expect_refused("the headers have a name twice");
	}
	route_free(route);
}
END_TEST

static void expect_nesting(size_t depth, bool good)
{
	struct buf json = {0};
	size_t i;

	buf_add_string(&json, "{\"a\":");
	for (i = 0; i < depth; i++)
		buf_add_string(&json, i % 2 == 0 ? "[" : "{\"b\":");
	buf_add_string(&json, "1");
	while (i-- > 0)
		buf_add_string(&json, i % 2 == 0 ? "]" : "}");
	buf_add_string(&json, "}");
	cells[SQL_C_HEADERS] = (struct slice){json.bytes, json.len};
	ck_assert_int_eq(route_compose(route, cells, &message, &err), good);
	if (good) /* the value goes out as it came, without {"a": and the last brace */
		expect_slice(message.headers[0].value, json.bytes + 5, json.len - 6);
	buf_free(&json);
}

START_TEST(test_json_nesting_is_bounded)
{
	MAKE_ROUTE("orders", NULL);
	expect_nesting(100, true);
	expect_nesting(2000, true);
	expect_nesting(100000, false);
	route_free(route);
}
END_TEST

START_TEST(test_many_and_large_headers)
{
	struct buf json = {0};
	int i;

	MAKE_ROUTE("orders", "own", "{kind}{kind}");
	*column("kind") = slice_of("x");
	for (i = 0; i < 10000; i++)
		buf_print(&json, "%s\"k%d\": \"\\u00e9%d\"", i == 0 ? "{" : ",", i, i);
	buf_add_string(&json, "}");
	cells[SQL_C_HEADERS] = (struct slice){json.bytes, json.len};
	compose();
	ck_assert_uint_eq(message.n_headers, 10001);
	expect_header(0, "k0",
		      "\xC3\xA9"
		      "0");
	expect_header(9999, "k9999",
		      "\xC3\xA9"
		      "9999");
	expect_header(10000, "own", "xx");

	buf_clear(&json);
	buf_add_string(&json, "{\"a\": \"");
	while (json.len <= HEADERS_JSON_MAX_BYTES)
		buf_add_string(&json, "0123456789");
	buf_add_string(&json, "\"}");
	cells[SQL_C_HEADERS] = (struct slice){json.bytes, json.len};
	expect_refused("1048576 are allowed");
	buf_free(&json);
	route_free(route);
}
END_TEST

START_TEST(test_templates_with_mistakes)
{
	MAKE_ROUTE("a{kind", NULL);
	ck_assert_ptr_null(route);
	ck_assert_msg(strncmp(err.text, "topic: ", 7) == 0, "%s", err.text);
	MAKE_ROUTE("orders", "good", "{kind}", "bad", "}");
	ck_assert_ptr_null(route);
	ck_assert_msg(strncmp(err.text, "header bad: ", 12) == 0, "%s", err.text);
}
END_TEST

/* More than is kept from row to row, in the second of two templates. */
START_TEST(test_long_templates)
{
	static char text[60001];

	memset(text, 'x', sizeof(text) - 1);
	MAKE_ROUTE("orders", "short", "<{a}>", "long", "{a}{b}{a}{b}", "two", "{a}{b}");
	*column("a") = slice_of("1");
	*column("b") = slice_of(text);
	compose();
	ck_assert_uint_eq(message.n_headers, 3);
	ck_assert(slice_equal(message.headers[0].value, slice_of("<1>")));
	ck_assert_uint_eq(message.headers[2].value.len, sizeof(text));
	ck_assert_uint_eq(message.headers[1].value.len, 2 * sizeof(text));
	ck_assert_int_eq(message.headers[1].value.bytes[0], '1');
	ck_assert_int_eq(message.headers[1].value.bytes[sizeof(text)], '1');
	route_free(route);
}
END_TEST

START_TEST(test_characters_of_a_topic)
{
	static const char good[] = "azAZ09._-", bad[] = "`{@[/:, \x1f\x7f";
	size_t i;

	ck_assert(route_topic_valid(slice_of(good)));
	for (i = 0; i < sizeof(good) - 1; i++)
		ck_assert_int_eq(route_topic_valid((struct slice){good + i, 1}), good[i] != '.');
	for (i = 0; i < sizeof(bad) - 1; i++)
		ck_assert(!route_topic_valid((struct slice){bad + i, 1}));
}
END_TEST

/* What is wrong with a topic is shown, but nothing that a terminal would obey. */
START_TEST(test_a_bad_topic_is_shown)
{
	MAKE_ROUTE("{name}", NULL);
	*column("name") = slice_of("a b~\x1b\x7f\xc3\xbc");
	expect_refused("invalid topic name \"a b~????\"");
	route_free(route);
}
END_TEST

START_TEST(test_F044_message_bytes)
{
	size_t bare, with_headers;

	MAKE_ROUTE("orders", NULL);
	compose();
	bare = route_message_bytes(&message);
	ck_assert_uint_ge(bare, 13);
	ck_assert_uint_le(bare, 13 + 200);
	cells[SQL_C_HEADERS] = slice_of("{\"name\": \"value\"}");
	compose();
	with_headers = route_message_bytes(&message);
	ck_assert_uint_eq(with_headers, bare + 9 + 2);
	cells[SQL_C_HEADERS] = slice_of("{\"longer name\": \"value\"}");
	compose();
	ck_assert_uint_eq(route_message_bytes(&message), with_headers + 7);
	cells[SQL_C_HEADERS] = slice_of("{\"longer name\": \"longer value\"}");
	compose();
	ck_assert_uint_eq(route_message_bytes(&message), with_headers + 14);
	cells[SQL_C_HEADERS] = SLICE_NULL;
	cells[SQL_C_KEY] = slice_of("key-12");
	cells[SQL_C_PAYLOAD] = slice_of("{\"a\": 123}");
	compose();
	ck_assert_uint_eq(route_message_bytes(&message), bare + 3);
	route_free(route);
	route_free(NULL);
}
END_TEST

START_TEST(test_F044_header_bytes)
{
	/* of a header's value, and the bytes that the length itself takes */
	static const size_t lengths[][2] = {{0, 1},    {63, 1},	     {64, 2},	  {8191, 2},
					    {8192, 3}, {1048575, 3}, {1048576, 4}};
	struct message_header header = {{"name", 4}, SLICE_NULL};
	struct message with_header = {.headers = &header, .n_headers = 1}, without = {0};
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		header.value = (struct slice){"", lengths[i][0]};
		ck_assert_uint_eq(route_message_bytes(&with_header) - route_message_bytes(&without),
				  1 + 4 + lengths[i][1] + lengths[i][0]);
	}
}
END_TEST

/* Random cells made of pieces that hurt. Bytes stand in exactly sized blocks, so that the sanitizer sees each step too far. */
static struct slice random_cell(struct backoff_random *random)
{
	static const struct slice pieces[] = {
		{"\"", 1},  {"\\", 1},	      {"{", 1},		  {"}", 1},    {"[", 1},    {"]", 1},
		{":", 1},   {",", 1},	      {"\0", 1},	  {"\xFF", 1}, {"\xC3", 1}, {"a", 1},
		{"1", 1},   {"-", 1},	      {" ", 1},		  {"null", 4}, {"true", 4}, {"\\u0000", 6},
		{"1e9", 3}, {"{\"a\":1}", 7}, {"\"b\":\"c\"", 7},
	};
	struct buf cell = {0};
	size_t n = backoff_next(random) % 12;

	if (backoff_next(random) % 8 == 0)
		return SLICE_NULL;
	while (n-- > 0) {
		struct slice piece = pieces[backoff_next(random) % (sizeof(pieces) / sizeof(pieces[0]))];

		buf_add(&cell, piece.bytes, piece.len);
	}
	if (cell.len == 0)
		buf_add(&cell, "", 0);
	return (struct slice){realloc(cell.bytes, cell.len > 0 ? cell.len : 1), cell.len};
}

/* A JSON object of random members, or one with a byte changed. */
static struct slice random_object(struct backoff_random *random)
{
	static const char *const values[] = {"\"x\"", "1.5",	  "null", "{\"y\":[1,\"]\"]}",
					     "[]",    "\"\\\"\"", "\"\"", "\"\\u00e9\"",
					     "true",  " {} "};
	static const char *const names[] = {"\"a\"", "\"kind\"", "\"\"", "\"\\u0061\"", "\"\\n\"", " \"b\" "};
	struct buf cell = {0};
	size_t i, n = backoff_next(random) % 6;

	buf_add_string(&cell, "{");
	for (i = 0; i < n; i++)
		buf_print(&cell, "%s%s:%s", i > 0 ? "," : "", names[backoff_next(random) % 6],
			  values[backoff_next(random) % 10]);
	buf_add_string(&cell, "}");
	if (backoff_next(random) % 2 == 0)
		cell.bytes[backoff_next(random) % cell.len] = (char)backoff_next(random);
	return (struct slice){realloc(cell.bytes, cell.len), cell.len};
}

static void check_message(void)
{
	size_t i, j;

	ck_assert(route_topic_valid(slice_of(message.topic)));
	ck_assert_int_ge(message.partition, -1);
	ck_assert_int_ge(message.timestamp_ms, 0);
	for (i = 0; i < message.n_headers; i++) {
		ck_assert_ptr_nonnull(message.headers[i].name.bytes);
		ck_assert_ptr_nonnull(message.headers[i].value.bytes);
		for (j = 0; j < i; j++)
			ck_assert(!slice_equal(message.headers[i].name, message.headers[j].name));
	}
}

START_TEST(test_random_rows_never_crash)
{
	static const enum sql_claim_column used[] = {SQL_C_KEY,	  SQL_C_PAYLOAD,   SQL_C_HEADERS,
						     SQL_C_TOPIC, SQL_C_PARTITION, SQL_C_TIMESTAMP_MS};
	struct backoff_random random = {1};
	int i, composed = 0, refused = 0;
	size_t j;

	MAKE_ROUTE("t{kind}", "kind", "{kind}", "a", "{kind}{other}", "b", "");
	for (i = 0; i < 100000; i++) {
		for (j = 0; j < sizeof(used) / sizeof(used[0]); j++)
			cells[used[j]] = backoff_next(&random) % 3 == 0 ? random_cell(&random) : SLICE_NULL;
		if (cells[SQL_C_HEADERS].bytes == NULL)
			cells[SQL_C_HEADERS] = random_object(&random);
		*column("kind") = random_cell(&random);
		*column("other") = random_cell(&random);
		if (route_compose(route, cells, &message, &err)) {
			check_message();
			composed++;
		} else {
			ck_assert_uint_gt(strlen(err.text), 10);
			refused++;
		}
		for (j = 0; j < CELLS_MAX; j++)
			free((void *)(uintptr_t)cells[j].bytes);
		memset(cells, 0, sizeof(cells));
	}
	ck_assert_int_gt(composed, 1000);
	ck_assert_int_gt(refused, 1000);
	route_free(route);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *const *tests, size_t n)
{
	TCase *tcase = tcase_create(name);
	size_t i;

	for (i = 0; i < n; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
}

#define ADD_CASE(suite, name, ...)                                     \
	add_case((suite), (name), (const TTest *const[]){__VA_ARGS__}, \
		 sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))

Suite *suite(void)
{
	Suite *suite = suite_create("route");

	ADD_CASE(suite, "record", test_topic_from_template, test_F001_null_and_empty_payloads_differ,
		 test_F002_payload_is_borrowed_not_copied, test_topic_column_wins_and_falls_back, test_topic_names,
		 test_F079_refused_topics_are_shown_harmless, test_partition, test_timestamp, test_header_templates,
		 test_templates_with_mistakes, test_a_bad_topic_is_shown, test_long_templates,
		 test_characters_of_a_topic, test_F044_message_bytes, test_F044_header_bytes);
	ADD_CASE(suite, "json", test_json_headers, test_json_headers_win_over_templates,
		 test_json_header_with_nul_inside, test_json_that_is_no_object_is_the_rows_fault,
		 test_json_with_a_name_twice_is_the_rows_fault, test_json_nesting_is_bounded,
		 test_many_and_large_headers);
	ADD_CASE(suite, "random", test_random_rows_never_crash);
	return suite;
}
