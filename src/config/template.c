#include "config/template.h"

#include "base/buf.h"

#include <string.h>

/* A parse under way. Pieces are counted first, for an arena cannot grow what it has given. */
struct parse {
	struct arena *arena;
	const char *text;
	struct template *out;
	struct buf literal;
};

static void add_piece(struct parse *parse, const char *literal, const char *column)
{
	parse->out->pieces[parse->out->n_pieces++] = (struct template_piece){.literal = literal, .column = column};
}

static void end_literal(struct parse *parse)
{
	if (parse->literal.len == 0)
		return;
	add_piece(parse, arena_copy_bytes(parse->arena, parse->literal.bytes, parse->literal.len), NULL);
	buf_clear(&parse->literal);
}

static size_t count_pieces_at_most(const char *text)
{
	size_t count = 1;

	for (; *text != '\0'; text++)
		count += *text == '{' ? 2 : 0;
	return count;
}

/* at is behind an opening brace. Returns what is behind the closing one, NULL when there is no name. */
static const char *column(struct parse *parse, const char *at, struct err *err)
{
	size_t len = strcspn(at, "{}");
	int position = (int)(at - parse->text);

	if (at[len] != '}') {
		err_set(err, "the brace at character %d is not closed ({{ is a brace itself)", position);
		return NULL;
	}
	if (len == 0) {
		err_set(err, "the braces at character %d hold no column name", position);
		return NULL;
	}
	end_literal(parse);
	add_piece(parse, NULL, arena_copy_bytes(parse->arena, at, len));
	return at + len + 1;
}

static bool pieces(struct parse *parse, struct err *err)
{
	const char *at = parse->text;

	while (*at != '\0') {
		if ((at[0] == '{' || at[0] == '}') && at[1] == at[0]) {
			buf_add_char(&parse->literal, at[0]);
			at += 2;
		} else if (at[0] == '}') {
			return err_set(err, "the brace at character %d was not opened (}} is a brace itself)",
				       (int)(at - parse->text) + 1);
		} else if (at[0] == '{') {
			at = column(parse, at + 1, err);
			if (at == NULL)
				return false;
		} else {
			buf_add_char(&parse->literal, *at++);
		}
	}
	end_literal(parse);
	return true;
}

bool template_parse(struct arena *arena, const char *text, struct template *out, struct err *err)
{
	struct parse parse = {.arena = arena, .text = text, .out = out};
	bool good;

	out->pieces = arena_take(arena, count_pieces_at_most(text), sizeof(*out->pieces));
	out->n_pieces = 0;
	good = pieces(&parse, err);
	buf_free(&parse.literal);
	return good;
}
