#include "config/rules.h"

#include "config/template.h"

#include <inttypes.h>
#include <string.h>

static const struct load_place nowhere = {0};

static struct load_place place_of(const struct yamltree_node *map, const char *key)
{
	return load_place(yamltree_member(map, key));
}

static struct load_place later(struct load_place a, struct load_place b)
{
	return a.line > b.line || (a.line == b.line && a.column > b.column) ? a : b;
}

/* A key that is there was refused, else it would have a value: then there is nothing to add. */
static void report_missing(struct load *load, const struct yamltree_node *map, const struct yamltree_node *parent,
			   const char *key, const char *name)
{
	load_conflict(load, place_of(map, key), nowhere, load_place(map == NULL ? parent : map), "%s is missing",
		      name);
}

static void require_connections(struct load *load, const struct yamltree_node *source, const char *dsn,
				const char *bootstrap_servers)
{
	const struct yamltree_node *postgres = yamltree_member(load->root, "postgres");
	const struct yamltree_node *kafka = yamltree_member(load->root, "kafka");

	if (dsn == NULL && !place_of(yamltree_member(source, "postgres"), "dsn").refused)
		report_missing(load, postgres, load->root, "dsn", "postgres.dsn");
	if (bootstrap_servers == NULL && !place_of(yamltree_member(source, "kafka"), "bootstrap_servers").refused)
		report_missing(load, kafka, load->root, "bootstrap_servers", "kafka.bootstrap_servers");
}

void rules_check_required(struct load *load)
{
	const struct config *config = load->config;
	const struct yamltree_node *sources = yamltree_member(load->root, "sources"), *node;
	size_t i = 0;

	if (config->n_sources == 0) {
		require_connections(load, NULL, config->postgres.dsn, config->kafka.bootstrap_servers);
		load_conflict(load, load_place(sources), nowhere, load_place(load->root),
			      "sources is missing: one at least is needed");
		return;
	}
	for (node = sources->children; node != NULL && i < config->n_sources; node = node->next, i++)
		require_connections(load, node, config->sources[i].postgres.dsn,
				    config->sources[i].kafka.bootstrap_servers);
}

static void check_name(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	struct load_place name = place_of(node, "name");

	if (source->name == NULL) {
		load_conflict(load, name, nowhere, load_place(node), "name is missing");
		return;
	}
	for (const struct config_source *other = load->config->sources; other != source; other++)
		if (other->name != NULL && strcmp(other->name, source->name) == 0)
			load_conflict(load, name, nowhere, name, "name %s is that of another source before",
				      source->name);
}

static void check_ordering(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	const struct yamltree_node *columns = yamltree_member(node, "columns");

	if (source->ordering != ORDERING_KEY)
		return;
	if (source->on_delivered == ON_DELIVERED_AWAIT)
		load_conflict(load, place_of(node, "on_delivered"), place_of(node, "ordering"), load_place(node),
			      "on_delivered: await and ordering: key exclude each other: set ordering: none");
	if (source->columns[COLUMN_KEY] == NULL)
		load_conflict(load, place_of(columns, "key"), place_of(node, "ordering"), load_place(node),
			      "ordering: key needs columns.key: name the column, or set ordering: none");
	if (source->on_failed == ON_FAILED_BLOCK && source->columns[COLUMN_SETTLED_AT] == NULL &&
	    source->columns[COLUMN_LAST_ERROR] == NULL)
		load_conflict(load, later(place_of(columns, "settled_at"), place_of(columns, "last_error")),
			      place_of(node, "on_failed"), load_place(node),
			      "on_failed: block needs columns.settled_at or columns.last_error: "
			      "without both a skipped row cannot be told from a failed one");
}

/* What the relay writes must not stand in a column that has another role, but for the lease in available_at. */
static bool may_share(enum config_column a, enum config_column b)
{
	static const bool written[CONFIG_COLUMNS] = {
		[COLUMN_STATUS] = true,	     [COLUMN_ATTEMPTS] = true,	  [COLUMN_AVAILABLE_AT] = true,
		[COLUMN_LEASE_UNTIL] = true, [COLUMN_LEASE_OWNER] = true, [COLUMN_LAST_ERROR] = true,
		[COLUMN_UPDATED_AT] = true,  [COLUMN_SETTLED_AT] = true};

	return (!written[a] && !written[b]) || (a == COLUMN_AVAILABLE_AT && b == COLUMN_LEASE_UNTIL);
}

static void check_columns(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	const struct yamltree_node *columns = yamltree_member(node, "columns");
	const char *a_name, *b_name;

	for (int a = 0; a < CONFIG_COLUMNS; a++)
		for (int b = a + 1; b < CONFIG_COLUMNS; b++) {
			if (source->columns[a] == NULL || source->columns[b] == NULL ||
			    strcmp(source->columns[a], source->columns[b]) != 0 ||
			    may_share((enum config_column)a, (enum config_column)b))
				continue;
			a_name = config_column_name((enum config_column)a);
			b_name = config_column_name((enum config_column)b);
			load_conflict(load, place_of(columns, a_name), place_of(columns, b_name), load_place(node),
				      "columns.%s and columns.%s are both %s, and the relay writes to it", a_name,
				      b_name, source->columns[a]);
		}
}

static void check_states(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	static const char *const names[CONFIG_STATES] = {"pending", "in_flight", "sent", "failed"};
	const struct yamltree_node *states = yamltree_member(node, "states");

	for (int a = 0; a < CONFIG_STATES; a++)
		for (int b = a + 1; b < CONFIG_STATES; b++)
			if (strcmp(source->states[a], source->states[b]) == 0)
				load_conflict(load, place_of(states, names[a]), place_of(states, names[b]),
					      load_place(node), "states.%s and states.%s are both %s", names[a],
					      names[b], source->states[a]);
}

/* May the text be a part of a topic's name? */
static bool is_topic_text(const char *text)
{
	static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return strspn(text, legal) == strlen(text) && strlen(text) <= 249;
}

static bool is_topic_name(const char *text)
{
	return is_topic_text(text) && text[0] != '\0' && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

#define TOPIC_RULE "a topic's name, which has at most 249 letters, digits, . _ and -, and is not . or .."

static void check_topic(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	struct load_place topic = place_of(node, "topic");
	struct template template;
	const char *literal;
	struct err err;

	if (source->topic == NULL || !template_parse(load->config->arena, source->topic, &template, &err))
		return;
	for (size_t i = 0; i < template.n_pieces; i++) {
		literal = template.pieces[i].literal;
		if (literal != NULL && !(template.n_pieces == 1 ? is_topic_name : is_topic_text)(literal))
			load_conflict(load, topic, nowhere, load_place(node),
				      "topic: \"%s\" cannot be in " TOPIC_RULE, literal);
	}
}

static void check_dead_letters(struct load *load, const struct yamltree_node *node,
			       const struct config_source *source)
{
	struct load_place place = place_of(node, "dead_letter_topic");

	if (source->dead_letter_topic == NULL)
		return;
	if (!is_topic_name(source->dead_letter_topic))
		load_conflict(load, place, nowhere, load_place(node),
			      "dead_letter_topic: \"%s\" is not " TOPIC_RULE, source->dead_letter_topic);
	else if (source->topic != NULL && strcmp(source->topic, source->dead_letter_topic) == 0)
		load_conflict(load, place, place_of(node, "topic"), load_place(node),
			      "dead_letter_topic is the topic of all rows: name another one");
}

/* A URI reference as RFC 3986 has it, as far as its characters go. */
static bool is_uri(const char *text)
{
	static const char hex[] = "0123456789abcdefABCDEF";
	static const char legal[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%";
	const char *percent;

	for (percent = strchr(text, '%'); percent != NULL; percent = strchr(percent + 1, '%'))
		if (percent[1] == '\0' || strchr(hex, percent[1]) == NULL || percent[2] == '\0' ||
		    strchr(hex, percent[2]) == NULL)
			return false;
	return text[0] != '\0' && strspn(text, legal) == strlen(text);
}

static void check_format(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	struct load_place uri = place_of(node, "cloudevents_source");

	if (source->cloudevents_source != NULL && !is_uri(source->cloudevents_source))
		load_conflict(
			load, uri, nowhere, load_place(node),
			"cloudevents_source: \"%s\" is no URI: what else there is in it is written as %%20 and so on",
			source->cloudevents_source);
	if (source->format == FORMAT_CLOUDEVENTS && source->columns[COLUMN_TYPE] == NULL)
		load_conflict(load, place_of(yamltree_member(node, "columns"), "type"), place_of(node, "format"),
			      load_place(node), "format: cloudevents needs columns.type: each event has a type");
}

static void check_amounts(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	const struct yamltree_node *retry = yamltree_member(node, "retry");

	if (source->max_in_flight < source->batch)
		load_conflict(load, place_of(node, "max_in_flight"), place_of(node, "batch"), load_place(node),
			      "max_in_flight %" PRId64 " is less than batch %" PRId64
			      ": one claim would not fit in",
			      source->max_in_flight, source->batch);
	if (source->retry.max_us < source->retry.initial_us)
		load_conflict(load, place_of(retry, "max"), place_of(retry, "initial"), load_place(node),
			      "retry.max is shorter than retry.initial");
}

void rules_check_source(struct load *load, const struct yamltree_node *node, const struct config_source *source)
{
	check_name(load, node, source);
	check_columns(load, node, source);
	check_states(load, node, source);
	check_topic(load, node, source);
	check_dead_letters(load, node, source);
	check_format(load, node, source);
	check_ordering(load, node, source);
	check_amounts(load, node, source);
}
