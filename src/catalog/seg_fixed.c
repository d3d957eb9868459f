#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "catalog/shape.h"

/* The ranges of a part: rising, neither touching nor overlapping. Sets the radix. */
static bool parse_ranges(struct cat_part *part)
{
	const uint8_t *r = part->ranges;
	bool good = r[1] >= r[0];

	part->first_size = r[1] - r[0] + 1u;
	part->radix = part->first_size;
	/* With one range, no digit is past it and no byte has a digit in a second range. */
	part->second = UINT32_MAX / 2;
	if (part->nr_ranges > 1)
		part->second = r[2] - part->first_size;
	for (unsigned k = 1; k < part->nr_ranges; k++) {
		r += 2;
		good &= r[0] > r[-1] + 1 && r[1] >= r[0];
		part->radix += r[1] - r[0] + 1u;
	}
	return good && part->radix >= 2;
}

/*
 * Every lookup parses the shape. So the common form, in which all numbers take one byte and there
 * are one or two ranges, is read without the span's checks for each number.
 */
static int parse_part(struct span *s, size_t first_len, size_t *at, struct cat_part *part)
{
	uint64_t gap, len;
	unsigned nr;

	if (LIKELY(span_left(s) >= 7 && ((s->p[0] | s->p[1]) & 0x80) == 0 && s->p[2] <= 2)) {
		gap = s->p[0];
		len = s->p[1];
		nr = s->p[2];
		part->ranges = s->p + 3;
		s->p += 3 + 2 * nr;
	} else {
		gap = span_varint(s);
		len = span_varint(s);
		nr = span_u8(s);
		part->ranges = span_bytes(s, 2 * nr);
	}
	if (s->bad || nr - 1u >= CAT_FIXED_RANGES || gap > first_len - *at || len < 1 ||
	    len > first_len - *at - gap)
		return -EBADMSG;
	part->pos = (uint32_t)(*at + gap);
	part->len = (uint32_t)len;
	part->nr_ranges = nr;
	*at += gap + len;
	return parse_ranges(part) ? 0 : -EBADMSG;
}

static int parse_limb(struct span *s, size_t first_len, size_t *at, struct cat_fixed *sh)
{
	struct cat_limb *limb = &sh->limb[sh->nr_limbs++];
	uint64_t nr;

	limb->width = span_u8(s);
	nr = span_varint(s);
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

int cat_fixed_parse(const struct cat_segment *seg, struct cat_fixed_shape *ret_shape)
{
	struct cat_fixed *sh = &ret_shape->digits;
	struct span s = seg->rest;
	uint64_t nr = span_varint(&s);
	uint32_t shift;
	size_t at = 0;

	sh->nr_limbs = sh->nr_parts = sh->bits = 0;
	if (nr < 1 || nr > CAT_FIXED_LIMBS)
		return cat_segment_bad(seg, "a shape has no limbs or too many");
	for (; nr > 0; nr--)
		if (parse_limb(&s, seg->first_len, &at, sh) < 0)
			return cat_segment_bad(seg, "a limb of a shape is invalid");
	if (sh->bits > CAT_X_BITS_MAX)
		return cat_segment_bad(seg, "a shape is too wide");
	shift = sh->bits;
	for (unsigned k = 0; k < sh->nr_limbs; k++) {
		shift -= sh->limb[k].width;
		sh->limb[k].shift = shift;
	}
	return cat_values_parse(seg->view, &s, seg->payload, seg->off, seg->end, seg->nr, sh->bits,
				&ret_shape->values);
}

/* The byte of a digit of a set with more than two ranges. */
static uint8_t byte_of_digit(const struct cat_part *part, unsigned digit)
{
	for (unsigned r = 0; r + 1 < part->nr_ranges; r++) {
		unsigned lo = part->ranges[2 * r], size = part->ranges[2 * r + 1] - lo + 1;

		if (digit < size)
			return (uint8_t)(lo + digit);
		digit -= size;
	}
	return (uint8_t)(part->ranges[2 * part->nr_ranges - 2] + digit);
}

/* At least the radix if the byte is not in the set. */
static inline unsigned digit_of_byte(const struct cat_part *part, uint8_t byte)
{
	unsigned first = (unsigned)byte - part->ranges[0];
	unsigned second = (unsigned)byte - part->second;
	unsigned before = 0;

	if (LIKELY(part->nr_ranges <= 2)) {
		second = second < part->first_size ? UINT32_MAX
						   : second; /* between the two ranges */
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

/*
 * Write the digits of @v into the part's bytes and return the rest of the number. @radix is the
 * part's; callers pass a constant where they can, so that the division becomes cheap. Almost all
 * sets are one range or two, such as 0-9 and a-f. Which of the two a digit is in is random, so this
 * is written for a conditional move: a branch would be mispredicted every third time.
 */
static inline __attribute__((always_inline)) uint64_t
put_digits(const struct cat_part *part, uint64_t radix, uint64_t v, uint8_t *buf)
{
	/* Copies, because the compiler must assume that writing to buf changes the part. */
	const unsigned first_size = part->first_size, first = part->ranges[0],
		       second = part->second;
	uint8_t *start = buf + part->pos;
	uint8_t *p = start + part->len;

	if (UNLIKELY(part->nr_ranges > 2)) {
		for (; p > start; v /= radix)
			*--p = byte_of_digit(part, (unsigned)(v % radix));
		return v;
	}
	for (; p > start; v /= radix) {
		unsigned digit = (unsigned)(v % radix);

		*--p = (uint8_t)(digit + (digit < first_size ? first : second));
	}
	return v;
}

static uint64_t put_part(const struct cat_part *part, uint64_t v, uint8_t *buf)
{
	switch (part->radix) {
	case 16:
		return put_digits(part, 16, v, buf);
	case 10:
		return put_digits(part, 10, v, buf);
	case 2:
		return put_digits(part, 2, v, buf);
	case 4:
		return put_digits(part, 4, v, buf);
	case 8:
		return put_digits(part, 8, v, buf);
	case 64:
		return put_digits(part, 64, v, buf);
	default:
		return put_digits(part, part->radix, v, buf);
	}
}

int cat_fixed_put(const struct cat_segment *seg, const struct cat_fixed_shape *shape, uint64_t i,
		  uint8_t *buf)
{
	const struct cat_fixed *sh = &shape->digits;
	struct cat_x x;
	int rc = cat_values_get(&shape->values, i, &x);

	if (rc < 0)
		return rc;
	memcpy(buf, seg->first, seg->first_len);
	for (unsigned k = 0; k < sh->nr_limbs; k++) {
		const struct cat_limb *limb = &sh->limb[k];
		uint64_t v = cat_x_get(&x, limb->shift, limb->width);

		for (unsigned p = limb->end_part; p-- > limb->first_part;)
			v = put_part(&sh->part[p], v, buf);
		if (v != 0)
			return cat_segment_bad(seg, "a number is too large for its limb");
	}
	return (int)seg->first_len;
}

/* The limb's number in @name; -ENOENT if a byte is not in its set. */
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
	*ret_v = v & bits_mask(limb->width);
	return absent ? -ENOENT : 0;
}

int cat_fixed_find(const struct cat_segment *seg, const uint8_t *name, size_t len, uint64_t *ret_i)
{
	struct cat_fixed_shape shape;
	const struct cat_fixed *sh = &shape.digits;
	struct cat_x x = { { 0 } };
	size_t at = 0;
	int rc = cat_fixed_parse(seg, &shape);

	if (rc < 0)
		return rc;
	if (len != seg->first_len)
		return -ENOENT;
	for (unsigned k = 0; k < sh->nr_parts; k++) {
		if (memcmp(name + at, seg->first + at, sh->part[k].pos - at) != 0)
			return -ENOENT;
		at = sh->part[k].pos + sh->part[k].len;
	}
	if (memcmp(name + at, seg->first + at, len - at) != 0)
		return -ENOENT;
	for (unsigned k = 0; k < sh->nr_limbs; k++) {
		uint64_t v;

		rc = get_limb(sh, &sh->limb[k], name, &v);
		if (rc < 0)
			return rc;
		cat_x_put(&x, sh->limb[k].shift, sh->limb[k].width, v);
	}
	rc = cat_values_find(&shape.values, &x, ret_i);
	return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}

int cat_fixed_check(const struct cat_segment *seg)
{
	struct cat_fixed_shape shape;
	int rc = cat_fixed_parse(seg, &shape);

	return rc < 0 ? rc : cat_values_check(&shape.values);
}

/* Whether one of its bytes may be a slash. */
static bool has_slash(const struct cat_part *part)
{
	for (unsigned k = 0; k < part->nr_ranges; k++)
		if (part->ranges[2 * k] <= '/' && part->ranges[2 * k + 1] >= '/')
			return true;
	return false;
}

int cat_fixed_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr)
{
	size_t dir = cat_segment_dir(seg);
	struct cat_fixed_shape shape;
	int rc = cat_fixed_parse(seg, &shape);

	if (rc < 0)
		return rc;
	for (unsigned k = 0; k < shape.digits.nr_parts; k++)
		if (shape.digits.part[k].pos < dir || has_slash(&shape.digits.part[k]))
			return 0;
	*ret_nr = seg->nr - i;
	return 0;
}
