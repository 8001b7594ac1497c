/* The privileges that relaying takes, column by column, and the statement that grants those that are missing. */
#include "core/sqlschema.h"

#include "base/mem.h"

#include <string.h>

static bool is_written(const struct config_source *source, const char *column)
{
	const char *mapped;
	size_t i;

	for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {
		mapped = source->columns[sqlschema_columns[i].role];
		if (sqlschema_columns[i].control && mapped != NULL && strcmp(mapped, column) == 0)
			return true;
	}
	return false;
}

static bool is_read(const struct config_source *source, const struct sql_templates *templates, const char *column)
{
	size_t i;
	int role;

	for (role = 0; role < CONFIG_COLUMNS; role++) {
		if (source->columns[role] != NULL && strcmp(source->columns[role], column) == 0)
			return true;
	}
	for (i = 0; templates != NULL && i < templates->n_columns; i++) {
		if (strcmp(templates->columns[i], column) == 0)
			return true;
	}
	return false;
}

static void add_column(struct buf *list, const char *name)
{
	buf_add_string(list, list->len > 0 ? ", " : "");
	sqltext_identifier(list, name);
}

/* "SELECT, UPDATE (...)": begins with a comma behind the first. */
static void add_privilege(struct buf *grant, const char *privilege, const struct buf *columns)
{
	buf_print(grant, "%s%s", grant->len > 0 ? ", " : "", privilege);
	if (columns != NULL)
		buf_print(grant, " (%s)", buf_text(columns));
}

static void find_missing(const struct config_source *source, const struct sql_table_facts *facts,
			 const struct sql_templates *templates, struct buf *grant)
{
	struct buf select = {0}, update = {0};
	size_t i;

	for (i = 0; i < facts->n_columns; i++) {
		const struct sql_column_facts *column = &facts->columns[i];

		if (!column->may_select && is_read(source, templates, column->name))
			add_column(&select, column->name);
		if (!column->may_update && is_written(source, column->name))
			add_column(&update, column->name);
	}
	if (!facts->may_select)
		add_privilege(grant, "SELECT", NULL);
	else if (select.len > 0)
		add_privilege(grant, "SELECT", &select);
	if (update.len > 0)
		add_privilege(grant, "UPDATE", &update);
	if (source->on_delivered == ON_DELIVERED_DELETE && !facts->may_delete)
		add_privilege(grant, "DELETE", NULL);
	buf_free(&select);
	buf_free(&update);
}

bool sql_check_grants(const struct config_source *source, const struct sql_table_facts *facts,
		      const struct sql_templates *templates, struct err *err)
{
	struct buf grant = {0}, table = {0};
	bool good;

	find_missing(source, facts, templates, &grant);
	good = grant.len == 0;
	if (!good && sql_table_name(source->table, &table, NULL))
		err_set(err, "role %s lacks privileges on %s: GRANT %s ON %s TO %s", facts->role, source->table,
			buf_text(&grant), buf_text(&table), facts->role);
	buf_free(&grant);
	buf_free(&table);
	return good;
}
