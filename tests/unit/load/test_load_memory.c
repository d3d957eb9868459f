/*
 * Goal: a loader's memory follows the bytes of the batches in flight, not the largest sample; a
 * limit is kept; no limit that holds one batch makes it wait for ever; and what a large batch took
 * goes back to the system.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "help.h"
#include "load/loader.h"
#include "load/loader_private.h"

static char dir[] = "load-memory-XXXXXX";

static uint64_t draw(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

/* ---- The pool alone ---- */

#define ROOMS 6u
#define SLOTS 20u

struct game {
	struct load_pool pool;
	struct load_slot slot[ROOMS][SLOTS];
	struct load_room room[ROOMS];
	uint64_t need[ROOMS];
	size_t nr[ROOMS];
	bool taken[ROOMS];
};

/* Every buffer is the slot's alone: nobody wrote over what its owner put at both ends. */
static void check_marks(const struct game *g, uint32_t k)
{
	for (size_t i = 0; i < g->nr[k]; i++) {
		const struct load_request *r = &g->slot[k][i].request;

		if (r->cap == 0)
			continue;
		assert_int_equal((uintptr_t)r->buf % LOAD_ALIGN, 0);
		assert_int_equal(r->buf[0], 10 * k + i % 10);
		assert_int_equal(r->buf[r->cap - 1], 10 * k + i % 10);
	}
}

static void put_marks(struct game *g, uint32_t k)
{
	for (size_t i = 0; i < g->nr[k]; i++) {
		struct load_request *r = &g->slot[k][i].request;

		if (r->cap > 0)
			r->buf[0] = r->buf[r->cap - 1] = (uint8_t)(10 * k + i % 10);
	}
}

static void draw_batch(struct game *g, uint32_t k, uint64_t *seed)
{
	g->nr[k] = draw(seed) % (SLOTS + 1);
	g->need[k] = 0;
	for (size_t i = 0; i < g->nr[k]; i++) {
		uint64_t pages = draw(seed) % 8 ? draw(seed) % 4 : draw(seed) % 200;

		g->slot[k][i].request.cap = pages * LOAD_ALIGN;
		g->need[k] += pages * LOAD_ALIGN;
	}
}

static void play(struct game *g, uint64_t *seed)
{
	for (unsigned turn = 0; turn < 1500; turn++) {
		uint32_t k = (uint32_t)(draw(seed) % ROOMS);
		int rc;

		if (g->taken[k]) {
			check_marks(g, k);
			load_pool_give(&g->pool, &g->room[k]);
			g->taken[k] = false;
			continue;
		}
		draw_batch(g, k, seed);
		rc = load_pool_take(&g->pool, g->slot[k], g->nr[k], g->need[k], false, &g->room[k]);
		if (rc < 0) {
			assert_int_equal(rc, -EAGAIN);
			assert_true(g->pool.is.limited);
			assert_true(g->pool.nr_rooms > 0 || g->need[k] > g->pool.is.len);
			continue;
		}
		g->taken[k] = true;
		put_marks(g, k);
		assert_true(g->pool.now >= g->pool.is.kept && g->pool.now <= g->pool.peak);
		assert_true(!g->pool.is.limited || g->pool.peak <= g->pool.is.len);
	}
}

static void buffers_never_overlap_and_all_come_back(void **state)
{
	static const struct load_pool_options row[] = {
		{ .len = 64 * LOAD_ALIGN, .kept = 64 * LOAD_ALIGN },
		{ .len = 64 * LOAD_ALIGN, .kept = 64 * LOAD_ALIGN, .lane = 16 * LOAD_ALIGN },
		{ .len = 2000 * LOAD_ALIGN, .kept = 64 * LOAD_ALIGN },
		{ .len = 2000 * LOAD_ALIGN, .kept = 1024 * LOAD_ALIGN, .limited = true },
		{ .len = 100 * LOAD_ALIGN, .kept = 100 * LOAD_ALIGN, .limited = true },
		{ .len = 100 * LOAD_ALIGN, .kept = 100 * LOAD_ALIGN, .lane = 77, .limited = true },
	};
	uint64_t seed = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct game *g = allocate(1, sizeof(*g));
		struct load_pool_options o = row[i];

		o.nr_batches = ROOMS;
		memset(g, 0, sizeof(*g));
		assert_int_equal(load_pool_init(&g->pool, &o, NULL), 0);
		play(g, &seed);
		for (uint32_t k = 0; k < ROOMS; k++)
			load_pool_give(&g->pool, &g->room[k]);
		assert_int_equal(g->pool.nr_rooms, 0);
		assert_int_equal(g->pool.now, o.kept);
		assert_int_equal(g->pool.nr_gaps, 1);
		assert_int_equal(g->pool.gap[0].off, 0);
		assert_int_equal(g->pool.gap[0].len, o.len);
		load_pool_release(&g->pool);
		free(g);
	}
}

/* ---- Files ---- */

static uint8_t byte_at(uint64_t i, uint64_t off)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 77777;

	return (uint8_t)(x >> 32 ^ x >> 48);
}

/* Names and sizes; where @files is said the files too, in a directory of that name. */
static struct shoal_catalog *make_set(const char *files, uint64_t (*size_of)(uint64_t), uint64_t nr)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	char name[100], path[200];

	for (uint64_t i = 0; i < nr; i++) {
		uint8_t *bytes = files ? allocate(size_of(i) + 1, 1) : NULL;

		snprintf(name, sizeof(name), "%s/%06" PRIu64, files ? files : "x", i);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		for (uint64_t k = 0; files && k < size_of(i); k++)
			bytes[k] = byte_at(i, k);
		if (files)
			file_write(path, bytes, size_of(i));
		free(bytes);
		list_add(&l, name, strlen(name), size_of(i), 1);
	}
	cat = catalog_of(&l, true, 1);
	list_release(&l);
	return cat;
}

static uint64_t outlier_size(uint64_t i)
{
	return i == 300 ? 15300000 : 1000;
}

/* Small ones, and from 100 on large ones. */
static uint64_t mixed_size(uint64_t i)
{
	static const uint64_t sizes[] = { 0, 1, 4095, 4096, 4097, 100, 20000, 9000 };

	return i < 100 ? sizes[i % ARRAY_LEN(sizes)] : 150000 + i * 1000;
}

#define OUTLIERS 601u
#define MIXED    120u
#define LARGE    20u

/* With log-normal sizes: names only. */
#define LOGNORMAL 600u

static struct shoal_catalog *outliers, *mixed;

static int make_files(void **state)
{
	char path[200];

	if (!mkdtemp(dir) || test_dir_make(state) < 0)
		return -1;
	for (const char *const *sub = (const char *const[]){ "out", "mixed", NULL }; *sub; sub++) {
		snprintf(path, sizeof(path), "%s/%s", dir, *sub);
		if (mkdir(path, 0777) < 0)
			return -1;
	}
	outliers = make_set("out", outlier_size, OUTLIERS);
	mixed = make_set("mixed", mixed_size, MIXED);
	return 0;
}

static int remove_files(void **state)
{
	char command[100];

	outliers = shoal_catalog_close(outliers);
	mixed = shoal_catalog_close(mixed);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command) == 0 ? test_dir_remove(state) : -1;
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

/* NULL where the machine does not have the way. */
static struct shoal_loader *loader_of(const struct shoal_catalog *cat, const struct way *w,
				      uint64_t batch, struct shoal_load_options o)
{
	struct shoal_catalog_info info;
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };
	struct shoal_order_spec spec = {
		.remainder = SHOAL_KEEP, .nr_ranks = 1, .batch = batch, .mode = SHOAL_SEQUENTIAL
	};
	int rc;

	shoal_catalog_info(cat, &info);
	spec.nr_samples = o.part ? info.nr_samples - o.first : info.nr_samples;
	o.store = o.store ? o.store : dir;
	o.engine = w ? w->engine : SHOAL_ENGINE_AUTO;
	o.direct = w && w->direct;
	rc = shoal_loader_open(cat, &spec, 0, &o, &l, &err);
	if (rc == -ENOTSUP)
		print_message("not tested here: %s\n", err.msg);
	else if (rc < 0)
		fail_msg("%s", err.msg);
	return l;
}

static void begin(struct shoal_loader *l, uint64_t epoch)
{
	struct shoal_err err = { "" };

	if (shoal_loader_epoch(l, epoch, &err) < 0)
		fail_msg("%s", err.msg);
}

static void check_batch(const struct shoal_batch *b)
{
	for (size_t i = 0; i < b->nr; i++) {
		const struct shoal_sample *s = &b->sample[i];
		const uint8_t *data = s->data;

		assert_int_equal(s->error, 0);
		/* Of large ones some bytes of each page, and the last. */
		for (uint64_t k = 0; k<s->len; k += s->len - k> 40000 ? 997 : 1)
			if (data[k] != byte_at(s->id, s->off + k))
				fail_msg("sample %" PRIu64 ": byte %" PRIu64 " is wrong", s->id, k);
	}
}

/* The rest of the epoch, each batch given back before the next is taken. How many samples. */
static uint64_t read_on(struct shoal_loader *l, bool real)
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };
	uint64_t nr = 0;
	int rc;

	while ((rc = shoal_loader_next(l, &b, &err)) == 1) {
		if (real)
			check_batch(b);
		nr += b->nr;
		shoal_loader_give_back(l, b);
	}
	if (rc < 0)
		fail_msg("%s", err.msg);
	return nr;
}

static const struct shoal_batch *next(struct shoal_loader *l)
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };

	if (shoal_loader_next(l, &b, &err) != 1)
		fail_msg("no batch: %s", err.msg);
	return b;
}

static void check_fails(struct shoal_loader *l, int rc, const char *words)
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_loader_next(l, &b, &err), rc);
	if (!strstr(err.msg, words))
		fail_msg("'%s' is not in: %s", words, err.msg);
}

static struct shoal_load_stats stats_of(const struct shoal_loader *l)
{
	struct shoal_load_stats s;

	shoal_loader_stats(l, &s);
	return s;
}

/* The thread frees memory soon after a batch was given back. */
static void wait_for_now(const struct shoal_loader *l, uint64_t most)
{
	for (unsigned i = 0; i < 5000 && stats_of(l).pool_now > most; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	if (stats_of(l).pool_now > most)
		fail_msg("%" PRIu64 " bytes are in use still", stats_of(l).pool_now);
}

/* Of /proc/self/status, in bytes. */
static uint64_t memory_of_process(const char *field)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long long kb = 0;
	char line[200];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0)
			sscanf(line + strlen(field), ": %llu", &kb);
	fclose(f);
	return kb * 1024;
}

/* In a process of its own, as its peak is of all that it ever did. */
static void in_child(void (*run)(const struct way *w), const struct way *w)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		run(w);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
}

/* As no assertion jumps out of a child. */
#define CHILD_CHECK(x)                                           \
	do {                                                     \
		if (!(x)) {                                      \
			fprintf(stderr, "in a child: %s\n", #x); \
			_exit(1);                                \
		}                                                \
	} while (0)

/* ---- Without a limit ---- */

static void read_outlier(const struct way *w)
{
	uint64_t before = memory_of_process("VmRSS"), kept;
	struct shoal_loader *l = loader_of(outliers, w, 256, (struct shoal_load_options){ 0 });
	struct shoal_load_stats s;

	if (!l)
		return;
	kept = stats_of(l).pool_now;
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		begin(l, epoch);
		CHILD_CHECK(read_on(l, true) == OUTLIERS);
	}
	s = stats_of(l);
	CHILD_CHECK(s.pool_bytes < 40000000);
	CHILD_CHECK(s.pool_now >= kept);
	wait_for_now(l, kept);
	CHILD_CHECK(SANITIZED || memory_of_process("VmHWM") < before + 60000000);
	shoal_loader_close(l);
}

static void one_large_file_does_not_make_all_buffers_large(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	in_child(read_outlier, w);
}

static uint64_t lognormal_size(uint64_t i)
{
	uint64_t seed = i * 977 + 13;
	double a, b;

	for (unsigned k = 0; k < 5; k++)
		draw(&seed);
	a = ((double)draw(&seed) + 1) / 0x1p31;
	b = (double)draw(&seed) / 0x1p31;
	a = 300000 * exp(2 * sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
	return (uint64_t)fmin(1e8, fmax(1e3, a));
}

/* The most bytes that so many batches in a row have. */
static uint64_t most_in_flight(uint64_t nr, uint64_t batch, uint64_t ring)
{
	uint64_t most = 0;

	for (uint64_t first = 0; first < nr; first += batch) {
		uint64_t sum = 0;

		for (uint64_t i = first; i < nr && i < first + batch * ring; i++)
			sum += lognormal_size(i);
		most = u64_max(most, sum);
	}
	return most;
}

static void memory_follows_the_bytes_in_flight(void **state)
{
	static const struct {
		uint64_t batch;
		unsigned ahead;
	} row[] = { { 1, 2 }, { 4, 1 }, { 16, 2 }, { 32, 2 }, { 16, 8 } };
	struct shoal_catalog *cat = make_set(NULL, lognormal_size, LOGNORMAL);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_load_options o = { .store = "null:size=1T,fill=none",
						.prefetch = row[i].ahead };
		struct shoal_loader *l = loader_of(cat, NULL, row[i].batch, o);
		uint64_t most = most_in_flight(LOGNORMAL, row[i].batch, row[i].ahead + 1), took;

		begin(l, 0);
		assert_int_equal(read_on(l, false), LOGNORMAL);
		took = stats_of(l).pool_bytes;
		if (took > most + most * 3 / 10)
			fail_msg("%" PRIu64 " bytes for %" PRIu64 " in flight", took, most);
		shoal_loader_close(l);
	}
	shoal_catalog_close(cat);
}

/* ---- What a large batch took ---- */

/* An order of the large samples only: on average the catalog's are small. */
static const struct shoal_load_options large_only = { .part = true, .first = MIXED - LARGE };

static void return_memory(const struct way *w)
{
	struct shoal_loader *l = loader_of(mixed, w, 10, large_only);
	const struct shoal_batch *b;
	uint64_t full, kept;

	if (!l)
		return;
	kept = stats_of(l).pool_now;
	begin(l, 0);
	for (unsigned i = 0; i < 2; i++) {
		b = next(l);
		check_batch(b);
		CHILD_CHECK(stats_of(l).pool_now >= kept + 1000000);
		full = memory_of_process("VmRSS");
		shoal_loader_give_back(l, b);
	}
	wait_for_now(l, kept);
	CHILD_CHECK(stats_of(l).pool_bytes > kept + 2000000);
	CHILD_CHECK(SANITIZED || memory_of_process("VmRSS") + 1500000 < full);
	begin(l, 1);
	CHILD_CHECK(read_on(l, true) == LARGE);
	shoal_loader_close(l);
}

/* Where addresses are limited none are reserved, and large batches have mappings of their own. */
static void limit_addresses(struct rlimit *ret_before)
{
	struct rlimit some;

	getrlimit(RLIMIT_AS, ret_before);
	some = *ret_before;
	some.rlim_cur = (rlim_t)1 << 50;
	assert_int_equal(setrlimit(RLIMIT_AS, &some), 0);
}

static void memory_of_large_batches_returns_to_the_system(void **state)
{
	struct rlimit before;

	(void)state;
	FOR_ALL_WAYS(w)
	in_child(return_memory, w);
	limit_addresses(&before);
	FOR_ALL_WAYS(w)
	in_child(return_memory, w);
	setrlimit(RLIMIT_AS, &before);
}

static void every_batch_may_be_larger_than_what_is_kept(void **state)
{
	struct rlimit before;

	(void)state;
	for (unsigned limited = 0; limited < 2; limited++) {
		if (limited)
			limit_addresses(&before);
		FOR_ALL_WAYS(w)
		{
			struct shoal_loader *l = loader_of(mixed, w, 3, large_only);

			for (uint64_t epoch = 0; l && epoch < 3; epoch++) {
				begin(l, epoch);
				assert_int_equal(read_on(l, true), LARGE);
			}
			shoal_loader_close(l);
		}
	}
	setrlimit(RLIMIT_AS, &before);
}

/* ---- With a limit ---- */

/* What the buffers of a step come to, and the most of any. */
static uint64_t need_of(uint64_t step, uint64_t batch)
{
	uint64_t sum = 0;

	for (uint64_t i = step * batch; i < MIXED && i < (step + 1) * batch; i++)
		sum += load_cap(0, mixed_size(i));
	return sum;
}

static uint64_t largest_need(uint64_t batch, uint64_t *ret_step)
{
	uint64_t most = 0;

	for (uint64_t step = 0; step * batch < MIXED; step++)
		if (need_of(step, batch) > most) {
			most = need_of(step, batch);
			*ret_step = step;
		}
	return most;
}

static void a_limit_that_holds_one_batch_is_enough(void **state)
{
	static const uint64_t batches[] = { 1, 7, 50 };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		uint64_t step = 0, need = largest_need(batches[i], &step);
		struct shoal_load_options o = { .memory = need };
		struct shoal_loader *l = loader_of(mixed, w, batches[i], o);

		for (uint64_t epoch = 0; l && epoch < 3; epoch++) {
			begin(l, epoch);
			assert_int_equal(read_on(l, true), MIXED);
			assert_true(stats_of(l).pool_bytes <= need);
		}
		shoal_loader_close(l);
	}
}

/* Those before it come, and the epoch ends there; the next one too. */
static void a_batch_that_exceeds_the_limit_is_an_error_of_its_step(void **state)
{
	static const uint64_t batches[] = { 1, 7, 50 };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		uint64_t step = 0, need = largest_need(batches[i], &step);
		struct shoal_load_options o = { .memory = need - 1 };
		struct shoal_loader *l = loader_of(mixed, w, batches[i], o);
		char words[200];

		snprintf(words, sizeof(words),
			 "the batch of step %" PRIu64 " needs %" PRIu64
			 " bytes of memory, and the limit is %" PRIu64
			 ": raise the memory limit or lower the batch size",
			 step, need, need - 1);
		for (uint64_t epoch = 0; l && epoch < 2; epoch++) {
			begin(l, epoch);
			for (uint64_t t = 0; t < step; t++) {
				const struct shoal_batch *b = next(l);

				assert_int_equal(b->step, t);
				check_batch(b);
				shoal_loader_give_back(l, b);
			}
			check_fails(l, -ENOMEM, words);
			check_fails(l, -ENOMEM, words);
		}
		shoal_loader_close(l);
	}
}

static void who_holds_what_the_next_batch_needs_is_told(void **state)
{
	uint64_t step = 0, need = largest_need(10, &step);
	struct shoal_load_options o = { .memory = need, .prefetch = 3 };

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_of(mixed, w, 10, o);
		const struct shoal_batch *held[4] = { NULL }, *b = NULL;
		uint64_t nr = 0;
		unsigned k = 0;
		int rc;

		if (!l)
			continue;
		begin(l, 0);
		for (;;) {
			struct shoal_err err = { "" };

			rc = shoal_loader_next(l, &b, &err);
			if (rc == 0)
				break;
			if (rc == 1) {
				check_batch(b);
				nr += b->nr;
				held[k++] = b;
				continue;
			}
			assert_int_equal(rc, -EBUSY);
			assert_non_null(strstr(err.msg, "held"));
			assert_true(k > 0); /* else nothing would ever come */
			check_batch(held[--k]);
			shoal_loader_give_back(l, held[k]);
		}
		assert_int_equal(nr, MIXED);
		assert_true(stats_of(l).pool_bytes <= need);
		shoal_loader_close(l);
	}
}

/* Makes filling a batch slow, so that batches are given back meanwhile. */
static unsigned slow_us;

int64_t __real_shoal_order_batch(const struct shoal_order *order, uint64_t step, uint64_t rank,
				 uint64_t *ids);
int64_t __wrap_shoal_order_batch(const struct shoal_order *order, uint64_t step, uint64_t rank,
				 uint64_t *ids);

int64_t __wrap_shoal_order_batch(const struct shoal_order *order, uint64_t step, uint64_t rank,
				 uint64_t *ids)
{
	if (slow_us)
		usleep(slow_us);
	return __real_shoal_order_batch(order, step, rank, ids);
}

static void a_batch_given_back_while_the_next_is_filled_makes_room_for_it(void **state)
{
	uint64_t step = 0, need = largest_need(10, &step);
	struct shoal_load_options o = { .memory = need, .prefetch = 1 };

	(void)state;
	slow_us = 1000;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_of(mixed, w, 10, o);
		const struct shoal_batch *b = NULL;
		uint64_t nr = 0;

		if (!l)
			continue;
		for (uint64_t epoch = 0; epoch < 3; epoch++) {
			begin(l, epoch);
			for (int rc; (rc = shoal_loader_next(l, &b, NULL)) != 0;) {
				assert_int_equal(rc, 1); /* not -EBUSY: no batch is held */
				nr += b->nr;
				usleep(500);
				shoal_loader_give_back(l, b);
			}
		}
		assert_int_equal(nr, 3 * MIXED);
		shoal_loader_close(l);
	}
	slow_us = 0;
}

static void batches_of_a_limit_are_given_back_in_any_order(void **state)
{
	uint64_t seed = 3, step = 0, need = largest_need(6, &step);
	struct shoal_load_options o = { .memory = 2 * need + 5000, .prefetch = 7 };

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_of(mixed, w, 6, o);
		const struct shoal_batch *held[8] = { NULL }, *b = NULL;

		for (uint64_t epoch = 0; l && epoch < 4; epoch++) {
			uint64_t nr = 0;
			int rc = 1;

			begin(l, epoch);
			while (rc != 0) {
				unsigned k = (unsigned)(draw(&seed) % 8);

				rc = held[k] ? -EBUSY : shoal_loader_next(l, &b, NULL);
				if (rc == 1) {
					held[k] = b;
					nr += b->nr;
				}
				assert_true(rc >= 0 || rc == -EBUSY);
				k = (unsigned)(draw(&seed) % 8);
				if (rc != -EBUSY || !held[k])
					continue;
				check_batch(held[k]);
				shoal_loader_give_back(l, held[k]);
				held[k] = NULL;
			}
			assert_int_equal(nr, MIXED);
			assert_true(stats_of(l).pool_bytes <= o.memory);
		}
		shoal_loader_close(l);
	}
}

/* How many batches of the ring have this state. */
static unsigned count_batches(struct shoal_loader *l, enum load_batch_state state)
{
	unsigned nr = 0;

	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->nr_ring; i++)
		nr += l->ring[i].state == state;
	pthread_mutex_unlock(&l->lock);
	return nr;
}

/* With 2 reads at a time, of batches of 64: two that are not complete, and one that has begun. */
static void batches_get_memory_when_their_reads_can_begin(void **state)
{
	struct shoal_load_options o = { .store = "null:size=100,delay_us=100",
					.prefetch = 8,
					.in_flight = 2 };
	struct shoal_catalog *cat;
	struct shoal_loader *l;
	struct test_list list = { 0 };
	const struct shoal_batch *b;
	unsigned most = 0;

	(void)state;
	for (size_t i = 0; i < 64 * 20; i++)
		list_addf(&list, "%04zu", i);
	for (size_t i = 0; i < list.nr; i++)
		list.entry[i].size = 100;
	cat = catalog_of(&list, true, 1);
	l = loader_of(cat, NULL, 64, o);
	begin(l, 0);
	/* Whether or not they are taken, they are read, in the end all that there is room for. */
	for (int i = 0; i < 60000 && count_batches(l, BATCH_READY) < 9; i++) {
		most = (unsigned)u64_max(most, count_batches(l, BATCH_FILLING));
		usleep(300);
	}
	assert_int_equal(count_batches(l, BATCH_READY), 9);
	assert_in_range(most, 1, 3);
	b = next(l);
	shoal_loader_give_back(l, b);
	assert_int_equal(read_on(l, false), 64 * 19);
	shoal_loader_close(l);
	shoal_catalog_close(cat);
	list_release(&list);
}

/* As for Python, whose views of a batch cannot be taken back. */
static void a_caller_that_cannot_give_back_may_exceed_the_limit(void **state)
{
	uint64_t step = 0, need = largest_need(10, &step);
	struct shoal_load_options o = { .memory = need, .prefetch = 3 };

	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_of(mixed, w, 10, o);
		const struct shoal_batch *last = NULL, *b = NULL;
		uint64_t nr = 0;
		int rc = 1;

		if (!l)
			continue;
		begin(l, 0);
		while (rc == 1) {
			rc = shoal_loader_next(l, &b, NULL);
			if (rc == -EBUSY) {
				load_exceed(l);
				rc = shoal_loader_next(l, &b, NULL);
			}
			if (last) {
				check_batch(last);
				shoal_loader_give_back(l, last);
			}
			last = b;
			nr += rc == 1 ? b->nr : 0;
		}
		assert_int_equal(rc, 0);
		assert_int_equal(nr, MIXED);
		if (stats_of(l).pool_bytes <= need || stats_of(l).pool_bytes > 2 * need)
			fail_msg("%" PRIu64 " bytes, and the limit is %" PRIu64,
				 stats_of(l).pool_bytes, need);
		wait_for_now(l, need);
		shoal_loader_close(l);
	}
}

static void pieces_fit_into_any_limit_that_holds_one(void **state)
{
	static const uint64_t limits[] = { 8192, 12288, 50000, 1000000 };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct shoal_load_options o = { .memory = limits[i], .pieces = true, .slot = 4096 };
		struct shoal_loader *l = loader_of(mixed, w, 9, o);
		struct shoal_load_stats s;

		if (!l)
			continue;
		begin(l, 0);
		read_on(l, true);
		s = stats_of(l);
		assert_int_equal(s.nr_samples, MIXED);
		assert_true(s.pool_bytes <= limits[i]);
		shoal_loader_close(l);
	}
}

static void a_limit_below_one_page_is_refused(void **state)
{
	struct shoal_order_spec spec = { .nr_samples = MIXED, .nr_ranks = 1, .batch = 1 };
	struct shoal_load_options o = { .store = dir, .memory = 4095 };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_loader_open(mixed, &spec, 0, &o, &l, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "4095 bytes of memory hold no sample"));
}

/* Most of a limit that no machine has is never used. */
static void a_limit_larger_than_the_machine_is_no_matter(void **state)
{
	struct shoal_load_options o = { .memory = UINT64_MAX };
	struct shoal_loader *l = loader_of(mixed, NULL, 10, o);

	(void)state;
	begin(l, 0);
	assert_int_equal(read_on(l, true), MIXED);
	shoal_loader_close(l);
}

/* ---- Memory that is announced ---- */

/* What the loader has said, and what it is answered. */
struct told {
	const uint8_t *at;
	size_t len;
	unsigned nr_added, nr_removed;
	int answer;
};

static int note_added(void *self, void *addr, size_t len)
{
	struct told *t = self;

	assert_int_equal((uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	assert_true(len > 0);
	t->at = addr;
	t->len = len;
	t->nr_added++;
	return t->answer;
}

static void note_removed(void *self, void *addr, size_t len)
{
	struct told *t = self;

	assert_ptr_equal(addr, t->at);
	assert_int_equal(len, t->len);
	assert_int_equal(t->nr_added, 1);
	/* It is still mapped. */
	memset(addr, 1, 1);
	memset((uint8_t *)addr + len - 1, 1, 1);
	t->nr_removed++;
}

static bool is_inside(const struct told *t, const struct shoal_sample *s)
{
	const uint8_t *data = s->data;
	bool first = data >= t->at && data < t->at + t->len;
	bool last = data + s->len > t->at && data + s->len <= t->at + t->len;

	assert_int_equal(first, last); /* no sample lies partly in it */
	return first;
}

/* Read an epoch. How many of its samples lie in the range, and how many outside. */
static void count_places(struct shoal_loader *l, const struct told *t, uint64_t nr[2])
{
	const struct shoal_batch *b = NULL;
	struct shoal_err err = { "" };
	int rc;

	begin(l, 0);
	while ((rc = shoal_loader_next(l, &b, &err)) == 1) {
		check_batch(b);
		for (size_t i = 0; i < b->nr; i++)
			if (b->sample[i].len > 0)
				nr[is_inside(t, &b->sample[i])]++;
		shoal_loader_give_back(l, b);
	}
	if (rc < 0)
		fail_msg("%s", err.msg);
}

static void samples_lie_in_the_memory_that_was_announced(void **state)
{
	uint64_t step, limit = 3 * largest_need(10, &step);

	(void)state;
	for (unsigned limited = 0; limited < 2; limited++)
		FOR_ALL_WAYS(w)
		{
			struct told told = { .nr_added = 0 };
			struct shoal_load_options o = { .memory = limited ? limit : 0,
							.memory_added = note_added,
							.memory_removed = note_removed,
							.self = &told };
			struct shoal_loader *l = loader_of(mixed, w, 10, o);
			uint64_t nr[2] = { 0, 0 };

			if (!l) {
				assert_int_equal(told.nr_removed, told.nr_added);
				continue;
			}
			assert_int_equal(told.nr_added, 1);
			count_places(l, &told, nr);
			assert_true(nr[true] > 0);
			/* Large batches have mappings of their own, unless there is a limit, and
			 * the figures tell. */
			assert_int_equal(nr[false] > 0, !limited);
			assert_int_equal(stats_of(l).pool_bytes > told.len, !limited);
			assert_int_equal(told.nr_removed, 0);
			shoal_loader_close(l);
			assert_int_equal(told.nr_removed, 1);
		}
}

/* Try to open a loader, which fails with @rc. What it says. */
static struct shoal_err fail_to_open(const struct shoal_load_options *o, int rc)
{
	struct shoal_order_spec spec = { .remainder = SHOAL_KEEP,
					 .nr_ranks = 1,
					 .batch = 10,
					 .nr_samples = MIXED,
					 .mode = SHOAL_SEQUENTIAL };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_loader_open(mixed, &spec, 0, o, &l, &err), rc);
	assert_null(l);
	return err;
}

static void memory_that_cannot_be_registered_is_an_error(void **state)
{
	static const struct {
		int answer, rc;
	} row[] = { { -ENOMEM, -ENOMEM }, { 2, -EIO } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct told told = { .answer = row[i].answer };
		struct shoal_load_options o = { .store = dir,
						.memory_added = note_added,
						.memory_removed = note_removed,
						.self = &told };
		struct shoal_err err = fail_to_open(&o, row[i].rc);
		char words[200];

		snprintf(words, sizeof(words),
			 "cannot register %zu bytes of memory for samples: %s", told.len,
			 strerror(-row[i].rc));
		assert_string_equal(err.msg, words);
		assert_int_equal(told.nr_added, 1);
		assert_int_equal(told.nr_removed, 0);
	}
}

static void announced_memory_of_a_loader_that_cannot_be_opened_is_taken_back(void **state)
{
	struct told told = { .nr_added = 0 };
	struct shoal_load_options o = { .store = dir,
					.object_size = 5000, /* of files that have sizes */
					.memory_added = note_added,
					.memory_removed = note_removed,
					.self = &told };

	(void)state;
	fail_to_open(&o, -EINVAL);
	assert_int_equal(told.nr_added, 1);
	assert_int_equal(told.nr_removed, 1);
}

static int setup(void **state)
{
	(void)state;
	alarm(300); /* nothing may hang */
	return 0;
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(buffers_never_overlap_and_all_come_back),
		TEST(one_large_file_does_not_make_all_buffers_large),
		TEST(memory_follows_the_bytes_in_flight),
		TEST(memory_of_large_batches_returns_to_the_system),
		TEST(every_batch_may_be_larger_than_what_is_kept),
		TEST(a_limit_that_holds_one_batch_is_enough),
		TEST(a_batch_that_exceeds_the_limit_is_an_error_of_its_step),
		TEST(who_holds_what_the_next_batch_needs_is_told),
		TEST(a_batch_given_back_while_the_next_is_filled_makes_room_for_it),
		TEST(batches_of_a_limit_are_given_back_in_any_order),
		TEST(batches_get_memory_when_their_reads_can_begin),
		TEST(a_caller_that_cannot_give_back_may_exceed_the_limit),
		TEST(pieces_fit_into_any_limit_that_holds_one),
		TEST(a_limit_below_one_page_is_refused),
		TEST(a_limit_larger_than_the_machine_is_no_matter),
		TEST(samples_lie_in_the_memory_that_was_announced),
		TEST(memory_that_cannot_be_registered_is_an_error),
		TEST(announced_memory_of_a_loader_that_cannot_be_opened_is_taken_back),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
