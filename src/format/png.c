/*
 * PNG: random RGB pixels in stored deflate blocks, each in a chunk of its own. The rest of the
 * requested size is in a private chunk, which readers skip.
 */
#include "format/format_private.h"

#define CHUNK      12 /* length, name, CRC */
#define BLOCK_HEAD 5
#define BLOCK_MOST 65535
#define BLOCK_COST (CHUNK + BLOCK_HEAD)
#define FIXED      (8 + CHUNK + 13 + CHUNK + CHUNK) /* signature, IHDR, the private chunk, IEND */
#define ZLIB_COST  6

/* The checksums that include a piece. */
enum { CRC = 1, ADLER = 2 };

static uint64_t png_least(uint64_t nr_samples)
{
	(void)nr_samples;
	return FIXED + ZLIB_COST + BLOCK_COST + 4; /* one pixel, and its row's filter */
}

static uint64_t nr_blocks(uint64_t raw)
{
	return (raw + BLOCK_MOST - 1) / BLOCK_MOST;
}

static void png_plan(struct format_maker *m)
{
	uint64_t room = m->spec.size - FIXED - ZLIB_COST, raw, width, least = UINT64_MAX;

	raw = room -
	      BLOCK_COST * ((room + BLOCK_MOST + BLOCK_COST - 1) / (BLOCK_MOST + BLOCK_COST));
	width = u64_max(format_isqrt(raw / 3), 1);
	for (uint64_t w = width; 2 * w > width && w + 32 > width && least > 0; w--) {
		uint64_t left = raw % (3 * w + 1);

		if (left < least) {
			least = left;
			m->plan.image.width = w;
			m->plan.image.height = raw / (3 * w + 1);
		}
	}
	m->plan.image.raw = raw - least;
	m->plan.image.pad = room - m->plan.image.raw - BLOCK_COST * nr_blocks(raw - least);
	m->sum[0] = 0;
	m->sum[1] = 1;
}

static void png_sum(struct format_maker *m, const uint8_t *bytes, size_t len)
{
	m->sum[0] = format_crc32(m->sum[0], bytes, len);
	if (m->piece.sums & ADLER)
		m->sum[1] = format_adler32(m->sum[1], bytes, len);
}

/* Noise, except for the filter byte before each row, which is 0 (no filter). */
static void png_fill(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t row = 3 * m->plan.image.width + 1;
	uint64_t at = m->index * BLOCK_MOST + cell * FORMAT_CELL;

	format_fill_random(m, cell, out, len);
	for (uint64_t i = (row - at % row) % row; i < len; i += row)
		out[i] = 0;
}

static uint64_t block_len(const struct format_maker *m)
{
	return u64_min(BLOCK_MOST, m->plan.image.raw - m->index * BLOCK_MOST);
}

static bool png_is_last_block(const struct format_maker *m)
{
	return m->index + 1 == nr_blocks(m->plan.image.raw);
}

/* The length is not part of the CRC, so it is a piece of its own. */
static void put_length(struct format_maker *m, uint64_t len)
{
	format_be32(format_put(m, 4, 0), len);
	m->sum[0] = 0;
}

static void put_header(struct format_maker *m)
{
	static const uint8_t start[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13 };
	uint8_t *p = format_put(m, 33, 0), *name = p + sizeof(start);

	memcpy(p, start, sizeof(start));
	p = format_text(name, "IHDR");
	p = format_be32(p, m->plan.image.width);
	p = format_be32(p, m->plan.image.height);
	p = format_be32(p, 0x08020000); /* eight bits per channel, RGB */
	*p++ = 0;
	format_be32(p, format_crc32(0, name, 17));
}

static void put_block_head(struct format_maker *m)
{
	uint64_t len = block_len(m);
	uint8_t *p = format_put(m, 4 + (m->index == 0 ? 2 : 0) + BLOCK_HEAD, CRC);

	p = format_text(p, "IDAT");
	if (m->index == 0)
		p = format_be16(p, 0x7801);
	*p++ = png_is_last_block(m);
	format_le16(format_le16(p, len), ~len);
}

/* The CRC of a chunk; in the last IDAT it follows the Adler-32 of all pixels. */
static void put_block_end(struct format_maker *m)
{
	uint8_t adler[4];

	if (!png_is_last_block(m)) {
		m->index++;
		m->step = 5;
		format_be32(format_put(m, 4, 0), m->sum[0]);
		return;
	}
	format_be32(adler, m->sum[1]);
	m->sum[0] = format_crc32(m->sum[0], adler, 4);
	format_be32(mempcpy(format_put(m, 8, 0), adler, 4), m->sum[0]);
}

static void png_next(struct format_maker *m)
{
	uint64_t len;

	switch (m->step++) {
	case 0:
		put_header(m);
		break;
	case 1:
		put_length(m, m->plan.image.pad);
		break;
	case 2:
		format_text(format_put(m, 4, CRC), "shPd");
		break;
	case 3:
		format_put_random(m, m->plan.image.pad, CRC);
		break;
	case 4:
		format_be32(format_put(m, 4, 0), m->sum[0]);
		break;
	case 5:
		len = block_len(m) + BLOCK_HEAD + (m->index == 0 ? 2 : 0) +
		      (png_is_last_block(m) ? 4 : 0);
		put_length(m, len);
		break;
	case 6:
		put_block_head(m);
		break;
	case 7:
		format_put_content(m, block_len(m), png_fill, FORMAT_CELL, CRC | ADLER);
		break;
	case 8:
		put_block_end(m);
		break;
	case 9:
		memcpy(format_put(m, CHUNK, 0), "\0\0\0\0IEND\xae\x42\x60\x82", CHUNK);
		break;
	default:
		break;
	}
}

const struct format format_png = {
	.name = "png",
	.samples_max = 1,
	.record_max = UINT64_C(2900000000000), /* readers accept a million pixels per side */
	.least = png_least,
	.plan = png_plan,
	.next = png_next,
	.sum = png_sum,
};
