#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "catalog/fixed.h"
#include "catalog/segment.h"
#include "catalog/values.h"

static int parse_part(struct shoal_span *s, size_t first_len, size_t *at, struct cat_part *part)
{
	uint64_t gap = shoal_span_varint(s);
	uint64_t len = shoal_span_varint(s);
	unsigned nr = shoal_span_u8(s);
	int last = -2;

	part->ranges = shoal_span_bytes(s, 2 * nr);
	if (s->bad || nr < 1 || nr > CAT_FIXED_RANGES || gap > first_len - *at || len < 1 ||
	    len > first_len - *at - gap)
		return -EBADMSG;
	part->pos = (uint32_t)(*at + gap);
	part->len = (uint32_t)len;
	part->nr_ranges = nr;
	part->radix = 0;
	for (unsigned r = 0; r < nr; r++) {
		int lo = part->ranges[2 * r], hi = part->ranges[2 * r + 1];

		if (lo <= last + 1 || hi < lo)
			return -EBADMSG;
		part->radix += (uint32_t)(hi - lo + 1);
		last = hi;
	}
	part->first_size = part->ranges[1] - part->ranges[0] + 1u;
	/* With one range no digit is past it, and no byte has a digit in a second. */
	part->second = nr == 1 ? UINT32_MAX / 2 : part->ranges[2] - part->first_size;
	*at += gap + len;
	return part->radix < 2 ? -EBADMSG : 0;
}

static int parse_limb(struct shoal_span *s, size_t first_len, size_t *at, struct cat_fixed *sh)
{
	struct cat_limb *limb = &sh->limb[sh->nr_limbs++];
	uint64_t nr;

	limb->width = shoal_span_u8(s);
	nr = shoal_span_varint(s);
	if (limb->width < 1 || limb->width > 64 || nr < 1 || nr > CAT_FIXED_PARTS - sh->nr_parts)
		return -EBADMSG;
	limb->first_part = (uint16_t)sh->nr_parts;
	for (; nr > 0; nr--)
		if (parse_part(s, first_len, at, &sh->part[sh->nr_parts++]) < 0)
			return -EBADMSG;
	limb->end_part = (uint16_t)sh->nr_parts;
	sh->bits += limb->width;
	return 0;
}

static int shape_parse(const struct cat_segment *seg, struct cat_fixed *sh,
		       struct cat_values *values)
{
	struct shoal_span s = seg->rest;
	uint64_t nr = shoal_span_varint(&s);
	uint32_t shift;
	size_t at = 0;

	sh->nr_limbs = sh->nr_parts = sh->bits = 0;
	if (nr < 1 || nr > CAT_FIXED_LIMBS)
		return cat_segment_bad(seg, "a shape has no limbs or too many");
	for (; nr > 0; nr--)
		if (parse_limb(&s, seg->first_len, &at, sh) < 0)
			return cat_segment_bad(seg, "a limb of a shape makes no sense");
	if (sh->bits > CAT_X_BITS_MAX)
		return cat_segment_bad(seg, "a shape is too wide");
	shift = sh->bits;
	for (unsigned k = 0; k < sh->nr_limbs; k++) {
		shift -= sh->limb[k].width;
		sh->limb[k].shift = shift;
	}
	return cat_values_parse(seg->view, &s, seg->payload, seg->off, seg->end, seg->nr, sh->bits,
				values);
}

/*
 * Almost all sets are one range or two, such as 0-9 and a-f. Which of the two a digit lies in is
 * random, so these are written for conditional moves: a branch would be mispredicted each third
 * time.
 */
static inline uint8_t byte_of_digit(const struct cat_part *part, unsigned digit)
{
	unsigned add = digit < part->first_size ? part->ranges[0] : part->second;

	if (SHOAL_LIKELY(part->nr_ranges <= 2))
		return (uint8_t)(digit + add);
	for (unsigned r = 0; r + 1 < part->nr_ranges; r++) {
		unsigned lo = part->ranges[2 * r], size = part->ranges[2 * r + 1] - lo + 1;

		if (digit < size)
			return (uint8_t)(lo + digit);
		digit -= size;
	}
	return (uint8_t)(part->ranges[2 * part->nr_ranges - 2] + digit);
}

/* Not less than the radix when the byte is not in the set. */
static inline unsigned digit_of_byte(const struct cat_part *part, uint8_t byte)
{
	unsigned first = (unsigned)byte - part->ranges[0];
	unsigned second = (unsigned)byte - part->second;
	unsigned before = 0;

	if (SHOAL_LIKELY(part->nr_ranges <= 2)) {
		second = second < part->first_size ? UINT32_MAX : second; /* between the two */
		return first < part->first_size ? first : second;
	}
	for (unsigned r = 0; r < part->nr_ranges; r++) {
		unsigned lo = part->ranges[2 * r], hi = part->ranges[2 * r + 1];

		if (byte >= lo && byte <= hi)
			return before + byte - lo;
		before += hi - lo + 1;
	}
	return UINT32_MAX;
}

/* Write the digits of @v into the part's bytes and return what is left above them. */
static uint64_t put_part(const struct cat_part *part, uint64_t v, uint8_t *buf)
{
	uint8_t *p = buf + part->pos + part->len;
	uint32_t left = part->len;

	if ((part->radix & (part->radix - 1)) == 0) {
		unsigned bits = (unsigned)__builtin_ctz(part->radix);

		for (; left > 0; left--, v >>= bits)
			*--p = byte_of_digit(part, (unsigned)(v & (part->radix - 1)));
	} else if (part->radix == 10) { /* a division that the compiler knows */
		for (; left > 0; left--, v /= 10)
			*--p = byte_of_digit(part, (unsigned)(v % 10));
	} else {
		for (; left > 0; left--, v /= part->radix)
			*--p = byte_of_digit(part, (unsigned)(v % part->radix));
	}
	return v;
}

int cat_fixed_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf)
{
	struct cat_values values;
	struct cat_fixed sh;
	struct cat_x x;
	int rc;

	rc = shape_parse(seg, &sh, &values);
	if (rc < 0)
		return rc;
	rc = cat_values_get(&values, i, &x);
	if (rc < 0)
		return rc;
	memcpy(buf, seg->first, seg->first_len);
	for (unsigned k = 0; k < sh.nr_limbs; k++) {
		const struct cat_limb *limb = &sh.limb[k];
		uint64_t v = cat_x_get(&x, limb->shift, limb->width);

		for (unsigned p = limb->end_part; p-- > limb->first_part;)
			v = put_part(&sh.part[p], v, buf);
		if (v != 0)
			return cat_segment_bad(seg, "a number is too large for its limb");
	}
	return (int)seg->first_len;
}

/* The limb's number in @name: -ENOENT when a byte is not one of its set. */
static int get_limb(const struct cat_fixed *sh, const struct cat_limb *limb, const uint8_t *name,
		    uint64_t *ret_v)
{
	bool absent = false;
	uint64_t v = 0;

	for (unsigned k = limb->first_part; k < limb->end_part; k++) {
		const struct cat_part *part = &sh->part[k];

		for (uint32_t j = 0; j < part->len; j++) {
			unsigned digit = digit_of_byte(part, name[part->pos + j]);

			absent |= digit >= part->radix;
			v = v * part->radix + digit;
		}
	}
	*ret_v = v & shoal_mask(limb->width);
	return absent ? -ENOENT : 0;
}

int cat_fixed_find(const struct cat_segment *seg, const uint8_t *name, size_t len, uint64_t *ret_i)
{
	struct cat_values values;
	struct cat_x x = { { 0 } };
	struct cat_fixed sh;
	size_t at = 0;
	int rc;

	rc = shape_parse(seg, &sh, &values);
	if (rc < 0)
		return rc;
	if (len != seg->first_len)
		return -ENOENT;
	for (unsigned k = 0; k < sh.nr_parts; k++) {
		if (memcmp(name + at, seg->first + at, sh.part[k].pos - at) != 0)
			return -ENOENT;
		at = sh.part[k].pos + sh.part[k].len;
	}
	if (memcmp(name + at, seg->first + at, len - at) != 0)
		return -ENOENT;
	for (unsigned k = 0; k < sh.nr_limbs; k++) {
		uint64_t v;

		rc = get_limb(&sh, &sh.limb[k], name, &v);
		if (rc < 0)
			return rc;
		cat_x_put(&x, sh.limb[k].shift, sh.limb[k].width, v);
	}
	rc = cat_values_find(&values, &x, ret_i);
	return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}
