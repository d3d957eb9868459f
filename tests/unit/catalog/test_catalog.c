/*
 * Goal: a catalog gives back the names that were put into it, whatever their shape, by id, by name
 * and in order; takes only names that keep the rules; and never finds one that is not there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "catalog/recent.h"
#include "help.h"

/* ---- Shapes ---- */

static void add_numbers(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "train/img_%07zu_of_1170301.jpeg", i);
}

static void add_grid_of_folders(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "n%03zu/part-%02zu/%05zu.bin", i / 200, i / 20 % 10, i % 20 * 3);
}

static void add_hexadecimal(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "h/%016" PRIx64, random_u64());
}

static void add_uuids(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "%08x-%04x-4%03x-%04x-%012" PRIx64 ".jpg", (unsigned)random_u64(),
			  (unsigned)random_below(65536), (unsigned)random_below(4096),
			  (unsigned)random_below(65536), random_below(UINT64_C(1) << 48));
}

/* A bit for each byte, so that a number of up to 512 bits has 512 of them. */
static void add_wide(struct test_list *l, size_t nr, unsigned width)
{
	for (size_t i = 0; i < nr; i++) {
		char name[600];

		for (unsigned k = 0; k < width; k++)
			name[k] = "xy"[random_below(2)];
		list_add(l, name, width, i, 1);
	}
}

static void add_wide_that_fit(struct test_list *l, size_t nr)
{
	add_wide(l, nr, 512);
}

static void add_wide_that_do_not_fit(struct test_list *l, size_t nr)
{
	add_wide(l, nr, 513);
}

static void add_unpadded(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "d/img_%zu.jpg", i);
}

static void add_unpadded_before_letters(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		list_addf(l, "%zu_a", random_below(20 * nr));
}

static void add_words(struct test_list *l, size_t nr)
{
	list_add_irregular(l, "words", nr);
}

static void add_any_bytes(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint8_t name[40];
		size_t len = 1 + random_below(sizeof(name) - 1);

		for (size_t k = 0; k < len; k++)
			name[k] = (uint8_t)(1 + random_below(255));
		list_add(l, name, len, random_u64() >> 40, 1);
	}
}

static void add_long(struct test_list *l, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint8_t name[SHOAL_NAME_MAX];

		memset(name, 'x', sizeof(name));
		name[random_below(sizeof(name))] = (uint8_t)(1 + random_below(255));
		name[random_below(sizeof(name))] = (uint8_t)(1 + random_below(255));
		list_add(l, name, sizeof(name) - random_below(3), i, 1);
	}
}

static void add_chains_of_prefixes(struct test_list *l, size_t nr)
{
	char name[SHOAL_NAME_MAX];

	memset(name, 'p', sizeof(name));
	for (size_t i = 0; i < nr; i++)
		list_add(l, name, 1 + i % SHOAL_NAME_MAX, i, 1);
}

/* Short regular stretches between irregular ones: what the encoder has to hold back and join. */
static void add_mixture(struct test_list *l, size_t nr)
{
	for (size_t i = 0; l->nr < nr; i++) {
		size_t rows = random_below(700);

		for (size_t k = 0; k < rows; k++)
			list_addf(l, "m%03zu/%04zu", i, k * (1 + i % 3));
		if (i % 3 == 0)
			list_add_irregular(l, "m", random_below(40));
		if (i % 4 == 0)
			for (size_t k = 0; k < rows; k++)
				list_addf(l, "m%03zu/sub/%zu.x", i, k);
	}
}

static void every_shape_of_names_comes_back(void **state)
{
	static const struct {
		const char *what;
		void (*add)(struct test_list *l, size_t nr);
		size_t nr;
		enum cat_kind kind; /* that the catalog must have segments of; 0: any */
	} row[] = {
		{ "numbers", add_numbers, 5000, CAT_GRID },
		{ "grid of folders", add_grid_of_folders, 6000, CAT_GRID },
		{ "hexadecimal", add_hexadecimal, 5000, 0 },
		{ "UUIDs", add_uuids, 5000, CAT_FIXED },
		{ "wide", add_wide_that_fit, 2000, CAT_FIXED },
		{ "too wide", add_wide_that_do_not_fit, 500, CAT_FRONT },
		{ "unpadded", add_unpadded, 12345, CAT_DECIMAL },
		{ "unpadded, then letters", add_unpadded_before_letters, 5000, CAT_DECIMAL },
		{ "words", add_words, 3000, CAT_FRONT },
		{ "any bytes", add_any_bytes, 20000, CAT_FRONT },
		{ "long", add_long, 3000, CAT_FRONT },
		{ "prefixes", add_chains_of_prefixes, 4096, CAT_FRONT },
		{ "mixture", add_mixture, 60000, CAT_GRID },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct test_list l = { 0 };
		struct shoal_catalog *cat;

		row[i].add(&l, row[i].nr);
		list_sort(&l);
		cat = catalog_of(&l, true, 0);
		catalog_check(cat, &l);
		if (row[i].kind && catalog_count_kind(cat, row[i].kind) == 0)
			fail_msg("%s: no segment of kind %d", row[i].what, row[i].kind);
		cat = shoal_catalog_close(cat);
		list_release(&l);
	}
}

static void any_number_of_names_comes_back(void **state)
{
	static const size_t nr[] = { 0, 1, 2, 255, 256, 257, 65535, 65536, 65537, 131073 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nr); i++)
		for (int regular = 0; regular < 2; regular++) {
			struct test_list l = { 0 };
			struct shoal_catalog *cat;

			for (size_t k = 0; k < nr[i]; k++)
				if (regular)
					list_addf(&l, "a/%09zu", k);
				else
					list_addf(&l, "a/%zx %09zu", k % 91, k * 37);
			list_sort(&l);
			cat = catalog_of(&l, regular, regular ? 3 : 0);
			catalog_check(cat, &l);
			cat = shoal_catalog_close(cat);
			list_release(&l);
		}
}

/*
 * One field rises and one falls until it is below zero; what follows is no number any more, but
 * digits that cannot be read count as 2^64 - 1, which is one less than zero.
 */
static void a_falling_number_does_not_run_into_letters(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	(void)state;
	for (int i = 0; i <= 60; i++)
		list_addf(&l, "%02d_%02d", i, 60 - i);
	list_addf(&l, "61_xy");
	cat = catalog_of(&l, true, 1);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	list_release(&l);
}

static void fields_of_up_to_eighteen_digits_count_over_all_of_them(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	(void)state;
	for (uint64_t i = 0; i < 600; i++) {
		list_addf(&l, "a/%018" PRIu64, UINT64_C(999999999999999999) - 599 + i);
		list_addf(&l, "b/%019" PRIu64, UINT64_C(1999999999999999999) - 300 + i);
		list_addf(&l, "c/%030" PRIu64 "x", i * UINT64_C(10000000000000));
		list_addf(&l, "d/%" PRIu64, UINT64_C(999999999999999999) - i);
		list_addf(&l, "e/%" PRIu64 ".x", UINT64_C(10000000000000000) * i);
	}
	list_sort(&l);
	cat = catalog_of(&l, false, 1);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	list_release(&l);
}

/*
 * 2048 short names, then as many long ones as the encoder's buffer of 8 MiB takes to its last byte,
 * all in one folder that is kept for the next chunk, and then one more.
 */
static void a_buffer_that_stays_full_takes_the_next_name(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	size_t bytes = 0;
	char name[SHOAL_NAME_MAX];

	(void)state;
	for (int a = 1; a < 255; a++)
		for (int b = 0; b < 256; b++) {
			name[0] = (char)a;
			name[1] = (char)b;
			/* All of one byte, 253 of them, and as many of two bytes as make 2048. */
			if (a != '/' && b != '/' && (b == 0 || l.nr < 1795 + (size_t)a))
				list_add(&l, name, b ? 2 : 1, 1, 1);
		}
	assert_in_range(l.nr, 2048, 2100);
	for (size_t i = 0; i < l.nr; i++)
		bytes += l.entry[i].len;
	memset(name, 'n', sizeof(name));
	for (size_t i = 0; i <= 2048; i++) {
		size_t len = i < 2048 ? ((8u << 20) - bytes) / (2048 - i) : SHOAL_NAME_MAX;

		memcpy(name, "\xff/", 2);
		snprintf(name + 2, 7, "%05zu-", i);
		name[8] = 'n';
		assert_in_range(len, 4000, SHOAL_NAME_MAX);
		list_add(&l, name, len, 1, 1);
		bytes += len;
	}
	assert_int_equal(bytes, (8u << 20) + SHOAL_NAME_MAX);
	cat = catalog_of(&l, false, 1);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	list_release(&l);
}

/* ---- The rules of names ---- */

static void names_that_break_the_rules_are_refused_and_the_others_stay(void **state)
{
	static char longest[SHOAL_NAME_MAX + 1];
	const struct {
		const char *name;
		size_t len;
		int want;
		const char *says;
	} row[] = {
		{ "b", 1, 0, "" },
		{ "b", 1, -EINVAL, "'b' does not come after 'b'" },
		{ "a", 1, -EINVAL, "names must be in ascending order" },
		{ "b\0c", 3, -EINVAL, "NUL" },
		{ "", 0, -EINVAL, "a name has 0 bytes" },
		{ "ba", 2, 0, "" },
		{ "b", 1, -EINVAL, "names must be in ascending order" },
		{ "b\xff", 2, 0, "" },
		{ "b\x7f", 2, -EINVAL, "names must be in ascending order" },
		{ longest, SHOAL_NAME_MAX, 0, "" },
		{ longest, SHOAL_NAME_MAX + 1, -EINVAL, "a name has 4097 bytes" },
	};
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct shoal_writer *w = NULL;
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	(void)state;
	memset(longest, 'c', sizeof(longest));
	assert_int_equal(shoal_writer_open(test_path("rules.cat"), &options, &w, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };

		assert_int_equal(shoal_writer_add(w, row[i].name, row[i].len, 5, 5, &err),
				 row[i].want);
		assert_non_null(strstr(err.msg, row[i].says));
		if (row[i].want == 0)
			list_add(&l, row[i].name, row[i].len, 5, 5);
	}
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("rules.cat"));
	unlink(test_path("rules.cat"));
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	list_release(&l);
}

static void a_root_has_1_to_4096_bytes(void **state)
{
	static const struct {
		size_t len;
		int want;
	} row[] = { { 0, -EINVAL }, { 1, 0 }, { 4096, 0 }, { 4097, -EINVAL } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char *root = allocate(row[i].len + 1, 1);
		struct shoal_writer_options options = { .root = root, .samples_per_file = 1 };
		struct shoal_writer *w = NULL;
		struct shoal_err err = { "" };

		memset(root, 'r', row[i].len);
		assert_int_equal(shoal_writer_open(test_path("r.cat"), &options, &w, &err),
				 row[i].want);
		if (row[i].want == 0) {
			struct shoal_catalog_info info;
			struct shoal_catalog *cat;

			assert_int_equal(shoal_writer_seal(w, &err), 0);
			cat = catalog_open(test_path("r.cat"));
			unlink(test_path("r.cat"));
			shoal_catalog_info(cat, &info);
			assert_string_equal(info.root, root);
			shoal_catalog_close(cat);
		} else {
			assert_null(w);
			assert_non_null(strstr(err.msg, "1 to 4096 bytes"));
		}
		free(root);
	}
}

static void nothing_appears_before_sealing_or_after_giving_up(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct shoal_writer *w = NULL, *second = NULL;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("x.cat"), &options, &w, &err), 0);
	assert_int_equal(access(test_path("x.cat"), F_OK), -1);
	assert_int_equal(shoal_writer_open(test_path("x.cat"), &options, &second, &err), -EBUSY);
	assert_null(second);
	assert_non_null(strstr(err.msg, "another process is writing"));
	assert_int_equal(shoal_writer_add(w, "a", 1, 0, 0, &err), 0);
	assert_null(shoal_writer_abort(w));
	assert_null(shoal_writer_abort(NULL));
	assert_int_equal(test_dir_count(), 0);
}

/* ---- Lookups ---- */

/* Each shape in one catalog, in a list of about 40,000. */
static void all_shapes(struct test_list *l)
{
	add_numbers(l, 3000);
	add_grid_of_folders(l, 3000);
	add_hexadecimal(l, 3000);
	add_uuids(l, 3000);
	add_unpadded(l, 3000);
	add_unpadded_before_letters(l, 3000);
	add_words(l, 3000);
	add_any_bytes(l, 3000);
	add_chains_of_prefixes(l, 300);
	list_sort(l);
}

static size_t scan(const struct test_list *l, const char *name, size_t len, bool *ret_there)
{
	size_t low = 0, high = l->nr;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct test_entry *e = &l->entry[mid];
		int c = memcmp(e->name, name, e->len < len ? e->len : len);

		if (c < 0 || (c == 0 && e->len < len))
			low = mid + 1;
		else
			high = mid;
	}
	*ret_there = low < l->nr && l->entry[low].len == len &&
		     memcmp(l->entry[low].name, name, len) == 0;
	return low;
}

static void check_lookup(const struct shoal_catalog *cat, const struct test_list *l,
			 const char *name, size_t len)
{
	uint64_t id = UINT64_MAX, low = UINT64_MAX;
	bool there;
	size_t want = scan(l, name, len, &there);
	int rc;

	assert_int_equal(shoal_catalog_lower_bound(cat, name, len, &low), 0);
	if (low != want)
		fail_msg("lower bound of '%.*s' is %" PRIu64 ", not %zu", (int)len, name, low,
			 want);
	rc = shoal_catalog_find(cat, name, len, &id);
	if (rc != (there ? 0 : -ENOENT) || (there && id != want) || (!there && id != UINT64_MAX))
		fail_msg("'%.*s' is %sthere, but find gives %d", (int)len, name,
			 there ? "" : "not ", rc);
}

static void a_linear_scan_finds_the_same(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	char name[SHOAL_NAME_MAX + 8];

	(void)state;
	all_shapes(&l);
	cat = catalog_of(&l, false, 1);
	for (size_t i = 0; i < l.nr; i++) {
		const struct test_entry *e = &l.entry[i];
		size_t at = random_below(e->len);

		memcpy(name, e->name, e->len);
		check_lookup(cat, &l, name, e->len);
		if (i % 4)
			continue;
		check_lookup(cat, &l, name, e->len - 1); /* a prefix */
		check_lookup(cat, &l, name, at);
		memcpy(name + e->len, "0", 1);
		check_lookup(cat, &l, name, e->len + 1);
		name[e->len - 1]++; /* just after it, or a larger number */
		check_lookup(cat, &l, name, e->len);
		name[e->len - 1] = (char)(name[e->len - 1] - 2);
		check_lookup(cat, &l, name, e->len);
		memcpy(name, e->name, e->len);
		name[at] = (char)(name[at] ^ (1 << random_below(8))); /* also in literal parts */
		check_lookup(cat, &l, name, e->len);
		name[at] = (char)('0' + random_below(10));
		check_lookup(cat, &l, name, e->len);
		name[at] = (char)random_u64();
		check_lookup(cat, &l, name, e->len);
	}
	shoal_catalog_close(cat);
	list_release(&l);
}

/* Whether the last name was of the same segment, of the one before or after it, or far away. */
static void names_by_number_are_the_same_after_any_other_name(void **state)
{
	struct cat_recent recent = { .has_seg = false };
	char name[SHOAL_NAME_MAX + 1];
	struct shoal_catalog *cat;
	struct test_list l = { 0 };
	uint64_t id = 0, kept = 0;

	(void)state;
	all_shapes(&l);
	cat = catalog_of(&l, false, 1);
	for (size_t i = 0; i < 2 * l.nr; i++) {
		uint64_t step = random_below(4);
		int n;

		id = step == 0 ? random_below(l.nr) : (id + l.nr + step - 2) % l.nr;
		kept += recent.has_seg && id - recent.seg.first_id < recent.seg.nr;
		n = cat_recent_name(cat, &recent, id, name);
		assert_int_equal(n, l.entry[id].len);
		assert_memory_equal(name, l.entry[id].name, (size_t)n);
		assert_int_equal(name[n], 0);
	}
	assert_in_range(kept, l.nr / 10, 2 * l.nr - l.nr / 10); /* both ways were taken */
	assert_int_equal(cat_recent_name(cat, &recent, l.nr, name), -ERANGE);
	assert_int_equal(cat_recent_name(cat, &recent, UINT64_MAX, name), -ERANGE);
	shoal_catalog_close(cat);
	list_release(&l);
}

static void names_that_are_not_there_are_not_found(void **state)
{
	static const char *const absent[] = {
		"",
		"\x01",
		"a",
		"train",
		"train/img_",
		"zzz",
		"\xff\xff",
		"train/img_0000000_of_1170301.jpe",
		"train/img_0000000_of_1170301.jpegg",
		"train/img_000000x_of_1170301.jpeg",
		"train/img_0000000-of_1170301.jpeg",
		"train/img_0003000_of_1170301.jpeg",
		"train/img_9999999_of_1170301.jpeg",
		"d/img_00.jpg",
		"d/img_01.jpg",
		"d/img_.jpg",
		"d/img_3000.jpg",
		"d/img_999999999999999999.jpg",
		"d/img_9999999999999999999.jpg",
		"d/img_18446744073709551616.jpg",
		"d/img_1.jpx",
		"d/img_-1.jpg",
	};
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	static char longest[SHOAL_NAME_MAX + 2];
	uint64_t id;

	(void)state;
	add_numbers(&l, 3000);
	add_unpadded(&l, 3000);
	list_sort(&l);
	cat = catalog_of(&l, false, 1);
	for (size_t i = 0; i < ARRAY_LEN(absent); i++) {
		bool there;

		(void)scan(&l, absent[i], strlen(absent[i]), &there);
		assert_false(there);
		check_lookup(cat, &l, absent[i], strlen(absent[i]));
	}
	memset(longest, 'e', sizeof(longest));
	assert_int_equal(shoal_catalog_find(cat, longest, SHOAL_NAME_MAX, &id), -ENOENT);
	assert_int_equal(shoal_catalog_find(cat, longest, SHOAL_NAME_MAX + 1, &id), -ENOENT);
	check_lookup(cat, &l, longest, SHOAL_NAME_MAX + 1);
	cat = shoal_catalog_close(cat);
	list_release(&l);

	cat = catalog_of(&l, true, 0); /* no files at all */
	check_lookup(cat, &l, "a", 1);
	check_lookup(cat, &l, "", 0);
	shoal_catalog_close(cat);
}

static void a_cursor_may_start_anywhere(void **state)
{
	struct test_list l = { 0 };
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog *cat;
	struct shoal_err err = { "" };
	const char *name;
	size_t len;

	(void)state;
	all_shapes(&l);
	cat = catalog_of(&l, false, 1);
	for (size_t start = 0; start <= l.nr; start += 1 + random_below(40)) {
		assert_int_equal(shoal_cursor_new(cat, start, &cursor, &err), 0);
		for (size_t i = start; i < l.nr && i < start + 300; i++) {
			assert_int_equal(shoal_cursor_next(cursor, &name, &len), 1);
			assert_int_equal(len, l.entry[i].len);
			assert_memory_equal(name, l.entry[i].name, len);
		}
		cursor = shoal_cursor_free(cursor);
	}
	assert_int_equal(shoal_cursor_new(cat, l.nr, &cursor, &err), 0);
	assert_int_equal(shoal_cursor_next(cursor, &name, &len), 0);
	cursor = shoal_cursor_free(cursor);
	assert_int_equal(shoal_cursor_new(cat, l.nr + 1, &cursor, &err), -ERANGE);
	assert_null(cursor);
	assert_non_null(strstr(err.msg, "past the end"));
	assert_null(shoal_cursor_free(NULL));
	shoal_catalog_close(cat);
	list_release(&l);
}

/* ---- Files that are no catalogs ---- */

static void what_is_no_catalog_is_said(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *says;
	} row[] = {
		{ "", 0, "empty file" },
		{ "\x89", 1, "truncated catalog: only 1 bytes" },
		{ "\x89SHOAL\r\n", 8, "truncated catalog: only 8 bytes" },
		{ "\x89SHOAL\n", 7, "not a catalog" },
		{ "hello, world", 12, "not a catalog" },
	};
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		assert_int_equal(image_open((const uint8_t *)row[i].bytes, row[i].len, &cat, &err),
				 -EBADMSG);
		assert_non_null(strstr(err.msg, row[i].says));
	}
	assert_int_equal(shoal_catalog_open(test_path("none"), &cat, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "cannot open it"));
	assert_int_equal(shoal_catalog_open(test_dir(), &cat, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "directory"));
	assert_int_equal(shoal_catalog_open("/dev/null", &cat, &err), -EINVAL);
	assert_null(cat);
	assert_null(shoal_catalog_close(NULL));
}

/* No fault comes from the page that holds the new end: what is cut off there reads as zeros. */
static void a_file_cut_inside_a_page_gives_estale_too(void **state)
{
	struct cat_recent recent = { .has_seg = false };
	struct test_list l = { 0 };
	struct shoal_catalog *cat;
	char name[SHOAL_NAME_MAX + 1];
	struct shoal_err err = { "" };
	uint64_t size;
	size_t len;

	(void)state;
	for (size_t i = 0; i < 100; i++)
		list_addf(&l, "%016" PRIx64, (i + 1) * UINT64_C(0x028F5C28F5C28F5C));
	list_sort(&l);
	catalog_write(test_path("cut.cat"), &l, 0, l.nr, true, 1);
	free(file_read(test_path("cut.cat"), &len));
	assert_true(len < 4096);
	cat = catalog_open(test_path("cut.cat"));
	catalog_check(cat, &l);
	assert_int_equal(cat_recent_name(cat, &recent, 89, name), 16);
	assert_int_equal(truncate(test_path("cut.cat"), (off_t)len - 1), 0);
	assert_int_equal(cat_recent_name(cat, &recent, 90, name), -ESTALE);
	assert_int_equal(shoal_catalog_name(cat, 90, name), -ESTALE);
	assert_int_equal(shoal_catalog_size(cat, 90, &size), -ESTALE);
	assert_int_equal(shoal_catalog_check_fresh(cat, &err), -ESTALE);
	assert_int_equal(shoal_catalog_verify(cat, &err), -ESTALE);
	shoal_catalog_close(cat);
	test_dir_empty();
	list_release(&l);
}

/* A file of many pages, so that cutting it takes pages away that have been read before. */
static void a_file_that_shrinks_gives_estale_in_every_lookup(void **state)
{
	struct test_list l = { 0 };
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog *cat;
	struct shoal_err err = { "" };
	char name[SHOAL_NAME_MAX + 1];
	const char *next;
	uint64_t x, y;
	size_t len;

	(void)state;
	sigbus_guard();
	add_words(&l, 60000);
	list_sort(&l);
	for (int which = 0; which < 8; which++) {
		const char *path = test_path("shrink.cat");
		const struct test_entry *e = &l.entry[l.nr - 1];

		catalog_write(path, &l, 0, l.nr, true, 0);
		cat = catalog_open(path);
		catalog_check(cat, &l);
		assert_int_equal(shoal_catalog_check_fresh(cat, &err), 0);
		assert_int_equal(shoal_cursor_new(cat, l.nr - 1, &cursor, &err), 0);
		assert_int_equal(truncate(path, 300), 0);
		switch (which) {
		case 0:
			assert_int_equal(shoal_catalog_name(cat, l.nr - 1, name), -ESTALE);
			break;
		case 1:
			assert_int_equal(shoal_catalog_find(cat, e->name, e->len, &x), -ESTALE);
			break;
		case 2:
			assert_int_equal(shoal_catalog_lower_bound(cat, e->name, e->len, &x),
					 -ESTALE);
			break;
		case 3:
			assert_int_equal(shoal_catalog_size(cat, l.nr - 1, &x), -ESTALE);
			break;
		case 4:
			assert_int_equal(shoal_catalog_samples(cat, l.nr - 1, &x, &y), -ESTALE);
			break;
		case 5:
			assert_int_equal(shoal_catalog_locate(cat, l.nr, &x, &y), -ESTALE);
			break;
		case 6:
			assert_int_equal(shoal_cursor_next(cursor, &next, &len), -ESTALE);
			break;
		default:
			assert_int_equal(shoal_catalog_verify(cat, &err), -ESTALE);
			break;
		}
		assert_int_equal(shoal_catalog_check_fresh(cat, &err), -ESTALE);
		assert_int_equal(shoal_catalog_explain(cat, -ESTALE, &err), -ESTALE);
		assert_non_null(strstr(err.msg, "shrank"));
		cursor = shoal_cursor_free(cursor);
		shoal_catalog_close(cat);
		unlink(path);
	}
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_of_names_comes_back),
		cmocka_unit_test(any_number_of_names_comes_back),
		cmocka_unit_test(a_falling_number_does_not_run_into_letters),
		cmocka_unit_test(fields_of_up_to_eighteen_digits_count_over_all_of_them),
		cmocka_unit_test(a_buffer_that_stays_full_takes_the_next_name),
		cmocka_unit_test(names_that_break_the_rules_are_refused_and_the_others_stay),
		cmocka_unit_test(a_root_has_1_to_4096_bytes),
		cmocka_unit_test(nothing_appears_before_sealing_or_after_giving_up),
		cmocka_unit_test(a_linear_scan_finds_the_same),
		cmocka_unit_test(names_by_number_are_the_same_after_any_other_name),
		cmocka_unit_test(names_that_are_not_there_are_not_found),
		cmocka_unit_test(a_cursor_may_start_anywhere),
		cmocka_unit_test(what_is_no_catalog_is_said),
		cmocka_unit_test(a_file_cut_inside_a_page_gives_estale_too),
		cmocka_unit_test(a_file_that_shrinks_gives_estale_in_every_lookup),
	};

	sigbus_guard_init();
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
