/* shared: what sources with the same settings share: one pool and one listener for each distinct database, one producer, with
 * its spares, for each distinct Kafka configuration. Each is made with its first user and freed with its last. */
#ifndef OUTBOXD_RELAY_SHARED_H
#define OUTBOXD_RELAY_SHARED_H

#include "base/list.h"
#include "config/config.h"
#include "io/kafka.h"

struct dbpool;
struct ev_loop;
struct listener;
struct source;

struct shared_database {
	struct list_node node;
	size_t users;
	const struct config_postgres *settings;
	struct config *config; /* a share of the one that the settings stand in */
	struct dbpool *pool;
	struct listener *listener; /* NULL while nobody listens */
	size_t listening;
};

struct shared_broker {
	struct list_node node;
	size_t users;
	const struct config_kafka *settings;
	struct config *config;
	bool gapless;
	struct kafka *kafka;
	struct kafka *careful; /* beside a gapless one; else NULL */
	struct kafka *single;
};

struct shared {
	struct ev_loop *loop;
	struct list databases, brokers;
};

void shared_init(struct shared *shared, struct ev_loop *loop);

/* One user more of what has these settings, which stand in config. Never inside an answer. */
struct shared_database *shared_join_database(struct shared *shared, struct config *config,
					     const struct config_source *source);
struct shared_broker *shared_join_broker(struct shared *shared, struct config *config,
					 const struct config_source *source);

/* One user less, of whom nothing is outstanding there. Never inside an answer. */
void shared_leave_database(struct shared *shared, struct shared_database *database);
void shared_leave_broker(struct shared *shared, struct shared_broker *broker);

/* Wakes the source when its channel (if it has one) is notified, until shared_unlisten. */
void shared_listen(struct shared *shared, struct shared_database *database, struct source *source);
void shared_unlisten(struct shared_database *database, struct source *source);

/* Whether NOTIFY works for this source. */
bool shared_listens(const struct shared_database *database, const struct source *source);

/* Of all its producers. */
uint64_t shared_replacements(const struct shared_broker *broker, enum kafka_replacement reason);

/* Asks back all messages of all producers. */
void shared_purge(struct shared *shared);

/* The end, whoever still uses it: everything outstanding is answered, so that the sources must still be there. */
void shared_free(struct shared *shared);

#endif
