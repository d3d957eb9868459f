/* Goal: where a sample lies comes back as it was found, equal layouts are stored once, and damage
 * never leads outside a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "catalog/extents_writer.h"
#include "catalog/writer.h"
#include "help.h"

#define FILES 400

/* Sample @i of file @file, a function of both. Every third file has the layout of the one before
 * it, every seventh is one sample without an extent. The last one has fewer rows than the others,
 * as in files of row groups. */
static uint64_t count_of(size_t file)
{
	file -= file % 3 == 1;
	return file % 7 == 0 ? 1 : file % 11;
}

static struct shoal_extent extent_of(size_t file, size_t i)
{
	struct shoal_extent e = { .off = 4 };

	file -= file % 3 == 1;
	if (file % 7 == 0)
		return (struct shoal_extent){ .off = 0, .len = 100000 + file, .rows = 1 };
	for (size_t k = 0; k <= i; k++) {
		e.off += e.len + (file + k) % 5;
		e.len = 100 + (file * 37 + k * 11) % 500;
	}
	e.rows = i + 1 < count_of(file) ? 1000 : 700 + file % 29;
	return e;
}

static uint64_t size_of(size_t file)
{
	return 100000 + file - (file % 3 == 1);
}

static void write_catalog(const char *path, size_t from, size_t end)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct cat_layout layout = CAT_LAYOUT_EMPTY;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_writer_open(path, &o, &w, &err), 0);
	for (size_t f = from; f < end; f++) {
		char name[32];

		snprintf(name, sizeof(name), "f%06zu", f);
		cat_layout_clear(&layout);
		for (size_t i = 0; i < count_of(f); i++) {
			struct shoal_extent e = extent_of(f, i);

			assert_int_equal(cat_layout_add(&layout, &e), 0);
		}
		assert_int_equal(cat_layout_finish(&layout), 0);
		writer_set_layout(w, extent_of(f, 0).off ? &layout : NULL);
		assert_int_equal(
			shoal_writer_add(w, name, strlen(name), size_of(f), count_of(f), &err), 0);
		assert_int_equal(
			writer_count_format(w, f % 2 ? "odd" : "even", count_of(f), false, &err),
			0);
	}
	cat_layout_release(&layout);
	assert_int_equal(shoal_writer_seal(w, &err), 0);
}

static void check_catalog(const struct shoal_catalog *cat, size_t nr)
{
	struct shoal_format_count count;
	struct shoal_err err = { "" };
	struct shoal_extent e, want;

	for (size_t f = 0; f < nr; f++)
		for (size_t i = 0; i < count_of(f); i++) {
			want = extent_of(f, i);
			assert_int_equal(shoal_catalog_extent(cat, f, i, &e), 0);
			if (want.off == 0)
				want.len = size_of(f);
			assert_int_equal(e.off, want.off);
			assert_int_equal(e.len, want.len);
			assert_int_equal(e.rows, want.rows);
		}
	assert_int_equal(shoal_catalog_extent(cat, 5, count_of(5), &e), -ERANGE);
	assert_int_equal(shoal_catalog_format(cat, 0, &count), 0);
	assert_string_equal(count.name, "even");
	assert_int_equal(count.nr_files, nr / 2);
	assert_int_equal(shoal_catalog_format(cat, 2, &count), -ERANGE);
	if (shoal_catalog_verify(cat, &err) < 0)
		fail_msg("%s", err.msg);
}

static void extents_come_back_and_equal_layouts_are_stored_once(void **state)
{
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;
	uint64_t all = 0;

	(void)state;
	write_catalog(test_path("x.cat"), 0, FILES);
	cat = catalog_open(test_path("x.cat"));
	check_catalog(cat, FILES);
	shoal_catalog_info(cat, &info);
	for (size_t f = 0; f < FILES; f++)
		all += count_of(f);
	assert_true(info.extents && info.nr_extents > 0);
	assert_true(info.nr_extents < all * 3 / 4);
	assert_int_equal(info.longest, size_of(399));
	shoal_catalog_close(cat);
	unlink(test_path("x.cat"));
}

static void parts_become_a_whole(void **state)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct shoal_catalog *part;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("w.cat"), &o, &w, &err), 0);
	for (size_t from = 0; from < FILES; from += 150) {
		write_catalog(test_path("p.cat"), from, u64_min(FILES, from + 150));
		part = catalog_open(test_path("p.cat"));
		assert_int_equal(shoal_writer_append(w, part, &err), 0);
		shoal_catalog_close(part);
		unlink(test_path("p.cat"));
	}
	assert_int_equal(shoal_writer_seal(w, &err), 0);
	part = catalog_open(test_path("w.cat"));
	check_catalog(part, FILES);
	shoal_catalog_close(part);
	unlink(test_path("w.cat"));
}

static uint8_t *small_image(size_t *ret_len)
{
	uint8_t *image;

	write_catalog(test_path("s.cat"), 0, 30);
	image = file_read(test_path("s.cat"), ret_len);
	unlink(test_path("s.cat"));
	return image;
}

static void every_truncation_is_refused(void **state)
{
	struct shoal_catalog *cat = NULL;
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		struct shoal_err err = { "" };

		assert_int_equal(image_open(image, cut, &cat, &err), -EBADMSG);
	}
	free(image);
}

/* Whatever the bytes of a section are, an extent that is given lies inside its file. */
static void no_damage_leads_outside_a_file(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len), *copy = allocate(len, 1);
	unsigned nr_told = 0;

	(void)state;
	for (int s = CAT_XHDR; s <= CAT_XRDT; s++) {
		uint64_t sec_len, at = image_section(image, (enum cat_section_id)s, &sec_len);

		for (uint64_t k = 0; k < sec_len; k++) {
			struct shoal_catalog *cat = NULL;
			struct shoal_err err = { "" };
			struct shoal_extent e;

			memcpy(copy, image, len);
			copy[at + k] ^= (uint8_t)(1 + random_below(255));
			image_repair(copy);
			if (image_open(copy, len, &cat, &err) < 0) {
				nr_told++;
				continue;
			}
			for (size_t f = 0; f < 30; f++)
				for (size_t i = 0; i < count_of(f); i++)
					if (shoal_catalog_extent(cat, f, i, &e) == 0)
						assert_true(e.off <= size_of(f) &&
							    e.len <= size_of(f) - e.off);
			nr_told += shoal_catalog_verify(cat, &err) < 0;
			shoal_catalog_close(cat);
		}
	}
	assert_true(nr_told > 100);
	free(copy);
	free(image);
}

/* A file of row groups: the first gap and the last number of rows differ from all others. */
#define GROUPS      100
#define GROUP_FILES 300

static uint64_t group_len(size_t file, size_t i)
{
	return 1 + (file * GROUPS + i) * UINT64_C(2654435761) % (1u << 24);
}

static void write_groups(const char *path)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct cat_layout layout = CAT_LAYOUT_EMPTY;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_writer_open(path, &o, &w, &err), 0);
	for (size_t f = 0; f < GROUP_FILES; f++) {
		struct shoal_extent e = { .off = 4 };
		char name[32];

		snprintf(name, sizeof(name), "f%06zu", f);
		cat_layout_clear(&layout);
		for (size_t i = 0; i < GROUPS; i++, e.off += e.len) {
			e.len = group_len(f, i);
			e.rows = i + 1 < GROUPS ? 4096 : f + 1;
			assert_int_equal(cat_layout_add(&layout, &e), 0);
		}
		assert_int_equal(cat_layout_finish(&layout), 0);
		writer_set_layout(w, &layout);
		assert_int_equal(shoal_writer_add(w, name, strlen(name), e.off, GROUPS, &err), 0);
	}
	cat_layout_release(&layout);
	assert_int_equal(shoal_writer_seal(w, &err), 0);
}

static void check_groups(const struct shoal_catalog *cat)
{
	struct shoal_extent got = { 0 };
	struct shoal_err err = { "" };

	for (size_t f = 0; f < GROUP_FILES; f++)
		for (size_t i = 0, off = 4; i < GROUPS; i++, off += got.len) {
			assert_int_equal(shoal_catalog_extent(cat, f, i, &got), 0);
			assert_int_equal(got.off, off);
			assert_int_equal(got.len, group_len(f, i));
			assert_int_equal(got.rows, i + 1 < GROUPS ? 4096 : f + 1);
		}
	if (shoal_catalog_verify(cat, &err) < 0)
		fail_msg("%s", err.msg);
}

static void rare_values_cost_no_bits_of_the_others(void **state)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct shoal_catalog *cat, *whole;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };
	uint64_t bytes = 0;

	(void)state;
	write_groups(test_path("x.cat"));
	cat = catalog_open(test_path("x.cat"));
	check_groups(cat);
	for (int s = CAT_XGRN; s <= CAT_XRDT; s++)
		bytes += cat->view.sec[s].len;
	assert_true(bytes < GROUP_FILES * GROUPS * 34 / 10); /* lengths alone take 3.1 each */
	assert_int_equal(shoal_writer_open(test_path("w.cat"), &o, &w, &err), 0);
	assert_int_equal(shoal_writer_append(w, cat, &err), 0);
	assert_int_equal(shoal_writer_seal(w, &err), 0);
	whole = catalog_open(test_path("w.cat"));
	check_groups(whole);
	shoal_catalog_close(whole);
	shoal_catalog_close(cat);
	unlink(test_path("w.cat"));
	unlink(test_path("x.cat"));
}

/* ---- A layout larger than its memory ---- */

#define MANY 100000

struct runs {
	uint64_t nr, off;
};

static struct shoal_extent many_extent(uint64_t i, uint64_t off)
{
	return (struct shoal_extent){ .off = off + i % 3,
				      .len = i * 7919 % 100003,
				      .rows = 1 + i / 2 };
}

static int check_run(void *self, const struct cat_layout_run *r)
{
	struct runs *seen = self;
	struct shoal_extent want = many_extent(seen->nr, seen->off);

	assert_int_equal(r->nr, 1);
	assert_int_equal(seen->off + r->gap, want.off);
	assert_int_equal(r->len, want.len);
	assert_int_equal(r->rows, want.rows);
	seen->nr++;
	seen->off = want.off + want.len;
	return seen->nr == MANY + 1 ? -ECANCELED : 0;
}

static int add_many(struct cat_layout *l, uint64_t nr)
{
	int rc = 0;

	cat_layout_clear(l);
	for (uint64_t i = 0, off = 0; i < nr && rc == 0; i++) {
		struct shoal_extent e = many_extent(i, off);

		rc = cat_layout_add(l, &e);
		off = e.off + e.len;
	}
	return rc == 0 ? cat_layout_finish(l) : rc;
}

static void a_layout_larger_than_its_memory_is_in_a_file(void **state)
{
	struct cat_layout a = CAT_LAYOUT_EMPTY, b = CAT_LAYOUT_EMPTY;
	uint64_t hash[2], other[2];

	(void)state;
	assert_int_equal(add_many(&a, MANY), 0);
	assert_true(a.nr_spilled > CAT_LAYOUT_MEMORY && a.runs.cap <= CAT_LAYOUT_MEMORY);
	for (int i = 0; i < 2; i++) { /* more than once */
		struct runs seen = { 0 };

		assert_int_equal(cat_layout_each(&a, check_run, &seen), 0);
		assert_int_equal(seen.nr, MANY);
	}
	assert_int_equal(add_many(&b, MANY), 0);
	cat_layout_hash(&a, hash);
	cat_layout_hash(&b, other);
	assert_memory_equal(hash, other, sizeof(hash));
	assert_int_equal(add_many(&b, MANY + 1), 0);
	cat_layout_hash(&b, other);
	assert_memory_not_equal(hash, other, sizeof(hash));
	assert_int_equal(cat_layout_each(&b, check_run, &(struct runs){ 0 }), -ECANCELED);
	assert_int_equal(add_many(&b, 10), 0); /* the file is gone */
	assert_int_equal(b.nr_spilled, 0);
	cat_layout_release(&a);
	cat_layout_release(&b);
}

static void a_layout_that_finds_no_temporary_directory_fails(void **state)
{
	struct cat_layout l = CAT_LAYOUT_EMPTY;

	(void)state;
	l.tmp_dir = "/nonexistent";
	assert_int_equal(add_many(&l, 1000), 0);
	assert_int_equal(add_many(&l, MANY), -ENOENT);
	assert_int_equal(cat_layout_finish(&l), -ENOENT);
	cat_layout_release(&l);
}

static void a_layout_stays_in_memory_while_no_descriptor_is_free(void **state)
{
	struct cat_layout a = CAT_LAYOUT_EMPTY, b = CAT_LAYOUT_EMPTY;
	uint64_t hash[2], other[2];
	struct runs seen = { 0 };
	struct rlimit before, none;

	(void)state;
	assert_int_equal(add_many(&a, MANY), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(add_many(&b, MANY), 0);
	assert_int_equal(b.nr_spilled, 0);
	cat_layout_hash(&a, hash);
	cat_layout_hash(&b, other);
	assert_memory_equal(hash, other, sizeof(hash));
	assert_int_equal(cat_layout_each(&b, check_run, &seen), 0);
	assert_int_equal(seen.nr, MANY);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(add_many(&b, MANY), 0); /* again to a file, and the memory is free */
	assert_true(b.nr_spilled > 0 && b.runs.cap <= CAT_LAYOUT_MEMORY);
	cat_layout_release(&a);
	cat_layout_release(&b);
}

static void a_part_without_extents_does_not_fit(void **state)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct test_list l = { 0 };
	struct shoal_catalog *part;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	list_addf(&l, "a");
	part = catalog_of(&l, true, 1);
	assert_int_equal(shoal_writer_open(test_path("w.cat"), &o, &w, &err), 0);
	assert_int_equal(shoal_writer_append(w, part, &err), -EINVAL);
	check_words(&err, "extents of samples");
	shoal_writer_abort(w);
	shoal_catalog_close(part);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extents_come_back_and_equal_layouts_are_stored_once),
		cmocka_unit_test(parts_become_a_whole),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(no_damage_leads_outside_a_file),
		cmocka_unit_test(a_layout_larger_than_its_memory_is_in_a_file),
		cmocka_unit_test(a_layout_that_finds_no_temporary_directory_fails),
		cmocka_unit_test(a_layout_stays_in_memory_while_no_descriptor_is_free),
		cmocka_unit_test(rare_values_cost_no_bits_of_the_others),
		cmocka_unit_test(a_part_without_extents_does_not_fit),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
