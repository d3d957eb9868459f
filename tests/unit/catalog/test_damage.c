/*
 * Goal: no byte string makes the reader leave its buffer or accept a lie, and each kind of damage
 * is told apart and placed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/span.h"
#include "catalog/catalog.h"
#include "catalog/writer.h"
#include "help.h"

/* A few names of each shape. */
static void small_list(struct test_list *l)
{
	for (size_t i = 0; i < 60; i++)
		list_addf(l, "a/%03zu", i);
	for (size_t i = 0; i < 40; i++)
		list_addf(l, "b/%zu.x", i * i);
	for (size_t i = 0; i < 80; i++)
		list_addf(l, "c/k%cl%cm%cn%co%cp", "pqr"[random_below(3)], "st"[random_below(2)],
			  "uvwz"[random_below(4)], "xy"[random_below(2)], "xyz"[random_below(3)]);
	list_add_irregular(l, "d", 20);
	list_sort(l);
	for (size_t i = 0; i < l->nr; i++) {
		l->entry[i].size = 1000 + i * i % 50;
		l->entry[i].samples = i % 5;
	}
}

static uint8_t *image_of(const struct test_list *l, bool sizes, uint64_t spf, size_t *ret_len)
{
	uint8_t *image;

	catalog_write(test_path("i.cat"), l, 0, l->nr, sizes, spf);
	image = file_read(test_path("i.cat"), ret_len);
	unlink(test_path("i.cat"));
	return image;
}

/* A small catalog that has every section but a dictionary, and segments of all kinds. */
static uint8_t *small_image(size_t *ret_len)
{
	struct test_list l = { 0 };
	uint8_t *image;

	small_list(&l);
	image = image_of(&l, true, 0, ret_len);
	list_release(&l);
	return image;
}

static void the_small_catalog_has_segments_of_all_kinds(void **state)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	assert_int_equal(image_open(image, len, &cat, &err), 0);
	for (int kind = CAT_GRID; kind <= CAT_FRONT; kind++)
		if (catalog_count_kind(cat, (enum cat_kind)kind) == 0)
			fail_msg("no segment of kind %d", kind);
	shoal_catalog_close(cat);
	free(image);
}

static void every_truncation_is_refused(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		struct cat_view view = { 0 }, untouched = { 0 };
		struct shoal_err err = { "" };
		uint8_t *part = malloc(cut ? cut : 1); /* exact, so that ASan sees any overread */

		assert_non_null(part);
		memcpy(part, image, cut);
		assert_int_equal(cat_parse(part, cut, &view, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, cut ? "truncated catalog" : "empty file"));
		assert_memory_equal(&view, &untouched, sizeof(view));
		free(part);
	}
	free(image);
}

static void bytes_after_the_end_are_refused(void **state)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	size_t len;
	uint8_t *image = small_image(&len);
	uint8_t *longer = allocate(len + 1, 1);

	(void)state;
	memcpy(longer, image, len);
	assert_int_equal(image_open(longer, len + 1, &cat, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "but its header says"));
	free(longer);
	free(image);
}

/* The view is put together by hand, so that half a million images need no files. */
static bool survives(const uint8_t *image, size_t len)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	int rc = image_open(image, len, &cat, &err);

	if (rc == 0) {
		rc = shoal_catalog_verify(cat, &err);
		shoal_catalog_close(cat);
	}
	if (rc < 0 && !err.msg[0])
		fail_msg("%d without words", rc);
	return rc == 0;
}

static void every_flipped_bit_is_found(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	assert_true(survives(image, len));
	for (size_t bit = 0; bit < 8 * len; bit++) {
		image[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (survives(image, len))
			fail_msg("bit %zu of byte %zu may be either", bit % 8, bit / 8);
		image[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(image);
}

/* ---- Headers and tables that lie, with good checksums ---- */

#define H(field) offsetof(struct cat_header, field)

/* Table entry @k's place and length. */
#define T_ID(k)  (sizeof(struct cat_header) + (k) * sizeof(struct cat_table_entry))
#define T_OFF(k) (T_ID(k) + 8)
#define T_LEN(k) (T_ID(k) + 16)

static void put_le(uint8_t *at, unsigned bytes, uint64_t v)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(v >> 8 * i);
}

static void a_header_that_lies_is_told_by_its_own_words(void **state)
{
	static const struct {
		size_t at;
		unsigned bytes;
		uint64_t value;
		int want;
		const char *says;
	} row[] = {
		{ H(magic), 1, 'X', -EBADMSG, "not a catalog" },
		{ H(magic) + 7, 1, '\r', -EBADMSG, "not a catalog" },
		{ H(version), 4, 2, -EPROTONOSUPPORT, "format version 2" },
		{ H(version), 4, 0, -EBADMSG, "no format version 0" },
		{ H(incompat), 4, 1, -EBADMSG, "inconsistent counts" }, /* extents without XHDR */
		{ H(incompat), 4, 2, -EBADMSG, "inconsistent counts" }, /* sparse blocks, too */
		{ H(incompat), 4, 4, -EPROTONOSUPPORT, "feature bits 0x4" },
		{ H(incompat), 4, 0x80000000, -EPROTONOSUPPORT, "feature bits 0x80000000" },
		{ H(compat), 4, 0xffffffff, 0, "" },
		{ H(compat), 4, 0, 0, "" }, /* as catalogs were before the largest size */
		{ H(largest), 8, 0, -EBADMSG, "inconsistent counts" },
		{ H(largest), 8, UINT64_MAX - 1, -EBADMSG, "inconsistent counts" },
		{ H(reserved1), 4, 7, 0, "" },
		{ H(reserved2), 8, 7, 0, "" },
		{ T_ID(2) + 4, 4, 7, 0, "" },
		{ H(header_len), 4, 255, -EBADMSG, "invalid header fields" },
		{ H(header_len), 4, 257, -EBADMSG, "invalid header fields" },
		{ H(page_shift), 4, 13, -EBADMSG, "invalid header fields" },
		{ H(file_len), 8, 1, -EBADMSG, "but its header says 1" },
		{ H(file_len), 8, UINT64_MAX, -EBADMSG, "truncated catalog" },
		{ H(nr_files), 8, 0, -EBADMSG, "inconsistent counts" },
		{ H(nr_files), 8, 1, -EBADMSG, "inconsistent counts" }, /* fewer than segments */
		{ H(samples_per_file), 8, 1, -EBADMSG, "inconsistent counts" },
		{ H(nr_bytes), 8, UINT64_MAX, -EBADMSG, "inconsistent counts" },
		{ H(key_skip), 4, SHOAL_NAME_MAX + 1, -EBADMSG, "key skip" },
		{ H(key_skip), 4, UINT32_MAX, -EBADMSG, "key skip" },
		{ H(sums_off), 8, 0, -EBADMSG, "page checksums are misplaced" },
		{ H(sums_off), 8, UINT64_MAX - 7, -EBADMSG, "page checksums are misplaced" },
		{ T_OFF(0), 8, 0, -EBADMSG, "section 0 of its table is misplaced" },
		{ T_OFF(3), 8, UINT64_MAX, -EBADMSG, "section 3 of its table is misplaced" },
		{ T_LEN(0), 8, UINT64_MAX, -EBADMSG, "section 0 of its table is misplaced" },
		{ T_LEN(1), 8, 0, -EBADMSG, "section 2 of its table is misplaced" },
		{ T_LEN(10), 8, 1 << 20, -EBADMSG, "section 10 of its table is misplaced" },
		{ T_ID(3), 4, 0x454d414e, -EBADMSG, "two sections NAME" },
		{ T_ID(0), 4, 0x5a5a5a5a, -EBADMSG, "root is missing" },
		{ T_ID(2), 4, 0x5a5a5a5a, -EBADMSG, "inconsistent counts" },
		{ T_ID(5), 4, 0x5a5a5a5a, -EBADMSG,
		  "inconsistent counts" }, /* sizes without runs */
		{ T_ID(8), 4, 0x5a5a5a5a, -EBADMSG, "inconsistent counts" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct cat_view view = { 0 }, untouched = { 0 };
		struct shoal_err err = { "" };
		size_t len;
		uint8_t *image = small_image(&len);
		int rc;

		put_le(image + row[i].at, row[i].bytes, row[i].value);
		/* The sums cannot be repaired where they are misplaced; nor need they. */
		((struct cat_header *)image)->table_checksum =
			le64_of(XXH3_64bits(image + sizeof(struct cat_header),
					    CAT_NR_ALWAYS * sizeof(struct cat_table_entry)));
		((struct cat_header *)image)->header_checksum =
			le64_of(XXH3_64bits(image, H(header_checksum)));
		rc = cat_parse(image, len, &view, &err);
		if (rc != row[i].want || !strstr(err.msg, row[i].says))
			fail_msg("row %zu: %d, '%s', not %d, '%s'", i, rc, err.msg, row[i].want,
				 row[i].says);
		if (rc < 0)
			assert_memory_equal(&view, &untouched, sizeof(view));
		free(image);
	}
}

static void checksums_that_do_not_match_are_named(void **state)
{
	static const struct {
		size_t at; /* 0: the first of the page sums */
		const char *says;
	} row[] = {
		{ H(reserved2), "header checksum does not match" },
		{ H(header_checksum), "header checksum does not match" },
		{ T_ID(2) + 4, "section table checksum does not match" },
		{ 0, "checksum of the page checksums at offset" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct cat_view view;
		struct shoal_err err = { "" };
		size_t len;
		uint8_t *image = small_image(&len);
		const struct cat_header *h = (const struct cat_header *)image;

		image[row[i].at ? row[i].at : le64_get(h->sums_off)] ^= 0x10;
		assert_int_equal(cat_parse(image, len, &view, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, row[i].says));
		free(image);
	}
}

static void a_number_of_sections_that_does_not_fit_is_refused(void **state)
{
	static const uint32_t nr[] = { 0, 1, 12, 1000, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
		struct cat_view view;
		struct shoal_err err = { "" };
		size_t len, table;
		uint8_t *image = small_image(&len);
		struct cat_header *h = (struct cat_header *)image;

		h->nr_sections = le32_of(nr[i]);
		table = (size_t)nr[i] * sizeof(struct cat_table_entry);
		if (table <= len - sizeof(*h))
			h->table_checksum = le64_of(XXH3_64bits(h + 1, table));
		h->header_checksum = le64_of(XXH3_64bits(image, H(header_checksum)));
		assert_int_equal(cat_parse(image, len, &view, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "damaged catalog"));
		free(image);
	}
}

/* A file of a newer minor writer: a section more, that this reader does not know. */
static void sections_that_are_not_known_are_stepped_over(void **state)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	size_t len, head, body, added = sizeof(struct cat_table_entry);
	uint8_t *image = small_image(&len), *bigger = allocate(len + added + 24, 1);
	struct cat_header *h = (struct cat_header *)bigger;
	struct cat_table_entry *e;

	(void)state;
	head = sizeof(*h) + CAT_NR_ALWAYS * added;
	body = (size_t)le64_get(((struct cat_header *)image)->sums_off) - head;
	/* table + 1, the new section (16 bytes) last, one page sum more */
	memcpy(bigger, image, head);
	memcpy(bigger + head + added, image + head, body);
	memcpy(bigger + head + added + body, "sixteen bytes...", 16);
	e = (struct cat_table_entry *)(h + 1);
	for (int s = 0; s < CAT_NR_ALWAYS; s++)
		e[s].off = le64_of(le64_get(e[s].off) + added);
	memcpy(e[CAT_NR_ALWAYS].id, "NEWS", 4);
	e[CAT_NR_ALWAYS].off = le64_of(head + added + body);
	e[CAT_NR_ALWAYS].len = le64_of(16);
	h->nr_sections = le32_of(CAT_NR_ALWAYS + 1);
	h->sums_off = le64_of(head + added + body + 16);
	h->file_len = le64_of(len + added + 24);
	image_repair(bigger);
	assert_int_equal(image_open(bigger, len + added + 24, &cat, &err), 0);
	assert_int_equal(shoal_catalog_verify(cat, &err), 0);
	shoal_catalog_close(cat);
	free(bigger);
	free(image);
}

/* ---- Payloads, directories and columns that lie, with good checksums ---- */

struct poke {
	enum cat_section_id section;
	uint64_t at; /* in the section */
	unsigned bytes;
	uint64_t value;
};

/*
 * Verify must refuse the image, and no lookup may crash or claim success with another name than
 * was asked for. Returns verify's words.
 */
static struct shoal_err check_poke(const uint8_t *image, size_t len)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_cursor *cursor = NULL;
	struct shoal_err err = { "" }, ignored;
	char name[SHOAL_NAME_MAX + 1];
	uint64_t x, y;
	const char *next;
	size_t n;

	if (image_open(image, len, &cat, &err) < 0)
		return err;
	for (uint64_t id = 0; id < cat->view.nr_files && id < 1000; id++) {
		int rc = shoal_catalog_name(cat, id, name);

		if (rc >= 0) {
			assert_int_equal(name[rc], 0);
			(void)!shoal_catalog_find(cat, name, (size_t)rc, &x);
			(void)!shoal_catalog_lower_bound(cat, name, (size_t)rc, &x);
		} else {
			assert_int_equal(rc, -EBADMSG);
			shoal_catalog_explain(cat, rc, &ignored);
			assert_non_null(strstr(ignored.msg, "damaged catalog: section "));
		}
		(void)!shoal_catalog_size(cat, id, &x);
		(void)!shoal_catalog_samples(cat, id, &x, &y);
		(void)!shoal_catalog_locate(cat, id, &x, &y);
	}
	assert_int_equal(shoal_cursor_new(cat, 0, &cursor, &err), 0);
	for (int again = 0; again < 3; again++) /* also after it has failed */
		for (int i = 0; i < 1000; i++) {
			int rc = shoal_cursor_next(cursor, &next, &n);

			if (rc == 1)
				assert_int_equal(next[n], 0);
			if (rc <= 0)
				break;
		}
	shoal_cursor_free(cursor);
	if (shoal_catalog_verify(cat, &err) == 0)
		snprintf(err.msg, sizeof(err.msg), "nothing wrong");
	shoal_catalog_close(cat);
	return err;
}

/*
 * Each byte of what readers walk through, set to each of some values. Where verify has nothing
 * against it (padding, reserved bytes, a number written in another way) all lookups must be right.
 */
static void any_byte_may_lie_in_any_section(void **state)
{
	static const uint8_t value[] = { 0, 1, 2, 0x7f, 0x80, 0xff };
	struct test_list l = { 0 };
	struct shoal_catalog *cat = NULL;
	size_t len, end;
	uint8_t *image;

	(void)state;
	small_list(&l);
	image = image_of(&l, true, 0, &len);
	end = (size_t)le64_get(((const struct cat_header *)image)->sums_off);
	for (size_t at = image_section(image, CAT_NAME, NULL); at < end; at++)
		for (size_t k = 0; k < ARRAY_LEN(value); k++) {
			uint8_t was = image[at];

			if (was == value[k])
				continue;
			image[at] = value[k];
			image_repair(image);
			(void)check_poke(image, len);
			if (survives(image, len)) {
				assert_int_equal(image_open(image, len, &cat, NULL), 0);
				catalog_check(cat, &l);
				shoal_catalog_close(cat);
			}
			image[at] = was;
		}
	free(image);
	list_release(&l);
}

static void lies_in_payloads_are_told_by_words(void **state)
{
	/* 600 names a/0000 ... make one GRID: kind, count (2), length, 6 bytes, then from 10 on
	 * fields, gap, width, dimensions, extent (2), delta. */
	static const struct {
		struct poke poke;
		const char *says;
	} row[] = {
		{ { CAT_NAME, 0, 1, 0 }, "a segment of an unknown kind" },
		{ { CAT_NAME, 0, 1, 5 }, "a segment of an unknown kind" },
		{ { CAT_NAME, 1, 1, 0xd9 }, "a segment does not start as one" }, /* 601 names */
		{ { CAT_NAME, 3, 1, 0 }, "a segment does not start as one" },
		{ { CAT_NAME, 3, 1, 0x7f }, "a segment does not start as one" },
		{ { CAT_NAME, 10, 1, 0 }, "fields of a grid are invalid" },
		{ { CAT_NAME, 10, 1, 9 }, "fields of a grid are invalid" },
		{ { CAT_NAME, 11, 1, 1 }, "fields of a grid are invalid" }, /* on the slash */
		{ { CAT_NAME, 11, 1, 3 }, "fields of a grid are invalid" }, /* past the end */
		{ { CAT_NAME, 12, 1, 0 }, "fields of a grid are invalid" },
		{ { CAT_NAME, 12, 1, 19 }, "fields of a grid are invalid" },
		{ { CAT_NAME, 13, 1, 0 }, "dimensions of a grid are invalid" },
		{ { CAT_NAME, 13, 1, 5 }, "dimensions of a grid are invalid" },
		{ { CAT_NAME, 14, 1, 0xd7 }, "dimensions of a grid are invalid" }, /* 599 */
		{ { CAT_NAME, 16, 1, 100 }, "a number of a grid is too wide" },
		{ { CAT_NAME, 16, 1, 1 }, "a number of a grid is too wide" }, /* falls below 0 */
		{ { CAT_NAME, 16, 1, 0 }, "name 1 is out of order" },
		{ { CAT_NDIR, 0, 8, 1 }, "damaged catalog: section N" },
		{ { CAT_NDIR, 8, 8, 1 }, "damaged catalog: section N" },
		{ { CAT_NDIR, 8, 8, UINT64_MAX }, "section NDIR, offset 0" },
		{ { CAT_NDIR, 16, 8, 1 }, "a key does not fit its name" },
		{ { CAT_SZRN, 0, 8, 1 }, "section SZRN" },
		{ { CAT_SZRN, 8, 8, 1 }, "sums do not add up" },
		{ { CAT_SZRN, 16, 8, 6 }, "sizes add up to 3600" },
		{ { CAT_SZRN, 24, 4, 2 }, "runs are not ascending" },
		{ { CAT_SZRN, 24, 4, 1 }, "a run has no blocks" },
		{ { CAT_SMRN, 16, 8, UINT64_MAX }, "a run has no blocks" },
		{ { CAT_SMBK, 8, 8, 1 }, "sums do not add up" },
		{ { CAT_SMBK, 7, 1, 0x40 }, "sums do not add up" }, /* 256 times 2^62 is 0 */
		{ { CAT_SMBK, 16, 8, UINT64_C(65) << 56 }, "a block is too wide" },
		{ { CAT_SMBK, 16, 8, UINT64_C(64) << 56 }, "points outside the section" },
		{ { CAT_SMBK, 16, 7, 0x40000000 }, "section SMDT, offset 1073741824" },
		{ { CAT_SMDT, 0, 1, 0xff }, "sums do not add up" },
	};
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 600; i++)
		list_addf(&l, "a/%04zu", i);
	for (size_t i = 0; i < 600; i++) {
		l.entry[i].size = 5;
		l.entry[i].samples = i % 3;
	}
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const struct poke *p = &row[i].poke;
		struct shoal_err err;
		size_t len;
		uint8_t *image = image_of(&l, true, 0, &len);

		put_le(image + image_section(image, p->section, NULL) + p->at, p->bytes, p->value);
		image_repair(image);
		err = check_poke(image, len);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu: '%s', not '%s'", i, err.msg, row[i].says);
		free(image);
	}
	list_release(&l);
}

static void a_root_with_a_nul_is_refused(void **state)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	image[image_section(image, CAT_ROOT, NULL)] = 0;
	image_repair(image);
	assert_int_equal(image_open(image, len, &cat, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "section ROOT"));
	assert_null(cat);
	free(image);
}

/* Blocks that cannot be expanded, first in a segment and in its midst, asked for again and again.
 */
static void a_cursor_that_failed_fails_again(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	list_add_irregular(&l, "f", 600);
	list_sort(&l);
	for (uint64_t start = 0; start < 520; start += 65) {
		struct shoal_catalog *cat = NULL;
		struct shoal_cursor *cursor = NULL;
		struct cat_segment seg;
		const char *name;
		size_t len, n;
		uint8_t *image = image_of(&l, false, 1, &len);

		assert_int_equal(image_open(image, len, &cat, NULL), 0);
		assert_int_equal(cat_segment_load(&cat->view, cat->dicts, start / 256, &seg), 0);
		assert_int_equal(seg.kind, CAT_FRONT);
		/* Bit 1 of the flags without bit 0: a block that makes no sense. */
		image[image_section(image, CAT_NAME, NULL) + seg.off +
		      (size_t)(seg.rest.p - seg.payload)] = 2;
		shoal_catalog_close(cat);
		image_repair(image);
		assert_int_equal(image_open(image, len, &cat, NULL), 0);
		assert_int_equal(shoal_cursor_new(cat, start, &cursor, NULL), 0);
		for (int i = 0; i < 4; i++)
			assert_int_equal(shoal_cursor_next(cursor, &name, &n), -EBADMSG);
		shoal_cursor_free(cursor);
		shoal_catalog_close(cat);
		free(image);
	}
	list_release(&l);
}

static void explain_names_the_section_and_the_offset(void **state)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	char name[SHOAL_NAME_MAX + 1], want[200];
	size_t len, at;
	uint8_t *image;

	(void)state;
	list_add_irregular(&l, "e", 20000);
	list_sort(&l);
	image = image_of(&l, true, 0, &len);
	at = image_section(image, CAT_NAME, NULL);
	image[at + 3 * CAT_PAGE + 77] ^= 4;
	assert_int_equal(image_open(image, len, &cat, &err), 0);
	assert_int_equal(shoal_catalog_verify(cat, &err), -EBADMSG);
	snprintf(
		want, sizeof(want),
		"damaged catalog: section NAME, offset %u (byte %zu of the file): checksum does not match",
		3 * CAT_PAGE, at + 3 * CAT_PAGE);
	assert_string_equal(err.msg, want);
	assert_int_equal(shoal_catalog_name(cat, 0, name), (int)l.entry[0].len);
	err.msg[0] = '\0';
	assert_int_equal(shoal_catalog_explain(cat, -EBADMSG, &err), -EBADMSG);
	assert_string_equal(err.msg, want);
	assert_int_equal(shoal_catalog_explain(cat, -ENOENT, &err), -ENOENT);
	assert_string_equal(err.msg, "no such name");
	assert_int_equal(shoal_catalog_explain(cat, -ENOMEM, &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "cannot read it"));
	assert_int_equal(shoal_catalog_explain(cat, -ERANGE, NULL), -ERANGE);
	shoal_catalog_close(cat);
	free(image);
	list_release(&l);
}

/* Parts of a few files each make short runs, of which each has its own sum. */
static void a_wrong_sum_of_any_run_is_found(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .sizes = true };
	struct shoal_writer *w = NULL;
	struct test_list l = { 0 };
	uint64_t runs_len;
	uint8_t *image;
	size_t len, at;

	(void)state;
	for (size_t i = 0; i < 300; i++)
		list_addf(&l, "%03zu", i);
	assert_int_equal(shoal_writer_open(test_path("j.cat"), &options, &w, NULL), 0);
	for (size_t from = 0; from < 300; from += 30) {
		struct shoal_catalog *cat;

		catalog_write(test_path("p.cat"), &l, from, from + 30, true, 0);
		cat = catalog_open(test_path("p.cat"));
		unlink(test_path("p.cat"));
		assert_int_equal(shoal_writer_append(w, cat, NULL), 0);
		shoal_catalog_close(cat);
	}
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	image = file_read(test_path("j.cat"), &len);
	unlink(test_path("j.cat"));
	assert_true(survives(image, len));
	for (int s = CAT_SZRN; s <= CAT_SMRN; s += CAT_SMRN - CAT_SZRN) {
		at = image_section(image, (enum cat_section_id)s, &runs_len);
		assert_int_equal(runs_len, 10 * sizeof(struct cat_run));
		for (size_t k = 0; k < 10; k++) {
			image[at + k * sizeof(struct cat_run) + 8]++; /* sum_before */
			image_repair(image);
			if (survives(image, len))
				fail_msg("the sum before run %zu of %s may be anything", k,
					 cat_section_names[s]);
			image[at + k * sizeof(struct cat_run) + 8]--;
		}
	}
	free(image);
	list_release(&l);
}

/* Verify reads ranges of 65,536 names: lies in the first or last of one must not fall between. */
static void lies_at_the_ends_of_ranges_are_found(void **state)
{
	static const struct {
		struct poke poke;
		const char *says;
	} row[] = {
		{ { CAT_SZBK, 24 * 255 + 8, 4, 7 }, "sums do not add up" },
		{ { CAT_SZBK, 24 * 256 + 8, 4, 7 }, "sums do not add up" },
		{ { CAT_SZBK, 24 * 257 + 8, 4, 7 }, "sums do not add up" },
		{ { CAT_SZBK, 24 * 512 + 8, 4, 7 }, "sums do not add up" }, /* of the last names */
		{ { CAT_SMBK, 24 * 512 + 8, 4, 7 }, "sums do not add up" },
	};
	struct test_list l = { 0 };
	uint8_t *image;
	size_t len;

	(void)state;
	for (size_t i = 0; i < 2 * 65536 + 100; i++)
		list_addf(&l, "n%06zu", i);
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = 1 + i * 31 % 1000;
		l.entry[i].samples = 1 + i % 3;
	}
	image = image_of(&l, true, 0, &len);
	assert_true(survives(image, len));
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const struct poke *p = &row[i].poke;
		uint8_t *at = image + image_section(image, p->section, NULL) + p->at, was[8];
		struct shoal_err err;

		memcpy(was, at, p->bytes);
		put_le(at, p->bytes, p->value);
		image_repair(image);
		err = check_poke(image, len);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu: '%s', not '%s'", i, err.msg, row[i].says);
		memcpy(at, was, p->bytes);
	}
	free(image);
	list_release(&l);
}

static void a_name_that_sorts_before_the_range_before_it_is_found(void **state)
{
	struct shoal_writer_options options = { .root = TEST_ROOT, .samples_per_file = 1 };
	struct shoal_catalog *cat;
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };
	struct cat_digester digester;
	char name[16];

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("u.cat"), &options, &w, NULL), 0);
	digester = writer_digester(w);
	for (unsigned i = 0; i < 65636; i++) {
		int n = snprintf(name, sizeof(name), "%c%06u", i < 65536 ? 'b' : 'a', i);

		cat_digester_add(&digester, name, (size_t)n, 0, 1);
		assert_int_equal(writer_add_sorted(w, name, (size_t)n, 0, 1, NULL, NULL), 0);
	}
	writer_add_packed(w, &digester);
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	cat = catalog_open(test_path("u.cat"));
	unlink(test_path("u.cat"));
	assert_int_equal(shoal_catalog_verify(cat, &err), -EBADMSG);
	check_words(&err, "name 65536 is out of order");
	shoal_catalog_close(cat);
}

static void dictionaries_that_lie_are_explained(void **state)
{
	static const struct {
		uint64_t at; /* in DTAB */
		uint64_t value;
		const char *says;
	} row[] = {
		{ 0, UINT64_MAX, "dictionary is missing" },
		{ 8, UINT64_MAX, "section DICT" },
		{ 8, UINT64_MAX / CAT_NR_SECTIONS + 1, "section DICT" },
		{ 8, 1, "section " },
		{ 16, UINT64_MAX, "a dictionary is too long" },
		{ 16, CAT_DICT_MAX, "section DICT" }, /* more than there is */
		{ 16, 0, "section " },
		{ 16, 100, "section " },
	};
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 12000; i++)
		list_addf(&l, "%06zu %016" PRIx64 "%016" PRIx64 "%.*s", i * 5 + random_below(5),
			  (i * 7919 % 193) * UINT64_C(0x9E3779B97F4A7C15),
			  (i * 7919 % 193) * UINT64_C(0xC2B2AE3D27D4EB4F), (int)(i % 3), "xyz");
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err;
		size_t len;
		uint64_t dtab_len;
		uint8_t *image = image_of(&l, false, 1, &len);
		size_t at = image_section(image, CAT_DTAB, &dtab_len);

		assert_true(dtab_len > 0);
		put_le(image + at + row[i].at, 8, row[i].value);
		image_repair(image);
		err = check_poke(image, len);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu: '%s', not '%s'", i, err.msg, row[i].says);
		free(image);
	}
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_small_catalog_has_segments_of_all_kinds),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(bytes_after_the_end_are_refused),
		cmocka_unit_test(every_flipped_bit_is_found),
		cmocka_unit_test(a_header_that_lies_is_told_by_its_own_words),
		cmocka_unit_test(checksums_that_do_not_match_are_named),
		cmocka_unit_test(a_number_of_sections_that_does_not_fit_is_refused),
		cmocka_unit_test(sections_that_are_not_known_are_stepped_over),
		cmocka_unit_test(any_byte_may_lie_in_any_section),
		cmocka_unit_test(lies_in_payloads_are_told_by_words),
		cmocka_unit_test(a_root_with_a_nul_is_refused),
		cmocka_unit_test(a_cursor_that_failed_fails_again),
		cmocka_unit_test(explain_names_the_section_and_the_offset),
		cmocka_unit_test(a_wrong_sum_of_any_run_is_found),
		cmocka_unit_test(lies_at_the_ends_of_ranges_are_found),
		cmocka_unit_test(a_name_that_sorts_before_the_range_before_it_is_found),
		cmocka_unit_test(dictionaries_that_lie_are_explained),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
