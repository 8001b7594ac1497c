#include "relay/pages.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void add_reason(json_t *reasons, const char *source, struct source_health health)
{
	json_t *reason = json_pack("{s:s?, s:s, s:s?}", "source", source, "dependency", health.dependency, "reason",
				   health.reason);

	/* The library's text may be no UTF-8. */
	if (reason == NULL)
		reason = json_pack("{s:s?, s:s, s:s}", "source", source, "dependency", health.dependency, "reason",
				   "unreadable");
	json_array_append_new(reasons, reason);
}

bool pages_ready(const struct pages *pages, struct buf *body)
{
	json_t *reasons = json_array(), *page;
	struct source_health health;
	bool ready;
	char *text;
	size_t i;

	if (pages->draining)
		add_reason(reasons, NULL, (struct source_health){"relay", "draining"});
	for (i = 0; i < pages->n_sources; i++) {
		health = source_get_health(pages->sources[i]);
		if (health.dependency != NULL)
			add_reason(reasons, source_config(pages->sources[i])->name, health);
	}
	ready = json_array_size(reasons) == 0;
	page = json_pack("{s:b, s:o}", "ready", (int)ready, "reasons", reasons);
	text = json_dumps(page, JSON_PRESERVE_ORDER);
	json_decref(page);
	if (body != NULL)
		buf_print(body, "%s\n", text == NULL ? "" : text);
	free(text);
	return ready;
}

bool pages_serve(void *context, const char *path, struct http_response *response)
{
	struct pages *pages = context;

	response->status = 200;
	if (strcmp(path, "/livez") == 0) {
		response->content_type = "text/plain; charset=utf-8";
		buf_add_string(&response->body, "ok\n");
		return true;
	}
	if (strcmp(path, "/readyz") == 0) {
		response->content_type = "application/json";
		response->status = pages_ready(pages, &response->body) ? 200 : 503;
		return true;
	}
	if (strcmp(path, "/metrics") == 0) {
		response->content_type = "text/plain; version=0.0.4; charset=utf-8";
		pages->refresh(pages->context);
		metrics_print(pages->metrics, &response->body);
		return true;
	}
	return false;
}
