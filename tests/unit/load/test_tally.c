/*
 * Goal: what all ranks have read is added up, and is proof only if it is all that was expected,
 * once.
 *
 * Ranks are threads, see ranks.h.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "help.h"
#include "load/tally.h"
#include "ranks.h"

#define FILES 100u
#define BATCH 7u
#define RANKS 3

static struct shoal_catalog *cat;

static int open_catalog(void **state)
{
	struct test_list l = { 0 };

	if (test_dir_make(state) < 0)
		return -1;
	for (unsigned i = 0; i < FILES; i++)
		list_addf(&l, "f%03u", i);
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = 10;
		l.entry[i].samples = 1;
	}
	cat = catalog_of(&l, true, 1);
	list_release(&l);
	return 0;
}

static int close_catalog(void **state)
{
	cat = shoal_catalog_close(cat);
	return test_dir_remove(state);
}

/* ---- Over ranks ---- */

/* What rank 0 does otherwise than the others. */
static enum { AS_EXPECTED, ONE_STEP_LESS, CLAIMS_MORE_THAN_THERE_IS, CANNOT_READ_ALL } odd;

static struct shoal_loader *loader_of_rank(int rank)
{
	const struct shoal_order_spec spec = { .mode = SHOAL_GLOBAL,
					       .remainder = SHOAL_KEEP,
					       .seed = 3,
					       .nr_samples = FILES,
					       .nr_ranks = RANKS,
					       .batch = BATCH };
	/* Files that are not there, so that each sample is an error; or those of a null store. */
	bool fails = odd == CANNOT_READ_ALL && rank == 0;
	struct shoal_load_options o = { .store = fails ? test_dir() : "null:size=10",
					.skip_errors = true };
	struct shoal_loader *l = NULL;
	struct shoal_err err = { "" };

	CHECK_ERR(shoal_loader_open(cat, &spec, (uint64_t)rank, &o, &l, &err) == 0, err);
	CHECK(l && shoal_loader_epoch(l, 0, &err) == 0);
	return l;
}

static void read_and_add_up(struct comm *c, int rank, int size)
{
	struct shoal_loader *l = loader_of_rank(rank);
	struct load_tally t = { .cpu_ns = 1000, .bytes_device = (uint64_t)rank };
	const struct shoal_batch *b;
	struct shoal_err err = { "" };
	uint64_t steps = 0, due = 5; /* of 21 samples, the last of 16 */
	int rc;

	CHECK(size == RANKS);
	while (l && !(odd == ONE_STEP_LESS && rank == 0 && steps == due - 1) &&
	       shoal_loader_next(l, &b, &err) == 1) {
		load_tally_batch(&t, b);
		shoal_loader_give_back(l, b);
		steps++;
	}
	rc = load_tally_add_up(&t, c, l, rank == 0 && odd == CLAIMS_MORE_THAN_THERE_IS ? 99 : due,
			       &err);
	shoal_loader_close(l);
	if (odd == CLAIMS_MORE_THAN_THERE_IS) { /* ends all, and rank 0 has its own words */
		CHECK_ERR(rank == 0 ? rc < 0 && rc != -EREMOTEIO : rc == -EREMOTEIO, err);
		CHECK_ERR(strstr(err.msg, "cannot compute the expected epoch") != NULL, err);
		return;
	}
	CHECK_ERR(rc == 0, err);
	CHECK(t.nr_expected == FILES && t.cpu_ns == 1000 * RANKS && t.bytes_device == 0 + 1 + 2);
	CHECK(load_tally_exactly_once(&t) == (odd == AS_EXPECTED));
	if (odd == AS_EXPECTED) {
		CHECK(t.samples == FILES && t.errors == 0);
		CHECK(t.bytes_asked == FILES * 10 && t.bytes_delivered == FILES * 10);
		uint64_t nr = 0;

		for (size_t i = 0; i < ARRAY_LEN(t.latency.count); i++)
			nr += t.latency.count[i];
		CHECK(nr == FILES && t.latency_ns > 0);
	} else if (odd == CANNOT_READ_ALL) {
		CHECK(t.errors > 0 && t.samples + t.errors == FILES);
	} else {
		CHECK(t.samples < FILES && t.errors == 0);
	}
}

static void run_all(void)
{
	struct thread_world w;

	thread_world_init(&w, RANKS, 2, 0);
	assert_int_equal(ranks_run(&w, read_and_add_up), 0);
	thread_world_release(&w);
}

static void the_tallies_of_all_ranks_are_added_up_and_prove_the_epoch(void **state)
{
	(void)state;
	odd = AS_EXPECTED;
	run_all();
}

static void samples_that_one_rank_lacks_or_cannot_read_are_missing_in_the_proof(void **state)
{
	(void)state;
	odd = ONE_STEP_LESS;
	run_all();
	odd = CANNOT_READ_ALL;
	run_all();
}

static void a_rank_whose_part_cannot_be_computed_fails_all(void **state)
{
	(void)state;
	odd = CLAIMS_MORE_THAN_THERE_IS;
	run_all();
}

/* ---- The verdict ---- */

static void any_difference_from_what_is_expected_is_no_proof(void **state)
{
	const struct load_tally good = {
		.samples = 5, .nr_expected = 5, .got = { 1, 2, 3, 4 }, .expected = { 1, 2 }
	};
	struct load_tally t = good;

	(void)state;
	assert_true(load_tally_exactly_once(&t));
	t.got[2] = 9; /* the order is not part of it */
	assert_true(load_tally_exactly_once(&t));
	t = good;
	t.got[0] ^= 1;
	assert_false(load_tally_exactly_once(&t));
	t = good;
	t.got[1] ^= UINT64_C(1) << 63;
	assert_false(load_tally_exactly_once(&t));
	t = good;
	t.samples++;
	assert_false(load_tally_exactly_once(&t));
	t = good;
	t.errors = 1;
	assert_false(load_tally_exactly_once(&t));
}

/* ---- The page cache ---- */

static void the_share_in_memory_is_from_devices_if_these_are_known(void **state)
{
	static const struct {
		uint64_t samples, delivered, device, nr_pages, nr_cached;
		double per_file;
		bool known;
		double share; /* NAN: unknown */
	} row[] = {
		{ 10, 1000000, 0, 0, 0, 1, true, 1 },
		{ 10, 1000000, 250000, 8, 8, 1, true, 0.75 },
		{ 10, 1000000, 1000000, 0, 0, 1, true, 0 },
		{ 10, 1000000, 3000000, 0, 0, 1, true, 0 }, /* readahead of other files */
		{ 10, 1000, 20480, 0, 0, 1, true, 0.5 },    /* small files: a page each */
		{ 10, 1000, 5120, 0, 0, 4, true, 0.5 },     /* which four samples share */
		{ 10, 1000000, 250000, 8, 2, 1, false, 0.25 },
		{ 10, 1000000, 250000, 0, 0, 1, false, (double)NAN },
		{ 0, 0, 0, 4, 3, 1, true, 0.75 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct load_tally t = { .samples = row[i].samples,
					.bytes_delivered = row[i].delivered,
					.bytes_device = row[i].device,
					.nr_pages = row[i].nr_pages,
					.nr_cached = row[i].nr_cached };
		double share = load_cached_share(&t, row[i].known, row[i].per_file);

		if (isnan(row[i].share) ? !isnan(share) : fabs(share - row[i].share) > 1e-12)
			fail_msg("row %zu: %g", i, share);
	}
}

static void devices_are_known_of_file_systems_that_read_in_the_process(void **state)
{
	(void)state;
	assert_false(load_device_known("/proc"));
	assert_false(load_device_known("null:size=1"));
	assert_false(load_device_known(test_path("missing")));
	assert_true(load_device_known("/dev/shm")); /* in memory anyway */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tallies_of_all_ranks_are_added_up_and_prove_the_epoch),
		cmocka_unit_test(
			samples_that_one_rank_lacks_or_cannot_read_are_missing_in_the_proof),
		cmocka_unit_test(a_rank_whose_part_cannot_be_computed_fails_all),
		cmocka_unit_test(any_difference_from_what_is_expected_is_no_proof),
		cmocka_unit_test(the_share_in_memory_is_from_devices_if_these_are_known),
		cmocka_unit_test(devices_are_known_of_file_systems_that_read_in_the_process),
	};

	return cmocka_run_group_tests(tests, open_catalog, close_catalog);
}
