#include "configs.h"

#include "../standard.h"

void configs_standard(struct config_source *config, struct config_header *header)
{
	*config = (struct config_source){STANDARD_SOURCE, .table = "public.event_outbox"};
	*header = (struct config_header){.name = "event_id", .template_text = "{event_id}"};
	config->headers = header;
	config->n_headers = 1;
}
