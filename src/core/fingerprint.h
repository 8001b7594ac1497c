/* fingerprint: a short mark of those settings of a source that all relays of one table must share. It stands at the end of
 * a relay's name in lease_owner, behind a slash, so that whoever reads the table can tell that two of them differ. */
#ifndef OUTBOXD_CORE_FINGERPRINT_H
#define OUTBOXD_CORE_FINGERPRINT_H

#include "config/config.h"

/* Eight hexadecimal digits. */
#define FINGERPRINT_SIZE 9

/* Columns, states, topic, headers, ordering, on_failed, on_delivered, max_attempts: what may differ, such as lease, batch or
 * poll, is left out. */
void fingerprint_write(const struct config_source *source, char out[FINGERPRINT_SIZE]);

#endif
