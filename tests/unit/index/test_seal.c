/*
 * Goal: however many ranges of names are sealed at the same time, the catalog is the same file,
 * with each name once and as many repeated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/digest.h"
#include "help.h"
#include "index/job.h"

#define NR_CUTS 12u

#define CUT_SIZE 4242u

/* Names of many folders, among them some that the catalog is cut before. */
static struct test_list names_with_cuts(void)
{
	struct test_list l = { 0 };
	struct cat_digest d = { .nr_files = 0 };
	char name[64];

	for (size_t i = 0; i < 60000; i++)
		list_addf(&l, "d%02zu/%08x", i * 7 % 40, (unsigned)random_u64());
	list_add_irregular(&l, "d20/x", 6000);
	for (unsigned cut = 0, i = 0; cut < NR_CUTS; i++) {
		int n = snprintf(name, sizeof(name), "d%02u/cut%u", cut * 3, i);

		if (!cat_digest_add(&d, name, (size_t)n, CUT_SIZE, 1))
			continue;
		list_add(&l, name, (size_t)n, 0, 0);
		cut++;
	}
	list_sort(&l);
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = strstr(l.entry[i].name, "/cut") ? CUT_SIZE : i * 31 % 5000;
		l.entry[i].samples = 1;
	}
	return l;
}

/* The catalog of these names, every tenth of which is added twice. */
static uint8_t *seal(const struct test_list *l, unsigned nr_ranges, uint64_t memory,
		     size_t *ret_len)
{
	struct sort_limits limits = { .nr_max = nr_ranges, .least = 1, .range_memory = 1 };
	char output[256];
	struct shoal_index_options o = { .output = output, .memory = memory };
	struct index_job j = { .options = &o, .root.uri = TEST_ROOT, .seal_limits = &limits };
	struct shoal_index_result result = { 0 };
	struct shoal_err err = { "" };
	uint8_t *bytes;

	snprintf(output, sizeof(output), "%s", test_path("sealed.cat"));
	if (index_job_open(&j, /* sizes= */ true, /* samples= */ false, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < l->nr + l->nr / 10; i++) {
		size_t k = i < l->nr ? i * 7919 % l->nr : (i - l->nr) * 10; /* in no order */
		const struct test_entry *e = &l->entry[k];
		struct index_record r = { .size = e->size, .samples = 1 };

		assert_int_equal(index_job_add(&j, e->name, e->len, &r, &err), 0);
	}
	if (index_job_finish(&j, &result, &err) < 0)
		fail_msg("%u ranges: %s", nr_ranges, err.msg);
	index_job_release(&j);
	assert_int_equal(result.nr_sealers, nr_ranges);
	assert_int_equal(result.nr_names, l->nr);
	assert_int_equal(result.nr_repeated, l->nr / 10);
	bytes = file_read(output, ret_len);
	unlink(output);
	return bytes;
}

static void any_number_of_ranges_makes_the_same_file(void **state)
{
	struct test_list l = names_with_cuts();
	size_t len, whole_len;
	uint8_t *whole = seal(&l, 1, 0, &whole_len), *bytes;
	struct shoal_catalog *cat = NULL;

	(void)state;
	assert_int_not_equal(l.nr % 7919, 0);
	for (unsigned nr = 2; nr <= 9; nr++) {
		bytes = seal(&l, nr, 0, &len);
		assert_int_equal(len, whole_len);
		assert_memory_equal(bytes, whole, len);
		free(bytes);
	}
	assert_int_equal(image_open(whole, whole_len, &cat, NULL), 0);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	free(whole);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_ranges_makes_the_same_file),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
