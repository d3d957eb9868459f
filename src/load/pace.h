/*
 * pace.h - how many reading threads a crew uses, decided while it runs.
 *
 * There are two cases, told apart by whether reads wait:
 *
 * - Reads that do not wait copy from the page cache, and a core is the limit. There are never more
 *   threads than cores, less the owner's (without a ring, of 4 cores or more), and fewer if they do
 *   not get their cores: other programs, other ranks or a quota of a control group take part of
 *   them.
 * - Reads that wait for a device or a server cost little while they wait. There are as many threads
 *   as requests in flight if the queue keeps them busy, unless they fill all cores.
 *
 * A crew that has a ring begins without threads, gets them once the owner's core is full, and is
 * without them again once half a core could do all the work. Reads that wait cost less in the ring:
 * it keeps them, and threads are added one by one while the owner's core is full.
 *
 * The rate of reading is deliberately not used: over the 10 ms between two decisions, it varies by
 * more than one thread in sixteen adds.
 */
#ifndef SHOAL_LOAD_PACE_H
#define SHOAL_LOAD_PACE_H

#include "base/base.h"

/* More threads than this cost more than they gain; further requests wait. */
#define PACE_MAX 256u

struct pace_limits {
	unsigned in_flight;
	unsigned most;  /* never more than this many threads; at most PACE_MAX */
	unsigned fixed; /* always this many threads; 0: as many as pay */
	bool ring;      /* the owner reads by itself while there are no threads */
	bool rings;     /* the threads have rings, too: only the owner's load is known */
};

/* Sums since the crew was created. */
struct pace_sums {
	uint64_t owner_cpu;       /* CPU time of the owner, ns */
	uint64_t cpu;             /* CPU time of all reading threads, ns */
	uint64_t busy;            /* time in which they had something to read, ns */
	uint64_t sampled, waited; /* reads that were examined; those of them that had to wait */
};

struct pace {
	struct pace_limits is;
	unsigned cores; /* that may be used now */
	unsigned wanted;
	bool waits;    /* reads wait: see above */
	bool was_full; /* all cores were used since reads wait: add threads slowly */
	uint64_t looked;
	struct pace_sums last;
};

void pace_init(struct pace *p, const struct pace_limits *limits, unsigned cores, uint64_t now);

/* Whether it is time for the next decision. */
bool pace_is_due(const struct pace *p, uint64_t now);

/* Decide: p->wanted is the number of threads wanted. */
void pace_decide(struct pace *p, const struct pace_sums *sums, uint64_t now);

/* No more than @most threads can be had from now on. */
void pace_limit(struct pace *p, unsigned most);

/* They can be had again: the limits are these. */
void pace_set_limits(struct pace *p, const struct pace_limits *limits);

#endif
