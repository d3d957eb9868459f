#include <errno.h>
#include <string.h>

#include "catalog/shape.h"

int cat_decimal_parse(const struct cat_segment *seg, struct cat_decimal_shape *sh)
{
	struct span s = seg->rest;
	uint64_t prefix = span_varint(&s);
	uint64_t suffix = span_varint(&s);
	uint64_t max = span_varint(&s);

	if (s.bad || prefix > seg->first_len || suffix > seg->first_len - prefix ||
	    max >= cat_pow10[CAT_DECIMAL_DIGITS])
		return cat_segment_bad(seg, "a segment of numbers is invalid");
	sh->prefix_len = (size_t)prefix;
	sh->suffix_len = (size_t)suffix;
	sh->suffix = seg->first + seg->first_len - suffix;
	if (suffix && sh->suffix[0] >= '0' && sh->suffix[0] <= '9')
		return cat_segment_bad(seg, "a digit follows a number");
	cat_decimal_init(&sh->numbers, max, suffix && sh->suffix[0] > '9');
	return cat_values_parse(seg->view, &s, seg->payload, seg->off, seg->end, seg->nr, 64,
				&sh->values);
}

int cat_decimal_put(const struct cat_segment *seg, const struct cat_decimal_shape *sh, uint64_t i,
		    uint8_t *buf)
{
	struct cat_x x;
	uint64_t v;
	size_t digits;
	int rc = cat_values_get(&sh->values, i, &x);

	if (rc < 0)
		return rc;
	if (x.w[0] > sh->numbers.max)
		return cat_segment_bad(seg, "a number is past the largest");
	v = cat_decimal_unrank(&sh->numbers, x.w[0]);
	digits = cat_decimal_digits(v);
	if (sh->prefix_len + digits + sh->suffix_len > SHOAL_NAME_MAX)
		return cat_segment_bad(seg, "a name is too long");
	memcpy(buf, seg->first, sh->prefix_len);
	cat_digits_put(buf + sh->prefix_len, (unsigned)digits, v);
	memcpy(buf + sh->prefix_len + digits, sh->suffix, sh->suffix_len);
	return (int)(sh->prefix_len + digits + sh->suffix_len);
}

int cat_decimal_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		     uint64_t *ret_i)
{
	struct cat_decimal_shape sh;
	size_t digits;
	struct cat_x x;
	uint64_t v;
	int rc;

	rc = cat_decimal_parse(seg, &sh);
	if (rc < 0)
		return rc;
	if (len <= sh.prefix_len + sh.suffix_len)
		return -ENOENT;
	digits = len - sh.prefix_len - sh.suffix_len;
	if (digits > CAT_DECIMAL_DIGITS || memcmp(name, seg->first, sh.prefix_len) != 0 ||
	    memcmp(name + len - sh.suffix_len, sh.suffix, sh.suffix_len) != 0)
		return -ENOENT;
	v = cat_digits_get(name + sh.prefix_len, (unsigned)digits);
	if (v > sh.numbers.max || digits != cat_decimal_digits(v))
		return -ENOENT;
	x.w[0] = cat_decimal_rank(&sh.numbers, v);
	rc = cat_values_find(&sh.values, &x, ret_i);
	return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}

int cat_decimal_check(const struct cat_segment *seg)
{
	struct cat_decimal_shape sh;
	int rc = cat_decimal_parse(seg, &sh);

	return rc < 0 ? rc : cat_values_check(&sh.values);
}

int cat_decimal_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr)
{
	struct cat_decimal_shape sh;
	int rc = cat_decimal_parse(seg, &sh);

	if (rc == 0 && sh.prefix_len >= cat_segment_dir(seg))
		*ret_nr = seg->nr - i;
	return rc;
}
