#include <errno.h>
#include <string.h>

#include "catalog/shape.h"

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
				  "25262728293031323334353637383940414243444546474849"
				  "50515253545556575859606162636465666768697071727374"
				  "75767778798081828384858687888990919293949596979899";

uint64_t cat_digits_get(const uint8_t *p, unsigned width)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < width; i++) {
		unsigned digit = p[i] - (unsigned)'0';

		if (digit > 9)
			return UINT64_MAX;
		v = v * 10 + digit;
	}
	return v;
}

void cat_digits_put(uint8_t *p, unsigned width, uint64_t v)
{
	/* Two digits per division, and 32-bit divisions as soon as the number fits. */
	while (width >= 2 && v > UINT32_MAX) {
		width -= 2;
		memcpy(p + width, digit_pairs + 2 * (v % 100), 2);
		v /= 100;
	}
	for (uint32_t low = (uint32_t)v; width >= 2; low /= 100) {
		width -= 2;
		memcpy(p + width, digit_pairs + 2 * (low % 100), 2);
		v = low / 100;
	}
	if (width)
		p[0] = (uint8_t)('0' + v % 10);
}

static int parse_fields(const struct cat_segment *seg, struct span *s, struct cat_grid *g)
{
	uint64_t at = 0;
	uint64_t nr = span_varint(s);

	if (nr < 1 || nr > CAT_GRID_FIELDS)
		return -EBADMSG;
	g->nr_fields = (unsigned)nr;
	for (unsigned f = 0; f < nr; f++) {
		uint64_t gap = span_varint(s);
		uint64_t width = span_varint(s);

		if (gap > seg->first_len - at || width < 1 || width > CAT_GRID_WIDTH ||
		    width > seg->first_len - at - gap)
			return -EBADMSG;
		g->field[f].pos = (uint32_t)(at + gap);
		g->field[f].width = (uint32_t)width;
		g->field[f].value = cat_digits_get(seg->first + at + gap, (unsigned)width);
		if (g->field[f].value == UINT64_MAX)
			return -EBADMSG;
		at += gap + width;
	}
	return 0;
}

int cat_grid_parse(const struct cat_segment *seg, struct cat_grid *g)
{
	struct span s = seg->rest;
	uint64_t product = 1, nr;

	if (parse_fields(seg, &s, g) < 0)
		return cat_segment_bad(seg, "fields of a grid are invalid");
	nr = span_varint(&s);
	if (nr < 1 || nr > CAT_GRID_DIMS)
		return cat_segment_bad(seg, "dimensions of a grid are invalid");
	g->nr_dims = (unsigned)nr;
	for (unsigned d = 0; d < nr; d++) {
		g->dim[d].extent = span_varint(&s);
		for (unsigned f = 0; f < g->nr_fields; f++)
			g->dim[d].delta[f] = (uint64_t)span_zigzag(&s);
		if (__builtin_mul_overflow(product, g->dim[d].extent, &product))
			return cat_segment_bad(seg, "dimensions of a grid are invalid");
	}
	if (s.bad || product != seg->nr)
		return cat_segment_bad(seg, "dimensions of a grid are invalid");
	return 0;
}

int cat_grid_put(const struct cat_segment *seg, const struct cat_grid *g, uint64_t i, uint8_t *buf)
{
	uint64_t value[CAT_GRID_FIELDS];

	for (unsigned f = 0; f < g->nr_fields; f++)
		value[f] = g->field[f].value;
	for (unsigned d = 0; d < g->nr_dims; d++) {
		uint64_t x = i;

		if (d + 1 < g->nr_dims) {
			x = i % g->dim[d].extent;
			i /= g->dim[d].extent;
		}
		for (unsigned f = 0; f < g->nr_fields; f++)
			value[f] += x * g->dim[d].delta[f];
	}
	memcpy(buf, seg->first, seg->first_len);
	for (unsigned f = 0; f < g->nr_fields; f++) {
		if (value[f] >= cat_pow10[g->field[f].width])
			return cat_segment_bad(seg, "a number of a grid is too wide");
		cat_digits_put(buf + g->field[f].pos, g->field[f].width, value[f]);
	}
	return (int)seg->first_len;
}

/* The numbers in @name's fields; -ENOENT if the rest of it differs from the first name. */
static int read_fields(const struct cat_segment *seg, const struct cat_grid *g, const uint8_t *name,
		       size_t len, uint64_t *want)
{
	size_t at = 0;

	if (len != seg->first_len)
		return -ENOENT;
	for (unsigned f = 0; f < g->nr_fields; f++) {
		if (memcmp(name + at, seg->first + at, g->field[f].pos - at) != 0)
			return -ENOENT;
		want[f] = cat_digits_get(name + g->field[f].pos, g->field[f].width);
		if (want[f] == UINT64_MAX)
			return -ENOENT;
		at = g->field[f].pos + g->field[f].width;
	}
	return memcmp(name + at, seg->first + at, len - at) == 0 ? 0 : -ENOENT;
}

/* Compare the fields at @x steps along dimension @d from @base with the wanted ones. */
static int compare_at(const struct cat_grid *g, unsigned d, uint64_t x, const uint64_t *base,
		      const uint64_t *want)
{
	for (unsigned f = 0; f < g->nr_fields; f++) {
		uint64_t v = base[f] + x * g->dim[d].delta[f];

		if (v != want[f])
			return v < want[f] ? -1 : 1;
	}
	return 0;
}

/* The number of steps along dimension @d to the last name that is not after the wanted one. */
static uint64_t steps_to(const struct cat_grid *g, unsigned d, const uint64_t *base,
			 const uint64_t *want)
{
	uint64_t low = 0, high = g->dim[d].extent;
	unsigned f = 0;

	/* The first field that changes gives the likely step; try that before searching. */
	while (f + 1 < g->nr_fields && g->dim[d].delta[f] == 0)
		f++;
	if (g->dim[d].delta[f] && want[f] >= base[f]) {
		uint64_t x = u64_min((want[f] - base[f]) / g->dim[d].delta[f], high - 1);

		if (compare_at(g, d, x, base, want) <= 0 &&
		    (x + 1 == high || compare_at(g, d, x + 1, base, want) > 0))
			return x;
	}
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;

		if (compare_at(g, d, mid, base, want) <= 0)
			low = mid;
		else
			high = mid;
	}
	return low;
}

int cat_grid_find(const struct cat_segment *seg, const uint8_t *name, size_t len, uint64_t *ret_i)
{
	uint64_t want[CAT_GRID_FIELDS] = { 0 }, at[CAT_GRID_FIELDS] = { 0 }, i = 0;
	struct cat_grid g;
	int rc = cat_grid_parse(seg, &g);

	if (rc == 0)
		rc = read_fields(seg, &g, name, len, want);
	if (rc < 0)
		return rc;
	for (unsigned f = 0; f < g.nr_fields; f++)
		at[f] = g.field[f].value;
	/*
	 * From the slowest dimension down: the last block whose first name is not after the wanted
	 * one.
	 */
	for (unsigned d = g.nr_dims; d-- > 0;) {
		uint64_t x = steps_to(&g, d, at, want);

		for (unsigned f = 0; f < g.nr_fields; f++)
			at[f] += x * g.dim[d].delta[f];
		i = i * g.dim[d].extent + x;
	}
	if (memcmp(at, want, g.nr_fields * sizeof(at[0])) != 0)
		return -ENOENT;
	*ret_i = i;
	return 0;
}

/* Whether a step along dimension @d changes the directory, of @dir bytes: numbers have no slash. */
static bool changes_directory(const struct cat_grid *g, unsigned d, size_t dir)
{
	for (unsigned f = 0; f < g->nr_fields && g->field[f].pos < dir; f++)
		if (g->dim[d].delta[f])
			return true;
	return false;
}

int cat_grid_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr)
{
	size_t dir = cat_segment_dir(seg);
	struct cat_grid g;
	uint64_t nr = 1;
	int rc = cat_grid_parse(seg, &g);

	if (rc < 0)
		return rc;
	for (unsigned d = 0; d < g.nr_dims && !changes_directory(&g, d, dir); d++)
		nr *= g.dim[d].extent;
	*ret_nr = nr - i % nr;
	return 0;
}

/* Move the first name of @g to name @i of it. */
static int grid_move(const struct cat_segment *seg, struct cat_grid *g, uint64_t i)
{
	for (unsigned d = 0; d < g->nr_dims; d++) {
		uint64_t x = i % g->dim[d].extent;

		i /= g->dim[d].extent;
		for (unsigned f = 0; f < g->nr_fields; f++)
			g->field[f].value += x * g->dim[d].delta[f];
	}
	for (unsigned f = 0; f < g->nr_fields; f++)
		if (g->field[f].value >= cat_pow10[g->field[f].width])
			return cat_segment_bad(seg, "a number of a grid is too wide");
	return 0;
}

int cat_grid_cut(const struct cat_segment *seg, uint64_t i, uint64_t end, struct cat_grid *ret_grid,
		 uint64_t *ret_nr)
{
	uint64_t size = 1; /* names of all dimensions below d */
	unsigned d = 0;
	int rc = cat_grid_parse(seg, ret_grid);

	if (rc == 0)
		rc = grid_move(seg, ret_grid, i);
	if (rc < 0)
		return rc;
	/* The slowest dimension along which whole steps can be made from here. */
	while (d + 1 < ret_grid->nr_dims && i % (size * ret_grid->dim[d].extent) == 0 &&
	       size * ret_grid->dim[d].extent <= end - i)
		size *= ret_grid->dim[d++].extent;
	ret_grid->dim[d].extent = u64_min(
		(end - i) / size, ret_grid->dim[d].extent - i / size % ret_grid->dim[d].extent);
	ret_grid->nr_dims = d + 1;
	*ret_nr = size * ret_grid->dim[d].extent;
	return 0;
}
