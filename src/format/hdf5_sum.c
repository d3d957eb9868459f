/*
 * HDF5: the checksum of metadata of the newer kinds, which is Jenkins' hash "lookup3", with 0 as
 * its start. What it covers is read once more: without it a damaged address could lead to bytes of
 * other samples.
 */
#include <inttypes.h>

#include "format/bytes.h"
#include "format/hdf5_private.h"

#define WORDS 12u /* bytes taken at once */

struct lookup3 {
	uint32_t a, b, c;
};

static uint32_t lookup3_turn(uint32_t v, unsigned by)
{
	return v << by | v >> (32 - by);
}

static void lookup3_add(struct lookup3 *s, const uint8_t block[WORDS])
{
	s->a += le32_load(block);
	s->b += le32_load(block + 4);
	s->c += le32_load(block + 8);
}

static void lookup3_mix(struct lookup3 *s)
{
	static const uint8_t by[] = { 4, 6, 8, 16, 19, 4 };

	for (unsigned i = 0; i < ARRAY_LEN(by); i++) {
		uint32_t a = s->a, b = s->b, c = s->c;

		a = (a - c) ^ lookup3_turn(c, by[i]);
		*s = (struct lookup3){ b, c + b, a }; /* the three change places */
	}
}

static uint32_t lookup3_end(struct lookup3 *s)
{
	uint32_t a = s->a, b = s->b, c = s->c;

	c = (c ^ b) - lookup3_turn(b, 14);
	a = (a ^ c) - lookup3_turn(c, 11);
	b = (b ^ a) - lookup3_turn(a, 25);
	c = (c ^ b) - lookup3_turn(b, 16);
	a = (a ^ c) - lookup3_turn(c, 4);
	b = (b ^ a) - lookup3_turn(a, 14);
	return (c ^ b) - lookup3_turn(b, 24);
}

/* Whether @found is the checksum of what is there: not while fuzzing. */
static bool lookup3_fits(uint32_t sum, uint32_t found)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	(void)sum, (void)found;
	return true;
#else
	return sum == found;
#endif
}

int hdf5_check_sum(struct hdf5_finder *f, uint64_t at, uint64_t len)
{
	uint32_t start = 0xdeadbeef + (uint32_t)len;
	struct lookup3 s = { start, start, start };
	uint8_t block[WORDS], sum[4];
	struct format_bytes b;

	if (!format_inside(at, len, f->file->size) || f->file->size - at - len < sizeof(sum))
		return hdf5_damaged(f, "whole structure", at);
	format_bytes_init(&b, f->file, at, at + len + sizeof(sum), f->err);
	for (uint64_t left = len; left > 0 && b.rc == 0;) {
		size_t n = (size_t)u64_min(left, sizeof(block));

		memset(block, 0, sizeof(block));
		for (size_t i = 0; i < n; i++)
			block[i] = format_byte(&b);
		lookup3_add(&s, block);
		left -= n;
		if (left > 0)
			lookup3_mix(&s);
	}
	for (size_t i = 0; i < sizeof(sum); i++)
		sum[i] = format_byte(&b);
	if (b.rc == 0 && !lookup3_fits(lookup3_end(&s), le32_load(sum)))
		return err_set(f->err, -EBADMSG,
			       "its structure at %" PRIu64 " does not match its checksum", at);
	return b.rc;
}
