/* condition: a piece of SQL that somebody writes into the file, to stand between parentheses in a statement.
 * It is the operator's own SQL, and PostgreSQL judges it; here only what would reach beyond the parentheses is refused. */
#ifndef OUTBOXD_CONFIG_CONDITION_H
#define OUTBOXD_CONFIG_CONDITION_H

#include "base/err.h"

/* Is everything that the text opens (quotes, comments, parentheses) closed in it, and nothing else? No semicolon, no $1. False: err says
 * what is wrong. A comment that goes to the end of its line may be the last: the parenthesis comes on a line of its own. */
bool condition_check(const char *text, struct err *err) must_check;

#endif
