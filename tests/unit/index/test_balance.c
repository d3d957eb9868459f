/*
 * Goal: ranks that share a tree list every file exactly once whatever its shape, those who have
 * nothing get something, one that fails ends all with its words; and the names that cut the result
 * into ranges make them about equal.
 *
 * Ranks are threads, see ranks.h; the tree is made up by a store of our own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "help.h"
#include "index/balance.h"
#include "index/exchange.h"
#include "ranks.h"

static const int sizes[] = { 1, 2, 3, 5 };

static void run(int size, size_t eager, rank_fn *fn)
{
	struct thread_world w;

	thread_world_init(&w, size, size, eager);
	assert_int_equal(ranks_run(&w, fn), 0);
	thread_world_release(&w);
}

/* ---- A tree that is made up ---- */

enum { FILES = 3, DIRS_MAX = 20000 };

/*
 * Directory @id has FILES files, and those directories whose parent it is. A unit is the id, and as
 * many bytes more as the shape says.
 */
struct shape {
	const char *name;
	uint32_t nr;
	uint32_t (*parent)(uint32_t id);
	uint32_t (*first_child)(uint32_t id); /* its children follow each other */
	useconds_t delay;
	size_t unit_len;
};

/* Root; three leaves; and below the fourth a binary tree with all the rest. */
static uint32_t skewed_parent(uint32_t id)
{
	return id <= 4 ? 0 : id <= 6 ? 4 : 5 + (id - 7) / 2;
}

static uint32_t skewed_first(uint32_t id)
{
	return id == 0 ? 1 : id < 4 ? DIRS_MAX : id == 4 ? 5 : 7 + 2 * (id - 5);
}

static uint32_t flat_parent(uint32_t id)
{
	(void)id;
	return 0;
}

static uint32_t flat_first(uint32_t id)
{
	return id == 0 ? 1 : DIRS_MAX;
}

static uint32_t chain_parent(uint32_t id)
{
	return id - 1;
}

static uint32_t chain_first(uint32_t id)
{
	return id + 1;
}

static const struct shape shapes[] = {
	{ "nothing but a root", 1, flat_parent, flat_first, 0, 4 },
	{ "fewer directories than ranks", 3, flat_parent, flat_first, 100, 4 },
	{ "flat", 500, flat_parent, flat_first, 50, 4 },
	{ "wide", DIRS_MAX, flat_parent, flat_first, 0, 300 },
	{ "chain", 200, chain_parent, chain_first, 0, 4 },
	{ "skewed", 1500, skewed_parent, skewed_first, 50, 4 },
	{ "units as long as may be", 40, skewed_parent, skewed_first, 200, STORE_UNIT_MAX },
};

static const struct shape *shape;
static uint32_t seen[DIRS_MAX * FILES]; /* how often each file was taken; atomic */
static uint32_t taken_by[THREAD_RANKS_MAX];
static int failing_rank = -1;

struct fake {
	struct store base;
	int rank;
};

static int fake_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct store_entry e[FILES];
	char names[FILES][32];
	uint8_t *below = allocate(1, shape->unit_len);
	uint32_t id = len ? le32_load(unit) : 0;
	int rc = 0;

	(void)options;
	CHECK_WORDS(len == 0 || len == shape->unit_len, "a unit comes as it was given");
	if (((struct fake *)s)->rank == failing_rank) {
		free(below);
		return err_set(err, -EIO, "the words of the store");
	}
	if (shape->delay)
		usleep(shape->delay);
	for (uint32_t c = shape->first_child(id);
	     rc == 0 && c < shape->nr && shape->parent(c) == id; c++) {
		struct le32 le = le32_of(c);

		memcpy(below, &le, sizeof(le));
		rc = sink->add_unit(sink, below, shape->unit_len, err);
	}
	for (uint32_t i = 0; i < FILES; i++) {
		int n = snprintf(names[i], sizeof(names[i]), "%" PRIu32, id * FILES + i);

		e[i] = (struct store_entry){ .name = names[i], .len = (size_t)n };
	}
	free(below);
	return rc < 0 ? rc : sink->found(sink, e, FILES, err);
}

static const struct store_ops fake_ops = { .kind = "fake", .list = fake_list };

static int take(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		bool group, struct shoal_err *err)
{
	(void)thread;
	(void)group;
	(void)err;
	for (size_t i = 0; i < nr; i++)
		__atomic_add_fetch(&seen[strtoul((const char *)entries[i].name, NULL, 10)], 1,
				   __ATOMIC_RELAXED);
	__atomic_add_fetch((uint32_t *)self, (uint32_t)nr, __ATOMIC_RELAXED);
	return 0;
}

static int tick(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	int *stop_at = self;

	(void)state;
	return stop_at && (*stop_at)-- == 0 ? err_set(err, -ECANCELED, "interrupted") : 0;
}

static int share(struct comm *c, int rank, int *stop_at, struct index_walk_state *state,
		 struct shoal_err *err)
{
	struct fake store = { .base = { .ops = &fake_ops }, .rank = rank };
	struct index_walk_options wo = { .store = &store.base,
					 .nr_threads = 2,
					 .tmp_dir = test_dir(),
					 .take = take,
					 .self = &taken_by[rank] };
	struct index_balance_owner owner = { .tick = tick, .self = stop_at };
	struct index_walk *walk = NULL;
	int rc = index_walk_start(&wo, rank == 0, &walk, err);

	if (rc == 0)
		rc = index_balance_walk(c, walk, &owner, state, err);
	if (rc < 0 && rc != -EREMOTEIO)
		comm_fail(c, err);
	index_walk_free(walk);
	return rc;
}

static void share_well(struct comm *c, int rank, int size)
{
	struct index_walk_state state = { 0 };
	struct shoal_err err = { "" };
	uint64_t sums[2];

	(void)size;
	CHECK_WORDS(share(c, rank, NULL, &state, &err) == 0, err.msg);
	CHECK_WORDS(state.nr_names == taken_by[rank], "the state counts what was taken here");
	sums[0] = state.nr_names;
	sums[1] = state.nr_units;
	CHECK_WORDS(comm_reduce(c, COMM_SUM, sums, 2, &err) == 0, err.msg);
	CHECK_WORDS(sums[0] == (uint64_t)shape->nr * FILES && sums[1] == shape->nr, shape->name);
}

static void reset(const struct shape *s)
{
	shape = s;
	memset(seen, 0, sizeof(seen));
	memset(taken_by, 0, sizeof(taken_by));
}

static void everything_is_listed_exactly_once(void **state)
{
	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(shapes); s++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
			for (int eager = 0; eager <= 1; eager++) {
				reset(&shapes[s]);
				run(sizes[i], eager ? 1u << 30 : 0, share_well);
				for (uint32_t f = 0; f < DIRS_MAX * FILES; f++)
					assert_int_equal(seen[f], f < shape->nr * FILES);
			}
}

static void one_large_subtree_spreads_over_all_ranks(void **state)
{
	static const struct shape skewed = { "skewed", 2000, skewed_parent, skewed_first, 200, 4 };

	(void)state;
	for (size_t i = 1; i < ARRAY_LEN(sizes); i++) {
		uint32_t fair = 2000 * FILES / (uint32_t)sizes[i];

		reset(&skewed);
		run(sizes[i], 0, share_well);
		for (int r = 0; r < sizes[i]; r++)
			assert_true(taken_by[r] > fair / 4);
	}
}

/* ---- Failing ---- */

static void fail_on_one(struct comm *c, int rank, int size)
{
	struct index_walk_state state = { 0 };
	struct shoal_err err = { "" };
	char words[64];
	int rc = share(c, rank, NULL, &state, &err);

	(void)size;
	if (rank == failing_rank) {
		CHECK_WORDS(rc == -EIO, err.msg);
		CHECK_WORDS(strcmp(err.msg, "the words of the store") == 0, err.msg);
	} else {
		snprintf(words, sizeof(words), "rank %d: the words of the store", failing_rank);
		CHECK_WORDS(rc == -EREMOTEIO, err.msg);
		CHECK_WORDS(strcmp(err.msg, words) == 0, err.msg);
	}
}

static void a_rank_whose_store_fails_ends_all_with_its_words(void **state)
{
	static const struct shape skewed = { "skewed", 2000, skewed_parent, skewed_first, 200, 4 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (int r = 0; r < sizes[i]; r++) {
			reset(&skewed);
			failing_rank = r;
			run(sizes[i], r % 2 ? 0 : 1u << 30, fail_on_one);
		}
	failing_rank = -1;
}

static void stop_on_one(struct comm *c, int rank, int size)
{
	struct index_walk_state state = { 0 };
	struct shoal_err err = { "" };
	int stop_at = 2;
	bool is_last = rank == size - 1;
	int rc = share(c, rank, is_last ? &stop_at : NULL, &state, &err);

	CHECK_WORDS(rc == (is_last ? -ECANCELED : -EREMOTEIO), err.msg);
	CHECK_WORDS(strstr(err.msg, "interrupted"), err.msg);
}

static void an_owner_who_stops_ends_all(void **state)
{
	static const struct shape slow = { "skewed", 5000, skewed_parent, skewed_first, 2000, 4 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		reset(&slow);
		run(sizes[i], 0, stop_on_one);
	}
}

/* ---- Cuts ---- */

/* Name @k of rank @rank; its length, or 0 after the last. */
typedef size_t name_fn(char *name, int rank, int size, uint32_t k);

struct names {
	const char *title;
	name_fn *fn;
	double most; /* of all names in one range, as a multiple of the fair share */
};

static size_t even(char *name, int rank, int size, uint32_t k)
{
	(void)size;
	return k < 20000 ? (size_t)sprintf(name, "train/%08" PRIx32 "-%d", k * 2654435761u, rank)
			 : 0;
}

/* Rank 0 has nearly all, and they start with the same folder. */
static size_t one_has_most(char *name, int rank, int size, uint32_t k)
{
	(void)size;
	if (k >= (rank == 0 ? 60000 : 100))
		return 0;
	return (size_t)sprintf(name, rank == 0 ? "m/%07" PRIu32 : "z%d/%07" PRIu32,
			       rank == 0 ? k : (uint32_t)rank, k);
}

static size_t in_order(char *name, int rank, int size, uint32_t k)
{
	(void)size;
	return k < 30000 ? (size_t)sprintf(name, "%d/%06" PRIu32, rank, k) : 0;
}

static size_t only_the_last_has_some(char *name, int rank, int size, uint32_t k)
{
	return rank == size - 1 && k < 5000 ? (size_t)sprintf(name, "%05" PRIu32, k) : 0;
}

static size_t all_equal(char *name, int rank, int size, uint32_t k)
{
	(void)rank;
	(void)size;
	return k < 3000 ? (size_t)sprintf(name, "same") : 0;
}

static size_t very_long(char *name, int rank, int size, uint32_t k)
{
	(void)size;
	if (k >= 500)
		return 0;
	memset(name, 'n', SHOAL_NAME_MAX);
	sprintf(name + SHOAL_NAME_MAX - 12, "%07" PRIu32 "-%03d", k, rank);
	name[SHOAL_NAME_MAX - 1] = 'x';
	return SHOAL_NAME_MAX;
}

static size_t long_and_short(char *name, int rank, int size, uint32_t k)
{
	if (k < 2000)
		return in_order(name, rank, size, k);
	return k < 2100 ? very_long(name, rank, size, k - 2000) : 0;
}

static size_t none(char *name, int rank, int size, uint32_t k)
{
	(void)name;
	(void)rank;
	(void)size;
	(void)k;
	return 0;
}

static size_t fewer_than_ranks(char *name, int rank, int size, uint32_t k)
{
	(void)size;
	return rank == 0 && k < 2 ? (size_t)sprintf(name, "%" PRIu32, k) : 0;
}

static const struct names all_names[] = {
	{ "even", even, 1.05 },
	{ "one has most", one_has_most, 1.05 },
	{ "in order", in_order, 1.05 },
	{ "only the last has some", only_the_last_has_some, 1.05 },
	{ "all equal", all_equal, 9 },
	{ "very long", very_long, 2 }, /* there is room for few of them */
	{ "long and short", long_and_short, 1.6 },
	{ "none", none, 9 },
	{ "fewer than ranks", fewer_than_ranks, 9 },
};

static const struct names *names;

#define THREADS 3u

static void cut(struct comm *c, int rank, int size)
{
	char name[SHOAL_NAME_MAX + 64];
	uint64_t in_range[THREAD_RANKS_MAX] = { 0 }, all = 0, sums[2];
	struct index_splitters cuts = { 0 };
	struct index_sample sample = { 0 }, of[THREADS] = { { 0 } };
	struct shoal_err err = { "" };
	size_t len;

	CHECK_WORDS(index_sample_init(&sample, size, &err) == 0, err.msg);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_WORDS(index_sample_init(&of[i], size * (int)THREADS, &err) == 0, err.msg);
	/* The first thread sees a few names, and the last one most of them. */
	for (uint32_t k = 0; (len = names->fn(name, rank, size, k)) > 0; k++)
		index_sample_see(&of[k % 10 == 0  ? 0
				     : k % 3 == 0 ? 1
						  : 2],
				 (const uint8_t *)name, len);
	for (unsigned i = 0; i < THREADS; i++) {
		index_sample_join(&sample, &of[i]);
		index_sample_release(&of[i]);
	}
	CHECK_WORDS(sample.fill <= sample.cap, "a sample is bounded");
	CHECK_WORDS(index_splitters_agree(&cuts, c, &sample, &err) == 0, err.msg);
	CHECK_WORDS(cuts.nr == size - 1, names->title);
	for (uint32_t k = 0; (len = names->fn(name, rank, size, k)) > 0; k++) {
		int range = 0, end = cuts.nr;

		while (index_splitters_is_past(&cuts, range, (const uint8_t *)name, len))
			range++;
		while (end > 0 &&
		       !index_splitters_is_past(&cuts, end - 1, (const uint8_t *)name, len))
			end--;
		CHECK_WORDS(range == end, "cuts are in order");
		in_range[range]++;
		all++;
	}
	CHECK_WORDS(comm_reduce(c, COMM_SUM, in_range, (size_t)size, &err) == 0, err.msg);
	CHECK_WORDS(comm_reduce(c, COMM_SUM, &all, 1, &err) == 0, err.msg);
	for (int r = 0; r < size; r++)
		CHECK_WORDS((double)in_range[r] <= names->most * (double)all / size + 1,
			    names->title);
	/* All have the same cuts. */
	sums[0] = sums[1] = cuts.at[size - 1];
	for (size_t i = 0; i < cuts.at[size - 1]; i++)
		sums[0] = sums[1] = sums[0] * 31 + cuts.bytes[i];
	CHECK_WORDS(comm_reduce(c, COMM_MIN, &sums[0], 1, &err) == 0, err.msg);
	CHECK_WORDS(comm_reduce(c, COMM_MAX, &sums[1], 1, &err) == 0, err.msg);
	CHECK_WORDS(sums[0] == sums[1], names->title);
	index_splitters_release(&cuts);
	index_sample_release(&sample);
}

static void cuts_make_ranges_of_about_the_same_number(void **state)
{
	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(all_names); n++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			names = &all_names[n];
			run(sizes[i], i % 2 ? 0 : 1u << 30, cut);
		}
}

/* What the ranks keep together is bounded, too. */
static void with_many_ranks_a_sample_gets_smaller(void **state)
{
	struct index_sample s = { 0 };
	struct shoal_err err;
	char name[SHOAL_NAME_MAX];

	(void)state;
	memset(name, 'n', sizeof(name));
	for (int nr = 1; nr <= 1 << 20; nr *= 4) {
		assert_int_equal(index_sample_init(&s, nr, &err), 0);
		assert_true(s.cap <= 64u << 10);
		assert_true(nr < 256 || s.cap <= 2 * (SHOAL_NAME_MAX + 2) ||
			    s.cap * (size_t)nr <= 16u << 20);
		for (int k = 0; k < 1000; k++) /* the longest one fits always */
			index_sample_see(&s, (const uint8_t *)name, sizeof(name));
		assert_true(s.fill > 0 && s.fill <= s.cap);
		index_sample_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_listed_exactly_once),
		cmocka_unit_test(one_large_subtree_spreads_over_all_ranks),
		cmocka_unit_test(a_rank_whose_store_fails_ends_all_with_its_words),
		cmocka_unit_test(an_owner_who_stops_ends_all),
		cmocka_unit_test(cuts_make_ranges_of_about_the_same_number),
		cmocka_unit_test(with_many_ranks_a_sample_gets_smaller),
	};

	alarm(300); /* whatever hangs is found by it */
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
