/* standard: what tests in C say of the standard table, as the preset outboxd has it. */
#ifndef OUTBOXD_TESTS_STANDARD_H
#define OUTBOXD_TESTS_STANDARD_H

#include "config/config.h"

/* In the initializer of a struct config_source. */
#define STANDARD_SOURCE                                                 \
	.name = "orders", .preset = "outboxd", .topic = "{event_type}", \
	.columns = {[COLUMN_ID] = "id",                                 \
		    [COLUMN_ORDER] = "id",                              \
		    [COLUMN_EVENT_ID] = "event_id",                     \
		    [COLUMN_KEY] = "aggregate_id",                      \
		    [COLUMN_TYPE] = "event_type",                       \
		    [COLUMN_PAYLOAD] = "payload",                       \
		    [COLUMN_HEADERS] = "headers",                       \
		    [COLUMN_STATUS] = "status",                         \
		    [COLUMN_ATTEMPTS] = "attempts",                     \
		    [COLUMN_AVAILABLE_AT] = "available_at",             \
		    [COLUMN_LEASE_UNTIL] = "lease_until",               \
		    [COLUMN_LEASE_OWNER] = "lease_owner",               \
		    [COLUMN_LAST_ERROR] = "last_error",                 \
		    [COLUMN_CREATED_AT] = "created_at",                 \
		    [COLUMN_SETTLED_AT] = "settled_at"},                \
	.states = {"PENDING", "SENDING", "SENT", "FAILED"}

#endif
