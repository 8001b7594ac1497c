/* diff: in what two configurations differ, by the table of keys. It names settings and never shows their values. */
#ifndef OUTBOXD_CONFIG_DIFF_H
#define OUTBOXD_CONFIG_DIFF_H

#include "base/buf.h"
#include "config/config.h"

/* Each a list for people, "log.level, sources.orders.batch"; empty when there is none. */
struct diff {
	struct buf changed;	   /* settings; what sources inherit is named at the top only */
	struct buf restart;	   /* those of them that a reload cannot change */
	struct buf added, removed; /* names of sources */
};

/* diff is all zero, or of a comparison before, to which it adds. */
void diff_find(const struct config *before, const struct config *after, struct diff *diff);
void diff_free(struct diff *diff);

/* Where in the file a setting stands makes no difference. */
bool diff_same_source(const struct config_source *a, const struct config_source *b);
bool diff_same_postgres(const struct config_postgres *a, const struct config_postgres *b);
bool diff_same_kafka(const struct config_kafka *a, const struct config_kafka *b);

#endif
