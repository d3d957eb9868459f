/* Goal: whatever call of the storage fails, what is there is whole, the error is told, and resume
 * completes it. */
#include "datagen/datagen.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_private.h"
#include "help.h"
#include "stack.h"
#include "thread_transport.h"

#define NR_FILES 14

static const char yaml[] = "dataset:\n"
			   "  format: indexed_binary\n"
			   "  num_files_train: 11\n"
			   "  num_files_eval: 3\n"
			   "  num_samples_per_file: 2\n"
			   "  record_length_bytes: 3000\n"
			   "  record_length_bytes_stdev: 300\n"
			   "  num_subfolders_train: 2\n";

static struct workload *load(void)
{
	struct workload *w = NULL;
	struct shoal_err err = { "" };

	if (workload_parse(yaml, strlen(yaml), "test", NULL, 0, NULL, NULL, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static int generate(struct store *store, enum datagen_mode mode, unsigned threads,
		    struct datagen_result *r, struct shoal_err *err)
{
	struct workload *w = load();
	struct comm *comm = NULL;
	struct datagen_options o = {
		.data = test_dir(),
		.store = store,
		.mode = mode,
		.check_all = true,
		.catalog = "",
		.nr_threads = threads,
	};
	int rc;

	assert_int_equal(comm_self(&comm, NULL), 0);
	rc = datagen_execute(comm, w, &o, r, err);
	comm_close(comm);
	workload_free(w);
	return rc;
}

static struct store *posix_store(void)
{
	struct store *s = NULL;

	assert_int_equal(store_open(test_dir(), NULL, &s, NULL), 0);
	return s;
}

/* The test folder, with what is in it. */
static void empty(void)
{
	char command[600];

	snprintf(command, sizeof(command), "cd '%s' && rm -rf train valid .shoal-dataset",
		 test_dir());
	assert_int_equal(system(command), 0);
	assert_int_equal(test_dir_count(), 0);
}

static void no_leftovers(void)
{
	char command[600];

	snprintf(command, sizeof(command), "test -z \"$(find '%s' -name '*.partial')\"",
		 test_dir());
	assert_int_equal(system(command), 0);
}

static void threads_write_all_of_it_and_it_is_good(void **state)
{
	static const unsigned threads[] = { 1, 2, 7, 64 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		struct datagen_result r;

		assert_int_equal(generate(NULL, DATAGEN_WRITE, threads[i], &r, NULL), 0);
		assert_int_equal(r.counts.nr_written, NR_FILES);
		assert_int_equal(r.nr_threads, threads[i]);
		assert_int_equal(generate(NULL, DATAGEN_VERIFY, threads[i], &r, NULL), 0);
		assert_int_equal(r.counts.nr_good, NR_FILES);
		assert_int_equal(r.counts.nr_compared, NR_FILES);
		empty();
	}
}

/* What a killed run may have left. */
static void leave_two(void)
{
	char command[600];

	snprintf(command, sizeof(command),
		 "cd '%s' && touch train/0/.a.1.partial valid/.b.2.partial", test_dir());
	assert_int_equal(system(command), 0);
}

/* With one call of @op failing, the first, the second...: until none fails any more. */
static void sweep(enum store_op op, enum datagen_mode mode)
{
	for (uint64_t nth = 1;; nth++) {
		struct store_fault fault = { .op = op, .nth = nth, .count = 1, .rc = -EIO };
		struct datagen_result r;
		struct shoal_err err = { "" };
		struct store *store = NULL;
		uint64_t fired;
		int rc;

		if (mode == DATAGEN_RESUME) {
			assert_int_equal(generate(NULL, DATAGEN_WRITE, 1, &r, NULL), 0);
			leave_two();
		}
		assert_int_equal(store_fault_new(posix_store(), &fault, 1, &store, NULL), 0);
		rc = generate(store, mode, 3, &r, &err);
		fired = store_fault_fired(store);
		store_close(store);
		if (mode == DATAGEN_WRITE || !fired)
			no_leftovers();
		if (!fired) {
			assert_int_equal(rc, 0);
			empty();
			return;
		}
		assert_int_equal(rc, -EIO);
		assert_true(err.msg[0] != '\0');
		assert_int_equal(generate(NULL, DATAGEN_RESUME, 2, &r, &err), 0);
		assert_int_equal(r.counts.nr_damaged + r.counts.nr_resized, 0);
		assert_int_equal(r.counts.nr_good + r.counts.nr_written, NR_FILES);
		no_leftovers();
		empty();
	}
}

static void any_call_that_fails_is_told_and_nothing_is_half(void **state)
{
	(void)state;
	sweep(STORE_CREATE, DATAGEN_WRITE);
	sweep(STORE_WRITE, DATAGEN_WRITE);
	sweep(STORE_COMMIT, DATAGEN_WRITE);
	sweep(STORE_STAT, DATAGEN_WRITE);
	sweep(STORE_SYNC, DATAGEN_WRITE);
	sweep(STORE_READ, DATAGEN_RESUME);
	sweep(STORE_STAT, DATAGEN_RESUME);
	sweep(STORE_LIST, DATAGEN_RESUME);
	sweep(STORE_REMOVE, DATAGEN_RESUME);
}

/* A catalog says that all is there: none when that may not be so after a power cut. */
static void files_are_synced_before_the_catalog_is_sealed(void **state)
{
	struct store_fault fault = { .op = STORE_SYNC, .nth = 1, .count = 1, .rc = -EIO };
	struct store *store = NULL;
	struct workload *w = load();
	struct comm *comm = NULL;
	struct datagen_result r;
	struct datagen_options o = { .data = test_dir(), .nr_threads = 2 };

	(void)state;
	assert_int_equal(store_fault_new(posix_store(), &fault, 1, &store, NULL), 0);
	o.store = store;
	o.catalog = test_path("c.shoal");
	assert_int_equal(comm_self(&comm, NULL), 0);
	assert_int_equal(datagen_execute(comm, w, &o, &r, NULL), -EIO);
	assert_int_equal(store_fault_fired(store), 1);
	assert_int_equal(r.counts.nr_written, NR_FILES);
	assert_int_equal(access(test_path("c.shoal"), F_OK), -1);
	comm_close(comm); /* it has heard of the failure */
	assert_int_equal(comm_self(&comm, NULL), 0);
	o.mode = DATAGEN_RESUME;
	o.no_sync = true;
	assert_int_equal(datagen_execute(comm, w, &o, &r, NULL), 0);
	assert_int_equal(access(test_path("c.shoal"), F_OK), 0);
	store_close(store);
	comm_close(comm);
	workload_free(w);
	unlink(test_path("c.shoal"));
	unlink(test_path("c-train.shoal"));
	unlink(test_path("c-valid.shoal"));
	empty();
}

static int sync_slowly(struct store *s, struct shoal_err *err)
{
	(void)s;
	(void)err;
	usleep(100000);
	return 0;
}

/* Files that are in memory only are not written yet, and their speed is not the storage's. */
static void the_time_of_the_sync_is_in_that_of_the_files(void **state)
{
	struct store *store = posix_store();
	struct store_ops slow = *store->ops;
	struct workload *w = load();
	struct comm *comm = NULL;
	struct datagen_options o = { .data = test_dir(), .catalog = "", .store = store };
	struct datagen_result r;

	(void)state;
	slow.sync = sync_slowly;
	store->ops = &slow;
	assert_int_equal(comm_self(&comm, NULL), 0);
	assert_int_equal(datagen_execute(comm, w, &o, &r, NULL), 0);
	assert_true(r.sync_seconds >= 0.1 && r.seconds > r.sync_seconds);
	o.force = true;
	o.no_sync = true;
	assert_int_equal(datagen_execute(comm, w, &o, &r, NULL), 0);
	assert_true(r.sync_seconds <= 0 && r.seconds > 0);
	comm_close(comm);
	store_close(store);
	workload_free(w);
	empty();
}

static void a_file_that_reads_short_is_damaged(void **state)
{
	struct store_fault fault = { .op = STORE_READ, .nth = 4, .count = 1, .short_by = 1 };
	struct store *store = NULL;
	struct datagen_result r;

	(void)state;
	assert_int_equal(generate(NULL, DATAGEN_WRITE, 2, &r, NULL), 0);
	assert_int_equal(store_fault_new(posix_store(), &fault, 1, &store, NULL), 0);
	assert_int_equal(generate(store, DATAGEN_VERIFY, 2, &r, NULL), 0);
	assert_int_equal(r.counts.nr_damaged, 1);
	assert_int_equal(r.counts.nr_good, NR_FILES - 1);
	store_close(store);
	empty();
}

static void a_stop_ends_it(void **state)
{
	int stop = 1;
	struct workload *w = load();
	struct comm *comm = NULL;
	struct datagen_result r;
	struct datagen_options o = {
		.data = test_dir(), .catalog = "", .nr_threads = 2, .stop = &stop
	};

	(void)state;
	assert_int_equal(comm_self(&comm, NULL), 0);
	assert_int_equal(datagen_execute(comm, w, &o, &r, NULL), -ECANCELED);
	assert_int_equal(r.counts.nr_written, 0);
	comm_close(comm);
	workload_free(w);
	no_leftovers();
	empty();
}

/* ---- Ranks, which are threads here: see thread_transport.h ---- */

/* Large enough for several writes, so that a file is under way for a while. */
static const char large_yaml[] = "dataset:\n"
				 "  format: npy\n"
				 "  num_files_train: 2\n"
				 "  record_length_bytes: 9000000\n";

struct rank {
	pthread_t thread;
	struct thread_rank *place;
	struct store *store;
	struct workload *w;
	struct datagen_result result;
	struct shoal_err err;
	int rc;
};

static void *resume_as_rank(void *arg)
{
	struct rank *r = arg;
	struct comm *comm = NULL;
	struct datagen_options o = { .data = test_dir(),
				     .store = r->store,
				     .mode = DATAGEN_RESUME,
				     .catalog = "",
				     .nr_threads = 1 };

	r->rc = comm_open_transport(&thread_transport, r->place, &comm, &r->err);
	if (r->rc == 0)
		r->rc = datagen_execute(comm, r->w, &o, &r->result, &r->err);
	comm_close(comm);
	return NULL;
}

static struct workload *load_large(void)
{
	struct workload *w = NULL;
	struct shoal_err err = { "" };

	if (workload_parse(large_yaml, strlen(large_yaml), "test", NULL, 0, NULL, NULL, &w, &err) <
	    0)
		fail_msg("%s", err.msg);
	return w;
}

/* Resume by two ranks, each on its store. */
static void resume_by_two(struct rank rank[2])
{
	struct thread_world world;

	thread_world_init(&world, 2, 2, 1 << 16);
	for (int i = 0; i < 2; i++) {
		rank[i].place = &world.rank[i];
		rank[i].w = load_large();
		assert_int_equal(pthread_create(&rank[i].thread, NULL, resume_as_rank, &rank[i]),
				 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(rank[i].thread, NULL);
		workload_free(rank[i].w);
		store_close(rank[i].store);
	}
	thread_world_release(&world);
}

static void make_folder_with_a_leftover(void)
{
	char command[600];

	snprintf(command, sizeof(command), "cd '%s' && mkdir train && touch train/.img.1.partial",
		 test_dir());
	assert_int_equal(system(command), 0);
}

/*
 * Rank 0 looks for leftovers while rank 1, which has no folder to look into, would be in the middle
 * of a file. Milliseconds after the place is open: rank 0 lists at 220, and removes at 330 and 440;
 * rank 1 has a file under way from 160 to 560.
 */
static void no_rank_takes_another_ranks_file_for_a_leftover(void **state)
{
	static const uint64_t delay_us[2] = { 110000, 40000 };
	struct rank rank[2] = { 0 };

	(void)state;
	make_folder_with_a_leftover();
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_delay_new(posix_store(), delay_us[i], &rank[i].store, NULL),
				 0);
	resume_by_two(rank);
	for (int i = 0; i < 2; i++) {
		if (rank[i].rc < 0)
			fail_msg("rank %d: %s", i, rank[i].err.msg);
		assert_int_equal(rank[i].result.counts.nr_leftovers, 1);
		assert_int_equal(rank[i].result.counts.nr_written, 2);
	}
	no_leftovers();
	empty();
}

/* A rank that waits for the others to have looked hears that one could not. */
static void a_rank_that_cannot_look_for_leftovers_ends_all(void **state)
{
	/* The first look is whose files they are; the second is for leftovers. */
	struct store_fault fault = { .op = STORE_LIST, .nth = 2, .count = 1, .rc = -EIO };
	struct rank rank[2] = { 0 };

	(void)state;
	make_folder_with_a_leftover();
	assert_int_equal(store_fault_new(posix_store(), &fault, 1, &rank[0].store, NULL), 0);
	rank[1].store = posix_store();
	resume_by_two(rank);
	assert_int_equal(rank[0].rc, -EIO);
	assert_int_equal(rank[1].rc, -EREMOTEIO);
	assert_true(strstr(rank[1].err.msg, "listing number 2 fails on purpose") != NULL);
	assert_int_equal(rank[1].result.counts.nr_written, 0);
	empty();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_write_all_of_it_and_it_is_good),
		cmocka_unit_test(any_call_that_fails_is_told_and_nothing_is_half),
		cmocka_unit_test(a_file_that_reads_short_is_damaged),
		cmocka_unit_test(files_are_synced_before_the_catalog_is_sealed),
		cmocka_unit_test(the_time_of_the_sync_is_in_that_of_the_files),
		cmocka_unit_test(a_stop_ends_it),
		cmocka_unit_test(no_rank_takes_another_ranks_file_for_a_leftover),
		cmocka_unit_test(a_rank_that_cannot_look_for_leftovers_ends_all),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
