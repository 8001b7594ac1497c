#include "io/kafkalink.h"

#include "base/crash.h"
#include "base/log.h"
#include "io/kafkastats.h"

#include <string.h>

void kafkalink_set(struct kafkalink *link, enum link state, const char *reason)
{
	err_set(&link->reason, "%s", reason);
	if (state == link->state)
		return;
	link->state = state;
	if (state == LINK_UP) {
		err_set(&link->last_error, "%s", "");
		CRASH_POINT(KAFKA_CAME);
	}
	if (state == LINK_DOWN) {
		CRASH_POINT(KAFKA_WENT);
		link->delivered = false;
		link->outages++;
	}
	if (link->servers == NULL)
		return;
	if (state == LINK_UP) {
		log_flush_limited(true); /* the errors of the outage stand before its end */
		LOG(LOG_INFO, "kafka_up", log_str("servers", link->servers));
	} else if (state == LINK_DOWN) {
		LOG(LOG_WARN, "kafka_down", log_str("servers", link->servers),
		    log_str("reason", link->reason.text));
	}
}

void kafkalink_renew(struct kafkalink *link)
{
	link->has_id = link->delivered = false;
	err_set(&link->last_error, "%s", "");
}

void kafkalink_on_statistics(struct kafkalink *link, rd_kafka_event_t *event, bool running)
{
	struct kafkastats stats = {true, true};
	const char *json = rd_kafka_event_stats(event);

	/* What was delivered proves more than they do, and with many partitions they are long. */
	if (!link->delivered)
		stats = kafkastats_parse(json, strlen(json));
	link->delivered = false;
	link->has_id = link->has_id || stats.producer_id;
	if (!running)
		return;
	if (stats.broker_up && link->has_id)
		kafkalink_set(link, LINK_UP, "");
	else if (link->last_error.text[0] != '\0')
		kafkalink_set(link, LINK_DOWN, link->last_error.text);
	else
		kafkalink_set(link, LINK_DOWN,
			      stats.broker_up ? "the brokers have not given a producer id yet"
					      : "no broker is connected");
}

void kafkalink_on_log(rd_kafka_event_t *event)
{
	static const enum log_level levels[] = {LOG_ERROR, LOG_ERROR, LOG_ERROR, LOG_ERROR,
						LOG_WARN,  LOG_INFO,  LOG_INFO,	 LOG_DEBUG};
	const char *facility, *text;
	int level;

	if (rd_kafka_event_log(event, &facility, &text, &level) != 0)
		return;
	/* That it is called experimental is known, and was looked into: see kafka.h and kafkaconf.h. */
	if (strstr(text, "enable.gapless.guarantee is experimental") != NULL)
		return;
	LOG_LIMITED(levels[level & 7], "kafka_library", facility, log_str("facility", facility),
		    log_str("message", text));
}

void kafkalink_on_error(struct kafkalink *link, rd_kafka_event_t *event, bool running)
{
	rd_kafka_resp_err_t code = rd_kafka_event_error(event);
	const char *name = rd_kafka_err2name(code), *text = rd_kafka_event_error_string(event);

	LOG_LIMITED(LOG_WARN, "kafka_error", name, log_str("error", name), log_str("message", text));
	if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
		err_set(&link->last_error, "%s: %s", name, text);
	else if (running)
		kafkalink_set(link, LINK_DOWN, link->last_error.text[0] != '\0' ? link->last_error.text : text);
}
