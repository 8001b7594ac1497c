#include "core/sqlcheck.h"

#include "base/mem.h"
#include "core/sqltext.h"

#include <stdlib.h>

/* ---- the server ---- */

enum { VERSION, STANDBY, READ_ONLY, JIT, JIT_APPLIES, CLOCK, SNAPSHOT_AGE, HOLDER, HOLDER_CURE };

/* Of others' sessions a role without the right to monitor sees next to nothing: then the age is that of what writes. */
const struct sql_statement sqlcheck_server = {
	.kind = SQL_INSPECT,
	.text = "WITH holder AS (\n"
		"  SELECT greatest(age(backend_xmin), age(backend_xid)) AS age,\n"
		"         format('session %s of role %s (%s)', pid, usename, application_name) AS who,\n"
		"         format('SELECT pg_terminate_backend(%s)', pid) AS cure\n"
		"    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)\n"
		"  UNION ALL\n"
		"  SELECT age(transaction), format('prepared transaction %s', gid), format('ROLLBACK PREPARED %L', gid)\n"
		"    FROM pg_prepared_xacts\n"
		"  UNION ALL\n"
		"  SELECT age(xmin), format('replication slot %s', slot_name), format('SELECT pg_drop_replication_slot(%L)', slot_name)\n"
		"    FROM pg_replication_slots),\n"
		"oldest AS (SELECT * FROM holder WHERE age IS NOT NULL ORDER BY age DESC LIMIT 1)\n"
		"SELECT current_setting('server_version'), pg_is_in_recovery()::text,\n"
		"       (current_setting('transaction_read_only') = 'on')::text,\n"
		"       (SELECT (reset_val = 'on')::text FROM pg_settings WHERE name = 'jit'), (current_setting('jit') = 'on')::text,\n"
		"       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text,\n"
		"       greatest((SELECT age FROM oldest),\n"
		"                CASE WHEN NOT pg_is_in_recovery() THEN (SELECT txid_snapshot_xmax(s) - txid_snapshot_xmin(s)\n"
		"                                                          FROM txid_current_snapshot() s) END)::text,\n"
		"       (SELECT who FROM oldest), (SELECT cure FROM oldest)",
};

/* ---- the table ---- */

enum {
	DUE_INDEX,
	UNIQUE_ID,
	UNIQUE_ORDER,
	INVALID,
	ROWS,
	BYTES,
	AUTOVACUUM,
	VACUUM_CURE,
	SETTINGS_CURE,
	BLOAT_CURE,
	NOTIFIES,
	EVENT_ID_DEFAULT,
	ORDER_DEFAULT
};

/* Settings stand on the table itself, or on each of its partitions. A unique index of a partitioned table has the partition's
 * key as well, so that there the id need only come first. */
#define LEAVES(cure, condition) \
	"       (SELECT string_agg(" cure ", '; ' ORDER BY leaf.relname) FROM leaf WHERE " condition "),\n"
#define LACKS(option) \
	"NOT EXISTS (SELECT FROM pg_options_to_table(leaf.reloptions) WHERE option_name = '" option "')"
#define UNIQUE_ON(parameter)                                                                                                \
	"       EXISTS (SELECT FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]\n" \
	"                WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL\n"               \
	"                  AND k.attname = " parameter                                                                      \
	"::text AND (i.indnkeyatts = 1 OR c.relkind = 'p'))::text,\n"
#define DEFAULT_OF(parameter)                                                                                       \
	"(SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d JOIN pg_attribute k ON k.attrelid = d.adrelid\n" \
	"          AND k.attnum = d.adnum WHERE d.adrelid = c.oid AND k.attname = " parameter "::text)"

const struct sql_statement sqlcheck_table = {
	.kind = SQL_INSPECT,
	.text = "WITH leaf AS (\n"
		"  SELECT l.oid, l.relname, l.reloptions, pg_stat_get_dead_tuples(l.oid) AS dead, pg_stat_get_live_tuples(l.oid) AS live\n"
		"    FROM pg_class l\n"
		"   WHERE l.relkind = 'r' AND (l.oid = to_regclass($1::text)\n"
		"                              OR l.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1::text)) WHERE isleaf)))\n"
		"SELECT EXISTS (\n"
		"         SELECT FROM pg_index i CROSS JOIN pg_get_indexdef(i.indexrelid, 1, false) f\n"
		"           JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attname = $2::text\n"
		"          WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NOT NULL\n"
		"            AND CASE WHEN k.attnotnull THEN f = quote_ident($2::text)\n"
		"                     ELSE f ILIKE '%coalesce(' || quote_ident($2::text) || ',%' END\n"
		"            AND strpos(pg_get_expr(i.indpred, i.indrelid), quote_ident($3::text)) > 0)::text,\n" UNIQUE_ON("$4") UNIQUE_ON(
			"$5") "       (SELECT string_agg(format('REINDEX INDEX CONCURRENTLY %s', i.indexrelid::regclass), '; ')\n"
			      "          FROM pg_index i WHERE i.indrelid = c.oid AND NOT i.indisvalid AND c.relkind = 'r'),\n"
			      "       greatest(c.reltuples, 0)::bigint::text, (SELECT sum(pg_table_size(leaf.oid)) FROM leaf)::text,\n"
			      "       (current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on')::text,\n" LEAVES(
				      "format('ALTER TABLE %s RESET (autovacuum_enabled)', leaf.oid::regclass)",
				      "EXISTS (SELECT FROM pg_options_to_table(leaf.reloptions) WHERE option_name = 'autovacuum_enabled'\n"
				      "                 AND NOT option_value::boolean)")
				      LEAVES("format('ALTER TABLE %s SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01,'\n"
					     "          ' autovacuum_vacuum_cost_delay = 0)', leaf.oid::regclass)",
					     LACKS("fillfactor") " OR " LACKS("autovacuum_vacuum_scale_factor"))
					      LEAVES("format('VACUUM (ANALYZE) %s', leaf.oid::regclass)",
						     "leaf.dead > 10000 AND leaf.dead > leaf.live") "       EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid\n"
												    "                WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'\n"
												    "                  AND (position(convert_to($7::text, 'UTF8') IN t.tgargs) > 0 OR strpos(p.prosrc, $7::text) > 0))::text,\n"
												    "       " DEFAULT_OF("$6") ",\n       " DEFAULT_OF(
													    "$5") "\n"
														  "  FROM pg_class c WHERE c.oid = to_regclass($1::text)",
	.n_params = SQLCHECK_VALUES,
};

void sqlcheck_table_values(const struct config_source *source, const struct sql *sql, const struct buf *table,
			   struct slice values[SQLCHECK_VALUES])
{
	enum config_column finished = sql_has_column(sql, COLUMN_SETTLED_AT) ? COLUMN_SETTLED_AT : COLUMN_STATUS;
	const char *event_id = source->columns[COLUMN_EVENT_ID];

	values[SQLCHECK_TABLE] = (struct slice){table->bytes, table->len};
	values[SQLCHECK_DUE] = slice_of(source->columns[COLUMN_AVAILABLE_AT]);
	values[SQLCHECK_FINISHED] = slice_of(source->columns[finished]);
	values[SQLCHECK_ID] = slice_of(source->columns[COLUMN_ID]);
	values[SQLCHECK_ORDER] = slice_of(source->columns[COLUMN_ORDER]);
	values[SQLCHECK_EVENT_ID] = slice_of(event_id == NULL ? "" : event_id);
	values[SQLCHECK_CHANNEL] = slice_of(source->notify == NULL ? "" : source->notify);
}

/* ---- what a CHECK constraint refuses ---- */

const struct sql_statement sqlcheck_constraints = {
	.kind = SQL_INSPECT,
	.text = "SELECT n.conname::text, pg_get_expr(n.conbin, n.conrelid)\n"
		"  FROM pg_constraint n JOIN pg_attribute k ON k.attrelid = n.conrelid AND k.attname = $2::text\n"
		" WHERE n.conrelid = to_regclass($1::text) AND n.contype = 'c' AND n.conkey = ARRAY[k.attnum] ORDER BY 1",
	.n_params = 2,
};

/* The condition is the table owner's, and runs at each UPDATE anyway. NULL is no refusal. */
void sqlcheck_ask_states(const struct config_source *source, const struct sql_column_facts *status,
			 struct slice condition, struct buf *out)
{
	int state;

	buf_add_string(out, "SELECT s.outboxd_label FROM (VALUES ");
	for (state = 0; state < CONFIG_STATES; state++) {
		buf_add_string(out, state > 0 ? ", (" : "(");
		sqltext_literal(out, source->states[state]);
		buf_print(out, "::%s, ", status->type);
		sqltext_literal(out, source->states[state]);
		buf_add_string(out, "::text)");
	}
	buf_add_string(out, ") s (");
	sqltext_identifier(out, status->name);
	buf_add_string(out, ", outboxd_label) WHERE (");
	buf_add(out, condition.bytes, condition.len);
	buf_add_string(out, ") IS FALSE");
}

void sqlcheck_allow_state(const struct config_source *source, const struct sql_column_facts *status,
			  struct slice constraint, struct slice condition, struct slice state, struct buf *out)
{
	struct buf name = {0}, label = {0};

	buf_add(&name, constraint.bytes, constraint.len);
	buf_add(&label, state.bytes, state.len);
	buf_add_string(out, "ALTER TABLE ");
	if (!sql_table_name(source->table, out, NULL))
		buf_add_string(out, source->table);
	buf_add_string(out, " DROP CONSTRAINT ");
	sqltext_identifier(out, buf_text(&name));
	buf_add_string(out, ", ADD CONSTRAINT ");
	sqltext_identifier(out, buf_text(&name));
	buf_print(out, " CHECK ((%.*s) OR ", (int)condition.len, condition.bytes);
	sqltext_identifier(out, status->name);
	buf_add_string(out, " = ");
	sqltext_literal(out, buf_text(&label));
	buf_add_char(out, ')');
	buf_free(&name);
	buf_free(&label);
}

/* ---- rows ---- */

#define SAMPLE "10000"
#define LARGEST "20"

/* Payloads are read of the largest alone, by what they take in the table. */
const struct sqltext_part sqlcheck_survey[] = {
	{0, 0,
	 "WITH front AS MATERIALIZED (\n"
	 "  SELECT {p.r} AS r, pg_column_size({p.payload}) AS size, {p.status}::text AS status,"},
	{SQLTEXT_HAS(COLUMN_LEASE_OWNER), 0, "         {p.lease_owner}::text AS owner"},
	{0, SQLTEXT_HAS(COLUMN_LEASE_OWNER), "         NULL::text AS owner"},
	{0, 0,
	 "    FROM {table} p WHERE {p.unfinished} ORDER BY {p.due}, {p.order} LIMIT " SAMPLE "),\n"
	 "newest AS MATERIALIZED (\n"
	 "  SELECT {p.status}::text AS status FROM {table} p ORDER BY {p.order} DESC LIMIT " SAMPLE "),\n"
	 "large AS MATERIALIZED (SELECT r FROM front ORDER BY size DESC NULLS LAST LIMIT " LARGEST "),\n"
	 "strange AS (\n"
	 "  SELECT status FROM front UNION SELECT status FROM newest)\n"
	 "SELECT coalesce((SELECT max(octet_length({p.value})) FROM {table} p WHERE {p.r} = ANY (ARRAY(SELECT r FROM large))), 0)::text,\n"
	 "       (SELECT coalesce(json_agg(status ORDER BY status), '[]')::text FROM strange\n"
	 "         WHERE status IS NULL OR status NOT IN ({pending}::text, {in_flight}::text, {sent}::text, {failed}::text)),\n"
	 "       (SELECT coalesce(json_agg(DISTINCT owner), '[]')::text FROM front\n"
	 "         WHERE status = {in_flight}::text AND owner IS NOT NULL)"},
	{0, 0, NULL},
};

/* ---- answers ---- */

struct answer {
	sql_cell_fn *cell;
	const void *result;
	struct arena *arena;
};

static const char *text_of(const struct answer *answer, int column)
{
	struct slice cell = answer->cell(answer->result, 0, column);

	return cell.bytes == NULL ? NULL : arena_copy_bytes(answer->arena, cell.bytes, cell.len);
}

static bool is_true(const struct answer *answer, int column)
{
	struct slice cell = answer->cell(answer->result, 0, column);

	return cell.len > 0 && cell.bytes[0] == 't';
}

static int64_t number_of(const struct answer *answer, int column)
{
	const char *text = text_of(answer, column);

	return text == NULL ? 0 : strtoll(text, NULL, 10);
}

void sqlcheck_read_server(struct check_server *server, sql_cell_fn *cell, const void *result, struct arena *arena)
{
	const struct answer answer = {cell, result, arena};

	*server = (struct check_server){
		.version = text_of(&answer, VERSION),
		.standby = is_true(&answer, STANDBY),
		.read_only = is_true(&answer, READ_ONLY),
		.jit = is_true(&answer, JIT),
		.jit_applies = is_true(&answer, JIT_APPLIES),
		.clock_us = number_of(&answer, CLOCK),
		.snapshot_age = number_of(&answer, SNAPSHOT_AGE),
		.holder = text_of(&answer, HOLDER),
		.holder_cure = text_of(&answer, HOLDER_CURE),
	};
}

void sqlcheck_read_table(struct check_table *table, sql_cell_fn *cell, const void *result, struct arena *arena)
{
	const struct answer answer = {cell, result, arena};

	*table = (struct check_table){
		.has_due_index = is_true(&answer, DUE_INDEX),
		.unique_id = is_true(&answer, UNIQUE_ID),
		.unique_order = is_true(&answer, UNIQUE_ORDER),
		.invalid_cure = text_of(&answer, INVALID),
		.rows = number_of(&answer, ROWS),
		.bytes = number_of(&answer, BYTES),
		.autovacuum = is_true(&answer, AUTOVACUUM),
		.vacuum_cure = text_of(&answer, VACUUM_CURE),
		.settings_cure = text_of(&answer, SETTINGS_CURE),
		.bloat_cure = text_of(&answer, BLOAT_CURE),
		.notifies = is_true(&answer, NOTIFIES),
		.event_id_default = text_of(&answer, EVENT_ID_DEFAULT),
		.order_default = text_of(&answer, ORDER_DEFAULT),
	};
}

void sqlcheck_read_rows(struct check_rows *rows, sql_cell_fn *cell, const void *result, struct arena *arena)
{
	const struct answer answer = {cell, result, arena};

	*rows = (struct check_rows){
		.largest_bytes = number_of(&answer, SQL_SURVEYED_LARGEST),
		.states = text_of(&answer, SQL_SURVEYED_STATES),
		.owners = text_of(&answer, SQL_SURVEYED_OWNERS),
	};
}
