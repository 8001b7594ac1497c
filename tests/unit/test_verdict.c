/* verdict: SQLSTATEs, and the codes of Kafka that the installed library has no name for. Those that it has are held
 * against it by tests/integration/test_verdict_codes.c. */
#include "unit.h"

#include "core/verdict.h"

static const struct {
	const char *sqlstate;
	enum verdict verdict;
	enum sql_fault fault;
} sqlstates[] = {
	/* the connection is of no use */
	{"08000", VERDICT_RETRY, SQL_CONNECTION},
	{"08006", VERDICT_RETRY, SQL_CONNECTION},
	{"08P01", VERDICT_RETRY, SQL_CONNECTION},
	{"08007", VERDICT_UNKNOWN, SQL_CONNECTION},
	{"25006", VERDICT_RETRY, SQL_CONNECTION},
	{"25P02", VERDICT_RETRY, SQL_CONNECTION},
	{"25P03", VERDICT_RETRY, SQL_CONNECTION},
	{"28000", VERDICT_RETRY, SQL_CONNECTION},
	{"28P01", VERDICT_RETRY, SQL_CONNECTION},
	{"3D000", VERDICT_RETRY, SQL_CONNECTION},
	{"57P01", VERDICT_RETRY, SQL_CONNECTION},
	{"57P02", VERDICT_RETRY, SQL_CONNECTION},
	{"57P03", VERDICT_RETRY, SQL_CONNECTION},
	{"57P05", VERDICT_RETRY, SQL_CONNECTION},
	/* passing */
	{"40001", VERDICT_RETRY, SQL_PASSING},
	{"40P01", VERDICT_RETRY, SQL_PASSING},
	{"40003", VERDICT_UNKNOWN, SQL_PASSING},
	{"53100", VERDICT_RETRY, SQL_PASSING},
	{"53300", VERDICT_RETRY, SQL_PASSING},
	{"55P03", VERDICT_RETRY, SQL_PASSING},
	{"57014", VERDICT_RETRY, SQL_PASSING},
	/* one row's data */
	{"22001", VERDICT_REJECT, SQL_DATA},
	{"22P02", VERDICT_REJECT, SQL_DATA},
	{"23505", VERDICT_REJECT, SQL_DATA},
	{"23514", VERDICT_REJECT, SQL_DATA},
	{"44000", VERDICT_REJECT, SQL_DATA},
	/* table, column, privilege */
	{"42501", VERDICT_REJECT, SQL_SOURCE},
	{"42703", VERDICT_REJECT, SQL_SOURCE},
	{"42P01", VERDICT_REJECT, SQL_SOURCE},
	{"0A000", VERDICT_REJECT, SQL_SOURCE},
	{"3F000", VERDICT_REJECT, SQL_SOURCE},
	/* what no rule names */
	{"XX000", VERDICT_RETRY, SQL_PASSING},
	{"25001", VERDICT_RETRY, SQL_PASSING},
	{"55000", VERDICT_RETRY, SQL_PASSING},
	{"57000", VERDICT_RETRY, SQL_PASSING},
	{"P0001", VERDICT_RETRY, SQL_PASSING},
	{"", VERDICT_RETRY, SQL_PASSING},
	{"4", VERDICT_RETRY, SQL_PASSING},
};

START_TEST(test_F056_sqlstates)
{
	struct sql_judgement judgement = verdict_of_sqlstate(sqlstates[_i].sqlstate);

	ck_assert_msg(judgement.verdict == sqlstates[_i].verdict && judgement.fault == sqlstates[_i].fault,
		      "%s: %s, fault %d", sqlstates[_i].sqlstate, verdict_name(judgement.verdict), judgement.fault);
}
END_TEST

/* From the protocol's list of errors, and from the library's later versions. */
static const struct {
	int code;
	enum verdict verdict;
	enum fault fault;
} newer[] = {
	{-138, VERDICT_RETRY, FAULT_NONE},    /* _INVALID_DIFFERENT_RECORD: this one is innocent */
	{-139, VERDICT_RETRY, FAULT_NONE},    /* _LOG_TRUNCATION */
	{-137, VERDICT_RETRY, FAULT_CLUSTER}, /* _DESTROY_BROKER */
	{100, VERDICT_RETRY, FAULT_TOPIC},    /* UNKNOWN_TOPIC_ID */
	{103, VERDICT_RETRY, FAULT_TOPIC},    /* INCONSISTENT_TOPIC_ID */
	{104, VERDICT_RETRY, FAULT_CLUSTER},  /* INCONSISTENT_CLUSTER_ID */
	{108, VERDICT_RETRY, FAULT_CLUSTER},  /* NEW_LEADER_ELECTED */
	{129, VERDICT_RETRY, FAULT_CLUSTER},  /* REBOOTSTRAP_REQUIRED */
	{120, VERDICT_RETRY, FAULT_NONE},     /* TRANSACTION_ABORTABLE */
};

START_TEST(test_newer_codes)
{
	bool known = false;
	struct kafka_judgement judgement = verdict_of_kafka(newer[_i].code, &known);

	ck_assert_msg(known && judgement.verdict == newer[_i].verdict && judgement.fault == newer[_i].fault,
		      "%d: %s, fault %s", newer[_i].code, verdict_name(judgement.verdict),
		      fault_name(judgement.fault));
}
END_TEST

/* A newer broker's code is never taken for a success, nor does it condemn a row. */
START_TEST(test_codes_that_nobody_knows)
{
	static const int codes[] = {-201, -200, -136, -100, -2, 134, 1000, -2147483647 - 1, 2147483647};
	bool known = true;
	struct kafka_judgement judgement = verdict_of_kafka(codes[_i], &known);

	ck_assert_msg(!known, "%d is known", codes[_i]);
	ck_assert_int_eq(judgement.verdict, VERDICT_UNKNOWN);
	ck_assert_int_eq(judgement.fault, FAULT_NONE);
	verdict_of_kafka(codes[_i], NULL);
}
END_TEST

START_TEST(test_names)
{
	ck_assert_str_eq(verdict_name(VERDICT_OK), "ok");
	ck_assert_str_eq(verdict_name(VERDICT_RETRY), "retry");
	ck_assert_str_eq(verdict_name(VERDICT_REJECT), "reject");
	ck_assert_str_eq(verdict_name(VERDICT_UNKNOWN), "unknown");
	ck_assert_str_eq(fault_name(FAULT_NONE), "none");
	ck_assert_str_eq(fault_name(FAULT_ROW), "row");
	ck_assert_str_eq(fault_name(FAULT_TOPIC), "topic");
	ck_assert_str_eq(fault_name(FAULT_CLUSTER), "cluster");
	ck_assert_str_eq(fault_name(FAULT_PRODUCER), "producer");
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("verdict");
	TCase *tcase = tcase_create("verdict");

	tcase_add_loop_test(tcase, test_F056_sqlstates, 0, sizeof(sqlstates) / sizeof(sqlstates[0]));
	tcase_add_loop_test(tcase, test_newer_codes, 0, sizeof(newer) / sizeof(newer[0]));
	tcase_add_loop_test(tcase, test_codes_that_nobody_knows, 0, 9);
	tcase_add_test(tcase, test_names);
	suite_add_tcase(suite, tcase);
	return suite;
}
