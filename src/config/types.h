/* types: each type of the key table, read from text, printed, and described.
 * Sections and lists are not here: load.c and print.c walk them. */
#ifndef OUTBOXD_CONFIG_TYPES_H
#define OUTBOXD_CONFIG_TYPES_H

#include "base/buf.h"
#include "base/err.h"
#include "config/keys.h"

struct arena;

/* Reads text into the field at the key's place. False: err says what the text must be. */
bool types_parse(struct arena *arena, const struct key *key, const char *text, void *field,
		 struct err *err) must_check;

/* Sets a nullable field to none. */
void types_set_none(const struct key *key, void *field);

/* Appends the value as YAML; "~" when there is none. What is secret is hidden. */
void types_print(struct buf *out, const struct key *key, const void *field);

/* Appends text as a YAML scalar that config_load would read as the same text: quoted where needed, $ doubled. */
void types_print_text(struct buf *out, const char *text);

/* "duration", "one of key, none", ... */
void types_print_name(struct buf *out, const struct key *key);

/* Appends " from 100ms to 1d"; nothing for types without a range. */
void types_print_range(struct buf *out, const struct key *key);

#endif
