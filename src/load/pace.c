#include "load/pace.h"

/* The least time between two decisions. */
#define LOOK_NS 10000000u

/* So many reads must have been examined before it is decided whether they wait, and one of so many
 * must have waited. */
#define SAMPLES      4u
#define WAITING_1_OF 8u

/*
 * From this number of cores on, one is left for the owner and the consumer, even if the owner reads
 * nothing: otherwise they wait for threads that copy, and threads wait for them. 300 KB files in
 * the page cache, 16 cores, three runs by turns: 187,000 to 200,000 files per second (62 to 67 us
 * of CPU per file) with 16 threads, 217,000 to 253,000 (58 to 64) with 15.
 */
#define CORE_FOR_OWNER 4u

/* Whether @part is at least @nr 16ths of @whole. */
static bool is_share(uint64_t part, uint64_t nr, uint64_t whole)
{
	return part >= whole / 16 * nr;
}

static unsigned clamp(unsigned nr, unsigned least, unsigned most)
{
	return nr < least ? least : nr > most ? most : nr;
}

/* The fewest and the most threads now. */
static unsigned pace_least(const struct pace *p)
{
	return p->is.ring ? 0 : 1;
}

static unsigned pace_most(const struct pace *p)
{
	unsigned for_copies = p->is.ring || p->cores >= CORE_FOR_OWNER ? p->cores - 1 : p->cores;
	unsigned most = clamp(p->is.in_flight, 1, p->is.most);

	return clamp(p->waits ? p->is.in_flight : for_copies, pace_least(p), most);
}

void pace_set_limits(struct pace *p, const struct pace_limits *limits)
{
	p->is = *limits;
	p->is.most = clamp(p->is.most, 0, PACE_MAX);
	p->is.fixed = clamp(p->is.fixed, 0, clamp(limits->in_flight, 1, p->is.most));
	p->wanted = p->is.fixed ? p->is.fixed : p->wanted;
}

void pace_init(struct pace *p, const struct pace_limits *limits, unsigned cores, uint64_t now)
{
	*p = (struct pace){ .cores = cores, .looked = now };
	pace_set_limits(p, limits);
	if (!p->is.fixed && !p->is.ring)
		p->wanted = pace_most(p);
}

void pace_limit(struct pace *p, unsigned most)
{
	p->is.most = most;
	p->is.fixed = p->is.fixed < most ? p->is.fixed : most;
	p->wanted = p->wanted < most ? p->wanted : most;
}

bool pace_is_due(const struct pace *p, uint64_t now)
{
	return !p->is.fixed && now - p->looked >= LOOK_NS;
}

/* Whether reads wait, from all that were examined since this was last known. */
static void pace_update_waits(struct pace *p, const struct pace_sums *sums)
{
	uint64_t sampled = sums->sampled - p->last.sampled, waited = sums->waited - p->last.waited;
	bool waits = waited * WAITING_1_OF >= sampled;

	if (sampled < SAMPLES)
		return;
	if (waits != p->waits)
		p->was_full = false;
	p->waits = waits;
	p->last.sampled = sums->sampled;
	p->last.waited = sums->waited;
}

/* Threads that do not wait run on a core for as long as they are busy, unless something else uses
 * that core. */
static unsigned for_copies(const struct pace *p, uint64_t cpu, uint64_t busy, bool always)
{
	if (always && is_share(cpu, 12, busy))
		return p->wanted + (unsigned)u64_max(1, p->wanted / 2);
	if (p->wanted > 1 && !is_share(cpu, 8, busy))
		return p->wanted - (unsigned)u64_max(1, p->wanted / 4);
	return p->wanted;
}

/* One more if the owner's core is full, and one less if half of it is not used. */
static unsigned for_owner(const struct pace *p, uint64_t owner, uint64_t passed)
{
	if (is_share(owner, 14, passed))
		return p->wanted + 1;
	return p->wanted - (p->wanted > 0 && !is_share(owner, 8, passed));
}

static unsigned for_waits(struct pace *p, bool full, bool always)
{
	unsigned eighth = (unsigned)u64_max(1, p->wanted / 8);

	p->was_full = p->was_full || full;
	if (full)
		return p->wanted - (p->wanted > 1 ? eighth : 0);
	if (!always)
		return p->wanted;
	return p->was_full ? p->wanted + eighth : 2 * p->wanted;
}

void pace_decide(struct pace *p, const struct pace_sums *sums, uint64_t now)
{
	uint64_t passed = now - p->looked, owner = sums->owner_cpu - p->last.owner_cpu;
	uint64_t cpu = sums->cpu - p->last.cpu;
	/* A thread may have become busy since @now was taken. */
	uint64_t busy = sums->busy > p->last.busy ? sums->busy - p->last.busy : 0;
	/* The queue always had something for each of them. */
	bool always = is_share(busy, 14, passed * p->wanted);
	unsigned wanted;

	p->looked = now;
	p->last.owner_cpu = sums->owner_cpu;
	p->last.cpu = sums->cpu;
	p->last.busy = sums->busy;
	pace_update_waits(p, sums);
	if (p->is.rings || (p->is.ring && (p->wanted == 0 || p->waits)))
		wanted = for_owner(p, owner, passed);
	else if (p->is.ring && !is_share(owner + cpu, 8, passed))
		wanted = p->wanted / 2;
	else if (p->waits)
		wanted = for_waits(p, is_share(owner + cpu, 14, passed * p->cores), always);
	else
		wanted = for_copies(p, cpu, busy, always);
	p->wanted = clamp(wanted, pace_least(p), pace_most(p));
}
