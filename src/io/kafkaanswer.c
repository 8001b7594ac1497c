#include "io/kafkaanswer.h"

#include "base/crash.h"

#include <inttypes.h>

const char *const kafka_replacement_names[KAFKA_REPLACEMENTS] = {
	[KAFKA_REPLACED_FATAL] = "fatal", [KAFKA_REPLACED_STALLED] = "stalled", [KAFKA_REPLACED_PURGED] = "purged"};

static bool is_size_error(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
	       code == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE;
}

/* What is known of an error by itself. limit: whose limit a record was beyond, if its size is the error. */
static struct kafka_answer judge(rd_kafka_resp_err_t code, const char *text, const struct kafkaanswer_size *size,
				 const char *limit, struct err *space)
{
	struct kafka_judgement judgement = verdict_of_kafka(code, NULL);

	if (is_size_error(code)) {
		err_set(space, "%s: the record has %zu bytes, %s %" PRId64, text, size->bytes, limit,
			size->message_max_bytes);
		text = space->text;
	}
	return (struct kafka_answer){.verdict = judgement.verdict,
				     .fault = judgement.fault,
				     .timed_out = code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
				     .code = code,
				     .name = rd_kafka_err2name(code),
				     .text = text};
}

/* Not rd_kafka_message_errstr: of a message that has a payload it returns the payload. */
static const char *report_text(const rd_kafka_message_t *report)
{
#if RD_KAFKA_VERSION >= 0x020400ff
	const char *text = rd_kafka_message_produce_errstr(report);

	if (text != NULL)
		return text;
#endif
	return rd_kafka_err2str(report->err);
}

struct kafka_answer kafkaanswer_of_report(const rd_kafka_message_t *report, const struct kafkaanswer_size *size,
					  struct err *space)
{
	struct kafka_answer answer;

	CRASH_POINT(REPORT_ARRIVED);
	if (report->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		return (struct kafka_answer){.verdict = VERDICT_OK, .name = "", .text = ""};
	/* The library keeps to its own limit before it sends anything; the topic's it never tells. */
	answer = judge(report->err, report_text(report), size,
		       "too many for max.message.bytes of the topic; the producer's message.max.bytes is", space);
	/* The status knows better than the code whether it may be on the topic, also of a message that was purged. */
	answer.possibly_written = rd_kafka_message_status(report) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
	if (answer.verdict != VERDICT_REJECT)
		answer.verdict = answer.possibly_written ? VERDICT_UNKNOWN : VERDICT_RETRY;
	return answer;
}

struct kafka_answer kafkaanswer_of_refusal(rd_kafka_resp_err_t code, const struct kafkaanswer_size *size,
					   struct err *space)
{
	struct kafka_answer answer = judge(code, rd_kafka_err2str(code), size, "message.max.bytes is", space);

	if (answer.verdict != VERDICT_REJECT)
		answer.verdict = VERDICT_RETRY;
	/* The library refuses by itself for what it knows of the topic: an error that names nobody is the topic's. */
	if (answer.fault == FAULT_NONE && code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
		answer.fault = FAULT_TOPIC;
	return answer;
}

/* An idempotent producer takes a message for delivered when a later one of its partition was acknowledged, for a broker
 * accepts no gap. But one that knows nothing yet of this producer there accepts any sequence number first. Seen on a real
 * one: the first batches of a partition were refused for too few replicas, then a later one was taken, and those before it
 * were reported delivered and never written. */
struct kafka_answer kafkaanswer_of_guess(void)
{
	return (struct kafka_answer){.verdict = VERDICT_UNKNOWN,
				     .fault = FAULT_CLUSTER,
				     .possibly_written = true,
				     .code = RD_KAFKA_RESP_ERR__NO_OFFSET,
				     .name = rd_kafka_err2name(RD_KAFKA_RESP_ERR__NO_OFFSET),
				     .text = "reported delivered without an offset: perhaps it was never written"};
}

/* A broker that shuts down answers "not leader" also for what it has appended, and the library takes that for not written
 * (seen on a real one). It would send it again under the same sequence number, which is no repeat; purged or timed out, and
 * sent anew by us, it is one. */
void kafkaanswer_doubt(struct kafka_answer *answer)
{
	if (answer->verdict != VERDICT_RETRY)
		return;
	answer->verdict = VERDICT_UNKNOWN;
	answer->possibly_written = true;
}

struct kafka_answer kafkaanswer_of_loss(void)
{
	return (struct kafka_answer){.verdict = VERDICT_UNKNOWN,
				     .fault = FAULT_PRODUCER,
				     .possibly_written = true,
				     .replaced = true,
				     .code = RD_KAFKA_RESP_ERR__DESTROY,
				     .name = rd_kafka_err2name(RD_KAFKA_RESP_ERR__DESTROY),
				     .text = "the producer was destroyed before it reported"};
}

void kafkaanswer_mark_replaced(struct kafka_answer *answer)
{
	if (answer->fault != FAULT_PRODUCER && answer->code != RD_KAFKA_RESP_ERR__PURGE_QUEUE &&
	    answer->code != RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
		return;
	answer->fault = FAULT_PRODUCER;
	answer->replaced = true;
}

void kafkaanswer_mark_timed_out(struct kafka_answer *answer)
{
	answer->fault = FAULT_CLUSTER;
	answer->timed_out = true;
	answer->replaced = false;
	answer->code = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
	answer->name = rd_kafka_err2name(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT);
	answer->text = rd_kafka_err2str(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT);
}
