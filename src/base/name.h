/* name.h - compare names as bytes. A prefix sorts before the names that it is a prefix of. */
#ifndef SHOAL_BASE_NAME_H
#define SHOAL_BASE_NAME_H

#include <string.h>

#include "base/le.h"

/*
 * Names are short and millions are compared, so this compares eight bytes at a time, which is
 * faster than calling memcmp(). The last step overlaps the one before it, whose bytes were equal.
 */

/* How many bytes two names share at their start. */
static inline size_t name_shared(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	size_t max = a_len < b_len ? a_len : b_len, i = 0;

	if (max < 8) {
		while (i < max && a[i] == b[i])
			i++;
		return i;
	}
	for (;;) {
		uint64_t differ = le64_load(a + i) ^ le64_load(b + i);

		if (differ)
			return i + (size_t)__builtin_ctzll(differ) / 8;
		if (i == max - 8)
			return max;
		i = i + 16 <= max ? i + 8 : max - 8;
	}
}

static inline bool bytes_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
	return name_shared(a, len, b, len) == len;
}

static inline int name_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
	const uint8_t *x = a, *y = b;
	size_t min = a_len < b_len ? a_len : b_len, at = name_shared(x, a_len, y, b_len);

	if (at < min)
		return x[at] < y[at] ? -1 : 1;
	return (a_len > b_len) - (a_len < b_len);
}

/*
 * The eight bytes of the name from @skip on, as a number that sorts as they do, zero past the end.
 * Names that share their first @skip bytes and differ in the next eight compare as their keys.
 */
static inline uint64_t name_key(const uint8_t *name, size_t len, size_t skip)
{
	uint64_t key = 0;

	if (len >= skip + 8)
		return be64_load(name + skip);
	if (len <= skip)
		return 0;
	if (len >= 8) /* its last eight bytes: without a call for a copy */
		return be64_load(name + len - 8) << 8 * (skip + 8 - len);
	for (size_t i = skip; i < len; i++)
		key |= (uint64_t)name[i] << 8 * (7 - (i - skip));
	return key;
}

#endif
