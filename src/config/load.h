/* load: fills a config from the tree of a file by the key table. The rules between settings are in rules.c. */
#ifndef OUTBOXD_CONFIG_LOAD_H
#define OUTBOXD_CONFIG_LOAD_H

#include "base/mem.h"
#include "config/config.h"
#include "config/keys.h"
#include "config/yamltree.h"

/* One file being loaded. What is allocated lives in the config's arena; the tree in one of its own. */
struct load {
	struct config *config;
	struct diag *diag;
	struct yamltree_node *root;
	const struct config_judge *judge;
};

/* Loads everything; mistakes go to diag. */
void load_file(struct load *load);

/* The text of a scalar, expanded, in the config's arena; NULL when it was refused (told to diag). path and name together
 * are the setting's name, for messages. */
const char *load_text(struct load *load, struct yamltree_node *node, const char *path, const char *name) must_check;

/* Adds what the map says to kafka's properties: same names are replaced. The old array stays as it is. */
void load_properties(struct load *load, struct yamltree_node *map, struct config_kafka *kafka);

/* Sets a key to a default of the program's own. */
void load_default(struct load *load, const struct key *key, const char *text, void *base);

/* Where a mistake is, or is not: line 0 says that the file does not have the key. */
struct load_place {
	int line, column;
	bool refused;
};

/* The value's place; node may be NULL. */
struct load_place load_place(const struct yamltree_node *node);

/* Reports a conflict between two settings at the later one that is there, or at `otherwise`; nothing when one of the two
 * was refused already. */
void load_conflict(struct load *load, struct load_place a, struct load_place b, struct load_place otherwise,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
