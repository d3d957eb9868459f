/*
 * Names of one length: hexadecimal, UUIDs, time stamps, anything whose bytes come from small sets.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "catalog/catalog_format.h"
#include "catalog/encode.h"
#include "catalog/fixed.h"
#include "catalog/values.h"

/* If more positions vary, the names have no shape. */
#define POSITIONS_MAX 512u

/* 132 KiB, therefore on the heap. */
struct enc_fixed {
	uint32_t nr; /* positions that vary */
	uint32_t pos[POSITIONS_MAX];
	uint16_t radix[POSITIONS_MAX];
	uint8_t digit[POSITIONS_MAX]
		     [256]; /* first 1 for each byte that occurs; later the byte's digit */
	unsigned nr_limbs;
	struct {
		uint32_t end; /* one past its last position */
		uint8_t width;
		uint32_t shift;
	} limb[CAT_FIXED_LIMBS];
	unsigned bits;
};

/* Find the positions that vary: compare all names with the first. */
static bool find_positions(const struct enc_names *n, uint32_t from, uint32_t end,
			   struct enc_fixed *fit)
{
	uint8_t differs[SHOAL_NAME_MAX] = { 0 };
	const uint8_t *first = enc_name(n, from);
	uint32_t len = enc_len(n, from);
	/* The names are sorted: a prefix shared by the first and the last is shared by all. */
	uint32_t skip =
		(uint32_t)name_shared(first, len, enc_name(n, end - 1), enc_len(n, end - 1));

	for (uint32_t i = from + 1; i < end; i++) {
		const uint8_t *name = enc_name(n, i);

		if (enc_len(n, i) != len)
			return false;
		for (uint32_t p = skip; p < len; p++)
			differs[p] |= name[p] ^ first[p];
	}
	fit->nr = 0;
	for (uint32_t p = skip; p < len; p++) {
		if (!differs[p])
			continue;
		if (fit->nr == POSITIONS_MAX)
			return false;
		fit->pos[fit->nr++] = p;
	}
	return fit->nr > 0;
}

/* Find the bytes that occur at each position, and their digits. */
static void find_sets(const struct enc_names *n, uint32_t from, uint32_t end, struct enc_fixed *fit)
{
	memset(fit->digit, 0, fit->nr * sizeof(fit->digit[0]));
	for (uint32_t i = from; i < end; i++) {
		const uint8_t *name = enc_name(n, i);

		for (uint32_t k = 0; k < fit->nr; k++)
			fit->digit[k][name[fit->pos[k]]] = 1;
	}
}

/* The number of bits for numbers below @product, which is at most 2^64. */
static uint8_t width_of_product(unsigned __int128 product)
{
	unsigned __int128 top = product - 1;

	return (uint8_t)(top >> 64 ? 65 : bit_len((uint64_t)top));
}

/* Combine positions, left to right, into limbs of at most 64 bits. */
static bool make_limbs(struct enc_fixed *fit)
{
	unsigned __int128 product = 1;

	fit->nr_limbs = fit->bits = 0;
	for (uint32_t k = 0; k < fit->nr; k++) {
		bool last = k + 1 == fit->nr;

		product *= fit->radix[k];
		if (!last && product * fit->radix[k + 1] <= (unsigned __int128)1 << 64)
			continue;
		if (fit->nr_limbs == CAT_FIXED_LIMBS)
			return false;
		fit->limb[fit->nr_limbs].end = k + 1;
		fit->limb[fit->nr_limbs].width = width_of_product(product);
		fit->bits += fit->limb[fit->nr_limbs++].width;
		product = 1;
	}
	if (fit->bits > CAT_X_BITS_MAX)
		return false;
	for (unsigned l = 0, shift = fit->bits; l < fit->nr_limbs; l++) {
		shift -= fit->limb[l].width;
		fit->limb[l].shift = shift;
	}
	return true;
}

static unsigned write_ranges(struct buf *b, const uint8_t *occurs)
{
	unsigned nr = 0;

	for (int c = 0; c < 256; c++) {
		if (!occurs[c])
			continue;
		if (b)
			buf_u8(b, (uint8_t)c);
		while (c < 255 && occurs[c + 1])
			c++;
		if (b)
			buf_u8(b, (uint8_t)c);
		nr++;
	}
	return nr;
}

/*
 * The end of the run of positions from @k on, before @end, that are adjacent and have the same set.
 */
static uint32_t part_end(const struct enc_fixed *fit, uint32_t k, uint32_t end)
{
	uint32_t j = k + 1;

	while (j < end && fit->pos[j] == fit->pos[j - 1] + 1 &&
	       memcmp(fit->digit[j], fit->digit[k], sizeof(fit->digit[k])) == 0)
		j++;
	return j;
}

/* The shape as specified in docs/format/catalog.md section 2. False if it has too many parts. */
static bool write_shape(struct buf *b, const struct enc_fixed *fit)
{
	uint32_t k = 0, at = 0, nr_parts = 0;

	buf_varint(b, fit->nr_limbs);
	for (unsigned l = 0; l < fit->nr_limbs; l++) {
		uint32_t end = fit->limb[l].end, parts = 0;

		for (uint32_t j = k; j < end; j = part_end(fit, j, end))
			parts++;
		nr_parts += parts;
		buf_u8(b, fit->limb[l].width);
		buf_varint(b, parts);
		while (k < end) {
			uint32_t next = part_end(fit, k, end);
			unsigned nr_ranges = write_ranges(NULL, fit->digit[k]);

			if (nr_ranges > CAT_FIXED_RANGES)
				return false;
			buf_varint(b, fit->pos[k] - at);
			buf_varint(b, next - k);
			buf_u8(b, (uint8_t)nr_ranges);
			write_ranges(b, fit->digit[k]);
			at = fit->pos[next - 1] + 1;
			k = next;
		}
	}
	return nr_parts <= CAT_FIXED_PARTS;
}

/* Replace "occurs" by the byte's rank among those that occur. */
static void number_digits(struct enc_fixed *fit)
{
	for (uint32_t k = 0; k < fit->nr; k++) {
		uint8_t next = 0;

		for (int c = 0; c < 256; c++)
			if (fit->digit[k][c])
				fit->digit[k][c] = next++;
	}
}

static void name_to_x(const struct enc_fixed *fit, const uint8_t *name, unsigned words, uint64_t *x)
{
	struct cat_x wide = { { 0 } };
	uint32_t k = 0;

	for (unsigned l = 0; l < fit->nr_limbs; l++) {
		uint64_t v = 0;

		for (; k < fit->limb[l].end; k++)
			v = v * fit->radix[k] + fit->digit[k][name[fit->pos[k]]];
		cat_x_put(&wide, fit->limb[l].shift, fit->limb[l].width, v);
	}
	memcpy(x, wide.w, words * sizeof(*x));
}

struct enc_fixed *enc_fixed_new(void)
{
	return malloc(sizeof(struct enc_fixed));
}

struct enc_fixed *enc_fixed_free(struct enc_fixed *fit)
{
	free(fit);
	return NULL;
}

bool enc_fixed_write(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	const struct enc_names *n = &e->names;
	struct enc_fixed *fit = e->fixed;
	unsigned words;
	uint64_t *xs;

	if (!find_positions(n, from, end, fit))
		return false;
	find_sets(n, from, end, fit);
	for (uint32_t k = 0; k < fit->nr; k++) {
		fit->radix[k] = 0;
		for (int c = 0; c < 256; c++)
			fit->radix[k] = (uint16_t)(fit->radix[k] + fit->digit[k][c]);
	}
	if (!make_limbs(fit) || !write_shape(&e->payload, fit) ||
	    e->payload.len > CAT_PREAMBLE_MAX - 128)
		return false;
	number_digits(fit);
	words = (fit->bits + 63) / 64;
	xs = enc_values(e, (size_t)(end - from) * words);
	if (!xs)
		return false;
	for (uint32_t i = from; i < end; i++)
		name_to_x(fit, enc_name(n, i), words, xs + (size_t)(i - from) * words);
	cat_values_write(&e->payload, xs, end - from, words, fit->bits);
	return true;
}
