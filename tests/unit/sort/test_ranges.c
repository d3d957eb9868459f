/*
 * Goal: however many ranges of names are merged at the same time, together they are what one merge
 * makes: each name once, in order, with the size that was added last, and as many repeated.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "entries.h"
#include "help.h"
#include "sort/merge.h"
#include "sort/sort.h"

#define NR_RANGES 9u

/* Packs then begin inside a page. */
#define ODD_MEMORY ((61u << 20) + 12288)

/* What one range, or the one merge, took: names one after the other, each with its size. */
struct taken {
	uint8_t *bytes;
	size_t len, cap;
	uint64_t nr;
	bool ended;
	uint64_t fail_at; /* the entry at which it fails; 0: never */
};

static int take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;
	uint64_t size = size_of_entry(e), head[2] = { e->len, size };

	if (t->fail_at && t->nr + 1 == t->fail_at)
		return err_set(err, -ENOSPC, "no space for '%.*s'", (int)e->len,
			       (const char *)e->name);
	assert_false(t->ended);
	if (t->cap - t->len < e->len + sizeof(head)) {
		t->cap = 2 * t->cap + e->len + sizeof(head);
		t->bytes = realloc(t->bytes, t->cap);
		assert_non_null(t->bytes);
	}
	memcpy(t->bytes + t->len, head, sizeof(head));
	memcpy(t->bytes + t->len + sizeof(head), e->name, e->len);
	t->len += sizeof(head) + e->len;
	t->nr++;
	return 0;
}

static int end(void *self, struct shoal_err *err)
{
	struct taken *t = self;

	(void)err;
	t->ended = true;
	return 0;
}

typedef size_t name_fn(uint64_t i, char name[64]);

/* Folders of few names, with a folder that is half of all. */
static size_t in_folders(uint64_t i, char name[64])
{
	return (size_t)snprintf(name, 64, "data/%03" PRIu64 "/img_%07" PRIu64 ".jpeg",
				i % 2 ? i % 300 : 7, i * 7919 % 1000003);
}

/* Names that share nothing, some of them prefixes of others. */
static size_t without_prefix(uint64_t i, char name[64])
{
	return (size_t)snprintf(name, 64, "%" PRIx64, i * UINT64_C(0x9E3779B97F4A7C15) >> (i % 5));
}

/* Five names, each many times. */
static size_t few(uint64_t i, char name[64])
{
	return (size_t)snprintf(name, 64, "name-%" PRIu64, i % 5);
}

static struct sorter *fill(size_t memory, uint64_t nr, name_fn *make)
{
	struct sorter_options o = { .memory = memory, .tmp_dir = test_dir(), .nr_threads = 2 };
	struct shoal_err err = { "" };
	struct sorter *s = NULL;

	assert_int_equal(sorter_new(&o, &s, &err), 0);
	for (uint64_t i = 0; i < nr; i++) {
		uint8_t payload[INDEX_RECORD_MAX];
		char name[64];
		/* Every tenth name comes twice, the second time with another size. */
		size_t len = make(i % 10 == 9 ? i / 2 : i, name);
		struct sort_entry e = entry_with(name, len, i, 1, NULL, payload);

		assert_int_equal(sorter_add(s, &e, &err), 0);
	}
	return s;
}

static struct taken merge_whole(size_t memory, uint64_t nr, name_fn *make, uint64_t *repeated)
{
	struct sorter *s = fill(memory, nr, make);
	struct taken t = { 0 };
	struct shoal_err err = { "" };

	assert_int_equal(sorter_finish(s, take, &t, NULL, repeated, &err), 0);
	sorter_free(s);
	return t;
}

/* Merge by @nr_ranges and compare with the whole. Returns how many ranges took something. */
static unsigned check_ranges(size_t memory, uint64_t nr, name_fn *make, unsigned nr_ranges,
			     const struct taken *whole, uint64_t whole_repeated)
{
	struct sort_limits limits = { .nr_max = nr_ranges, .least = 1, .range_memory = 1 };
	struct taken t[NR_RANGES] = { 0 };
	struct sort_part part[NR_RANGES];
	struct sorter *s = fill(memory, nr, make);
	struct shoal_err err = { "" };
	uint64_t repeated = 0;
	size_t at = 0;
	unsigned used = 0;

	for (unsigned i = 0; i < nr_ranges; i++)
		part[i] = (struct sort_part){ .take = take, .end = end, .self = &t[i] };
	assert_int_equal(sorter_end_input(s, &err), 0);
	assert_in_range(sorter_ranges(s, &limits), nr > 1000 ? nr_ranges : 1, nr_ranges);
	assert_int_equal(sorter_finish_ranges(s, &limits, part, nr_ranges, &repeated, &err), 0);
	sorter_free(s);
	for (unsigned i = 0; i < nr_ranges; i++) {
		assert_true(t[i].ended);
		assert_true(at + t[i].len <= whole->len);
		if (t[i].len > 0)
			assert_memory_equal(t[i].bytes, whole->bytes + at, t[i].len);
		at += t[i].len;
		used += t[i].len > 0;
		free(t[i].bytes);
	}
	assert_int_equal(at, whole->len);
	assert_int_equal(repeated, whole_repeated);
	return used;
}

static void check_all(size_t memory, uint64_t nr, name_fn *make, unsigned least_used)
{
	uint64_t repeated = 0;
	struct taken whole = merge_whole(memory, nr, make, &repeated);

	for (unsigned n = 1; n <= NR_RANGES; n++)
		assert_true(check_ranges(memory, nr, make, n, &whole, repeated) >=
			    (n < least_used ? n : least_used));
	free(whole.bytes);
}

static void ranges_in_memory_are_the_whole(void **state)
{
	(void)state;
	check_all(ODD_MEMORY, 60000, in_folders, NR_RANGES);
	check_all(ODD_MEMORY, 60000, without_prefix, NR_RANGES);
}

static void ranges_of_spilled_runs_are_the_whole(void **state)
{
	(void)state;
	check_all(4 << 20, 300000, in_folders, NR_RANGES);
	check_all(4 << 20, 300000, without_prefix, NR_RANGES);
}

static void fewer_names_than_ranges_leave_ranges_empty(void **state)
{
	(void)state;
	check_all(ODD_MEMORY, 0, in_folders, 0);
	check_all(ODD_MEMORY, 1, in_folders, 1);
	check_all(ODD_MEMORY, 5, without_prefix, 1);
	check_all(ODD_MEMORY, 20000, few, 1);
	check_all(4 << 20, 400000, few, 1); /* spilled */
}

static void the_error_of_one_range_is_the_error_of_all(void **state)
{
	struct sort_limits limits = { .nr_max = 3, .least = 1, .range_memory = 1 };
	struct taken t[3] = { 0 };
	struct sort_part part[3];
	struct sorter *s = fill(ODD_MEMORY, 30000, without_prefix);
	struct shoal_err err = { "" };
	uint64_t repeated;

	(void)state;
	t[1].fail_at = 100;
	for (unsigned i = 0; i < 3; i++)
		part[i] = (struct sort_part){ .take = take, .end = end, .self = &t[i] };
	assert_int_equal(sorter_end_input(s, &err), 0);
	assert_int_equal(sorter_finish_ranges(s, &limits, part, 3, &repeated, &err), -ENOSPC);
	check_words(&err, "no space for");
	assert_false(t[1].ended);
	sorter_free(s);
	for (unsigned i = 0; i < 3; i++)
		free(t[i].bytes);
}

static void the_number_of_ranges_is_bounded_by_names_memory_and_the_caller(void **state)
{
	struct sort_run run[4] = {
		{ .len = 1000 }, { .len = 1000 }, { .len = 1000 }, { .len = 1000 }
	};
	struct sort_runs runs = { .run = run, .nr = 4 };
	struct sort_merge_job job = { .runs = &runs, .memory_len = 100 * 4 * SORT_READ_MIN };
	struct sort_limits limits = { .nr_max = 16, .least = 250 };
	struct pack pack = { .len = 1000 };

	(void)state;
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 16); /* bytes and caller */
	limits.nr_max = 5;
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 5);
	limits.nr_max = 64;
	limits.least = 251;
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 15);
	limits.least = 4001;
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 1);
	limits.least = 1;
	limits.range_memory = 9 * 4 * SORT_READ_MIN; /* ten times its buffers in all */
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 10);
	job.memory_len--;
	assert_int_equal(sort_merge_ranges_of(&job, NULL, 0, &limits), 9);
	job.memory_len = 2 * limits.range_memory; /* packs need no buffers */
	assert_int_equal(sort_merge_ranges_of(&job, &pack, 1, &limits), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_in_memory_are_the_whole),
		cmocka_unit_test(ranges_of_spilled_runs_are_the_whole),
		cmocka_unit_test(fewer_names_than_ranges_leave_ranges_empty),
		cmocka_unit_test(the_error_of_one_range_is_the_error_of_all),
		cmocka_unit_test(the_number_of_ranges_is_bounded_by_names_memory_and_the_caller),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
