/* What the catalog said of a table: the rows of sql_inspect, whoever holds them, as struct sql_table_facts. */
#include "core/sql.h"

#include "base/mem.h"

/* The columns of sql_inspect. */
enum {
	SCHEMA,
	NAME,
	RELKIND,
	COLUMN,
	TYPE,
	BYTEA,
	NOT_NULL,
	MICROSECONDS,
	KEY_INDEX,
	MAY_DELETE,
	TELLS_COMPRESSION,
	MAY_SELECT_COLUMN,
	MAY_UPDATE_COLUMN,
	LABELS,
	ROLE,
	MAY_SELECT,
	POLICED,
	HIDDEN,
	UNCHANGEABLE
};

static char *copy(struct arena *arena, struct slice cell)
{
	return cell.bytes == NULL ? NULL : arena_copy_bytes(arena, cell.bytes, cell.len);
}

static bool is_true(struct slice cell)
{
	return cell.len > 0 && cell.bytes[0] == 't';
}

void sql_read_facts(struct sql_table_facts *facts, sql_cell_fn *cell, const void *result, size_t n_rows,
		    struct arena *arena)
{
	struct sql_column_facts *columns = arena_take(arena, n_rows, sizeof(*columns));
	int row;

	*facts = (struct sql_table_facts){
		.schema = copy(arena, cell(result, 0, SCHEMA)),
		.name = copy(arena, cell(result, 0, NAME)),
		.relkind = copy(arena, cell(result, 0, RELKIND))[0],
		.has_key_index = is_true(cell(result, 0, KEY_INDEX)),
		.may_delete = is_true(cell(result, 0, MAY_DELETE)),
		.tells_compression = is_true(cell(result, 0, TELLS_COMPRESSION)),
		.role = copy(arena, cell(result, 0, ROLE)),
		.may_select = is_true(cell(result, 0, MAY_SELECT)),
		.policed = is_true(cell(result, 0, POLICED)),
		.hidden = is_true(cell(result, 0, HIDDEN)),
		.unchangeable = is_true(cell(result, 0, UNCHANGEABLE)),
		.columns = columns,
		.n_columns = n_rows,
	};
	for (row = 0; row < (int)n_rows; row++)
		columns[row] = (struct sql_column_facts){
			.name = copy(arena, cell(result, row, COLUMN)),
			.type = copy(arena, cell(result, row, TYPE)),
			.bytea = is_true(cell(result, row, BYTEA)),
			.not_null = is_true(cell(result, row, NOT_NULL)),
			.microseconds = is_true(cell(result, row, MICROSECONDS)),
			.may_select = is_true(cell(result, row, MAY_SELECT_COLUMN)),
			.may_update = is_true(cell(result, row, MAY_UPDATE_COLUMN)),
			.labels = copy(arena, cell(result, row, LABELS)),
		};
}
