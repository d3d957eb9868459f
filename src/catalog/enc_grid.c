/* Find names that rise evenly, and merge rows of them into grids. */
#include <string.h>

#include "base/span.h"
#include "catalog/encode.h"

/*
 * The field that contains @pos: the digits around it, or the last 18 of them. False if @pos is not
 * a digit.
 */
static bool field_around(const uint8_t *name, uint32_t len, uint32_t pos, uint32_t *ret_pos,
			 uint32_t *ret_width)
{
	uint32_t start = pos, end = pos + 1;

	while (start > 0 && cat_is_digit(name[start - 1]))
		start--;
	while (end < len && cat_is_digit(name[end]))
		end++;
	if (end - start > CAT_GRID_WIDTH)
		start = end - CAT_GRID_WIDTH;
	*ret_pos = start;
	*ret_width = end - start;
	return pos >= start;
}

/*
 * The index of the field at @pos of @g, which is added with @value if it is new; -1 if there are
 * too many.
 */
static int field_add(struct cat_grid *g, uint32_t pos, uint32_t width, uint64_t value)
{
	unsigned f = 0;

	while (f < g->nr_fields && g->field[f].pos < pos)
		f++;
	if (f < g->nr_fields && g->field[f].pos == pos)
		return (int)f;
	if (g->nr_fields == CAT_GRID_FIELDS)
		return -1;
	memmove(&g->field[f + 1], &g->field[f], (g->nr_fields - f) * sizeof(g->field[0]));
	for (unsigned d = 0; d < g->nr_dims; d++) {
		memmove(&g->dim[d].delta[f + 1], &g->dim[d].delta[f],
			(g->nr_fields - f) * sizeof(g->dim[d].delta[0]));
		g->dim[d].delta[f] = 0;
	}
	g->field[f].pos = pos;
	g->field[f].width = width;
	g->field[f].value = value;
	g->nr_fields++;
	return (int)f;
}

/*
 * Add to @g the fields in which @a, its first name, and @b, of the same length, differ. False if
 * they differ elsewhere, or in too many places.
 */
static bool fields_of_difference(struct cat_grid *g, const uint8_t *a, const uint8_t *b,
				 uint32_t len)
{
	uint32_t at = (uint32_t)name_shared(a, len, b, len);

	while (at < len) {
		uint32_t pos, width;

		if (!cat_is_digit(a[at]) || !cat_is_digit(b[at]))
			return false;
		if (!field_around(a, len, at, &pos, &width) ||
		    cat_digits_get(b + pos, width) == UINT64_MAX ||
		    field_add(g, pos, width, cat_digits_get(a + pos, width)) < 0)
			return false;
		at = pos + width;
		at += (uint32_t)name_shared(a + at, len - at, b + at, len - at);
	}
	return true;
}

/* Whether @name is the first name of @g with each field at its value plus @steps deltas of dim 0.
 */
static bool name_is_step(const struct cat_grid *g, const uint8_t *first, const uint8_t *name,
			 uint32_t len, uint64_t steps)
{
	uint32_t at = 0;

	for (unsigned f = 0; f < g->nr_fields; f++) {
		uint32_t pos = g->field[f].pos;
		uint64_t v = g->field[f].value + steps * g->dim[0].delta[f];

		/*
		 * A value of -1 is UINT64_MAX, which is also what non-digits read as: do not
		 * compare those.
		 */
		if (v == UINT64_MAX || cat_digits_get(name + pos, g->field[f].width) != v ||
		    !bytes_equal(name + at, first + at, pos - at))
			return false;
		at = pos + g->field[f].width;
	}
	return bytes_equal(name + at, first + at, len - at);
}

uint32_t enc_grid_row(const struct enc_names *n, uint32_t from, uint32_t end,
		      struct enc_grid *ret_row)
{
	const uint8_t *first = enc_name(n, from);
	uint32_t len = enc_len(n, from), nr = 1;
	struct cat_grid *g = &ret_row->grid;

	g->nr_fields = g->nr_dims = 0;
	ret_row->at = from;
	ret_row->len = len;
	memcpy(ret_row->name, first, len);
	if (from + 1 < end && enc_len(n, from + 1) == len &&
	    fields_of_difference(g, first, enc_name(n, from + 1), len)) {
		g->nr_dims = 1;
		for (unsigned f = 0; f < g->nr_fields; f++)
			g->dim[0].delta[f] = cat_digits_get(enc_name(n, from + 1) + g->field[f].pos,
							    g->field[f].width) -
					     g->field[f].value;
		for (nr = 2; from + nr < end; nr++)
			if (enc_len(n, from + nr) != len ||
			    !name_is_step(g, first, enc_name(n, from + nr), len, nr))
				break;
		g->dim[0].extent = nr;
	} else {
		g->nr_fields = 0; /* one name: which fields vary is not known yet */
	}
	ret_row->nr = nr;
	return nr;
}

/* Whether the first @nr dimensions are the same; both have the same fields. */
static bool same_dims(const struct cat_grid *a, const struct cat_grid *b, unsigned nr)
{
	for (unsigned d = 0; d < nr; d++) {
		if (a->dim[d].extent != b->dim[d].extent)
			return false;
		if (memcmp(a->dim[d].delta, b->dim[d].delta,
			   a->nr_fields * sizeof(a->dim[d].delta[0])) != 0)
			return false;
	}
	return true;
}

/* Whether @b starts @steps steps of dimension @d after @a. */
static bool starts_after(const struct cat_grid *a, const struct cat_grid *b, unsigned d,
			 uint64_t steps)
{
	for (unsigned f = 0; f < a->nr_fields; f++)
		if (b->field[f].value != a->field[f].value + steps * a->dim[d].delta[f])
			return false;
	return true;
}

static bool same_delta(const struct cat_grid *a, const struct cat_grid *b)
{
	return memcmp(a->dim[0].delta, b->dim[0].delta,
		      a->nr_fields * sizeof(a->dim[0].delta[0])) == 0;
}

/* Give both grids the same fields: those of either, and those in which their first names differ. */
static bool unify_fields(const struct enc_grid *into, const struct enc_grid *next,
			 struct cat_grid *a, struct cat_grid *b)
{
	*a = into->grid;
	*b = next->grid;
	if (!fields_of_difference(a, into->name, next->name, into->len))
		return false;
	for (unsigned f = 0; f < b->nr_fields; f++)
		if (field_add(a, b->field[f].pos, b->field[f].width,
			      cat_digits_get(into->name + b->field[f].pos, b->field[f].width)) < 0)
			return false;
	for (unsigned f = 0; f < a->nr_fields; f++)
		if (field_add(b, a->field[f].pos, a->field[f].width,
			      cat_digits_get(next->name + a->field[f].pos, a->field[f].width)) < 0)
			return false;
	return a->nr_fields == b->nr_fields;
}

bool enc_grid_merge(struct enc_grid *into, const struct enc_grid *next)
{
	struct cat_grid a, b;
	unsigned dims;

	if (into->len != next->len || !unify_fields(into, next, &a, &b))
		return false;
	dims = a.nr_dims;
	if (dims == 1 && b.nr_dims == 1 && same_delta(&a, &b) &&
	    starts_after(&a, &b, 0, a.dim[0].extent)) {
		a.dim[0].extent += b.dim[0].extent; /* the row continues */
	} else if (dims > 0 && b.nr_dims == dims - 1 && same_dims(&a, &b, dims - 1) &&
		   starts_after(&a, &b, dims - 1, a.dim[dims - 1].extent)) {
		a.dim[dims - 1].extent++; /* one more step of the outermost dimension */
	} else if (b.nr_dims == dims && dims < CAT_GRID_DIMS && same_dims(&a, &b, dims)) {
		a.dim[dims].extent = 2; /* a new dimension */
		for (unsigned f = 0; f < a.nr_fields; f++)
			a.dim[dims].delta[f] = b.field[f].value - a.field[f].value;
		a.nr_dims++;
	} else {
		return false;
	}
	into->grid = a;
	into->nr += next->nr;
	return true;
}

void enc_grid_write(const struct enc_grid *g, struct buf *payload)
{
	const struct cat_grid *grid = &g->grid;
	uint32_t at = 0;

	buf_varint(payload, grid->nr_fields);
	for (unsigned f = 0; f < grid->nr_fields; f++) {
		buf_varint(payload, grid->field[f].pos - at);
		buf_varint(payload, grid->field[f].width);
		at = grid->field[f].pos + grid->field[f].width;
	}
	buf_varint(payload, grid->nr_dims);
	for (unsigned d = 0; d < grid->nr_dims; d++) {
		buf_varint(payload, grid->dim[d].extent);
		for (unsigned f = 0; f < grid->nr_fields; f++)
			buf_varint(payload, zigzag_encode((int64_t)grid->dim[d].delta[f]));
	}
}
