/* checkkafka: what the brokers tell about themselves and a source's topics, and what of it is worth a finding.
 * io/kafkacheck.h asks them. */
#ifndef OUTBOXD_CORE_CHECKKAFKA_H
#define OUTBOXD_CORE_CHECKKAFKA_H

#include "base/err.h"
#include "config/config.h"
#include "core/check.h"

#include <stdint.h>

enum check_link { CHECK_LINK_UP, CHECK_LINK_DOWN, CHECK_LINK_REFUSED };

struct check_brokers {
	enum check_link link;
	struct err err; /* why it is not up */
	int brokers;
	bool makes_topics;	   /* auto.create.topics.enable, as far as they tell */
	int64_t message_max_bytes; /* the producer's own limit */
};

struct check_topic {
	const char *name;
	bool exists, denied;
	int partitions, replicas; /* the fewest that a partition has */
	bool told;		  /* what follows was told; else err says why not */
	struct err err;
	int64_t max_message_bytes, min_in_sync;
	bool compacted;
};

/* The topic that a template without columns names, in the arena; NULL: it depends on the row. */
const char *checkkafka_static_topic(const char *template_text, struct arena *arena);

/* False: they cannot be asked for topics. */
bool checkkafka_brokers(struct check *check, const struct config_source *source,
			const struct check_brokers *brokers);

/* largest_bytes: of the payloads of open rows, as far as known. */
void checkkafka_topic(struct check *check, const struct config_source *source, const struct check_brokers *brokers,
		      const struct check_topic *topic, int64_t largest_bytes);

#endif
