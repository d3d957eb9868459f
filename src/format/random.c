/*
 * Pseudo-random bytes, generated faster than storage accepts them. Each cell of up to 4 KiB is a
 * stream of its own, from eight xoshiro256++ generators side by side, so that vectors can be used
 * and any cell can be generated without those before it. --verify compares files with these bytes,
 * so they must never change.
 */
#include "format/format_private.h"

/* Eight generators in two vectors: GCC 12 generates poor code for one vector of 64 bytes. */
typedef uint64_t lanes __attribute__((vector_size(32)));

#define HALVES 2
#define STRIDE (HALVES * sizeof(lanes))

struct streams {
	lanes s0, s1, s2, s3;
};

uint64_t format_mix(uint64_t a, uint64_t b)
{
	uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + (b ^ UINT64_C(0xd1b54a32d192ed03));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* No lane is all zero: four different arguments of a bijection. */
static void random_begin(struct streams s[HALVES], uint64_t key)
{
	for (unsigned i = 0; i < 4 * HALVES; i++) {
		struct streams *half = &s[i / 4];

		half->s0[i % 4] = format_mix(key, 4 * i);
		half->s1[i % 4] = format_mix(key, 4 * i + 1);
		half->s2[i % 4] = format_mix(key, 4 * i + 2);
		half->s3[i % 4] = format_mix(key, 4 * i + 3);
	}
}

static inline __attribute__((always_inline)) void random_draw(struct streams *s, uint8_t *out)
{
	lanes sum = s->s0 + s->s3, t = s->s1 << 17, r = (sum << 23 | sum >> 41) + s->s0;

	s->s2 ^= s->s0;
	s->s3 ^= s->s1;
	s->s1 ^= s->s2;
	s->s0 ^= s->s3;
	s->s2 ^= t;
	s->s3 = s->s3 << 45 | s->s3 >> 19;
	memcpy(out, &r, sizeof(r));
}

static inline __attribute__((always_inline)) void random_fill(const struct streams *start,
							      uint8_t *out, size_t len)
{
	struct streams a = start[0], b = start[1];
	uint8_t last[STRIDE];

	for (; len >= STRIDE; len -= STRIDE, out += STRIDE) {
		random_draw(&a, out);
		random_draw(&b, out + sizeof(lanes));
	}
	random_draw(&a, last);
	random_draw(&b, last + sizeof(lanes));
	memcpy(out, last, len);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void random_fill_avx2(const struct streams *start,
							     uint8_t *out, size_t len)
{
	random_fill(start, out, len);
}

__attribute__((target("avx512vl"))) static void random_fill_avx512(const struct streams *start,
								   uint8_t *out, size_t len)
{
	random_fill(start, out, len);
}
#endif

void format_random(uint64_t key, uint8_t *out, size_t len)
{
	struct streams s[HALVES];

	random_begin(s, key);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512vl")) {
		random_fill_avx512(s, out, len);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		random_fill_avx2(s, out, len);
		return;
	}
#endif
	random_fill(s, out, len);
}
