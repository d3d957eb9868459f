/*
 * Goal: however many ranges of names are merged at the same time, together they are what one merge
 * makes: each name once, in order, with the size that was added last, and as many repeated.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
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
	/* Of a part that begins and ends at the first cut from its splitters on: */
	struct sort_range range;
	bool waiting;
	uint64_t *repeated, repeated_last;
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

static void begin_at_cut(void *self, const struct sort_range *range, uint64_t *repeated)
{
	struct taken *t = self;

	t->range = *range;
	t->waiting = range->from_len > 0;
	t->repeated = repeated;
}

/* About one name in 64 is a cut. */
static bool is_cut(const struct sort_entry *e)
{
	unsigned sum = 0;

	for (size_t i = 0; i < e->len; i++)
		sum = 31 * sum + e->name[i];
	return sum % 64 == 5;
}

static int take_at_cuts(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;
	const struct sort_range *r = &t->range;

	if (is_cut(e)) {
		if (r->to_len > 0 && name_compare(e->name, e->len, r->to, r->to_len) >= 0) {
			*t->repeated = t->waiting ? 0 : t->repeated_last;
			return SORT_ENOUGH;
		}
		if (t->waiting)
			*t->repeated -= t->repeated_last;
		t->waiting = false;
	}
	t->repeated_last = *t->repeated;
	return t->waiting ? 0 : take(t, e, err);
}

static int end_at_cut(void *self, struct shoal_err *err)
{
	const struct taken *t = self;

	if (t->waiting)
		*t->repeated = 0;
	return end(self, err);
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

/* Threads of the sorter, which also spill. */
static unsigned sort_threads = 2;

static struct sorter *fill(size_t memory, uint64_t nr, name_fn *make)
{
	struct sorter_options o = { .memory = memory,
				    .tmp_dir = test_dir(),
				    .nr_threads = sort_threads };
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
			     bool at_cuts, const struct taken *whole, uint64_t whole_repeated)
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
		part[i] = (struct sort_part){ .begin = at_cuts ? begin_at_cut : NULL,
					      .take = at_cuts ? take_at_cuts : take,
					      .end = at_cuts ? end_at_cut : end,
					      .self = &t[i] };
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

	for (unsigned n = 1; n <= NR_RANGES; n += SANITIZED ? 3 : 1) {
		/* Parts that find their ends themselves take turns with those that do not. */
		unsigned used = check_ranges(memory, nr, make, n, n % 2 == 0, &whole, repeated);

		assert_true(used >= (n < least_used ? n : least_used));
	}
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

/* Halves of 20 MB, each spilled by two or three threads, in pieces of at most 8 MB. */
static void runs_in_pieces_are_what_one_thread_writes(void **state)
{
	const size_t memory = 64 << 20;
	const uint64_t nr = SANITIZED ? 1000000 : 2000000;
	uint64_t repeated = 0;
	struct taken whole, again;

	(void)state;
	sort_threads = 1;
	whole = merge_whole(memory, nr, without_prefix, &repeated);
	sort_threads = 3;
	for (unsigned n = SANITIZED ? NR_RANGES : 3; n <= NR_RANGES; n += 6)
		assert_int_equal(
			check_ranges(memory, nr, without_prefix, n, false, &whole, repeated), n);
	again = merge_whole(memory, nr, without_prefix, &repeated);
	sort_threads = 2;
	assert_int_equal(again.len, whole.len);
	assert_memory_equal(again.bytes, whole.bytes, whole.len);
	free(again.bytes);
	free(whole.bytes);
}

/* ---- The order of equal names ---- */

#define ORDER_LANES 4u
#define ORDER_NAMES (SANITIZED ? 6000u : 20000u)
#define ORDER_TIMES 7u

/* Names several times in each lane. Their size tells when each was added, but for the last four
 * bytes of the payload. */
static struct sorter *fill_lanes(size_t memory)
{
	struct sorter_options o = { .memory = memory,
				    .tmp_dir = test_dir(),
				    .nr_threads = 2,
				    .nr_lanes = ORDER_LANES,
				    .order_len = 4 };
	struct shoal_err err = { "" };
	struct sorter *s = NULL;

	assert_int_equal(sorter_new(&o, &s, &err), 0);
	for (uint32_t lane = ORDER_LANES; lane-- > 0;) { /* the earliest come last */
		for (uint32_t i = 0; i < ORDER_NAMES * ORDER_TIMES; i++) {
			uint8_t payload[SORT_PAYLOAD_MAX];
			uint32_t order = i / 100 * ORDER_LANES + (lane + i / 100) % ORDER_LANES;
			char name[64];
			size_t len = in_folders((i * UINT64_C(7) + lane) % ORDER_NAMES, name);
			struct sort_entry e = entry_with(name, len, order, 1, NULL, payload);

			order = __builtin_bswap32(order);
			memcpy(payload + e.payload_len, &order, sizeof(order));
			e.payload_len += sizeof(order);
			assert_int_equal(sorter_add_many(s, lane, &e, 1, false, &err), 0);
		}
	}
	return s;
}

struct greatest {
	uint64_t nr;
	atomic_uint nr_wrong;        /* counted by the threads of all ranges */
	uint32_t order[ORDER_NAMES]; /* of each name in the order of names */
	char name[ORDER_NAMES][32];
};

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int take_greatest(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct greatest *g = self;
	char name[32] = { 0 };
	const char *found;

	(void)err;
	memcpy(name, e->name, e->len);
	found = bsearch(name, g->name, g->nr, sizeof(g->name[0]), compare_texts);
	assert_non_null(found);
	atomic_fetch_add(&g->nr_wrong, size_of_entry(e) != g->order[(found - g->name[0]) / 32]);
	return 0;
}

/* Which order is taken of each name, computed in the simplest way. */
static struct greatest *find_greatest(void)
{
	struct greatest *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	for (uint64_t k = 0; k < ORDER_NAMES; k++) {
		char name[64];
		size_t len = in_folders(k, name);

		memcpy(g->name[k], name, len);
	}
	qsort(g->name, ORDER_NAMES, sizeof(g->name[0]), compare_texts);
	for (uint64_t k = 1, to = 1; k < ORDER_NAMES; k++) {
		if (strcmp(g->name[k], g->name[to - 1]) != 0)
			memmove(g->name[to++], g->name[k], sizeof(g->name[0]));
		g->nr = to;
	}
	for (uint32_t lane = 0; lane < ORDER_LANES; lane++)
		for (uint32_t i = 0; i < ORDER_NAMES * ORDER_TIMES; i++) {
			uint32_t order = i / 100 * ORDER_LANES + (lane + i / 100) % ORDER_LANES;
			char name[64] = { 0 };
			const char *found;
			uint32_t *to;

			in_folders((i * UINT64_C(7) + lane) % ORDER_NAMES, name);
			found = bsearch(name, g->name, g->nr, sizeof(g->name[0]), compare_texts);
			assert_non_null(found);
			to = &g->order[(found - g->name[0]) / 32];
			*to = order > *to ? order : *to;
		}
	return g;
}

static void of_equal_names_the_one_of_the_greatest_order_is_taken(void **state)
{
	static const size_t memory[] = { 61u << 20, 8u << 20 }; /* in memory, and spilled */
	struct sort_limits limits = { .nr_max = 3, .least = 1, .range_memory = 1 };
	struct greatest *g = find_greatest();
	struct shoal_err err = { "" };
	uint64_t repeated;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
		struct sort_part part = { .take = take_greatest, .self = g };
		struct sort_part parts[3] = { part, part, part };
		struct sorter *s = fill_lanes(memory[i]);

		assert_int_equal(sorter_finish(s, take_greatest, g, NULL, &repeated, &err), 0);
		sorter_free(s);
		assert_int_equal(repeated, ORDER_LANES * ORDER_NAMES * ORDER_TIMES - g->nr);
		s = fill_lanes(memory[i]);
		assert_int_equal(sorter_end_input(s, &err), 0);
		assert_int_equal(sorter_ranges(s, &limits), 3);
		assert_int_equal(sorter_finish_ranges(s, &limits, parts, 3, &repeated, &err), 0);
		sorter_free(s);
		assert_int_equal(repeated, ORDER_LANES * ORDER_NAMES * ORDER_TIMES - g->nr);
	}
	assert_int_equal(g->nr_wrong, 0);
	free(g);
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
		cmocka_unit_test(runs_in_pieces_are_what_one_thread_writes),
		cmocka_unit_test(of_equal_names_the_one_of_the_greatest_order_is_taken),
		cmocka_unit_test(the_number_of_ranges_is_bounded_by_names_memory_and_the_caller),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
