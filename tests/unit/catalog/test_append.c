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
#include "catalog/writer.h"
#include "help.h"

enum { AS_PART, AS_NAMES, AS_RANGE };

/* Files [from, end) of a catalog that has them. */
static void add_range(struct shoal_writer *w, const struct shoal_catalog *cat, size_t from,
		      size_t end)
{
	struct cat_digester d = writer_digester(w);
	struct shoal_err err = { "" };

	if (writer_append_range(w, cat, from, end - from, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(catalog_digest_range(cat, from, end - from, 0, &d, &err), 0);
	writer_add_packed(w, &d);
}

/*
 * The list in parts that end at @cut[0] ... @cut[nr - 1], where the parts of which @how says so are
 * added name by name, or as ranges of @whole, instead.
 */
static struct shoal_catalog *put_together(const struct test_list *l,
					  const struct shoal_catalog *whole, const size_t *cut,
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
		if (how && how[k] == AS_RANGE)
			add_range(w, whole, from, cut[k]);
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
			how[k] = (int)random_below(samples_per_file ? 3 : 2);
		joined = put_together(l, whole, cut, r % 2 ? how : NULL, nr, sizes,
				      samples_per_file);
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
	check_cuts(&l, 12, true, 2);
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

			joined = put_together(&l, NULL, cut, how, 3, false, 1);
			assert_true(joined->view.sec[CAT_DTAB].len >=
				    2 * sizeof(struct cat_dict_entry));
			catalog_check(joined, &l);
			shoal_catalog_close(joined);
		}
	list_release(&l);
}

/* ---- Ranges of a catalog ---- */

/* All of @whole in ranges, with a name that is added by itself between some of them. */
static void check_ranges(const struct test_list *l, const struct shoal_catalog *whole, size_t step,
			 bool with_names)
{
	struct shoal_writer_options options = {
		.root = TEST_ROOT,
		.sizes = whole->view.nr_bytes != SHOAL_SIZE_UNKNOWN,
		.samples_per_file = whole->view.samples_per_file,
	};
	struct shoal_writer *w = NULL;
	struct shoal_catalog *cat;
	char want[33], got[33];

	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
	for (size_t from = 0, k = 0; from < l->nr; k++) {
		const struct test_entry *e = &l->entry[from];
		size_t end = from + 1 + random_below(step);

		if (with_names && k % 2) {
			assert_int_equal(
				shoal_writer_add(w, e->name, e->len, e->size, e->samples, NULL), 0);
			from++;
			continue;
		}
		end = end < l->nr ? end : l->nr;
		add_range(w, whole, from, end);
		from = end;
	}
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("j.cat"));
	unlink(test_path("j.cat"));
	catalog_check(cat, l);
	catalog_digest(whole, want);
	catalog_digest(cat, got);
	assert_string_equal(got, want);
	assert_int_equal(cat->view.largest, whole->view.largest);
	shoal_catalog_close(cat);
}

/* Sizes of any width, among them runs of equal ones. */
static void give_sizes(struct test_list *l)
{
	for (size_t i = 0; i < l->nr; i++)
		l->entry[i].size = i % 20000 < 6000 ? 7 : random_u64() >> (30 + i / 5000 % 30);
}

static void ranges_of_any_length_make_the_same_catalog(void **state)
{
	static const size_t step[] = { 3, 100, 1000, 7000, 100000 };
	struct test_list l = { 0 };
	struct shoal_catalog *whole;

	(void)state;
	for (size_t i = 0; i < 24; i++) /* a grid of three dimensions */
		for (size_t k = 0; k < 700; k++)
			list_addf(&l, "a/%zu%zu/%04zu.x", i / 4, i % 4, 3 * k);
	for (size_t i = 0; i < 9000; i++)
		list_addf(&l, "b/%zu.jpg", i * 3 + random_below(3));
	for (size_t i = 0; i < 9000; i++)
		list_addf(&l, "c/%08x%08x", (unsigned)random_u64(), (unsigned)random_u64());
	list_add_irregular(&l, "d", 6000);
	list_sort(&l);
	give_sizes(&l);
	for (size_t i = 0; i < l.nr; i++)
		l.entry[i].samples = 1;
	whole = catalog_of(&l, true, 1);
	assert_true(catalog_count_kind(whole, CAT_GRID) < 20);
	for (size_t i = 0; i < ARRAY_LEN(step); i++)
		for (int with_names = 0; with_names < 2; with_names++)
			if (step[i] > 50 || !with_names)
				check_ranges(&l, whole, step[i], with_names);
	shoal_catalog_close(whole);
	list_release(&l);
}

static void ranges_bring_the_dictionaries_that_they_need(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct test_list l = { 0 };
	struct shoal_catalog *whole, *cat;
	struct shoal_writer *w = NULL;

	(void)state;
	add_phrases(&l, "one", 20000);
	list_sort(&l);
	whole = catalog_of(&l, false, 1);
	assert_true(whole->view.sec[CAT_DTAB].len > 0);
	for (size_t step = 500; step < 10000; step *= 4)
		check_ranges(&l, whole, step, true);
	/* Ranges of one dictionary bring it once. */
	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
	for (size_t from = 0; from < l.nr; from += 1000)
		add_range(w, whole, from, u64_min(from + 1000, l.nr));
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("j.cat"));
	unlink(test_path("j.cat"));
	catalog_check(cat, &l);
	assert_int_equal(cat->view.sec[CAT_DTAB].len, whole->view.sec[CAT_DTAB].len);
	shoal_catalog_close(cat);
	shoal_catalog_close(whole);
	list_release(&l);
}

static void a_part_of_a_grid_becomes_few_grids(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct test_list l = { 0 };
	struct shoal_catalog *whole, *cat;
	struct shoal_writer *w = NULL;

	(void)state;
	for (size_t i = 0; i < 50; i++)
		for (size_t k = 0; k < 1000; k++)
			list_addf(&l, "a/%02zu/%03zu", i, k);
	whole = catalog_of(&l, false, 1);
	assert_int_equal(whole->view.nr_segments, 1);
	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
	add_range(w, whole, 300, 49500);
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("j.cat"));
	unlink(test_path("j.cat"));
	assert_int_equal(cat->view.nr_segments, 3);
	assert_int_equal(cat->view.nr_files, 49200);
	assert_int_equal(shoal_catalog_verify(cat, NULL), 0);
	shoal_catalog_close(cat);
	shoal_catalog_close(whole);
	list_release(&l);
}

static void a_cursor_skips_names_of_one_directory_only(void **state)
{
	static const uint64_t most[] = { 1, 7, UINT64_MAX };
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	uint64_t skipped = 0;

	(void)state;
	for (size_t i = 0; i < 30; i++)
		for (size_t k = 0; k < 300; k++)
			list_addf(&l, "a/%02zu/%03zu", i, k);
	for (size_t i = 0; i < 3000; i++) {
		list_addf(&l, "b/%zu.jpg", i * 3 + random_below(3)); /* one directory */
		list_addf(&l, "c/%zu/x", i * 3 + random_below(3));   /* one each */
		list_addf(&l, "d/%06x", (unsigned)random_below(1 << 24));
		list_addf(&l, "e/%03x/%03x", (unsigned)random_below(1 << 9),
			  (unsigned)random_below(1 << 12));
	}
	list_add_irregular(&l, "f", 1000);
	list_sort(&l);
	cat = catalog_of(&l, false, 1);
	for (size_t m = 0; m < ARRAY_LEN(most); m++)
		for (uint64_t start = 0; start < l.nr; start += 1 + random_below(3000)) {
			struct shoal_cursor *c = NULL;
			uint64_t id = start, nr;
			const char *name;
			size_t len;

			assert_int_equal(shoal_cursor_new(cat, start, &c, NULL), 0);
			while (shoal_cursor_next(c, &name, &len) > 0) {
				const char *slash = memrchr(name, '/', len);
				size_t dir = (size_t)(slash - name) + 1;

				assert_int_equal(len, l.entry[id].len);
				assert_memory_equal(name, l.entry[id].name, len);
				assert_int_equal(catalog_cursor_skip(c, most[m], &nr), 0);
				assert_in_range(nr, 1, u64_min(most[m], l.nr - id));
				for (uint64_t i = id; i < id + nr; i++) {
					const struct test_entry *e = &l.entry[i];

					assert_memory_equal(e->name, l.entry[id].name, dir);
					assert_null(memchr(e->name + dir, '/', e->len - dir));
				}
				skipped += nr - 1;
				id += nr;
			}
			assert_int_equal(id, l.nr);
			shoal_cursor_free(c);
		}
	assert_true(skipped > l.nr);
	shoal_catalog_close(cat);
	list_release(&l);
}

/* ---- Cuts ---- */

/* A name that a catalog is cut before, in the directory @dir. */
static void add_cut(struct test_list *l, const char *dir, uint64_t size, uint64_t samples)
{
	struct cat_digest d = { .nr_files = 0 };
	char name[64];
	int n;

	for (unsigned i = 0;; i++) {
		n = snprintf(name, sizeof(name), "%s/cut%u", dir, i);
		if (cat_digest_add(&d, name, (size_t)n, size, samples))
			break;
	}
	list_add(l, name, (size_t)n, size, samples);
}

static struct shoal_writer *open_to_cut(const char *path)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct shoal_writer *w = NULL;

	assert_int_equal(shoal_writer_open(path, &options, &w, NULL), 0);
	return w;
}

/* Whether the catalog is cut before entry @i. */
static bool is_cut(const struct test_list *l, size_t i)
{
	const struct test_entry *e = &l->entry[i];
	struct cat_digest d = { .nr_files = 0 };

	return cat_digest_add(&d, e->name, e->len, e->size, e->samples);
}

/* The catalog of parts that begin at the cuts whose bits in @choice are set. */
static uint8_t *in_parts(const struct test_list *l, unsigned choice, size_t *ret_len)
{
	struct shoal_writer *whole = open_to_cut(test_path("w.cat")), *w = whole;
	struct shoal_catalog *part = NULL;
	unsigned nr_cuts = 0;
	uint8_t *bytes;

	for (size_t i = 0; i <= l->nr; i++) {
		bool at_cut = i < l->nr && is_cut(l, i);

		if (i == l->nr || (at_cut && (choice >> nr_cuts++ & 1))) {
			if (w != whole) {
				assert_int_equal(shoal_writer_seal(w, NULL), 0);
				part = catalog_open(test_path("p.cat"));
				assert_int_equal(shoal_writer_append(whole, part, NULL), 0);
				shoal_catalog_close(part);
				unlink(test_path("p.cat"));
			}
			w = open_to_cut(test_path("p.cat"));
			writer_set_part(w);
		}
		if (i < l->nr)
			assert_int_equal(shoal_writer_add(w, l->entry[i].name, l->entry[i].len,
							  l->entry[i].size, l->entry[i].samples,
							  NULL),
					 0);
	}
	shoal_writer_abort(w);
	assert_int_equal(shoal_writer_seal(whole, NULL), 0);
	bytes = file_read(test_path("w.cat"), ret_len);
	unlink(test_path("w.cat"));
	return bytes;
}

static void check_parts_at_cuts(const struct test_list *l)
{
	static const unsigned choice[] = { 1, 6, 8, 15 };
	struct shoal_catalog *cat = NULL;
	uint8_t *whole, *bytes;
	size_t len, whole_len;

	whole = in_parts(l, 0, &whole_len);
	assert_int_equal(image_open(whole, whole_len, &cat, NULL), 0);
	catalog_check(cat, l);
	shoal_catalog_close(cat);
	for (size_t i = 0; i < ARRAY_LEN(choice); i++) {
		bytes = in_parts(l, choice[i], &len);
		assert_int_equal(len, whole_len);
		assert_memory_equal(bytes, whole, len);
		free(bytes);
	}
	free(whole);
}

/* The sizes and samples of names after the @k-th cut: any, the same up to the next cut, or all. */
enum { ANY, SAME_TO_CUT, ALL_SAME };

static struct test_entry values_after(int kind, size_t k, size_t i)
{
	if (kind == ALL_SAME)
		return (struct test_entry){ .size = 5, .samples = 7 };
	if (kind == SAME_TO_CUT)
		return (struct test_entry){ .size = 5 + k / 2, .samples = k / 3 };
	return (struct test_entry){ .size = i * 31 % 1000, .samples = i % 1000 / 997 };
}

static void add_names_and_cuts(struct test_list *l, int kind)
{
	size_t nr_cuts = 0;

	for (size_t i = 0; i < 3000; i++) {
		list_addf(l, "a/%05zu.jpg", i);
		list_addf(l, "b/%zu.jpg", i);
		list_addf(l, "c/%08x", (unsigned)random_u64());
	}
	add_phrases(l, "d", 9500); /* enough for dictionaries */
	add_phrases(l, "e", 9500);
	for (char dir[] = "a"; *dir < 'e'; dir[0]++) {
		struct test_entry e = values_after(kind, (size_t)(*dir - 'a') + 1, 0);

		add_cut(l, dir, e.size, e.samples);
	}
	list_sort(l);
	for (size_t i = 0; i < l->nr; i++) {
		struct test_entry e;

		nr_cuts += strstr(l->entry[i].name, "/cut") != NULL;
		e = values_after(kind, nr_cuts, strstr(l->entry[i].name, "/cut") ? 0 : i);
		l->entry[i].size = e.size;
		l->entry[i].samples = e.samples;
	}
	assert_int_equal(nr_cuts, 4);
}

/* However many threads write it, the file is the same. */
static void a_catalog_cut_by_its_content_does_not_depend_on_its_parts(void **state)
{
	(void)state;
	for (int kind = ANY; kind <= ALL_SAME; kind++) {
		struct test_list l = { 0 };

		add_names_and_cuts(&l, kind);
		check_parts_at_cuts(&l);
		list_release(&l);
	}
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
		cmocka_unit_test(ranges_of_any_length_make_the_same_catalog),
		cmocka_unit_test(ranges_bring_the_dictionaries_that_they_need),
		cmocka_unit_test(a_part_of_a_grid_becomes_few_grids),
		cmocka_unit_test(a_cursor_skips_names_of_one_directory_only),
		cmocka_unit_test(a_catalog_cut_by_its_content_does_not_depend_on_its_parts),
		cmocka_unit_test(parts_with_different_samples_per_file_become_runs),
		cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
		cmocka_unit_test(sums_of_parts_that_reach_the_limit_are_refused),
		cmocka_unit_test(a_damaged_part_is_refused_and_explained),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
