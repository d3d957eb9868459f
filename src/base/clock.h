/* clock.h - what a clock of the system shows, in nanoseconds. */
#ifndef SHOAL_BASE_CLOCK_H
#define SHOAL_BASE_CLOCK_H

#include <time.h>

#include "base/base.h"

static inline uint64_t shoal_clock_ns(clockid_t clock)
{
	struct timespec t = { 0 }; /* as of a thread that has ended */

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
