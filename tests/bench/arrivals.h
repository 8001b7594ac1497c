/* arrivals: reads a topic in a thread of its own, and notes when each record of this run of `load` arrives. */
#ifndef OUTBOXD_TESTS_ARRIVALS_H
#define OUTBOXD_TESTS_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

struct arrivals;

/* How the payload of a record begins, as jsonb prints it: its number in the run, and the run's. */
#define ARRIVALS_PAYLOAD "{\"i\": %zu, \"r\": %u"

/* Returns when every partition is read from its present end. n: how many records will be written. */
struct arrivals *arrivals_open(const char *bootstrap, const char *topic, unsigned run, size_t n);

/* Waits until all n have arrived, or none has for some seconds, and ends the thread. Returns when each arrived
 * (bench_now_us; 0: it has not), borrowed until arrivals_close. */
const int64_t *arrivals_wait(struct arrivals *arrivals);
void arrivals_close(struct arrivals *arrivals);

#endif
