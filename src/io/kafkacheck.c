#include "io/kafkacheck.h"

#include "base/deadline.h"
#include "io/kafkaconf.h"

#include <stdlib.h>
#include <string.h>

#define STEP_MS 200

struct asking {
	rd_kafka_t *rk;
	rd_kafka_queue_t *events;
	int64_t until_ms;
	int timeout_ms;
	struct check_brokers *brokers;
	struct check_topic *topics;
	size_t n_topics;
	int32_t some_broker;
	bool silent; /* there is nobody to ask, or a question was not answered: others would not be */
};

/* ---- is anybody there? ---- */

static bool is_refusal(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED ||
	       code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

/* True: there is no need to wait any longer. That all are down is said after what is wrong with each, which tells more. */
static bool note_error(struct check_brokers *brokers, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t code = rd_kafka_event_error(event);

	if (is_refusal(code))
		brokers->link = CHECK_LINK_REFUSED;
	if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || brokers->err.text[0] == '\0')
		err_set(&brokers->err, "%s: %s", rd_kafka_err2name(code), rd_kafka_event_error_string(event));
	return is_refusal(code) || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
}

/* Events that have come; log lines say no more than the errors do. */
static bool hear_errors(struct asking *asking)
{
	rd_kafka_event_t *event;
	bool enough = false;

	while ((event = rd_kafka_queue_poll(asking->events, 0)) != NULL) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			enough = note_error(asking->brokers, event) || enough;
		rd_kafka_event_destroy(event);
	}
	return enough;
}

/* All topics: to ask for one by its name would make it where the brokers make topics on demand. */
static const struct rd_kafka_metadata *wait_for_metadata(struct asking *asking)
{
	const struct rd_kafka_metadata *metadata = NULL;
	bool enough = false;

	while (!enough && deadline_now_ms() < asking->until_ms) {
		if (rd_kafka_metadata(asking->rk, 1, NULL, &metadata, STEP_MS) == RD_KAFKA_RESP_ERR_NO_ERROR)
			return metadata;
		enough = hear_errors(asking);
	}
	if (asking->brokers->err.text[0] == '\0')
		err_set(&asking->brokers->err, "no answer within %d ms", asking->timeout_ms);
	return NULL;
}

/* Settings are the controller's to tell. One that is no broker, as librdkafka's mock cluster has it, would be waited for in vain. */
static bool has_controller(struct asking *asking, const struct rd_kafka_metadata *metadata)
{
	int32_t id = rd_kafka_controllerid(asking->rk, STEP_MS);
	int i;

	for (i = 0; i < metadata->broker_cnt; i++)
		if (metadata->brokers[i].id == id)
			return true;
	return false;
}

static void read_metadata(struct asking *asking, const struct rd_kafka_metadata *metadata)
{
	struct check_topic *topic;
	size_t i;
	int k, part;

	asking->brokers->link = CHECK_LINK_UP;
	asking->brokers->brokers = metadata->broker_cnt;
	asking->silent = !has_controller(asking, metadata);
	asking->some_broker = metadata->broker_cnt > 0 ? metadata->brokers[0].id : 0;
	for (i = 0; i < asking->n_topics; i++) {
		topic = &asking->topics[i];
		for (k = 0; k < metadata->topic_cnt && strcmp(metadata->topics[k].topic, topic->name) != 0; k++)
			;
		if (k == metadata->topic_cnt)
			continue;
		topic->exists = metadata->topics[k].err == RD_KAFKA_RESP_ERR_NO_ERROR;
		topic->partitions = metadata->topics[k].partition_cnt;
		for (part = 0; part < topic->partitions; part++)
			if (part == 0 || metadata->topics[k].partitions[part].replica_cnt < topic->replicas)
				topic->replicas = metadata->topics[k].partitions[part].replica_cnt;
	}
}

/* ---- settings ---- */

static const char *entry_of(const rd_kafka_ConfigResource_t *resource, const char *name)
{
	size_t n, i;
	const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &n);

	for (i = 0; i < n; i++)
		if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0)
			return rd_kafka_ConfigEntry_value(entries[i]);
	return NULL;
}

/* Waits for the answer about one resource, which the caller destroys; NULL and *code, *err: there is none. */
static rd_kafka_event_t *describe(struct asking *asking, rd_kafka_ResourceType_t type, const char *name,
				  rd_kafka_resp_err_t *code, struct err *err)
{
	rd_kafka_queue_t *answers = rd_kafka_queue_new(asking->rk);
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(asking->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(type, name);
	rd_kafka_event_t *event;

	rd_kafka_AdminOptions_set_request_timeout(options, asking->timeout_ms, NULL, 0);
	rd_kafka_DescribeConfigs(asking->rk, &resource, 1, options, answers);
	event = rd_kafka_queue_poll(answers, asking->timeout_ms);
	*code = event == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(event);
	asking->silent = asking->silent || *code == RD_KAFKA_RESP_ERR__TIMED_OUT;
	if (*code != RD_KAFKA_RESP_ERR_NO_ERROR) {
		err_set(err, "%s", event == NULL ? "no answer in time" : rd_kafka_event_error_string(event));
		if (event != NULL)
			rd_kafka_event_destroy(event);
		event = NULL;
	}
	rd_kafka_ConfigResource_destroy(resource);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_queue_destroy(answers);
	return event;
}

static const rd_kafka_ConfigResource_t *resource_of(rd_kafka_event_t *event)
{
	size_t n;
	const rd_kafka_ConfigResource_t **resources =
		rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n);

	return resources[0];
}

static int64_t number_of(const rd_kafka_ConfigResource_t *resource, const char *name)
{
	const char *value = entry_of(resource, name);

	return value == NULL ? 0 : strtoll(value, NULL, 10);
}

static void read_topic(struct check_topic *topic, const rd_kafka_ConfigResource_t *resource,
		       rd_kafka_resp_err_t code)
{
	const char *policy = entry_of(resource, "cleanup.policy");

	topic->told = code == RD_KAFKA_RESP_ERR_NO_ERROR;
	if (!topic->told)
		err_set(&topic->err, "%s", rd_kafka_err2str(code));
	/* Who may see a topic, but not its settings, has it in the list. */
	topic->denied = !topic->exists && code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
	topic->max_message_bytes = number_of(resource, "max.message.bytes");
	topic->min_in_sync = number_of(resource, "min.insync.replicas");
	topic->compacted = policy != NULL && strstr(policy, "compact") != NULL;
}

static void ask_topic(struct asking *asking, struct check_topic *topic)
{
	rd_kafka_resp_err_t code;
	rd_kafka_event_t *event = NULL;

	if (asking->silent)
		err_set(&topic->err, "the brokers name no controller, or have not answered before");
	else
		event = describe(asking, RD_KAFKA_RESOURCE_TOPIC, topic->name, &code, &topic->err);
	if (event == NULL)
		return;
	read_topic(topic, resource_of(event), rd_kafka_ConfigResource_error(resource_of(event)));
	rd_kafka_event_destroy(event);
}

static void ask_broker(struct asking *asking)
{
	char name[16];
	struct err err;
	rd_kafka_resp_err_t code;
	rd_kafka_event_t *event;
	const char *value;

	snprintf(name, sizeof(name), "%d", (int)asking->some_broker);
	event = describe(asking, RD_KAFKA_RESOURCE_BROKER, name, &code, &err);
	if (event == NULL)
		return;
	value = entry_of(resource_of(event), "auto.create.topics.enable");
	asking->brokers->makes_topics = value != NULL && strcmp(value, "true") == 0;
	rd_kafka_event_destroy(event);
}

static void ask_settings(struct asking *asking)
{
	bool missing = false;
	size_t i;

	for (i = 0; i < asking->n_topics; i++) {
		ask_topic(asking, &asking->topics[i]);
		missing = missing || !asking->topics[i].exists;
	}
	if (missing && !asking->silent)
		ask_broker(asking);
}

/* ---- ---- */

static rd_kafka_t *new_client(const struct config_kafka *config, struct check_brokers *brokers)
{
	struct kafkaconf_limits limits;
	rd_kafka_conf_t *conf = kafkaconf_new(config, NULL, &limits, &brokers->err, NULL);
	rd_kafka_t *rk;

	if (conf == NULL)
		return NULL;
	brokers->message_max_bytes = limits.message_max_bytes;
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, brokers->err.text, sizeof(brokers->err.text));
	if (rk == NULL)
		rd_kafka_conf_destroy(conf);
	else
		rd_kafka_set_log_queue(rk, NULL); /* lines on stderr are not what was asked for */
	return rk;
}

void kafkacheck_ask(const struct config_kafka *config, int timeout_ms, struct check_brokers *brokers,
		    struct check_topic *topics, size_t n_topics)
{
	struct asking asking = {.until_ms = deadline_now_ms() + timeout_ms,
				.timeout_ms = timeout_ms,
				.brokers = brokers,
				.topics = topics,
				.n_topics = n_topics};
	const struct rd_kafka_metadata *metadata;

	*brokers = (struct check_brokers){.link = CHECK_LINK_DOWN};
	asking.rk = new_client(config, brokers);
	if (asking.rk == NULL)
		return;
	asking.events = rd_kafka_queue_get_main(asking.rk);
	metadata = wait_for_metadata(&asking);
	if (metadata != NULL) {
		read_metadata(&asking, metadata);
		rd_kafka_metadata_destroy(metadata);
		ask_settings(&asking);
	}
	rd_kafka_queue_destroy(asking.events);
	rd_kafka_destroy(asking.rk);
}
