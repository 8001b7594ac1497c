#include "io/kafkatopics.h"

#include "base/hash.h"

/* Rows name their topics, so there may be any number of them. A handle that was dropped is made again cheaply. */
#define MOST_TOPICS 1000

struct topic {
	rd_kafka_topic_t *handle;
	char *name;
	UT_hash_handle hh;
};

struct kafkatopics {
	rd_kafka_t *rk;
	struct topic *table; /* by name */
};

struct kafkatopics *kafkatopics_new(rd_kafka_t *rk)
{
	struct kafkatopics *topics = MEM_NEW(struct kafkatopics);

	topics->rk = rk;
	return topics;
}

static void forget_all(struct kafkatopics *topics)
{
	struct topic *topic, *next;

	HASH_ITER (hh, topics->table, topic, next) {
		HASH_DEL(topics->table, topic);
		rd_kafka_topic_destroy(topic->handle);
		mem_free(topic->name);
		mem_free(topic);
	}
}

void kafkatopics_free(struct kafkatopics *topics)
{
	forget_all(topics);
	mem_free(topics);
}

rd_kafka_topic_t *kafkatopics_get(struct kafkatopics *topics, const char *name)
{
	rd_kafka_topic_t *handle;
	struct topic *topic;

	HASH_FIND_STR(topics->table, name, topic);
	if (topic != NULL)
		return topic->handle;
	handle = rd_kafka_topic_new(topics->rk, name, NULL);
	if (handle == NULL)
		return NULL;
	if (HASH_COUNT(topics->table) >= MOST_TOPICS)
		forget_all(topics);
	topic = MEM_NEW(struct topic);
	topic->handle = handle;
	topic->name = mem_copy_string(name);
	HASH_ADD_KEYPTR(hh, topics->table, topic->name, strlen(topic->name), topic);
	return handle;
}
