/*
 * Most significant byte first, in place (American flag), on keys of eight bytes that are kept with
 * the references: names themselves are read only once per eight bytes of depth.
 */
#include "index/radix.h"

#include <string.h>

#include "base/name.h"

#define SMALL      32u
#define LEVELS_MAX 32u

/* What the key does not tell: the bytes after it, then the order of adding. */
static bool rest_before(const uint8_t *names, const struct index_ref *a, const struct index_ref *b,
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

static bool before(const uint8_t *names, const struct index_ref *a, const struct index_ref *b,
		   uint32_t depth)
{
	return a->key != b->key ? a->key < b->key : rest_before(names, a, b, depth);
}

static void insertion_sort(const uint8_t *names, struct index_ref *refs, size_t nr, uint32_t depth)
{
	for (size_t i = 1; i < nr; i++) {
		struct index_ref r = refs[i];
		size_t j = i;

		for (; j > 0 && before(names, &r, &refs[j - 1], depth); j--)
			refs[j] = refs[j - 1];
		refs[j] = r;
	}
}

static void sift_down(const uint8_t *names, struct index_ref *refs, size_t at, size_t nr,
		      uint32_t depth)
{
	struct index_ref r = refs[at];

	for (size_t child; (child = 2 * at + 1) < nr; at = child) {
		if (child + 1 < nr && before(names, &refs[child], &refs[child + 1], depth))
			child++;
		if (!before(names, &r, &refs[child], depth))
			break;
		refs[at] = refs[child];
	}
	refs[at] = r;
}

/* For what the radix cannot split: millions of equal names, or names made to split one by one. */
static void heap_sort(const uint8_t *names, struct index_ref *refs, size_t nr, uint32_t depth)
{
	for (size_t i = nr / 2; i-- > 0;)
		sift_down(names, refs, i, nr, depth);
	for (size_t end = nr; end-- > 1;) {
		struct index_ref r = refs[0];

		refs[0] = refs[end];
		refs[end] = r;
		sift_down(names, refs, 0, end, depth);
	}
}

/*
 * Move each reference into the bucket of its byte. @end becomes where each bucket ends. Not
 * inlined: gcc -O2 would, and its 2 KiB would then lie on the stack at each level of sort_keys().
 */
static __attribute__((noinline)) void distribute(struct index_ref *refs, size_t nr, unsigned shift,
						 uint32_t end[256])
{
	uint32_t next[256], count[256] = { 0 }, sum = 0;

	for (size_t i = 0; i < nr; i++)
		count[refs[i].key >> shift & 0xff]++;
	for (int b = 0; b < 256; b++) {
		next[b] = sum;
		sum += count[b];
		end[b] = sum;
	}
	for (int b = 0; b < 256; b++) {
		while (next[b] < end[b]) {
			struct index_ref r = refs[next[b]];
			unsigned to = r.key >> shift & 0xff;

			while ((int)to != b) {
				struct index_ref other = refs[next[to]];

				refs[next[to]++] = r;
				r = other;
				to = r.key >> shift & 0xff;
			}
			refs[next[b]++] = r;
		}
	}
}

/* Bits in which the keys differ. */
static uint64_t key_difference(const struct index_ref *refs, size_t nr)
{
	uint64_t diff = 0;

	for (size_t i = 1; i < nr; i++)
		diff |= refs[i].key ^ refs[0].key;
	return diff;
}

/* @levels bounds the recursion, and with it the stack: 1 KiB a level. A half has 4 GiB at most. */
static void sort_keys(const uint8_t *names, struct index_ref *refs, size_t nr, uint32_t depth,
		      unsigned levels)
{
	uint32_t end[256], start = 0;
	uint64_t diff = 0;

	while (nr > SMALL && (diff = key_difference(refs, nr)) == 0 && (refs[0].key & 0xff)) {
		depth += 8; /* all alike so far, and none has ended: on to the next eight bytes */
		for (size_t i = 0; i < nr; i++)
			refs[i].key = shoal_name_key(names + refs[i].off, refs[i].len, depth);
	}
	if (nr <= SMALL) {
		insertion_sort(names, refs, nr, depth);
		return;
	}
	if (diff == 0 || levels == 0) {
		heap_sort(names, refs, nr, depth);
		return;
	}
	distribute(refs, nr, (63u - (unsigned)__builtin_clzll(diff)) & ~7u, end);
	for (int b = 0; b < 256; b++) {
		if (end[b] - start > 1)
			sort_keys(names, refs + start, end[b] - start, depth, levels - 1);
		start = end[b];
	}
}

void index_radix_sort(const uint8_t *names, struct index_ref *refs, size_t nr, uint32_t depth)
{
	for (size_t i = 0; i < nr; i++)
		refs[i].key = shoal_name_key(names + refs[i].off, refs[i].len, depth);
	sort_keys(names, refs, nr, depth, LEVELS_MAX);
}
