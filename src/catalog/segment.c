#include "catalog/shape.h"

#include <errno.h>
#include <string.h>

int cat_segment_load(const struct cat_view *v, struct cat_dicts *dicts, uint64_t number,
		     struct cat_segment *ret_seg)
{
	const struct cat_dir_entry *e = cat_dir(v, number);
	struct cat_segment seg = { .view = v, .dicts = dicts, .number = number };
	uint64_t end_id = v->nr_files;
	size_t head;

	if (!e)
		return -EBADMSG;
	seg.first_id = le64_get(e->first_id);
	seg.off = le64_get(e->off);
	seg.end = v->sec[CAT_NAME].len;
	if (number + 1 < v->nr_segments) {
		e = cat_dir(v, number + 1);
		if (!e)
			return -EBADMSG;
		end_id = le64_get(e->first_id);
		seg.end = le64_get(e->off);
	}
	if (seg.first_id >= end_id || seg.off >= seg.end || end_id > v->nr_files ||
	    seg.end > v->sec[CAT_NAME].len)
		return cat_damaged(v, CAT_NDIR, number * sizeof(*e), "entries are not ascending");

	head = (size_t)u64_min(seg.end - seg.off, CAT_PREAMBLE_MAX);
	seg.payload = cat_need(v, CAT_NAME, seg.off, head);
	if (!seg.payload)
		return -EBADMSG;
	seg.rest = (struct span){ .p = seg.payload, .end = seg.payload + head };
	seg.kind = (enum cat_kind)span_u8(&seg.rest);
	seg.nr = span_varint(&seg.rest);
	seg.first_len = (size_t)u64_min(span_varint(&seg.rest), SIZE_MAX);
	seg.first = span_bytes(&seg.rest, seg.first_len);
	if (seg.rest.bad || seg.nr != end_id - seg.first_id || seg.first_len == 0 ||
	    seg.first_len > SHOAL_NAME_MAX)
		return cat_segment_bad(&seg, "a segment does not start as one");
	*ret_seg = seg;
	return 0;
}

int cat_segment_of_id(const struct cat_view *v, uint64_t id, uint64_t *ret_number)
{
	/* Segments of equal length are common, so this guess is often right. */
	uint64_t guess = (uint64_t)((double)id / (double)v->nr_files * (double)v->nr_segments);
	uint64_t low = 0, high = v->nr_segments; /* first_id[low] <= id < first_id[high] */
	uint64_t step = 1, at = u64_min(guess, high - 1);

	while (high - low > 1) {
		const struct cat_dir_entry *e = cat_dir(v, at);

		if (!e)
			return -EBADMSG;
		if (le64_get(e->first_id) <= id) {
			low = at;
			at = low + step;
		} else {
			high = at;
			at = high > step ? high - step : 0;
		}
		step *= 2;
		if (at <= low || at >= high)
			at = low + (high - low) / 2;
	}
	*ret_number = low;
	return 0;
}

/* Compare the first name of segment @k with @name. */
static int compare_first(const struct cat_view *v, uint64_t k, const uint8_t *name, size_t len,
			 int *ret_c)
{
	const struct cat_dir_entry *e = cat_dir(v, k);
	struct span s;
	const uint8_t *first;
	uint64_t off, first_len;

	if (!e)
		return -EBADMSG;
	off = le64_get(e->off);
	if (off >= v->sec[CAT_NAME].len)
		return cat_damaged(v, CAT_NDIR, k * sizeof(*e), "points outside the section");
	/* Only the bytes up to the end of the first name: a search looks at many segments. */
	first_len = u64_min(v->sec[CAT_NAME].len - off, SHOAL_NAME_MAX + 32);
	first = cat_need(v, CAT_NAME, off, first_len);
	if (!first)
		return -EBADMSG;
	s = (struct span){ .p = first + 1, .end = first + first_len };
	(void)span_varint(&s);
	first_len = span_varint(&s);
	first = span_bytes(&s, first_len);
	if (s.bad)
		return cat_damaged(v, CAT_NAME, off, "a segment does not start as one");
	*ret_c = name_compare(first, first_len, name, len);
	return 0;
}

/* Compare @name with the prefix that all first names share: 0 if it has that prefix. */
static int compare_skipped(const struct cat_view *v, const uint8_t *name, size_t len, int *ret_c)
{
	struct cat_segment seg;
	int rc = cat_segment_load(v, NULL, 0, &seg);

	if (rc < 0)
		return rc;
	if (seg.first_len < v->key_skip)
		return cat_segment_bad(&seg, "the first name is shorter than what all start with");
	*ret_c = name_compare(seg.first, v->key_skip, name, u64_min(len, v->key_skip));
	return 0;
}

/* The first segment from @low on whose key is at least @key; nr_segments if there is none. */
static int first_with_key(const struct cat_view *v, uint64_t key, uint64_t low, uint64_t *ret_k)
{
	uint64_t high = v->nr_segments;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		const struct cat_dir_entry *e = cat_dir(v, mid);

		if (!e)
			return -EBADMSG;
		if (le64_get(e->key) < key)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_k = low;
	return 0;
}

/*
 * The segments [*ret_low, *ret_high) whose key is @key; both are the insertion point if there are
 * none.
 */
static int segments_with_key(const struct cat_view *v, uint64_t key, uint64_t *ret_low,
			     uint64_t *ret_high)
{
	const struct cat_dir_entry *e;
	uint64_t low, next;

	if (first_with_key(v, key, 0, &low) < 0)
		return -EBADMSG;
	*ret_low = *ret_high = low;
	/* Usually at most one segment has the key: look at the next two before searching again. */
	for (next = low; next < v->nr_segments && next < low + 2; next++) {
		e = cat_dir(v, next);
		if (!e)
			return -EBADMSG;
		if (le64_get(e->key) != key) {
			*ret_high = next;
			return 0;
		}
	}
	if (key == UINT64_MAX)
		*ret_high = v->nr_segments;
	else if (first_with_key(v, key + 1, next, ret_high) < 0)
		return -EBADMSG;
	return 0;
}

int cat_segment_of_name(const struct cat_view *v, const uint8_t *name, size_t len,
			uint64_t *ret_number)
{
	uint64_t low = 0, high = v->nr_segments;
	int c = 0, rc;

	if (v->nr_segments == 0)
		return -ENOENT;
	if (v->key_skip) {
		rc = compare_skipped(v, name, len, &c);
		if (rc < 0)
			return rc;
	}
	if (c > 0)
		return -ENOENT;
	if (c < 0)
		low = high;
	else if (segments_with_key(v, name_key(name, len, v->key_skip), &low, &high) < 0)
		return -EBADMSG;
	while (low < high) { /* find the first segment that starts after the name */
		uint64_t mid = low + (high - low) / 2;

		rc = compare_first(v, mid, name, len, &c);
		if (rc < 0)
			return rc;
		if (c <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return -ENOENT;
	*ret_number = low - 1;
	return 0;
}

int cat_shape_parse(const struct cat_segment *seg, union cat_shape *ret_shape)
{
	switch (seg->kind) {
	case CAT_GRID:
		return cat_grid_parse(seg, &ret_shape->grid);
	case CAT_FIXED:
		return cat_fixed_parse(seg, &ret_shape->fixed);
	case CAT_DECIMAL:
		return cat_decimal_parse(seg, &ret_shape->decimal);
	case CAT_FRONT:
		return 0;
	}
	return cat_segment_bad(seg, "a segment of an unknown kind");
}

int cat_shape_name(const struct cat_segment *seg, const union cat_shape *shape, uint64_t i,
		   uint8_t *buf)
{
	switch (seg->kind) {
	case CAT_GRID:
		return cat_grid_put(seg, &shape->grid, i, buf);
	case CAT_FIXED:
		return cat_fixed_put(seg, &shape->fixed, i, buf);
	case CAT_DECIMAL:
		return cat_decimal_put(seg, &shape->decimal, i, buf);
	case CAT_FRONT:
		return cat_front_name(seg, i, buf);
	}
	return cat_segment_bad(seg, "a segment of an unknown kind");
}

int cat_segment_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf)
{
	union cat_shape shape;
	int rc = cat_shape_parse(seg, &shape);

	return rc < 0 ? rc : cat_shape_name(seg, &shape, i, buf);
}

int cat_segment_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr)
{
	*ret_nr = 1;
	switch (seg->kind) {
	case CAT_GRID:
		return cat_grid_siblings(seg, i, ret_nr);
	case CAT_FIXED:
		return cat_fixed_siblings(seg, i, ret_nr);
	case CAT_DECIMAL:
		return cat_decimal_siblings(seg, i, ret_nr);
	case CAT_FRONT:
		return 0;
	}
	return cat_segment_bad(seg, "a segment of an unknown kind");
}

int cat_segment_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		     uint64_t *ret_i)
{
	switch (seg->kind) {
	case CAT_GRID:
		return cat_grid_find(seg, name, len, ret_i);
	case CAT_FIXED:
		return cat_fixed_find(seg, name, len, ret_i);
	case CAT_DECIMAL:
		return cat_decimal_find(seg, name, len, ret_i);
	case CAT_FRONT:
		return cat_front_find(seg, name, len, ret_i);
	}
	return cat_segment_bad(seg, "a segment of an unknown kind");
}
