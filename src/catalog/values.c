#include "catalog/values.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bits.h"

/* ---- Reading ---- */

static int parse_elias_fano(const struct cat_view *v, struct span *s, const uint8_t *span_base,
			    uint64_t span_off, uint64_t payload_end, struct cat_values *vs)
{
	uint64_t low_bits = span_varint(s);
	uint64_t nr_bits, nr_ones, nr_zeros, len, off;
	const uint8_t *p;

	vs->high = span_varint(s);
	if (s->bad || low_bits >= vs->bits || vs->nr > CAT_EF_NAMES || vs->high > CAT_EF_HIGH_MAX)
		return cat_damaged(v, CAT_NAME, span_off, "a list of numbers is invalid");
	vs->low_bits = (unsigned)low_bits;
	vs->base_len = (vs->bits - vs->low_bits + 7) / 8;
	vs->base = span_bytes(s, vs->base_len);
	nr_bits = vs->nr + vs->high;
	/* Select samples exist only if a scan from the start would be long. */
	nr_ones = nr_bits > CAT_EF_PLAIN ? (vs->nr - 1) / CAT_EF_SAMPLE : 0;
	nr_zeros = nr_bits > CAT_EF_PLAIN && vs->high ? (vs->high - 1) / CAT_EF_SAMPLE : 0;
	vs->low_len = (size_t)((vs->nr * vs->low_bits + 7) / 8);
	vs->high_len = (size_t)((nr_bits + 7) / 8);
	len = vs->low_len + vs->high_len + 4 * (nr_ones + nr_zeros);
	off = span_off + (uint64_t)(s->p - span_base);
	if (s->bad || off > payload_end || len > payload_end - off)
		return cat_damaged(v, CAT_NAME, span_off, "a list of numbers is truncated");
	p = v->sec[CAT_NAME].addr + off;
	vs->low_off = off;
	vs->low_array = p;
	vs->high_array = p + vs->low_len;
	vs->ones = nr_ones ? vs->high_array + vs->high_len : NULL;
	vs->zeros = nr_zeros ? vs->high_array + vs->high_len + 4 * nr_ones : NULL;
	/* The high bits and select samples are a few pages; low bits are requested one by one. */
	if (!cat_need(v, CAT_NAME, off + vs->low_len, len - vs->low_len))
		return -EBADMSG;
	return 0;
}

int cat_values_parse(const struct cat_view *v, struct span *s, const uint8_t *span_base,
		     uint64_t span_off, uint64_t payload_end, uint64_t nr, unsigned bits,
		     struct cat_values *ret_values)
{
	struct cat_values vs = {
		.nr = nr, .bits = bits, .words = (bits + 63) / 64, .view = v, .low_off = span_off
	};
	uint8_t coding = span_u8(s);

	if (bits == 0 || bits > CAT_X_BITS_MAX || coding > CAT_ELIAS_FANO || s->bad)
		return cat_damaged(v, CAT_NAME, span_off, "unknown coding of numbers");
	vs.coding = (enum cat_coding)coding;
	if (vs.coding == CAT_LINEAR) {
		vs.first = span_varint(s);
		vs.stride = span_varint(s);
		if (s->bad || bits > 64)
			return cat_damaged(v, CAT_NAME, span_off, "a row of numbers is truncated");
	} else {
		int rc = parse_elias_fano(v, s, span_base, span_off, payload_end, &vs);

		if (rc < 0)
			return rc;
	}
	*ret_values = vs;
	return 0;
}

/*
 * The position of bit number @r among the set bits (@flip 0) or the clear bits (@flip ~0) of the
 * high array. One past its end if there are fewer.
 */
static uint64_t high_select(const struct cat_values *vs, uint64_t r, uint64_t flip)
{
	const uint8_t *samples = flip ? vs->zeros : vs->ones;
	uint64_t end = vs->nr + vs->high;
	uint64_t at = 0, seen = 0;

	if (samples && r >= CAT_EF_SAMPLE) {
		at = le32_load(samples + 4 * (r / CAT_EF_SAMPLE - 1));
		seen = r / CAT_EF_SAMPLE * CAT_EF_SAMPLE;
	}
	while (at < end) {
		uint64_t first = at & ~UINT64_C(63);
		uint64_t w = bits_word(vs->high_array, vs->high_len, (size_t)(first / 8)) ^ flip;
		unsigned ones;

		w &= UINT64_MAX << (at & 63);
		ones = (unsigned)__builtin_popcountll(w);
		if (seen + ones > r)
			return first + select_word(w, (unsigned)(r - seen));
		seen += ones;
		at = first + 64;
	}
	return end;
}

/* Compose X_i: base + @h in the upper bits, and the low bits from the array. */
static int compose(const struct cat_values *vs, uint64_t i, uint64_t h, struct cat_x *x)
{
	uint64_t bit = i * vs->low_bits;

	if (!cat_need(vs->view, CAT_NAME, vs->low_off + bit / 8,
		      (bit + vs->low_bits + 7) / 8 - bit / 8))
		return -EBADMSG;
	*x = (struct cat_x){ { 0 } };
	for (unsigned off = 0; off < vs->low_bits; off += 64) {
		unsigned n = (unsigned)u64_min(64, vs->low_bits - off);

		cat_x_put(x, off, n, bits_get(vs->low_array, vs->low_len, bit + off, n));
	}
	/* Add 64 bits at a time, with carry; a valid file has no bits past the width. */
	for (unsigned k = 0; vs->low_bits + 64 * k < vs->bits; k++) {
		unsigned n = (unsigned)u64_min(64, vs->bits - vs->low_bits - 64 * k);
		uint64_t word = bits_word(vs->base, vs->base_len, 8 * k);
		uint64_t sum = word + h;

		h = sum < word;
		cat_x_put(x, vs->low_bits + 64 * k, n, sum & bits_mask(n));
	}
	return 0;
}

int cat_values_get(const struct cat_values *vs, uint64_t i, struct cat_x *ret_x)
{
	uint64_t at;

	if (vs->coding == CAT_LINEAR) {
		ret_x->w[0] = vs->first + i * vs->stride;
		if (ret_x->w[0] & ~bits_mask(vs->bits))
			return cat_damaged(vs->view, CAT_NAME, vs->low_off,
					   "a number is too large");
		return 0;
	}
	/*
	 * The low bits are most of the file, and far away: prefetch them while the high bits are
	 * read.
	 */
	__builtin_prefetch(vs->low_array + i * vs->low_bits / 8);
	at = high_select(vs, i, 0);
	return compose(vs, i, at >= i ? at - i : 0, ret_x);
}

static int x_compare(const struct cat_values *vs, const struct cat_x *a, const struct cat_x *b)
{
	for (unsigned k = vs->words; k-- > 0;)
		if (a->w[k] != b->w[k])
			return a->w[k] < b->w[k] ? -1 : 1;
	return 0;
}

/* H of @x: (x >> low_bits) - base. False if x is below the base or far above it. */
static bool high_of(const struct cat_values *vs, const struct cat_x *x, uint64_t *ret_h)
{
	uint64_t borrow = 0, diff = 0;

	for (unsigned k = 0; vs->low_bits + 64 * k < vs->bits; k++) {
		unsigned n = (unsigned)u64_min(64, vs->bits - vs->low_bits - 64 * k);
		uint64_t a = cat_x_get(x, vs->low_bits + 64 * k, n);
		uint64_t b = bits_word(vs->base, vs->base_len, 8 * k) & bits_mask(n);
		uint64_t d = a - b - borrow;

		borrow = a < b || (a == b && borrow);
		if (k == 0)
			diff = d;
		else if (d != 0)
			return false;
	}
	*ret_h = diff;
	return !borrow && diff <= vs->high;
}

/* The number of consecutive set bits from bit @at of the high array on. */
static uint64_t run_of_ones(const struct cat_values *vs, uint64_t at)
{
	uint64_t start = at, end = vs->nr + vs->high;

	while (at < end) {
		uint64_t zeros = ~bits_get(vs->high_array, vs->high_len, at, 64);

		if (zeros)
			return u64_min(at + (uint64_t)__builtin_ctzll(zeros), end) - start;
		at += 64;
	}
	return end - start;
}

static int find_elias_fano(const struct cat_values *vs, const struct cat_x *x, uint64_t *ret_i)
{
	uint64_t h, at, first, end;

	if (!high_of(vs, x, &h))
		return 0;
	/* The values with this high part are the set bits after clear bit number h - 1. */
	at = h ? high_select(vs, h - 1, UINT64_MAX) + 1 : 0;
	first = at - h;
	if (at < h || first >= vs->nr)
		return 0;
	__builtin_prefetch(vs->low_array + first * vs->low_bits / 8);
	end = u64_min(first + run_of_ones(vs, at), vs->nr);
	while (first < end) {
		uint64_t mid = first + (end - first) / 2;
		struct cat_x y;
		int c;

		c = compose(vs, mid, h, &y);
		if (c < 0)
			return c;
		c = x_compare(vs, &y, x);
		if (c == 0) {
			*ret_i = mid;
			return 1;
		}
		if (c < 0)
			first = mid + 1;
		else
			end = mid;
	}
	return 0;
}

int cat_values_find(const struct cat_values *vs, const struct cat_x *x, uint64_t *ret_i)
{
	uint64_t diff;

	if (vs->coding == CAT_ELIAS_FANO)
		return find_elias_fano(vs, x, ret_i);
	diff = x->w[0] - vs->first;
	if (x->w[0] < vs->first || (vs->stride ? diff % vs->stride : diff) != 0)
		return 0;
	*ret_i = vs->stride ? diff / vs->stride : 0;
	return *ret_i < vs->nr;
}

/*
 * Whether one kind of select sample matches the bits: for set bits, or with @flip clear bits, of
 * which there are @nr.
 */
static bool samples_agree(const struct cat_values *vs, const uint8_t *samples, uint64_t nr,
			  uint64_t flip)
{
	uint64_t end = vs->nr + vs->high, seen = 0;

	for (uint64_t at = 0; at < end; at++) {
		uint64_t bit = (vs->high_array[at / 8] >> (at & 7) & 1) ^ (flip & 1);

		if (bit && seen && samples && seen % CAT_EF_SAMPLE == 0 && seen < nr &&
		    le32_load(samples + 4 * (seen / CAT_EF_SAMPLE - 1)) != at)
			return false;
		seen += bit;
	}
	return seen == nr;
}

int cat_values_check(const struct cat_values *vs)
{
	if (vs->coding != CAT_ELIAS_FANO)
		return 0;
	if (!samples_agree(vs, vs->ones, vs->nr, 0) ||
	    !samples_agree(vs, vs->zeros, vs->high, UINT64_MAX))
		return cat_damaged(vs->view, CAT_NAME, vs->low_off,
				   "a list of numbers contradicts itself");
	return 0;
}

/* ---- Writing ---- */

/* Compute @words words of a - b. */
static void subtract(const uint64_t *a, const uint64_t *b, unsigned words, uint64_t *ret_diff)
{
	uint64_t borrow = 0;

	for (unsigned k = 0; k < words; k++) {
		uint64_t d = a[k] - b[k] - borrow;

		borrow = a[k] < b[k] || (a[k] == b[k] && borrow);
		ret_diff[k] = d;
	}
}

/* The 64 bits of @x from bit @off on. */
static uint64_t bits_from(const uint64_t *x, unsigned words, unsigned off)
{
	unsigned k = off / 64, shift = off % 64;
	uint64_t v = k < words ? x[k] >> shift : 0;

	if (shift && k + 1 < words)
		v |= x[k + 1] << (64 - shift);
	return v;
}

/* The number of low bits that leaves between nr and 2 nr steps for the high part. */
static unsigned choose_low_bits(const uint64_t *diff, uint64_t nr, unsigned words)
{
	unsigned len = 0;

	for (unsigned k = words; k-- > 0 && !len;)
		if (diff[k])
			len = 64 * k + bit_len(diff[k]);
	if (len <= bit_len(nr))
		return 0;
	len -= bit_len(nr);
	return bits_from(diff, words, len) >= nr ? len : len - 1;
}

static bool is_linear(const uint64_t *xs, uint64_t nr)
{
	uint64_t stride = nr > 1 ? xs[1] - xs[0] : 1;

	for (uint64_t i = 1; i < nr; i++)
		if (xs[i] - xs[i - 1] != stride)
			return false;
	return true;
}

/* Write the position of every 256th set bit (with @flip, clear bit) among @nr_bits. */
static void write_samples(struct buf *b, size_t high_at, uint64_t nr_bits, uint64_t nr,
			  uint64_t flip)
{
	size_t high_len = (size_t)((nr_bits + 7) / 8);
	uint64_t seen = 0, next = CAT_EF_SAMPLE;

	for (uint64_t at = 0; at < nr_bits && next < nr && b->rc == 0; at += 64) {
		uint64_t w = bits_word(b->data + high_at, high_len, (size_t)(at / 8)) ^ flip;
		uint64_t ones = (uint64_t)__builtin_popcountll(w);

		if (seen + ones > next) {
			uint32_t pos = (uint32_t)at + select_word(w, (unsigned)(next - seen));
			struct le32 le = le32_of(pos);

			buf_append(b, &le, sizeof(le));
			next += CAT_EF_SAMPLE;
		}
		seen += ones;
	}
}

static void write_low(struct buf *b, const uint64_t *xs, uint64_t nr, unsigned words,
		      unsigned low_bits)
{
	size_t len = (size_t)((nr * low_bits + 7) / 8);
	uint8_t *low = buf_reserve(b, len + 9);

	if (!low)
		return;
	memset(low, 0, len + 9);
	for (uint64_t i = 0; i < nr; i++)
		for (unsigned off = 0; off < low_bits; off += 64)
			bits_put(low, i * low_bits + off, (unsigned)u64_min(64, low_bits - off),
				 xs[i * words + off / 64]);
	b->len += len;
}

static void write_elias_fano(struct buf *b, const uint64_t *xs, uint64_t nr, unsigned words,
			     unsigned bits)
{
	uint64_t diff[CAT_X_WORDS], base, high, nr_bits;
	unsigned low_bits;
	uint8_t *bytes;
	size_t high_at, len;

	subtract(xs + (nr - 1) * words, xs, words, diff);
	low_bits = choose_low_bits(diff, nr, words);
	base = bits_from(xs, words, low_bits);
	high = bits_from(xs + (nr - 1) * words, words, low_bits) - base;
	assert(high <= 2 * nr + 2);
	buf_u8(b, CAT_ELIAS_FANO);
	buf_varint(b, low_bits);
	buf_varint(b, high);
	for (unsigned off = low_bits; off < bits; off += 8)
		buf_u8(b, (uint8_t)bits_from(xs, words, off));
	write_low(b, xs, nr, words, low_bits);

	nr_bits = nr + high;
	len = (size_t)((nr_bits + 7) / 8);
	high_at = b->len;
	bytes = buf_reserve(b, len);
	if (!bytes)
		return;
	memset(bytes, 0, len);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t bit = bits_from(xs + i * words, words, low_bits) - base + i;

		bytes[bit / 8] |= (uint8_t)(1u << (bit & 7));
	}
	b->len += len;
	if (nr_bits <= CAT_EF_PLAIN)
		return;
	write_samples(b, high_at, nr_bits, nr, 0);
	write_samples(b, high_at, nr_bits, high, UINT64_MAX);
}

void cat_values_write(struct buf *b, const uint64_t *xs, uint64_t nr, unsigned words, unsigned bits)
{
	assert(nr > 0 && words > 0 && words <= CAT_X_WORDS);
	if (words == 1 && is_linear(xs, nr)) {
		buf_u8(b, CAT_LINEAR);
		buf_varint(b, xs[0]);
		buf_varint(b, nr > 1 ? xs[1] - xs[0] : 1);
		return;
	}
	write_elias_fano(b, xs, nr, words, bits);
}
