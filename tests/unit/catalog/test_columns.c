/*
 * Goal: sizes and samples come back exactly, sums and all, however they are cut into runs and
 * blocks; and none that cannot be added up is taken.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "help.h"

static struct test_list names_of(size_t nr)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < nr; i++)
		list_addf(&l, "%07zu", i);
	return l;
}

static uint64_t nr_runs(const struct shoal_catalog *cat, enum cat_section_id runs)
{
	return cat->view.sec[runs].len / sizeof(struct cat_run);
}

/* Every size and every sum; every sample when there are few. */
/* The number of samples that all files have, 0 when they differ. */
static uint64_t common_samples(const struct test_list *l)
{
	for (size_t i = 1; i < l->nr; i++)
		if (l->entry[i].samples != l->entry[0].samples)
			return 0;
	return l->nr ? l->entry[0].samples : 0;
}

static void check_columns(const struct test_list *l, bool sizes, uint64_t samples_per_file)
{
	struct shoal_catalog *cat = catalog_of(l, sizes, samples_per_file);
	uint64_t bytes = 0, first = 0, x, y;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };

	for (size_t i = 0; i < l->nr; i++) {
		uint64_t want = samples_per_file ? samples_per_file : l->entry[i].samples;

		assert_int_equal(shoal_catalog_size(cat, i, &x), 0);
		assert_int_equal(x, sizes ? l->entry[i].size : SHOAL_SIZE_UNKNOWN);
		assert_int_equal(shoal_catalog_samples(cat, i, &x, &y), 0);
		assert_int_equal(x, first);
		assert_int_equal(y, want);
		for (uint64_t part = 0; part < 4 && want > 0; part++) {
			uint64_t k = part == 3 ? want - 1 : want / 3 * part;

			assert_int_equal(shoal_catalog_locate(cat, first + k, &x, &y), 0);
			assert_int_equal(x, i);
			assert_int_equal(y, k);
		}
		bytes += l->entry[i].size;
		first += want;
	}
	shoal_catalog_info(cat, &info);
	assert_int_equal(info.nr_bytes, sizes ? bytes : SHOAL_SIZE_UNKNOWN);
	assert_int_equal(info.nr_samples, first);
	/* A column of equal numbers becomes the header's, whoever gave them. */
	assert_int_equal(info.samples_per_file,
			 samples_per_file ? samples_per_file : common_samples(l));
	assert_int_equal(shoal_catalog_locate(cat, first, &x, &y), -ERANGE);
	assert_int_equal(shoal_catalog_locate(cat, UINT64_MAX, &x, &y), -ERANGE);
	if (shoal_catalog_verify(cat, &err) < 0)
		fail_msg("%s", err.msg);
	shoal_catalog_close(cat);
}

static void sizes_of_any_width_come_back(void **state)
{
	static const size_t nr[] = { 1, 2, 255, 256, 257, 511, 512, 513, 5000 };

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(nr); k++)
		for (unsigned bits = 0; bits <= 48; bits += bits < 8 ? 1 : 7) {
			struct test_list l = names_of(nr[k]);

			for (size_t i = 0; i < l.nr; i++) {
				l.entry[i].size = random_u64() & ((UINT64_C(1) << bits) - 1);
				l.entry[i].samples = random_below(3);
			}
			check_columns(&l, true, 0);
			check_columns(&l, false, 7);
			list_release(&l);
		}
}

/* A run of equal values is worth a run of its own from 4096 on; and the whole column always. */
static void equal_values_become_a_run_of_their_own(void **state)
{
	static const struct {
		size_t before, equal, after;
		uint64_t runs;
	} row[] = {
		{ 0, 1, 0, 1 },        { 0, 300, 0, 1 },      { 0, 4095, 1, 1 },
		{ 0, 4096, 1, 2 },     { 0, 4097, 1, 2 },     { 1, 4095, 0, 1 },
		{ 1, 4096, 0, 2 },     { 1, 4096, 1, 3 },     { 256, 4096, 256, 3 },
		{ 255, 4096, 257, 3 }, { 300, 5000, 300, 3 },
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(row); k++) {
		struct test_list l = names_of(row[k].before + row[k].equal + row[k].after);
		struct shoal_catalog *cat;

		for (size_t i = 0; i < l.nr; i++) {
			bool equal = i >= row[k].before && i < row[k].before + row[k].equal;

			l.entry[i].size = equal ? 150000 : 1000 + i % 7;
			l.entry[i].samples = equal ? 0 : 2 + i % 3; /* a long run of empty files */
		}
		check_columns(&l, true, 0);
		cat = catalog_of(&l, true, 0);
		assert_int_equal(nr_runs(cat, CAT_SZRN), row[k].runs);
		assert_int_equal(nr_runs(cat, CAT_SMRN), row[k].runs);
		shoal_catalog_close(cat);
		list_release(&l);
	}
}

static void files_without_samples_are_stepped_over(void **state)
{
	(void)state;
	for (int shape = 0; shape < 4; shape++) {
		struct test_list l = names_of(3000);

		for (size_t i = 0; i < l.nr; i++)
			l.entry[i].samples = shape == 0   ? 0
					     : shape == 1 ? i == 2999
					     : shape == 2 ? i == 0
							  : (i % 700 == 5) * 1000;
		check_columns(&l, false, 0);
		list_release(&l);
	}
}

static void sizes_up_to_the_largest_sum_are_taken_and_no_more(void **state)
{
	static const struct {
		uint64_t size[3];
		int want; /* for the last of them */
	} row[] = {
		{ { UINT64_C(1) << 63, 0, (UINT64_C(1) << 63) - 2 }, 0 },
		{ { UINT64_C(1) << 63, 0, (UINT64_C(1) << 63) - 1 }, -EOVERFLOW },
		{ { UINT64_C(1) << 63, 0, UINT64_C(1) << 63 }, -EOVERFLOW },
		{ { 0, 0, UINT64_MAX - 1 }, 0 },
		{ { 0, 0, UINT64_MAX }, -EOVERFLOW },
		{ { 1, UINT64_MAX - 2, 0 }, 0 },
		{ { 1, UINT64_MAX - 2, 1 }, -EOVERFLOW },
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(row); k++)
		for (int samples = 0; samples < 2; samples++) {
			struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
			struct shoal_writer *w = NULL;
			struct shoal_err err = { "" };
			struct test_list l = names_of(3);

			for (size_t i = 0; i < 3; i++) {
				l.entry[i].size = samples ? i : row[k].size[i];
				l.entry[i].samples = samples ? row[k].size[i] : i;
			}
			if (row[k].want == 0)
				check_columns(&l, true, 0);
			assert_int_equal(shoal_writer_open(test_path("o.cat"), &options, &w, &err),
					 0);
			for (size_t i = 0; i < 3; i++) {
				const struct test_entry *e = &l.entry[i];

				assert_int_equal(shoal_writer_add(w, e->name, e->len, e->size,
								  e->samples, &err),
						 i < 2 ? 0 : row[k].want);
			}
			if (row[k].want < 0)
				assert_non_null(strstr(err.msg, "2^64"));
			shoal_writer_abort(w);
			list_release(&l);
		}
}

/* What was refused after the writer had begun with it leaves no writer that could be sealed. */
static void a_writer_that_failed_is_not_sealed(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("o.cat"), &options, &w, &err), 0);
	assert_int_equal(shoal_writer_add(w, "a", 1, UINT64_MAX - 1, 1, &err), 0);
	assert_int_equal(shoal_writer_add(w, "b", 1, 1, 1, &err), -EOVERFLOW);
	err.msg[0] = '\0';
	assert_int_equal(shoal_writer_add(w, "c", 1, 0, 1, &err), -EOVERFLOW);
	assert_string_not_equal(err.msg, "");
	err.msg[0] = '\0';
	assert_int_equal(shoal_writer_seal(w, &err), -EOVERFLOW);
	assert_string_not_equal(err.msg, "");
	assert_int_equal(test_dir_count(), 0);
}

static void a_constant_number_of_samples_needs_no_column(void **state)
{
	static const uint64_t per_file[] = { 1, 2, 1000, UINT64_MAX / 300 };

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(per_file); k++) {
		struct test_list l = names_of(300);
		struct shoal_catalog *cat;

		check_columns(&l, true, per_file[k]);
		cat = catalog_of(&l, true, per_file[k]);
		assert_int_equal(cat->view.sec[CAT_SMRN].len, 0);
		shoal_catalog_close(cat);
		list_release(&l);
	}
}

static void more_samples_than_64_bits_count_are_refused(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT,
						.samples_per_file = UINT64_MAX / 2 };
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("o.cat"), &options, &w, &err), 0);
	assert_int_equal(shoal_writer_add(w, "a", 1, 0, 0, &err), 0);
	assert_int_equal(shoal_writer_add(w, "b", 1, 0, 0, &err), 0);
	assert_int_equal(shoal_writer_add(w, "c", 1, 0, 0, &err), -EOVERFLOW);
	assert_non_null(strstr(err.msg, "2^64 samples"));
	shoal_writer_abort(w);
}

/* So many values that runs, blocks and data leave the writer's memory for a temporary file. */
static void long_columns_go_through_a_temporary_file(void **state)
{
	struct test_list l = names_of(250000);
	struct shoal_catalog *cat;

	(void)state;
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = random_u64() >> 30;
		l.entry[i].samples = random_below(20);
	}
	cat = catalog_of(&l, true, 0);
	assert_true(cat->view.sec[CAT_SZDT].len > 1 << 20);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_of_any_width_come_back),
		cmocka_unit_test(equal_values_become_a_run_of_their_own),
		cmocka_unit_test(files_without_samples_are_stepped_over),
		cmocka_unit_test(sizes_up_to_the_largest_sum_are_taken_and_no_more),
		cmocka_unit_test(a_writer_that_failed_is_not_sealed),
		cmocka_unit_test(a_constant_number_of_samples_needs_no_column),
		cmocka_unit_test(more_samples_than_64_bits_count_are_refused),
		cmocka_unit_test(long_columns_go_through_a_temporary_file),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
