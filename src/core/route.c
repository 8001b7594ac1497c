#include "core/route.h"

#include "base/mem.h"
#include "config/template.h"
#include "core/cloudevents.h"
#include "core/headers.h"
#include "core/pgarray.h"
#include "core/tracecontext.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOPIC_MAX_BYTES 249
/* What Kafka's format adds to a record at most, which librdkafka takes for what it adds: six varints and a byte. */
#define RECORD_FRAMING_BYTES 36

/* A piece of a compiled template: literal text, or the cell of a column. */
struct piece {
	struct slice literal; /* SLICE_NULL for a column */
	size_t cell;
	const char *column;
};

struct pieces {
	const char *name; /* the header's */
	const struct piece *list;
	size_t n;
};

/* Where a CloudEvent finds its attributes: cells, or none. */
#define NO_CELL SIZE_MAX
struct event_cells {
	size_t event_id, type;
};

struct route {
	struct arena *arena;	  /* owns what was compiled */
	const char *event_source; /* NULL: records are no CloudEvents */
	const char *media_type;
	struct event_cells event;
	size_t error_cell; /* the row's last_error, for dead letters */
	struct pieces topic;
	struct pieces *templates; /* of the headers */
	size_t n_templates;
	const char **columns; /* that the templates name */
	size_t n_columns;
	char topic_text[TOPIC_MAX_BYTES + 1];
	struct headers headers;
};

/* The cell of a column that a template names; a new name gets the next place. */
static size_t cell_of(struct route *route, const char *column)
{
	size_t i;

	for (i = 0; i < route->n_columns; i++) {
		if (strcmp(route->columns[i], column) == 0)
			return SQL_CLAIM_COLUMNS + i;
	}
	route->columns = mem_resize(route->columns, route->n_columns + 1, sizeof(*route->columns));
	route->columns[route->n_columns++] = column;
	return SQL_CLAIM_COLUMNS + i;
}

/* The cell of a mapped column that no template need name. */
static size_t cell_of_role(struct route *route, const struct config_source *source, enum config_column role)
{
	return source->columns[role] == NULL ? NO_CELL : cell_of(route, source->columns[role]);
}

static bool compile(struct route *route, const char *text, struct pieces *pieces, struct err *err)
{
	struct template template;
	struct piece *list;
	size_t i;

	if (!template_parse(route->arena, text, &template, err))
		return false;
	list = arena_take(route->arena, template.n_pieces, sizeof(*list));
	for (i = 0; i < template.n_pieces; i++) {
		const struct template_piece *piece = &template.pieces[i];

		list[i].literal = slice_of(piece->literal);
		list[i].column = piece->column;
		if (piece->column != NULL)
			list[i].cell = cell_of(route, piece->column);
	}
	pieces->list = list;
	pieces->n = template.n_pieces;
	return true;
}

static bool compile_all(struct route *route, const struct config_source *source, struct err *err)
{
	struct err why;
	size_t i;

	if (!compile(route, source->topic, &route->topic, &why))
		return err_set(err, "topic: %s", why.text);
	route->n_templates = source->n_headers;
	route->templates = arena_take(route->arena, source->n_headers, sizeof(*route->templates));
	for (i = 0; i < source->n_headers; i++) {
		route->templates[i].name = source->headers[i].name;
		if (!compile(route, source->headers[i].template_text, &route->templates[i], &why))
			return err_set(err, "header %s: %s", source->headers[i].name, why.text);
	}
	return true;
}

struct route *route_new(const struct config_source *source, struct err *err)
{
	struct route *route = MEM_NEW(struct route);

	route->arena = arena_new();
	if (!compile_all(route, source, err)) {
		route_free(route);
		return NULL;
	}
	if (source->format == FORMAT_CLOUDEVENTS) {
		route->event_source = source->cloudevents_source;
		route->event.event_id = cell_of_role(route, source, COLUMN_EVENT_ID);
		route->event.type = cell_of_role(route, source, COLUMN_TYPE);
	}
	route->error_cell =
		source->dead_letter_topic == NULL ? NO_CELL : cell_of_role(route, source, COLUMN_LAST_ERROR);
	route->media_type = "application/octet-stream";
	return route;
}

void route_set_media_type(struct route *route, const char *media_type)
{
	route->media_type = media_type;
}

void route_free(struct route *route)
{
	if (route == NULL)
		return;
	headers_free(&route->headers);
	mem_free(route->columns);
	arena_free(route->arena);
	mem_free(route);
}

struct sql_templates route_templates(const struct route *route)
{
	return (struct sql_templates){route->columns, route->n_columns};
}

static struct slice piece_value(const struct piece *piece, const struct slice *cells)
{
	return piece->literal.bytes != NULL ? piece->literal : cells[piece->cell];
}

/* The first piece whose column is NULL. */
static const struct piece *null_piece(const struct pieces *pieces, const struct slice *cells)
{
	size_t i;

	for (i = 0; i < pieces->n; i++) {
		if (piece_value(&pieces->list[i], cells).bytes == NULL)
			return &pieces->list[i];
	}
	return NULL;
}

static size_t composed_len(const struct pieces *pieces, const struct slice *cells)
{
	size_t len = 0, i;

	for (i = 0; i < pieces->n; i++)
		len += piece_value(&pieces->list[i], cells).len;
	return len;
}

static void compose_into(const struct pieces *pieces, const struct slice *cells, char *text)
{
	size_t i;

	for (i = 0; i < pieces->n; i++) {
		struct slice value = piece_value(&pieces->list[i], cells);

		if (value.len > 0)
			memcpy(text, value.bytes, value.len);
		text += value.len;
	}
}

static bool topic_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
	       c == '-';
}

bool route_topic_valid(struct slice topic)
{
	size_t i;

	if (topic.bytes == NULL || topic.len == 0 || topic.len > TOPIC_MAX_BYTES)
		return false;
	for (i = 0; i < topic.len; i++) {
		if (!topic_char(topic.bytes[i]))
			return false;
	}
	return !slice_equal(topic, slice_of(".")) && !slice_equal(topic, slice_of(".."));
}

/* The sentence ends up in the row and in the log: what is not printable ASCII is shown as a question mark. */
static bool invalid_topic(struct slice topic, struct err *err)
{
	char shown[TOPIC_MAX_BYTES + 1];
	size_t i;

	for (i = 0; i < topic.len; i++)
		shown[i] = topic.bytes[i] >= ' ' && topic.bytes[i] <= '~' ? topic.bytes[i] : '?';
	shown[i] = '\0';
	return err_set(err, "invalid topic name \"%s\": a name has 1 to %d of the characters a-z A-Z 0-9 . _ -",
		       shown, TOPIC_MAX_BYTES);
}

/* The column's value, or what the template makes of the row, into topic_text. */
static bool compose_topic(struct route *route, const struct slice *cells, struct err *err)
{
	const struct piece column = {.cell = SQL_C_TOPIC};
	const struct pieces whole = {.list = &column, .n = 1};
	const struct pieces *pieces = cells[SQL_C_TOPIC].bytes != NULL ? &whole : &route->topic;
	const struct piece *null = null_piece(pieces, cells);
	struct slice topic = {route->topic_text, composed_len(pieces, cells)};

	route->topic_text[0] = '\0';
	if (null != NULL)
		return err_set(err, "no topic: column %s is NULL", null->column);
	if (topic.len > TOPIC_MAX_BYTES)
		return err_set(err, "invalid topic name: it has %zu bytes, %d are allowed", topic.len,
			       TOPIC_MAX_BYTES);
	compose_into(pieces, cells, route->topic_text);
	route->topic_text[topic.len] = '\0';
	return route_topic_valid(topic) || invalid_topic(topic, err);
}

/* -1 for NULL; else decimal digits alone, for whatever type the column has, it arrives as text. */
static bool parse_partition(struct slice cell, int32_t *partition, struct err *err)
{
	int64_t number = 0;
	size_t i;

	*partition = -1;
	if (cell.bytes == NULL)
		return true;
	for (i = 0; i < cell.len && number <= INT32_MAX; i++) {
		if (cell.bytes[i] < '0' || cell.bytes[i] > '9')
			return err_set(err, "the partition is no whole number from 0 on");
		number = number * 10 + (cell.bytes[i] - '0');
	}
	if (cell.len == 0 || number > INT32_MAX)
		return err_set(err, "the partition is no number from 0 to %d", INT32_MAX);
	*partition = (int32_t)number;
	return true;
}

static bool read_timestamp(struct slice cell, int64_t *timestamp_ms, struct err *err)
{
	*timestamp_ms = cell.len == sizeof(int64_t) ? pg_get_int8(cell) : 0;
	if (*timestamp_ms < 0)
		return err_set(err, "the timestamp lies before 1970, where Kafka has none");
	return true;
}

/* Bytes that the header templates need in the text block: one piece alone is borrowed, not composed. */
static size_t templates_len(const struct route *route, const struct slice *cells)
{
	size_t len = 0, i;

	for (i = 0; i < route->n_templates; i++) {
		if (route->templates[i].n != 1)
			len += composed_len(&route->templates[i], cells);
	}
	return len;
}

static void add_template(struct route *route, const struct pieces *template, const struct slice *cells)
{
	struct slice value;
	char *text;

	if (headers_has(&route->headers, template->name) || null_piece(template, cells) != NULL)
		return;
	if (template->n == 1) {
		value = piece_value(&template->list[0], cells);
	} else {
		value.len = composed_len(template, cells);
		text = headers_text(&route->headers, value.len);
		compose_into(template, cells, text);
		value.bytes = text;
	}
	headers_add(&route->headers, slice_of(template->name), value);
}

static struct slice cell_at(const struct slice *cells, size_t cell)
{
	return cell == NO_CELL ? SLICE_NULL : cells[cell];
}

static void add_event(struct route *route, const struct slice *cells)
{
	struct cloudevent event = {
		.id = cell_at(cells, route->event.event_id),
		.source = slice_of(route->event_source),
		.type = cell_at(cells, route->event.type),
		.subject = cells[SQL_C_KEY],
		.created_at = cells[SQL_C_CREATED_AT],
		.media_type = cells[SQL_C_PAYLOAD].bytes == NULL ? SLICE_NULL : slice_of(route->media_type),
	};

	if (event.id.bytes == NULL)
		event.id = cells[SQL_C_ID];
	cloudevents_add(&route->headers, &event);
}

/* A tracestate says nothing without its traceparent. */
static void drop_malformed_trace(struct route *route, struct message *message)
{
	size_t parent = headers_find(message, TRACECONTEXT_PARENT), state;

	if (parent < message->n_headers && !tracecontext_parent_valid(message->headers[parent].value)) {
		message->dropped |= MESSAGE_DROPPED_PARENT;
		headers_take_out(&route->headers, message, parent);
		parent = message->n_headers;
	}
	state = headers_find(message, TRACECONTEXT_STATE);
	if (state < message->n_headers &&
	    (parent >= message->n_headers || !tracecontext_state_valid(message->headers[state].value))) {
		message->dropped |= MESSAGE_DROPPED_STATE;
		headers_take_out(&route->headers, message, state);
	}
}

/* Begins the headers, with room for so many bytes of text beside those of templates, and adds all that are not outboxd's own. */
static bool begin_headers(struct route *route, const struct slice *cells, struct slice json, size_t text_bytes,
			  struct err *err)
{
	size_t i;

	text_bytes += templates_len(route, cells) + CLOUDEVENTS_TEXT_BYTES;
	if (!headers_begin(&route->headers, json, text_bytes, err))
		return false;
	for (i = 0; i < route->n_templates; i++)
		add_template(route, &route->templates[i], cells);
	if (route->event_source != NULL)
		add_event(route, cells);
	return true;
}

static bool compose_headers(struct route *route, const struct slice *cells, struct message *message,
			    struct err *err)
{
	if (!begin_headers(route, cells, cells[SQL_C_HEADERS], 0, err))
		return false;
	headers_end(&route->headers, message);
	drop_malformed_trace(route, message);
	return route->event_source == NULL || cloudevents_check(message, err);
}

bool route_compose(struct route *route, const struct slice *cells, struct message *message, struct err *err)
{
	*message = (struct message){
		.topic = route->topic_text, .key = cells[SQL_C_KEY], .value = cells[SQL_C_PAYLOAD]};
	return compose_topic(route, cells, err) &&
	       parse_partition(cells[SQL_C_PARTITION], &message->partition, err) &&
	       read_timestamp(cells[SQL_C_TIMESTAMP_MS], &message->timestamp_ms, err) &&
	       compose_headers(route, cells, message, err);
}

/* ---- dead letters ---- */

struct slice route_last_error(const struct route *route, const struct slice *cells)
{
	return cell_at(cells, route->error_cell);
}

static void add_omitted(struct headers *headers, const char *name, bool omitted)
{
	if (omitted)
		headers_add(headers, slice_of(name), slice_of("omitted"));
}

#define LETTER_TEXT_BYTES (TIMETEXT_BYTES + 16)

/* Begins with what headers the record would have, as far as they can be made: all but a bad column always can. */
static void begin_letter(struct route *route, const struct slice *cells, enum route_letter letter)
{
	struct headers *headers = &route->headers;
	struct err err;
	bool made;

	if (letter == LETTER_BARE) {
		made = headers_begin(headers, SLICE_NULL, LETTER_TEXT_BYTES, &err);
		add_omitted(headers, "outboxd-key", cells[SQL_C_KEY].bytes != NULL);
		add_omitted(headers, "outboxd-headers", made);
		return;
	}
	if (begin_headers(route, cells, cells[SQL_C_HEADERS], LETTER_TEXT_BYTES, &err))
		return;
	made = begin_headers(route, cells, SLICE_NULL, LETTER_TEXT_BYTES, &err);
	add_omitted(headers, "outboxd-headers", made);
}

static void add_death(struct route *route, const struct slice *cells, const struct route_death *death)
{
	struct headers *headers = &route->headers;
	struct slice error = death->error.bytes != NULL ? death->error : route_last_error(route, cells);
	char *attempts = headers_text(headers, LETTER_TEXT_BYTES - TIMETEXT_BYTES);
	char *failed_at = headers_text(headers, TIMETEXT_BYTES);

	snprintf(attempts, LETTER_TEXT_BYTES - TIMETEXT_BYTES, "%" PRId32, death->attempts);
	headers_add(headers, slice_of("outboxd-source"), death->source);
	if (route->topic_text[0] != '\0')
		headers_add(headers, slice_of("outboxd-topic"), slice_of(route->topic_text));
	headers_add(headers, slice_of("outboxd-id"), cells[SQL_C_ID]);
	headers_add(headers, slice_of("outboxd-error"), error.bytes != NULL ? error : slice_of("unknown"));
	headers_add(headers, slice_of("outboxd-attempts"), slice_of(attempts));
	headers_add(headers, slice_of("outboxd-failed-at"),
		    (struct slice){failed_at, timetext_rfc3339(death->failed_at, failed_at)});
}

static bool is_repeated(const struct message *message, size_t i)
{
	static const char ours[] = "outboxd-";
	struct slice name = message->headers[i].name;
	size_t j;

	if (name.len < sizeof(ours) || memcmp(name.bytes, ours, sizeof(ours) - 1) != 0)
		return false;
	for (j = i + 1; j < message->n_headers; j++)
		if (slice_equal(name, message->headers[j].name))
			return true;
	return false;
}

/* A row that was a dead letter once may have such headers itself. */
static void drop_older_deaths(struct route *route, struct message *message)
{
	size_t i = 0;

	while (i < message->n_headers) {
		if (is_repeated(message, i))
			headers_take_out(&route->headers, message, i);
		else
			i++;
	}
}

void route_compose_letter(struct route *route, const struct slice *cells, const struct route_death *death,
			  struct message *message)
{
	struct err err;
	bool routed = compose_topic(route, cells, &err);

	(void)routed; /* what is no topic's name is told as it is */
	*message = (struct message){.topic = death->topic, .partition = -1};
	if (death->letter != LETTER_BARE)
		message->key = cells[SQL_C_KEY];
	if (death->letter == LETTER_WHOLE)
		message->value = cells[SQL_C_PAYLOAD];
	begin_letter(route, cells, death->letter);
	add_omitted(&route->headers, "outboxd-payload",
		    death->letter != LETTER_WHOLE && cells[SQL_C_PAYLOAD].bytes != NULL);
	add_death(route, cells, death);
	headers_end(&route->headers, message);
	drop_malformed_trace(route, message);
	drop_older_deaths(route, message);
}

/* Of a length as Kafka writes it: a signed number, its sign in the lowest bit, seven bits a byte. */
static size_t length_bytes(size_t length)
{
	size_t bytes = 1;

	for (length *= 2; length >= 128; length /= 128)
		bytes++;
	return bytes;
}

size_t route_message_bytes(const struct message *message)
{
	size_t bytes = RECORD_FRAMING_BYTES + message->key.len + message->value.len, i;

	for (i = 0; i < message->n_headers; i++) {
		bytes += length_bytes(message->headers[i].name.len) + message->headers[i].name.len;
		bytes += length_bytes(message->headers[i].value.len) + message->headers[i].value.len;
	}
	return bytes;
}
