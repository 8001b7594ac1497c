#include "core/sqltext.h"

#include "config/template.h"
#include "config/value.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is known of the table ---- */

/* One source and its table while its statements are made. */
struct fitting {
	const struct config_source *source;
	const struct sql_table_facts *facts; /* NULL: offline */
	struct arena *arena;
	struct sqltext text;
	const struct sql_column_facts *columns[CONFIG_COLUMNS]; /* NULL: not there, or offline */
	struct err *err;
};

static const struct sql_column_facts *find_column(const struct sql_table_facts *facts, const char *name)
{
	size_t i;

	for (i = 0; facts != NULL && i < facts->n_columns; i++) {
		if (strcmp(facts->columns[i].name, name) == 0)
			return &facts->columns[i];
	}
	return NULL;
}

static bool type_begins(const struct sql_column_facts *column, const char *prefix)
{
	return column != NULL && strncmp(column->type, prefix, strlen(prefix)) == 0;
}

static bool type_is(const struct sql_column_facts *column, const char *type)
{
	return column != NULL && strcmp(column->type, type) == 0;
}

static bool is_text(const struct sql_column_facts *column)
{
	return type_is(column, "text") || type_begins(column, "character") || type_is(column, "name") ||
	       type_is(column, "citext");
}

static bool is_integer(const struct sql_column_facts *column)
{
	return type_is(column, "smallint") || type_is(column, "integer") || type_is(column, "bigint");
}

static bool is_time(const struct sql_column_facts *column)
{
	return type_begins(column, "timestamp") || type_is(column, "date");
}

static const char *quoted(struct arena *arena, const char *text, void (*quote)(struct buf *, const char *))
{
	struct buf buf = {0};
	const char *copy;

	quote(&buf, text);
	copy = arena_copy_bytes(arena, buf.bytes, buf.len);
	buf_free(&buf);
	return copy;
}

static bool has(const struct fitting *fitting, enum config_column column)
{
	return (fitting->text.has & SQLTEXT_HAS(column)) != 0;
}

static void leave_out(struct fitting *fitting, enum config_column column)
{
	fitting->text.has &= ~SQLTEXT_HAS(column);
	fitting->text.columns[column] = NULL;
	fitting->columns[column] = NULL;
}

/* Never left out, whatever maps them: without them nothing can be claimed, or in another order than asked for. */
static bool is_needed(const struct config_source *source, enum config_column column)
{
	switch (column) {
	case COLUMN_ID:
	case COLUMN_STATUS:
	case COLUMN_PAYLOAD:
	case COLUMN_ATTEMPTS:
	case COLUMN_AVAILABLE_AT:
		return true;
	case COLUMN_KEY:
	case COLUMN_ORDER:
		return source->ordering == ORDERING_KEY;
	case COLUMN_TYPE:
		return source->column_required[column] || source->format == FORMAT_CLOUDEVENTS;
	default:
		return source->column_required[column];
	}
}

/* Maps one column; false when it is missing and may not be. */
static bool fit_column(struct fitting *fitting, enum config_column column)
{
	const struct config_source *source = fitting->source;
	const char *name = source->columns[column];

	if (name == NULL)
		return !is_needed(source, column) || column == COLUMN_ORDER;
	fitting->columns[column] = find_column(fitting->facts, name);
	if (fitting->facts != NULL && fitting->columns[column] == NULL)
		return !is_needed(source, column);
	fitting->text.columns[column] = quoted(fitting->arena, name, sqltext_identifier);
	fitting->text.has |= SQLTEXT_HAS(column);
	return true;
}

/* Maps all of them; names every one that is missing. */
static bool fit_columns(struct fitting *fitting)
{
	struct buf missing = {0};
	bool good;
	int column;

	for (column = 0; column < CONFIG_COLUMNS; column++) {
		if (fit_column(fitting, column))
			continue;
		buf_print(&missing, "%scolumns.%s", missing.len > 0 ? ", " : "", config_column_name(column));
		if (fitting->source->columns[column] != NULL)
			buf_print(&missing, " (\"%s\")", fitting->source->columns[column]);
	}
	good = missing.len == 0;
	if (!good)
		err_set(fitting->err,
			"table %s lacks %s: map them to columns it has, or add what `outboxd schema --adopt` prints",
			fitting->source->table, buf_text(&missing));
	buf_free(&missing);
	return good;
}

static bool same_column(const struct fitting *fitting, enum config_column a, enum config_column b)
{
	return has(fitting, a) && has(fitting, b) &&
	       strcmp(fitting->source->columns[a], fitting->source->columns[b]) == 0;
}

/* Roles that fall together with another one: a lease that stands in available_at, an order that is the id. */
static void fold_roles(struct fitting *fitting)
{
	if (same_column(fitting, COLUMN_LEASE_UNTIL, COLUMN_AVAILABLE_AT))
		leave_out(fitting, COLUMN_LEASE_UNTIL);
	if (same_column(fitting, COLUMN_ORDER, COLUMN_ID))
		leave_out(fitting, COLUMN_ORDER);
	if (!has(fitting, COLUMN_ORDER)) {
		fitting->text.columns[COLUMN_ORDER] = fitting->text.columns[COLUMN_ID];
		fitting->columns[COLUMN_ORDER] = fitting->columns[COLUMN_ID];
	}
}

/* ---- what must hold ---- */

/* NULL in the id or the order would make rows invisible to every comparison. A view does not know. */
static bool check_not_null(const struct fitting *fitting, enum config_column role)
{
	const struct sql_column_facts *column = fitting->columns[role];

	if (fitting->facts->relkind == 'v' || column->not_null)
		return true;
	return err_set(
		fitting->err,
		"columns.%s: \"%s\" may be NULL, and such a row would never be sent: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
		config_column_name(role), column->name, fitting->text.table, fitting->text.columns[role]);
}

static bool check_times(const struct fitting *fitting)
{
	enum config_column role = has(fitting, COLUMN_LEASE_UNTIL) ? COLUMN_LEASE_UNTIL : COLUMN_AVAILABLE_AT;
	const struct sql_column_facts *due = fitting->columns[COLUMN_AVAILABLE_AT], *lease = fitting->columns[role];

	if (!type_begins(due, "timestamp"))
		return err_set(fitting->err,
			       "columns.available_at: \"%s\" is %s; it must be timestamp with time zone", due->name,
			       due->type);
	if (lease->microseconds)
		return true;
	/* A settle names the lease as it received it: rounded, it would find no row, and everything would be sent twice. */
	return err_set(
		fitting->err,
		"columns.%s: \"%s\" is %s, but a lease needs microseconds: ALTER TABLE %s ALTER COLUMN %s TYPE timestamp with time zone",
		config_column_name(role), lease->name, lease->type, fitting->text.table,
		fitting->text.columns[role]);
}

/* n of character varying(n), or 0. */
static long type_length(const struct sql_column_facts *column)
{
	const char *open = strchr(column->type, '(');

	return is_text(column) && open != NULL ? strtol(open + 1, NULL, 10) : 0;
}

static bool has_label(const json_t *labels, const char *label)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(labels, i, entry)
	{
		if (strcmp(json_string_value(entry), label) == 0)
			return true;
	}
	return false;
}

/* An enum refuses the statement that names a label it lacks: which one that is may be seen hours later. */
static bool check_enum(const struct fitting *fitting)
{
	const struct sql_column_facts *status = fitting->columns[COLUMN_STATUS];
	json_t *labels = status->labels == NULL ? NULL : json_loads(status->labels, 0, NULL);
	bool good = true;
	int state;

	for (state = 0; labels != NULL && good && state < CONFIG_STATES; state++)
		good = has_label(labels, fitting->source->states[state]) ||
		       err_set(fitting->err,
			       "states: \"%s\" is no label of \"%s\", which is the enum %s: ALTER TYPE %s ADD VALUE %s",
			       fitting->source->states[state], status->name, status->type, status->type,
			       fitting->text.labels[state]);
	json_decref(labels);
	return good;
}

/* Could the label ever stand in the column? A length counts characters; whether a number is too large the server says. */
static bool holds(const struct sql_column_facts *column, const char *label)
{
	long length = type_length(column), characters = 0;

	if (is_integer(column))
		return label[0] != '\0' && strspn(label, "-0123456789") == strlen(label);
	for (; *label != '\0'; label++)
		characters += ((unsigned char)*label & 0xc0) != 0x80;
	return length == 0 || characters <= length;
}

static bool check_labels(const struct fitting *fitting)
{
	const struct sql_column_facts *status = fitting->columns[COLUMN_STATUS];
	int state;

	for (state = 0; state < CONFIG_STATES; state++) {
		if (!holds(status, fitting->source->states[state]))
			return err_set(fitting->err, "states: \"%s\" does not fit into \"%s\", which is %s",
				       fitting->source->states[state], status->name, status->type);
	}
	return true;
}

static bool check_txid(const struct fitting *fitting)
{
	const struct sql_column_facts *txid = fitting->columns[COLUMN_TXID];

	if (txid == NULL || type_is(txid, "xid8"))
		return true;
	return err_set(fitting->err,
		       "columns.txid: \"%s\" is %s; it must be xid8 with the default pg_current_xact_id()",
		       txid->name, txid->type);
}

static bool check_block(const struct fitting *fitting)
{
	if ((fitting->text.has & SQLTEXT_BLOCK) == 0 || has(fitting, COLUMN_SETTLED_AT) ||
	    has(fitting, COLUMN_LAST_ERROR))
		return true;
	return err_set(
		fitting->err,
		"on_failed: block needs a column that tells a skipped row from a failed one: map columns.settled_at or columns.last_error, or set on_failed: continue");
}

static bool check_fit(const struct fitting *fitting)
{
	if (!check_block(fitting))
		return false;
	if (fitting->facts == NULL)
		return true;
	if (strchr("rpvf", fitting->facts->relkind) == NULL || fitting->facts->unchangeable)
		return err_set(
			fitting->err,
			"%s is no table or view that rows can be changed in: a view must be of one table, without DISTINCT, GROUP BY, LIMIT and the like",
			fitting->source->table);
	if (fitting->facts->hidden)
		return err_set(
			fitting->err,
			"row-level security hides the rows of %s from role %s: CREATE POLICY outboxd ON %s TO %s USING (true)",
			fitting->source->table, fitting->facts->role, fitting->text.table, fitting->facts->role);
	return check_not_null(fitting, COLUMN_ID) && check_not_null(fitting, COLUMN_ORDER) &&
	       check_times(fitting) && check_labels(fitting) && check_enum(fitting) && check_txid(fitting);
}

/* ---- the dialect ---- */

/* Does the lease's distance from updated_at tell leases from times for results? */
static bool tells_leases(const struct fitting *fitting)
{
	const struct sql_column_facts *updated = fitting->columns[COLUMN_UPDATED_AT];

	return has(fitting, COLUMN_UPDATED_AT) && (updated == NULL || updated->microseconds) &&
	       fitting->source->result_timeout_us != fitting->source->lease_us;
}

static void set_flags(struct fitting *fitting)
{
	const struct config_source *source = fitting->source;
	const struct sql_table_facts *facts = fitting->facts;
	const struct sql_column_facts *payload = fitting->columns[COLUMN_PAYLOAD];
	uint64_t *flags = &fitting->text.has;

	*flags |= source->ordering == ORDERING_KEY ? SQLTEXT_KEYED : 0;
	*flags |= source->ordering == ORDERING_KEY && source->on_failed == ON_FAILED_BLOCK ? SQLTEXT_BLOCK : 0;
	*flags |= source->on_delivered == ON_DELIVERED_DELETE ? SQLTEXT_DELETE : 0;
	*flags |= source->on_delivered == ON_DELIVERED_AWAIT ? SQLTEXT_AWAIT : 0;
	*flags |= tells_leases(fitting) ? SQLTEXT_DATED : 0;
	*flags |= source->dead_letter_topic != NULL ? SQLTEXT_DEAD_LETTERS : 0;
	*flags |= facts == NULL || facts->relkind == 'r' ? SQLTEXT_PLAIN : 0;
	*flags |= facts == NULL || !fitting->columns[COLUMN_AVAILABLE_AT]->not_null ? SQLTEXT_NULLABLE : 0;
	*flags |= facts == NULL || facts->has_key_index ? SQLTEXT_KEY_INDEX : 0;
	*flags |= has(fitting, COLUMN_CREATED_AT) && (facts == NULL || is_time(fitting->columns[COLUMN_CREATED_AT]))
			  ? SQLTEXT_AGE
			  : 0;
	*flags |= payload != NULL && payload->bytea ? SQLTEXT_BYTEA : 0;
	*flags |= payload != NULL && (payload->bytea || is_text(payload)) ? SQLTEXT_LENGTH : 0;
	*flags |= facts != NULL && facts->tells_compression ? SQLTEXT_COMPRESSION : 0;
	*flags |= is_integer(fitting->columns[COLUMN_TIMESTAMP]) ? SQLTEXT_MILLIS : 0;
	*flags |= source->where != NULL ? SQLTEXT_WHERE : 0;
}

static const char *media_type_of(const struct sql_column_facts *payload)
{
	if (type_is(payload, "json") || type_is(payload, "jsonb"))
		return "application/json";
	return is_text(payload) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

/* A cast to a type with a length cuts, and a number with a scale rounds: an id that somebody mistyped would become another one. */
static const char *free_type(struct arena *arena, const struct sql_column_facts *column, const char *otherwise)
{
	const char *open, *close;
	struct buf type = {0};

	if (column == NULL)
		return otherwise;
	if (type_begins(column, "character(") || type_is(column, "character"))
		return "bpchar";
	open = strchr(column->type, '(');
	close = open == NULL ? NULL : strchr(open, ')');
	/* A quoted name may have one in it. */
	if (close == NULL || strchr(column->type, '"') != NULL)
		return column->type;
	buf_add(&type, column->type, (size_t)(open - column->type));
	buf_add_string(&type, close + 1);
	otherwise = arena_copy_string(arena, buf_text(&type));
	buf_free(&type);
	return otherwise;
}

static void set_types(struct fitting *fitting)
{
	const struct sql_column_facts *const *columns = fitting->columns;
	const struct sql_column_facts *status = columns[COLUMN_STATUS];
	struct sqltext *text = &fitting->text;
	struct buf cast = {0};

	text->id_type = free_type(fitting->arena, columns[COLUMN_ID], "bigint");
	text->order_type = free_type(fitting->arena, columns[COLUMN_ORDER], "bigint");
	text->key_type = free_type(fitting->arena, columns[COLUMN_KEY], "text");
	/* An explicit cast cuts the text to a column's length. */
	text->error_type = columns[COLUMN_LAST_ERROR] == NULL ? "text" : columns[COLUMN_LAST_ERROR]->type;
	text->attempts_limit = type_is(columns[COLUMN_ATTEMPTS], "smallint") ? "32766" : "2147483646";
	/* Labels in statements are literals and need no type; those that come as parameters do. */
	if (status != NULL && !is_text(status))
		buf_print(&cast, "::%s", status->type);
	text->status_cast = arena_copy_string(fitting->arena, buf_text(&cast));
	text->media_type = media_type_of(columns[COLUMN_PAYLOAD]);
	buf_free(&cast);
}

static void set_result_timeout(struct fitting *fitting)
{
	struct buf text = {0};

	value_print_duration(&text, fitting->source->result_timeout_us);
	fitting->text.result_timeout = arena_copy_string(fitting->arena, buf_text(&text));
	buf_free(&text);
}

static bool template_names(struct fitting *fitting, const char *text, const char *column)
{
	struct template template;
	size_t i;

	if (!template_parse(fitting->arena, text, &template, NULL))
		return false;
	for (i = 0; i < template.n_pieces; i++) {
		if (template.pieces[i].column != NULL && strcmp(template.pieces[i].column, column) == 0)
			return true;
	}
	return false;
}

/* Only headers that the preset brings name it: then they are left out with it. */
static bool is_optional(struct fitting *fitting, const char *column)
{
	const struct config_source *source = fitting->source;
	size_t i;

	for (i = 0; i < source->n_headers; i++) {
		if (!source->headers[i].optional &&
		    template_names(fitting, source->headers[i].template_text, column))
			return false;
	}
	return !template_names(fitting, source->topic, column);
}

static bool add_template_column(struct fitting *fitting, const char *column, struct buf *values)
{
	if (fitting->facts == NULL || find_column(fitting->facts, column) != NULL) {
		buf_add_string(values, "o.");
		sqltext_identifier(values, column);
		buf_add_string(values, "::text");
		return true;
	}
	buf_add_string(values, "NULL::text");
	return is_optional(fitting, column) ||
	       err_set(fitting->err, "a template names the column \"%s\", which table %s does not have", column,
		       fitting->source->table);
}

static bool set_templates(struct fitting *fitting, const struct sql_templates *templates)
{
	struct buf values = {0}, names = {0};
	bool good = true;
	size_t i;

	for (i = 0; good && templates != NULL && i < templates->n_columns; i++) {
		buf_add_string(&values, ", ");
		good = add_template_column(fitting, templates->columns[i], &values);
		buf_print(&values, " AS template_%zu", i);
		buf_print(&names, ", claimed.template_%zu", i);
	}
	fitting->text.template_values = arena_copy_string(fitting->arena, buf_text(&values));
	fitting->text.template_names = arena_copy_string(fitting->arena, buf_text(&names));
	buf_free(&values);
	buf_free(&names);
	return good;
}

static bool set_table(struct fitting *fitting)
{
	struct buf name = {0};
	bool good = sql_table_name(fitting->source->table, &name, fitting->err);
	int state;

	fitting->text.table = arena_copy_string(fitting->arena, buf_text(&name));
	buf_free(&name);
	for (state = 0; state < CONFIG_STATES; state++)
		fitting->text.labels[state] =
			quoted(fitting->arena, fitting->source->states[state], sqltext_literal);
	return good;
}

/* The order column's text: whether it compares as a number or bytewise, or only the server can tell. */
static enum sql_order order_of(const struct sql_column_facts *column)
{
	if (column == NULL || is_integer(column))
		return SQL_ORDER_NUMBER;
	return type_is(column, "uuid") ? SQL_ORDER_BYTES : SQL_ORDER_ARRIVAL;
}

bool sqltext_fit(struct sqltext *out, const struct config_source *source, const struct sql_table_facts *facts,
		 const struct sql_templates *templates, struct arena *arena, struct err *err)
{
	struct fitting fitting = {.source = source, .facts = facts, .arena = arena, .err = err};

	if (!set_table(&fitting) || !fit_columns(&fitting) || !set_templates(&fitting, templates))
		return false;
	fold_roles(&fitting);
	set_flags(&fitting);
	set_types(&fitting);
	set_result_timeout(&fitting);
	if (!check_fit(&fitting))
		return false;
	fitting.text.where = source->where;
	*out = fitting.text;
	out->order = order_of(fitting.columns[COLUMN_ORDER]);
	return true;
}
