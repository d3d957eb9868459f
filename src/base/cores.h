/* cores.h - which cores this process may use. */
#ifndef SHOAL_BASE_CORES_H
#define SHOAL_BASE_CORES_H

#include <sched.h>

#include "base/base.h"

/* At least 1. */
static inline unsigned shoal_nr_cores(void)
{
	cpu_set_t set;
	int nr = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return nr > 1 ? (unsigned)nr : 1;
}

/*
 * Let the calling thread go on on another core than @core, now, where it may use another. Two
 * threads that hand things to each other are woken on the same core for as long as the system
 * remembers that all were busy, up to 30 ms, while another one has nothing to do.
 */
static inline void shoal_leave_core(int core)
{
	cpu_set_t may, others;

	if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(may), &may) < 0)
		return;
	others = may;
	CPU_CLR((unsigned)core, &others);
	if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
		(void)!sched_setaffinity(0, sizeof(may), &may);
}

#endif
