/*
 * Pseudo-random bytes, faster than storage takes them: a cell of up to 4 KiB is a stream of its
 * own, of eight xoshiro256++ generators side by side, so that vectors can be used and any cell can
 * be made without those before it. The bytes are part of what --verify compares with: they never
 * change.
 */
#include "format/inside.h"

/* Eight generators are two of these. GCC 12 makes poor code of one vector of 64 bytes. */
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

/* Never all zero in a lane: four numbers of different arguments under a bijection. */
static void begin(struct streams s[HALVES], uint64_t key)
{
	for (unsigned i = 0; i < 4 * HALVES; i++) {
		struct streams *half = &s[i / 4];

		half->s0[i % 4] = format_mix(key, 4 * i);
		half->s1[i % 4] = format_mix(key, 4 * i + 1);
		half->s2[i % 4] = format_mix(key, 4 * i + 2);
		half->s3[i % 4] = format_mix(key, 4 * i + 3);
	}
}

static inline __attribute__((always_inline)) void draw(struct streams *s, uint8_t *out)
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

static inline __attribute__((always_inline)) void fill(const struct streams *start, uint8_t *out,
						       size_t len)
{
	struct streams a = start[0], b = start[1];
	uint8_t last[STRIDE];

	for (; len >= STRIDE; len -= STRIDE, out += STRIDE) {
		draw(&a, out);
		draw(&b, out + sizeof(lanes));
	}
	draw(&a, last);
	draw(&b, last + sizeof(lanes));
	memcpy(out, last, len);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void fill_avx2(const struct streams *start, uint8_t *out,
						      size_t len)
{
	fill(start, out, len);
}

__attribute__((target("avx512vl"))) static void fill_avx512(const struct streams *start,
							    uint8_t *out, size_t len)
{
	fill(start, out, len);
}
#endif

void format_random(uint64_t key, uint8_t *out, size_t len)
{
	struct streams s[HALVES];

	begin(s, key);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512vl")) {
		fill_avx512(s, out, len);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		fill_avx2(s, out, len);
		return;
	}
#endif
	fill(s, out, len);
}
