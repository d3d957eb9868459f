/* clock.h - the system's clocks, in nanoseconds. */
#ifndef SHOAL_BASE_CLOCK_H
#define SHOAL_BASE_CLOCK_H

#include <errno.h>
#include <time.h>

#include "base/base.h"

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t = { 0 }; /* stays zero if the clock of a thread that ended is read */

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The point in time @ns after the epoch of a clock, for calls that wait until then. */
static inline struct timespec clock_time(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

/* The clock for durations and deadlines: it never steps. */
static inline uint64_t clock_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* The time of day: nanoseconds since 1970. It may step. */
static inline uint64_t clock_wall(void)
{
	return clock_ns(CLOCK_REALTIME);
}

/* Sleep. It is until a point in time, so that a signal does not make it longer. The kernel may add
 * its timer slack, 50 us unless the thread has set less (PR_SET_TIMERSLACK). */
static inline void clock_pause_us(uint64_t us)
{
	struct timespec until = clock_time(clock_now() + us * 1000);

	while (us > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* The steady clock in seconds. */
static inline double clock_seconds(void)
{
	return (double)clock_now() * 1e-9;
}

#endif
