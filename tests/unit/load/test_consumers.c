/* Goal: several threads that take the batches of one epoch get each of them once, and all learn of
 * its end, or of its error. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "load/audit.h"
#include "load/loader.h"

#define THREADS 4
#define FILES   3000

static struct shoal_loader *loader;
static atomic_uint times[FILES]; /* how often each sample came */
static atomic_uint takers;       /* threads that got a batch of this epoch */

static void *take(void *arg)
{
	const struct shoal_batch *b;
	struct shoal_err err = { "" };
	unsigned nr = 0;
	int *ret_rc = arg;

	while ((*ret_rc = shoal_loader_next(loader, &b, &err)) == 1) {
		for (size_t i = 0; i < b->nr; i++)
			times[b->sample[i].id]++;
		nr++;
		shoal_loader_give_back(loader, b);
	}
	takers += nr > 0;
	return NULL;
}

/* What the threads got at last. */
static void take_all(uint64_t epoch, int ret_rc[THREADS])
{
	pthread_t thread[THREADS];

	takers = 0;
	assert_int_equal(shoal_loader_epoch(loader, epoch, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take, &ret_rc[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static struct shoal_catalog *catalog_of_files(void)
{
	struct test_list list = { 0 };
	struct shoal_catalog *cat;

	for (size_t i = 0; i < FILES; i++)
		list_addf(&list, "%04zu", i);
	for (size_t i = 0; i < list.nr; i++)
		list.entry[i].size = 100;
	cat = catalog_of(&list, true, 1);
	list_release(&list);
	return cat;
}

static void open_loader(const struct shoal_catalog *cat, const char *store)
{
	struct shoal_order_spec spec = {
		.nr_samples = FILES, .nr_ranks = 1, .batch = 7, .remainder = SHOAL_KEEP
	};
	struct shoal_load_options o = { .store = store, .prefetch = THREADS, .in_flight = 8 };
	struct shoal_err err = { "" };

	if (shoal_loader_open(cat, &spec, 0, &o, &loader, &err) < 0)
		fail_msg("%s", err.msg);
}

static void each_batch_goes_to_one_thread_and_all_learn_of_the_end(void **state)
{
	struct shoal_catalog *cat = catalog_of_files();
	struct shoal_load_stats s;
	int rc[THREADS];

	(void)state;
	open_loader(cat, "null:size=100,delay_us=20");
	for (unsigned epoch = 1; epoch <= 5; epoch++) {
		struct load_sums want;

		take_all(epoch, rc);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(rc[i], 0);
		for (size_t i = 0; i < FILES; i++)
			assert_int_equal(times[i], epoch);
		assert_in_range(takers, 1, THREADS);
		shoal_loader_stats(loader, &s);
		assert_int_equal(s.nr_samples, FILES);
		assert_int_equal(load_sums_expect(load_order(loader),
						  shoal_order_steps(load_order(loader)), 0, &want,
						  NULL),
				 0);
		assert_memory_equal(s.sum_ids, want.ids, sizeof(want.ids));
	}
	loader = shoal_loader_close(loader);
	shoal_catalog_close(cat);
}

static void an_error_ends_the_epoch_for_all_threads(void **state)
{
	struct shoal_catalog *cat = catalog_of_files();
	int rc[THREADS];

	(void)state;
	open_loader(cat, test_dir()); /* where these files are not */
	take_all(1, rc);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(rc[i], -ENOENT);
	loader = shoal_loader_close(loader);
	shoal_catalog_close(cat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_batch_goes_to_one_thread_and_all_learn_of_the_end),
		cmocka_unit_test(an_error_ends_the_epoch_for_all_threads),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
