/*
 * perm.h - a keyed permutation of [0, n) with random access, for n up to 2^48.
 *
 * Above SHOAL_PERM_TABLE it is a Feistel network of about 100 bytes of keys, at or below it a
 * shuffled table inside the struct; neither allocates. The construction is specified in
 * docs/design/order.md and frozen by golden vectors: it is part of every saved state.
 *
 * A struct shoal_perm is a value of the caller's. Once initialised it is only read, so any number
 * of threads may share it. Nothing here can fail; positions outside [0, n) are wrong calls.
 */
#ifndef SHOAL_ORDER_PERM_H
#define SHOAL_ORDER_PERM_H

#include "base/base.h"

#define SHOAL_PERM_ROUNDS 8

/* Largest n that is shuffled in a table: there a Feistel network is not random enough. */
#define SHOAL_PERM_TABLE 4096

/* Largest n of all. The halves of an index then have at most 24 bits. */
#define SHOAL_PERM_MAX (UINT64_C(1) << 48)

/*
 * What a permutation is for, so that those of one epoch are independent of each other: eight
 * letters, "shoalp1" and one of g, u, w, l, as a little-endian word.
 */
#define SHOAL_PERM_TAG(letter) \
	(UINT64_C(0x0031706c616f6873) | (uint64_t)(unsigned char)(letter) << 56)
#define SHOAL_PERM_GLOBAL SHOAL_PERM_TAG('g')
#define SHOAL_PERM_UNITS  SHOAL_PERM_TAG('u')
#define SHOAL_PERM_WINDOW SHOAL_PERM_TAG('w')
#define SHOAL_PERM_LOCAL  SHOAL_PERM_TAG('l')

/* All that chooses a permutation of a given n. */
struct shoal_perm_key {
	uint64_t domain; /* one of the tags above */
	uint64_t seed;
	uint64_t epoch;
	uint64_t stream; /* which of many in one domain: a window's or a rank's number */
};

/* Ways to compute a batch. All give the same numbers. */
enum shoal_perm_simd {
	SHOAL_PERM_PLAIN,
	SHOAL_PERM_AVX2,
	SHOAL_PERM_AVX512,
};

struct shoal_perm {
	uint64_t n;
	uint32_t a, b;  /* a * b >= n; index = left * b + right, left < a, right < b */
	double b_recip; /* about 1 / b */
	enum shoal_perm_simd simd;
	uint32_t key[SHOAL_PERM_ROUNDS][2]; /* xored in, added between the multiplies */
	/* Only for n <= SHOAL_PERM_TABLE, and then only the first n entries: */
	uint16_t forward[SHOAL_PERM_TABLE];
	uint16_t inverse[SHOAL_PERM_TABLE];
};

/* Make @p the permutation of [0, @n) that @key chooses; 1 <= @n <= SHOAL_PERM_MAX. */
void shoal_perm_init(struct shoal_perm *p, uint64_t n, const struct shoal_perm_key *key);

/* Compute batches with @simd from now on. False, and no change, where this machine cannot. */
bool shoal_perm_set_simd(struct shoal_perm *p, enum shoal_perm_simd simd) SHOAL_MUST_USE;

/* The value at position @i. */
uint64_t shoal_perm_at(const struct shoal_perm *p, uint64_t i);

/* The values at the @nr consecutive positions from @first. */
void shoal_perm_range(const struct shoal_perm *p, uint64_t first, size_t nr, uint64_t *out);

/* The values at @nr positions; @out may be @positions itself. */
void shoal_perm_many(const struct shoal_perm *p, const uint64_t *positions, size_t nr,
		     uint64_t *out);

/* The position of value @x. */
uint64_t shoal_perm_inverse(const struct shoal_perm *p, uint64_t x);

#endif
