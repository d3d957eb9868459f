#include "order/perm.h"

#include <assert.h>
#include <xxhash.h>

#include "base/le.h"

/* Indices computed together. At most the smallest b of a network, which is 64, at n = 4097. */
#define BLOCK 64

/* Fewer than this many are faster one by one than as a block of 64. */
#define BLOCK_MIN 10

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The index of the table's key among the round keys. */
#define TABLE_KEY PERM_ROUNDS

/* ---- Keys and setup --------------------------------------------------------------------- */

/*
 * The 64-bit key of @round. Hashed, because seed + epoch would make the second epoch of one run
 * equal the first epoch of the next.
 */
static uint64_t perm_derive_key(const struct perm_key *key, uint64_t round)
{
	struct le64 word[] = {
		le64_of(key->domain), le64_of(key->seed), le64_of(key->epoch),
		le64_of(key->stream), le64_of(round),
	};

	return XXH3_64bits(word, sizeof(word));
}

/* The smallest a with a * a >= n, for n in [1, 2^48]. */
static uint32_t sqrt_up(uint64_t n)
{
	uint64_t a = 0;

	for (uint64_t bit = UINT64_C(1) << 23; bit; bit >>= 1)
		if ((a | bit) * (a | bit) < n)
			a |= bit;
	return (uint32_t)(a + 1);
}

static void init_network(struct perm *p, const struct perm_key *key)
{
	p->a = sqrt_up(p->n);
	p->b = (uint32_t)((p->n + p->a - 1) / p->a);
	p->b_recip = 1.0 / (double)p->b;
	for (unsigned j = 0; j < PERM_ROUNDS; j++) {
		uint64_t k = perm_derive_key(key, j);

		p->key[j][0] = (uint32_t)k;
		p->key[j][1] = (uint32_t)(k >> 32);
	}
}

/* Numbers from a counter: the finaliser of splitmix64 over a Weyl sequence. */
static uint32_t next_u32(uint64_t *counter)
{
	uint64_t z = *counter += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 32);
}

/*
 * A draw from [0, bound) with equal probabilities: draws from the uneven rest of 2^32 are repeated.
 */
static uint32_t draw_below(uint64_t *counter, uint32_t bound)
{
	uint64_t wide = (uint64_t)next_u32(counter) * bound;

	if ((uint32_t)wide <
	    bound) { /* avoids the remainder below, which is slow and rarely needed */
		uint32_t uneven = -bound % bound;

		while ((uint32_t)wide < uneven)
			wide = (uint64_t)next_u32(counter) * bound;
	}
	return (uint32_t)(wide >> 32);
}

/* Fisher-Yates, from the top. */
static void init_table(struct perm *p, const struct perm_key *key)
{
	uint64_t counter = perm_derive_key(key, TABLE_KEY);
	uint32_t n = (uint32_t)p->n;

	for (uint32_t i = 0; i < n; i++)
		p->forward[i] = (uint16_t)i;
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t j = draw_below(&counter, i + 1);
		uint16_t held = p->forward[i];

		p->forward[i] = p->forward[j];
		p->forward[j] = held;
	}
	for (uint32_t i = 0; i < n; i++)
		p->inverse[p->forward[i]] = (uint16_t)i;
}

static bool simd_is_here(enum perm_simd simd)
{
	switch (simd) {
	case PERM_PLAIN:
		return true;
#ifdef __x86_64__
	case PERM_AVX2:
		return __builtin_cpu_supports("avx2");
	case PERM_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
	case PERM_AVX2:
	case PERM_AVX512:
		return false;
#endif
	}
	return false;
}

bool perm_set_simd(struct perm *p, enum perm_simd simd)
{
	if (!simd_is_here(simd))
		return false;
	p->simd = simd;
	return true;
}

void perm_init(struct perm *p, uint64_t n, const struct perm_key *key)
{
	assert(n >= 1 && n <= PERM_MAX);
	p->n = n;
	p->simd = PERM_PLAIN;
	if (!perm_set_simd(p, PERM_AVX512))
		(void)!perm_set_simd(p, PERM_AVX2);
	if (n <= PERM_TABLE)
		init_table(p, key);
	else
		init_network(p, key);
}

/* ---- The network ------------------------------------------------------------------------ */

/*
 * A hash of @x below 2^24. The high 24 bits, the only ones that reduce() uses, depend evenly on all
 * of @x and of the key; another xorshift at the end would only improve the low bits, for 5 ns. The
 * multipliers are those of Chris Wellons's search for 32-bit mixes of least bias ("lowbias32" of
 * hash-prospector).
 */
static ALWAYS_INLINE uint32_t perm_mix(uint32_t x, const uint32_t key[2])
{
	x ^= key[0];
	x ^= x >> 16;
	x *= 0x7feb352dU;
	x ^= x >> 15;
	x += key[1];
	x *= 0x846ca68bU;
	return x;
}

/* Map @h, uniform on [0, 2^32), to nearly uniform on [0, m): by high bits, without a division. */
static ALWAYS_INLINE uint32_t reduce(uint32_t h, uint32_t m)
{
	return (uint32_t)((uint64_t)h * m >> 32);
}

/* (x + y) mod m for x, y < m <= 2^24. If x + y < m, the subtraction wraps to a larger number. */
static ALWAYS_INLINE uint32_t add_mod(uint32_t x, uint32_t y, uint32_t m)
{
	uint32_t sum = x + y, less = sum - m;

	return less < sum ? less : sum;
}

/*
 * i / b for i < a * b, computed in doubles, which vectorise. i < 2^48 converts exactly, in two
 * halves that any SIMD can convert. The quotient, at most 2^24, is then off by at most one, and 32
 * bits of the remainder show in which direction.
 */
static ALWAYS_INLINE uint32_t left_of(const struct perm *p, uint64_t i)
{
	double wide = (double)(int32_t)(i >> 24) * 0x1p24 + (double)(int32_t)(i & 0xffffff);
	int32_t left = (int32_t)(wide * p->b_recip);
	int32_t right = (int32_t)((uint32_t)i - (uint32_t)left * p->b);

	return (uint32_t)(left - (right < 0) + (right >= (int32_t)p->b));
}

static ALWAYS_INLINE uint32_t right_of(const struct perm *p, uint64_t i, uint32_t left)
{
	return (uint32_t)i - left * p->b;
}

static ALWAYS_INLINE uint64_t perm_join(const struct perm *p, uint32_t left, uint32_t right)
{
	return (uint64_t)left * p->b + right;
}

/* One pass through the network on [0, a * b). */
static ALWAYS_INLINE uint64_t pass(const struct perm *p, uint64_t i)
{
	uint32_t left = left_of(p, i), right = right_of(p, i, left);

#pragma GCC unroll 4
	for (unsigned j = 0; j < PERM_ROUNDS; j += 2) {
		left = add_mod(left, reduce(perm_mix(right, p->key[j]), p->a), p->a);
		right = add_mod(right, reduce(perm_mix(left, p->key[j + 1]), p->b), p->b);
	}
	return perm_join(p, left, right);
}

static uint64_t pass_back(const struct perm *p, uint64_t x)
{
	uint32_t left = left_of(p, x), right = right_of(p, x, left);

	for (unsigned j = PERM_ROUNDS; j > 0; j -= 2) {
		uint32_t down = reduce(perm_mix(left, p->key[j - 1]), p->b);

		right = add_mod(right, p->b - down, p->b);
		down = reduce(perm_mix(right, p->key[j - 2]), p->a);
		left = add_mod(left, p->a - down, p->a);
	}
	return perm_join(p, left, right);
}

/*
 * From an image outside [0, n) follow its cycle to one inside. That takes less than one pass in
 * sqrt(n) on average, and ends, because the cycle returns to its start, which is inside.
 */
static uint64_t perm_walk(const struct perm *p, uint64_t x)
{
	while (UNLIKELY(x >= p->n))
		x = pass(p, x);
	return x;
}

uint64_t perm_at(const struct perm *p, uint64_t i)
{
	assert(i < p->n);
	if (p->n <= PERM_TABLE)
		return p->forward[i];
	return perm_walk(p, pass(p, i));
}

uint64_t perm_inverse(const struct perm *p, uint64_t x)
{
	assert(x < p->n);
	if (p->n <= PERM_TABLE)
		return p->inverse[x];
	do
		x = pass_back(p, x);
	while (UNLIKELY(x >= p->n));
	return x;
}

/* ---- Batches ---------------------------------------------------------------------------- */

/*
 * The loops below have a fixed length and no branches, so that the compiler vectorises them even at
 * -O2; they are compiled once per kind of SIMD. The caller does the walking.
 */
struct perm_block {
	uint32_t left[BLOCK];
	uint32_t right[BLOCK];
};

static ALWAYS_INLINE void block_rounds(const struct perm *p, struct perm_block *k, uint64_t *out)
{
	uint32_t a = p->a, b = p->b;

	for (unsigned j = 0; j < PERM_ROUNDS; j += 2) {
		const uint32_t even[2] = { p->key[j][0], p->key[j][1] };
		const uint32_t odd[2] = { p->key[j + 1][0], p->key[j + 1][1] };

		for (unsigned i = 0; i < BLOCK; i++) {
			uint32_t left = k->left[i], right = k->right[i];

			left = add_mod(left, reduce(perm_mix(right, even), a), a);
			right = add_mod(right, reduce(perm_mix(left, odd), b), b);
			k->left[i] = left;
			k->right[i] = right;
		}
	}
	for (unsigned i = 0; i < BLOCK; i++)
		out[i] = (uint64_t)k->left[i] * b + k->right[i];
}

/* Consecutive positions: the right half counts up, and overflows into the left at most once. */
static ALWAYS_INLINE void range_block(const struct perm *p, uint64_t first, uint64_t *out)
{
	uint32_t left = left_of(p, first), right = right_of(p, first, left), b = p->b;
	struct perm_block k;

	for (unsigned i = 0; i < BLOCK; i++) {
		uint32_t sum = right + i, less = sum - b;

		k.left[i] = left + (sum >= b);
		k.right[i] = less < sum ? less : sum;
	}
	block_rounds(p, &k, out);
}

static ALWAYS_INLINE void many_block(const struct perm *p, const uint64_t *positions, uint64_t *out)
{
	struct perm_block k;

	for (unsigned i = 0; i < BLOCK; i++) {
		uint64_t position = positions[i];

		k.left[i] = left_of(p, position);
		k.right[i] = right_of(p, position, k.left[i]);
	}
	block_rounds(p, &k, out);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): an attribute cannot be put in parentheses. */
#define BLOCK_FUNCTIONS(suffix, target)                                                         \
	target static void range_block_##suffix(const struct perm *p, uint64_t first,           \
						uint64_t *out)                                  \
	{                                                                                       \
		range_block(p, first, out);                                                     \
	}                                                                                       \
	target static void many_block_##suffix(const struct perm *p, const uint64_t *positions, \
					       uint64_t *out)                                   \
	{                                                                                       \
		many_block(p, positions, out);                                                  \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

BLOCK_FUNCTIONS(plain, )
#ifdef __x86_64__
BLOCK_FUNCTIONS(avx2, __attribute__((target("avx2"))))
BLOCK_FUNCTIONS(avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))))
#endif

static const struct {
	void (*range)(const struct perm *p, uint64_t first, uint64_t *out);
	void (*many)(const struct perm *p, const uint64_t *positions, uint64_t *out);
} block_functions[] = {
	[PERM_PLAIN] = { range_block_plain, many_block_plain },
#ifdef __x86_64__
	[PERM_AVX2] = { range_block_avx2, many_block_avx2 },
	[PERM_AVX512] = { range_block_avx512, many_block_avx512 },
#endif
};

/* Walk those images in @out that are outside [0, n); there are few. */
static void perm_walk_all(const struct perm *p, uint64_t *out, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (UNLIKELY(out[i] >= p->n))
			out[i] = perm_walk(p, out[i]);
}

void perm_range(const struct perm *p, uint64_t first, size_t nr, uint64_t *out)
{
	size_t done = 0;

	assert(first <= p->n && nr <= p->n - first);
	if (p->n <= PERM_TABLE) {
		for (; done < nr; done++)
			out[done] = p->forward[first + done];
		return;
	}
	for (; nr - done >= BLOCK; done += BLOCK)
		block_functions[p->simd].range(p, first + done, out + done);
	if (nr - done >= BLOCK_MIN) {
		uint64_t rest[BLOCK]; /* results past the end are not used */

		block_functions[p->simd].range(p, first + done, rest);
		memcpy(out + done, rest, (nr - done) * sizeof(*out));
		done = nr;
	}
	for (; done < nr; done++)
		out[done] = pass(p, first + done);
	perm_walk_all(p, out, nr);
}

void perm_many(const struct perm *p, const uint64_t *positions, size_t nr, uint64_t *out)
{
	size_t done = 0;

	if (p->n <= PERM_TABLE) {
		for (; done < nr; done++)
			out[done] = p->forward[positions[done]];
		return;
	}
	for (; nr - done >= BLOCK; done += BLOCK)
		block_functions[p->simd].many(p, positions + done, out + done);
	if (nr - done >= BLOCK_MIN) {
		uint64_t rest[BLOCK] = { 0 };

		memcpy(rest, positions + done, (nr - done) * sizeof(*rest));
		block_functions[p->simd].many(p, rest, rest);
		memcpy(out + done, rest, (nr - done) * sizeof(*out));
		done = nr;
	}
	for (; done < nr; done++)
		out[done] = pass(p, positions[done]);
	perm_walk_all(p, out, nr);
}
