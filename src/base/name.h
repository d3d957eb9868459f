/* name.h - compare names as bytes. A prefix comes before what it is a prefix of. */
#ifndef SHOAL_BASE_NAME_H
#define SHOAL_BASE_NAME_H

#include <string.h>

#include "base/le.h"

static inline int shoal_name_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
	int c = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* How many bytes two names share at their start. */
static inline size_t shoal_name_shared(const uint8_t *a, size_t a_len, const uint8_t *b,
				       size_t b_len)
{
	size_t max = a_len < b_len ? a_len : b_len, i = 0;

	while (i + 8 <= max && memcmp(a + i, b + i, 8) == 0)
		i += 8;
	while (i < max && a[i] == b[i])
		i++;
	return i;
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
