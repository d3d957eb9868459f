/*
 * pace.h - whether more threads than cores would help: they do if those that run wait.
 *
 * If everything is cached, more threads than cores only compete: 16 that list on two cores took a
 * sixth longer than 3. If they wait for a disk or a server, 16 are three times as fast as 4.
 * Waiting for disks is detected by the blocks read, and waiting for servers by idle cores.
 */
#ifndef SHOAL_INDEX_PACE_H
#define SHOAL_INDEX_PACE_H

#include <pthread.h>

#include "base/base.h"

/* How often to look. */
#define INDEX_PACE_NS 5000000u

struct index_pace {
	unsigned nr_cores;  /* for the threads of the caller */
	uint64_t looked_ns; /* when it last looked */
	uint64_t used_ns;   /* the CPU time that threads had used until then */
	long nr_blocks;     /* what had come from disks */
	unsigned nr_idle;   /* consecutive looks that saw idle cores */
};

void index_pace_start(struct index_pace *p, unsigned nr_cores);

/* The CPU time of a thread that has not been joined. The threads of the caller alone count: the
 * process may have others, such as a trainer's. */
uint64_t index_pace_used(pthread_t thread);

/*
 * Look again, if it is time: whether threads wait that would otherwise work. @used_ns: by all
 * threads of the caller so far. @at_work: none of them is idle for lack of work.
 */
bool index_pace_is_due(const struct index_pace *p);
bool index_pace_wants_more(struct index_pace *p, uint64_t used_ns, bool at_work);

#endif
