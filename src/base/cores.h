/* cores.h - which cores this process may use, and the memory that it has. */
#ifndef SHOAL_BASE_CORES_H
#define SHOAL_BASE_CORES_H

#include <sched.h>

#include "base/base.h"

/* At least 1. */
static inline unsigned cores_available(void)
{
	cpu_set_t set;
	int nr = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return nr > 1 ? (unsigned)nr : 1;
}

/*
 * cores_available(), or fewer if a control group limits the CPU time of this process: the number of
 * cores that would use all of it, rounded up. It may change while the process runs.
 */
unsigned cores_allowed(void);

/*
 * The cores' worth of CPU time, rounded up, that the control groups of a process leave it: @groups
 * is the text of its /proc/PID/cgroup, @root where the hierarchies are mounted. UINT_MAX: no limit.
 */
unsigned cores_quota(const char *groups, const char *root);

/*
 * Move the calling thread to a core other than @core, if it may use another. Without this, two
 * threads that hand items to each other can be woken on the same core for up to 30 ms after all
 * cores were busy, while another core is idle.
 */
static inline void leave_core(int core)
{
	cpu_set_t may, others;

	if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(may), &may) < 0)
		return;
	others = may;
	CPU_CLR((unsigned)core, &others);
	if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
		(void)!sched_setaffinity(0, sizeof(may), &may);
}

/* The resident memory of this process, in bytes; 0 if the system does not report it. */
uint64_t resident_bytes(void);

#endif
