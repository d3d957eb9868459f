/*
 * Goal: cutting ranges costs few requests and keeps all who list busy.
 *
 * Lists of computed keys are listed by simulated threads, in simulated time: each page takes about
 * one unit of it. So what is measured is the cutting alone, on any machine, and always the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "list_keys.h"
#include "store/s3/ranges.h"

#define PAGE      1000u
#define LISTERS   64u
#define UNITS_MAX 4096u
#define LEARN     4u /* as s3/list.c does: one key of so many, and the last */

struct unit {
	struct s3_name lo, hi;
	bool open;
};

struct lister {
	bool busy;
	double due; /* when its page comes */
	struct s3_range range;
};

static struct {
	struct list_keys keys;
	struct s3_ranges *ranges;
	struct lister lister[LISTERS];
	unsigned nr_listers, nr_busy;
	struct unit unit[UNITS_MAX];
	size_t nr_units;
	char name[PAGE][64];
	size_t len[PAGE];
	uint64_t random;
	double now, busy;                    /* busy: times listers */
	uint64_t nr_requests, nr_names, sum; /* sum: over the names, to tell which they were */
} sim;

static uint64_t mix(uint64_t rank)
{
	rank = (rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (rank ^ rank >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static size_t count_idle(void *self)
{
	(void)self;
	return sim.nr_units > 0 ? 0 : sim.nr_listers - sim.nr_busy;
}

static int give(void *self, const struct s3_name *lo, const struct s3_name *hi,
		struct shoal_err *err)
{
	struct unit *u = &sim.unit[sim.nr_units++];

	(void)self;
	(void)err;
	assert_true(sim.nr_units <= UNITS_MAX);
	u->lo = *lo;
	u->open = !hi;
	if (hi)
		u->hi = *hi;
	return 0;
}

/* Pages take 0.9 to 1.1. */
static double page_time(void)
{
	sim.random = sim.random * 6364136223846793005u + 1442695040888963407u;
	return 0.9 + 0.2 * (double)(sim.random >> 11) * 0x1p-53;
}

static void start_idle(void)
{
	for (unsigned i = 0; i < sim.nr_listers && sim.nr_units > 0; i++) {
		struct lister *l = &sim.lister[i];
		const struct unit *u;

		if (l->busy)
			continue;
		u = &sim.unit[--sim.nr_units];
		l->range.lo = u->lo;
		l->range.hi = u->hi;
		l->range.open = u->open;
		l->busy = true;
		l->due = sim.now + page_time();
		sim.nr_busy++;
		s3_ranges_begin(sim.ranges, &l->range);
	}
}

static struct lister *next_due(void)
{
	struct lister *next = NULL;

	for (unsigned i = 0; i < sim.nr_listers; i++)
		if (sim.lister[i].busy && (!next || sim.lister[i].due < next->due))
			next = &sim.lister[i];
	return next;
}

static const uint8_t *name_of(const void *self, size_t i, size_t *ret_len)
{
	(void)self;
	*ret_len = sim.len[i];
	return (const uint8_t *)sim.name[i];
}

static void list_page(struct lister *l)
{
	const struct s3_takers takers = { .idle = count_idle, .give = give };
	const struct s3_name *lo = &l->range.lo;
	struct s3_listed page = { .name = name_of };
	uint64_t at = list_keys_after(&sim.keys, (const char *)lo->bytes, lo->len, lo->len == 0);
	uint64_t first = at;
	struct shoal_err err;
	size_t nr;
	bool done;

	for (; page.nr < PAGE && at < sim.keys.nr; at++, page.nr++)
		sim.len[page.nr] = (size_t)(list_keys_put(&sim.keys, at, sim.name[page.nr]) -
					    sim.name[page.nr]);
	for (size_t i = 0; i < page.nr; i++)
		if (i % LEARN == 0 || i == page.nr - 1)
			s3_ranges_learn(sim.ranges, (uint8_t *)sim.name[i], sim.len[i]);
	page.truncated = at < sim.keys.nr;
	sim.nr_requests++;
	nr = s3_ranges_take(sim.ranges, &l->range, &page, &done);
	sim.nr_names += nr;
	for (size_t i = 0; i < nr; i++)
		sim.sum += mix(first + i);
	l->due = sim.now + page_time();
	if (done) {
		s3_ranges_end(sim.ranges, &l->range);
		l->busy = false;
		sim.nr_busy--;
	}
	assert_int_equal(s3_ranges_share(sim.ranges, &takers, &err), 0);
}

/* List it all, and demand at most @extra and at least @busy of what there could be. */
static void list(enum list_shape shape, uint64_t nr, unsigned listers, double extra, double busy)
{
	struct lister *l;
	uint64_t sum = 0;

	memset(&sim, 0, sizeof(sim));
	assert_int_equal(list_keys_init(&sim.keys, shape, nr, 4096), 0);
	sim.ranges = s3_ranges_new();
	assert_non_null(sim.ranges);
	sim.nr_listers = listers;
	sim.nr_units = 1;
	sim.unit[0].open = true;
	for (;;) {
		start_idle();
		l = next_due();
		if (!l)
			break;
		sim.busy += sim.nr_busy * (l->due - sim.now);
		sim.now = l->due;
		list_page(l);
	}
	assert_int_equal(sim.nr_names, nr);
	for (uint64_t i = 0; i < nr; i++)
		sum += mix(i);
	assert_int_equal(sim.sum, sum);
	print_message("shape %d, %u listers: %.1f %% more requests, %.1f %% busy\n", (int)shape,
		      listers, ((double)sim.nr_requests * PAGE / (double)nr - 1) * 100,
		      sim.busy / sim.now / listers * 100);
	assert_true((double)sim.nr_requests * PAGE <= (1 + extra) * (double)nr);
	assert_true(sim.busy >= busy * sim.now * listers);
	s3_ranges_free(sim.ranges);
	list_keys_release(&sim.keys);
}

static void sixteen_are_busy_with_a_million_keys_of_any_shape(void **state)
{
	(void)state;
	list(LIST_HEX, 1000000, 16, 0.01, 0.95);
	list(LIST_UUID, 1000000, 16, 0.01, 0.95);
	list(LIST_SEQUENTIAL, 1000000, 16, 0.05, 0.93);
	list(LIST_ZIPF, 1000000, 16, 0.06, 0.93);
	list(LIST_DATES, 1000000, 16, 0.08, 0.93);
	list(LIST_NUMBERS, 1000000, 16, 0.05, 0.90);
}

/* That is 16 pages for each: the first page, which one asks for alone, costs 6 % already. */
static void sixty_four_ask_little_more_for_a_million_keys(void **state)
{
	(void)state;
	list(LIST_HEX, 1000000, 64, 0.02, 0.88);
	list(LIST_SEQUENTIAL, 1000000, 64, 0.09, 0.75);
	list(LIST_ZIPF, 1000000, 64, 0.10, 0.65);
	list(LIST_DATES, 1000000, 64, 0.25, 0.50);
	list(LIST_NUMBERS, 1000000, 64, 0.12, 0.45);
}

static void few_keys_are_listed_by_any_number(void **state)
{
	static const uint64_t nr[] = { 1, 999, 1000, 1001, 5000, 20000 };

	(void)state;
	for (unsigned shape = 0; shape < LIST_NR_SHAPES; shape++)
		for (size_t i = 0; i < sizeof(nr) / sizeof(nr[0]); i++) {
			/* A page more for what is not full, or two for each who lists. */
			double page = (double)PAGE / (double)nr[i];

			list((enum list_shape)shape, nr[i], 1, page, 0.9);
			list((enum list_shape)shape, nr[i], LISTERS, page * (1 + 2 * LISTERS), 0);
		}
}

/* Behind the year 9999 the names of dates would begin again at 0000. */
static void keys_rise_up_to_the_most_that_there_can_be(void **state)
{
	static const struct {
		enum list_shape shape;
		uint64_t most;
		const char *last;
	} row[] = {
		{ LIST_SEQUENTIAL, 9999999999, "train/img_9999999998.jpg" },
		{ LIST_DATES, 2575641600, "logs/9999/12/28/23/part-00039-" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct list_keys k;
		char before[LIST_KEY_MAX] = "", at[LIST_KEY_MAX] = "";

		assert_int_equal(list_keys_init(&k, row[i].shape, row[i].most + 1, 1), -1);
		assert_int_equal(list_keys_init(&k, row[i].shape, row[i].most, 1), 0);
		for (uint64_t n = 1; n <= 100; n++) {
			uint64_t rank = (uint64_t)((unsigned __int128)(k.nr - 1) * n / 100);

			*list_keys_put(&k, rank, at) = '\0';
			assert_true(strcmp(before, at) < 0);
			memcpy(before, at, sizeof(at));
		}
		assert_int_equal(strncmp(at, row[i].last, strlen(row[i].last)), 0);
		list_keys_release(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixteen_are_busy_with_a_million_keys_of_any_shape),
		cmocka_unit_test(sixty_four_ask_little_more_for_a_million_keys),
		cmocka_unit_test(few_keys_are_listed_by_any_number),
		cmocka_unit_test(keys_rise_up_to_the_most_that_there_can_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
