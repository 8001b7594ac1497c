/* cloudevents: the headers that make a record a CloudEvent 1.0 in binary mode, as its Kafka protocol binding has them: each
 * attribute is a header ce_NAME with its text in UTF-8, the data's media type is content-type, the data is the value.
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md */
#ifndef OUTBOXD_CORE_CLOUDEVENTS_H
#define OUTBOXD_CORE_CLOUDEVENTS_H

#include "core/headers.h"
#include "core/timetext.h"

struct cloudevent {
	struct slice id, source, type, subject; /* SLICE_NULL or empty: none */
	struct slice created_at;		/* timestamptz in binary */
	struct slice media_type;		/* of the value; SLICE_NULL when there is none */
};

/* What cloudevents_add asks headers_text for at most. */
#define CLOUDEVENTS_TEXT_BYTES TIMETEXT_BYTES

/* Adds the headers that neither the JSON column nor a template has said otherwise. An optional attribute that is not there, or that
 * the specification has no words for, is left out: an empty subject, a time before the year 1. */
void cloudevents_add(struct headers *headers, const struct cloudevent *event);

/* Are the required attributes there, and what they must be? Else the row is at fault, and err says how. */
bool cloudevents_check(const struct message *message, struct err *err) must_check;

#endif
