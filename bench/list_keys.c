#include "list_keys.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX UINT64_C(9999999999) /* ten digits */
#define HOUR_KEYS   40u
#define FIRST_YEAR  2015u
#define YEAR_HOURS  (12u * 28u * 24u) /* months of 28 days will do */
#define DATES_MAX \
	((uint64_t)(10000u - FIRST_YEAR) * YEAR_HOURS * HOUR_KEYS) /* years of four digits */

enum list_shape list_shape_of(const char *name)
{
	static const char *const names[LIST_NR_SHAPES] = { "hex",  "uuid",  "sequential",
							   "zipf", "dates", "numbers" };
	unsigned shape = 0;

	while (shape < LIST_NR_SHAPES && strcmp(name, names[shape]) != 0)
		shape++;
	return (enum list_shape)shape;
}

uint64_t list_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Prefix sizes as 1 / rank, the ranks thrown about, so that large ones lie anywhere. */
static int make_prefixes(struct list_keys *k)
{
	unsigned nr = k->nr_prefixes;
	unsigned *place = malloc(nr * sizeof(*place));
	double sum = 0, before = 0;

	k->first = calloc(nr + 1, sizeof(*k->first));
	if (!place || !k->first) {
		free(place);
		return -1;
	}
	for (unsigned i = 0; i < nr; i++) {
		place[i] = i;
		sum += 1.0 / (i + 1);
	}
	for (unsigned i = nr - 1; i > 0; i--) {
		unsigned j = (unsigned)(list_mix(i) % (i + 1)), t = place[i];

		place[i] = place[j];
		place[j] = t;
	}
	for (unsigned i = 0; i < nr; i++) {
		k->first[i] = (uint64_t)(before / sum * (double)k->nr);
		before += 1.0 / (place[i] + 1);
	}
	k->first[nr] = k->nr;
	free(place);
	return 0;
}

int list_keys_init(struct list_keys *k, enum list_shape shape, uint64_t nr, unsigned nr_prefixes)
{
	*k = (struct list_keys){ .shape = shape, .nr = nr, .nr_prefixes = nr_prefixes };
	if (nr > NUMBERS_MAX || nr_prefixes == 0 || nr_prefixes > LIST_PREFIXES_MAX)
		return -1;
	if (shape == LIST_DATES && nr > DATES_MAX)
		return -1;
	return shape == LIST_ZIPF ? make_prefixes(k) : 0;
}

void list_keys_release(struct list_keys *k)
{
	free(k->first);
	k->first = NULL;
}

/* ---- Keys ---- */

static char *put_hex(char *p, uint64_t v, int digits)
{
	for (int i = digits - 1; i >= 0; i--)
		*p++ = "0123456789abcdef"[v >> (4 * i) & 15];
	return p;
}

static char *put_decimal(char *p, uint64_t v, int digits)
{
	for (int i = digits - 1; i >= 0; i--, v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + digits;
}

char *list_put_number(char *p, uint64_t v)
{
	char text[20];
	int nr = 0;

	do
		text[nr++] = (char)('0' + v % 10);
	while (v /= 10);
	while (nr > 0)
		*p++ = text[--nr];
	return p;
}

/* The @rank-th of @nr values spread evenly over 64 bits, each shaken within its own share. */
static uint64_t spread(uint64_t rank, uint64_t nr)
{
	uint64_t share = UINT64_MAX / nr;

	return rank * share + (share > 1 ? list_mix(rank) % share : 0);
}

static char *put_uuid(char *p, uint64_t v)
{
	p = put_hex(p, v >> 32, 8);
	*p++ = '-';
	p = put_hex(p, v >> 16 & 0xffff, 4);
	*p++ = '-';
	p = put_hex(p, v & 0xffff, 4);
	*p++ = '-';
	v = list_mix(v);
	p = put_hex(p, v >> 48, 4);
	*p++ = '-';
	return put_hex(p, v & UINT64_C(0xffffffffffff), 12);
}

static unsigned prefix_of(const struct list_keys *k, uint64_t rank)
{
	unsigned low = 0, high = k->nr_prefixes;

	while (high - low > 1) {
		unsigned mid = low + (high - low) / 2;

		if (k->first[mid] <= rank)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static char *put_zipf(const struct list_keys *k, char *p, uint64_t rank)
{
	unsigned prefix = prefix_of(k, rank);
	uint64_t at = rank - k->first[prefix];

	memcpy(p, "class_", 6);
	p = put_decimal(p + 6, prefix, 6);
	*p++ = '/';
	p = put_hex(p, spread(at, k->first[prefix + 1] - k->first[prefix]) >> 16, 12);
	/* The lower digits are cut off: what is left might repeat, but for this. */
	*p++ = '_';
	return put_decimal(p, at, 9);
}

static char *put_date(char *p, uint64_t rank)
{
	uint64_t hour = rank / HOUR_KEYS;

	memcpy(p, "logs/", 5);
	p = put_decimal(p + 5, FIRST_YEAR + hour / YEAR_HOURS, 4);
	*p++ = '/';
	p = put_decimal(p, 1 + hour / 24 / 28 % 12, 2);
	*p++ = '/';
	p = put_decimal(p, 1 + hour / 24 % 28, 2);
	*p++ = '/';
	p = put_decimal(p, hour % 24, 2);
	memcpy(p, "/part-", 6);
	p = put_decimal(p + 6, rank % HOUR_KEYS, 5);
	*p++ = '-';
	return put_hex(p, list_mix(rank), 8);
}

/*
 * The @rank-th of the numbers 0 to nr - 1 in the order of their texts. Below a text lie those that
 * begin with it: counting them, one goes down digit by digit.
 */
static uint64_t nth_number(const struct list_keys *k, uint64_t rank)
{
	uint64_t at = 0;

	if (rank-- == 0)
		return 0;
	for (uint64_t first = 1, digit = 1;; digit++, first++) {
		uint64_t below = 0;

		for (uint64_t lo = first, hi = first; lo < k->nr; lo *= 10, hi = hi * 10 + 9)
			below += (hi < k->nr ? hi : k->nr - 1) - lo + 1;
		if (rank >= below && digit < 10) {
			rank -= below;
			continue;
		}
		at = first;
		if (rank-- == 0)
			return at;
		first = at * 10 - 1; /* its first child, once the loop has added one */
		digit = 0;
	}
}

char *list_keys_put(const struct list_keys *k, uint64_t rank, char *p)
{
	switch (k->shape) {
	case LIST_HEX:
		memcpy(p, "train/", 6);
		p = put_hex(p + 6, spread(rank, k->nr), 16);
		break;
	case LIST_UUID:
		p = put_uuid(p, spread(rank, k->nr));
		break;
	case LIST_SEQUENTIAL:
		memcpy(p, "train/img_", 10);
		p = put_decimal(p + 10, rank, 10);
		break;
	case LIST_ZIPF:
		p = put_zipf(k, p, rank);
		break;
	case LIST_DATES:
		p = put_date(p, rank);
		break;
	case LIST_NUMBERS:
	case LIST_NR_SHAPES:
		p = list_put_number(p, nth_number(k, rank));
		break;
	}
	memcpy(p, ".jpg", 4);
	return p + 4;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int c = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

uint64_t list_keys_after(const struct list_keys *k, const char *key, size_t len, bool or_equal)
{
	uint64_t low = 0, high = k->nr;
	char at[LIST_KEY_MAX];

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		int c = compare(at, (size_t)(list_keys_put(k, mid, at) - at), key, len);

		if (c > 0 || (or_equal && c == 0))
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}
