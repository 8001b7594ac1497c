#include "configs.h"

#include "core/rowstate.h"

#include <string.h>

void configs_standard(struct config_source *config, struct config_header *header)
{
	static const char *const columns[CONFIG_COLUMNS] = {
		[COLUMN_ID] = "id",
		[COLUMN_ORDER] = "id",
		[COLUMN_EVENT_ID] = "event_id",
		[COLUMN_KEY] = "aggregate_id",
		[COLUMN_TYPE] = "event_type",
		[COLUMN_PAYLOAD] = "payload",
		[COLUMN_HEADERS] = "headers",
		[COLUMN_STATUS] = "status",
		[COLUMN_ATTEMPTS] = "attempts",
		[COLUMN_AVAILABLE_AT] = "available_at",
		[COLUMN_LEASE_UNTIL] = "lease_until",
		[COLUMN_LEASE_OWNER] = "lease_owner",
		[COLUMN_LAST_ERROR] = "last_error",
		[COLUMN_CREATED_AT] = "created_at",
		[COLUMN_SETTLED_AT] = "settled_at",
	};

	*config = (struct config_source){0};
	memcpy(config->columns, columns, sizeof(columns));
	config->name = "orders";
	config->table = "public.event_outbox";
	config->preset = "outboxd";
	config->states[ROW_PENDING] = "PENDING";
	config->states[ROW_IN_FLIGHT] = "SENDING";
	config->states[ROW_SENT] = "SENT";
	config->states[ROW_FAILED] = "FAILED";
	config->topic = "{event_type}";
	*header = (struct config_header){.name = "event_id", .template_text = "{event_id}"};
	config->headers = header;
	config->n_headers = 1;
}
