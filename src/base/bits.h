/* bits.h - packed bits: fields of up to 64 bits at any bit offset, least significant bit first. */
#ifndef SHOAL_BASE_BITS_H
#define SHOAL_BASE_BITS_H

#include <string.h>

#include "base/le.h"

static inline uint64_t bits_mask(unsigned bits)
{
	return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* Bits needed to write @v: 0 for 0. */
static inline unsigned bit_len(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* Eight bytes from offset @at of an array of @len bytes, zero past its end. */
static inline uint64_t bits_word(const uint8_t *p, size_t len, size_t at)
{
	uint8_t tail[8] = { 0 };

	if (LIKELY(at + 8 <= len))
		return le64_load(p + at);
	if (at < len)
		memcpy(tail, p + at, len - at);
	return le64_load(tail);
}

/* The @n (0..64) bits from bit @bit on of an array of @len bytes; bits past its end are zero. */
static inline uint64_t bits_get(const uint8_t *p, size_t len, uint64_t bit, unsigned n)
{
	size_t at = (size_t)(bit >> 3);
	unsigned shift = bit & 7;
	uint64_t v = bits_word(p, len, at) >> shift;

	if (shift + n > 64 && at + 8 < len)
		v |= (uint64_t)p[at + 8] << (64 - shift);
	return v & bits_mask(n);
}

/*
 * OR the low @n bits of @v into the array at bit @bit. The 9 bytes from there exist and are zero.
 */
static inline void bits_put(uint8_t *p, uint64_t bit, unsigned n, uint64_t v)
{
	uint8_t *at = p + (bit >> 3);
	unsigned shift = bit & 7;

	v &= bits_mask(n);
	le64_store(at, le64_load(at) | v << shift);
	if (shift && shift + n > 64)
		at[8] |= (uint8_t)(v >> (64 - shift));
}

/* Position of the set bit number @r (from 0) of @w, which has more than @r set bits. */
static inline unsigned select_word(uint64_t w, unsigned r)
{
	uint64_t s = w - (w >> 1 & UINT64_C(0x5555555555555555));
	unsigned byte, before;

	/* Prefix sums of set bits per byte, then the byte that reaches r. */
	s = (s & UINT64_C(0x3333333333333333)) + (s >> 2 & UINT64_C(0x3333333333333333));
	s = ((s + (s >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101);
	for (byte = 0; (s >> 8 * byte & 0xff) <= r && byte < 7; byte++)
		;
	before = byte ? (unsigned)(s >> (8 * byte - 8) & 0xff) : 0;
	w = w >> 8 * byte & 0xff;
	for (r -= before; r > 0; r--)
		w &= w - 1;
	return 8 * byte + (unsigned)__builtin_ctzll(w | UINT64_C(1) << 63);
}

#endif
