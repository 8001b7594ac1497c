/* What every unit test file has: one function that makes its suite. */
#ifndef OUTBOXD_TESTS_UNIT_H
#define OUTBOXD_TESTS_UNIT_H

#include <check.h>

Suite *suite(void);

#endif
