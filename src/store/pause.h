/* pause.h - sleep for a time that signals do not change. */
#ifndef SHOAL_STORE_PAUSE_H
#define SHOAL_STORE_PAUSE_H

#include <errno.h>

#include "base/clock.h"

/* Sleeps until a point in time, so that a signal does not make it longer. The kernel may add its
 * timer slack, 50 us unless the thread has set less (PR_SET_TIMERSLACK). */
static inline void store_pause_us(uint64_t us)
{
	struct timespec until;

	if (us == 0)
		return;
	until = clock_time(clock_now() + us * 1000);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

#endif
