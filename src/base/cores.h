/* cores.h - how many cores this process may use. */
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

#endif
