/*
 * Goal: rising numbers of any width come back one by one, those that are there are found and no
 * others, however they are spread.
 */
#include "catalog/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/bits.h"
#include "help.h"

/* A number as the writer takes it: words of 64 bits, least significant first. */
struct numbers {
	uint64_t *w;
	uint64_t nr;
	unsigned words, bits;
};

/* The coded numbers as a NAME section of their own, with its page sums: exactly as long as needed.
 */
struct section {
	uint8_t *bytes;
	size_t len;
	uint8_t *sums;
	struct cat_view view;
	struct cat_values values;
};

static int compare_numbers(const uint64_t *a, const uint64_t *b, unsigned words)
{
	for (unsigned k = words; k-- > 0;)
		if (a[k] != b[k])
			return a[k] < b[k] ? -1 : 1;
	return 0;
}

static unsigned sort_words;

static int compare_for_sort(const void *a, const void *b)
{
	return compare_numbers(a, b, sort_words);
}

/* Sort, and leave out what is there twice. */
static void make_rising(struct numbers *n)
{
	uint64_t nr = 0;

	sort_words = n->words;
	qsort(n->w, n->nr, n->words * sizeof(*n->w), compare_for_sort);
	for (uint64_t i = 0; i < n->nr; i++) {
		if (nr > 0 &&
		    compare_numbers(&n->w[(nr - 1) * n->words], &n->w[i * n->words], n->words) == 0)
			continue;
		memmove(&n->w[nr++ * n->words], &n->w[i * n->words], n->words * sizeof(*n->w));
	}
	n->nr = nr;
}

/* @nr numbers of @bits bits; of each the lowest @spread bits are random, the others ones. */
static struct numbers random_numbers(uint64_t nr, unsigned bits, unsigned spread)
{
	struct numbers n = { .nr = nr, .bits = bits, .words = (bits + 63) / 64 };

	n.w = allocate(nr * n.words, sizeof(*n.w));
	for (uint64_t i = 0; i < nr; i++)
		for (unsigned k = 0; k < n.words; k++) {
			uint64_t random = spread > 64 * k ? bits_mask(spread - 64 * k) : 0;

			n.w[i * n.words + k] = (random_u64() & random) | ~random;
			n.w[i * n.words + k] &= bits_mask(bits - 64 * k);
		}
	make_rising(&n);
	return n;
}

static void section_open(struct section *s, const struct numbers *n, bool with_sums)
{
	struct buf b = { .max = SIZE_MAX };
	struct span span;
	size_t pages;

	cat_values_write(&b, n->w, n->nr, n->words, n->bits);
	assert_int_equal(b.rc, 0);
	*s = (struct section){ .bytes = allocate(b.len, 1), .len = b.len };
	memcpy(s->bytes, b.data, b.len);
	buf_release(&b);
	pages = (s->len + CAT_PAGE - 1) / CAT_PAGE;
	s->sums = allocate(pages, 8);
	for (size_t p = 0; p < pages; p++)
		le64_store(s->sums + 8 * p, XXH3_64bits(s->bytes + p * CAT_PAGE,
							u64_min(CAT_PAGE, s->len - p * CAT_PAGE)));
	s->view.sec[CAT_NAME].addr = s->bytes;
	s->view.sec[CAT_NAME].len = s->len;
	s->view.sums = s->sums;
	s->view.nr_pages = pages;
	if (with_sums)
		s->view.checked = allocate(pages / 64 + 1, sizeof(*s->view.checked));
	span = (struct span){ .p = s->bytes, .end = s->bytes + u64_min(s->len, 16384) };
	assert_int_equal(
		cat_values_parse(&s->view, &span, s->bytes, 0, s->len, n->nr, n->bits, &s->values),
		0);
}

static void section_close(struct section *s)
{
	free(s->bytes);
	free(s->sums);
	free(s->view.checked);
}

/* Find @x, which the numbers have or not. */
static void check_find(const struct section *s, const struct numbers *n, const struct cat_x *x)
{
	uint64_t low = 0, high = n->nr, got = UINT64_MAX;
	bool there;
	int rc;

	while (low < high) {
		uint64_t mid = (low + high) / 2;

		if (compare_numbers(&n->w[mid * n->words], x->w, n->words) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	there = low < n->nr && compare_numbers(&n->w[low * n->words], x->w, n->words) == 0;
	rc = cat_values_find(&s->values, x, &got);
	if (rc != there || (there && got != low))
		fail_msg("%" PRIu64 " numbers of %u bits: number %" PRIu64
			 " is %sthere, found %d at %" PRIu64,
			 n->nr, n->bits, low, there ? "" : "not ", rc, got);
}

/* Add @by (1 or -1) to @x. False when it leaves the width. */
static bool step(struct cat_x *x, const struct numbers *n, bool up)
{
	for (unsigned k = 0; k < n->words; k++) {
		uint64_t mask = bits_mask(n->bits - 64 * k);

		x->w[k] = (up ? x->w[k] + 1 : x->w[k] - 1) & mask;
		if (x->w[k] != (up ? 0 : mask))
			return true;
	}
	return false;
}

static void check(struct numbers *n)
{
	uint64_t stride = n->nr / 700 + 1;
	struct section s;

	section_open(&s, n, n->nr > 2000);
	for (uint64_t i = 0; i < n->nr; i += i + stride < n->nr ? stride : 1) {
		struct cat_x x, y = { { 0 } };

		assert_int_equal(cat_values_get(&s.values, i, &x), 0);
		if (compare_numbers(x.w, &n->w[i * n->words], n->words) != 0)
			fail_msg("%" PRIu64 " numbers of %u bits: number %" PRIu64 " differs",
				 n->nr, n->bits, i);
		memcpy(y.w, &n->w[i * n->words], n->words * sizeof(*n->w));
		check_find(&s, n, &y);
		if (step(&y, n, true))
			check_find(&s, n, &y);
		memcpy(y.w, &n->w[i * n->words], n->words * sizeof(*n->w));
		if (step(&y, n, false))
			check_find(&s, n, &y);
	}
	for (int i = 0; i < 100; i++) {
		struct cat_x x = { { 0 } };

		for (unsigned k = 0; k < n->words; k++)
			x.w[k] = i == 0 ? 0 : random_u64() & bits_mask(n->bits - 64 * k);
		if (i == 1)
			for (unsigned k = 0; k < n->words; k++)
				x.w[k] = bits_mask(n->bits - 64 * k);
		check_find(&s, n, &x);
	}
	section_close(&s);
	free(n->w);
}

static void numbers_of_every_width_come_back(void **state)
{
	(void)state;
	for (unsigned bits = 1; bits <= CAT_X_BITS_MAX; bits++) {
		struct numbers n = random_numbers(1 + random_below(300), bits, bits);

		check(&n);
		n = random_numbers(1 + random_below(100), bits, 1 + (unsigned)random_below(bits));
		check(&n);
	}
}

static void any_count_of_numbers_comes_back(void **state)
{
	static const uint64_t counts[] = { 1,    2,    3,    63,   64,   65,   254,   255,  256,
					   257,  511,  512,  513,  600,  682,  683,   684,  1023,
					   1024, 1025, 2047, 2048, 2049, 5000, 65535, 65536 };
	static const unsigned widths[] = { 17, 24, 63, 64, 65, 127, 128, 129, 512 };

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(counts); c++)
		for (size_t k = 0; k < ARRAY_LEN(widths); k++) {
			struct numbers n;

			if (counts[c] > 6000 && k % 3)
				continue;
			n = random_numbers(counts[c], widths[k], widths[k]);
			check(&n);
		}
}

/* All but one of the numbers lie close together, at either end. */
static void skewed_numbers_come_back(void **state)
{
	static const uint64_t counts[] = { 2, 3, 255, 256, 257, 2000, 65536 };
	static const unsigned widths[] = { 30, 64, 65, 128, 200, 512 };

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(counts); c++)
		for (size_t k = 0; k < ARRAY_LEN(widths); k++)
			for (int end = 0; end < 3; end++) {
				uint64_t nr = counts[c];
				unsigned bits = widths[k], words = (bits + 63) / 64;
				struct numbers n = { allocate(nr * words, 8), nr, words, bits };

				for (uint64_t i = 0; i < nr; i++) {
					bool low = end == 0   ? i + 1 < nr
						   : end == 1 ? i == 0
							      : i < nr / 2;

					for (unsigned w = 0; w < words; w++)
						n.w[i * words + w] =
							low ? 0 : bits_mask(bits - 64 * w);
					n.w[i * words] = low ? 3 * i + (i == 7)
							     : bits_mask(bits) - 2 * (nr - i);
				}
				make_rising(&n);
				check(&n);
			}
}

/* The base is all ones, so that adding to it carries from word to word. */
static void a_carry_goes_through_all_words(void **state)
{
	(void)state;
	for (unsigned bits = 66; bits <= CAT_X_BITS_MAX; bits += 31)
		for (unsigned at = 1; at < bits - 2; at += 13) {
			unsigned words = (bits + 63) / 64;
			uint64_t nr = 200;
			struct numbers n = { allocate(nr * words, 8), nr, words, bits };
			struct cat_x x = { { 0 } };

			/* From 2^at - 100 on, in uneven steps, over 2^at. */
			x.w[at / 64] = UINT64_C(1) << at % 64;
			for (uint64_t i = 0; i < (at < 8 ? 1u : 100u); i++)
				(void)step(&x, &n, false);
			for (uint64_t i = 0; i < nr; i++) {
				memcpy(&n.w[i * words], x.w, words * 8);
				for (uint64_t k = 0; k <= i % 3; k++)
					(void)step(&x, &n, true);
			}
			make_rising(&n);
			check(&n);
		}
}

static void evenly_spaced_numbers_take_a_few_bytes(void **state)
{
	static const struct {
		uint64_t first, stride, nr;
		unsigned bits;
	} row[] = {
		{ 0, 1, 1, 1 },
		{ 0, 1, 2, 1 },
		{ 5, 7, 1000, 64 },
		{ 1, 1, 65536, 17 },
		{ UINT64_MAX, 1, 1, 64 },
		{ 0, UINT64_MAX, 2, 64 },
		{ 3, UINT64_C(1) << 40, 1000, 64 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct numbers n = { allocate(row[i].nr, 8), row[i].nr, 1, row[i].bits };
		struct buf b = { .max = 100 };

		for (uint64_t k = 0; k < n.nr; k++)
			n.w[k] = row[i].first + k * row[i].stride;
		cat_values_write(&b, n.w, n.nr, 1, n.bits);
		assert_int_equal(b.rc, 0);
		assert_int_equal(b.data[0], CAT_LINEAR);
		buf_release(&b);
		check(&n);
	}
}

/* A list of numbers cut anywhere, and with each of its bytes changed: refused or at least safe. */
static void a_list_that_lies_is_survived(void **state)
{
	static const struct {
		uint64_t nr;
		unsigned bits;
	} row[] = { { 3, 7 }, { 40, 64 }, { 60, 130 }, { 900, 20 } };

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		struct numbers n = random_numbers(row[r].nr, row[r].bits, row[r].bits);
		struct section s;

		section_open(&s, &n, false);
		for (size_t cut = 0; cut < s.len; cut++) {
			uint8_t *exact = allocate(cut, 1);
			struct cat_view view = { 0 };
			struct cat_values values;
			struct span span = { .p = exact, .end = exact + cut };
			uint64_t sum;

			memcpy(exact, s.bytes, cut);
			sum = XXH3_64bits(exact, cut);
			view.sec[CAT_NAME].addr = exact;
			view.sec[CAT_NAME].len = cut;
			view.sums = (uint8_t *)&sum;
			assert_int_equal(cat_values_parse(&view, &span, exact, 0, cut, n.nr, n.bits,
							  &values),
					 -EBADMSG);
			free(exact);
		}
		for (size_t at = 0; at < s.len && at < 200; at++)
			for (int bit = 0; bit < 8; bit++) {
				struct span span = { .p = s.bytes, .end = s.bytes + s.len };
				struct cat_values values;
				struct cat_x x = { { 0 } };
				uint64_t i;

				s.bytes[at] ^= (uint8_t)(1 << bit);
				le64_store(s.sums, XXH3_64bits(s.bytes, s.len));
				if (cat_values_parse(&s.view, &span, s.bytes, 0, s.len, n.nr,
						     n.bits, &values) == 0)
					for (uint64_t k = 0; k < n.nr; k += n.nr / 20 + 1) {
						(void)!cat_values_get(&values, k, &x);
						(void)!cat_values_find(&values, &x, &i);
					}
				s.bytes[at] ^= (uint8_t)(1 << bit);
			}
		section_close(&s);
		free(n.w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_every_width_come_back),
		cmocka_unit_test(any_count_of_numbers_comes_back),
		cmocka_unit_test(skewed_numbers_come_back),
		cmocka_unit_test(a_carry_goes_through_all_words),
		cmocka_unit_test(evenly_spaced_numbers_take_a_few_bytes),
		cmocka_unit_test(a_list_that_lies_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
