#include "command.h"

#include "base/mem.h"

#include <string.h>

#define MOST_PICKED 100000

static enum sql_kind pick_kind(const struct command *command)
{
	if (command->ids != NULL)
		return command->skip ? SQL_PICK_SKIP : SQL_PICK_RETRY;
	return command->key != NULL ? SQL_PICK_KEY : SQL_PICK_FAILED;
}

static struct slice split(struct pgarray *array, const char *words)
{
	char *copy = mem_copy_string(words == NULL ? "" : words), *rest = copy, *word;

	pgarray_begin(array, PGOID_TEXT);
	while ((word = strsep(&rest, " ")) != NULL)
		if (word[0] != '\0')
			pgarray_add_bytes(array, slice_of(word));
	mem_free(copy);
	return pgarray_end(array);
}

static struct slice take_ids(struct pgarray *array, const PGresult *picked, int from, int n)
{
	pgarray_begin(array, PGOID_TEXT);
	for (int row = from; row < from + n && row < PQntuples(picked); row++)
		pgarray_add_bytes(array, server_cell(picked, row, SQL_PICKED_ID));
	return pgarray_end(array);
}

PGresult *command_pick(PGconn *conn, const struct sql *sql, const struct command *command)
{
	struct server_values values = {0};
	struct pgarray ids = {0};
	PGresult *result;
	char limit[4], named[4];

	values.values[SQL_P_IDS] = split(&ids, command->ids);
	values.values[SQL_P_NAMED] = pg_put_int4(named, command->ids != NULL);
	values.values[SQL_P_LIMIT] = pg_put_int4(limit, MOST_PICKED);
	values.values[SQL_P_KEY] = slice_of(command->key);
	values.values[SQL_P_ERROR] = slice_of(command->error);
	result = server_execute(conn, sql_statement(sql, pick_kind(command)), NULL, &values);
	pgarray_free(&ids);
	return result;
}

PGresult *command_change(PGconn *conn, const struct sql *sql, const struct command *command, const char *text,
			 const PGresult *picked, int from, int n)
{
	struct server_values values = {0};
	struct pgarray ids = {0};
	PGresult *result;
	char named[4];

	values.values[SQL_P_IDS] = take_ids(&ids, picked, from, n);
	values.values[SQL_P_NAMED] = pg_put_int4(named, command->ids != NULL);
	values.values[SQL_P_ERROR] = slice_of(command->error);
	values.values[SQL_P_REASON] = slice_of(command->reason);
	result = server_add(conn, sql_statement(sql, command->skip ? SQL_SKIP : SQL_RETRY), text, &values);
	pgarray_free(&ids);
	return result;
}

PGresult *command_unpark(PGconn *conn, const struct sql *sql, const PGresult *changed)
{
	struct pgarray keys = {0}, untils = {0};
	struct server_values values = {0};
	PGresult *result;

	pgarray_begin(&keys, PGOID_TEXT);
	pgarray_begin(&untils, PGOID_TIMESTAMPTZ);
	for (int row = 0; row < PQntuples(changed); row++) {
		if (PQgetisnull(changed, row, SQL_CHANGED_KEY))
			continue;
		pgarray_add_bytes(&keys, server_cell(changed, row, SQL_CHANGED_KEY));
		pgarray_add_bytes(&untils, server_cell(changed, row, SQL_CHANGED_UNTIL));
	}
	values.values[SQL_P_KEYS] = pgarray_end(&keys);
	values.values[SQL_P_UNTILS] = pgarray_end(&untils);
	result = server_add(conn, sql_statement(sql, SQL_UNPARK), NULL, &values);
	pgarray_free(&keys);
	pgarray_free(&untils);
	return result;
}
