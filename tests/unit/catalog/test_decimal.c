/* Goal: places of numbers among their sorted digits are what sorting them gives, both ways. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/decimal.h"
#include "help.h"

struct text {
	char digits[24]; /* and the byte that follows them */
	uint64_t v;
};

static int compare_texts(const void *a, const void *b)
{
	return strcmp(((const struct text *)a)->digits, ((const struct text *)b)->digits);
}

/* All numbers up to @max, sorted as text with @suffix behind them. */
static void check_all(uint64_t max, const char *suffix)
{
	struct text *texts = allocate(max + 1, sizeof(*texts));
	struct cat_decimal d;

	cat_decimal_init(&d, max, suffix[0] > '9');
	for (uint64_t v = 0; v <= max; v++) {
		snprintf(texts[v].digits, sizeof(texts[v].digits), "%" PRIu64 "%s", v, suffix);
		texts[v].v = v;
	}
	qsort(texts, max + 1, sizeof(*texts), compare_texts);
	for (uint64_t rank = 0; rank <= max; rank++) {
		uint64_t v = texts[rank].v;

		if (cat_decimal_rank(&d, v) != rank || cat_decimal_unrank(&d, rank) != v)
			fail_msg("max %" PRIu64 ", suffix '%s': %" PRIu64 " is at %" PRIu64
				 ", but rank gives %" PRIu64 " and unrank %" PRIu64,
				 max, suffix, v, rank, cat_decimal_rank(&d, v),
				 cat_decimal_unrank(&d, rank));
	}
	free(texts);
}

static const char *const suffixes[] = { "", ".", "/", " ", ":", "_", "a", "\x7f" };

static void small_ranks_are_those_of_sorted_texts(void **state)
{
	(void)state;
	for (uint64_t max = 0; max <= 320; max++)
		for (size_t s = 0; s < ARRAY_LEN(suffixes); s++)
			check_all(max, suffixes[s]);
}

static void larger_ranks_are_those_of_sorted_texts(void **state)
{
	static const uint64_t edges[] = { 998,   999,   1000,  1001,   1009,  1010,  1099,
					  1100,  1110,  1111,  1112,   1999,  2000,  4999,
					  9998,  9999,  10000, 10001,  11110, 11111, 11112,
					  19999, 20000, 99999, 100000, 100001 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
		check_all(edges[i], ".");
		check_all(edges[i], "_");
	}
	for (int i = 0; i < 30; i++) {
		check_all(random_below(20000), "");
		check_all(random_below(20000), "x");
	}
}

/* Of two numbers, the one whose text sorts first has the lower place. */
static void check_pair(const struct cat_decimal *d, uint64_t a, uint64_t b, const char *suffix)
{
	char x[32], y[32];
	int c;

	snprintf(x, sizeof(x), "%" PRIu64 "%s", a, suffix);
	snprintf(y, sizeof(y), "%" PRIu64 "%s", b, suffix);
	c = strcmp(x, y);
	if ((c < 0) != (cat_decimal_rank(d, a) < cat_decimal_rank(d, b)))
		fail_msg("max %" PRIu64 ": '%s' and '%s'", d->max, x, y);
}

static uint64_t random_number(uint64_t max)
{
	uint64_t v = random_u64() % cat_pow10[1 + random_below(18)];

	switch (random_below(4)) {
	case 0:
		v = cat_pow10[random_below(18)]; /* 1 and zeros, and one less */
		v -= random_below(2);
		break;
	case 1:
		v = max / cat_pow10[random_below(18)] + random_below(3) - 1; /* prefixes of max */
		break;
	default:
		break;
	}
	return v > max ? max : v;
}

static void large_ranks_go_both_ways_up_to_18_digits(void **state)
{
	static const uint64_t edges[] = {
		UINT64_C(999999999999999999), UINT64_C(999999999999999998),
		UINT64_C(100000000000000000), UINT64_C(99999999999999999),
		UINT64_C(111111111111111111), UINT64_C(111111111111111110),
		UINT64_C(123456789012345678), UINT64_C(500000000000000000),
		UINT64_C(999999999999),       UINT64_C(4294967295),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(edges); i++)
		for (int after = 0; after < 2; after++) {
			struct cat_decimal d;

			cat_decimal_init(&d, edges[i], after);
			for (int k = 0; k < 3000; k++) {
				uint64_t v = random_number(edges[i]), w = random_number(edges[i]);
				uint64_t rank = random_u64() % (edges[i] + 1);

				assert_in_range(cat_decimal_rank(&d, v), 0, edges[i]);
				assert_int_equal(cat_decimal_unrank(&d, cat_decimal_rank(&d, v)),
						 v);
				assert_int_equal(cat_decimal_rank(&d, cat_decimal_unrank(&d, rank)),
						 rank);
				check_pair(&d, v, w, after ? "_" : ".");
			}
			assert_int_equal(cat_decimal_rank(&d, 0), 0);
			assert_int_equal(cat_decimal_unrank(&d, 0), 0);
			assert_int_equal(cat_decimal_rank(&d, cat_decimal_unrank(&d, edges[i])),
					 edges[i]);
		}
}

static void digits_are_counted(void **state)
{
	(void)state;
	assert_int_equal(cat_decimal_digits(0), 1);
	for (unsigned n = 1; n < 19; n++) {
		assert_int_equal(cat_decimal_digits(cat_pow10[n] - 1), n);
		assert_int_equal(cat_decimal_digits(cat_pow10[n]), n + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_ranks_are_those_of_sorted_texts),
		cmocka_unit_test(larger_ranks_are_those_of_sorted_texts),
		cmocka_unit_test(large_ranks_go_both_ways_up_to_18_digits),
		cmocka_unit_test(digits_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
