/*
 * Goal: an ETag comes back as the server said it, from the sorter and from the catalog, whatever
 * way it took; one that is of no known kind is not kept; and damage to them is found.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "catalog/writer.h"
#include "entries.h"
#include "help.h"
#include "index/provenance.h"
#include "sort/sort.h"

/* ---- One ETag ---- */

#define MD5 "0123456789abcdef00ff10203040506f"

static void what_is_kept_is_what_was_said(void **state)
{
	static const struct {
		const char *text, *want; /* "": not kept */
	} row[] = {
		{ "\"" MD5 "\"", "\"" MD5 "\"" },
		{ MD5, "\"" MD5 "\"" },
		{ MD5 "-1", "\"" MD5 "-1\"" },
		{ "\"" MD5 "-10000\"", "\"" MD5 "-10000\"" },
		{ "\"" MD5 "-4294967294\"", "\"" MD5 "-4294967294\"" },
		{ "\"" MD5 "-4294967295\"", "" },
		{ "\"" MD5 "-99999999999999999999999\"", "" },
		{ "\"" MD5 "-0\"", "" },
		{ "\"" MD5 "-01\"", "" },
		{ "\"" MD5 "-\"", "" },
		{ "\"" MD5 "-+1\"", "" },
		{ "\"" MD5 "_1\"", "" },
		{ "\"" MD5 "0\"", "" },
		{ "\"" MD5, "" },
		{ MD5 "\"", "" },
		{ "\"\"" MD5 "\"\"", "" },
		{ "W/\"" MD5 "\"", "" },
		{ "0123456789ABCDEF00FF10203040506F", "" },
		{ "0123456789abcdef00ff10203040506", "" },
		{ "0123456789abcdef00ff10203040506g", "" },
		{ "0123456789abcdef00ff1020304050:f", "" },
		{ "0123456789abcdef00ff1020304050`f", "" },
		{ "", "" },
		{ "\"", "" },
		{ "\"\"", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		size_t len = strlen(row[i].text), n;
		char *exact = allocate(len, 1),
		     text[SHOAL_ETAG_MAX + 1]; /* ASan sees an overread */
		struct etag etag;

		memcpy(exact, row[i].text, len);
		etag = etag_parse(exact, len);
		free(exact);
		n = etag_print(&etag, text);
		assert_string_equal(text, row[i].want);
		assert_int_equal(n, strlen(row[i].want));
		assert_int_equal(etag_is_kept(&etag), n > 0);
		if (n == 0) /* two that are not kept are the same bytes in any catalog */
			assert_true(
				etag_same(&etag, &(struct etag){ .parts = le32_of(ETAG_NONE) }));
	}
}

/* The ETag of file @i, as text: of a whole, of parts, or one that is not kept. */
static const char *etag_of(size_t i, char *text)
{
	snprintf(text, SHOAL_ETAG_MAX + 1,
		 i % 5 == 2 ? "\"odd\""
		 : i % 3    ? "\"%032zx\""
			    : "\"%032zx-%zu\"",
		 i * 7919, i + 1);
	return text;
}

static const char *want_of(size_t i, char *text)
{
	return i % 5 == 2 ? "" : etag_of(i, text);
}

/* ---- In a catalog ---- */

static const struct shoal_writer_options options = {
	.root = TEST_ROOT, .sizes = true, .samples_per_file = 1, .etags = true
};

static void add_files(struct shoal_writer *w, size_t from, size_t end)
{
	char name[32], etag[SHOAL_ETAG_MAX + 1];
	struct shoal_err err = { "" };

	for (size_t i = from; i < end; i++) {
		snprintf(name, sizeof(name), "f%06zu", i);
		if (shoal_writer_add_object(w, name, strlen(name), i, 1, etag_of(i, etag), &err) <
		    0)
			fail_msg("%s", err.msg);
	}
}

/* Files [from, end) as the catalog @path. */
static void write_files(const char *path, size_t from, size_t end, bool etags)
{
	struct shoal_writer_options o = options;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	o.etags = etags;
	if (shoal_writer_open(path, &o, &w, &err) < 0)
		fail_msg("%s", err.msg);
	add_files(w, from, end);
	if (shoal_writer_seal(w, &err) < 0)
		fail_msg("%s", err.msg);
}

static uint8_t *image_of(size_t nr, size_t *ret_len)
{
	uint8_t *image;

	write_files(test_path("e.cat"), 0, nr, true);
	image = file_read(test_path("e.cat"), ret_len);
	unlink(test_path("e.cat"));
	return image;
}

static void check_etags(const struct shoal_catalog *cat, size_t nr)
{
	char text[SHOAL_ETAG_MAX + 1], want[SHOAL_ETAG_MAX + 1];
	struct shoal_err err = { "" };
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	assert_true(info.etags);
	assert_int_equal(info.etag_bytes, 20 * nr + 8 * ((20 * nr + 16383) / 16384));
	for (size_t i = 0; i < nr; i++) {
		assert_int_equal(shoal_catalog_etag(cat, i, text), strlen(want_of(i, want)));
		assert_string_equal(text, want_of(i, want));
	}
	assert_int_equal(shoal_catalog_etag(cat, nr, text), -ERANGE);
	if (shoal_catalog_verify(cat, &err) < 0)
		fail_msg("%s", err.msg);
}

/* 819 fit into a page, and 13107 into what a section has in memory before it goes to a file. */
static void etags_are_read_as_they_were_written(void **state)
{
	static const size_t nr[] = { 0, 1, 2, 819, 820, 1639, 13107, 13108, 30000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
		struct shoal_catalog *cat;

		write_files(test_path("e.cat"), 0, nr[i], true);
		cat = catalog_open(test_path("e.cat"));
		unlink(test_path("e.cat"));
		check_etags(cat, nr[i]);
		shoal_catalog_close(cat);
	}
	test_dir_empty();
}

static void a_catalog_without_them_is_as_it_always_was(void **state)
{
	char text[SHOAL_ETAG_MAX + 1] = "x", with[33], without[33];
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;

	(void)state;
	write_files(test_path("e.cat"), 0, 100, false);
	cat = catalog_open(test_path("e.cat"));
	shoal_catalog_info(cat, &info);
	assert_false(info.etags);
	assert_int_equal(info.etag_bytes, 0);
	assert_int_equal(shoal_catalog_etag(cat, 99, text), 0);
	assert_string_equal(text, "");
	assert_int_equal(shoal_catalog_etag(cat, 100, text), -ERANGE);
	assert_int_equal(le32_get(cat->view.header->nr_sections), CAT_NR_ALWAYS);
	catalog_digest(cat, without);
	shoal_catalog_close(cat);
	write_files(test_path("e.cat"), 0, 100, true);
	cat = catalog_open(test_path("e.cat"));
	catalog_digest(cat, with);
	assert_string_equal(with, without);
	shoal_catalog_close(cat);
	unlink(test_path("e.cat"));
}

static void files_that_are_added_without_one_have_none(void **state)
{
	char text[SHOAL_ETAG_MAX + 1] = "x";
	struct shoal_catalog *cat;
	struct shoal_writer *w = NULL;

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("e.cat"), &options, &w, NULL), 0);
	assert_int_equal(shoal_writer_add(w, "a", 1, 1, 1, NULL), 0);
	assert_int_equal(shoal_writer_add_object(w, "b", 1, 1, 1, MD5, NULL), 0);
	assert_int_equal(shoal_writer_add_object(w, "c", 1, 1, 1, NULL, NULL), 0);
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("e.cat"));
	unlink(test_path("e.cat"));
	assert_int_equal(shoal_catalog_etag(cat, 0, text), 0);
	assert_int_equal(shoal_catalog_etag(cat, 1, text), 34);
	assert_string_equal(text, "\"" MD5 "\"");
	assert_int_equal(shoal_catalog_etag(cat, 2, text), 0);
	shoal_catalog_close(cat);
}

/* ---- In parts ---- */

static void parts_make_the_same_section_as_the_whole(void **state)
{
	static const size_t cut[] = { 0, 7, 7, 826, 15000, 20000 };
	struct shoal_catalog *whole, *joined, *part;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	write_files(test_path("e.cat"), 0, 20000, true);
	whole = catalog_open(test_path("e.cat"));
	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, &err), 0);
	for (size_t k = 1; k < ARRAY_LEN(cut); k++) {
		if (k == 4) { /* one as names, between the others */
			add_files(w, cut[k - 1], cut[k]);
			continue;
		}
		write_files(test_path("p.cat"), cut[k - 1], cut[k], true);
		part = catalog_open(test_path("p.cat"));
		if (shoal_writer_append(w, part, &err) < 0)
			fail_msg("%s", err.msg);
		shoal_catalog_close(part);
	}
	assert_int_equal(shoal_writer_seal(w, &err), 0);
	joined = catalog_open(test_path("j.cat"));
	check_etags(joined, 20000);
	assert_int_equal(joined->view.sec[CAT_ETGS].len, whole->view.sec[CAT_ETGS].len);
	assert_memory_equal(joined->view.sec[CAT_ETGS].addr, whole->view.sec[CAT_ETGS].addr,
			    whole->view.sec[CAT_ETGS].len);
	shoal_catalog_close(joined);
	shoal_catalog_close(whole);
	unlink(test_path("e.cat"));
	unlink(test_path("j.cat"));
	unlink(test_path("p.cat"));
}

static void parts_with_and_without_them_do_not_mix(void **state)
{
	(void)state;
	for (int of_whole = 0; of_whole < 2; of_whole++)
		for (int of_part = 0; of_part < 2; of_part++) {
			struct shoal_writer_options o = options;
			struct shoal_writer *w = NULL;
			struct shoal_catalog *part;
			struct shoal_err err = { "" };
			int want = of_whole && !of_part ? -EINVAL : 0;

			o.etags = of_whole;
			write_files(test_path("p.cat"), 0, 10, of_part);
			part = catalog_open(test_path("p.cat"));
			assert_int_equal(shoal_writer_open(test_path("j.cat"), &o, &w, &err), 0);
			assert_int_equal(shoal_writer_append(w, part, &err), want);
			if (want < 0)
				assert_non_null(strstr(err.msg, "some of the parts have ETags"));
			assert_int_equal(shoal_writer_seal(w, &err), 0);
			shoal_catalog_close(part);
			part = catalog_open(test_path("j.cat"));
			assert_int_equal(part->view.etags, of_whole);
			assert_int_equal(part->view.nr_files, want < 0 ? 0 : 10);
			shoal_catalog_close(part);
			unlink(test_path("p.cat"));
			unlink(test_path("j.cat"));
		}
}

/* ---- Damage ---- */

static void every_truncation_is_refused(void **state)
{
	size_t len;
	uint8_t *image = image_of(60, &len);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		struct shoal_err err = { "" };
		struct cat_view view;
		uint8_t *part = allocate(cut, 1);

		memcpy(part, image, cut);
		assert_int_equal(cat_parse(part, cut, &view, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, cut ? "truncated catalog" : "empty file"));
		free(part);
	}
	free(image);
}

/* With a sum that tells: by verify, by whoever looks, and by whoever appends; of other pages not.
 */
static void a_damaged_page_is_found_by_whoever_needs_it(void **state)
{
	size_t len, at;
	uint64_t sec_len;
	uint8_t *image = image_of(2000, &len);

	(void)state;
	at = image_section(image, CAT_ETGS, &sec_len);
	assert_int_equal(sec_len, 40000);
	for (size_t k = 0; k < sec_len; k += 997) {
		char text[SHOAL_ETAG_MAX + 1];
		struct shoal_catalog *cat = NULL;
		struct shoal_writer *w = NULL;
		struct shoal_err err = { "" };
		uint64_t page = k / CAT_PAGE;

		image[at + k] ^= 1;
		assert_int_equal(image_open(image, len, &cat, &err), 0);
		assert_int_equal(shoal_catalog_etag(cat, page * CAT_PAGE / 20 + 1, text), -EBADMSG);
		assert_true(shoal_catalog_etag(cat, page == 0 ? 1999 : 1, text) >= 0);
		assert_true(shoal_catalog_name(cat, k / 20, err.msg) > 0);
		shoal_catalog_explain(cat, -EBADMSG, &err);
		assert_non_null(strstr(err.msg, "section ETGS"));
		assert_int_equal(shoal_catalog_verify(cat, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "section ETGS"));
		assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
		assert_int_equal(shoal_writer_append(w, cat, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "section ETGS"));
		assert_true(shoal_writer_seal(w, NULL) < 0);
		shoal_catalog_close(cat);
		image[at + k] ^= 1;
	}
	free(image);
	test_dir_empty();
}

/* The image with @by bytes less in its last section, which is ETGS; all checksums fit. */
static int parse_shorter(const uint8_t *image, size_t len, uint64_t by, struct cat_view *ret_view,
			 uint8_t **ret_shorter, struct shoal_err *err)
{
	uint8_t *shorter = allocate(len, 1);
	struct cat_header *h = (struct cat_header *)shorter;
	struct cat_table_entry *e = (struct cat_table_entry *)(h + 1);
	uint64_t sec_len, at = image_section(image, CAT_ETGS, &sec_len), sums;
	uint64_t pages = (sec_len + CAT_PAGE - 1) / CAT_PAGE;
	uint64_t left = (sec_len - by + CAT_PAGE - 1) / CAT_PAGE;

	memcpy(shorter, image, len);
	sums = le64_get(h->sums_off);
	memmove(shorter + at + sec_len - by, shorter + sums, len - sums);
	e[le32_get(h->nr_sections) - 1].len = le64_of(sec_len - by);
	h->sums_off = le64_of(sums - by);
	h->file_len = le64_of(len - by - 8 * (pages - left));
	image_repair(shorter);
	*ret_shorter = shorter;
	return cat_parse(shorter, (size_t)le64_get(h->file_len), ret_view, err);
}

static void a_section_of_another_length_is_refused(void **state)
{
	static const uint64_t by[] = { 0, 1, 19, 20, 40, 1180, 1199, 1200 };
	size_t len;
	uint8_t *image = image_of(60, &len);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(by); i++) {
		bool good = by[i] == 0 || by[i] == 1200;
		struct shoal_err err = { "" };
		struct cat_view view = { 0 };
		uint8_t *shorter;

		assert_int_equal(parse_shorter(image, len, by[i], &view, &shorter, &err),
				 good ? 0 : -EBADMSG);
		if (!good)
			assert_non_null(strstr(err.msg, "inconsistent counts"));
		else /* an empty section is as good as none */
			assert_int_equal(view.etags, by[i] == 0);
		free(shorter);
	}
	free(image);
}

/* ---- Through the sorter ---- */

#define NAMES 20000u

struct taken {
	size_t nr, nr_kept;
	bool etags;
};

/* What was added last for the name: see sort_names(). */
static struct etag last_of(size_t i)
{
	char text[SHOAL_ETAG_MAX + 1];

	etag_of(i % 4 ? i : i + NAMES, text);
	return etag_parse(text, strlen(text));
}

static int take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;
	struct etag want = last_of(t->nr);
	const struct etag *etag = index_record_of(e).etag;
	char name[32];

	(void)err;
	snprintf(name, sizeof(name), "n%08zu", t->nr++);
	if (e->len != strlen(name) || memcmp(e->name, name, e->len) != 0)
		return -EPROTO;
	if (!t->etags)
		return etag ? -EPROTO : 0;
	t->nr_kept += etag && etag_is_kept(etag);
	return etag && etag_same(etag, &want) ? 0 : -EPROTO;
}

/* All names in an order that is far from theirs, and then every fourth again with another ETag. */
static void sort_names(size_t memory, bool etags)
{
	struct sorter_options so = { .memory = memory, .tmp_dir = test_dir() };
	struct taken t = { .etags = etags };
	struct sorter *s = NULL;
	struct shoal_err err = { "" };
	uint64_t repeated = 0;

	assert_int_equal(sorter_new(&so, &s, &err), 0);
	for (size_t k = 0; k < 2 * NAMES; k++) {
		size_t i = k % NAMES * 7919 % NAMES;
		char name[32], text[SHOAL_ETAG_MAX + 1];
		struct etag etag;
		uint8_t payload[INDEX_RECORD_MAX];
		struct sort_entry e;
		int len;

		if (k >= NAMES && i % 4)
			continue;
		len = snprintf(name, sizeof(name), "n%08zu", i);
		etag_of(k < NAMES ? i : i + NAMES, text);
		etag = etag_parse(text, strlen(text));
		e = entry_with(name, (size_t)len, i, 1, etags ? &etag : NULL, payload);
		if (sorter_add(s, &e, &err) < 0)
			fail_msg("%s", err.msg);
		memset(payload, 0xee, sizeof(payload)); /* it was lent */
	}
	if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
		fail_msg("at %zu: %s", t.nr, err.msg);
	assert_int_equal(t.nr, NAMES);
	assert_int_equal(repeated, NAMES / 4);
	assert_true(!etags || t.nr_kept == NAMES / 5 * 4);
	sorter_free(s);
}

/* In memory, in a few runs, and in so many that they are merged in several passes. */
static void etags_stay_with_their_names_while_they_are_sorted(void **state)
{
	static const size_t memory[] = { SORTER_MEMORY_MIN, 1 << 20, 64 << 20 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
		sort_names(memory[i], true);
		sort_names(memory[i], false);
	}
	test_dir_empty();
}

/* ---- What a catalog says of its listing ---- */

static void a_listing_remembers_whether_they_were_asked_for(void **state)
{
	(void)state;
	for (int etags = 0; etags < 2; etags++) {
		struct index_provenance l = { .started = 1, .etags = etags }, back = { 0 };
		char *text = index_provenance_text(&l);

		assert_non_null(text);
		assert_int_equal(strstr(text, "\netags 1\n") != NULL, etags);
		assert_int_equal(strstr(text, "etags") != NULL, etags);
		assert_int_equal(index_provenance_parse(text, strlen(text), &back, NULL), 0);
		assert_int_equal(back.etags, etags);
		assert_true(index_provenance_same(&l, &back));
		back.etags = !etags;
		assert_false(index_provenance_same(&l, &back));
		index_provenance_release(&back);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_is_what_was_said),
		cmocka_unit_test(etags_are_read_as_they_were_written),
		cmocka_unit_test(a_catalog_without_them_is_as_it_always_was),
		cmocka_unit_test(files_that_are_added_without_one_have_none),
		cmocka_unit_test(parts_make_the_same_section_as_the_whole),
		cmocka_unit_test(parts_with_and_without_them_do_not_mix),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(a_damaged_page_is_found_by_whoever_needs_it),
		cmocka_unit_test(a_section_of_another_length_is_refused),
		cmocka_unit_test(etags_stay_with_their_names_while_they_are_sorted),
		cmocka_unit_test(a_listing_remembers_whether_they_were_asked_for),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
