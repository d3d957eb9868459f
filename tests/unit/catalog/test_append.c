/*
 * Goal: a catalog put together from parts cannot be told from one that was written at once, and
 * parts that do not belong together are refused.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "help.h"

enum { AS_PART, AS_NAMES };

/*
 * The list in parts that end at @cut[0] ... @cut[nr - 1], where the parts of which @how says so are
 * added name by name instead.
 */
static struct shoal_catalog *put_together(const struct test_list *l, const size_t *cut,
					  const int *how, size_t nr, bool sizes,
					  uint64_t samples_per_file)
{
	struct shoal_writer_options options = { .root = TEST_ROOT,
						.sizes = sizes,
						.samples_per_file = samples_per_file };
	struct shoal_writer *w = NULL;
	struct shoal_catalog *cat;
	struct shoal_err err = { "" };
	size_t from = 0;

	if (shoal_writer_open(test_path("joined.cat"), &options, &w, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t k = 0; k < nr; k++) {
		for (size_t i = from; how && how[k] == AS_NAMES && i < cut[k]; i++) {
			const struct test_entry *e = &l->entry[i];

			if (shoal_writer_add(w, e->name, e->len, e->size, e->samples, &err) < 0)
				fail_msg("%s", err.msg);
		}
		if (!how || how[k] == AS_PART) {
			catalog_write(test_path("part.cat"), l, from, cut[k], sizes,
				      samples_per_file);
			cat = catalog_open(test_path("part.cat"));
			unlink(test_path("part.cat"));
			if (shoal_writer_append(w, cat, &err) < 0)
				fail_msg("%s", err.msg);
			shoal_catalog_close(cat);
		}
		from = cut[k];
	}
	if (shoal_writer_seal(w, &err) < 0)
		fail_msg("%s", err.msg);
	cat = catalog_open(test_path("joined.cat"));
	unlink(test_path("joined.cat"));
	return cat;
}

static int compare_sizes(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* Any cuts, some at the same place so that parts are empty. */
static size_t random_cuts(const struct test_list *l, size_t *cut)
{
	size_t nr = 1 + random_below(6);

	for (size_t k = 0; k + 1 < nr; k++)
		cut[k] = k > 0 && random_below(4) == 0 ? cut[k - 1] : random_below(l->nr + 1);
	cut[nr - 1] = l->nr;
	qsort(cut, nr, sizeof(*cut), compare_sizes);
	return nr;
}

static void check_cuts(const struct test_list *l, unsigned rounds, bool sizes,
		       uint64_t samples_per_file)
{
	struct shoal_catalog *whole = catalog_of(l, sizes, samples_per_file), *joined;
	char want[33], got[33];
	size_t cut[8];
	int how[8];

	catalog_digest(whole, want);
	for (unsigned r = 0; r < rounds; r++) {
		size_t nr = random_cuts(l, cut);

		for (size_t k = 0; k < nr; k++)
			how[k] = random_below(3) == 0 ? AS_NAMES : AS_PART;
		joined = put_together(l, cut, r % 2 ? how : NULL, nr, sizes, samples_per_file);
		catalog_check(joined, l);
		catalog_digest(joined, got);
		assert_string_equal(got, want);
		assert_int_equal(joined->view.nr_bytes, whole->view.nr_bytes);
		assert_int_equal(joined->view.nr_samples, whole->view.nr_samples);
		shoal_catalog_close(joined);
	}
	shoal_catalog_close(whole);
}

static void parts_of_regular_names_make_the_same_catalog(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 3000; i++) {
		list_addf(&l, "a/%05zu.jpg", i);
		list_addf(&l, "b/%zu.jpg", i);
		list_addf(&l, "c/%08x", (unsigned)random_u64());
	}
	list_sort(&l);
	check_cuts(&l, 24, true, 0);
	check_cuts(&l, 12, false, 5);
	list_release(&l);
}

static void parts_of_irregular_names_make_the_same_catalog(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	list_add_irregular(&l, "pictures", 3000);
	list_sort(&l);
	check_cuts(&l, 24, true, 0);
	list_release(&l);
}

static void parts_with_constant_columns_make_the_same_catalog(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		list_addf(&l, "%08zu", i);
		l.entry[i].size = i < 9000 ? 100 : i < 9100 ? i : 200;
		l.entry[i].samples = i < 5000 ? 0 : i / 4500;
	}
	check_cuts(&l, 16, true, 0);
	list_release(&l);
}

/* Names that end in one of some long phrases, which only a dictionary can know beforehand. */
static void add_phrases(struct test_list *l, const char *folder, size_t nr)
{
	char phrase[250][48];

	for (size_t p = 0; p < ARRAY_LEN(phrase); p++) {
		for (size_t k = 0; k + 1 < sizeof(phrase[0]); k++)
			phrase[p][k] = (char)('a' + random_below(26));
		phrase[p][sizeof(phrase[0]) - 1] = '\0';
	}
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "%s/%06zu%s", folder, i * 7 + random_below(7),
			  phrase[random_below(ARRAY_LEN(phrase))] + random_below(4));
}

/* Both the writer and each part have a dictionary; blocks must be read with the right one. */
static void each_block_finds_its_own_dictionary(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *joined;
	size_t cut[4];

	(void)state;
	add_phrases(&l, "one", 20000);
	list_sort(&l);
	cut[0] = l.nr;
	add_phrases(&l, "second", 20000);
	list_sort(&l);
	cut[1] = l.nr;
	add_phrases(&l, "then", 2000); /* too few for a dictionary of their own */
	list_sort(&l);
	cut[2] = l.nr;
	for (int first = 0; first < 2; first++)
		for (int last = 0; last < 2; last++) {
			int how[] = { first ? AS_NAMES : AS_PART, AS_PART,
				      last ? AS_NAMES : AS_PART };

			joined = put_together(&l, cut, how, 3, false, 1);
			assert_true(joined->view.sec[CAT_DTAB].len >=
				    2 * sizeof(struct cat_dict_entry));
			catalog_check(joined, &l);
			shoal_catalog_close(joined);
		}
	list_release(&l);
}

static void parts_with_different_samples_per_file_become_runs(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct shoal_writer *w = NULL;
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	char want[33], got[33];

	(void)state;
	for (size_t i = 0; i < 900; i++) {
		list_addf(&l, "%04zu", i);
		l.entry[i].samples = 1 + i / 300 % 2;
	}
	cat = catalog_of(&l, true, 0);
	catalog_digest(cat, want);
	shoal_catalog_close(cat);
	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
	for (size_t k = 0; k < 3; k++) {
		catalog_write(test_path("p.cat"), &l, 300 * k, 300 * (k + 1), true, 1 + k % 2);
		cat = catalog_open(test_path("p.cat"));
		assert_int_equal(shoal_writer_append(w, cat, NULL), 0);
		shoal_catalog_close(cat);
		unlink(test_path("p.cat"));
	}
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("j.cat"));
	unlink(test_path("j.cat"));
	catalog_check(cat, &l);
	catalog_digest(cat, got);
	assert_string_equal(got, want);
	shoal_catalog_close(cat);
	list_release(&l);
}

static void parts_that_do_not_belong_together_are_refused(void **state)
{
	static const struct {
		struct shoal_writer_options options; /* of the writer */
		const char *last;                    /* name that it already has */
		int want;
		const char *says;
	} row[] = {
		{ { .root = TEST_ROOT, .sizes = true, .samples_per_file = 2 }, NULL, 0, "" },
		{ { .root = TEST_ROOT, .sizes = true }, NULL, 0, "" },
		{ { .root = TEST_ROOT "x", .sizes = true }, NULL, -EINVAL, "different roots" },
		{ { .root = "s3://bucket/dat_", .sizes = true }, NULL, -EINVAL, "different roots" },
		{ { .root = TEST_ROOT }, NULL, -EINVAL, "only some of the parts have sizes" },
		{ { .root = TEST_ROOT, .sizes = true, .samples_per_file = 3 },
		  NULL,
		  -EINVAL,
		  "different samples per file" },
		{ { .root = TEST_ROOT, .sizes = true }, "file-0", 0, "" },
		{ { .root = TEST_ROOT, .sizes = true },
		  "file-1",
		  -EINVAL,
		  "names must be in ascending order" },
		{ { .root = TEST_ROOT, .sizes = true },
		  "file-9",
		  -EINVAL,
		  "names must be in ascending order" },
	};
	struct test_list l = { 0 };
	struct shoal_catalog *part;

	(void)state;
	list_addf(&l, "file-1");
	list_addf(&l, "file-2");
	part = catalog_of(&l, true, 2);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_writer *w = NULL;
		struct shoal_err err = { "" };
		uint64_t nr = 0;

		assert_int_equal(shoal_writer_open(test_path("w.cat"), &row[i].options, &w, &err),
				 0);
		if (row[i].last)
			assert_int_equal(shoal_writer_add(w, row[i].last, 6, 1, 1, &err), 0);
		assert_int_equal(shoal_writer_append(w, part, &err), row[i].want);
		assert_non_null(strstr(err.msg, row[i].says));
		nr = (row[i].last ? 1u : 0u) + (row[i].want == 0 ? 2u : 0u);
		/* A second time it is out of order; and the writer is still good. */
		if (row[i].want == 0)
			assert_int_equal(shoal_writer_append(w, part, &err), -EINVAL);
		assert_int_equal(shoal_writer_seal(w, &err), 0);
		{
			struct shoal_catalog *cat = catalog_open(test_path("w.cat"));

			assert_int_equal(cat->view.nr_files, nr);
			assert_int_equal(shoal_catalog_verify(cat, &err), 0);
			shoal_catalog_close(cat);
			unlink(test_path("w.cat"));
		}
	}
	shoal_catalog_close(part);
	list_release(&l);
}

static void sums_of_parts_that_reach_the_limit_are_refused(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct test_list l = { 0 };

	(void)state;
	list_add(&l, "a", 1, UINT64_MAX - 11, 1);
	list_add(&l, "b", 1, 10, 1);
	for (int over = 0; over < 2; over++) {
		struct shoal_writer *w = NULL;
		struct shoal_catalog *cat;
		struct shoal_err err = { "" };

		l.entry[1].size = over ? 11 : 10;
		catalog_write(test_path("p.cat"), &l, 1, 2, true, 0);
		cat = catalog_open(test_path("p.cat"));
		unlink(test_path("p.cat"));
		assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, &err), 0);
		assert_int_equal(shoal_writer_add(w, "a", 1, l.entry[0].size, 1, &err), 0);
		assert_int_equal(shoal_writer_append(w, cat, &err), over ? -EOVERFLOW : 0);
		if (over)
			assert_non_null(strstr(err.msg, "2^64"));
		assert_int_equal(shoal_writer_seal(w, &err), over ? -EOVERFLOW : 0);
		shoal_catalog_close(cat);
		unlink(test_path("j.cat"));
	}
	list_release(&l);
}

static void a_damaged_part_is_refused_and_explained(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct test_list l = { 0 };

	(void)state;
	list_add_irregular(&l, "x", 3000);
	list_sort(&l);
	catalog_write(test_path("p.cat"), &l, 0, l.nr, true, 0);
	for (int s = CAT_NAME; s < CAT_NR_ALWAYS; s++) {
		struct shoal_catalog *part = NULL;
		struct shoal_writer *w = NULL;
		struct shoal_err err = { "" };
		uint64_t sec_len;
		size_t len, at;
		uint8_t *image = file_read(test_path("p.cat"), &len);

		at = image_section(image, (enum cat_section_id)s, &sec_len);
		if (sec_len > 0) {
			image[at + sec_len / 2] ^= 1;
			assert_int_equal(image_open(image, len, &part, &err), 0);
			assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, &err),
					 0);
			assert_int_equal(shoal_writer_append(w, part, &err), -EBADMSG);
			assert_non_null(strstr(err.msg, cat_section_names[s]));
			shoal_catalog_close(part);
			/* Found at once, the writer is as it was; found midway, it is lost. */
			if (shoal_writer_seal(w, &err) == 0) {
				part = catalog_open(test_path("j.cat"));
				assert_int_equal(part->view.nr_files, 0);
				shoal_catalog_close(part);
				unlink(test_path("j.cat"));
			}
		}
		free(image);
	}
	unlink(test_path("p.cat"));
	list_release(&l);
}

/* Checksums do not stop a part that was made to do harm. */
static void a_part_whose_segments_do_not_rise_is_refused(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct test_list l = { 0 };
	struct shoal_writer *w = NULL;
	struct shoal_catalog *part;
	struct shoal_err err = { "" };
	uint64_t name_len;
	uint8_t *image;
	size_t len, at;

	(void)state;
	/* Three folders of names that have a segment each; the middle one's first name is changed.
	 */
	for (size_t i = 0; i < 300; i++)
		list_addf(&l, "folder%zu/%016" PRIx64, i / 100, i * UINT64_C(0x00DA740DA740DA74));
	list_sort(&l);
	catalog_write(test_path("p.cat"), &l, 0, l.nr, false, 1);
	image = file_read(test_path("p.cat"), &len);
	at = image_section(image, CAT_NAME, &name_len);
	for (size_t i = at; i + 8 < at + name_len; i++)
		if (memcmp(image + i, "folder1/", 8) == 0)
			memcpy(image + i, "folder9/", 8);
	image_repair(image);
	file_write(test_path("p.cat"), image, len);
	free(image);
	part = catalog_open(test_path("p.cat"));
	assert_int_equal(shoal_writer_open(test_path("out.cat"), &options, &w, &err), 0);
	assert_int_equal(shoal_writer_append(w, part, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "first names are not ascending"));
	assert_true(shoal_writer_seal(w, &err) < 0);
	shoal_catalog_close(part);
	assert_int_not_equal(access(test_path("out.cat"), F_OK), 0);
	test_dir_empty();
	list_release(&l);
}

static void a_part_that_shrank_is_refused(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct test_list l = { 0 };
	struct shoal_writer *w = NULL;
	struct shoal_catalog *part;
	struct shoal_err err = { "" };
	size_t len;

	(void)state;
	for (size_t i = 0; i < 20000; i++)
		list_addf(&l, "%08zu", i * 7 % 99991);
	list_sort(&l);
	catalog_write(test_path("p.cat"), &l, 0, l.nr, true, 0);
	free(file_read(test_path("p.cat"), &len));
	part = catalog_open(test_path("p.cat"));
	assert_int_equal(shoal_catalog_verify(part, &err), 0);
	assert_int_equal(truncate(test_path("p.cat"), (off_t)len - 100), 0);
	assert_int_equal(shoal_writer_open(test_path("out.cat"), &options, &w, &err), 0);
	assert_true(shoal_writer_append(w, part, &err) < 0);
	assert_non_null(strstr(err.msg, "shrank"));
	shoal_writer_abort(w);
	shoal_catalog_close(part);
	test_dir_empty();
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_whose_segments_do_not_rise_is_refused),
		cmocka_unit_test(a_part_that_shrank_is_refused),
		cmocka_unit_test(parts_of_regular_names_make_the_same_catalog),
		cmocka_unit_test(parts_of_irregular_names_make_the_same_catalog),
		cmocka_unit_test(parts_with_constant_columns_make_the_same_catalog),
		cmocka_unit_test(each_block_finds_its_own_dictionary),
		cmocka_unit_test(parts_with_different_samples_per_file_become_runs),
		cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
		cmocka_unit_test(sums_of_parts_that_reach_the_limit_are_refused),
		cmocka_unit_test(a_damaged_part_is_refused_and_explained),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
