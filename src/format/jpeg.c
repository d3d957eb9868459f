/*
 * JPEG: a baseline greyscale picture whose entropy-coded data is random and still valid.
 *
 * The Huffman table of the AC coefficients gives the size s (10 to 1) a code of 11 - s bits: "0",
 * "10", "110"... With the s bits that follow, every coefficient takes eleven bits, and any eleven
 * bits are a coefficient unless they begin with ten ones. The DC table has the single code "0", for
 * no difference. So a block is a zero bit and then 63 times eleven bits of noise, 694 in all,
 * without eight consecutive ones: that also keeps 0xff out of the bytes, which would need a zero
 * byte after it. 32 blocks are 347 words of 64 bits, and make a cell. Four blocks are whole bytes,
 * so the picture is a multiple of four blocks wide.
 *
 * The rest of the requested size goes into comments.
 */
#include "format/format_private.h"

#define HEAD          168 /* bytes, without comments and data */
#define UNIT          347 /* bytes per four blocks */
#define BLOCK_BITS    694
#define CELL_WORDS    347
#define CELL_LEN      (8 * CELL_WORDS)
#define CELL_BLOCKS   32
#define COMMENT_LEAST 4
#define COMMENT_MOST  65537 /* including the marker */
#define SIDE_MOST     8191  /* blocks */

static uint64_t jpeg_least(uint64_t nr_samples)
{
	(void)nr_samples;
	return HEAD + COMMENT_LEAST + UNIT;
}

/* Width in groups of four blocks, height in blocks: about a square, with few bytes left over. */
static void jpeg_plan(struct format_maker *m)
{
	uint64_t room = (m->spec.size - HEAD - COMMENT_LEAST) / UNIT;
	uint64_t from = u64_min(u64_max(format_isqrt(room / 4), 1), SIDE_MOST / 4);
	uint64_t least = UINT64_MAX;

	for (uint64_t w = from; 2 * w > from && w + 16 > from && least > 0; w--) {
		uint64_t h = u64_min(room / w, SIDE_MOST), left = room - w * h;

		if (left < least) {
			least = left;
			m->plan.image.width = w;
			m->plan.image.height = h;
		}
	}
	m->plan.image.raw = m->plan.image.width * m->plan.image.height * UNIT;
	m->plan.image.pad = m->spec.size - HEAD - m->plan.image.raw;
}

/* Vectors of four words; a cell does not have a whole number of them. */
#define VECTORS ((CELL_WORDS + 3) / 4)

typedef uint64_t words __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))

/* Vectors are passed by address: otherwise the ABI depends on the processor. */
INLINE void load_words(words *to, const uint64_t *from)
{
	memcpy(to, from, sizeof(*to));
}

/* Find eight consecutive ones: the lowest bit of each eight is set in the result. */
INLINE void find_eight_ones(words *x)
{
	*x &= *x >> 1;
	*x &= *x >> 2;
	*x &= *x >> 4;
}

/* Clear ones so that no eight are consecutive: within words, then across their borders. */
INLINE void break_up_ones(uint64_t *w, uint64_t *across)
{
	words x, y;

	for (unsigned i = 0; i < 4 * VECTORS; i += 4) {
		load_words(&x, w + i);
		y = x;
		find_eight_ones(&y);
		x &= ~y;
		memcpy(w + i, &x, sizeof(x));
	}
	for (unsigned i = 0; i < 4 * VECTORS; i += 4) {
		load_words(&x, w + i);
		load_words(&y, w + i + 1);
		x = x << 32 | y >> 32;
		find_eight_ones(&x);
		memcpy(across + i + 1, &x, sizeof(x));
	}
	for (unsigned i = 0; i < 4 * VECTORS; i += 4) {
		words z;

		load_words(&x, w + i);
		load_words(&y, across + i);
		load_words(&z, across + i + 1);
		x &= ~(y << 32 | z >> 32);
		memcpy(w + i, &x, sizeof(x));
	}
}

/* Reverse the bits: the first bit of a file is the highest of a byte, and so of a word. */
INLINE void reverse_bits(uint64_t *w)
{
	for (unsigned i = 0; i < 4 * VECTORS; i += 4) {
		words x;

		load_words(&x, w + i);
		x = x << 32 | x >> 32;
		x = (x & UINT64_C(0x0000ffff0000ffff)) << 16 |
		    (x >> 16 & UINT64_C(0x0000ffff0000ffff));
		x = (x & UINT64_C(0x00ff00ff00ff00ff)) << 8 |
		    (x >> 8 & UINT64_C(0x00ff00ff00ff00ff));
		memcpy(w + i, &x, sizeof(x));
	}
}

INLINE void make_cell(uint64_t *w, uint64_t *across)
{
	break_up_ones(w, across);
	for (unsigned b = 0; b < CELL_BLOCKS; b++)
		w[b * BLOCK_BITS / 64] &= ~(UINT64_C(1) << (63 - b * BLOCK_BITS % 64));
	reverse_bits(w);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void make_cell_avx2(uint64_t *w, uint64_t *across)
{
	make_cell(w, across);
}
#endif

static void jpeg_fill(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t w[4 * VECTORS + 4], across[4 * VECTORS + 4];

	w[CELL_WORDS] = w[4 * VECTORS] = across[0] = 0; /* the loop reads one more word */
	format_random(format_mix(m->piece.key, cell), (uint8_t *)w, CELL_LEN);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		make_cell_avx2(w, across);
	else
#endif
		make_cell(w, across);
	memcpy(out, w, len);
}

/* SOI and the JFIF header: no thumbnail, square pixels. */
static void jpeg_put_start(struct format_maker *m)
{
	static const uint8_t start[] = {
		0xff, 0xd8, 0xff, 0xe0, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0,
	};

	memcpy(format_put(m, sizeof(start), 0), start, sizeof(start));
}

/* Quantisation by 1, the frame, both Huffman tables, the scan. */
static void put_tables(struct format_maker *m)
{
	uint8_t *p = format_put(m, HEAD - 22, 0);

	p = format_be32(p, 0xffdb0043);
	*p++ = 0;
	memset(p, 1, 64);
	p = format_be32(p + 64, 0xffc0000b);
	*p++ = 8;
	p = format_be16(p, 8 * m->plan.image.height);
	p = format_be16(p, 32 * m->plan.image.width);
	p = format_be32(p, 0x01011100); /* one component */
	p = format_be32(p, 0xffc40014);
	memset(p, 0, 18); /* DC table 0: one code of one bit, for 0 */
	p[1] = 1;
	p = format_be32(p + 18, 0xffc4001e);
	*p++ = 0x10; /* AC table 0: one code of each length from 1 to 11 */
	for (unsigned bits = 1; bits <= 16; bits++)
		*p++ = bits <= 11;
	for (unsigned size = 11; size-- > 0;)
		*p++ = (uint8_t)size; /* the last is 0, the end of a block, which does not occur */
	p = format_be32(p, 0xffda0008);
	memcpy(p, "\1\1\0\0\77\0", 6);
}

/* Comment number @index: its marker and length, or its bytes. */
static void put_comment(struct format_maker *m, bool head)
{
	uint64_t pad = m->plan.image.pad, nr = (pad + COMMENT_MOST - 1) / COMMENT_MOST;
	uint64_t len = u64_scale(pad, m->index + 1, nr) - u64_scale(pad, m->index, nr);

	if (head) {
		format_be16(format_be16(format_put(m, 4, 0), 0xfffe), len - 2);
		return;
	}
	format_put_random(m, len - 4, 0);
	m->index++;
	if (m->index < nr)
		m->step = 1;
}

static void jpeg_next(struct format_maker *m)
{
	switch (m->step++) {
	case 0:
		jpeg_put_start(m);
		break;
	case 1:
		put_comment(m, true);
		break;
	case 2:
		put_comment(m, false);
		break;
	case 3:
		put_tables(m);
		break;
	case 4:
		format_put_content(m, m->plan.image.raw, jpeg_fill, CELL_LEN, 0);
		break;
	case 5:
		format_be16(format_put(m, 2, 0), 0xffd9);
		break;
	default:
		break;
	}
}

const struct format format_jpeg = {
	.name = "jpeg",
	.samples_max = 1,
	/* A larger file would be nothing but comments. */
	.record_max = HEAD + COMMENT_MOST + (uint64_t)(SIDE_MOST / 4) * SIDE_MOST * UNIT,
	.least = jpeg_least,
	.plan = jpeg_plan,
	.next = jpeg_next,
};
