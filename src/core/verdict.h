/* verdict: the one answer to "what happened?", from PostgreSQL and from Kafka, and whose fault it was.
 * Every error code of the installed librdkafka, and every SQLSTATE class that matters, stands in its tables. */
#ifndef OUTBOXD_CORE_VERDICT_H
#define OUTBOXD_CORE_VERDICT_H

#include <stdbool.h>

enum verdict {
	VERDICT_OK,	/* done: committed, or persisted by Kafka */
	VERDICT_RETRY,	/* not done, may succeed later */
	VERDICT_REJECT, /* can never succeed as it is */
	VERDICT_UNKNOWN /* perhaps done: the answer was lost */
};

/* Who has to change something before it can succeed. */
enum fault {
	FAULT_NONE,    /* nobody: a passing error of this one message; costs an attempt */
	FAULT_ROW,     /* the row: too large, invalid, bad topic name, bad partition */
	FAULT_TOPIC,   /* the topic: authorisation, unknown, policy; costs no attempt, trips that topic's breaker */
	FAULT_CLUSTER, /* the cluster: unreachable, time-out, too few replicas; costs no attempt, pauses publishing */
	FAULT_PRODUCER /* this producer: fatal or fenced; costs no attempt, the producer is replaced */
};

const char *verdict_name(enum verdict verdict);
const char *fault_name(enum fault fault);

struct kafka_judgement {
	enum verdict verdict;
	enum fault fault;
};

/* code: an rd_kafka_resp_err_t as an int (core includes no librdkafka). A code that is in no table, from a newer
 * library than this was built for, is VERDICT_UNKNOWN with FAULT_NONE; *known (may be NULL) tells. */
struct kafka_judgement verdict_of_kafka(int code, bool *known);

/* What a statement's SQLSTATE means for the source that sent it. */
enum sql_fault {
	SQL_PASSING,	/* 40 53 55P03 57014...: the same statement again, after the source's backoff */
	SQL_CONNECTION, /* 08, 57P, 25006, 28, 3D: this connection is of no use: close it, connect anew */
	SQL_DATA,	/* 22, 23: one row's data: halve the statement down to the row */
	SQL_SOURCE /* 42, 0A, ...: table, column or privilege is wrong: the source is broken until somebody mends it */
};

struct sql_judgement {
	enum verdict verdict;
	enum sql_fault fault;
};

/* sqlstate: five characters. What no rule names is a passing retry. */
struct sql_judgement verdict_of_sqlstate(const char *sqlstate);

#endif
