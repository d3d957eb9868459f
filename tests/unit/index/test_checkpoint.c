/*
 * Goal: a listing that was interrupted goes on by as many ranks as began, or fewer, or more,
 * without listing again what was finished; however often, it ends with the catalog of a fresh one,
 * and nothing is left behind.
 *
 * Ranks are threads, see thread_transport.h; the tree is a real one. cmocka's asserts are for the
 * main thread only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/le.h"
#include "base/span.h"
#include "comm/comm_private.h"
#include "help.h"
#include "index/checkpoint.h"
#include "index/tree.h"
#include "thread_transport.h"

#define NR_DIRS  300
#define NR_FILES 100 /* in each */
#define NR_NAMES ((uint64_t)NR_DIRS * NR_FILES)
#define THREADS  2

static char tree_path[512], output[512], fresh_digest[33];
static int stop;

/* ---- Ranks ---- */

struct rank_thread {
	pthread_t thread;
	struct thread_world *world;
	int rank, rc;
	struct shoal_err err;
	struct shoal_index_result result;
};

static void *run_rank(void *arg)
{
	struct rank_thread *t = arg;
	const struct shoal_tree_options tree = { .resume = true, .nr_threads = THREADS };
	const struct shoal_index_options options = { .output = output, .stop = &stop };
	struct comm *c = NULL;

	t->rc = comm_open_transport(&thread_transport, &t->world->rank[t->rank], &c, &t->err);
	if (t->rc == 0)
		t->rc = index_tree(c, tree_path, &tree, &options, &t->result, &t->err);
	comm_close(c);
	return NULL;
}

/* List with @nr ranks, and stop them after @us; 0: let them. Rank 0's result. */
static struct rank_thread list(int nr, useconds_t us)
{
	struct rank_thread t[THREAD_RANKS_MAX];
	struct thread_world w;

	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	thread_world_init(&w, nr, nr, 1u << 30);
	for (int i = 0; i < nr; i++) {
		t[i] = (struct rank_thread){ .world = &w, .rank = i };
		assert_int_equal(pthread_create(&t[i].thread, NULL, run_rank, &t[i]), 0);
	}
	if (us) {
		usleep(us);
		__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	}
	for (int i = 0; i < nr; i++)
		pthread_join(t[i].thread, NULL);
	for (int i = 0; i < nr; i++)
		if (t[i].rc < 0 && (!us || (t[i].rc != -ECANCELED && t[i].rc != -EREMOTEIO)))
			fail_msg("rank %d of %d: %s", i, nr, t[i].err.msg);
	thread_world_release(&w);
	return t[0];
}

/* ---- The tree ---- */

static int make_tree(void **state)
{
	char path[600];

	if (test_dir_make(state) != 0)
		return -1;
	snprintf(tree_path, sizeof(tree_path), "%s", test_path("tree"));
	snprintf(output, sizeof(output), "%s", test_path("c"));
	if (mkdir(tree_path, 0755) < 0)
		return -1;
	for (int d = 0; d < NR_DIRS; d++) {
		snprintf(path, sizeof(path), "%s/%03d", tree_path, d);
		if (mkdir(path, 0755) < 0)
			return -1;
		for (int f = 0; f < NR_FILES; f++) {
			snprintf(path, sizeof(path), "%s/%03d/%02d", tree_path, d, f);
			close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		}
	}
	return 0;
}

static int remove_tree(void **state)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -r '%s'", tree_path);
	if (system(command) != 0) // NOLINT(cert-env33-c,concurrency-mt-unsafe)
		return -1;
	return test_dir_remove(state);
}

/* How many of a listing's own files lie there. */
static int count_left(void)
{
	DIR *dir = opendir(test_dir());
	const struct dirent *d;
	int nr = 0;

	assert_non_null(dir);
	while ((d = readdir(dir)) != NULL) // NOLINT(concurrency-mt-unsafe)
		nr += strncmp(d->d_name, ".c.", 3) == 0 || strncmp(d->d_name, "..c.", 4) == 0;
	closedir(dir);
	return nr;
}

/* The catalog is whole, and alone. Removes it. */
static void check_catalog(void)
{
	struct shoal_catalog *cat = catalog_open(output);
	char digest[33];

	catalog_digest(cat, digest);
	if (!fresh_digest[0])
		memcpy(fresh_digest, digest, sizeof(digest));
	assert_string_equal(digest, fresh_digest);
	assert_int_equal(shoal_catalog_verify(cat, NULL), 0);
	shoal_catalog_close(cat);
	assert_int_equal(unlink(output), 0);
	assert_int_equal(count_left(), 0);
}

/* A listing by @nr ranks that is interrupted midway. */
static void interrupt(int nr)
{
	for (useconds_t us = 2000; us < 1000000; us += us / 4) {
		struct rank_thread t = list(nr, us);

		if (t.rc == 0) { /* too late */
			assert_int_equal(unlink(output), 0);
			us = 1000;
			continue;
		}
		if (access(test_path(".c.resume"), F_OK) == 0)
			return;
	}
	fail_msg("%d ranks were never interrupted midway", nr);
}

/* ---- Tests ---- */

static void a_fresh_listing_leaves_nothing(void **state)
{
	(void)state;
	for (int nr = 1; nr <= 3; nr++) {
		struct rank_thread t = list(nr, 0);

		assert_int_equal(t.result.nr_names, NR_NAMES);
		assert_int_equal(t.result.nr_resumed, 0);
		assert_int_equal(t.result.nr_repeated, 0);
		check_catalog();
	}
}

static void any_number_of_ranks_goes_on(void **state)
{
	static const int numbers[] = { 1, 2, 3, 5 };
	unsigned all_again = 0;
	uint64_t resumed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		for (size_t j = 0; j < ARRAY_LEN(numbers); j++) {
			struct rank_thread t;
			uint64_t begun = (uint64_t)numbers[i] * THREADS * NR_FILES;

			interrupt(numbers[i]);
			t = list(numbers[j], 0);
			assert_int_equal(t.result.nr_names, NR_NAMES);
			assert_in_range(t.result.nr_resumed, 0, NR_NAMES);
			/* Only what a thread had begun, and not what was given to others. A thread
			 * that the system stopped within the root had begun everything below it. */
			assert_in_range(t.result.nr_repeated, 0, NR_NAMES);
			all_again += t.result.nr_repeated > begun;
			resumed += t.result.nr_resumed;
			check_catalog();
		}
	assert_true(resumed > NR_NAMES); /* of 16 listings */
	assert_in_range(all_again, 0, 4);
}

/* Each time by another number, until it comes to its end. */
static void it_may_be_interrupted_again_and_again(void **state)
{
	uint64_t nr_repeated = 0;

	(void)state;
	for (int round = 0; round < 5; round++) {
		int nr = 3;

		interrupt(nr);
		for (int times = 0;; times++) {
			struct rank_thread t;

			nr = 1 + (nr + times) % 5;
			t = list(nr, times < 6 ? 8000 : 0);
			if (t.rc < 0) {
				assert_true(count_left() >= 2);
				continue;
			}
			nr_repeated += t.result.nr_repeated;
			assert_int_equal(t.result.nr_names, NR_NAMES);
			check_catalog();
			break;
		}
	}
	assert_true(nr_repeated < 5 * NR_NAMES);
}

/* What is begun and not finished counts each time: together that may be more than there is. */
static void no_more_names_are_resumed_than_there_are(void **state)
{
	struct buf b = { .max = 1u << 24 };
	const uint8_t *rest;
	struct span s;
	struct rank_thread t;
	uint8_t *bytes;
	size_t len;
	struct le64 sum;

	(void)state;
	interrupt(1);
	bytes = file_read(test_path(".c.resume"), &len);
	s = (struct span){ .p = bytes + 8, .end = bytes + len - 8 };
	buf_append(&b, bytes, 8);
	buf_varint(&b, span_varint(&s));
	assert_true(span_varint(&s) <= NR_NAMES);
	buf_varint(&b, 7 * NR_NAMES);
	rest = s.p;
	buf_append(&b, rest, (size_t)(s.end - rest));
	sum = le64_of(XXH3_64bits(b.data, b.len));
	buf_append(&b, &sum, sizeof(sum));
	assert_int_equal(b.rc, 0);
	file_write(test_path(".c.resume"), b.data, b.len);
	t = list(1, 0);
	assert_int_equal(t.result.nr_names, NR_NAMES);
	assert_int_equal(t.result.nr_resumed, NR_NAMES);
	check_catalog();
	buf_release(&b);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fresh_listing_leaves_nothing),
		cmocka_unit_test(any_number_of_ranks_goes_on),
		cmocka_unit_test(it_may_be_interrupted_again_and_again),
		cmocka_unit_test(no_more_names_are_resumed_than_there_are),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
