/* name.h - compare names as bytes. A prefix comes before what it is a prefix of. */
#ifndef SHOAL_BASE_NAME_H
#define SHOAL_BASE_NAME_H

#include <string.h>

#include "base/le.h"

/*
 * Names are short, and millions are compared: in steps of eight bytes here, for less than calls of
 * memcmp() take. The last step overlaps the one before, which was alike.
 */

/* How many bytes two names share at their start. */
static inline size_t shoal_name_shared(const uint8_t *a, size_t a_len, const uint8_t *b,
				       size_t b_len)
{
	size_t max = a_len < b_len ? a_len : b_len, i = 0;

	if (max < 8) {
		while (i < max && a[i] == b[i])
			i++;
		return i;
	}
	for (;;) {
		uint64_t differ = shoal_le64_load(a + i) ^ shoal_le64_load(b + i);

		if (differ)
			return i + (size_t)__builtin_ctzll(differ) / 8;
		if (i == max - 8)
			return max;
		i = i + 16 <= max ? i + 8 : max - 8;
	}
}

static inline bool shoal_bytes_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
	return shoal_name_shared(a, len, b, len) == len;
}

static inline int shoal_name_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
	const uint8_t *x = a, *y = b;
	size_t min = a_len < b_len ? a_len : b_len, at = shoal_name_shared(x, a_len, y, b_len);

	if (at < min)
		return x[at] < y[at] ? -1 : 1;
	return (a_len > b_len) - (a_len < b_len);
}

/*
 * Eight bytes of the name from @skip on as a number that sorts as they do, zero past its end. Names
 * that share their first @skip bytes and differ in the next eight compare as their keys.
 */
static inline uint64_t shoal_name_key(const uint8_t *name, size_t len, size_t skip)
{
	uint8_t bytes[8] = { 0 };

	if (len >= skip + 8)
		return shoal_be64_load(name + skip);
	if (len > skip)
		memcpy(bytes, name + skip, len - skip);
	return shoal_be64_load(bytes);
}

#endif
