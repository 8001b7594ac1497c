/* What is judged when a history is over: nothing is lost, and every delivery that was repeated follows from a fault that
 * was injected, and was counted. */
#include "records.h"

#include <stdlib.h>

enum window { WINDOW_LEASE, WINDOW_CRASH, WINDOW_REPLACED, WINDOW_TIMED_OUT, WINDOW_NONE };

/* The relay itself has settled it as sent: marked, or deleted. */
static const struct claim_record *settled_as_sent(const struct row *row)
{
	const struct claim_record *claim = row->record == NULL ? NULL : row->record->claims;

	while (claim != NULL && !(claim->settled && claim->state == ROW_SENT))
		claim = claim->next;
	return claim;
}

static bool has_letter(const struct row *row)
{
	const struct publication *letter = row->record == NULL ? NULL : row->record->letters;

	while (letter != NULL && letter->written_us == 0)
		letter = letter->next;
	return letter != NULL || (row->record != NULL && row->record->unburied);
}

static void check_row_end(struct sim *sim, const struct row *row)
{
	const struct version *version = table_committed(row);
	const struct claim_record *sent = settled_as_sent(row);

	if (sent != NULL && row->record->written == 0 && !row->record->orderless)
		sim_fail(sim, "lost", "row %lld was settled as sent and is on no topic", (long long)row->id);
	if (version == NULL)
		return;
	if (sent != NULL && sent->start->config->on_delivered == ON_DELIVERED_DELETE)
		sim_fail(sim, "kept", "row %lld was delivered, and is not deleted", (long long)row->id);
	if (version->state == ROW_SENT &&
	    (row->record == NULL || (row->record->written == 0 && !row->record->orderless)))
		sim_fail(sim, "lost", "row %lld is marked sent and is on no topic", (long long)row->id);
	if (version->state == ROW_FAILED && version->last_error == NULL)
		sim_fail(sim, "failed-unexplained", "row %lld failed without a reason", (long long)row->id);
	if (version->state == ROW_FAILED && sim->checker->letters && !has_letter(row))
		sim_fail(sim, "failed-silently", "row %lld failed, and no dead letter tells of it",
			 (long long)row->id);
	if (version->state != ROW_SENT && version->state != ROW_FAILED)
		sim_fail(sim, "left-over", "row %lld is neither sent nor failed", (long long)row->id);
}

/* Why a row that was written may have been published once more. */
static enum window window_of(const struct publication *publication)
{
	const struct claim_record *claim = publication->claim;

	if (publication->answered_us != 0 && publication->answer.possibly_written)
		return publication->answer.replaced ? WINDOW_REPLACED : WINDOW_TIMED_OUT;
	if (claim->settled && claim->state == (publication->letter ? ROW_FAILED : ROW_SENT))
		return WINDOW_NONE;
	if (publication->start->gone && publication->start->gone_us <= claim->lease)
		return WINDOW_CRASH;
	return record_expiry_explained(publication->row, claim) ? WINDOW_LEASE : WINDOW_NONE;
}

/* The later one may also be of an owner that had lost its lease, and did not know. */
static enum window window_between(const struct publication *publication, const struct publication *again)
{
	enum window window = window_of(publication);

	if (window == WINDOW_NONE && again->claim->committed_us < publication->claim->committed_us &&
	    record_expiry_explained(again->row, again->claim))
		return WINDOW_LEASE;
	return window;
}

/* A lease that is taken over is counted once, whether the record is sent again, its dead letter, or one after the other. */
static bool is_counted(const struct row *row, const struct publication *again)
{
	return !row->record->retried && !(again->letter && record_last_under(row, again->claim) != NULL);
}

static void count_windows(struct sim *sim, const struct row *row, const struct publication *publication,
			  double windows[WINDOW_NONE])
{
	const struct publication *again = NULL;

	for (; publication != NULL; publication = publication->next) {
		enum window window;

		if (again != NULL && record_sent_anew(again->claim, publication->claim))
			again = NULL;
		if (publication->written_us != 0 && again != NULL) {
			window = window_between(publication, again);
			sim->checker->totals.duplicates++;
			if (window == WINDOW_NONE && !(publication->letter && row->record->retried))
				sim_fail(sim, "unexplained-duplicate",
					 "row %lld was delivered again without a fault", (long long)row->id);
			else if (window != WINDOW_NONE && is_counted(row, again))
				windows[window]++;
		}
		if (publication->written_us != 0)
			again = publication;
	}
}

static double counted(struct sim *sim, struct metrics *metrics, enum metric metric, const char *label)
{
	return metrics_series(metrics, metric, sim->checker->source, label)->value;
}

static void check_counters(struct sim *sim, struct metrics *metrics, const double windows[WINDOW_NONE])
{
	const struct checker *checker = sim->checker;
	double unseen = (double)checker->unseen;
	double lease = counted(sim, metrics, METRIC_POSSIBLE_DUPLICATES, "lease_expired");
	double crash = counted(sim, metrics, METRIC_POSSIBLE_DUPLICATES, "crash_recovered");
	double replaced = counted(sim, metrics, METRIC_POSSIBLE_DUPLICATES, "producer_replaced");
	double timed_out = counted(sim, metrics, METRIC_POSSIBLE_DUPLICATES, "timed_out");
	double expired = counted(sim, metrics, METRIC_LEASE_EXPIRED, NULL);
	double late = counted(sim, metrics, METRIC_RESULT_TIMEOUTS, NULL);
	double fenced = counted(sim, metrics, METRIC_SETTLE_FENCED, NULL);

	if (lease + crash + unseen + (double)checker->parked_uncounted + (double)checker->expired_untold <
	    windows[WINDOW_LEASE] + windows[WINDOW_CRASH])
		sim_fail(sim, "uncounted-duplicate",
			 "%.0f rows were delivered again after a lease, %.0f are counted",
			 windows[WINDOW_LEASE] + windows[WINDOW_CRASH], lease + crash);
	if (replaced + unseen < windows[WINDOW_REPLACED] || timed_out + unseen < windows[WINDOW_TIMED_OUT])
		sim_fail(sim, "uncounted-duplicate",
			 "%.0f and %.0f were possibly written, %.0f and %.0f are counted", windows[WINDOW_REPLACED],
			 windows[WINDOW_TIMED_OUT], replaced, timed_out);
	if (replaced + timed_out != (double)checker->possibly_told)
		sim_fail(sim, "miscounted", "%llu answers said possibly written, %.0f are counted",
			 (unsigned long long)checker->possibly_told, replaced + timed_out);
	if (expired != (double)checker->takeovers_told)
		sim_fail(sim, "miscounted", "%llu leases had run out, %.0f are counted",
			 (unsigned long long)checker->takeovers_told, expired);
	if (late != (double)checker->late_told)
		sim_fail(sim, "miscounted", "%llu results were late, %.0f are counted",
			 (unsigned long long)checker->late_told, late);
	if (fenced != (double)checker->totals.fenced)
		sim_fail(sim, "miscounted", "%llu outcomes were fenced, %.0f are counted",
			 (unsigned long long)checker->totals.fenced, fenced);
}

void check_end(struct sim *sim, struct metrics *metrics)
{
	const struct table *table = sim->checker->table;
	double windows[WINDOW_NONE] = {0};

	for (size_t i = 0; i < table->n_rows; i++) {
		check_row_end(sim, table->rows[i]);
		if (table->rows[i]->record == NULL)
			continue;
		count_windows(sim, table->rows[i], table->rows[i]->record->publications, windows);
		count_windows(sim, table->rows[i], table->rows[i]->record->letters, windows);
	}
	check_counters(sim, metrics, windows);
}
