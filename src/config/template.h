/* template: text with {column} in it, as topic and headers are written; {{ and }} are braces.
 * It knows nothing of rows: core/route.c fills it in. */
#ifndef OUTBOXD_CONFIG_TEMPLATE_H
#define OUTBOXD_CONFIG_TEMPLATE_H

#include "base/err.h"
#include "base/mem.h"

/* A piece is literal text or a column's name, never both. */
struct template_piece {
	const char *literal; /* NULL for a column */
	const char *column;  /* NULL for literal text */
};

/* It takes the name for C++'s keyword: */
/* clang-format off */
struct template {
	struct template_piece *pieces;
	size_t n_pieces;
};
/* clang-format on */

/* Takes the text apart; the pieces live in the arena. False and err (with the position in the text) when a brace is
 * left open, closed without being opened, or holds no name. */
bool template_parse(struct arena *arena, const char *text, struct template *out, struct err *err) must_check;

#endif
