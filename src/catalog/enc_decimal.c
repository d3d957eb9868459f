/* Names with one number without leading zeros, such as img_9.jpg, img_10.jpg. */
#include <string.h>

#include "catalog/decimal.h"
#include "catalog/encode.h"
#include "catalog/values.h"

struct decimal_fit {
	const uint8_t *suffix;
	uint32_t prefix_len, suffix_len;
};

/*
 * Locate the number by the bytes that the first and the last name share: all names between share
 * them too.
 */
static bool decimal_find_number(const struct enc_names *n, uint32_t from, uint32_t end,
				struct decimal_fit *fit)
{
	const uint8_t *first = enc_name(n, from);
	uint32_t len = enc_len(n, from);
	uint32_t at = (uint32_t)name_shared(first, len, enc_name(n, end - 1), enc_len(n, end - 1));

	while (at > 0 && cat_is_digit(first[at - 1]))
		at--;
	fit->prefix_len = at;
	while (at < len && cat_is_digit(first[at]))
		at++;
	fit->suffix = first + at;
	fit->suffix_len = len - at;
	return at > fit->prefix_len;
}

/* The number in @name; UINT64_MAX if the name has another shape. */
static uint64_t decimal_number_of(const struct decimal_fit *fit, const uint8_t *name, uint32_t len)
{
	uint32_t digits = len - fit->prefix_len - fit->suffix_len;
	const uint8_t *p = name + fit->prefix_len;

	if (len <= fit->prefix_len + fit->suffix_len || digits > CAT_DECIMAL_DIGITS ||
	    (digits > 1 && p[0] == '0') || memcmp(p + digits, fit->suffix, fit->suffix_len) != 0)
		return UINT64_MAX;
	return cat_digits_get(p, digits);
}

bool enc_decimal_write(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	const struct enc_names *n = &e->names;
	uint64_t *xs = enc_values(e, end - from);
	struct cat_decimal numbers;
	struct decimal_fit fit;
	uint64_t max = 0;

	if (!xs || !decimal_find_number(n, from, end, &fit))
		return false;
	for (uint32_t i = from; i < end; i++) {
		uint64_t v = decimal_number_of(&fit, enc_name(n, i), enc_len(n, i));

		if (v == UINT64_MAX)
			return false;
		xs[i - from] = v;
		max = u64_max(max, v);
	}
	cat_decimal_init(&numbers, max, fit.suffix_len && fit.suffix[0] > '9');
	for (uint32_t i = 0; i < end - from; i++)
		xs[i] = cat_decimal_rank(&numbers, xs[i]);
	buf_varint(&e->payload, fit.prefix_len);
	buf_varint(&e->payload, fit.suffix_len);
	buf_varint(&e->payload, max);
	cat_values_write(&e->payload, xs, end - from, 1, 64);
	return true;
}
