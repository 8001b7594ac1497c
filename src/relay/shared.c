#include "relay/shared.h"

#include "base/mem.h"
#include "config/diff.h"
#include "io/db.h"
#include "io/listener.h"
#include "relay/source.h"

#define DATABASE(node) LIST_OWNER(node, struct shared_database, node)
#define BROKER(node) LIST_OWNER(node, struct shared_broker, node)

void shared_init(struct shared *shared, struct ev_loop *loop)
{
	shared->loop = loop;
	list_init(&shared->databases);
	list_init(&shared->brokers);
}

/* ---- databases ---- */

static struct shared_database *find_database(struct shared *shared, const struct config_postgres *settings)
{
	struct list_node *node;

	for (node = list_first(&shared->databases); node != NULL; node = list_next(&shared->databases, node))
		if (diff_same_postgres(DATABASE(node)->settings, settings))
			return DATABASE(node);
	return NULL;
}

struct shared_database *shared_join_database(struct shared *shared, struct config *config,
					     const struct config_source *source)
{
	struct shared_database *database = find_database(shared, &source->postgres);

	if (database == NULL) {
		database = MEM_NEW(struct shared_database);
		database->settings = &source->postgres;
		database->config = config_share(config);
		database->pool = dbpool_new(shared->loop, database->settings);
		list_append(&shared->databases, &database->node);
	}
	database->users++;
	return database;
}

void shared_leave_database(struct shared *shared, struct shared_database *database)
{
	if (--database->users > 0)
		return;
	list_remove(&shared->databases, &database->node);
	listener_free(database->listener);
	dbpool_free(database->pool);
	config_free(database->config);
	mem_free(database);
}

static void on_wake(void *context)
{
	source_wake(context);
}

void shared_listen(struct shared *shared, struct shared_database *database, struct source *source)
{
	const struct config_source *config = source_config(source);

	if (config->notify == NULL)
		return;
	if (database->listener == NULL)
		database->listener = listener_new(shared->loop, database->settings, database->pool);
	listener_add(database->listener, config->notify, config->name, on_wake, source);
	database->listening++;
}

void shared_unlisten(struct shared_database *database, struct source *source)
{
	if (source_config(source)->notify == NULL)
		return;
	listener_remove(database->listener, source);
	if (--database->listening > 0)
		return;
	listener_free(database->listener);
	database->listener = NULL;
}

bool shared_listens(const struct shared_database *database, const struct source *source)
{
	return source_config(source)->notify != NULL && listener_active(database->listener);
}

/* ---- brokers ---- */

static struct shared_broker *find_broker(struct shared *shared, const struct config_kafka *settings, bool gapless)
{
	struct list_node *node;

	for (node = list_first(&shared->brokers); node != NULL; node = list_next(&shared->brokers, node))
		if (BROKER(node)->gapless == gapless && diff_same_kafka(BROKER(node)->settings, settings))
			return BROKER(node);
	return NULL;
}

static struct shared_broker *new_broker(struct shared *shared, struct config *config,
					const struct config_kafka *settings, bool gapless)
{
	struct shared_broker *broker = MEM_NEW(struct shared_broker);

	broker->settings = settings;
	broker->config = config_share(config);
	broker->gapless = gapless;
	broker->kafka =
		kafka_new(shared->loop, settings, gapless ? KAFKA_GAPLESS : KAFKA_PLAIN, source_on_kafka_answer);
	if (gapless)
		broker->careful = kafka_new(shared->loop, settings, KAFKA_CAREFUL, source_on_kafka_answer);
	broker->single = kafka_new(shared->loop, settings, KAFKA_SINGLE, source_on_kafka_answer);
	list_append(&shared->brokers, &broker->node);
	return broker;
}

struct shared_broker *shared_join_broker(struct shared *shared, struct config *config,
					 const struct config_source *source)
{
	bool gapless = source_wants_gapless(source);
	struct shared_broker *broker = find_broker(shared, &source->kafka, gapless);

	if (broker == NULL)
		broker = new_broker(shared, config, &source->kafka, gapless);
	broker->users++;
	return broker;
}

void shared_leave_broker(struct shared *shared, struct shared_broker *broker)
{
	if (--broker->users > 0)
		return;
	list_remove(&shared->brokers, &broker->node);
	kafka_free(broker->kafka);
	kafka_free(broker->careful);
	kafka_free(broker->single);
	config_free(broker->config);
	mem_free(broker);
}

uint64_t shared_replacements(const struct shared_broker *broker, enum kafka_replacement reason)
{
	return kafka_replacements(broker->kafka, reason) + kafka_replacements(broker->careful, reason) +
	       kafka_replacements(broker->single, reason);
}

/* ---- all of them ---- */

void shared_purge(struct shared *shared)
{
	struct list_node *node;

	for (node = list_first(&shared->brokers); node != NULL; node = list_next(&shared->brokers, node)) {
		kafka_purge(BROKER(node)->kafka, true);
		kafka_purge(BROKER(node)->careful, true);
		kafka_purge(BROKER(node)->single, true);
	}
}

void shared_free(struct shared *shared)
{
	struct list_node *node;

	while ((node = list_first(&shared->brokers)) != NULL) {
		BROKER(node)->users = 1;
		shared_leave_broker(shared, BROKER(node));
	}
	while ((node = list_first(&shared->databases)) != NULL) {
		DATABASE(node)->users = 1;
		shared_leave_database(shared, DATABASE(node));
	}
}
