/* deadline: waiting for one descriptor until a moment of CLOCK_MONOTONIC, for what blocks on purpose. */
#ifndef OUTBOXD_BASE_DEADLINE_H
#define OUTBOXD_BASE_DEADLINE_H

#include "base/err.h"

#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t deadline_now_ms(void);

/* Waits for these events of poll(2). False with errno: ETIMEDOUT when the time is over. */
bool deadline_wait(int fd, short events, int64_t until_ms) must_check;

#endif
