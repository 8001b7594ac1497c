/* judge: what libpq and librdkafka say about their own settings, for config_load_judged. Connects to nothing. */
#ifndef OUTBOXD_IO_JUDGE_H
#define OUTBOXD_IO_JUDGE_H

#include "config/config.h"

extern const struct config_judge judge_libraries;

#endif
