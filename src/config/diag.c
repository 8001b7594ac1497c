#include "config/diag.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void diag_add(struct diag *diag, int line, int column, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (size_t i = 0; i < diag->n_lines; i++)
		if (diag->lines[i].line == line && diag->lines[i].column == column &&
		    strcmp(diag->lines[i].text, text) == 0)
			return;
	diag->lines = mem_resize(diag->lines, diag->n_lines + 1, sizeof(*diag->lines));
	diag->lines[diag->n_lines] = (struct diag_line){
		.line = line, .column = column, .order = diag->n_lines, .text = mem_copy_string(text)};
	diag->n_lines++;
}

static int compare(const void *left, const void *right)
{
	const struct diag_line *a = left, *b = right;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	if (a->column != b->column)
		return a->column < b->column ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

void diag_print(struct diag *diag, struct buf *out)
{
	if (diag->n_lines > 0)
		qsort(diag->lines, diag->n_lines, sizeof(*diag->lines), compare);
	for (size_t i = 0; i < diag->n_lines; i++)
		buf_print(out, "%s:%d:%d: %s\n", diag->file, diag->lines[i].line, diag->lines[i].column,
			  diag->lines[i].text);
}

void diag_free(struct diag *diag)
{
	for (size_t i = 0; i < diag->n_lines; i++)
		mem_free(diag->lines[i].text);
	mem_free(diag->lines);
	*diag = (struct diag){.file = diag->file};
}
