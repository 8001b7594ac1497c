/* How a message lives here:
 *
 *   kafka_publish --accepted--> outstanding --report--> on_report --> the answer
 *
 * and the producer:
 *
 *   ABSENT --create--> RUNNING --fatal or stalled: condemn--> CONDEMNED --all answered: retire--> ENDING --bury--> ABSENT
 *
 * Invariants:
 * 1. Each accepted message is one struct sent in `outstanding`, from the call until its answer, and the library's opaque
 *    points to it. So each has one answer, also where the library gives no report.
 * 2. Answers are given in serve() and kafka_free() only, never inside kafka_publish or kafka_purge.
 * 3. The library writes to its descriptor only when its queue turns from empty to filled. So serve() ends with the queue
 *    empty, or with `again` armed; and `again` is armed for the first time when a producer is made.
 */
#include "io/kafka.h"

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/kafkaanswer.h"
#include "io/kafkalink.h"
#include "io/kafkaproducer.h"

#include <ev.h>
#include <limits.h>
#include <unistd.h>

/* Reports handled in one turn of the loop, so that others have theirs: those of a batch. It counts messages: one event of the
 * library carries up to 10 000. */
#define REPORTS_A_TURN 500

/* Time is counted in ticks of the loop. They stand still while the process is stopped or the host suspended, as the
 * library's threads do, so that nothing looks overdue afterwards that had no time to run. */
#define TICK_SECONDS 1.0
#define OVERDUE_TICKS 4 /* beyond message_timeout; the library looks for what has timed out once a second */
#define REPORT_TICKS 2	/* what a fatal producer has in flight may still be acknowledged for so long */
#define GIVE_UP_TICKS 5 /* a condemned producer is destroyed after so long, reports or not */
#define PAUSE_TICKS 5	/* between producers when the last one has ended for nothing */
#define IDLE_TICKS 60	/* one for exceptions is closed after so long without messages */
#define FREE_ROUNDS 20	/* that kafka_free waits for the reports of what it purges */
#define FREE_ROUND_MS 100

enum producer_state {
	PRODUCER_ABSENT,    /* none; made anew at retry_at */
	PRODUCER_RUNNING,   /* takes messages */
	PRODUCER_CONDEMNED, /* takes none; reports of what it has are awaited */
	PRODUCER_ENDING	    /* nobody uses it any more; the library's threads come to their end */
};

/* A message that the library has. */
struct sent {
	struct list_node node; /* in outstanding, oldest first */
	void *tag;
	size_t bytes;
	uint64_t tick;
	uint64_t outages; /* before it; UINT64_MAX when no broker was up that could have got it */
};

struct kafka {
	struct ev_loop *loop;
	kafka_answer_fn *on_answer;
	struct arena *arena; /* the config's parts */
	struct config_kafka config;
	enum kafka_kind kind;
	bool spare; /* for exceptions: there only while it is needed */

	enum producer_state state;
	struct kafkaproducer *producer; /* NULL when ABSENT or ENDING */
	struct kafkaproducer *ending;	/* NULL unless ENDING */
	struct kafkaconf_limits limits; /* of the last one */
	rd_kafka_event_t *event;	/* reports that are being handled, turn by turn; else NULL */
	struct list outstanding;
	struct mem_pool sents;

	struct kafkalink link;
	bool useful;	     /* this producer has delivered anything at all */
	uint64_t generation; /* producers made so far */
	uint64_t ticks, used_at, condemned_at, retry_at;
	enum kafka_replacement condemned_for;
	uint64_t replacements[KAFKA_REPLACEMENTS];
	struct err text; /* of the answer being given */

	int fd; /* eventfd that the library writes to */
	struct ev_io wake;
	struct ev_idle again;
	struct ev_timer tick;
};

/* ---- the end of a producer ---- */

/* What a fatal producer has in flight may still be acknowledged, and it sends nothing more. What any other one has gets no
 * report any more, or must not get one: of a gapless one that lives on, a part that is purged would be a gap. */
static bool sends_no_more(const struct kafka *kafka)
{
	return kafka->condemned_for == KAFKA_REPLACED_FATAL &&
	       (kafka->kind != KAFKA_GAPLESS ||
		rd_kafka_fatal_error(kafka->producer->rk, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void condemn(struct kafka *kafka, enum kafka_replacement reason, const char *error, const char *text)
{
	if (kafka->state != PRODUCER_RUNNING)
		return;
	kafka->state = PRODUCER_CONDEMNED;
	kafka->condemned_at = kafka->ticks;
	kafka->condemned_for = reason;
	kafka->replacements[reason]++;
	LOG(reason == KAFKA_REPLACED_PURGED ? LOG_WARN : LOG_ERROR, "producer_replaced",
	    log_str("reason", kafka_replacement_names[reason]), log_str("error", error), log_str("message", text),
	    log_int("outstanding", (int64_t)kafka->outstanding.length));
	kafkalink_set(&kafka->link, LINK_NEW, "");
	err_set(&kafka->link.reason, "the producer is being replaced: %s: %s", error, text);
	kafkaproducer_purge(kafka->producer, !sends_no_more(kafka));
	ev_idle_start(kafka->loop, &kafka->again);
}

static void condemn_if_fatal(struct kafka *kafka)
{
	struct err why;
	rd_kafka_resp_err_t code = kafkaproducer_fatal(kafka->producer, &why);

	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		condemn(kafka, KAFKA_REPLACED_FATAL, rd_kafka_err2name(code), why.text);
}

/* A message is overdue when the library should have reported on it long ago. One of a gapless producer when its time is
 * up: there the library's own time-out, which would make a gap, is switched off. */
static bool is_overdue(const struct kafka *kafka, const struct sent *sent)
{
	uint64_t timeout_ms = (uint64_t)kafka->limits.message_timeout_ms;
	uint64_t limit =
		kafka->kind == KAFKA_GAPLESS ? (timeout_ms + 999) / 1000 : timeout_ms / 1000 + 1 + OVERDUE_TICKS;

	return kafka->ticks - sent->tick > limit;
}

/* ---- answers ---- */

static void give_answer(struct kafka *kafka, struct sent *sent, const struct kafka_answer *answer)
{
	list_remove(&kafka->outstanding, &sent->node);
	kafka->on_answer(sent->tag, answer);
	mem_pool_give(&kafka->sents, sent);
}

/* What failed with its producer failed for that; but what was overdue was the reason, and an outage is the cluster's. */
static void blame_the_end(const struct kafka *kafka, const struct sent *sent, struct kafka_answer *answer)
{
	if (kafka->kind == KAFKA_GAPLESS && kafka->condemned_for == KAFKA_REPLACED_STALLED &&
	    is_overdue(kafka, sent))
		kafkaanswer_mark_timed_out(answer);
	else if (kafka->condemned_for != KAFKA_REPLACED_PURGED || answer->fault == FAULT_PRODUCER)
		kafkaanswer_mark_replaced(answer);
}

static void on_report(struct kafka *kafka, const rd_kafka_message_t *report)
{
	struct sent *sent = report->_private;
	const struct kafkaanswer_size size = {sent->bytes, kafka->limits.message_max_bytes};
	struct kafka_answer answer = kafkaanswer_of_report(report, &size, &kafka->text);

	if (answer.verdict == VERDICT_OK && kafka->limits.offsets && report->offset < 0)
		answer = kafkaanswer_of_guess();
	if (sent->outages < kafka->link.outages)
		kafkaanswer_doubt(&answer);
	if (answer.verdict == VERDICT_OK) {
		kafka->link.delivered = kafka->useful = true;
		if (kafka_untried(kafka))
			kafkalink_set(&kafka->link, LINK_UP, "");
	} else if (answer.fault == FAULT_PRODUCER) {
		condemn(kafka, KAFKA_REPLACED_FATAL, answer.name, answer.text);
	}
	if (kafka->state == PRODUCER_CONDEMNED && answer.verdict != VERDICT_OK)
		blame_the_end(kafka, sent, &answer);
	give_answer(kafka, sent, &answer);
}

/* ---- the library's queue ---- */

/* Handles at most `budget` reports of the event at hand, which ends with its last one; returns how many. */
static int serve_reports(struct kafka *kafka, int budget)
{
	const rd_kafka_message_t *report;
	int done = 0;

	while (done < budget && (report = rd_kafka_event_message_next(kafka->event)) != NULL) {
		on_report(kafka, report);
		done++;
	}
	if (done < budget) {
		rd_kafka_event_destroy(kafka->event);
		kafka->event = NULL;
	}
	return done;
}

static void serve_event(struct kafka *kafka, rd_kafka_event_t *event)
{
	switch (rd_kafka_event_type(event)) {
	case RD_KAFKA_EVENT_DR:
		kafka->event = event;
		return;
	case RD_KAFKA_EVENT_STATS:
		kafkalink_on_statistics(&kafka->link, event, kafka->state == PRODUCER_RUNNING);
		break;
	case RD_KAFKA_EVENT_ERROR:
		/* A fatal one serve() has seen already. */
		if (!rd_kafka_event_error_is_fatal(event))
			kafkalink_on_error(&kafka->link, event, kafka->state == PRODUCER_RUNNING);
		break;
	case RD_KAFKA_EVENT_LOG:
		kafkalink_on_log(event);
		break;
	}
	rd_kafka_event_destroy(event);
}

/* Handles what has come, waiting up to wait_ms for the first. Returns false when the queue is empty. */
static bool serve_queue(struct kafka *kafka, int budget, int wait_ms)
{
	rd_kafka_event_t *event;

	while (budget > 0) {
		if (kafka->event != NULL) {
			budget -= serve_reports(kafka, budget);
			continue;
		}
		event = rd_kafka_queue_poll(kafka->producer->queue, wait_ms);
		if (event == NULL)
			return false;
		serve_event(kafka, event);
		budget--;
		wait_ms = 0;
	}
	return true;
}

/* ---- making and destroying producers ---- */

static void create(struct kafka *kafka)
{
	struct err err;

	kafka->producer = kafkaproducer_new(&kafka->config, kafka->kind, kafka->fd, &err);
	if (kafka->producer == NULL) {
		kafka->retry_at = kafka->ticks + PAUSE_TICKS;
		err_set(&kafka->link.reason, "no producer can be made: %s", err.text);
		LOG_LIMITED(LOG_ERROR, "kafka_producer_refused", err.text, log_str("reason", err.text));
		return;
	}
	kafka->limits = kafka->producer->limits;
	kafkalink_renew(&kafka->link);
	kafka->useful = false;
	kafka->generation++;
	kafka->used_at = kafka->ticks;
	kafka->state = PRODUCER_RUNNING;
	ev_idle_start(kafka->loop, &kafka->again);
}

static void retire(struct kafka *kafka)
{
	while (serve_queue(kafka, REPORTS_A_TURN, 0))
		;
	kafka->retry_at =
		kafka->ticks + (kafka->useful || kafkaproducer_was_refused(kafka->producer) ? 0 : PAUSE_TICKS);
	kafkaproducer_end(kafka->producer);
	kafka->ending = kafka->producer;
	kafka->producer = NULL;
	kafka->state = PRODUCER_ENDING;
}

/* Answers what it never reported: only now does nobody read their bytes any more. */
static void bury(struct kafka *kafka)
{
	struct kafka_answer lost;
	struct list_node *node;

	(list_empty(&kafka->outstanding) ? kafkaproducer_leave : kafkaproducer_free)(kafka->ending);
	kafka->ending = NULL;
	kafka->state = PRODUCER_ABSENT;
	while ((node = list_first(&kafka->outstanding)) != NULL) {
		lost = kafkaanswer_of_loss();
		blame_the_end(kafka, LIST_OWNER(node, struct sent, node), &lost);
		give_answer(kafka, LIST_OWNER(node, struct sent, node), &lost);
	}
}

/* ---- the loop ---- */

static void serve(struct kafka *kafka)
{
	bool more = false;

	if (kafka->producer != NULL) {
		condemn_if_fatal(kafka);
		more = serve_queue(kafka, REPORTS_A_TURN, 0);
	}
	if (kafka->state == PRODUCER_CONDEMNED &&
	    (list_empty(&kafka->outstanding) || kafka->ticks - kafka->condemned_at >= GIVE_UP_TICKS))
		retire(kafka);
	if (kafka->ending != NULL && kafkaproducer_has_ended(kafka->ending))
		bury(kafka);
	if (kafka->state == PRODUCER_ABSENT && !kafka->spare && kafka->ticks >= kafka->retry_at)
		create(kafka);
	else
		(more ? ev_idle_start : ev_idle_stop)(kafka->loop, &kafka->again);
}

/* Only once all reports that have come were handled. */
static void condemn_if_stalled(struct kafka *kafka)
{
	const struct list_node *oldest = list_first(&kafka->outstanding);

	if (kafka->state != PRODUCER_RUNNING || ev_is_active(&kafka->again) || oldest == NULL)
		return;
	if (is_overdue(kafka, LIST_OWNER(oldest, struct sent, node)))
		condemn(kafka, KAFKA_REPLACED_STALLED, "STALLED", "no report within the message time-out");
}

static void close_if_idle(struct kafka *kafka)
{
	if (kafka->spare && kafka->state == PRODUCER_RUNNING && list_empty(&kafka->outstanding) &&
	    kafka->ticks - kafka->used_at >= IDLE_TICKS)
		retire(kafka);
}

static void on_wake(struct ev_loop *loop, struct ev_io *watcher, int revents)
{
	struct kafka *kafka = watcher->data;
	uint64_t count;

	(void)loop, (void)revents;
	/* First the descriptor, then the queue: what comes in between writes to it again. */
	if (read(kafka->fd, &count, sizeof(count)) < 0)
		return;
	serve(kafka);
}

static void on_again(struct ev_loop *loop, struct ev_idle *watcher, int revents)
{
	(void)loop, (void)revents;
	serve(watcher->data);
}

static void on_tick(struct ev_loop *loop, struct ev_timer *watcher, int revents)
{
	struct kafka *kafka = watcher->data;

	(void)loop, (void)revents;
	kafka->ticks++;
	/* What a condemned one had in flight may come back into its queue. */
	if (kafka->state == PRODUCER_CONDEMNED)
		kafkaproducer_purge(kafka->producer,
				    !sends_no_more(kafka) || kafka->ticks - kafka->condemned_at >= REPORT_TICKS);
	serve(kafka);
	condemn_if_stalled(kafka);
	close_if_idle(kafka);
}

static void start_watchers(struct kafka *kafka)
{
	kafka->fd = kafkaproducer_descriptor();
	ev_io_init(&kafka->wake, on_wake, kafka->fd, EV_READ);
	ev_idle_init(&kafka->again, on_again);
	/* libev holds idle watchers back while others of their priority have events. */
	ev_set_priority(&kafka->again, EV_MAXPRI);
	ev_timer_init(&kafka->tick, on_tick, TICK_SECONDS, TICK_SECONDS);
	kafka->wake.data = kafka->again.data = kafka->tick.data = kafka;
	ev_io_start(kafka->loop, &kafka->wake);
	ev_timer_start(kafka->loop, &kafka->tick);
}

struct kafka *kafka_new(struct ev_loop *loop, const struct config_kafka *config, enum kafka_kind kind,
			kafka_answer_fn *on_answer)
{
	struct kafka *kafka = MEM_NEW(struct kafka);

	kafka->loop = loop;
	kafka->kind = kind;
	kafka->spare = kind == KAFKA_CAREFUL || kind == KAFKA_SINGLE;
	kafka->on_answer = on_answer;
	kafka->arena = arena_new();
	kafka->config = kafkaconf_copy(kafka->arena, config);
	list_init(&kafka->outstanding);
	kafka->sents.size = sizeof(struct sent);
	kafka->link.servers = kafka->spare ? NULL : kafka->config.bootstrap_servers;
	err_set(&kafka->link.reason, "not connected yet");
	start_watchers(kafka);
	if (kafka->spare)
		return kafka;
	kafkaconf_warn(&kafka->config);
	create(kafka);
	return kafka;
}

void kafka_free(struct kafka *kafka)
{
	if (kafka == NULL)
		return;
	if (kafka->producer != NULL) {
		kafkaproducer_purge(kafka->producer, true);
		for (int i = 0; i < FREE_ROUNDS && !list_empty(&kafka->outstanding); i++)
			serve_queue(kafka, INT_MAX, FREE_ROUND_MS);
		retire(kafka);
	}
	if (kafka->ending != NULL)
		bury(kafka);
	ev_io_stop(kafka->loop, &kafka->wake);
	ev_idle_stop(kafka->loop, &kafka->again);
	ev_timer_stop(kafka->loop, &kafka->tick);
	close(kafka->fd);
	mem_pool_clear(&kafka->sents);
	arena_free(kafka->arena);
	mem_free(kafka);
}

/* ---- publishing ---- */

static enum verdict refuse(struct kafka *kafka, rd_kafka_resp_err_t code, size_t bytes,
			   struct kafka_answer *refusal)
{
	const struct kafkaanswer_size size = {bytes, kafka->limits.message_max_bytes};

	*refusal = kafkaanswer_of_refusal(code, &size, &kafka->text);
	if (refusal->fault == FAULT_PRODUCER) {
		condemn_if_fatal(kafka);
		refusal->fault = FAULT_NONE;
	}
	return refusal->verdict;
}

enum verdict kafka_publish(struct kafka *kafka, const struct message *message, void *tag,
			   struct kafka_answer *refusal)
{
	size_t bytes = route_message_bytes(message);
	rd_kafka_resp_err_t code;
	struct sent *sent;

	if (kafka->spare && kafka->state == PRODUCER_ABSENT && kafka->ticks >= kafka->retry_at)
		create(kafka);
	if (kafka->state != PRODUCER_RUNNING) {
		*refusal = (struct kafka_answer){
			.verdict = VERDICT_RETRY, .name = "", .text = kafka->link.reason.text};
		return VERDICT_RETRY;
	}
	sent = mem_pool_take(&kafka->sents);
	*sent = (struct sent){.tag = tag, .bytes = bytes, .tick = kafka->ticks};
	sent->outages = kafka->link.state == LINK_UP ? kafka->link.outages : UINT64_MAX;
	kafka->used_at = kafka->ticks;
	code = kafkaproducer_send(kafka->producer, message, sent);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
		mem_pool_give(&kafka->sents, sent);
		return refuse(kafka, code, bytes, refusal);
	}
	list_append(&kafka->outstanding, &sent->node);
	return VERDICT_OK;
}

/* ---- questions ---- */

bool kafka_up(const struct kafka *kafka)
{
	return kafka->state == PRODUCER_RUNNING && kafka->link.state == LINK_UP;
}

bool kafka_untried(const struct kafka *kafka)
{
	return kafka->state == PRODUCER_RUNNING && kafka->link.state == LINK_NEW;
}

const char *kafka_reason(const struct kafka *kafka)
{
	return kafka->link.reason.text;
}

size_t kafka_outstanding(const struct kafka *kafka)
{
	return kafka->outstanding.length;
}

void kafka_purge(struct kafka *kafka, bool in_flight)
{
	if (kafka == NULL)
		return;
	if (kafka->kind == KAFKA_GAPLESS && !list_empty(&kafka->outstanding))
		condemn(kafka, KAFKA_REPLACED_PURGED, "PURGED", "what it had was asked back");
	if (kafka->producer != NULL && kafka->kind != KAFKA_GAPLESS)
		kafkaproducer_purge(kafka->producer, in_flight);
}

uint64_t kafka_generation(const struct kafka *kafka)
{
	return kafka->generation;
}

uint64_t kafka_replacements(const struct kafka *kafka, enum kafka_replacement reason)
{
	return kafka == NULL ? 0 : kafka->replacements[reason];
}
