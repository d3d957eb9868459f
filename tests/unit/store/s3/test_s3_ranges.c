/* Goal: ranges are cut between the names that are there, evenly, and never so that one is lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/name.h"
#include "store/s3/ranges.h"

static struct s3_keys keys;
static struct s3_scale scale;

static void learn(const char *name)
{
	s3_keys_learn(&keys, (const uint8_t *)name, strlen(name));
}

static void set_scale(const char *lo, const char *hi)
{
	s3_scale_init(&scale, &keys, (const uint8_t *)lo, strlen(lo), (const uint8_t *)hi,
		      hi ? strlen(hi) : 0);
}

static uint64_t at(const char *name)
{
	return s3_scale_at(&scale, (const uint8_t *)name, strlen(name));
}

static const char *name_at(uint64_t number)
{
	static char name[SHOAL_NAME_MAX + 1];

	name[s3_scale_name(&scale, number, (uint8_t *)name)] = '\0';
	return name;
}

static void one_page_of_numbers_tells_where_all_of_them_are(void **state)
{
	char name[32];

	(void)state;
	memset(&keys, 0, sizeof(keys));
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "img_%07d.jpg", i);
		learn(name);
	}
	set_scale("img_0000999.jpg", NULL);
	assert_int_equal(scale.total, 10000000);
	assert_int_equal(at("img_0000999.jpg"), 999);
	assert_int_equal(at("img_5"), 5000000);
	assert_int_equal(at("abc"), 0);
	assert_int_equal(at("zzz"), scale.total);
	assert_string_equal(name_at(5000000), "img_5");
	assert_string_equal(name_at(1234567), "img_1234567");
	set_scale("img_0012000.jpg", "img_0014000.jpg");
	assert_int_equal(scale.shared, 7);
	assert_string_equal(name_at((at("img_0012000.jpg") + at("img_0014000.jpg")) / 2),
			    "img_0013");
}

static void hex_digits_are_expected_where_later_ones_are(void **state)
{
	char name[32];

	(void)state;
	memset(&keys, 0, sizeof(keys));
	for (unsigned i = 0; i < 1000; i++) { /* the first places show a 0 only */
		snprintf(name, sizeof(name), "000%05x.bin", i * 977);
		learn(name);
	}
	set_scale("000ee000.bin", NULL);
	assert_int_equal(scale.total, UINT64_C(1) << 32);
	assert_string_equal(name_at(UINT64_C(1) << 31), "8");
	assert_string_equal(name_at(UINT64_C(0xc0de) << 16), "c0de");
}

static void words_are_taken_to_be_fixed(void **state)
{
	(void)state;
	memset(&keys, 0, sizeof(keys));
	learn("train0001.rec");
	learn("train0002.rec");
	set_scale("train0001.rec", NULL);
	assert_string_equal(name_at((at("train0001.rec") + scale.total) / 2), "train5");
}

/* Numbers and names agree wherever a number's name is looked up again. */
static void numbers_and_names_are_each_others_inverse(void **state)
{
	(void)state;
	memset(&keys, 0, sizeof(keys));
	learn("class_000017/5f0e_000000123.jpg");
	learn("class_000923/a10e_000000777.jpg");
	set_scale("class_000017/5f0e_000000123.jpg", "class_000923/a10e_000000777.jpg");
	for (uint64_t i = 0, number = 1; i < 1000; i++) {
		uint8_t name[SHOAL_NAME_MAX];
		size_t len = s3_scale_name(&scale, number, name);

		assert_int_equal(s3_scale_at(&scale, name, len), number);
		number = (number * 6364136223846793005u + 1442695040888963407u) % scale.total;
	}
}

static void set_name(struct s3_name *n, const char *text)
{
	n->len = strlen(text);
	memcpy(n->bytes, text, n->len);
}

static int compare(const struct s3_name *a, const struct s3_name *b)
{
	return name_compare(a->bytes, a->len, b->bytes, b->len);
}

/* ---- Those who take, and one who lists ---- */

static struct {
	size_t idle, nr;
	size_t room; /* so many are taken, and the next one fails */
	struct s3_name lo[256], hi[256];
	bool open[256];
} taken;

static size_t count_idle(void *self)
{
	(void)self;
	return taken.idle;
}

static int take_range(void *self, const struct s3_name *lo, const struct s3_name *hi,
		      struct shoal_err *err)
{
	(void)self;
	if (taken.nr == taken.room)
		return err_set(err, -ENOMEM, "out of memory");
	assert_true(taken.nr < 256);
	taken.lo[taken.nr] = *lo;
	taken.open[taken.nr] = !hi;
	if (hi)
		taken.hi[taken.nr] = *hi;
	taken.nr++;
	return 0;
}

static const struct s3_takers takers = { .idle = count_idle, .give = take_range };

/* How many parts were given to @idle others. */
static size_t share(struct s3_ranges *r, size_t idle)
{
	struct shoal_err err;

	taken.idle = idle;
	taken.nr = 0;
	taken.room = SIZE_MAX;
	assert_int_equal(s3_ranges_share(r, &takers, &err), 0);
	return taken.nr;
}

struct two_names {
	const char *name[2];
};

static const uint8_t *name_of(const void *self, size_t i, size_t *ret_len)
{
	const struct two_names *names = self;

	*ret_len = strlen(names->name[i]);
	return (const uint8_t *)names->name[i];
}

static size_t take_page(struct s3_ranges *r, struct s3_range *range, const char *first,
			const char *last, bool *ret_done)
{
	struct two_names names = { { first, last } };
	struct s3_listed page = { .nr = 2, .truncated = true, .name = name_of, .self = &names };

	s3_ranges_learn(r, (const uint8_t *)first, strlen(first));
	s3_ranges_learn(r, (const uint8_t *)last, strlen(last));
	return s3_ranges_take(r, range, &page, ret_done);
}

/* The parts follow each other from behind, between what the range kept and what it had. */
static void check_parts(const struct s3_range *kept, const struct s3_name *had, bool was_open)
{
	for (size_t i = 0; i < taken.nr; i++) {
		assert_int_equal(taken.open[i], i == 0 && was_open);
		if (!taken.open[i])
			assert_int_equal(compare(&taken.hi[i], i ? &taken.lo[i - 1] : had), 0);
		assert_true(taken.open[i] || compare(&taken.lo[i], &taken.hi[i]) < 0);
	}
	if (taken.nr > 0) {
		assert_false(kept->open);
		assert_int_equal(compare(&kept->hi, &taken.lo[taken.nr - 1]), 0);
		assert_true(compare(&kept->lo, &kept->hi) < 0);
	}
}

static void a_range_is_cut_for_others_while_it_is_listed(void **state)
{
	struct s3_ranges *r = s3_ranges_new();
	struct s3_range *far = calloc(1, sizeof(*far)), *range = calloc(1, sizeof(*range));
	struct s3_name had;
	bool done;

	(void)state;
	assert_true(r && far && range);
	set_name(&range->lo, "");
	set_name(&range->hi, "n0900000");
	s3_ranges_begin(r, range);
	assert_int_equal(take_page(r, range, "n0000000", "n0001000", &done), 2);
	assert_false(done);
	set_name(&far->lo, "n0900000"); /* the end of the names is seen there */
	far->open = true;
	s3_ranges_begin(r, far);
	assert_int_equal(take_page(r, far, "n0900001", "n0900100", &done), 2);
	s3_ranges_end(r, far);
	assert_int_equal(share(r, 0), 0);
	had = range->hi;
	assert_in_range(share(r, 8), 1, 8);
	check_parts(range, &had, false);
	/* A page that goes on behind the new end is not all its own. */
	assert_int_equal(take_page(r, range, "n0001001", "n0899999", &done), 1);
	assert_true(done);
	assert_true(compare(&range->lo, &range->hi) < 0);
	s3_ranges_end(r, range);
	s3_ranges_free(r);
	free(range);
	free(far);
}

/* What others took before one could not is listed twice then; nothing is left out. */
static void a_range_keeps_all_of_itself_when_a_part_cannot_be_given(void **state)
{
	struct s3_range *range = calloc(1, sizeof(*range));
	size_t room = 0, parts;

	(void)state;
	assert_non_null(range);
	do {
		struct s3_ranges *r = s3_ranges_new();
		struct shoal_err err = { "" };
		bool done;

		assert_non_null(r);
		*range = (struct s3_range){ .open = true };
		s3_ranges_begin(r, range);
		assert_int_equal(take_page(r, range, "n0000000", "n0001000", &done), 2);
		taken.idle = 6;
		taken.nr = 0;
		taken.room = room;
		if (s3_ranges_share(r, &takers, &err) < 0) {
			assert_string_equal(err.msg, "out of memory");
			assert_true(range->open);
			assert_int_equal(taken.nr, room);
		}
		parts = taken.nr;
		s3_ranges_end(r, range);
		s3_ranges_free(r);
	} while (room++ == parts);
	assert_true(parts > 2); /* so that one in the middle has failed, too */
	assert_false(range->open);
	free(range);
}

static void a_range_ends_with_the_name_that_it_ends_at(void **state)
{
	struct s3_ranges *r = s3_ranges_new();
	struct s3_range *range = calloc(1, sizeof(*range));
	bool done;

	(void)state;
	assert_true(r && range);
	set_name(&range->hi, "c");
	s3_ranges_begin(r, range);
	assert_int_equal(take_page(r, range, "a", "b", &done), 2);
	assert_false(done);
	assert_int_equal(take_page(r, range, "bb", "c", &done), 2);
	assert_true(done);
	s3_ranges_end(r, range);
	s3_ranges_free(r);
	free(range);
}

static void names_of_any_bytes_can_be_cut_between(void **state)
{
	struct s3_ranges *r = s3_ranges_new();
	struct s3_range *range = calloc(1, sizeof(*range));
	uint64_t seed = 1;
	size_t nr = 0;
	struct s3_name had;
	bool done;

	(void)state;
	assert_true(r && range);
	for (int round = 0; round < 2000; round++) {
		char name[4][301];

		range->open = round % 3 == 0;
		for (int n = 0; n < 4; n++) {
			size_t len = 1 + (seed >> 33) % (round % 7 == 0 ? 300 : 12);

			for (size_t i = 0; i < len; i++) {
				seed = seed * 6364136223846793005u + 1442695040888963407u;
				name[n][i] = (char)(1 + (seed >> 40) % (round % 2 ? 255 : 3));
			}
			name[n][len] = '\0';
		}
		qsort(name, 4, sizeof(name[0]), (int (*)(const void *, const void *))strcmp);
		set_name(&range->lo, name[0]);
		set_name(&range->hi, name[3]);
		if (!range->open && compare(&range->lo, &range->hi) >= 0)
			continue;
		had = range->hi;
		s3_ranges_begin(r, range);
		take_page(r, range, name[1], name[2], &done);
		if (!done) {
			nr += share(r, 1 + (size_t)round % 70);
			check_parts(range, &had, round % 3 == 0);
		}
		s3_ranges_end(r, range);
	}
	assert_true(nr > 1000);
	s3_ranges_free(r);
	free(range);
}

static const char *mended(const char *name)
{
	static char out[SHOAL_NAME_MAX + 1];
	size_t len = strlen(name);

	memcpy(out, name, len);
	out[s3_text_mend((uint8_t *)out, len)] = '\0';
	assert_int_equal(s3_text_len((uint8_t *)out, strlen(out)), strlen(out));
	return out;
}

static void a_name_that_is_no_text_ends_with_the_next_character(void **state)
{
	(void)state;
	assert_string_equal(mended(""), "");
	assert_string_equal(mended("abc"), "abc");
	assert_string_equal(mended("a\xc3\xa9"), "a\xc3\xa9");
	assert_string_equal(mended("a\xc3"), "a\xc3\x80");
	assert_string_equal(mended("a\xc3z"), "a\xc3\x80");
	assert_string_equal(mended("a\xe4"), "a\xe4\x80\x80");
	assert_string_equal(mended("a\xe4\xb9"), "a\xe4\xb9\x80");
	assert_string_equal(mended("a\xe4zz"), "a\xe4\x80\x80");
	assert_string_equal(mended("\xe0"), "\xe0\xa0\x80");
	assert_string_equal(mended("\xed\xa0\x80"), "\xed\x80\x80");
	assert_string_equal(mended("\xf0"), "\xf0\x90\x80\x80");
	assert_string_equal(mended("\xf4\x90"), "\xf4\x80\x80\x80");
	assert_string_equal(mended("a\x80"), "a");
	assert_string_equal(mended("a\xc1\x80"), "a");
	assert_string_equal(mended("a\xf5"), "a");
}

static void a_name_of_the_greatest_length_is_not_mended_past_it(void **state)
{
	static uint8_t name[SHOAL_NAME_MAX];

	(void)state;
	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 2] = 0xe4;
	assert_int_equal(s3_text_mend(name, sizeof(name) - 1), sizeof(name) - 2);
	name[sizeof(name) - 3] = 0xe4;
	assert_int_equal(s3_text_mend(name, sizeof(name) - 2), sizeof(name));
}

static void cuts_are_text_only_where_their_neighbours_are(void **state)
{
	static struct s3_name above, below, cut;

	(void)state;
	memset(&keys, 0, sizeof(keys));
	learn("\xce\xb1");
	learn("\xe4\xb8\x80");
	above.len = 1;
	above.bytes[0] = 'a';
	below.len = 1;
	below.bytes[0] = 0xf0; /* no text */
	set_scale("a", NULL);
	for (uint64_t i = 0; i < scale.total; i++) {
		s3_cut_name(&scale, i, &above, NULL, &cut);
		assert_int_equal(s3_text_len(cut.bytes, cut.len), cut.len);
		s3_cut_name(&scale, i, &above, &below, &cut);
		assert_int_equal(at(name_at(i)), i);
		assert_int_equal(cut.len, strlen(name_at(i)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_page_of_numbers_tells_where_all_of_them_are),
		cmocka_unit_test(hex_digits_are_expected_where_later_ones_are),
		cmocka_unit_test(words_are_taken_to_be_fixed),
		cmocka_unit_test(numbers_and_names_are_each_others_inverse),
		cmocka_unit_test(a_range_is_cut_for_others_while_it_is_listed),
		cmocka_unit_test(a_range_keeps_all_of_itself_when_a_part_cannot_be_given),
		cmocka_unit_test(a_range_ends_with_the_name_that_it_ends_at),
		cmocka_unit_test(names_of_any_bytes_can_be_cut_between),
		cmocka_unit_test(a_name_that_is_no_text_ends_with_the_next_character),
		cmocka_unit_test(a_name_of_the_greatest_length_is_not_mended_past_it),
		cmocka_unit_test(cuts_are_text_only_where_their_neighbours_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
