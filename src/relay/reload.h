/* reload: the configuration file is read again: taken as a whole, or not at all. */
#ifndef OUTBOXD_RELAY_RELOAD_H
#define OUTBOXD_RELAY_RELOAD_H

#include "config/config.h"

/* The running one's file as it is now. NULL: the running one has to go on, and the log says why (`reload_rejected`): every
 * mistake, or the settings that wait for a restart. A file with such a change is not taken in part. Free with config_free. */
struct config *reload_read(const struct config *running) must_check;

/* Says what is different (`reloaded`), and logs by the new settings from then on. */
void reload_tell(const struct config *before, const struct config *after);

#endif
