/*
 * Goal: what is written down of a listing is read back as it was: the text in a catalog, and the
 * checkpoint beside one. Anything else is refused, wherever it is cut or changed, and so are names
 * that no listing makes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/le.h"
#include "catalog/writer.h"
#include "help.h"
#include "index/checkpoint.h"
#include "index/provenance.h"
#include "index/update.h"

/* ---- The text ---- */

static void round_trip(const struct index_provenance *l)
{
	char *text = index_provenance_text(l), *again;
	struct index_provenance back = { 0 };
	struct shoal_err err = { "" };

	assert_non_null(text);
	assert_int_equal(index_provenance_parse(text, strlen(text), &back, &err), 0);
	assert_int_equal(back.started, l->started);
	assert_true(index_provenance_same(&back, l));
	again = index_provenance_text(&back);
	assert_string_equal(again, text);
	index_provenance_release(&back);
	free(text);
	free(again);
}

static void a_listing_is_read_back_as_it_was(void **state)
{
	static const char *const patterns[] = {
		"*.jpg", "a b", "%", "%41", "\n", "\x01\xff\x7f", "", "\xc3\xa4", "k v\n", "**/x/"
	};
	struct index_provenance l = { .include = patterns, .exclude = patterns };

	(void)state;
	for (uint64_t bits = 0; bits < 8; bits++)
		for (size_t nr = 0; nr <= ARRAY_LEN(patterns); nr++) {
			l.started = bits & 1 ? UINT64_MAX : 1;
			l.sizes = bits & 1;
			l.follow = bits & 2;
			l.one_fs = bits & 4;
			l.nr_include = nr;
			l.nr_exclude = ARRAY_LEN(patterns) - nr;
			round_trip(&l);
		}
}

static void listings_that_ask_for_something_else_differ(void **state)
{
	static const char *const one[] = { "a", "b" }, *const other[] = { "a", "c" };
	const struct index_provenance base = { .include = one, .nr_include = 2, .started = 1 };
	struct index_provenance l[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		l[i] = base;
	l[0].started = 99;
	assert_true(index_provenance_same(&base, &l[0]));
	l[1].sizes = true;
	l[2].follow = true;
	l[3].one_fs = true;
	l[4].nr_include = 1;
	l[5].include = other;
	l[6].exclude = one;
	l[6].nr_exclude = 1;
	l[7].nr_include = 0;
	l[7].exclude = one;
	l[7].nr_exclude = 2;
	for (size_t i = 1; i < ARRAY_LEN(l); i++)
		assert_false(index_provenance_same(&base, &l[i]));
}

static void what_is_no_listing_is_refused(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} cases[] = {
		{ "", -ENODATA },
		{ "started 1\n", 0 },
		{ "started 1\nsomething later 1 2\n", 0 },
		{ "started 1\nx \n", 0 },
		{ "started 18446744073709551615\n", 0 },
		{ "started 0\n", -EBADMSG },
		{ "sizes 1\n", -EBADMSG },
		{ "started 1", -EBADMSG },
		{ "started 1\nx", -EBADMSG },
		{ "started 1\n\n", -EBADMSG },
		{ "started\n", -EBADMSG },
		{ "started -1\n", -EBADMSG },
		{ "started 1x\n", -EBADMSG },
		{ "started 18446744073709551616\n", -EBADMSG },
		{ "started 1\nsizes 2\n", -EBADMSG },
		{ "started 1\nsizes 11\n", -EBADMSG },
		{ "started 1\nsizes \n", -EBADMSG },
		{ "started 1\nfollow x\n", -EBADMSG },
		{ "started 1\ninclude %\n", -EBADMSG },
		{ "started 1\ninclude %4\n", -EBADMSG },
		{ "started 1\ninclude %4g\n", -EBADMSG },
		{ "started 1\ninclude %00\n", -EBADMSG },
		{ "started 1\ninclude %41%42\n", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct index_provenance l = { 0 };
		struct shoal_err err = { "" };
		int rc = index_provenance_parse(cases[i].text, strlen(cases[i].text), &l, &err);

		if (rc != cases[i].rc || (rc < 0) != (err.msg[0] != '\0'))
			fail_msg("'%s': %d '%s'", cases[i].text, rc, err.msg);
		if (rc == 0)
			index_provenance_release(&l);
	}
}

/* ---- The checkpoint ---- */

struct image {
	uint8_t *bytes;
	size_t len;
};

static void put_stretch(struct buf *b, const struct buf *inner)
{
	struct le64 len = le64_of(inner->len);

	buf_append(b, &len, sizeof(len));
	if (inner->len)
		buf_append(b, inner->data, inner->len);
}

static void put_text(struct buf *b, const char *text)
{
	buf_varint(b, strlen(text));
	buf_append(b, text, strlen(text));
}

static void put_sum(struct image *i)
{
	struct le64 sum = le64_of(XXH3_64bits(i->bytes, i->len - 8));

	memcpy(i->bytes + i->len - 8, &sum, sizeof(sum));
}

static void put_unit(struct buf *b, const char *unit)
{
	struct le32 len = le32_of((uint32_t)strlen(unit));

	buf_append(b, &len, sizeof(len));
	buf_append(b, unit, strlen(unit));
}

/* By the description in checkpoint.h. */

static struct image make_checkpoint(void)
{
	struct buf b = { .max = 1u << 20 }, runs = b, units = b, sums = b, handoffs = b, got = b;
	struct image i;

	for (uint64_t r = 0; r < 3; r++) {
		buf_varint(&runs, r * 1000);
		buf_varint(&runs, 1000);
		buf_varint(&runs, r);
	}
	buf_varint(&sums, 3000);
	buf_append(&sums, "87654321", 8);
	put_unit(&units, "");
	put_unit(&units, "Dsome/directory");
	put_unit(&units, "Sx");
	for (uint64_t nr = 8; nr < 10; nr++) {
		buf_varint(&handoffs, 3);
		buf_varint(&handoffs, nr);
		put_unit(&handoffs, "Dgiven");
	}
	for (uint64_t r = 0; r < 5; r++)
		buf_varint(&got, 100 * r);
	buf_append(&b, "SHOALCP5", 8);
	buf_varint(&b, 1234567890123);
	buf_varint(&b, 42);
	buf_varint(&b, 7);
	buf_varint(&b, 9);
	buf_varint(&b, 3000);
	buf_varint(&b, 2);
	buf_varint(&b, 5);
	buf_varint(&b, 77);
	put_text(&b, "file:///data");
	put_text(&b, "sizes 1\n");
	put_stretch(&b, &runs);
	put_stretch(&b, &sums);
	put_stretch(&b, &units);
	put_stretch(&b, &handoffs);
	put_stretch(&b, &got);
	buf_append(&b, "12345678", 8);
	assert_int_equal(b.rc, 0);
	i = (struct image){ .bytes = allocate(1, b.len), .len = b.len };
	memcpy(i.bytes, b.data, b.len); /* exact: ASan sees a byte too many */
	put_sum(&i);
	buf_release(&b);
	buf_release(&runs);
	buf_release(&sums);
	buf_release(&units);
	buf_release(&handoffs);
	buf_release(&got);
	return i;
}

static void a_checkpoint_is_read_as_it_was_written(void **state)
{
	static const char *const want[] = { "", "Dsome/directory", "Sx" };
	struct image i = make_checkpoint();
	struct index_checkpoint c;
	struct sort_run run;
	uint64_t to, nr;
	struct index_unit_ref unit;

	(void)state;
	assert_int_equal(index_checkpoint_parse(i.bytes, i.len, &c), 0);
	assert_true(c.rank == 2 && c.nr_ranks == 5 && c.session == 77);
	assert_int_equal(span_left(&c.got), 2 + 3 * 2);
	assert_int_equal(c.started, 1234567890123);
	assert_int_equal(c.nr_names, 42);
	assert_int_equal(c.nr_unreadable, 7);
	assert_int_equal(c.nr_foreign, 9);
	assert_int_equal(c.runs_end, 3000);
	assert_int_equal(c.root_len, 12);
	assert_memory_equal(c.root, "file:///data", 12);
	assert_int_equal(c.listing_len, 8);
	assert_memory_equal(c.listing, "sizes 1\n", 8);
	for (uint32_t r = 0; r < 3; r++) {
		run.more = true; /* left from before: a run of a checkpoint has no other pieces */
		assert_int_equal(index_checkpoint_run(&c.runs, c.runs_end, &run), 1);
		assert_true(run.off == r * 1000 && run.len == 1000 && run.shared == r && !run.more);
	}
	assert_int_equal(index_checkpoint_run(&c.runs, c.runs_end, &run), 0);
	for (size_t u = 0; u < ARRAY_LEN(want); u++) {
		assert_int_equal(index_unit_next(&c.units, &unit), 1);
		assert_int_equal(unit.len, strlen(want[u]));
		assert_memory_equal(unit.unit, want[u], unit.len);
	}
	assert_int_equal(index_unit_next(&c.units, &unit), 0);
	for (uint64_t g = 8; g < 10; g++) {
		assert_int_equal(index_checkpoint_handoff(&c.handoffs, &to, &nr, &unit), 1);
		assert_true(to == 3 && nr == g && unit.len == 6);
		assert_memory_equal(unit.unit, "Dgiven", unit.len);
	}
	assert_int_equal(index_checkpoint_handoff(&c.handoffs, &to, &nr, &unit), 0);
	free(i.bytes);
}

/* A copy of its own size, so that ASan sees a byte too many. */
static int parse_copy(const uint8_t *bytes, size_t len, bool mend)
{
	struct image copy = { .bytes = allocate(1, len), .len = len };
	struct index_checkpoint c;
	int rc;

	memcpy(copy.bytes, bytes, len);
	if (mend)
		put_sum(&copy);
	rc = index_checkpoint_parse(copy.bytes, copy.len, &c);
	if (rc == 0 && mend) {
		struct sort_run run;
		struct index_unit_ref unit;
		uint64_t to, nr;

		while (index_checkpoint_run(&c.runs, c.runs_end, &run) > 0)
			assert_true(run.off <= c.runs_end && run.len <= c.runs_end - run.off);
		while (index_unit_next(&c.units, &unit) > 0)
			assert_true((const uint8_t *)unit.unit + unit.len <= copy.bytes + copy.len);
		while (index_checkpoint_handoff(&c.handoffs, &to, &nr, &unit) > 0)
			assert_true((const uint8_t *)unit.unit + unit.len <= copy.bytes + copy.len);
	}
	free(copy.bytes);
	return rc;
}

static void a_checkpoint_that_is_cut_or_changed_is_refused(void **state)
{
	struct image i = make_checkpoint();

	(void)state;
	for (size_t len = 0; len < i.len; len++) {
		assert_int_equal(parse_copy(i.bytes, len, false), -EBADMSG);
		if (len >= 16) /* with a sum that fits */
			assert_int_equal(parse_copy(i.bytes, len, true), -EBADMSG);
	}
	for (size_t bit = 0; bit < 8 * i.len; bit++) {
		i.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(parse_copy(i.bytes, i.len, false), -EBADMSG);
		if (bit >= 64)
			(void)!parse_copy(i.bytes, i.len, true); /* some still make sense */
		i.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(parse_copy(i.bytes, i.len, false), 0);
	free(i.bytes);
}

static void runs_and_units_beyond_their_bounds_are_refused(void **state)
{
	static const struct {
		uint64_t off, len, shared;
		int rc;
	} cases[] = {
		{ 0, 100, 0, 1 },
		{ 100, 0, 0, 1 },
		{ 0, 101, 0, -EBADMSG },
		{ 101, 0, 0, -EBADMSG },
		{ 1, 100, 0, -EBADMSG },
		{ UINT64_MAX, 1, 0, -EBADMSG },
		{ 1, UINT64_MAX, 0, -EBADMSG },
		{ 0, 1, UINT64_MAX, 1 },
	};
	struct index_unit_ref unit;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf b = { .max = 100 };
		struct span span;
		struct sort_run run;

		buf_varint(&b, cases[i].off);
		buf_varint(&b, cases[i].len);
		buf_varint(&b, cases[i].shared);
		span = (struct span){ .p = b.data, .end = b.data + b.len };
		assert_int_equal(index_checkpoint_run(&span, 100, &run), cases[i].rc);
		assert_true(cases[i].rc < 0 || run.shared <= SHOAL_NAME_MAX);
		buf_release(&b);
	}
	for (uint64_t most = STORE_UNIT_MAX - 1; most <= STORE_UNIT_MAX + 1; most++) {
		struct buf b = { .max = 1u << 20 };
		struct le32 head;
		struct span span;

		head = le32_of((uint32_t)most);
		buf_append(&b, &head, sizeof(head));
		for (uint64_t i = 0; i < most; i++)
			buf_u8(&b, 'x');
		span = (struct span){ .p = b.data, .end = b.data + b.len };
		assert_int_equal(index_unit_next(&span, &unit),
				 most > STORE_UNIT_MAX ? -EBADMSG : 1);
		buf_release(&b);
	}
}

/* ---- Taking over ---- */

/* A catalog of one file in directory "d", as the writer takes it without looking. */
static void write_unchecked(const char *path, const struct index_provenance *l, const char *name,
			    size_t len)
{
	char *text = index_provenance_text(l);
	struct shoal_writer_options wo = { .root = "file:///x",
					   .samples_per_file = 1,
					   .listing = text };
	struct shoal_writer *w = NULL;
	struct cat_digester d;

	assert_int_equal(shoal_writer_open(path, &wo, &w, NULL), 0);
	assert_int_equal(writer_add_sorted(w, name, len, 0, 1, NULL, NULL), 0);
	d = writer_digester(w);
	cat_digester_add(&d, name, len, 0, 1);
	writer_add_packed(w, &d);
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
	free(text);
}

static void a_name_with_a_nul_is_not_taken_over_from_an_old_catalog(void **state)
{
	/* That good names are taken over is tested with whole walks: tests/cli/test_update.py. */
	static const char *const name[] = { "d/a\0b", "d/ab\0" };
	const struct index_provenance l = { .started = UINT64_C(1) << 60 };
	const struct store_dir dir = { .name = "d", .len = 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(name); i++) {
		struct store_sink sink = { .found = NULL };
		struct index_update u;
		struct shoal_err err = { "" };

		write_unchecked(test_path("old.cat"), &l, name[i], 5);
		assert_int_equal(
			index_update_open(&u, test_path("old.cat"), NULL, &l, "file:///x", 1, &err),
			0);
		assert_int_equal(index_update_take(&u, NULL, &sink, &dir, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "NUL"));
		index_update_release(&u);
		test_dir_empty();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listing_is_read_back_as_it_was),
		cmocka_unit_test(listings_that_ask_for_something_else_differ),
		cmocka_unit_test(what_is_no_listing_is_refused),
		cmocka_unit_test(a_checkpoint_is_read_as_it_was_written),
		cmocka_unit_test(a_checkpoint_that_is_cut_or_changed_is_refused),
		cmocka_unit_test(runs_and_units_beyond_their_bounds_are_refused),
		cmocka_unit_test(a_name_with_a_nul_is_not_taken_over_from_an_old_catalog),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
