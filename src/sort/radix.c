/*
 * Most significant digit first, on keys of eight bytes that are stored with the references: the
 * names themselves are read only once per eight bytes of depth.
 *
 * A digit is not a byte of the key but the first bits in which keys differ, wherever they are: for
 * three decimal digits these are twelve bits, so that one round replaces three rounds of ten
 * buckets.
 */
#include "sort/radix.h"

#include <string.h>

#include "base/name.h"

#define SMALL      32u
#define LEVELS_MAX 32u

/* Bits of a digit: a table of this many buckets stays in the L1 cache. */
#define BITS_MAX 12u

/* Compare by what is not in the key: the bytes after it, then the order of adding. */
static bool rest_before(const uint8_t *names, const struct sort_ref *a, const struct sort_ref *b,
			uint32_t depth)
{
	uint32_t a_len = a->len > depth + 8 ? a->len - depth - 8 : 0;
	uint32_t b_len = b->len > depth + 8 ? b->len - depth - 8 : 0;
	uint32_t min = a_len < b_len ? a_len : b_len;
	int c = min ? memcmp(names + a->off + depth + 8, names + b->off + depth + 8, min) : 0;

	if (c)
		return c < 0;
	if (a->len != b->len)
		return a->len < b->len;
	return a->off < b->off;
}

static bool before(const uint8_t *names, const struct sort_ref *a, const struct sort_ref *b,
		   uint32_t depth)
{
	return a->key != b->key ? a->key < b->key : rest_before(names, a, b, depth);
}

static void insertion_sort(const uint8_t *names, struct sort_ref *refs, size_t nr, uint32_t depth)
{
	for (size_t i = 1; i < nr; i++) {
		struct sort_ref r = refs[i];
		size_t j = i;

		for (; j > 0 && before(names, &r, &refs[j - 1], depth); j--)
			refs[j] = refs[j - 1];
		refs[j] = r;
	}
}

static void sift_down(const uint8_t *names, struct sort_ref *refs, size_t at, size_t nr,
		      uint32_t depth)
{
	struct sort_ref r = refs[at];

	for (size_t child; (child = 2 * at + 1) < nr; at = child) {
		if (child + 1 < nr && before(names, &refs[child], &refs[child + 1], depth))
			child++;
		if (!before(names, &r, &refs[child], depth))
			break;
		refs[at] = refs[child];
	}
	refs[at] = r;
}

/* For input that the radix cannot split: millions of equal names, or adversarial names. */
static void heap_sort(const uint8_t *names, struct sort_ref *refs, size_t nr, uint32_t depth)
{
	for (size_t i = nr / 2; i-- > 0;)
		sift_down(names, refs, i, nr, depth);
	for (size_t end = nr; end-- > 1;) {
		struct sort_ref r = refs[0];

		refs[0] = refs[end];
		refs[end] = r;
		sift_down(names, refs, 0, end, depth);
	}
}

/* How a digit is extracted from a key: this many groups of bits. */
struct digit {
	unsigned bits;
	unsigned nr;
	struct {
		unsigned shift;
		unsigned mask;
	} part[BITS_MAX];
};

/* Use the first @bits of those that are set in @diff, or all of them. Digits compare like keys. */
static struct digit digit_of(uint64_t diff, unsigned bits)
{
	struct digit d = { .bits = (unsigned)u64_min(bits, (uint64_t)__builtin_popcountll(diff)) };
	unsigned left = d.bits;

	while (left > 0) {
		unsigned high = 63u - (unsigned)__builtin_clzll(diff);
		uint64_t others = ~diff << (63u - high) | 1; /* 1: at most 63 in a row */
		unsigned len = (unsigned)u64_min(left, (unsigned)__builtin_clzll(others));

		left -= len;
		d.part[d.nr].shift = high + 1 - len - left;
		d.part[d.nr++].mask = (unsigned)(((UINT64_C(1) << len) - 1) << left);
		diff &= (UINT64_C(1) << (high + 1 - len)) - 1;
	}
	return d;
}

static inline unsigned digit_get(const struct digit *d, uint64_t key)
{
	unsigned value = (unsigned)(key >> d->part[0].shift) & d->part[0].mask;

	for (unsigned i = 1; i < d->nr; i++)
		value |= (unsigned)(key >> d->part[i].shift) & d->part[i].mask;
	return value;
}

struct sorting {
	const uint8_t *names;
	struct sort_ref *spare;
	uint32_t next[1u << BITS_MAX]; /* where the next reference of each bucket goes */
};

/* Move each reference into the bucket of its digit, through the spare array: swapping in place
 * would have to wait for each reference before the next one's bucket is known. */
static void distribute(struct sorting *s, struct sort_ref *refs, size_t nr, const struct digit *d)
{
	unsigned nr_buckets = 1u << d->bits;
	uint32_t sum = 0;

	memset(s->next, 0, nr_buckets * sizeof(*s->next));
	for (size_t i = 0; i < nr; i++)
		s->next[digit_get(d, refs[i].key)]++;
	for (unsigned i = 0; i < nr_buckets; i++) {
		uint32_t count = s->next[i];

		s->next[i] = sum;
		sum += count;
	}
	for (size_t i = 0; i < nr; i++)
		s->spare[s->next[digit_get(d, refs[i].key)]++] = refs[i];
	memcpy(refs, s->spare, nr * sizeof(*refs));
}

/* Bits in which the keys differ. */
static uint64_t key_difference(const struct sort_ref *refs, size_t nr)
{
	uint64_t diff = 0;

	for (size_t i = 1; i < nr; i++)
		diff |= refs[i].key ^ refs[0].key;
	return diff;
}

static unsigned log2_of(size_t nr)
{
	return 63u - (unsigned)__builtin_clzll(nr);
}

/* @levels bounds the recursion, and with it the stack. */
static void sort_keys(struct sorting *s, struct sort_ref *refs, size_t nr, uint32_t depth,
		      unsigned levels)
{
	size_t small = 0; /* where a group of small buckets starts, which are sorted together */
	uint64_t diff = 0;
	struct digit d;

	while (nr > SMALL && (diff = key_difference(refs, nr)) == 0 && (refs[0].key & 0xff)) {
		depth += 8; /* all equal so far, and no name has ended: continue with the next eight
			       bytes */
		for (size_t i = 0; i < nr; i++)
			refs[i].key = name_key(s->names + refs[i].off, refs[i].len, depth);
	}
	if (nr <= SMALL) {
		insertion_sort(s->names, refs, nr, depth);
		return;
	}
	if (diff == 0 || levels == 0) {
		heap_sort(s->names, refs, nr, depth);
		return;
	}
	d = digit_of(diff, (unsigned)u64_min(BITS_MAX, log2_of(nr) + 2));
	distribute(s, refs, nr, &d);
	for (size_t start = 0, end; start < nr; start = end) {
		unsigned value = digit_get(&d, refs[start].key);

		for (end = start + 1; end < nr && digit_get(&d, refs[end].key) == value;)
			end++;
		if (end - start <= SMALL)
			continue;
		insertion_sort(s->names, refs + small, start - small, depth);
		sort_keys(s, refs + start, end - start, depth, levels - 1);
		small = end;
	}
	insertion_sort(s->names, refs + small, nr - small, depth);
}

void sort_radix(const uint8_t *names, struct sort_ref *refs, struct sort_ref *spare, size_t nr,
		uint32_t depth)
{
	struct sorting s;

	s.names = names;
	s.spare = spare;
	for (size_t i = 0; i < nr; i++)
		refs[i].key = name_key(names + refs[i].off, refs[i].len, depth);
	sort_keys(&s, refs, nr, depth, LEVELS_MAX);
}
