/*
 * Goal: rank 0 sees what each rank does, second by second, with no more mail than it can take; who
 * is not watched sends none; and a rank that cannot send goes on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "help.h"
#include "ranks.h"
#include "run/watch.h"

#define SECOND UINT64_C(1000000000)

enum { SECONDS = 8 };

/* What rank 0 saw, per rank. */
static struct seen {
	uint64_t samples, records, shortest;
} seen[THREAD_RANKS_MAX];

static void see(void *self, unsigned rank, const struct series_record *r)
{
	struct seen *s = (struct seen *)self + rank;

	s->samples += r->samples;
	s->records++;
	if (!s->shortest || r->duration < s->shortest)
		s->shortest = r->duration;
}

/* Ten steps a second, for some seconds of a clock that nobody waits for. */
static void work(struct run_watch *w, int rank, struct shoal_err *err)
{
	struct series_head head = { .run = 1, .started = clock_ns(CLOCK_REALTIME), .nr_ranks = 1 };
	struct series *s = NULL;
	uint64_t start = clock_now();

	CHECK(series_create(NULL, &head, &s, err) == 0);
	if (w)
		run_watch_begin(w, s);
	series_epoch(s, start, 1, false, 0, NULL, NULL);
	for (uint64_t i = 1; i <= 10 * SECONDS; i++) {
		struct series_step step = { .now = start + i * SECOND / 10,
					    .samples = (uint64_t)rank + 1 };

		series_step(s, &step);
		if (w)
			CHECK_ERR(run_watch_poll(w, err) >= 0, *err);
	}
	series_pause(s, start + SECONDS * SECOND);
	CHECK(series_close(s, err) == 0);
}

/* Until nothing comes any more: all ranks have sent everything before the barrier. */
static void watch_fn(struct comm *c, int rank, int size)
{
	struct run_watch w = { see, seen, c, false };
	struct shoal_err err = { "" };

	(void)size;
	work(&w, rank, &err);
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
	CHECK_ERR(run_watch_poll(&w, &err) == 0, err);
	CHECK(!w.failed);
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
}

static void run(int size, rank_fn *fn)
{
	struct thread_world w;

	memset(seen, 0, sizeof(seen));
	thread_world_init(&w, size, size, 4096);
	assert_int_equal(ranks_run(&w, fn), 0);
	thread_world_release(&w);
}

static void rank_0_sees_every_second_of_each_rank(void **state)
{
	static const int sizes[] = { 1, 2, 5 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		run(sizes[i], watch_fn);
		for (int r = 0; r < sizes[i]; r++) {
			assert_int_equal(seen[r].samples, 10 * SECONDS * (r + 1));
			assert_int_equal(seen[r].records, SECONDS);
			assert_true(seen[r].shortest >= SECOND);
		}
		assert_int_equal(seen[sizes[i]].records, 0);
	}
}

static void many_ranks_send_less_often(void **state)
{
	static const struct {
		uint64_t ranks, interval;
	} table[] = {
		{ 1, SECOND },       { 64, SECOND },        { 65, SECOND * 65 / 64 },
		{ 128, 2 * SECOND }, { 4096, 64 * SECOND },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		assert_int_equal(run_watch_interval(table[i].ranks), table[i].interval);
}

static void unwatched_fn(struct comm *c, int rank, int size)
{
	struct run_watch none = { NULL, NULL, c, false }, *w = rank % 2 ? &none : NULL;
	struct shoal_err err = { "" };
	struct comm_mail mail;

	(void)size;
	work(w, rank, &err);
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
	CHECK(comm_poll(c, 0, &mail, &err) == 0);
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
}

static void who_is_not_watched_sends_nothing(void **state)
{
	(void)state;
	run(3, unwatched_fn);
}

static void other_fn(struct comm *c, int rank, int size)
{
	struct run_watch w = { see, seen, c, false };
	uint8_t bytes[SERIES_BYTES] = { 0 };
	struct comm_mail strange = { .from = 1, .kind = RUN_WATCH_MAIL + 1, .data = bytes };
	struct comm_mail torn = { .from = 1, .kind = RUN_WATCH_MAIL, .data = bytes, .len = 20 };

	(void)rank;
	(void)size;
	CHECK(!run_watch_mail(&w, &strange));
	CHECK(run_watch_mail(&w, &torn)); /* it was a report, of which nothing can be read */
	CHECK(seen[1].records == 0);
}

static void mail_of_others_is_left_and_torn_mail_is_dropped(void **state)
{
	(void)state;
	run(1, other_fn);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rank_0_sees_every_second_of_each_rank),
		cmocka_unit_test(many_ranks_send_less_often),
		cmocka_unit_test(who_is_not_watched_sends_nothing),
		cmocka_unit_test(mail_of_others_is_left_and_torn_mail_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
