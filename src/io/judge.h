/* judge: what libpq and librdkafka say about their own settings. Connects to nothing. */
#ifndef OUTBOXD_IO_JUDGE_H
#define OUTBOXD_IO_JUDGE_H

#include "config/config.h"

/* config_load_judged by both libraries, who also say which settings contradict each other. known (NULL: none) is a
 * configuration that was judged before: a producer that stands there too is not tried again. */
struct config *judge_load(const char *file, const struct config *known, struct buf *problems) must_check;

#endif
