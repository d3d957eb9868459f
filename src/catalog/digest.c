#include "catalog/digest.h"

#include <inttypes.h>
#include <stdio.h>

/* Names are short: a call into the library takes longer than hashing one. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/le.h"

#define P61 ((UINT64_C(1) << 61) - 1)

static const uint64_t multiplier[2] = { UINT64_C(0x0D6E8FEB86659FD9),
					UINT64_C(0x05851F42D4C957F3) };

/* a * b mod 2^61 - 1, for factors of at most 61 bits. */
static uint64_t mul_p61(uint64_t a, uint64_t b)
{
	unsigned __int128 x = (unsigned __int128)a * b;
	uint64_t r = (uint64_t)(x & P61) + (uint64_t)(x >> 61);

	return r >= P61 ? r - P61 : r;
}

static uint64_t add_p61(uint64_t a, uint64_t b)
{
	uint64_t r = a + b;

	r = (r & P61) + (r >> 61);
	return r >= P61 ? r - P61 : r;
}

/* Of the hash of the name that a cut comes before, these bits are zero. With more cuts names
 * without a shape would take longer, because each interval may train a dictionary of its own. */
#define CUT_BITS ((UINT64_C(1) << 20) - 1)

bool cat_digest_add(struct cat_digest *d, const void *name, size_t len, uint64_t size,
		    uint64_t samples)
{
	uint64_t seed =
		size * UINT64_C(0x9E3779B97F4A7C15) + samples * UINT64_C(0xC2B2AE3D27D4EB4F);
	XXH128_hash_t h = XXH3_128bits_withSeed(name, len, seed);

	d->lane[0] = add_p61(mul_p61(d->lane[0], multiplier[0]), (h.low64 >> 3) + 1);
	d->lane[1] = add_p61(mul_p61(d->lane[1], multiplier[1]), (h.high64 >> 3) + 1);
	d->nr_files++;
	return (h.low64 & CUT_BITS) == 0;
}

static uint64_t pow_p61(uint64_t base, uint64_t exponent)
{
	uint64_t r = 1;

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			r = mul_p61(r, base);
		base = mul_p61(base, base);
	}
	return r;
}

void cat_digest_append(struct cat_digest *d, const struct cat_digest *next)
{
	for (int i = 0; i < 2; i++)
		d->lane[i] = add_p61(mul_p61(d->lane[i], pow_p61(multiplier[i], next->nr_files)),
				     next->lane[i]);
	d->nr_files += next->nr_files;
}

void cat_digest_final(const struct cat_digest *d, uint64_t ret_digest[2])
{
	struct le64 words[3] = { le64_of(d->lane[0]), le64_of(d->lane[1]), le64_of(d->nr_files) };
	XXH128_hash_t h = XXH3_128bits(words, sizeof(words));

	ret_digest[0] = h.low64;
	ret_digest[1] = h.high64;
}

void cat_digest_print(const uint64_t digest[2], char ret_text[33])
{
	snprintf(ret_text, 33, "%016" PRIx64 "%016" PRIx64, digest[1], digest[0]);
}
