#include "core/sqltext.h"

#include "base/mem.h"
#include "config/tablename.h"

#include <inttypes.h>

struct sql {
	struct arena *arena;
	struct sql_statement statements[SQL_KINDS];
	uint64_t has;
	enum sql_order order;
	const char *media_type;
	const char *due_index, *key_index;
};

/* A row a column. A view's key may have its index on the table below it; a table with inheritance children repeats ctids
 * as a partitioned one does, so it is called one; such rows are told apart by ctid, the system column -1, whose privilege comes with
 * that for the whole table. Rows are seen and changed when one policy lets the role read and one lets it update. The privilege to read the catalog is everybody's. */
const struct sql_statement sql_inspect = {
	.kind = SQL_INSPECT,
	.text = "SELECT n.nspname::text, c.relname::text,\n"
		"       CASE WHEN c.relkind = 'r' AND c.relhassubclass THEN 'p' ELSE c.relkind::text END,\n"
		"       a.attname::text, format_type(a.atttypid, a.atttypmod),\n"
		"       (base.oid = 'bytea'::regtype)::text, a.attnotnull::text,\n"
		"       (base.oid IN ('timestamptz'::regtype, 'timestamp'::regtype)\n"
		"         AND (CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END) IN (-1, 6))::text,\n"
		"       EXISTS (SELECT FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]\n"
		"                WHERE k.attname = $2::text AND i.indisvalid AND i.indrelid IN (\n"
		"                  SELECT c.oid UNION ALL\n"
		"                  SELECT d.refobjid FROM pg_rewrite r JOIN pg_depend d\n"
		"                    ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass\n"
		"                   WHERE r.ev_class = c.oid AND c.relkind = 'v'))::text,\n"
		"       has_table_privilege(c.oid, 'DELETE')::text,\n"
		"       (to_regprocedure('pg_catalog.pg_column_compression(\"any\")') IS NOT NULL)::text,\n"
		"       has_column_privilege(c.oid, a.attnum, 'SELECT')::text, has_column_privilege(c.oid, a.attnum, 'UPDATE')::text,\n"
		"       (SELECT to_json(array_agg(e.enumlabel::text))::text FROM pg_enum e WHERE e.enumtypid = base.oid),\n"
		"       quote_ident(current_user),\n"
		"       CASE WHEN c.relkind = 'r' THEN has_column_privilege(c.oid, (-1)::int2, 'SELECT')\n"
		"            ELSE has_any_column_privilege(c.oid, 'SELECT') END::text,\n"
		"       row_security_active(c.oid)::text,\n"
		"       (row_security_active(c.oid) AND 2 > (\n"
		"         SELECT (count(*) FILTER (WHERE p.polcmd IN ('r', '*')) > 0)::int + (count(*) FILTER (WHERE p.polcmd IN ('w', '*')) > 0)::int\n"
		"           FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive\n"
		"            AND EXISTS (SELECT FROM unnest(p.polroles) o WHERE o = 0 OR pg_has_role(o, 'USAGE'))))::text,\n"
		"       (c.relkind = 'v' AND pg_relation_is_updatable(c.oid, true) & 4 = 0)::text\n"
		"  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace\n"
		"  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped\n"
		"  JOIN pg_type t ON t.oid = a.atttypid\n"
		"  JOIN pg_type base ON base.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END\n"
		" WHERE c.oid = to_regclass($1::text) ORDER BY a.attnum",
	.params = {SQL_P_TABLE, SQL_P_KEY_COLUMN},
	.n_params = 2,
};

bool sql_table_name(const char *table, struct buf *out, struct err *err)
{
	struct tablename name;

	if (!tablename_parse(table, &name, err))
		return false;
	if (name.schema[0] != '\0') {
		sqltext_identifier(out, name.schema);
		buf_add_char(out, '.');
	}
	sqltext_identifier(out, name.name);
	return true;
}

/* A connection serves several sources, and a source may get another text when its table has changed: the name follows from
 * the text (FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/). */
static void name_statement(struct sql_statement *statement)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const char *at;

	for (at = statement->text; *at != '\0'; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	snprintf(statement->name, sizeof(statement->name), "outboxd_%016" PRIx64, hash);
}

/* What is sent again and again; the others are planned each time, so that the server keeps no plan for them. */
static bool is_frequent(enum sql_kind kind)
{
	return kind == SQL_CLAIM || kind == SQL_CLAIM_FAR || kind == SQL_SETTLE_SENT || kind == SQL_SETTLE;
}

/* Statements that are made of the same parts. */
static uint64_t flag_of(enum sql_kind kind)
{
	switch (kind) {
	case SQL_CLAIM_FAR:
		return SQLTEXT_FAR;
	case SQL_PICK_KEY:
		return SQLTEXT_BY_KEY;
	case SQL_PICK_SKIP:
	case SQL_SKIP:
		return SQLTEXT_SKIP;
	case SQL_UNPARK:
		return SQLTEXT_UNPARK;
	default:
		return 0;
	}
}

static void build(struct sql *sql, const struct sqltext *text, enum sql_kind kind, const struct sqltext_part *parts)
{
	struct sqltext dialect = *text;
	struct sql_statement *statement = &sql->statements[kind];

	dialect.has |= flag_of(kind);
	statement->kind = kind;
	sqltext_build(&dialect, parts, sql->arena, statement);
	if (is_frequent(kind))
		name_statement(statement);
}

/* await: claims of a table go one after the other, or two of them would each fill up what both find free. What the second
 * counts must be read after the first has committed: so this is a statement of its own, and a lock that ends with the
 * transaction, as poolers want it. The number is "outb". */
static const char *await_turn(const struct sqltext *text, struct arena *arena)
{
	struct buf sql = {0};
	const char *copy;

	buf_add_string(&sql, "SELECT pg_advisory_xact_lock(1869968482, ");
	sqltext_literal(&sql, text->table);
	buf_add_string(&sql, "::regclass::oid::integer)");
	copy = arena_copy_string(arena, buf_text(&sql));
	buf_free(&sql);
	return copy;
}

static void build_await(struct sql *sql, const struct sqltext *text)
{
	build(sql, text, SQL_EXPIRE, sqlawait_expire);
	build(sql, text, SQL_SETTLE_SENT, sqlawait_dispatched);
	build(sql, text, SQL_SETTLE, sqlawait_settle);
	sql->statements[SQL_CLAIM].before = await_turn(text, sql->arena);
	sql->statements[SQL_CLAIM_FAR].before = sql->statements[SQL_CLAIM].before;
}

static void build_endings(struct sql *sql, const struct sqltext *text)
{
	build(sql, text, SQL_EXPIRE, sqlsettle_expire);
	build(sql, text, SQL_SETTLE_SENT, sqlsettle_sent);
	build(sql, text, SQL_SETTLE, sqlsettle_settle);
}

static void build_all(struct sql *sql, const struct sqltext *text)
{
	build(sql, text, SQL_CLAIM, sqlclaim_claim);
	build(sql, text, SQL_CLAIM_FAR, sqlclaim_claim);
	build(sql, text, SQL_SUSPECT, sqlclaim_suspect);
	if ((text->has & SQLTEXT_AWAIT) != 0)
		build_await(sql, text);
	else
		build_endings(sql, text);
	build(sql, text, SQL_SWEEP, sqlsettle_sweep);
	build(sql, text, SQL_COUNT, sqlcount_count);
	build(sql, text, SQL_PICK_FAILED, sqlcommand_pick);
	build(sql, text, SQL_PICK_KEY, sqlcommand_pick);
	build(sql, text, SQL_PICK_RETRY, sqlcommand_named);
	build(sql, text, SQL_PICK_SKIP, sqlcommand_named);
	build(sql, text, SQL_RETRY, sqlcommand_change);
	build(sql, text, SQL_SKIP, sqlcommand_change);
	build(sql, text, SQL_UNPARK, sqlsettle_sweep);
	build(sql, text, SQL_TRY, sqlclaim_try);
	build(sql, text, SQL_SURVEY, sqlcheck_survey);
	sql->statements[SQL_INSPECT] = sql_inspect;
}

/* A partitioned table takes no CONCURRENTLY. */
static const char *make_index(struct sql *sql, const struct sqltext *text, const char *columns)
{
	struct buf index = {0};
	const char *copy;

	buf_add_string(&index,
		       (text->has & SQLTEXT_PLAIN) != 0 ? "CREATE INDEX CONCURRENTLY ON " : "CREATE INDEX ON ");
	sqltext_expand(text, columns, &index);
	copy = arena_copy_string(sql->arena, buf_text(&index));
	buf_free(&index);
	return copy;
}

struct sql *sql_new(const struct config_source *source, const struct sql_table_facts *facts,
		    const struct sql_templates *templates, struct err *err)
{
	struct sql *sql = MEM_NEW(struct sql);
	struct sqltext text;

	sql->arena = arena_new();
	if (!sqltext_fit(&text, source, facts, templates, sql->arena, err)) {
		sql_free(sql);
		return NULL;
	}
	build_all(sql, &text);
	sql->has = text.has;
	sql->order = text.order;
	sql->due_index = make_index(sql, &text, "{table} ({due}, {order}) WHERE {unfinished}");
	if (sql_has_column(sql, COLUMN_KEY))
		sql->key_index = make_index(sql, &text, "{table} ({key}, {order}) WHERE {key_range}");
	sql->media_type = text.media_type;
	return sql;
}

void sql_free(struct sql *sql)
{
	if (sql == NULL)
		return;
	arena_free(sql->arena);
	mem_free(sql);
}

const struct sql_statement *sql_statement(const struct sql *sql, enum sql_kind kind)
{
	return &sql->statements[kind];
}

bool sql_has_column(const struct sql *sql, enum config_column column)
{
	return (sql->has & SQLTEXT_HAS(column)) != 0;
}

bool sql_may_skip(const struct sql *sql)
{
	return sql_has_column(sql, COLUMN_SETTLED_AT) || sql_has_column(sql, COLUMN_LAST_ERROR);
}

const char *sql_media_type(const struct sql *sql)
{
	return sql->media_type;
}

const char *sql_due_index(const struct sql *sql)
{
	return sql->due_index;
}

const char *sql_key_index(const struct sql *sql)
{
	return sql->key_index;
}

enum sql_order sql_order(const struct sql *sql)
{
	return sql->order;
}
