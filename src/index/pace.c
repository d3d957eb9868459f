#include "index/pace.h"

#include <sys/resource.h>

#include "base/clock.h"

/* How many consecutive looks must see idle cores: sorting takes some of the time, in bursts. */
#define IDLE_LOOKS 4u

/* Blocks of 512 bytes that came from a disk since the last look: nothing is cached. */
#define COLD_BLOCKS 64

static long blocks_read(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_inblock : 0;
}

void index_pace_start(struct index_pace *p, unsigned nr_cores)
{
	*p = (struct index_pace){ .nr_cores = nr_cores,
				  .looked_ns = clock_now(),
				  .nr_blocks = blocks_read() };
}

uint64_t index_pace_used(pthread_t thread)
{
	clockid_t clock;

	return pthread_getcpuclockid(thread, &clock) == 0 ? clock_ns(clock) : 0;
}

bool index_pace_is_due(const struct index_pace *p)
{
	return clock_now() - p->looked_ns >= INDEX_PACE_NS;
}

bool index_pace_wants_more(struct index_pace *p, uint64_t used_ns, bool at_work)
{
	uint64_t now = clock_now(), passed = now - p->looked_ns;
	long blocks = blocks_read();
	bool cold = blocks - p->nr_blocks >= COLD_BLOCKS;

	p->looked_ns = now;
	if (at_work && used_ns - p->used_ns < passed / 8 * 5 * p->nr_cores)
		p->nr_idle++;
	else
		p->nr_idle = 0;
	p->nr_blocks = blocks;
	p->used_ns = used_ns;
	return at_work && (cold || p->nr_idle == IDLE_LOOKS);
}
