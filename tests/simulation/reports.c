#include "reports.h"

static const char *code_name(int code)
{
	switch ((enum code)code) {
	case CODE_TIMED_OUT:
		return "_MSG_TIMED_OUT";
	case CODE_UNKNOWN_TOPIC:
		return "_UNKNOWN_TOPIC";
	case CODE_QUEUE_FULL:
		return "_QUEUE_FULL";
	case CODE_NO_OFFSET:
		return "_NO_OFFSET";
	case CODE_PURGED:
		return "_PURGE_QUEUE";
	case CODE_FATAL:
		return "_FATAL";
	case CODE_OK:
		return "";
	case CODE_CORRUPT:
		return "INVALID_MSG";
	case CODE_TOO_LARGE:
		return "MSG_SIZE_TOO_LARGE";
	case CODE_TOO_FEW_REPLICAS:
		return "NOT_ENOUGH_REPLICAS";
	case CODE_TOO_FEW_AFTER_APPEND:
		return "NOT_ENOUGH_REPLICAS_AFTER_APPEND";
	case CODE_TOPIC_DENIED:
		return "TOPIC_AUTHORIZATION_FAILED";
	case CODE_OUT_OF_ORDER:
		return "OUT_OF_ORDER_SEQUENCE_NUMBER";
	case CODE_INVALID_RECORD:
		return "INVALID_RECORD";
	}
	return "?";
}

struct kafka_answer reports_judge(int code, bool possibly)
{
	struct kafka_judgement judgement = verdict_of_kafka(code, NULL);
	struct kafka_answer answer = {.verdict = judgement.verdict, .fault = judgement.fault, .code = code};

	possibly |= judgement.verdict == VERDICT_UNKNOWN;
	answer.possibly_written = possibly && code != CODE_OK;
	if (answer.possibly_written)
		answer.verdict = VERDICT_UNKNOWN;
	answer.timed_out = code == CODE_TIMED_OUT;
	answer.name = code_name(code);
	answer.text = "injected";
	return answer;
}

struct kafka_answer reports_guess(void)
{
	struct kafka_answer answer = reports_judge(CODE_NO_OFFSET, true);

	answer.fault = FAULT_CLUSTER;
	return answer;
}
