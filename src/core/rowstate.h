/* rowstate: the states of an outbox row and its transitions, one table with a sentence each.
 * The program's output, the README, the statements and the tests read this table. */
#ifndef OUTBOXD_CORE_ROWSTATE_H
#define OUTBOXD_CORE_ROWSTATE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum row_state {
	ROW_PENDING,   /* waits to be claimed, now or at available_at */
	ROW_IN_FLIGHT, /* claimed by an instance, until its lease ends */
	ROW_SENT,      /* Kafka has it */
	ROW_FAILED     /* given up, with a reason */
};
#define ROW_STATES (ROW_FAILED + 1) /* = CONFIG_STATES */

enum row_event {
	ROW_CLAIM,
	ROW_DELIVERED,
	ROW_DISPATCHED,	    /* delivered, and its consumer is to write a result: on_delivered: await */
	ROW_RESULT_SENT,    /* the consumer's: it is done, */
	ROW_RESULT_FAILED,  /* has failed, */
	ROW_RESULT_PENDING, /* is to be sent once more */
	ROW_RESULT_LATE,    /* there is none: failed when no attempts are left */
	ROW_RETRY,	    /* not delivered, but may be later: failed when no attempts are left */
	ROW_REJECT,	    /* can never be delivered */
	ROW_LEASE_EXPIRED,  /* failed when no attempts are left */
	ROW_RELEASE,	    /* given back unsent, with its attempt */
	ROW_POSTPONE,	    /* given up, and Kafka does not have its dead letter */
	ROW_COMMAND_RETRY,
	ROW_COMMAND_SKIP
};
#define ROW_EVENTS (ROW_COMMAND_SKIP + 1)

const char *row_state_name(enum row_state state); /* pending, in_flight, sent, failed */
const char *row_event_name(enum row_event event);

/* The state after the event. attempts counts the current one; max is the row's limit.
 * Returns false, and leaves next alone, when the table has no such transition. */
bool row_next(enum row_state state, enum row_event event, int32_t attempts, int32_t max,
	      enum row_state *next) must_check;

/* The transition table, as text or as a JSON array of {from, event, to, note}. */
void row_print_table(FILE *out, bool json);

#endif
