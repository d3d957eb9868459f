/*
 * Goal: whichever call fails while samples are loaded, each sample comes whole, or is named, or the
 * epoch ends in words. Nothing hangs, nothing is wrong, nothing is left open, and the next epoch is
 * whole again.
 *
 * Calls fail through faults.h. What io_uring does itself cannot be wrapped: its results are changed
 * in the ring, before the engine sees them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <liburing.h>

#include "faults.h"
#include "help.h"
#include "load/engine_private.h"

/* ---- The calls ---- */

enum {
	OPENS = FAULT_OPENAT | FAULT_OPENAT2, /* by a call or by the ring */
	READS = FAULT_PREAD,                  /* likewise; with error 0 it is short */
	WAITS = FAULT_OWN,                    /* reads without waiting, as on some file systems */
	TURNS = FAULT_OWN << 1,               /* submitting to the ring and waiting for it */
	MAPS = FAULT_MAP,                     /* mapping memory, and nothing else */
	/* Allocating memory, creating threads and rings: what opening a loader does. */
	MEMORY = FAULT_MEMORY | FAULT_MMAP | FAULT_EVENTFD | FAULT_THREAD | FAULT_RING |
		 FAULT_REGISTER,
};

static struct fault fault;
static struct fault cold; /* no name is in the kernel's cache: the ring opens all files */

static void arm(unsigned calls, int error, unsigned nth)
{
	/* While it is cold, openat2() fails anyway, and is not counted. */
	fault_arm(&fault, cold.calls ? calls & ~(unsigned)FAULT_OPENAT2 : calls, (int)nth,
		  FAULT_ONCE, error);
}

static unsigned disarm(void)
{
	fault_disarm(&fault);
	return (unsigned)fault.fired;
}

#define DECLARE(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)

DECLARE(int, io_uring_submit, struct io_uring *ring);
DECLARE(int, io_uring_submit_and_wait_timeout, struct io_uring *ring, struct io_uring_cqe **cqe,
	unsigned nr, struct __kernel_timespec *ts, sigset_t *mask);

/* Change the result in the ring, among those that the engine has not seen, that is to fail. */
static void spoil(struct io_uring *ring)
{
	static struct io_uring *last_ring;
	static unsigned seen; /* all before this one */
	unsigned head, tail = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE);

	if (ring != last_ring || tail - seen > tail - *ring->cq.khead)
		seen = *ring->cq.khead;
	last_ring = ring;
	for (head = seen; head != tail; head++) {
		struct io_uring_cqe *cqe = &ring->cq.cqes[head & *ring->cq.kring_mask];
		uint8_t *what = io_uring_cqe_get_data(cqe);
		struct load_request *r = (struct load_request *)(void *)what;

		/* Those that close a file have nothing; that of waking has the engine itself, which
		 * begins with a struct load_engine and then has the ring. */
		if (!what || what == (uint8_t *)ring - sizeof(struct load_engine))
			continue;
		if (r->fd < 0 && cqe->res >= 0 && fault_fails(FAULT_OPENAT)) {
			close(cqe->res);
			cqe->res = -fault.error;
		} else if (r->fd >= 0 && cqe->res > 0 && fault_fails(READS)) {
			cqe->res = fault.error ? -fault.error : cqe->res - cqe->res / 2;
		} else if (r->fd >= 0 && fault.calls == WAITS &&
			   fcntl(r->fd, F_GETFL) & O_NONBLOCK) {
			cqe->res = -EAGAIN; /* of all that were begun before the first is seen */
			fault.fired++;
		}
	}
	seen = tail;
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
	int rc = __real_io_uring_submit(ring);

	spoil(ring);
	return rc;
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
					    unsigned nr, struct __kernel_timespec *ts,
					    sigset_t *mask)
{
	int rc;

	if (fault_fails(TURNS))
		return -fault.error;
	rc = __real_io_uring_submit_and_wait_timeout(ring, cqe, nr, ts, mask);
	spoil(ring);
	return rc;
}

/* ---- A few files ---- */

#define FILES 12u

static char dir[] = "load-faults-XXXXXX";
static struct shoal_catalog *cat;

static uint64_t size_of(uint64_t i)
{
	static const uint64_t sizes[] = { 0, 1, 4096, 5000, 20000, 300 };

	return sizes[i % ARRAY_LEN(sizes)];
}

static uint8_t byte_at(uint64_t i, uint64_t off)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 77777;

	return (uint8_t)(x >> 32 ^ x >> 48);
}

static int make_files(void **state)
{
	struct test_list l = { 0 };

	if (!mkdtemp(dir) || test_dir_make(state) < 0)
		return -1;
	for (uint64_t i = 0; i < FILES; i++) {
		uint8_t *bytes = allocate(size_of(i), 1);
		char name[20], path[50];

		snprintf(name, sizeof(name), "%03" PRIu64, i);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		for (uint64_t k = 0; k < size_of(i); k++)
			bytes[k] = byte_at(i, k);
		file_write(path, bytes, size_of(i));
		free(bytes);
		list_add(&l, name, strlen(name), size_of(i), 1);
	}
	cat = catalog_of(&l, true, 1);
	list_release(&l);
	return 0;
}

static int remove_files(void **state)
{
	char command[100];

	cat = shoal_catalog_close(cat);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command) == 0 ? test_dir_remove(state) : -1;
}

static size_t count_open(void)
{
	size_t nr = 0;

	for (int fd = 0; fd < 1024; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

static size_t open_before;

static int setup(void **state)
{
	(void)state;
	open_before = count_open();
	alarm(100); /* nothing may hang */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	disarm();
	fault_disarm(&cold);
	alarm(0);
	return count_open() == open_before ? 0 : -1;
}

/* ---- Loading ---- */

static const struct way {
	enum shoal_engine engine;
	bool direct, cold, pieces;
} ways[] = {
	{ SHOAL_ENGINE_THREADS, false, false, false }, { SHOAL_ENGINE_THREADS, true, false, true },
	{ SHOAL_ENGINE_URING, false, false, false },   { SHOAL_ENGINE_URING, true, false, true },
	{ SHOAL_ENGINE_URING, false, true, true },     { SHOAL_ENGINE_URING, true, true, false },
};

#define FOR_ALL_WAYS(w) for (const struct way *w = ways; w < ways + ARRAY_LEN(ways); w++)

static int open_loader(const struct way *w, bool skip, struct shoal_loader **ret_loader,
		       struct shoal_err *err)
{
	struct shoal_order_spec spec = { .mode = SHOAL_GLOBAL,
					 .remainder = SHOAL_KEEP,
					 .nr_samples = FILES,
					 .nr_ranks = 1,
					 .batch = 5 };
	struct shoal_load_options o = { .store = dir,
					.engine = w->engine,
					.direct = w->direct,
					.skip_errors = skip,
					.in_flight = 4,
					.pieces = w->pieces,
					.slot = w->pieces ? 4096 : 0 };

	fault_disarm(&cold);
	if (w->cold)
		fault_arm(&cold, FAULT_OPENAT2, 1, FAULT_FROM_THEN_ON, EAGAIN);
	return shoal_loader_open(cat, &spec, 0, &o, ret_loader, err);
}

/* NULL where the machine does not have the way, which is said once. */
static struct shoal_loader *loader_of(const struct way *w, bool skip)
{
	static bool said[ARRAY_LEN(ways)];
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };
	int rc = open_loader(w, skip, &l, &err);

	if (rc == -ENOTSUP && !said[w - ways])
		print_message("not tested here: %s\n", err.msg);
	said[w - ways] = said[w - ways] || rc == -ENOTSUP;
	if (rc < 0 && rc != -ENOTSUP)
		fail_msg("%s", err.msg);
	return l;
}

static void check_batch(const struct shoal_batch *b)
{
	for (size_t i = 0; i < b->nr; i++) {
		const struct shoal_sample *s = &b->sample[i];
		const uint8_t *data = s->data;

		assert_true(!s->error || (!s->data && s->len == 0));
		for (uint64_t k = 0; k < s->len; k++)
			if (data[k] != byte_at(s->id, s->off + k))
				fail_msg("sample %" PRIu64 ": a byte is wrong", s->id);
	}
}

/* An epoch to its end: what shoal_loader_next() said last. */
static int load_to_end(struct shoal_loader *l, uint64_t epoch, struct shoal_load_stats *ret_stats,
		       struct shoal_err *err)
{
	const struct shoal_batch *b = NULL;
	int rc = shoal_loader_epoch(l, epoch, err);

	if (rc == 0)
		rc = 1;
	while (rc == 1) {
		rc = shoal_loader_next(l, &b, err);
		if (rc == 1) {
			check_batch(b);
			shoal_loader_give_back(l, b);
		}
	}
	shoal_loader_stats(l, ret_stats);
	return rc;
}

static void check_whole_epoch(struct shoal_loader *l, uint64_t epoch)
{
	struct shoal_load_stats s;
	struct shoal_err err = { "" };

	if (load_to_end(l, epoch, &s, &err) != 0)
		fail_msg("epoch %" PRIu64 ": %s", epoch, err.msg);
	assert_int_equal(s.nr_samples, FILES);
	assert_int_equal(s.nr_errors, 0);
}

/* One epoch in which a call fails, and one after it. How many calls failed: 0 or 1. */
static unsigned load_with_fault(const struct way *w, bool skip, unsigned call, int error,
				unsigned nth)
{
	struct shoal_loader *l = loader_of(w, skip);
	struct shoal_err err = { "" };
	struct shoal_load_stats s;
	unsigned fired;
	int rc;

	if (!l)
		return 0;
	arm(call, error, nth);
	rc = load_to_end(l, 0, &s, &err);
	fired = disarm();
	assert_int_equal(s.nr_errors > 0, strlen(s.first_errors[0]) > 0);
	if (skip || rc == 0) {
		assert_int_equal(rc, 0);
		assert_int_equal(s.nr_samples + s.nr_errors, FILES);
		assert_true(s.nr_errors <= fired);
		assert_true(skip || s.nr_errors == 0);
	} else {
		assert_int_equal(fired, 1);
		assert_int_equal(rc, -error);
		assert_non_null(strstr(err.msg, "sample "));
		assert_non_null(strstr(err.msg, strerror(error)) ? err.msg
								 : strstr(err.msg, "ulimit -n"));
	}
	check_whole_epoch(l, 1);
	shoal_loader_close(l);
	return fired;
}

static void every_open_and_read_may_fail(void **state)
{
	static const struct {
		unsigned call;
		int error;
	} row[] = { { OPENS, EIO },    { OPENS, EMFILE }, { OPENS, ENFILE },
		    { OPENS, ENOMEM }, { READS, EIO },    { READS, ENOMEM } };

	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		unsigned nth = 1;

		while (load_with_fault(w, nth % 2, row[i].call, row[i].error, nth))
			nth++;
		if (nth == 1)
			continue; /* the machine does not have it */
		assert_true(nth > FILES / 2);
	}
}

/* A file that is read in parts is no shorter for it, and no other error either. */
static void every_read_may_be_short(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	for (unsigned nth = 1; nth < 100; nth++) {
		struct shoal_loader *l = loader_of(w, false);
		unsigned fired;

		if (!l)
			break;
		arm(READS, 0, nth);
		check_whole_epoch(l, 0);
		fired = disarm();
		shoal_loader_close(l);
		if (!fired)
			break;
	}
}

/* Also where several reads of one file hear it, of which the first has it wait. */
static void reads_that_cannot_but_wait_are_let_wait(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	{
		struct shoal_loader *l = loader_of(w, false);

		if (!l)
			continue;
		arm(WAITS, EAGAIN, 0);
		check_whole_epoch(l, 0);
		assert_int_equal(disarm() > 0, w->engine == SHOAL_ENGINE_URING);
		check_whole_epoch(l, 1);
		shoal_loader_close(l);
	}
}

/* The ring itself: an error for a moment is none, any other ends the loader, but not in a hang. */
static void a_ring_that_fails_ends_the_loader_in_words(void **state)
{
	static const struct {
		int error;
		bool passes;
	} row[] = { { EAGAIN, true },
		    { EBUSY, true },
		    { EINTR, true },
		    { ENOMEM, false },
		    { EBADF, false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		for (unsigned nth = 1; nth < 100; nth++) {
			struct shoal_loader *l = loader_of(&ways[5], true);
			struct shoal_err err = { "" };
			struct shoal_load_stats s;
			unsigned fired;
			int rc;

			if (!l)
				return;
			arm(TURNS, row[i].error, nth);
			rc = load_to_end(l, 0, &s, &err);
			fired = disarm();
			if (!fired || row[i].passes || rc == 0) {
				assert_int_equal(rc, 0);
				assert_int_equal(s.nr_samples, FILES);
			} else {
				assert_int_equal(rc, -row[i].error);
				if (!strstr(err.msg, "io_uring failed") &&
				    !strstr(err.msg, "reading engine failed"))
					fail_msg("call %u: %s", nth, err.msg);
				assert_int_equal(load_to_end(l, 1, &s, &err), -row[i].error);
				assert_non_null(strstr(err.msg, "reading engine failed"));
			}
			shoal_loader_close(l);
			if (!fired)
				break;
		}
}

/* What cannot be had at the start is done without, or said; and nothing is left of it. */
static void every_call_of_opening_may_fail(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	for (unsigned nth = 1; nth < 200; nth++) {
		struct shoal_loader *l = NULL;
		struct shoal_err err = { "" };
		unsigned fired;
		int rc;

		arm(MEMORY, ENOMEM, nth);
		rc = open_loader(w, false, &l, &err);
		fired = disarm();
		if (rc < 0) {
			assert_null(l);
			assert_true(fired || rc == -ENOTSUP);
			assert_true(strlen(err.msg) > 5);
		} else {
			check_whole_epoch(l, 0);
		}
		shoal_loader_close(l);
		assert_int_equal(count_open(), open_before);
		if (!fired)
			break;
	}
}

/*
 * Names of many small files and, after them, those that there are: on average they are small, so
 * each batch of these needs memory when its turn comes.
 */
#define SMALL 2000u

static struct shoal_catalog *small_and_ours(void)
{
	struct test_list l = { 0 };
	struct shoal_catalog *c;
	char name[20];

	for (unsigned i = 0; i < SMALL; i++) {
		snprintf(name, sizeof(name), "!%05u", i); /* before digits */
		list_add(&l, name, strlen(name), 1, 1);
	}
	for (uint64_t i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%03" PRIu64, i);
		list_add(&l, name, strlen(name), size_of(i), 1);
	}
	c = catalog_of(&l, true, 1);
	list_release(&l);
	return c;
}

/* One epoch of ours in which memory is refused once, and one after it. Whether it was. */
static bool load_without_memory(struct shoal_catalog *c, enum shoal_engine engine, unsigned nth)
{
	struct shoal_order_spec spec = {
		.remainder = SHOAL_KEEP, .nr_samples = FILES, .nr_ranks = 1, .batch = 5
	};
	struct shoal_load_options o = {
		.store = dir, .engine = engine, .in_flight = 4, .part = true, .first = SMALL
	};
	struct shoal_load_stats s;
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };
	unsigned fired;
	int rc = shoal_loader_open(c, &spec, 0, &o, &l, &err);

	if (rc == -ENOTSUP)
		return false;
	assert_int_equal(rc, 0);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		const struct shoal_batch *b = NULL;

		if (epoch == 0)
			arm(MAPS, ENOMEM, nth);
		rc = shoal_loader_epoch(l, epoch, &err) < 0 ? -1 : 1;
		while (rc == 1) {
			rc = shoal_loader_next(l, &b, &err);
			for (size_t i = 0; rc == 1 && i < b->nr; i++)
				assert_int_equal(b->sample[i].len,
						 size_of(b->sample[i].id - SMALL));
			if (rc == 1)
				shoal_loader_give_back(l, b);
		}
		if (epoch == 0)
			fired = disarm();
		shoal_loader_stats(l, &s);
		if (rc < 0 && !(epoch == 0 && fired && rc == -ENOMEM))
			fail_msg("mapping %u: %s", nth, err.msg);
		assert_true(rc < 0 || s.nr_samples == FILES);
		assert_true(rc == 0 || strstr(err.msg, "no memory for the batch of step "));
	}
	shoal_loader_close(l);
	return fired;
}

/* A batch waits until others give theirs back; if there are none the epoch ends in words. */
static void every_mapping_of_a_large_batch_may_fail(void **state)
{
	struct shoal_catalog *c = small_and_ours();
	struct rlimit before, some;

	(void)state;
	getrlimit(RLIMIT_AS, &before);
	some = before;
	some.rlim_cur = (rlim_t)1 << 50; /* no addresses are reserved where they are limited */
	assert_int_equal(setrlimit(RLIMIT_AS, &some), 0);
	for (unsigned kind = 0; kind < 2; kind++) {
		unsigned nth = 1;

		while (load_without_memory(c, kind ? SHOAL_ENGINE_URING : SHOAL_ENGINE_THREADS,
					   nth))
			nth++;
		assert_true(kind || nth > 2);
	}
	setrlimit(RLIMIT_AS, &before);
	shoal_catalog_close(c);
}

/* ---- Limits ---- */

/* At most @nr descriptors more than there are. */
static void limit_files(size_t nr, struct rlimit *ret_before)
{
	struct rlimit few;

	getrlimit(RLIMIT_NOFILE, ret_before);
	few = *ret_before;
	few.rlim_cur = count_open() + nr;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void few_descriptors_are_enough_or_it_is_said(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w)
	for (size_t nr = 0; nr < 8; nr++) {
		struct shoal_loader *l = NULL;
		struct shoal_err err = { "" };
		struct shoal_load_stats s;
		struct rlimit before;
		int rc;

		limit_files(nr, &before);
		rc = open_loader(w, false, &l, &err);
		if (rc == 0)
			rc = load_to_end(l, 0, &s, &err);
		setrlimit(RLIMIT_NOFILE, &before);
		if (rc == 0)
			assert_int_equal(s.nr_samples, FILES);
		else
			assert_true(strlen(err.msg) > 5);
		assert_true(rc == 0 || nr < 5 || rc == -ENOTSUP);
		shoal_loader_close(l);
	}
}

/* Root may lock what it likes; others get threads, or a ring without registered buffers. */
static void memory_that_may_not_be_locked_is_done_without(void **state)
{
	struct rlimit none = { 0, 0 }, before;
	struct shoal_loader *l = NULL;
	struct shoal_load_stats s;
	struct shoal_err err = { "" };

	(void)state;
	if (geteuid() != 0 || chmod(dir, 0755) < 0) {
		print_message("not tested here: other users\n");
		return;
	}
	getrlimit(RLIMIT_MEMLOCK, &before);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	assert_int_equal(seteuid(65534), 0);
	if (open_loader(&(struct way){ .engine = SHOAL_ENGINE_AUTO }, false, &l, &err) < 0)
		fail_msg("%s", err.msg);
	check_whole_epoch(l, 0);
	shoal_loader_stats(l, &s);
	assert_int_equal(seteuid(0), 0);
	setrlimit(RLIMIT_MEMLOCK, &before);
	if (!strstr(s.engine_detail, "RLIMIT_MEMLOCK"))
		fail_msg("nothing is said of RLIMIT_MEMLOCK: %s, %s", s.engine, s.engine_detail);
	shoal_loader_close(l);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_open_and_read_may_fail),
		TEST(every_read_may_be_short),
		TEST(reads_that_cannot_but_wait_are_let_wait),
		TEST(a_ring_that_fails_ends_the_loader_in_words),
		TEST(every_call_of_opening_may_fail),
		TEST(every_mapping_of_a_large_batch_may_fail),
		TEST(few_descriptors_are_enough_or_it_is_said),
		TEST(memory_that_may_not_be_locked_is_done_without),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
