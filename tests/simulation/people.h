/* people: everybody else who writes to the table: applications that insert, operators who retry and skip, and people who edit
 * rows by hand as far as the promises allow it. */
#ifndef OUTBOXD_SIMULATION_PEOPLE_H
#define OUTBOXD_SIMULATION_PEOPLE_H

#include "checker.h"

struct people;

struct people_habits {
	int rows; /* to insert */
	int keys;
	double stray;				   /* share of the rows that do not go to their key's topic */
	int64_t until_us;			   /* the last is inserted about then */
	double poison, unrouted, tombstone, curse; /* shares of the rows */
	int crashers;
	int64_t pace_us; /* between two acts of operators and hands, at most */
	bool by_hand;	 /* edits, holds, deletes, marks */
};

/* woken: called when rows were committed, as NOTIFY does (sometimes not: it is only a hint). */
struct people *people_new(struct sim *sim, struct table *table, const struct people_habits *habits,
			  agenda_fn *woken, void *context);

/* From now on some source lets failed rows block their keys. */
void people_note_blocking(struct people *people);

/* Skips every failed row and lets go what is held. */
void people_clear(struct people *people);

/* Is everything inserted, and are no rows open? Blocking failures count as open. */
bool people_done(const struct people *people);

#endif
