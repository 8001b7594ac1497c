#include "config/yamltree.h"

#include "base/mem.h"

#include <limits.h>
#include <string.h>
#include <yaml.h>

/* A parse under way. The first syntax error ends it. */
struct parse {
	yaml_parser_t parser;
	const char *bytes;
	size_t len;
	struct arena *arena;
	struct diag *diag;
	int depth, n_nodes;
};

const char *yamltree_kind_name(enum yamltree_kind kind)
{
	switch (kind) {
	case YAMLTREE_NULL:
		return "nothing";
	case YAMLTREE_TEXT:
		return "a single value";
	case YAMLTREE_MAP:
		return "a map";
	case YAMLTREE_LIST:
		return "a list";
	}
	return "";
}

static int line_of(yaml_mark_t mark)
{
	return mark.line < INT_MAX ? (int)mark.line + 1 : INT_MAX;
}

static int column_of(yaml_mark_t mark)
{
	return mark.column < INT_MAX ? (int)mark.column + 1 : INT_MAX;
}

/* A reader's error (bytes that are no text) has an offset and no mark. */
static yaml_mark_t mark_at(const struct parse *parse, size_t offset)
{
	yaml_mark_t mark = {0};

	for (size_t i = 0; i < offset && i < parse->len; i++) {
		mark.column++;
		if (parse->bytes[i] == '\n') {
			mark.column = 0;
			mark.line++;
		}
	}
	return mark;
}

/* Column (from 0) of a tab in the indentation of a line, -1 when there is none. */
static int tab_in_indentation(const struct parse *parse, size_t line)
{
	const char *at = parse->bytes, *end = parse->bytes + parse->len;
	int column;

	for (; line > 0 && at != NULL; line--) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at == NULL ? NULL : at + 1;
	}
	for (column = 0; at != NULL && at < end && (*at == ' ' || *at == '\t'); at++, column++)
		if (*at == '\t')
			return column;
	return -1;
}

static void report_syntax(struct parse *parse)
{
	const yaml_parser_t *parser = &parse->parser;
	yaml_mark_t mark = parser->problem_mark;
	const char *problem = parser->problem == NULL ? "this is no YAML" : parser->problem;
	int tab;

	if (parser->error == YAML_MEMORY_ERROR)
		mem_exhausted();
	if (parser->error == YAML_READER_ERROR)
		mark = mark_at(parse, parser->problem_offset);
	tab = tab_in_indentation(parse, mark.line);
	if (tab >= 0)
		diag_add(parse->diag, line_of(mark), tab + 1, "a tab cannot indent YAML: use spaces");
	else if (parser->context != NULL)
		diag_add(parse->diag, line_of(mark), column_of(mark), "%s (%s in line %d)", problem,
			 parser->context, line_of(parser->context_mark));
	else
		diag_add(parse->diag, line_of(mark), column_of(mark), "%s", problem);
}

static bool next_event(struct parse *parse, yaml_event_t *event)
{
	if (yaml_parser_parse(&parse->parser, event))
		return true;
	report_syntax(parse);
	return false;
}

static void refuse(struct parse *parse, yaml_mark_t mark, const char *what)
{
	diag_add(parse->diag, line_of(mark), column_of(mark), "%s not supported", what);
}

static void refuse_extras(struct parse *parse, yaml_mark_t mark, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor != NULL)
		refuse(parse, mark, "anchors (&name) are");
	else if (tag != NULL)
		refuse(parse, mark, "tags (!name) are");
}

static bool means_null(const char *text)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i]) == 0)
			return true;
	return false;
}

static void fill_scalar(struct parse *parse, struct yamltree_node *node, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;

	refuse_extras(parse, event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
	if (memchr(text, '\0', len) != NULL)
		refuse(parse, event->start_mark, "NUL characters are");
	node->text = arena_copy_bytes(parse->arena, text, len);
	node->kind = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && means_null(node->text) ? YAMLTREE_NULL
												   : YAMLTREE_TEXT;
}

static bool within_bounds(struct parse *parse, const struct yamltree_node *node)
{
	if (parse->depth > YAMLTREE_MAX_DEPTH)
		diag_add(parse->diag, node->line, node->column, "nested deeper than %d levels", YAMLTREE_MAX_DEPTH);
	else if (parse->n_nodes > YAMLTREE_MAX_NODES)
		diag_add(parse->diag, node->line, node->column, "more than %d values", YAMLTREE_MAX_NODES);
	return parse->depth <= YAMLTREE_MAX_DEPTH && parse->n_nodes <= YAMLTREE_MAX_NODES;
}

static bool fill_children(struct parse *parse, struct yamltree_node *parent);

/* Fills a node from the event that begins it. False: syntax error, or too deep. */
static bool fill_node(struct parse *parse, struct yamltree_node *node, const yaml_event_t *event)
{
	node->line = node->key_line = line_of(event->start_mark);
	node->column = node->key_column = column_of(event->start_mark);
	parse->n_nodes++;
	if (!within_bounds(parse, node))
		return false;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		fill_scalar(parse, node, event);
		return true;
	case YAML_MAPPING_START_EVENT:
		refuse_extras(parse, event->start_mark, event->data.mapping_start.anchor,
			      event->data.mapping_start.tag);
		node->kind = YAMLTREE_MAP;
		return fill_children(parse, node);
	case YAML_SEQUENCE_START_EVENT:
		refuse_extras(parse, event->start_mark, event->data.sequence_start.anchor,
			      event->data.sequence_start.tag);
		node->kind = YAMLTREE_LIST;
		return fill_children(parse, node);
	default: /* an alias: nothing else begins a node */
		refuse(parse, event->start_mark, "aliases (*name) are");
		node->refused = true;
		return true;
	}
}

static void refuse_duplicate(struct parse *parse, const struct yamltree_node *parent,
			     const struct yamltree_node *key)
{
	const struct yamltree_node *other;

	for (other = parent->children; other != NULL; other = other->next)
		if (strcmp(other->key, key->text) == 0) {
			diag_add(parse->diag, key->line, key->column,
				 "%s is given twice: here in line %d and before in line %d", key->text, key->line,
				 other->key_line);
			return;
		}
}

static void refuse_merge(struct parse *parse, const struct yamltree_node *key, struct yamltree_node *node)
{
	if (strcmp(key->text, "<<") != 0)
		return;
	diag_add(parse->diag, key->line, key->column, "merge keys (<<) are not supported");
	node->refused = true;
}

/* Reads the value that follows a key. */
static bool fill_member(struct parse *parse, const struct yamltree_node *parent, struct yamltree_node *node,
			const yaml_event_t *key_event)
{
	struct yamltree_node key = {0};
	yaml_event_t event;
	bool good;

	if (key_event->type != YAML_SCALAR_EVENT) {
		diag_add(parse->diag, line_of(key_event->start_mark), column_of(key_event->start_mark),
			 "a key must be a single word");
		return false;
	}
	if (!fill_node(parse, &key, key_event) || !next_event(parse, &event))
		return false;
	refuse_duplicate(parse, parent, &key);
	good = fill_node(parse, node, &event);
	yaml_event_delete(&event);
	node->key = key.text;
	node->key_line = key.line;
	node->key_column = key.column;
	refuse_merge(parse, &key, node);
	return good;
}

static bool fill_children(struct parse *parse, struct yamltree_node *parent)
{
	struct yamltree_node **last = &parent->children, *node;
	bool good = true, end = false;
	yaml_event_t event;

	parse->depth++;
	while (good && !end) {
		if (!next_event(parse, &event))
			return false;
		end = event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
		if (!end) {
			node = arena_take(parse->arena, 1, sizeof(*node));
			good = parent->kind == YAMLTREE_MAP ? fill_member(parse, parent, node, &event)
							    : fill_node(parse, node, &event);
			*last = node;
			last = &node->next;
		}
		yaml_event_delete(&event);
	}
	parse->depth--;
	return good;
}

/* Reads to the end: a second document is a mistake, whatever it holds. */
static bool expect_end(struct parse *parse, const struct yamltree_node *root)
{
	yaml_event_t event;
	bool end = false;

	while (!end) {
		if (!next_event(parse, &event))
			return false;
		if (event.type == YAML_DOCUMENT_START_EVENT) {
			diag_add(parse->diag, line_of(event.start_mark), column_of(event.start_mark),
				 "a second document begins here in line %d, the first in line %d: "
				 "one file holds one document",
				 line_of(event.start_mark), root->line);
			end = true;
		}
		end = end || event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	return true;
}

static bool fill_root(struct parse *parse, struct yamltree_node *root)
{
	bool begun = false, good = true;
	yaml_event_t event;

	while (good && !begun) {
		if (!next_event(parse, &event))
			return false;
		if (event.type == YAML_STREAM_END_EVENT) {
			yaml_event_delete(&event);
			return true;
		}
		begun = event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT;
		if (begun)
			good = fill_node(parse, root, &event);
		yaml_event_delete(&event);
	}
	return good && expect_end(parse, root);
}

struct yamltree_node *yamltree_parse(struct arena *arena, const char *bytes, size_t len, struct diag *diag)
{
	struct parse parse = {.bytes = bytes, .len = len, .arena = arena, .diag = diag};
	struct yamltree_node *root = arena_take(arena, 1, sizeof(*root));
	bool good;

	root->line = root->column = root->key_line = root->key_column = 1;
	if (len > YAMLTREE_MAX_BYTES) {
		diag_add(diag, 1, 1, "larger than %d bytes", YAMLTREE_MAX_BYTES);
		return NULL;
	}
	if (!yaml_parser_initialize(&parse.parser))
		mem_exhausted();
	yaml_parser_set_input_string(&parse.parser, (const unsigned char *)bytes, len);
	good = fill_root(&parse, root);
	yaml_parser_delete(&parse.parser);
	return good ? root : NULL;
}

const struct yamltree_node *yamltree_member(const struct yamltree_node *map, const char *key)
{
	const struct yamltree_node *node;

	if (map == NULL || map->kind != YAMLTREE_MAP)
		return NULL;
	for (node = map->children; node != NULL; node = node->next)
		if (strcmp(node->key, key) == 0)
			return node;
	return NULL;
}
