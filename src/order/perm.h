/*
 * perm.h - a keyed permutation of [0, n) with random access, for n up to 2^48.
 *
 * Above PERM_TABLE it is a Feistel network of about 100 bytes of keys, at or below it a shuffled
 * table inside the struct; neither allocates. The construction is specified in docs/design/order.md
 * and frozen by golden vectors: it is part of every saved state.
 *
 * The caller owns the struct perm. Once initialised it is only read, so any number of threads may
 * share it. Nothing here can fail; positions outside [0, n) are programming errors.
 */
#ifndef SHOAL_ORDER_PERM_H
#define SHOAL_ORDER_PERM_H

#include "base/base.h"

#define PERM_ROUNDS 8

/* Largest n that uses a table: at such sizes a Feistel network is not random enough. */
#define PERM_TABLE 4096

/* Largest n supported. Each half of an index then has at most 24 bits. */
#define PERM_MAX (UINT64_C(1) << 48)

/*
 * The purpose of a permutation, so that those of one epoch are independent of each other: eight
 * letters, "shoalp1" and one of g, u, w, l, as a little-endian word.
 */
#define PERM_TAG(letter) (UINT64_C(0x0031706c616f6873) | (uint64_t)(unsigned char)(letter) << 56)
#define PERM_GLOBAL      PERM_TAG('g')
#define PERM_UNITS       PERM_TAG('u')
#define PERM_WINDOW      PERM_TAG('w')
#define PERM_LOCAL       PERM_TAG('l')
#define PERM_LANE        PERM_TAG('n')

/* Everything that selects a permutation of a given n. */
struct perm_key {
	uint64_t domain; /* one of the tags above */
	uint64_t seed;
	uint64_t epoch;
	uint64_t stream; /* which of many in one domain: the number of a window or a rank,
			    or where a lane's part of a window begins */
};

/* Implementations of a batch. All give the same numbers. */
enum perm_simd {
	PERM_PLAIN,
	PERM_AVX2,
	PERM_AVX512,
};

struct perm {
	uint64_t n;
	uint32_t a, b;  /* a * b >= n; index = left * b + right, left < a, right < b */
	double b_recip; /* about 1 / b */
	enum perm_simd simd;
	uint32_t key[PERM_ROUNDS][2]; /* xored in, added between the multiplies */
	/* Only for n <= PERM_TABLE, and then only the first n entries: */
	uint16_t forward[PERM_TABLE];
	uint16_t inverse[PERM_TABLE];
};

/* Make @p the permutation of [0, @n) selected by @key; 1 <= @n <= PERM_MAX. */
void perm_init(struct perm *p, uint64_t n, const struct perm_key *key);

/*
 * Compute batches with @simd from now on. False, and no change, if this machine does not support
 * it.
 */
bool perm_set_simd(struct perm *p, enum perm_simd simd) MUST_USE;

/* The value at position @i. */
uint64_t perm_at(const struct perm *p, uint64_t i);

/* The values at the @nr consecutive positions from @first. */
void perm_range(const struct perm *p, uint64_t first, size_t nr, uint64_t *out);

/* The values at @nr positions; @out may be @positions itself. */
void perm_many(const struct perm *p, const uint64_t *positions, size_t nr, uint64_t *out);

/* The position of value @x. */
uint64_t perm_inverse(const struct perm *p, uint64_t x);

#endif
