/* tracecontext: are these headers what W3C Trace Context (https://www.w3.org/TR/trace-context/) allows? A consumer's tracing
 * must not trip over what somebody has written into a table. */
#ifndef OUTBOXD_CORE_TRACECONTEXT_H
#define OUTBOXD_CORE_TRACECONTEXT_H

#include "base/buf.h"

#define TRACECONTEXT_PARENT "traceparent"
#define TRACECONTEXT_STATE "tracestate"

/* Version 00, or a later one as far as it must look like it: ids not all zero, lower-case hexadecimal. */
bool tracecontext_parent_valid(struct slice value);

/* At most 32 members, each key once; an empty list is one. */
bool tracecontext_state_valid(struct slice value);

#endif
