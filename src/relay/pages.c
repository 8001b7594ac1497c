#include "relay/pages.h"

#include "core/jsontext.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void add_reason(json_t *reasons, const char *source, struct source_health health)
{
	json_array_append_new(reasons, json_pack("{s:o, s:s, s:o}", "source", jsontext_new(source), "dependency",
						 health.dependency, "reason", jsontext_new(health.reason)));
}

static json_t *get_reasons(const struct pages *pages)
{
	json_t *reasons = json_array();
	struct source_health health;
	struct source *source;
	size_t i;

	if (pages->draining)
		add_reason(reasons, NULL, (struct source_health){"relay", "draining"});
	for (i = 0; (source = fleet_source(pages->fleet, i)) != NULL; i++) {
		health = source_get_health(source);
		if (health.dependency != NULL)
			add_reason(reasons, source_config(source)->name, health);
	}
	return reasons;
}

static json_t *get_readiness(const struct pages *pages, bool *ready)
{
	json_t *reasons = get_reasons(pages);

	*ready = json_array_size(reasons) == 0;
	return json_pack("{s:b, s:o}", "ready", (int)*ready, "reasons", reasons);
}

static void add_topic_faults(json_t *list, const struct source *source)
{
	struct source_topic_fault faults[SOURCE_TOPIC_FAULTS];
	size_t n = source_get_topic_faults(source, faults, SOURCE_TOPIC_FAULTS), i;

	for (i = 0; i < n && i < SOURCE_TOPIC_FAULTS; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:s, s:s, s:o, s:f, s:f, s:I}", "source",
						source_config(source)->name, "topic", jsontext_new(faults[i].topic),
						"state", faults[i].trying ? "trying" : "open", "error",
						faults[i].error, "reason", jsontext_new(faults[i].reason),
						"for_seconds", (double)faults[i].for_us / 1e6, "next_try_seconds",
						(double)faults[i].next_try_us / 1e6, "rows_put_off",
						(json_int_t)faults[i].put_off));
}

static json_t *get_status(const struct pages *pages)
{
	bool ready;
	json_t *daemon = get_readiness(pages, &ready), *faults = json_array();
	const struct source *source;
	size_t i;

	for (i = 0; (source = fleet_source(pages->fleet, i)) != NULL; i++)
		add_topic_faults(faults, source);
	json_object_set_new(daemon, "topic_faults", faults);
	return json_pack("{s:s, s:o}", "version", OUTBOXD_VERSION, "daemon", daemon);
}

/* Takes the page. */
static void print_page(json_t *page, struct buf *body)
{
	char *text = json_dumps(page, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));

	assert(text != NULL);
	json_decref(page);
	buf_print(body, "%s\n", text);
	free(text);
}

bool pages_ready(const struct pages *pages, struct buf *body)
{
	bool ready;

	print_page(get_readiness(pages, &ready), body);
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
	if (strcmp(path, "/status") == 0) {
		response->content_type = "application/json";
		print_page(get_status(pages), &response->body);
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
