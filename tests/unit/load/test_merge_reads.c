/*
 * Goal: samples that are neighbours in a file come by one read, and each is what a read of its own
 * gives; files of several samples stay open; and the figures say what was read for what was
 * delivered.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"

#define FILES 6u

static char dir[] = "merge_reads-XXXXXX"; /* on a disk, for O_DIRECT */

static const char *path_of(uint64_t file)
{
	static char path[100];

	snprintf(path, sizeof(path), "%s/%" PRIu64, dir, file);
	return path;
}

static uint8_t byte_at(uint64_t file, uint64_t off)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + file * 77777;

	return (uint8_t)(x >> 32 ^ x >> 48);
}

static void put(uint64_t file, uint64_t size)
{
	uint8_t *bytes = allocate(size, 1);

	for (uint64_t i = 0; i < size; i++)
		bytes[i] = byte_at(file, i);
	file_write(path_of(file), bytes, size);
	free(bytes);
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? test_dir_make(state) : -1;
}

static int remove_dir(void **state)
{
	for (uint64_t i = 0; i < FILES; i++)
		unlink(path_of(i));
	return rmdir(dir) == 0 ? test_dir_remove(state) : -1;
}

/* A catalog of files with @each samples of @bytes, which are written too. */
static struct shoal_catalog *make(uint64_t each, uint64_t bytes)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	char name[30];

	for (uint64_t i = 0; i < FILES; i++) {
		put(i, each * bytes);
		snprintf(name, sizeof(name), "%" PRIu64, i);
		list_add(&l, name, strlen(name), each * bytes, each);
	}
	cat = catalog_of(&l, true, each);
	list_release(&l);
	return cat;
}

/* ---- Loading ---- */

static const struct way {
	enum shoal_engine engine;
	bool direct;
} ways[] = {
	{ SHOAL_ENGINE_THREADS, false },
	{ SHOAL_ENGINE_THREADS, true },
	{ SHOAL_ENGINE_URING, false },
	{ SHOAL_ENGINE_URING, true },
};

#define FOR_ALL_WAYS(w) for (const struct way *w = ways; w < ways + ARRAY_LEN(ways); w++)

static struct shoal_order_spec spec_of(enum shoal_mode mode, uint64_t each, uint64_t batch)
{
	return (struct shoal_order_spec){ .mode = mode,
					  .remainder = SHOAL_KEEP,
					  .seed = 5,
					  .nr_samples = FILES * each,
					  .unit = each,
					  .window = 2,
					  .nr_ranks = 1,
					  .batch = batch };
}

/* NULL, said once, where the machine does not have this way. */
static struct shoal_loader *open_limited(const struct shoal_catalog *cat, const struct way *w,
					 const struct shoal_order_spec *spec, uint64_t rank,
					 uint64_t memory)
{
	static bool said[3][2];
	struct shoal_load_options o = { .store = dir,
					.engine = w->engine,
					.direct = w->direct,
					.memory = memory,
					.skip_errors = true };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };
	int rc = shoal_loader_open(cat, spec, rank, &o, &l, &err);

	if (rc == -ENOTSUP && !said[w->engine][w->direct])
		print_message("not tested here: %s\n", err.msg);
	said[w->engine][w->direct] |= rc == -ENOTSUP;
	if (rc < 0 && rc != -ENOTSUP)
		fail_msg("%s", err.msg);
	return l;
}

static struct shoal_loader *open_loader(const struct shoal_catalog *cat, const struct way *w,
					const struct shoal_order_spec *spec, uint64_t rank)
{
	return open_limited(cat, w, spec, rank, 0);
}

static void check_sample(const struct shoal_sample *s, uint64_t each, uint64_t bytes)
{
	const uint8_t *data = s->data;

	assert_int_equal(s->error, 0);
	assert_int_equal(s->len, bytes);
	for (uint64_t i = 0; i < bytes; i++)
		if (data[i] != byte_at(s->id / each, s->id % each * bytes + i))
			fail_msg("sample %" PRIu64 ": byte %" PRIu64 " is wrong", s->id, i);
}

/* One epoch, whose samples are as a read of each gives them, in the order's order. @wrong: those
 * from this file on may be missing; returns how many are. */
static uint64_t check_epoch(struct shoal_loader *l, const struct shoal_order_spec *spec,
			    uint64_t rank, uint64_t each, uint64_t bytes, uint64_t wrong)
{
	uint64_t *ids = allocate(spec->batch, sizeof(*ids)), missing = 0;
	const struct shoal_batch *b = NULL;
	struct shoal_order *order = NULL;

	assert_int_equal(shoal_loader_epoch(l, 0, NULL), 0);
	assert_int_equal(shoal_order_new(spec, 0, &order, NULL), 0);
	while (shoal_loader_next(l, &b, NULL) == 1) {
		assert_int_equal(b->nr, shoal_order_batch(order, b->step, rank, ids));
		for (size_t i = 0; i < b->nr; i++) {
			assert_int_equal(b->sample[i].id, ids[i]);
			if (b->sample[i].error && ids[i] / each == wrong)
				missing++;
			else
				check_sample(&b->sample[i], each, bytes);
		}
		shoal_loader_give_back(l, b);
	}
	shoal_order_free(order);
	free(ids);
	return missing;
}

/* ---- Tests ---- */

static void each_sample_is_what_a_read_of_its_own_gives(void **state)
{
	static const uint64_t sizes[] = { 1, 700, 4095, 4096, 4097, 70000 };
	static const uint64_t batches[] = { 1, 7, 37, 64 };
	static const enum shoal_mode modes[] = { SHOAL_SEQUENTIAL, SHOAL_GLOBAL, SHOAL_FILES,
						 SHOAL_WINDOW };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct shoal_catalog *cat = make(37, sizes[i]);

		for (size_t k = 0; k < ARRAY_LEN(batches) * ARRAY_LEN(modes); k++)
			FOR_ALL_WAYS(w)
			{
				struct shoal_order_spec spec =
					spec_of(modes[k % ARRAY_LEN(modes)], 37,
						batches[k / ARRAY_LEN(modes)]);
				struct shoal_loader *l = open_loader(cat, w, &spec, 0);
				struct shoal_load_stats s;

				if (!l)
					continue;
				check_epoch(l, &spec, 0, 37, sizes[i], UINT64_MAX);
				shoal_loader_stats(l, &s);
				assert_int_equal(s.nr_samples, FILES * 37);
				assert_int_equal(s.bytes_delivered, FILES * 37 * sizes[i]);
				assert_true(s.bytes_read >= s.bytes_delivered);
				assert_true(s.nr_reads <= s.nr_samples);
				assert_true(s.nr_opens <= s.nr_reads);
				if (spec.batch == 1 && spec.mode == SHOAL_GLOBAL)
					assert_int_equal(s.nr_reads, s.nr_samples);
				shoal_loader_close(l);
			}
		shoal_catalog_close(cat);
	}
}

static void neighbours_come_by_one_read_and_files_are_opened_once(void **state)
{
	/* 37 samples of 700 bytes are 25,900; of 70,000 bytes 14 fit into a read of 1 MiB. */
	static const struct {
		uint64_t bytes, reads;
	} row[] = { { 700, FILES }, { 70000, FILES * 3 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_catalog *cat = make(37, row[i].bytes);

		FOR_ALL_WAYS(w)
		{
			struct shoal_order_spec spec = spec_of(SHOAL_FILES, 37, 37);
			struct shoal_loader *l = open_loader(cat, w, &spec, 0);
			struct shoal_load_stats s;

			if (!l)
				continue;
			check_epoch(l, &spec, 0, 37, row[i].bytes, UINT64_MAX);
			shoal_loader_stats(l, &s);
			assert_int_equal(s.nr_reads, row[i].reads);
			assert_int_equal(s.bytes_read, s.bytes_delivered);
			assert_in_range(s.nr_opens, FILES, row[i].reads);
			shoal_loader_close(l);
		}
		shoal_catalog_close(cat);
	}
}

static void steps_of_few_bytes_are_read_together_up_to_256_kib(void **state)
{
	/* Of 37 samples per file. 256 KiB are 4 samples of 65,537 bytes and more. */
	static const struct {
		uint64_t bytes, batch, ranks, stride, least, most;
	} row[] = {
		{ 700, 1, 1, 1, FILES, FILES },
		{ 700, 5, 1, 1, FILES, FILES + 1 },
		{ 65536, 1, 1, 1, 56, 56 + FILES },
		{ 65537, 1, 1, 1, 56, 56 + FILES },
		{ 65535, 1, 1, 1, 45, 45 + FILES },
		{ 131072, 1, 1, 1, 111, 111 + FILES },
		{ 131072, 2, 1, 1, 111, 111 + FILES },
		{ 262143, 1, 1, 1, 111, 111 + FILES },
		{ 262144, 1, 1, 1, 222, 222 },
		{ 700, 1, 2, 1, FILES / 2, FILES / 2 },
		{ 700, 1, 1, 2, FILES * 37, FILES * 37 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_catalog *cat = make(37, row[i].bytes);
		struct shoal_order_spec spec = spec_of(SHOAL_FILES, 37, row[i].batch);
		uint64_t reads = 0;

		spec.nr_ranks = spec.lanes = row[i].ranks;
		for (uint64_t first = 0; first < row[i].stride; first++) {
			struct shoal_load_options o = { .store = dir,
							.engine = SHOAL_ENGINE_THREADS,
							.first_step = first,
							.stride = row[i].stride };
			struct shoal_loader *l = NULL;
			struct shoal_load_stats s;

			assert_int_equal(shoal_loader_open(cat, &spec, 0, &o, &l, NULL), 0);
			check_epoch(l, &spec, 0, 37, row[i].bytes, UINT64_MAX);
			shoal_loader_stats(l, &s);
			assert_int_equal(s.bytes_read, s.bytes_delivered);
			reads += s.nr_reads;
			shoal_loader_close(l);
		}
		assert_in_range(reads, row[i].least, row[i].most);
		shoal_catalog_close(cat);
	}
}

static void steps_that_are_read_together_are_held_and_given_back_one_by_one(void **state)
{
	struct shoal_catalog *cat = make(37, 700);
	struct shoal_order_spec spec = spec_of(SHOAL_SEQUENTIAL, 37, 1);
	struct shoal_load_options o = { .store = dir, .engine = SHOAL_ENGINE_THREADS };
	const struct shoal_batch *held[3], *b;
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_loader_open(cat, &spec, 0, &o, &l, NULL), 0);
	assert_int_equal(shoal_loader_epoch(l, 0, NULL), 0);
	for (size_t i = 0; i < 3; i++) /* prefetch + 1 */
		assert_int_equal(shoal_loader_next(l, &held[i], NULL), 1);
	assert_int_equal(shoal_loader_next(l, &b, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "all 3 batches are held"));
	shoal_loader_give_back(l, held[1]);
	shoal_loader_give_back(l, held[1]); /* once more: no effect */
	assert_int_equal(shoal_loader_next(l, &b, NULL), 1);
	assert_int_equal(b->step, 3);
	/* The rest of the batch is dropped with its epoch; what is held stays. */
	assert_int_equal(shoal_loader_epoch(l, 1, NULL), 0);
	check_sample(held[0]->sample, 37, 700);
	check_sample(held[2]->sample, 37, 700);
	shoal_loader_give_back(l, held[0]);
	shoal_loader_give_back(l, held[2]);
	shoal_loader_give_back(l, b);
	check_epoch(l, &spec, 0, 37, 700, UINT64_MAX);
	shoal_loader_close(l);
	shoal_catalog_close(cat);
}

static void an_error_leaves_the_steps_before_it_that_were_read_with_it(void **state)
{
	struct shoal_catalog *cat = make(37, 700);
	struct shoal_order_spec spec = spec_of(SHOAL_SEQUENTIAL, 37, 1);
	struct shoal_load_options o = { .store = dir, .engine = SHOAL_ENGINE_THREADS };
	const struct shoal_batch *b;
	struct shoal_loader *l = NULL;

	(void)state;
	put(0, 9 * 700);
	assert_int_equal(shoal_loader_open(cat, &spec, 0, &o, &l, NULL), 0);
	assert_int_equal(shoal_loader_epoch(l, 0, NULL), 0);
	for (uint64_t i = 0; i < 9; i++) {
		assert_int_equal(shoal_loader_next(l, &b, NULL), 1);
		check_sample(b->sample, 37, 700);
		shoal_loader_give_back(l, b);
	}
	assert_int_equal(shoal_loader_next(l, &b, NULL), -ENODATA);
	shoal_loader_close(l);
	shoal_catalog_close(cat);
}

static void files_stay_open_from_batch_to_batch_but_not_to_the_next_epoch(void **state)
{
	struct shoal_catalog *cat = make(40, 5000);
	struct shoal_order_spec spec = spec_of(SHOAL_GLOBAL, 40, 1);

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = open_loader(cat, w, &spec, 0);
		struct shoal_load_stats s;

		if (!l)
			continue;
		for (int epoch = 0; epoch < 2; epoch++) {
			check_epoch(l, &spec, 0, 40, 5000, UINT64_MAX);
			shoal_loader_stats(l, &s);
			assert_int_equal(s.nr_reads, FILES * 40);
			/* A read that begins before another one's open ended opens it too: there
			 * are three batches at most. */
			assert_in_range(s.nr_opens, FILES, FILES * 3);
		}
		shoal_loader_close(l);
	}
	shoal_catalog_close(cat);
}

static void what_a_file_lacks_is_missing_of_its_own_samples_only(void **state)
{
	struct shoal_catalog *cat = make(37, 700);
	struct shoal_order_spec spec = spec_of(SHOAL_SEQUENTIAL, 37, 50);

	(void)state;
	FOR_ALL_WAYS(w)
	for (int change = 0; change < 4; change++) {
		/* Half of the tenth sample; nothing at all; one byte more, which only the last
		 * one's read can see; no file. */
		static const uint64_t missing[] = { 28, 37, 1, 37 };
		struct shoal_loader *l;
		struct shoal_load_stats s;

		put(3, change == 0 ? 9 * 700 + 350 : change == 1 ? 0 : 37 * 700 + 1);
		if (change == 3)
			assert_int_equal(unlink(path_of(3)), 0);
		l = open_loader(cat, w, &spec, 0);
		if (!l)
			continue;
		assert_int_equal(check_epoch(l, &spec, 0, 37, 700, 3), missing[change]);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_errors, missing[change]);
		assert_int_equal(s.nr_samples, FILES * 37 - missing[change]);
		shoal_loader_close(l);
	}
	shoal_catalog_close(cat);
}

static void a_sample_that_comes_twice_has_memory_of_its_own(void **state)
{
	struct shoal_catalog *cat = make(3, 500);
	struct shoal_order_spec spec = spec_of(SHOAL_SEQUENTIAL, 3, 40);

	(void)state;
	spec.remainder = SHOAL_PAD; /* 18 samples for a batch of 40 */
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = open_loader(cat, w, &spec, 0);
		const struct shoal_batch *b = NULL;

		if (!l)
			continue;
		assert_int_equal(shoal_loader_epoch(l, 0, NULL), 0);
		assert_int_equal(shoal_loader_next(l, &b, NULL), 1);
		assert_int_equal(b->nr, 40);
		for (size_t i = 0; i < b->nr; i++)
			for (size_t k = 0; k < i; k++) {
				const uint8_t *x = b->sample[i].data, *y = b->sample[k].data;

				assert_true(x + 500 <= y || y + 500 <= x);
			}
		for (size_t i = 0; i < b->nr; i++)
			check_sample(&b->sample[i], 3, 500);
		shoal_loader_give_back(l, b);
		shoal_loader_close(l);
	}
	shoal_catalog_close(cat);
}

/* The bytes that a gap of @gap records, which are not wanted, costs. */
static uint64_t reads_with_gaps(const struct way *w, uint64_t bytes, uint64_t gap, uint64_t memory)
{
	struct shoal_catalog *cat = make(36, bytes);
	struct shoal_order_spec spec = spec_of(SHOAL_SEQUENTIAL, 36, 1);
	struct shoal_load_stats s = { 0 };
	struct shoal_loader *l;

	/* Lanes: the samples of a step lie a file's @gap-th part apart. */
	spec.batch = 36 / gap;
	spec.lanes = FILES * 36 / gap;
	spec.lane_batch = 1;
	l = open_limited(cat, w, &spec, 0, memory);
	if (l) {
		check_epoch(l, &spec, 0, 36, bytes, UINT64_MAX);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_samples, FILES * 36);
		shoal_loader_close(l);
	}
	shoal_catalog_close(cat);
	return s.nr_reads;
}

static void a_gap_is_read_if_it_is_short_and_the_memory_allows(void **state)
{
	const uint64_t limit = 64 << 20;

	(void)state;
	FOR_ALL_WAYS(w)
	{
		uint64_t reads = reads_with_gaps(w, 512, 4, 0);

		if (reads == 0)
			continue;
		assert_int_equal(reads, FILES * 4); /* 1.5 KB apart: it fits into whole pages */
		assert_int_equal(reads_with_gaps(w, 512, 4, limit), FILES * 4);
		/* 27 KB apart: it takes more memory, up to twice as much */
		assert_in_range(reads_with_gaps(w, 9000, 4, 0), FILES * 4, FILES * 20);
		assert_int_equal(reads_with_gaps(w, 9000, 4, limit), FILES * 36);
		/* 32,766 and 32,769 bytes apart */
		assert_in_range(reads_with_gaps(w, 10922, 4, 0), FILES * 4, FILES * 20);
		assert_int_equal(reads_with_gaps(w, 10923, 4, 0), FILES * 36);
	}
}

static void ranks_with_lanes_open_files_of_their_own(void **state)
{
	struct shoal_catalog *cat = make(40, 700);
	struct shoal_order_spec spec = spec_of(SHOAL_WINDOW, 40, 10);
	uint64_t opens[2] = { 0, 0 };

	(void)state;
	spec.nr_ranks = 3;
	for (unsigned lanes = 0; lanes < 2; lanes++)
		for (uint64_t rank = 0; rank < 3; rank++) {
			struct shoal_loader *l;
			struct shoal_load_stats s;

			spec.lanes = lanes ? 3 : 1;
			l = open_loader(cat, &ways[0], &spec, rank);
			check_epoch(l, &spec, rank, 40, 700, UINT64_MAX);
			shoal_loader_stats(l, &s);
			/* Two files of its own, against all six; see above for what is over. */
			assert_in_range(s.nr_opens, lanes ? 2 : FILES, lanes ? 10 : UINT64_MAX);
			opens[lanes] += s.nr_opens;
			shoal_loader_close(l);
		}
	assert_true(opens[1] < opens[0]);
	shoal_catalog_close(cat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_is_what_a_read_of_its_own_gives),
		cmocka_unit_test(neighbours_come_by_one_read_and_files_are_opened_once),
		cmocka_unit_test(steps_of_few_bytes_are_read_together_up_to_256_kib),
		cmocka_unit_test(steps_that_are_read_together_are_held_and_given_back_one_by_one),
		cmocka_unit_test(an_error_leaves_the_steps_before_it_that_were_read_with_it),
		cmocka_unit_test(files_stay_open_from_batch_to_batch_but_not_to_the_next_epoch),
		cmocka_unit_test(what_a_file_lacks_is_missing_of_its_own_samples_only),
		cmocka_unit_test(a_sample_that_comes_twice_has_memory_of_its_own),
		cmocka_unit_test(a_gap_is_read_if_it_is_short_and_the_memory_allows),
		cmocka_unit_test(ranks_with_lanes_open_files_of_their_own),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
