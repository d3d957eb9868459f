/*
 * Goal: a loader brings every sample of its rank once an epoch, in the order's order, with the
 * bytes that are in the store at that time; what it cannot bring it names and counts; and its sums
 * prove it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "help.h"
#include "load/audit.h"
#include "load/engine.h"
#include "load/loader.h"

/* ---- Reads are counted: see tests/meson.build ---- */

static struct fault preads; /* only counts them */

/* ---- A directory on a disk, as not every kernel has O_DIRECT for what is in memory ---- */

#define FILES 40u

static char dir[] = "loader-XXXXXX";
static struct shoal_catalog *whole, *sizeless;

/* Longer than any name in an error may be. */
#define LONG "a-name-so-long-that-nothing-is-left-of-the-line-if-it-is-all-given-"

static const char *name_of(uint64_t i)
{
	static char name[400];

	snprintf(name, sizeof(name), "d/%03" PRIu64 "%s", i, i == 39 ? LONG LONG LONG : "");
	return name;
}

static const char *path_of(uint64_t i)
{
	static char path[500];

	snprintf(path, sizeof(path), "%s/%s", dir, name_of(i));
	return path;
}

static uint64_t size_of(uint64_t i)
{
	static const uint64_t sizes[] = { 0, 1, 4095, 4096, 4097, 100, 20000, 300000 };

	return sizes[i % ARRAY_LEN(sizes)];
}

static uint64_t total_bytes(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < FILES; i++)
		sum += size_of(i);
	return sum;
}

static uint8_t byte_at(uint64_t key, uint64_t off)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + key * 77777;

	return (uint8_t)(x >> 32 ^ x >> 48);
}

/* File @i with @size bytes; another generation has other bytes. */
static void put(uint64_t i, uint64_t size, uint64_t generation)
{
	uint8_t *bytes = allocate(size, 1);

	for (uint64_t k = 0; k < size; k++)
		bytes[k] = byte_at(i + 1000 * generation, k);
	file_write(path_of(i), bytes, size);
	free(bytes);
}

static void put_all(uint64_t generation)
{
	for (uint64_t i = 0; i < FILES; i++)
		put(i, size_of(i), generation);
}

static struct shoal_catalog *make_catalog(uint64_t nr, bool sizes, uint64_t samples_per_file)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	for (uint64_t i = 0; i < nr; i++)
		list_add(&l, name_of(i), strlen(name_of(i)), size_of(i),
			 samples_per_file ? samples_per_file : i % 4);
	cat = catalog_of(&l, sizes, samples_per_file);
	list_release(&l);
	return cat;
}

static int make_files(void **state)
{
	char path[100];

	if (!mkdtemp(dir) || test_dir_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/d", dir);
	if (mkdir(path, 0777) < 0)
		return -1;
	put_all(0);
	whole = make_catalog(FILES, true, 1);
	sizeless = make_catalog(FILES, false, 1);
	return 0;
}

static int remove_files(void **state)
{
	char command[100];

	whole = shoal_catalog_close(whole);
	sizeless = shoal_catalog_close(sizeless);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command) == 0 ? test_dir_remove(state) : -1;
}

static void restore_one(uint64_t i)
{
	if (unlink(path_of(i)) < 0 && errno == EISDIR)
		rmdir(path_of(i));
	put(i, size_of(i), 0);
}

/* After each test, whatever it did to them. */
static int restore(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < FILES; i++)
		restore_one(i);
	return 0;
}

/* ---- Loaders ---- */

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

static struct shoal_order_spec spec_of(const struct shoal_catalog *cat, uint64_t batch)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	return (struct shoal_order_spec){ .mode = SHOAL_GLOBAL,
					  .remainder = SHOAL_KEEP,
					  .seed = 5,
					  .nr_samples = info.nr_samples,
					  .nr_ranks = 1,
					  .batch = batch };
}

static struct shoal_loader *loader_of(const struct shoal_catalog *cat,
				      const struct shoal_order_spec *spec, uint64_t rank,
				      const struct shoal_load_options *options)
{
	struct shoal_load_options o = *options;
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	o.store = o.store ? o.store : dir;
	if (shoal_loader_open(cat, spec, rank, &o, &l, &err) < 0)
		fail_msg("%s", err.msg);
	return l;
}

/* Of all files, in this way. NULL, said once, where the machine does not have it. */
static struct shoal_loader *loader_in_way(const struct way *w, uint64_t batch,
					  struct shoal_load_options o)
{
	static bool said[3][2];
	struct shoal_order_spec spec = spec_of(whole, batch);
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };
	int rc;

	o.engine = w->engine;
	o.direct = w->direct;
	o.store = dir;
	rc = shoal_loader_open(whole, &spec, 0, &o, &l, &err);
	if (rc == -ENOTSUP && !said[w->engine][w->direct])
		print_message("not tested here: %s\n", err.msg);
	said[w->engine][w->direct] |= rc == -ENOTSUP;
	if (rc < 0 && rc != -ENOTSUP)
		fail_msg("%s", err.msg);
	return l;
}

static void begin(struct shoal_loader *l, uint64_t epoch)
{
	struct shoal_err err = { "" };

	if (shoal_loader_epoch(l, epoch, &err) < 0)
		fail_msg("%s", err.msg);
}

static const struct shoal_batch *next(struct shoal_loader *l)
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };

	if (shoal_loader_next(l, &b, &err) != 1)
		fail_msg("no batch: %s", err.msg);
	return b;
}

static void check_end(struct shoal_loader *l)
{
	const struct shoal_batch *b = NULL;

	assert_int_equal(shoal_loader_next(l, &b, NULL), 0);
	assert_int_equal(shoal_loader_next(l, &b, NULL), 0);
}

static void check_fails(struct shoal_loader *l, int rc, const char *words)
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_loader_next(l, &b, &err), rc);
	if (!strstr(err.msg, words))
		fail_msg("'%s' is not in: %s", words, err.msg);
}

static void check_bytes(const struct shoal_sample *s, uint64_t key, uint64_t off, uint64_t len)
{
	const uint8_t *data = s->data;

	assert_int_equal(s->error, 0);
	assert_int_equal(s->len, len);
	for (uint64_t i = 0; i < len; i++)
		if (data[i] != byte_at(key, off + i))
			fail_msg("sample %" PRIu64 ": byte %" PRIu64 " is wrong", s->id, i);
}

/* Every sample is a whole file of this generation. */
static void check_batch(const struct shoal_batch *b, uint64_t generation)
{
	for (size_t i = 0; i < b->nr; i++)
		check_bytes(&b->sample[i], b->sample[i].id + 1000 * generation, 0,
			    size_of(b->sample[i].id));
}

/* The rest of the epoch, in the order of @spec. */
static void check_epoch(struct shoal_loader *l, const struct shoal_order_spec *spec, uint64_t rank,
			uint64_t epoch, uint64_t generation)
{
	uint64_t *ids = allocate(spec->batch, sizeof(*ids));
	struct shoal_order *order = NULL;

	assert_int_equal(shoal_order_new(spec, epoch, &order, NULL), 0);
	for (uint64_t step = 0; step < shoal_order_steps(order); step++) {
		const struct shoal_batch *b = next(l);

		assert_int_equal(b->step, step);
		assert_int_equal(b->nr, shoal_order_batch(order, step, rank, ids));
		for (size_t i = 0; i < b->nr; i++)
			assert_int_equal(b->sample[i].id, ids[i]);
		check_batch(b, generation);
		shoal_loader_give_back(l, b);
	}
	check_end(l);
	shoal_order_free(order);
	free(ids);
}

/* ---- What is read ---- */

static void every_sample_comes_whole_and_in_order(void **state)
{
	static const uint64_t batches[] = { 1, 7, 39, 40, 41 };
	static const unsigned in_flight[] = { 1, 3, 64 };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(batches); i++)
		for (size_t k = 0; k < ARRAY_LEN(in_flight); k++) {
			struct shoal_order_spec spec = spec_of(whole, batches[i]);
			struct shoal_loader *l = loader_in_way(
				w, batches[i],
				(struct shoal_load_options){ .in_flight = in_flight[k] });
			struct shoal_load_stats s;

			if (!l)
				continue;
			begin(l, 3);
			check_epoch(l, &spec, 0, 3, 0);
			shoal_loader_stats(l, &s);
			assert_int_equal(s.nr_samples, FILES);
			assert_int_equal(s.nr_errors, 0);
			assert_int_equal(s.bytes_asked, total_bytes());
			assert_int_equal(s.bytes_delivered, total_bytes());
			assert_true(s.pool_bytes >= 300000);
			assert_true(s.pool_bytes <= 3 * batches[i] * load_cap(0, 300000));
			assert_string_equal(s.engine,
					    w->engine == SHOAL_ENGINE_URING ? "uring" : "threads");
			shoal_loader_close(l);
		}
}

/* Records of equal size, the last of a file with what is left over. */
static void check_records(const struct shoal_catalog *cat, const struct way *w, uint64_t count)
{
	struct shoal_order_spec spec = spec_of(cat, 8);
	struct shoal_load_options o = { .engine = w->engine, .direct = w->direct, .store = dir };
	struct shoal_loader *l = NULL;
	uint64_t nr = 0;
	int rc = shoal_loader_open(cat, &spec, 0, &o, &l, NULL);

	if (rc == -ENOTSUP)
		return;
	assert_int_equal(rc, 0);
	begin(l, 0);
	for (const struct shoal_batch *b; nr < spec.nr_samples; shoal_loader_give_back(l, b)) {
		b = next(l);
		for (size_t i = 0; i < b->nr; i++, nr++) {
			uint64_t file, index, first, n, size, len;

			assert_int_equal(shoal_catalog_locate(cat, b->sample[i].id, &file, &index),
					 0);
			assert_int_equal(shoal_catalog_samples(cat, file, &first, &n), 0);
			assert_int_equal(n, count ? count : file % 4);
			size = size_of(file);
			len = index + 1 < n ? size / n : size - size / n * (n - 1);
			check_bytes(&b->sample[i], file, size / n * index, len);
		}
	}
	check_end(l);
	shoal_loader_close(l);
}

static void samples_of_one_file_are_its_records(void **state)
{
	(void)state;
	for (uint64_t count = 0; count < 12; count++) {
		struct shoal_catalog *cat;

		if (count == 1)
			continue;
		cat = make_catalog(count == 7 ? 7 : FILES, true, count);
		FOR_ALL_WAYS(w)
		check_records(cat, w, count);
		shoal_catalog_close(cat);
	}
}

static void catalogs_without_sizes_need_a_slot(void **state)
{
	struct shoal_order_spec spec = spec_of(sizeless, 8);
	struct shoal_load_options o = { .store = dir };
	struct shoal_catalog *records = make_catalog(FILES, false, 2);
	struct shoal_loader *l = NULL;
	struct shoal_load_stats s;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_loader_open(sizeless, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "no sizes"));
	assert_int_equal(err.hint, SHOAL_HINT_SLOT);
	o.slot = 300000;
	l = loader_of(sizeless, &spec, 0, &o);
	begin(l, 0);
	check_epoch(l, &spec, 0, 0, 0);
	shoal_loader_stats(l, &s);
	assert_int_equal(s.bytes_delivered, total_bytes());
	shoal_loader_close(l);

	o.slot = 299999;
	l = loader_of(sizeless,
		      &(struct shoal_order_spec){ .nr_samples = FILES, .nr_ranks = 1, .batch = 8 },
		      0, &o);
	begin(l, 0);
	check_fails(l, -EFBIG, "'d/007' is larger than the 299999 bytes that there is room for");
	shoal_loader_close(l);

	spec = spec_of(records, 8);
	assert_int_equal(shoal_loader_open(records, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "offsets of samples"));
	shoal_catalog_close(records);
}

static void what_is_larger_than_its_slot_is_an_error_of_the_sample(void **state)
{
	struct shoal_order_spec spec = { .nr_samples = FILES, .nr_ranks = 1, .batch = FILES };
	struct shoal_load_options o = { .slot = 20000 };
	struct shoal_loader *l = loader_of(whole, &spec, 0, &o);
	const struct shoal_batch *b;
	struct shoal_load_stats s;

	(void)state;
	begin(l, 0);
	check_fails(l, -EFBIG, "sample 7: 'd/007' has 300000 bytes, and there is room for 20000");
	shoal_loader_close(l);
	o.skip_errors = true;
	l = loader_of(whole, &spec, 0, &o);
	begin(l, 0);
	b = next(l);
	for (size_t i = 0; i < b->nr; i++)
		assert_int_equal(b->sample[i].error, size_of(i) > 20000 ? -EFBIG : 0);
	shoal_loader_stats(l, &s);
	assert_int_equal(s.nr_errors, 5);
	assert_int_equal(s.nr_samples, FILES - 5);
	shoal_loader_close(l);
}

/* ---- Pieces ---- */

/* What of each sample has come: the next piece must begin there. */
struct gathered {
	uint64_t id, off;
	uint64_t nr_samples, nr_steps;
};

static void gather(struct gathered *g, const struct shoal_batch *b, uint64_t slot)
{
	for (size_t i = 0; i < b->nr; i++) {
		const struct shoal_sample *s = &b->sample[i];

		assert_int_equal(s->size, size_of(s->id));
		assert_int_equal(s->off, g->off);
		if (g->off > 0)
			assert_int_equal(s->id, g->id);
		assert_true(s->len <= slot);
		check_bytes(s, s->id, s->off, s->len);
		g->id = s->id;
		g->off = s->off + s->len == s->size ? 0 : s->off + s->len;
		g->nr_samples += g->off == 0;
	}
	assert_int_equal(b->step, g->nr_steps);
	g->nr_steps += b->last;
}

static void samples_larger_than_a_slot_come_in_pieces(void **state)
{
	static const uint64_t slots[] = { 1000, 4095, 4096, 5000, 65536, 299999, 300000, 0 };
	uint64_t whole_sums[2], steps = (FILES + 6) / 7;
	struct shoal_load_stats s;

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
		struct shoal_load_options o = { .slot = slots[i], .pieces = true };
		struct shoal_loader *l = loader_in_way(w, 7, o);
		struct gathered g = { 0 };

		if (!l)
			continue;
		begin(l, 2);
		while (g.nr_steps < steps) {
			const struct shoal_batch *b = next(l);

			assert_true(b->nr <= 7);
			gather(&g, b, slots[i] ? slots[i] : UINT64_MAX);
			shoal_loader_give_back(l, b);
		}
		check_end(l);
		assert_int_equal(g.off, 0);
		assert_int_equal(g.nr_samples, FILES);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_samples, FILES);
		assert_int_equal(s.bytes_asked, total_bytes());
		assert_int_equal(s.bytes_delivered, total_bytes());
		assert_true(s.pool_bytes <= 3 * 7 * load_cap(4095, slots[i] ? slots[i] : 300000));
		if (i > 0) /* whatever the pieces are, the proof is of samples */
			assert_memory_equal(s.sum_order, whole_sums, sizeof(whole_sums));
		memcpy(whole_sums, s.sum_order, sizeof(whole_sums));
		shoal_loader_close(l);
	}
}

static void records_come_in_pieces_too(void **state)
{
	struct shoal_catalog *records = make_catalog(FILES, true, 3);
	struct shoal_order_spec spec = spec_of(records, 5);

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_load_options o = { .engine = w->engine,
						.direct = w->direct,
						.slot = 5000,
						.pieces = true,
						.store = dir };
		struct shoal_loader *l = NULL;
		const struct shoal_batch *b = NULL;
		struct shoal_load_stats s;

		if (shoal_loader_open(records, &spec, 0, &o, &l, NULL) < 0)
			continue;
		begin(l, 0);
		while (shoal_loader_next(l, &b, NULL) == 1) {
			for (size_t i = 0; i < b->nr; i++) {
				const struct shoal_sample *p = &b->sample[i];
				uint64_t file = p->id / 3, size = size_of(file) / 3;

				check_bytes(p, file, p->id % 3 * size + p->off, p->len);
			}
			shoal_loader_give_back(l, b);
		}
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_samples, 3 * FILES);
		assert_int_equal(s.bytes_delivered, total_bytes());
		shoal_loader_close(l);
	}
	shoal_catalog_close(records);
}

/* A sample of which a piece is missing counts once, and is not among those delivered. */
static void a_piece_that_is_missing_spoils_its_sample(void **state)
{
	static const struct {
		uint64_t size;
		int rc;
		const char *words;
	} row[] = {
		{ 299999, -ENODATA, "'d/007' has only 299999 of the 300000" },
		{ 8192, -ENODATA, "'d/007' has only 8192 of the 300000" },
		{ 10000, -ENODATA, "'d/007' has only 10000 of the 300000" },
		{ 0, -ENODATA, "'d/007' has only 0 of the 300000" },
		{ 300001, -EFBIG, "'d/007' is larger than the 300000 bytes" },
	};

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < 2 * ARRAY_LEN(row); i++) {
		struct shoal_load_options o = { .slot = 4096,
						.pieces = true,
						.skip_errors = i % 2 };
		struct shoal_loader *l = loader_in_way(w, 7, o);
		const struct shoal_batch *b = NULL;
		struct shoal_load_stats s;
		struct shoal_err err = { "" };
		int rc;

		if (!l)
			continue;
		put(7, row[i / 2].size, 0);
		begin(l, 0);
		while ((rc = shoal_loader_next(l, &b, &err)) == 1)
			shoal_loader_give_back(l, b);
		shoal_loader_stats(l, &s);
		assert_int_equal(rc, i % 2 ? 0 : row[i / 2].rc);
		assert_int_equal(s.nr_errors, 1);
		assert_non_null(strstr(s.first_errors[0], row[i / 2].words));
		if (i % 2)
			assert_int_equal(s.nr_samples, FILES - 1);
		restore_one(7);
		shoal_loader_close(l);
	}
}

/* Descriptors of files in the directory. */
static unsigned count_files_open(void)
{
	char link[32], to[600];
	unsigned nr = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		nr += strstr(to, dir + 1) && strstr(to, "/d/");
	}
	return nr;
}

/* As another file of that name, which those who have the first open do not see. */
static void replace_all(uint64_t generation)
{
	for (uint64_t i = 0; i < FILES; i++)
		assert_int_equal(unlink(path_of(i)), 0);
	put_all(generation);
}

/* Left after any number of batches, in the midst of samples of which more pieces were to come. */
static void pieces_of_an_epoch_are_of_files_opened_in_it(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	for (unsigned taken = 0; taken < 40; taken += 3) {
		struct shoal_load_options o = { .slot = 4096, .pieces = true };
		struct shoal_loader *l = loader_in_way(w, 7, o);
		const struct shoal_batch *b = NULL;
		int rc;

		if (!l)
			continue;
		replace_all(0);
		begin(l, 0);
		for (unsigned i = 0; i < taken; i++)
			shoal_loader_give_back(l, next(l));
		replace_all(1);
		begin(l, 0);
		while ((rc = shoal_loader_next(l, &b, NULL)) == 1) {
			for (size_t i = 0; i < b->nr; i++)
				check_bytes(&b->sample[i], b->sample[i].id + 1000, b->sample[i].off,
					    b->sample[i].len);
			shoal_loader_give_back(l, b);
		}
		assert_int_equal(rc, 0);
		begin(l, 1);
		for (unsigned i = 0; i < taken; i++)
			shoal_loader_give_back(l, next(l));
		shoal_loader_close(l);
		assert_int_equal(count_files_open(), 0);
	}
}

/* An error in the midst of a sample: of it and of what is in flight nothing stays open. */
static void an_epoch_that_failed_leaves_no_file_open(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_load_options o = { .slot = 4096, .pieces = true };
		struct shoal_loader *l = loader_in_way(w, 7, o);
		const struct shoal_batch *b = NULL;

		if (!l)
			continue;
		put(7, 8192, 0);
		begin(l, 0);
		while (shoal_loader_next(l, &b, NULL) == 1)
			shoal_loader_give_back(l, b);
		for (int i = 0; i < 1000 && count_files_open() > 0; i++)
			usleep(10000); /* the thread, or the ring, closes them */
		assert_int_equal(count_files_open(), 0);
		restore_one(7);
		shoal_loader_close(l);
	}
}

/* Sizes at which a file is opened once more, or just not; with a mark where each piece begins. */
static void large_files_are_opened_now_and_then(void **state)
{
	static const uint64_t of[] = { (32 << 20) - 1, 32 << 20, (32 << 20) + 1, (96 << 20) + 7 };
	struct test_list list = { 0 };
	struct shoal_catalog *cat;

	(void)state;
	for (uint64_t i = 0; i < ARRAY_LEN(of); i++) {
		char name[20], path[60];
		int fd;

		snprintf(name, sizeof(name), "large%" PRIu64, i);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		fd = open(path, O_CREAT | O_WRONLY, 0666);
		assert_int_equal(ftruncate(fd, (off_t)of[i]), 0);
		for (uint64_t off = 0; off + 8 < of[i]; off += 1 << 20)
			assert_int_equal(pwrite(fd, &off, 8, (off_t)off), 8);
		close(fd);
		list_add(&list, name, strlen(name), of[i], 1);
	}
	cat = catalog_of(&list, true, 1);
	list_release(&list);
	FOR_ALL_WAYS(w)
	{
		struct shoal_load_options o = {
			.engine = w->engine, .direct = w->direct, .store = dir, .pieces = true
		};
		struct shoal_order_spec spec = spec_of(cat, 2);
		const struct shoal_batch *b = NULL;
		struct shoal_loader *l = NULL;
		struct shoal_load_stats s;

		if (shoal_loader_open(cat, &spec, 0, &o, &l, NULL) < 0)
			continue;
		begin(l, 0);
		while (shoal_loader_next(l, &b, NULL) == 1) {
			for (size_t i = 0; i < b->nr; i++)
				if (b->sample[i].len > 8)
					assert_memory_equal(b->sample[i].data, &b->sample[i].off,
							    8);
			shoal_loader_give_back(l, b);
		}
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_samples, ARRAY_LEN(of));
		assert_int_equal(s.bytes_delivered, of[0] + of[1] + of[2] + of[3]);
		shoal_loader_close(l);
		assert_int_equal(count_files_open(), 0);
	}
	shoal_catalog_close(cat);
}

static void pieces_need_sizes(void **state)
{
	struct shoal_order_spec spec = spec_of(sizeless, 8);
	struct shoal_load_options o = { .slot = 4096, .pieces = true, .store = dir };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_loader_open(sizeless, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "number of pieces"));
	assert_null(l);
}

static void a_null_store_makes_samples_up(void **state)
{
	struct shoal_order_spec spec = spec_of(sizeless, 8);
	struct shoal_load_options o = { .store = "null:size=1T", .object_size = 1234 };
	struct shoal_loader *l = loader_of(sizeless, &spec, 0, &o);
	struct shoal_load_stats s;
	struct shoal_err err = { "" };

	(void)state;
	begin(l, 0);
	for (unsigned i = 0; i < FILES / 8; i++) {
		const struct shoal_batch *b = next(l);

		for (size_t k = 0; k < b->nr; k++)
			assert_int_equal(b->sample[k].len, 1234);
		shoal_loader_give_back(l, b);
	}
	check_end(l);
	shoal_loader_stats(l, &s);
	assert_int_equal(s.bytes_asked, FILES * 1234);
	assert_int_equal(s.bytes_delivered, FILES * 1234);
	shoal_loader_close(l);

	o.object_size = 0; /* sizes as the catalog has them */
	l = loader_of(whole, &spec, 0, &o);
	begin(l, 0);
	for (unsigned i = 0; i < FILES / 8; i++) {
		const struct shoal_batch *b = next(l);

		for (size_t k = 0; k < b->nr; k++)
			assert_int_equal(b->sample[k].len, size_of(b->sample[k].id));
		shoal_loader_give_back(l, b);
	}
	check_end(l);
	shoal_loader_close(l);

	o = (struct shoal_load_options){ .store = dir, .object_size = 5 };
	assert_int_equal(shoal_loader_open(whole, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "null store"));
}

/* ---- Batches are lent ---- */

static void batches_are_held_and_given_back_in_any_order(void **state)
{
	static const unsigned back[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };
	struct shoal_order_spec spec = spec_of(whole, 3);

	(void)state;
	for (size_t way = 0; way < ARRAY_LEN(back); way++) {
		struct shoal_loader *l =
			loader_of(whole, &spec, 0, &(struct shoal_load_options){ .prefetch = 2 });
		const struct shoal_batch *held[3];

		begin(l, 0);
		for (unsigned step = 0; step < 12; step += 3) {
			for (unsigned i = 0; i < 3; i++)
				held[i] = next(l);
			for (unsigned i = 0; i < 2; i++) /* which ends nothing */
				check_fails(l, -EBUSY, "all 3 batches are held");
			for (unsigned i = 0; i < 3; i++) {
				assert_int_equal(held[i]->step, step + i);
				check_batch(held[i], 0);
			}
			for (unsigned i = 0; i < 3; i++)
				shoal_loader_give_back(l, held[back[way][i]]);
		}
		shoal_loader_close(l);
	}
}

static void one_batch_held_for_long_does_not_stop_the_others(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 2);

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l =
			loader_in_way(w, 2, (struct shoal_load_options){ .prefetch = 1 });
		const struct shoal_batch *first;

		if (!l)
			continue;
		begin(l, 0);
		first = next(l);
		for (uint64_t step = 1; step < FILES / spec.batch; step++) {
			const struct shoal_batch *b = next(l);

			assert_int_equal(b->step, step);
			check_batch(b, 0);
			shoal_loader_give_back(l, b);
		}
		check_end(l);
		check_batch(first, 0);
		shoal_loader_give_back(l, first);
		shoal_loader_give_back(l, first); /* twice is once */
		shoal_loader_close(l);
	}
}

struct hand {
	struct shoal_loader *l;
	_Atomic(const struct shoal_batch *) batch;
	atomic_bool end;
};

static void *give_back_later(void *arg)
{
	struct hand *h = arg;

	while (!h->end) {
		const struct shoal_batch *b = atomic_exchange(&h->batch, NULL);

		if (b) {
			check_batch(b, 0);
			shoal_loader_give_back(h->l, b);
		}
	}
	return NULL;
}

static void another_thread_may_give_them_back(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 1);
	struct shoal_loader *l = loader_of(whole, &spec, 0, &(struct shoal_load_options){ 0 });
	struct hand h = { .l = l };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, give_back_later, &h), 0);
	for (uint64_t epoch = 0; epoch < 4; epoch++) {
		begin(l, epoch);
		for (unsigned i = 0; i < FILES; i++) {
			const struct shoal_batch *b = next(l);

			while (h.batch)
				sched_yield();
			h.batch = b;
		}
		check_end(l);
	}
	while (h.batch)
		sched_yield();
	h.end = true;
	pthread_join(thread, NULL);
	shoal_loader_close(l);
}

/* ---- Epochs ---- */

static void no_epoch_has_anything_of_another(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 7);
	uint64_t digests[3][2];

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_in_way(w, 7, (struct shoal_load_options){ 0 });
		struct shoal_load_stats s;

		for (uint64_t epoch = 0; l && epoch < 3; epoch++) {
			put_all(epoch);
			fault_arm(&preads, FAULT_PREAD, 1, FAULT_NEVER, 0);
			begin(l, epoch);
			check_epoch(l, &spec, 0, epoch, epoch);
			if (w->engine == SHOAL_ENGINE_THREADS) /* one call each, none too many */
				assert_int_equal(preads.nr, FILES);
			shoal_loader_stats(l, &s);
			assert_int_equal(s.nr_samples, FILES);
			memcpy(digests[epoch], s.sum_order, sizeof(s.sum_order));
		}
		shoal_loader_close(l);
		if (l) {
			assert_memory_not_equal(digests[0], digests[1], sizeof(digests[0]));
			assert_memory_not_equal(digests[1], digests[2], sizeof(digests[0]));
		}
	}
}

static void files_removed_between_epochs_are_missed(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 7);

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l =
			loader_in_way(w, 7, (struct shoal_load_options){ .skip_errors = true });
		struct shoal_load_stats s;

		if (!l)
			continue;
		begin(l, 0);
		check_epoch(l, &spec, 0, 0, 0);
		for (uint64_t i = 0; i < FILES; i++)
			unlink(path_of(i));
		begin(l, 1);
		for (unsigned step = 0; step < 6; step++)
			shoal_loader_give_back(l, next(l));
		check_end(l);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_errors, FILES);
		assert_int_equal(s.nr_samples, 0);
		put_all(0);
		begin(l, 2);
		check_epoch(l, &spec, 0, 2, 0);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_errors, 0);
		shoal_loader_close(l);
	}
}

static void an_epoch_may_be_left_while_batches_are_held(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 3);

	(void)state;
	FOR_ALL_WAYS(w)
	for (unsigned nr_held = 0; nr_held < 3; nr_held++) {
		struct shoal_loader *l =
			loader_in_way(w, 3, (struct shoal_load_options){ .prefetch = 2 });
		const struct shoal_batch *held[3];
		uint64_t ids[3][3];

		if (!l)
			continue;
		put_all(0);
		for (uint64_t epoch = 0; epoch < 20; epoch++) /* at once */
			begin(l, epoch);
		for (unsigned i = 0; i < nr_held; i++) {
			held[i] = next(l);
			for (unsigned k = 0; k < 3; k++)
				ids[i][k] = held[i]->sample[k].id;
		}
		begin(l, 20);
		check_batch(next(l), 0); /* not given back either, while there is room */
		if (nr_held == 2)
			check_fails(l, -EBUSY, "give some back");
		begin(l, 21);
		for (unsigned i = 0; i < nr_held; i++) {
			check_batch(held[i], 0); /* they are still what they were */
			for (unsigned k = 0; k < 3; k++)
				assert_int_equal(held[i]->sample[k].id, ids[i][k]);
			shoal_loader_give_back(l, held[i]);
		}
		put_all(1);
		begin(l, 22);
		check_epoch(l, &spec, 0, 22, 1);
		shoal_loader_close(l);
	}
}

static void the_first_epoch_goes_on_where_the_spec_says(void **state)
{
	static const uint64_t epochs[] = { 0, 5 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(epochs); i++) {
		struct shoal_order_spec spec = spec_of(whole, 4), fresh = spec;
		struct shoal_load_stats s;
		struct shoal_loader *l;

		spec.consumed = 17;
		l = loader_of(whole, &spec, 0, &(struct shoal_load_options){ 0 });
		begin(l, epochs[i]);
		check_epoch(l, &spec, 0, epochs[i], 0);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_samples, FILES - 17);
		begin(l, epochs[i]); /* the same again is from its start */
		check_epoch(l, &fresh, 0, epochs[i], 0);
		shoal_loader_close(l);
	}
}

static void without_an_epoch_there_is_nothing_to_take(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 4);
	struct shoal_loader *l = loader_of(whole, &spec, 0, &(struct shoal_load_options){ 0 });

	(void)state;
	check_fails(l, -EINVAL, "no epoch was begun");
	begin(l, 0);
	check_epoch(l, &spec, 0, 0, 0);
	shoal_loader_close(l);
	assert_null(shoal_loader_close(NULL));
}

static void a_catalog_of_nothing_has_no_order(void **state)
{
	struct shoal_catalog *cat = make_catalog(0, true, 1);
	struct shoal_order_spec spec = spec_of(cat, 4);
	struct shoal_load_options o = { .store = dir };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_loader_open(cat, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "no samples"));
	shoal_catalog_close(cat);
}

/* ---- What cannot be read ---- */

static void vanish(uint64_t i)
{
	assert_int_equal(unlink(path_of(i)), 0);
}

static void shrink(uint64_t i)
{
	put(i, size_of(i) - 1, 0);
}

static void shrink_to_nothing(uint64_t i)
{
	put(i, 0, 0);
}

static void grow(uint64_t i)
{
	put(i, size_of(i) + 1, 0);
}

static void become_a_directory(uint64_t i)
{
	vanish(i);
	assert_int_equal(mkdir(path_of(i), 0777), 0);
}

static void become_a_loop(uint64_t i)
{
	vanish(i);
	assert_int_equal(symlink(strrchr(path_of(i), '/') + 1, path_of(i)), 0);
}

static const struct trouble {
	void (*make)(uint64_t i);
	int rc;
	const char *words;
} troubles[] = {
	{ vanish, -ENOENT, "does not exist" },
	{ shrink, -ENODATA, "has only" },
	{ shrink_to_nothing, -ENODATA, "has only 0 of the" },
	{ grow, -EFBIG, "is larger than the" },
	{ become_a_directory, -EISDIR, "is a directory" },
	{ become_a_loop, -ELOOP, "symbolic links" },
};

static void the_first_error_in_the_order_ends_the_epoch(void **state)
{
	/* Of several sizes, and the one with the long name. */
	static const uint64_t files[] = { 1, 3, 4, 7, 39 };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t t = 0; t < ARRAY_LEN(troubles); t++)
		for (size_t k = 0; k < ARRAY_LEN(files); k++) {
			struct shoal_loader *l =
				loader_in_way(w, 4, (struct shoal_load_options){ 0 });
			struct shoal_order_spec spec = spec_of(whole, 4);
			struct shoal_order *order = NULL;
			struct shoal_load_stats s;
			uint64_t at;
			char sample[32];

			if (!l)
				continue;
			assert_int_equal(shoal_order_new(&spec, 0, &order, NULL), 0);
			assert_int_equal(shoal_order_position(order, files[k], &at), 0);
			shoal_order_free(order);
			troubles[t].make(files[k]);
			begin(l, 0);
			for (uint64_t step = 0; step < at / 4;
			     step++) { /* what is before it comes */
				const struct shoal_batch *b = next(l);

				check_batch(b, 0);
				shoal_loader_give_back(l, b);
			}
			snprintf(sample, sizeof(sample), "sample %" PRIu64 ": ", files[k]);
			check_fails(l, troubles[t].rc, troubles[t].words);
			check_fails(l, troubles[t].rc, sample); /* and it stays so */
			shoal_loader_stats(l, &s);
			assert_int_equal(s.nr_errors, 1);
			assert_non_null(strstr(s.first_errors[0], troubles[t].words));
			restore_one(files[k]);
			begin(l, 1);
			check_epoch(l, &spec, 0, 1, 0);
			shoal_loader_close(l);
		}
}

static void errors_that_are_skipped_are_counted_and_named(void **state)
{
	FOR_ALL_WAYS(w)
	{
		struct shoal_load_options o = { .skip_errors = true };
		struct shoal_loader *l = loader_in_way(w, 7, o);
		uint64_t lost = 0, nr = 0;
		struct shoal_load_stats s;
		unsigned bad = 0;

		if (!l)
			continue;
		for (size_t t = 0; t < ARRAY_LEN(troubles); t++)
			for (uint64_t file = t * 6 + 1; file < t * 6 + 4; file++)
				if (size_of(file) > 0) {
					troubles[t].make(file);
					lost += size_of(file);
					bad++;
				}
		begin(l, 0);
		for (unsigned step = 0; step < 6; step++) {
			const struct shoal_batch *b = next(l);

			for (size_t i = 0; i < b->nr; i++, nr++) {
				const struct shoal_sample *e = &b->sample[i];
				uint64_t t = e->id / 6, part = e->id % 6;
				bool broken = t < ARRAY_LEN(troubles) && part >= 1 && part < 4 &&
					      size_of(e->id) > 0;

				assert_int_equal(e->error, broken ? troubles[t].rc : 0);
				if (!broken)
					check_bytes(e, e->id, 0, size_of(e->id));
				else
					assert_true(!e->data && e->len == 0);
			}
			shoal_loader_give_back(l, b);
		}
		check_end(l);
		assert_int_equal(nr, FILES);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_errors, bad);
		assert_true(bad > 10);
		assert_int_equal(s.nr_samples, FILES - bad);
		assert_int_equal(s.bytes_asked, total_bytes());
		assert_int_equal(s.bytes_delivered, total_bytes() - lost);
		for (unsigned i = 0; i < 10; i++)
			assert_ptr_equal(strstr(s.first_errors[i], "sample "), s.first_errors[i]);
		shoal_loader_close(l);
		restore(state);
	}
}

static void errors_of_batches_that_nobody_takes_do_not_count(void **state)
{
	struct shoal_order_spec spec = { .nr_samples = FILES, .nr_ranks = 1, .batch = 4 };

	(void)state;
	vanish(5); /* in the second step */
	for (unsigned skip = 0; skip < 2; skip++) {
		struct shoal_load_options o = { .skip_errors = skip, .prefetch = 3 };
		struct shoal_loader *l = loader_of(whole, &spec, 0, &o);
		struct shoal_load_stats s;

		begin(l, 0);
		wait_until_others_sleep(); /* all of the prefetch was read */
		check_batch(next(l), 0);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.nr_errors, 0);
		assert_int_equal(s.nr_samples, 4);
		shoal_loader_close(l);
	}
}

static void options_that_make_no_sense_are_refused(void **state)
{
	struct shoal_order_spec good = spec_of(whole, 4), s = good;
	struct shoal_load_options o = { .store = dir };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	(void)state;
	s.nr_samples = FILES - 1;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "order has 39 samples"));
	s = good;
	assert_int_equal(shoal_loader_open(whole, &s, 1, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "no rank 1 of 1"));
	s.batch = UINT64_C(1) << 33;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -EINVAL);
	s = good;
	o.prefetch = UINT_MAX;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -EINVAL);
	o.prefetch = 0;
	o.in_flight = 8193;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -EINVAL);
	o.in_flight = 0;
	o.engine = (enum shoal_engine)7;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -EINVAL);
	o.engine = SHOAL_ENGINE_URING;
	o.store = "null:size=5";
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -ENOTSUP);
	o.engine = SHOAL_ENGINE_AUTO;
	o.store = "/is/not/there";
	assert_true(shoal_loader_open(whole, &s, 0, &o, &l, &err) < 0);
	assert_non_null(strstr(err.msg, "/is/not/there"));
	o.store = dir;
	o.slot = UINT64_MAX / 2;
	assert_int_equal(shoal_loader_open(whole, &s, 0, &o, &l, &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "lower the batch"));
	assert_null(l);
}

/* ---- Stopping and stalling ---- */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *raise_flag(void *arg)
{
	wait_until_others_sleep();
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void a_stop_ends_waiting(void **state)
{
	struct shoal_order_spec spec = spec_of(sizeless, 4);
	int stop = 0;
	struct shoal_load_options o = { .store = "null:size=10,delay_us=3000000",
					.slot = 10,
					.stop = &stop };
	struct shoal_loader *l = loader_of(sizeless, &spec, 0, &o);
	double start = seconds();
	pthread_t thread;

	(void)state;
	begin(l, 0);
	assert_int_equal(pthread_create(&thread, NULL, raise_flag, &stop), 0);
	check_fails(l, -ECANCELED, "interrupted");
	assert_true(seconds() - start < 2.8);
	assert_int_equal(shoal_loader_epoch(l, 1, NULL),
			 -ECANCELED); /* nor for what is in flight */
	assert_true(seconds() - start < 2.8);
	pthread_join(thread, NULL);
	check_fails(l, -EINVAL, "no epoch was begun");
	shoal_loader_close(l); /* waits for the reads */
}

/* Called while others wait: it says no at the third time. */
static int say_no(void *self, struct shoal_err *err)
{
	return ++*(int *)self < 3 ? 0 : err_set(err, -EREMOTEIO, "another rank failed");
}

static void who_waits_hears_other_news(void **state)
{
	struct shoal_order_spec spec = spec_of(sizeless, 4);
	int asked = 0;
	struct shoal_load_options o = { .store = "null:size=10,delay_us=3000000",
					.slot = 10,
					.waiting = say_no,
					.self = &asked };
	struct shoal_loader *l = loader_of(sizeless, &spec, 0, &o);
	double start = seconds();

	(void)state;
	begin(l, 0);
	check_fails(l, -EREMOTEIO, "another rank failed");
	assert_int_equal(asked, 3);
	assert_true(seconds() - start < 2.8);
	asked = -1000; /* and nothing has ended by that */
	shoal_loader_give_back(l, next(l));
	shoal_loader_close(l);
}

static void a_stop_is_seen_while_batches_are_ready(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 4);
	int stop = 0;
	struct shoal_load_options o = { .stop = &stop };
	struct shoal_loader *l = loader_of(whole, &spec, 0, &o);

	(void)state;
	begin(l, 0);
	shoal_loader_give_back(l, next(l));
	wait_until_others_sleep(); /* batches are ready */
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	check_fails(l, -ECANCELED, "interrupted");
	shoal_loader_close(l);
}

struct told {
	atomic_uint nr;
	char words[300];
};

static void take_words(void *self, const char *words)
{
	struct told *t = self;

	snprintf(t->words, sizeof(t->words), "%s", words);
	t->nr++;
}

static void samples_that_take_long_are_told_of(void **state)
{
	struct shoal_order_spec spec = { .nr_samples = FILES, .nr_ranks = 1, .batch = 4 };
	struct told told = { .nr = 0 };
	struct shoal_load_options o = { .store = "null:size=10,delay_us=350000",
					.slot = 10,
					.stall_ms = 100,
					.prefetch = 1,
					.stalled = take_words,
					.self = &told };
	struct shoal_loader *l = loader_of(sizeless, &spec, 0, &o);
	unsigned before;

	(void)state;
	begin(l, 0);
	shoal_loader_give_back(l, next(l));
	assert_in_range(told.nr, 1, 4); /* not for each sample, and not for ever */
	assert_non_null(strstr(told.words, "8 samples are in flight for longer than 0.1 s"));
	assert_non_null(strstr(told.words, "'d/000'"));
	shoal_loader_give_back(l, next(l));
	before = told.nr;
	shoal_loader_give_back(l, next(l)); /* slots that were used before stall as well */
	assert_true(told.nr > before);
	shoal_loader_close(l);
}

static void a_time_out_ends_the_epoch(void **state)
{
	static const uint64_t stalls[] = { 50, 0 }; /* before it, and long after */

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stalls); i++) {
		struct shoal_order_spec spec = spec_of(sizeless, 4);
		struct shoal_load_options o = { .store = "null:size=10,delay_us=3000000",
						.slot = 10,
						.skip_errors = true,
						.timeout_ms = 100,
						.stall_ms = stalls[i] };
		struct shoal_loader *l = loader_of(sizeless, &spec, 0, &o);
		double start = seconds();
		struct shoal_err err = { "" };

		begin(l, 0);
		check_fails(l, -ETIMEDOUT, "in flight for longer than");
		assert_true(seconds() - start < 2.8);
		/* The next cannot begin before the reads have ended, and does not wait for them. */
		start = seconds();
		assert_int_equal(shoal_loader_epoch(l, 1, &err), -ETIMEDOUT);
		assert_non_null(strstr(err.msg, "in flight for longer than"));
		assert_true(seconds() - start < 1);
		while (seconds() - start < 20 && shoal_loader_epoch(l, 1, &err) < 0)
			;
		assert_true(seconds() - start < 20);
		check_fails(l, -ETIMEDOUT, "in flight for longer than");
		shoal_loader_close(l);
	}
}

/* The first sample of an epoch that is begun after another was asked for and interrupted, or not.
 */
static uint64_t first_after(bool interrupted)
{
	struct shoal_order_spec spec = spec_of(whole, 4);
	int stop = interrupted;
	struct shoal_load_options o = { .stop = &stop };
	struct shoal_loader *l = loader_of(whole, &spec, 0, &o);
	struct shoal_err err = { "" };
	uint64_t id;

	if (interrupted)
		assert_int_equal(shoal_loader_epoch(l, 0, &err), -ECANCELED);
	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	begin(l, 5);
	id = next(l)->sample[0].id;
	shoal_loader_close(l);
	return id;
}

static void an_epoch_after_an_interrupted_one_has_its_own_order(void **state)
{
	uint64_t want = first_after(false);

	(void)state;
	for (unsigned i = 0; i < 30; i++) /* the thread may be faster now and then */
		assert_int_equal(first_after(true), want);
}

static void a_loader_is_closed_with_reads_in_flight(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	for (unsigned i = 0; i < 30; i++) {
		struct shoal_loader *l =
			loader_in_way(w, 10, (struct shoal_load_options){ .in_flight = 16 });

		if (!l)
			continue;
		if (i > 0)
			begin(l, i);
		if (i % 3 == 2)
			next(l);
		shoal_loader_close(l);
	}
}

/* ---- The proof ---- */

static void add_sums(struct load_sums *sum, const struct load_sums *s)
{
	sum->nr += s->nr;
	for (unsigned i = 0; i < 2; i++) {
		sum->ids[i] += s->ids[i];
		sum->order[i] += s->order[i];
	}
}

/* What @ranks loaders deliver in @steps steps from a null store, and what they should. */
static void load_with_ranks(const struct shoal_order_spec *spec, uint64_t steps,
			    struct load_sums *got, struct load_sums *want)
{
	struct shoal_load_options o = { .store = "null:size=1", .object_size = 1, .in_flight = 2 };

	*got = *want = (struct load_sums){ 0 };
	for (uint64_t rank = 0; rank < spec->nr_ranks; rank++) {
		struct shoal_loader *l = loader_of(whole, spec, rank, &o);
		const struct shoal_batch *b;
		struct shoal_load_stats s;
		struct load_sums part;
		uint64_t taken = 0;

		begin(l, 2);
		while (taken < steps && shoal_loader_next(l, &b, NULL) == 1) {
			shoal_loader_give_back(l, b);
			taken++;
		}
		shoal_loader_stats(l, &s);
		part = (struct load_sums){ .nr = s.nr_samples,
					   .ids = { s.sum_ids[0], s.sum_ids[1] },
					   .order = { s.sum_order[0], s.sum_order[1] } };
		add_sums(got, &part);
		assert_int_equal(load_sums_expect(load_order(l), taken, rank, &part, NULL), 0);
		add_sums(want, &part);
		shoal_loader_close(l);
	}
}

static void the_sums_of_all_ranks_prove_an_epoch(void **state)
{
	static const enum shoal_mode modes[] = { SHOAL_SEQUENTIAL, SHOAL_GLOBAL, SHOAL_FILES,
						 SHOAL_WINDOW, SHOAL_LOCAL };
	static const uint64_t ranks[] = { 1, 2, 3, 5 }, batches[] = { 1, 3, 8, 50 };
	static const uint64_t steps[] = { UINT64_MAX, 0, 1, 2 };

	(void)state;
	for (unsigned c = 0; c < 5 * 3 * 4 * 4 * 4; c++) {
		enum shoal_remainder remainder = (enum shoal_remainder)(c / 5 % 3);
		struct shoal_order_spec spec = { .mode = modes[c % 5],
						 .remainder = remainder,
						 .nr_samples = FILES,
						 .unit = 3,
						 .window = 4,
						 .nr_ranks = ranks[c / 15 % 4],
						 .batch = batches[c / 60 % 4] };
		uint64_t left = steps[c / 240], per_step = spec.nr_ranks * spec.batch;
		uint64_t whole_steps = remainder == SHOAL_DROP ? FILES / per_step
							       : (FILES + per_step - 1) / per_step;
		struct load_sums got, want;

		load_with_ranks(&spec, left, &got, &want);
		assert_int_equal(got.nr, want.nr);
		assert_memory_equal(got.ids, want.ids, sizeof(got.ids));
		left = u64_min(left, whole_steps) * per_step;
		if (remainder != SHOAL_PAD && left > FILES)
			left = FILES;
		if (spec.mode != SHOAL_LOCAL || FILES % spec.nr_ranks == 0)
			assert_int_equal(got.nr, left);
	}
}

static void epochs_that_were_begun_before_are_proven_from_there(void **state)
{
	static const uint64_t consumed[] = { 5, 30, 35, 40 };

	(void)state;
	for (unsigned c = 0; c < 4 * 5 * 3; c++) {
		struct shoal_order_spec spec = spec_of(whole, 3);
		struct load_sums got, want;

		spec.consumed = consumed[c % 4];
		spec.mode = (enum shoal_mode)(c / 4 % 5);
		spec.remainder = (enum shoal_remainder)(c / 20);
		spec.nr_ranks = 5;
		load_with_ranks(&spec, UINT64_MAX, &got, &want);
		assert_int_equal(got.nr, want.nr);
		assert_memory_equal(got.ids, want.ids, sizeof(got.ids));
	}
}

static void the_digest_of_the_order_does_not_depend_on_ranks_or_batch(void **state)
{
	static const uint64_t ranks[] = { 1, 2, 3, 5 }, batches[] = { 1, 3, 8, 50 };

	(void)state;
	for (unsigned mode = SHOAL_SEQUENTIAL; mode < SHOAL_LOCAL; mode++) {
		struct load_sums first = { 0 }, got, want;

		for (unsigned c = 0; c < 16; c++) {
			struct shoal_order_spec spec = { .mode = (enum shoal_mode)mode,
							 .remainder = SHOAL_KEEP,
							 .nr_samples = FILES,
							 .unit = 3,
							 .window = 4,
							 .nr_ranks = ranks[c % 4],
							 .batch = batches[c / 4] };

			load_with_ranks(&spec, UINT64_MAX, &got, &want);
			first = c == 0 ? got : first;
			assert_memory_equal(got.order, first.order, sizeof(got.order));
		}
	}
}

static void what_is_wrong_missing_or_twice_is_noticed(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 4);
	struct shoal_order *order = NULL;
	struct load_sums want;
	uint64_t ids[FILES];

	(void)state;
	assert_int_equal(shoal_order_new(&spec, 0, &order, NULL), 0);
	assert_int_equal(load_sums_expect(order, shoal_order_steps(order), 0, &want, NULL), 0);
	for (uint64_t i = 0; i < FILES; i++)
		ids[i] = i;
	assert_int_equal(shoal_order_at(order, ids, FILES, ids), 0);
	/* The one at @bad is right, missing, the one before (so one twice), past the end, all. */
	for (unsigned bad = 1; bad < FILES; bad++)
		for (unsigned kind = 0; kind < 5; kind++) {
			struct load_sums s = { 0 };

			for (uint64_t i = 0; i < FILES; i++) {
				uint64_t id = ids[i];

				if (i == bad && kind == 1)
					continue;
				if (i == bad && kind == 2)
					id = ids[i - 1];
				if (i == bad && kind == 3)
					id = FILES;
				load_sums_add(&s, id, i);
				if (i == bad && kind == 4)
					load_sums_add(&s, id, i);
			}
			for (unsigned h = 0; h < 2; h++) /* each sum by itself */
				assert_int_equal(s.ids[h] == want.ids[h], kind == 0);
			assert_int_equal(s.nr == want.nr, kind != 1 && kind != 4);
		}
	shoal_order_free(order);
}

static void two_samples_that_change_places_change_the_digest(void **state)
{
	struct load_sums a = { 0 }, b = { 0 };

	(void)state;
	load_sums_add(&a, 7, 0);
	load_sums_add(&a, 8, 1);
	load_sums_add(&b, 8, 0);
	load_sums_add(&b, 7, 1);
	assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
	for (unsigned i = 0; i < 2; i++)
		assert_int_not_equal(a.order[i], b.order[i]);
}

/* ---- How long it took ---- */

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void percentiles_are_those_of_a_sorted_array(void **state)
{
	static const uint64_t numbers[] = { 1, 2, 3, 10, 100, 999, 1000 };
	static const struct {
		double share;
		uint64_t of, from; /* the same as a fraction */
	} shares[] = { { 0, 0, 1 },       { 0.5, 1, 2 },        { 0.9, 9, 10 },
		       { 0.99, 99, 100 }, { 0.999, 999, 1000 }, { 1, 1, 1 } };
	uint64_t v[1000];

	(void)state;
	for (unsigned c = 0; c < 7 * 64; c++) {
		struct histogram *h = allocate(1, sizeof(*h));
		uint64_t nr = numbers[c % 7];

		for (uint64_t i = 0; i < nr; i++) {
			v[i] = random_u64() >> (c / 7);
			histogram_add(h, v[i]);
		}
		qsort(v, nr, sizeof(*v), compare_numbers);
		for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
			uint64_t rank = (nr * shares[i].of + shares[i].from - 1) / shares[i].from;
			uint64_t want = v[rank > 0 ? rank - 1 : 0];
			uint64_t got = histogram_at(h, shares[i].share);
			uint64_t off = got > want ? got - want : want - got;

			if (off > want / 32)
				fail_msg("%g of %" PRIu64 ": %" PRIu64 " is not %" PRIu64,
					 shares[i].share, nr, got, want);
		}
		free(h);
	}
}

static void a_histogram_of_nothing_gives_0(void **state)
{
	struct histogram *h = allocate(1, sizeof(*h));

	(void)state;
	assert_int_equal(histogram_at(h, 0.5), 0);
	histogram_add(h, UINT64_MAX);
	assert_true(histogram_at(h, 1) > UINT64_MAX / 32 * 31);
	free(h);
}

static void every_sample_of_an_epoch_has_a_latency(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 4);
	struct shoal_loader *l = loader_of(whole, &spec, 0, &(struct shoal_load_options){ 0 });

	(void)state;
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		struct histogram *h = allocate(1, sizeof(*h));
		struct shoal_load_stats s;
		uint64_t nr = 0;

		begin(l, epoch);
		check_epoch(l, &spec, 0, epoch, 0);
		load_latency(l, h);
		for (unsigned i = 0; i < HISTOGRAM_PLACES; i++)
			nr += h->count[i];
		assert_int_equal(nr, FILES);
		free(h);
		shoal_loader_stats(l, &s);
		assert_int_equal(s.latency.nr, FILES);
		assert_int_equal(s.open.nr, FILES);
		assert_int_equal(s.read.nr, FILES);
		assert_true(s.open.p50 > 0 && s.open.p50 <= s.open.p999);
		assert_true(s.open.max <= s.latency.max && s.read.p50 <= s.latency.p50);
	}
	shoal_loader_close(l);
}

/* ---- Loaders that share a rank ---- */

static void loaders_that_share_a_rank_take_every_nth_step(void **state)
{
	static const enum shoal_remainder remainders[] = { SHOAL_DROP, SHOAL_PAD, SHOAL_KEEP };
	static const enum shoal_mode modes[] = { SHOAL_GLOBAL, SHOAL_LOCAL };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(remainders) * ARRAY_LEN(modes) * 9; i++) {
		struct shoal_order_spec spec = spec_of(whole, 3);
		struct shoal_load_options o = { .first_step = i / 6 % 3, .stride = i / 18 + 1 };
		struct shoal_loader *l;
		struct shoal_order *order = NULL;
		uint64_t ids[3];

		spec.nr_ranks = 3;
		spec.remainder = remainders[i % 3];
		spec.mode = modes[i / 3 % 2];
		l = loader_of(whole, &spec, 1, &o);
		assert_int_equal(shoal_order_new(&spec, 2, &order, NULL), 0);
		begin(l, 2);
		for (uint64_t s = o.first_step; s < shoal_order_steps(order); s += o.stride) {
			const struct shoal_batch *b = next(l);

			assert_int_equal(b->step, s);
			assert_int_equal(b->nr, shoal_order_batch(order, s, 1, ids));
			for (size_t k = 0; k < b->nr; k++)
				assert_int_equal(b->sample[k].id, ids[k]);
			check_batch(b, 0);
			shoal_loader_give_back(l, b);
		}
		check_end(l);
		shoal_order_free(order);
		shoal_loader_close(l);
	}
}

static void who_comes_after_the_last_step_has_nothing_to_do(void **state)
{
	struct shoal_order_spec spec = spec_of(whole, 10);
	struct shoal_load_options o = { .first_step = 4, .stride = 100 };
	struct shoal_loader *l = loader_of(whole, &spec, 0, &o);

	(void)state;
	begin(l, 0);
	check_end(l);
	shoal_loader_close(l);
	o.first_step = 3;
	l = loader_of(whole, &spec, 0, &o);
	begin(l, 0);
	assert_int_equal(next(l)->step, 3);
	check_end(l);
	shoal_loader_close(l);
}

#define TEST(f) cmocka_unit_test_teardown(f, restore)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_sample_comes_whole_and_in_order),
		TEST(samples_of_one_file_are_its_records),
		TEST(catalogs_without_sizes_need_a_slot),
		TEST(what_is_larger_than_its_slot_is_an_error_of_the_sample),
		TEST(samples_larger_than_a_slot_come_in_pieces),
		TEST(records_come_in_pieces_too),
		TEST(a_piece_that_is_missing_spoils_its_sample),
		TEST(pieces_of_an_epoch_are_of_files_opened_in_it),
		TEST(an_epoch_that_failed_leaves_no_file_open),
		TEST(large_files_are_opened_now_and_then),
		TEST(pieces_need_sizes),
		TEST(a_null_store_makes_samples_up),
		TEST(batches_are_held_and_given_back_in_any_order),
		TEST(one_batch_held_for_long_does_not_stop_the_others),
		TEST(another_thread_may_give_them_back),
		TEST(no_epoch_has_anything_of_another),
		TEST(files_removed_between_epochs_are_missed),
		TEST(an_epoch_may_be_left_while_batches_are_held),
		TEST(the_first_epoch_goes_on_where_the_spec_says),
		TEST(without_an_epoch_there_is_nothing_to_take),
		TEST(a_catalog_of_nothing_has_no_order),
		TEST(the_first_error_in_the_order_ends_the_epoch),
		TEST(errors_that_are_skipped_are_counted_and_named),
		TEST(errors_of_batches_that_nobody_takes_do_not_count),
		TEST(options_that_make_no_sense_are_refused),
		TEST(a_stop_ends_waiting),
		TEST(who_waits_hears_other_news),
		TEST(a_stop_is_seen_while_batches_are_ready),
		TEST(samples_that_take_long_are_told_of),
		TEST(a_time_out_ends_the_epoch),
		TEST(an_epoch_after_an_interrupted_one_has_its_own_order),
		TEST(a_loader_is_closed_with_reads_in_flight),
		TEST(the_sums_of_all_ranks_prove_an_epoch),
		TEST(epochs_that_were_begun_before_are_proven_from_there),
		TEST(the_digest_of_the_order_does_not_depend_on_ranks_or_batch),
		TEST(what_is_wrong_missing_or_twice_is_noticed),
		TEST(two_samples_that_change_places_change_the_digest),
		TEST(percentiles_are_those_of_a_sorted_array),
		TEST(a_histogram_of_nothing_gives_0),
		TEST(every_sample_of_an_epoch_has_a_latency),
		TEST(loaders_that_share_a_rank_take_every_nth_step),
		TEST(who_comes_after_the_last_step_has_nothing_to_do),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
