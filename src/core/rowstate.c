#include "core/rowstate.h"

#include <stdbool.h>

/* A transition holds always, or depends on whether the row has an attempt left. */
enum attempts_left { ANY_ATTEMPTS, SOME_LEFT, NONE_LEFT };

static const struct transition {
	enum row_state from;
	enum row_event event;
	enum attempts_left left;
	enum row_state to;
	const char *note;
} transitions[] = {
	{ROW_PENDING, ROW_CLAIM, ANY_ATTEMPTS, ROW_IN_FLIGHT,
	 "an instance takes the row: attempts + 1, and a lease that ends by itself"},
	{ROW_IN_FLIGHT, ROW_DELIVERED, ANY_ATTEMPTS, ROW_SENT,
	 "Kafka has confirmed the record; with `on_delivered: delete` the row is deleted"},
	{ROW_IN_FLIGHT, ROW_DISPATCHED, ANY_ATTEMPTS, ROW_IN_FLIGHT,
	 "the same with `on_delivered: await`: the row waits for its consumer's result, no longer than `result_timeout`"},
	{ROW_IN_FLIGHT, ROW_RESULT_SENT, ANY_ATTEMPTS, ROW_SENT, "its consumer has written that it is done"},
	{ROW_IN_FLIGHT, ROW_RESULT_FAILED, ANY_ATTEMPTS, ROW_FAILED,
	 "its consumer has written that it has failed: left alone"},
	{ROW_IN_FLIGHT, ROW_RESULT_PENDING, ANY_ATTEMPTS, ROW_PENDING, "its consumer asks for it to be sent again"},
	{ROW_IN_FLIGHT, ROW_RESULT_LATE, SOME_LEFT, ROW_PENDING,
	 "no result within `result_timeout`: it is claimed again at once, as the next attempt"},
	{ROW_IN_FLIGHT, ROW_RESULT_LATE, NONE_LEFT, ROW_FAILED, "no result within it after the last attempt"},
	{ROW_IN_FLIGHT, ROW_RETRY, SOME_LEFT, ROW_PENDING,
	 "not delivered: tried again after the backoff, the error is kept"},
	{ROW_IN_FLIGHT, ROW_RETRY, NONE_LEFT, ROW_FAILED,
	 "not delivered, and that was the last attempt: the error is kept"},
	{ROW_IN_FLIGHT, ROW_REJECT, ANY_ATTEMPTS, ROW_FAILED,
	 "can never be delivered as it is: no further attempt, the error is kept"},
	{ROW_IN_FLIGHT, ROW_LEASE_EXPIRED, SOME_LEFT, ROW_PENDING,
	 "its instance died or was too slow: whoever comes first claims it again"},
	{ROW_IN_FLIGHT, ROW_LEASE_EXPIRED, NONE_LEFT, ROW_FAILED, "its lease ended during the last attempt"},
	{ROW_IN_FLIGHT, ROW_RELEASE, ANY_ATTEMPTS, ROW_PENDING,
	 "given back unsent (shutdown, outage): the attempt is given back too"},
	{ROW_IN_FLIGHT, ROW_POSTPONE, ANY_ATTEMPTS, ROW_PENDING,
	 "`dead_letter_topic`: it would have failed, and Kafka does not have its dead letter; the next claim is for that alone"},
	{ROW_FAILED, ROW_COMMAND_RETRY, ANY_ATTEMPTS, ROW_PENDING, "`retry`: attempts 0, due at once"},
	{ROW_FAILED, ROW_COMMAND_SKIP, ANY_ATTEMPTS, ROW_FAILED,
	 "`skip`: settled, so that it no longer blocks its key"},
	{ROW_PENDING, ROW_COMMAND_SKIP, ANY_ATTEMPTS, ROW_FAILED, "`skip --id`: settled without having been sent"},
};

#define TRANSITIONS (sizeof(transitions) / sizeof(transitions[0]))

const char *row_state_name(enum row_state state)
{
	static const char *const names[ROW_STATES] = {"pending", "in_flight", "sent", "failed"};

	return names[state];
}

const char *row_event_name(enum row_event event)
{
	static const char *const names[ROW_EVENTS] = {
		[ROW_CLAIM] = "claim",
		[ROW_DELIVERED] = "delivered",
		[ROW_DISPATCHED] = "delivered, await",
		[ROW_RESULT_SENT] = "result sent",
		[ROW_RESULT_FAILED] = "result failed",
		[ROW_RESULT_PENDING] = "result pending",
		[ROW_RESULT_LATE] = "result late",
		[ROW_RETRY] = "retry",
		[ROW_REJECT] = "reject",
		[ROW_LEASE_EXPIRED] = "lease expired",
		[ROW_RELEASE] = "release",
		[ROW_POSTPONE] = "postpone",
		[ROW_COMMAND_RETRY] = "retry command",
		[ROW_COMMAND_SKIP] = "skip command",
	};

	return names[event];
}

static bool applies(const struct transition *transition, int32_t attempts, int32_t max)
{
	return transition->left == ANY_ATTEMPTS || (transition->left == SOME_LEFT) == (attempts < max);
}

bool row_next(enum row_state state, enum row_event event, int32_t attempts, int32_t max, enum row_state *next)
{
	size_t i;

	for (i = 0; i < TRANSITIONS; i++) {
		if (transitions[i].from != state || transitions[i].event != event)
			continue;
		if (!applies(&transitions[i], attempts, max))
			continue;
		*next = transitions[i].to;
		return true;
	}
	return false;
}

static const char *condition(enum attempts_left left)
{
	static const char *const words[] = {"", ", attempts left", ", no attempts left"};

	return words[left];
}

static void print_text(FILE *out)
{
	size_t i;
	int width;

	fprintf(out, "%-10s %-33s %-10s %s\n", "FROM", "EVENT", "TO", "NOTE");
	for (i = 0; i < TRANSITIONS; i++) {
		width = fprintf(out, "%-10s %s%s", row_state_name(transitions[i].from),
				row_event_name(transitions[i].event), condition(transitions[i].left));
		fprintf(out, "%*s%-10s %s\n", 45 - width, "", row_state_name(transitions[i].to),
			transitions[i].note);
	}
}

/* The words of the table need no escaping. */
static void print_json(FILE *out)
{
	size_t i;

	fputs("[", out);
	for (i = 0; i < TRANSITIONS; i++)
		fprintf(out, "%s\n  {\"from\": \"%s\", \"event\": \"%s%s\", \"to\": \"%s\", \"note\": \"%s\"}",
			i == 0 ? "" : ",", row_state_name(transitions[i].from),
			row_event_name(transitions[i].event), condition(transitions[i].left),
			row_state_name(transitions[i].to), transitions[i].note);
	fputs("\n]\n", out);
}

void row_print_table(FILE *out, bool json)
{
	if (json)
		print_json(out);
	else
		print_text(out);
}
