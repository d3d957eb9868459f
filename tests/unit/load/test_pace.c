/*
 * Goal: a crew has as many threads as pay: a core each for reads that copy, one per read in flight
 * for reads that wait, and none where a ring alone is enough; and never more than there may be.
 */
#include <stdio.h>

#include "help.h"
#include "load/crew_private.h"
#include "load/pace.h"

#define PERIOD 10000000u

/* A machine on which @cores are free, for reads of which a share waits. */
struct world {
	uint64_t now;
	struct pace_sums sums;
	unsigned cores;    /* for the threads, besides the owner's */
	unsigned cpu;      /* percent of a thread's time that it computes if it has a core */
	unsigned owner;    /* percent of its core that the owner uses */
	unsigned requests; /* threads that have something to read */
	bool waits;
};

/* One period passes, and the next decision is made. */
static unsigned step(struct pace *p, struct world *w)
{
	unsigned busy = p->wanted < w->requests ? p->wanted : w->requests;
	uint64_t cpu = (uint64_t)PERIOD / 100 * w->cpu * busy;

	w->now += PERIOD;
	w->sums.owner_cpu += (uint64_t)PERIOD / 100 * w->owner;
	w->sums.busy += (uint64_t)PERIOD * busy;
	w->sums.cpu += u64_min(cpu, (uint64_t)PERIOD * w->cores);
	w->sums.sampled += 10 * (uint64_t)busy;
	w->sums.waited += w->waits ? 10 * (uint64_t)busy : 0;
	assert_true(p->is.fixed || pace_is_due(p, w->now));
	pace_decide(p, &w->sums, w->now);
	assert_true(p->wanted <= p->is.in_flight && p->wanted <= PACE_MAX);
	return p->wanted;
}

static unsigned after(struct pace *p, struct world *w, int periods)
{
	for (int i = 0; i < periods; i++)
		step(p, w);
	return p->wanted;
}

static struct pace pace_of(unsigned cores, unsigned in_flight, bool ring, struct world *ret_world)
{
	struct pace_limits limits = { .in_flight = in_flight, .most = PACE_MAX, .ring = ring };
	struct pace p;

	*ret_world =
		(struct world){ .cores = cores - 1, .cpu = 100, .owner = 95, .requests = PACE_MAX };
	pace_init(&p, &limits, cores, 0);
	return p;
}

static void copies_get_a_core_each_within_a_tenth_of_a_second(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, true, &w);

	(void)state;
	assert_int_equal(p.wanted, 0);
	assert_int_equal(after(&p, &w, 10), 15);
	assert_int_equal(after(&p, &w, 100), 15);
	p = pace_of(16, 64, false, &w); /* the owner reads nothing */
	assert_int_equal(after(&p, &w, 10), 15);
	p = pace_of(3, 64, false, &w);
	assert_int_equal(after(&p, &w, 10), 3);
	p = pace_of(16, 4, true, &w);
	assert_int_equal(after(&p, &w, 10), 4);
}

static void a_ring_that_is_enough_stays_alone(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, true, &w);

	(void)state;
	w.owner = 80;
	assert_int_equal(after(&p, &w, 100), 0);
	w.owner = 95;
	assert_int_equal(step(&p, &w), 1);
	after(&p, &w, 10);
	w.owner = 10; /* little is read now */
	w.cpu = 1;
	assert_int_equal(after(&p, &w, 10), 0);
}

static void reads_that_wait_are_as_many_as_are_in_flight(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, false, &w);

	(void)state;
	w.waits = true;
	w.cpu = 5;
	w.owner = 10;
	assert_int_equal(after(&p, &w, 10), 64);
	w.requests = 3;
	assert_true(after(&p, &w, 100) <= 64);
	w.waits = false; /* now they are in the page cache */
	w.cpu = 100;
	w.requests = PACE_MAX;
	assert_int_equal(after(&p, &w, 3), 15);
}

static void a_ring_does_the_most_of_the_reads_that_wait(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, true, &w);

	(void)state;
	w.waits = true;
	w.cpu = 10;
	assert_int_equal(after(&p, &w, 11), 11); /* one more each time, while its core is full */
	w.owner = 80;
	assert_int_equal(after(&p, &w, 50), 11);
	w.owner = 20;
	assert_int_equal(after(&p, &w, 50), 0);
}

static void threads_whose_cores_are_taken_end(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, true, &w);

	(void)state;
	after(&p, &w, 10);
	w.cores = 4; /* other ranks take the rest */
	assert_in_range(after(&p, &w, 20), 4, 8);
	p.cores = 2; /* the affinity has changed */
	assert_int_equal(step(&p, &w), 1);
	p.cores = 1;
	assert_int_equal(step(&p, &w), 0);
}

static void reads_that_wait_do_not_take_more_than_all_cores(void **state)
{
	struct world w;
	struct pace p = pace_of(4, 256, false, &w);

	(void)state;
	w.waits = true;
	w.cpu = 20;
	w.owner = 20;
	w.cores = 4;
	for (int i = 0; i < 100; i++)
		step(&p, &w);
	for (int i = 0; i < 100; i++)
		assert_in_range(step(&p, &w), 10, 24); /* 4 cores are full with 17 */
}

static void what_was_requested_or_cannot_be_had_is_kept_to(void **state)
{
	struct pace_limits limits = { .in_flight = 64, .most = PACE_MAX, .fixed = 7 };
	struct pace p;
	struct world w;

	(void)state;
	pace_init(&p, &limits, 2, 0);
	assert_int_equal(p.wanted, 7);
	assert_false(pace_is_due(&p, UINT64_C(1) << 60));
	pace_limit(&p, 5);
	assert_int_equal(p.wanted, 5);
	p = pace_of(16, 64, true, &w);
	pace_limit(&p, 3);
	assert_int_equal(after(&p, &w, 20), 3);
	pace_limit(&p, 0); /* not one could be started */
	assert_int_equal(after(&p, &w, 20), 0);
}

static void what_can_be_had_again_is_used_again(void **state)
{
	struct pace_limits limits = { .in_flight = 64, .most = PACE_MAX, .fixed = 7 };
	struct pace p;
	struct world w;

	(void)state;
	pace_init(&p, &limits, 16, 0);
	limits = p.is;
	pace_limit(&p, 1);
	assert_int_equal(p.wanted, 1);
	pace_set_limits(&p, &limits);
	assert_int_equal(p.wanted, 7);
	p = pace_of(16, 64, true, &w);
	limits = p.is;
	pace_limit(&p, 0);
	assert_int_equal(after(&p, &w, 20), 0);
	pace_set_limits(&p, &limits);
	assert_int_equal(after(&p, &w, 10), 15);
}

/* A thread has become busy while the sums were taken, which is a little less than was seen. */
static void a_sum_that_is_less_than_before_is_no_long_time(void **state)
{
	struct world w;
	struct pace p = pace_of(16, 64, false, &w);

	(void)state;
	after(&p, &w, 10);
	w.requests = 0;
	w.sums.busy -= 1000;
	w.cpu = 0;
	assert_int_equal(step(&p, &w), 15); /* it would be less if they had no cores */
}

static void a_thread_is_busy_from_when_it_gets_requests(void **state)
{
	(void)state;
	assert_int_equal(crew_busy(50 << 1, 1000), 50);
	assert_int_equal(crew_busy(crew_busy_from(50, 100), 120), 70);
	assert_int_equal(crew_busy(crew_busy_from(0, 100), 120), 20);
	assert_int_equal(crew_busy(crew_busy_from(0, 100), 90), 0); /* the owner looked before */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_get_a_core_each_within_a_tenth_of_a_second),
		cmocka_unit_test(a_ring_that_is_enough_stays_alone),
		cmocka_unit_test(reads_that_wait_are_as_many_as_are_in_flight),
		cmocka_unit_test(a_ring_does_the_most_of_the_reads_that_wait),
		cmocka_unit_test(threads_whose_cores_are_taken_end),
		cmocka_unit_test(reads_that_wait_do_not_take_more_than_all_cores),
		cmocka_unit_test(what_was_requested_or_cannot_be_had_is_kept_to),
		cmocka_unit_test(what_can_be_had_again_is_used_again),
		cmocka_unit_test(a_sum_that_is_less_than_before_is_no_long_time),
		cmocka_unit_test(a_thread_is_busy_from_when_it_gets_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
