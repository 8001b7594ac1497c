/* keys: the table of all settings. Parsing, defaults, ranges, `config`, `config --reference` and the documentation come
 * from it; a setting is added by adding its row. */
#ifndef OUTBOXD_CONFIG_KEYS_H
#define OUTBOXD_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a value is written, and what stands at the key's offset. */
enum key_type {
	KEY_TEXT,	/* const char * */
	KEY_DSN,	/* const char *; may be empty; its password is never printed */
	KEY_NAME,	/* const char *: [a-z0-9_-]+ */
	KEY_TABLE,	/* const char *: see tablename.h */
	KEY_IDENTIFIER, /* const char *: a name of PostgreSQL's as it is, at most 63 bytes */
	KEY_TEMPLATE,	/* const char *: see template.h */
	KEY_CONDITION,	/* const char *: see condition.h */
	KEY_CHOICE,	/* const char *: one of words */
	KEY_WORD,	/* an enum: the number of one of words */
	KEY_INTEGER,	/* int64_t; of a nullable quantity 0 is none */
	KEY_NUMBER,	/* double */
	KEY_DURATION,	/* int64_t in microseconds */
	KEY_SIZE,	/* int64_t in bytes */
	KEY_LISTEN,	/* struct config_http */
	KEY_HEADERS,	/* struct config_header * and, in the member behind, their number: a map of templates */
	KEY_PROPERTIES, /* struct config_property * and, in the member behind, their number: a map of texts */
	KEY_SECTION,	/* what the rows of .section say, their offsets from here on */
	KEY_SOURCES	/* struct config_source * and, in the member behind, their number: a list of .section */
};

enum key_flag {
	KEY_NULLABLE = 1, /* ~ is a value: none */
	KEY_RESTART = 2	  /* a reload does not change it */
};

struct section;

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
	const char *standard; /* the default, as a file would say it; NULL: none */
	const char *derived;  /* what the default is where it depends on other keys; for people */
	int64_t min, max;
	const char *const *words; /* ends with NULL */
	const struct section *section;
	unsigned flags;
	const char *sentence;
};

struct section {
	const char *path; /* "" at the top, else with the dot that goes before a key: "sources[].retry." */
	const struct key *keys;
	size_t n_keys;
};

extern const struct section keys_top, keys_source;

/* NULL when there is none of that name. */
const struct key *keys_find(const struct section *section, const char *name);

/* The key that somebody who wrote `name` here probably meant: one of that very name elsewhere (then *elsewhere is its
 * section, otherwise NULL), else one of this section that is spelt nearly so. NULL: no idea. */
const struct key *keys_nearest(const struct section *section, const char *name, const struct section **elsewhere);

/* The path as messages have it: without "sources[].". */
const char *keys_short_path(const struct section *section);

#endif
