/*
 * Append a range of another catalog's names: whole segments as they are, parts of grids as grids,
 * and only the names of other parts of segments are encoded again.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/writer_private.h"

/* A part of a grid of fewer names is encoded with its neighbours. */
#define GRID_LEAST 64u

/* A range on its way into a writer. */
struct append_range {
	struct shoal_writer *w;
	const struct shoal_catalog *from;
	uint64_t id, end;
};

/* ---- Names ---- */

/* The dictionary that the segment needs must be the last one that was put. */
static int put_dictionary_of(struct append_range *a, const struct cat_segment *seg)
{
	const struct cat_view *v = &a->from->view;
	struct shoal_writer *w = a->w;
	int64_t number = cat_front_dictionary(seg);
	uint64_t k = (uint64_t)number, off, len;
	const uint8_t *bytes;
	int rc;

	if (number < 0 || (w->dict_of == a->from && w->dict_number == k))
		return 0;
	rc = cat_dict_bounds(v, k, &off, &len);
	if (rc < 0)
		return rc;
	bytes = cat_need(v, CAT_DICT, off, len);
	if (!bytes)
		return -EBADMSG;
	rc = writer_put_dictionary(w, w->nr_segments, w->stream[CAT_DICT].len, len);
	if (rc == 0)
		rc = cat_stream_write(&w->stream[CAT_DICT], bytes, (size_t)len, w->err);
	w->dict_of = a->from;
	w->dict_number = k;
	return rc;
}

/* The last name before id @end is the last one of what is copied. */
static int begin_copying(struct append_range *a, uint64_t end)
{
	char last[SHOAL_NAME_MAX + 1];
	int len = shoal_catalog_name(a->from, end - 1, last);
	int rc =
		len < 0 ? len : cat_encoder_cut(&a->w->encoder, (const uint8_t *)last, (size_t)len);

	return rc;
}

static int copy_segment(struct append_range *a, const struct cat_segment *seg)
{
	const struct cat_view *v = &a->from->view;
	struct shoal_writer *w = a->w;
	const uint8_t *bytes = cat_need(v, CAT_NAME, seg->off, seg->end - seg->off);
	int rc = bytes ? put_dictionary_of(a, seg) : -EBADMSG;

	if (rc == 0)
		rc = writer_note_segment(w, seg->nr, w->stream[CAT_NAME].len, seg->first,
					 seg->first_len);
	if (rc == 0)
		rc = cat_stream_write(&w->stream[CAT_NAME], bytes, (size_t)(seg->end - seg->off),
				      w->err);
	a->id += seg->nr;
	return rc;
}

/* Copy all whole segments from number @k on. */
static int copy_segments(struct append_range *a, uint64_t k)
{
	const struct cat_view *v = &a->from->view;
	uint64_t end = k;
	struct cat_segment seg;
	int rc = cat_segment_load(v, a->from->dicts, k, &seg);

	while (rc == 0 && seg.first_id + seg.nr <= a->end && ++end < v->nr_segments)
		rc = cat_segment_load(v, a->from->dicts, end, &seg);
	if (rc == 0)
		rc = begin_copying(a, end < v->nr_segments ? seg.first_id : v->nr_files);
	for (; rc == 0 && k < end; k++) {
		rc = cat_segment_load(v, a->from->dicts, k, &seg);
		if (rc == 0)
			rc = copy_segment(a, &seg);
	}
	return rc;
}

/* Encode names up to @end, of one segment. */
static int encode_names(struct append_range *a, uint64_t end)
{
	struct shoal_cursor *cursor = NULL;
	const char *name;
	size_t len;
	int rc = shoal_cursor_new(a->from, a->id, &cursor, a->w->err);

	while (rc == 0 && a->id < end) {
		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			break;
		rc = cat_encoder_add(&a->w->encoder, (const uint8_t *)name, len);
		a->id++;
	}
	shoal_cursor_free(cursor);
	return rc;
}

/* Add a part of a grid, up to name @end of the segment. */
static int encode_grid(struct append_range *a, const struct cat_segment *seg, uint64_t end)
{
	uint8_t first[SHOAL_NAME_MAX + 1], last[SHOAL_NAME_MAX + 1];
	uint64_t i = a->id - seg->first_id, nr;
	struct cat_grid g;
	int rc = cat_grid_cut(seg, i, end, &g, &nr), len;

	if (rc < 0)
		return rc;
	if (nr < GRID_LEAST)
		return encode_names(a, a->id + nr);
	len = cat_segment_name(seg, i, first);
	if (len >= 0)
		len = cat_segment_name(seg, i + nr - 1, last);
	if (len < 0)
		return len;
	a->id += nr;
	return cat_encoder_add_grid(&a->w->encoder, &g, nr, first, last, (size_t)len);
}

/* Names up to the end of the segment, or of the range. */
static int append_part_of(struct append_range *a, const struct cat_segment *seg)
{
	uint64_t end = u64_min(a->end, seg->first_id + seg->nr);
	int rc = 0;

	if (seg->kind != CAT_GRID)
		return encode_names(a, end);
	while (rc == 0 && a->id < end)
		rc = encode_grid(a, seg, end - seg->first_id);
	return rc;
}

static int append_names(struct append_range *a)
{
	const struct cat_view *v = &a->from->view;
	struct cat_segment seg;
	uint64_t k, before;
	int rc = 0;

	while (rc == 0 && a->id < a->end) {
		before = a->id;
		rc = cat_segment_of_id(v, a->id, &k);
		if (rc < 0)
			return rc;
		rc = cat_segment_load(v, a->from->dicts, k, &seg);
		if (rc < 0)
			return rc;
		if (a->id < seg.first_id || a->id - seg.first_id >= seg.nr)
			return cat_damaged(v, CAT_NDIR, 0, "entries are not ascending");
		rc = a->id == seg.first_id && seg.nr <= a->end - a->id ? copy_segments(a, k)
								       : append_part_of(a, &seg);
		if (rc == 0 && a->id == before)
			return cat_damaged(v, CAT_NDIR, 0, "entries are not ascending");
	}
	return rc;
}

/* ---- Sizes and ETags ---- */

static int append_etags(const struct append_range *a, uint64_t first, uint64_t nr)
{
	static const struct etag none = { .parts = { { 0xff, 0xff, 0xff, 0xff } } };
	const struct cat_view *v = &a->from->view;
	struct cat_stream *to = &a->w->stream[CAT_ETGS];
	int rc = 0;

	for (uint64_t i = 0, n; i < nr && rc == 0; i += n) {
		const void *bytes = &none;

		n = v->etags ? u64_min(nr - i, CAT_PAGE / sizeof(none)) : 1;
		if (v->etags)
			bytes = cat_need(v, CAT_ETGS, (first + i) * sizeof(none), n * sizeof(none));
		rc = bytes ? cat_stream_write(to, bytes, n * sizeof(none), a->w->err) : -EBADMSG;
	}
	return rc;
}

static int append_values(const struct append_range *a, uint64_t first, uint64_t nr)
{
	struct shoal_writer *w = a->w;
	struct cat_column sizes = { .view = &a->from->view,
				    .runs = CAT_SZRN,
				    .nr = a->from->view.nr_files };
	uint64_t samples;
	int rc = 0;

	if (__builtin_mul_overflow(nr, w->samples_per_file, &samples) ||
	    __builtin_add_overflow(samples, w->nr_samples, &w->nr_samples))
		return err_set(w->err, -EOVERFLOW, "more than 2^64 samples");
	if (w->sizes)
		rc = cat_column_writer_append_range(&w->size_column, &sizes, first, nr, w->err);
	return rc == 0 && w->etags ? append_etags(a, first, nr) : rc;
}

/* ---- All of it ---- */

int writer_append_range(struct shoal_writer *w, const struct shoal_catalog *from, uint64_t first,
			uint64_t nr, struct shoal_err *err)
{
	struct append_range a = { .w = w, .from = from, .id = first, .end = first + nr };
	char name[SHOAL_NAME_MAX + 1];
	int rc = writer_check_usable(w, err), len;

	assert(!w->extents && w->samples_per_file);
	assert(!w->sizes || from->view.nr_bytes != SHOAL_SIZE_UNKNOWN);
	if (rc < 0 || nr == 0)
		return rc;
	len = shoal_catalog_name(from, first, name);
	if (len < 0)
		return shoal_catalog_explain(from, len, err);
	rc = writer_check_name(w, name, (size_t)len, err);
	if (rc < 0)
		return rc;
	w->err = err;
	rc = append_names(&a);
	if (rc == 0)
		rc = append_values(&a, first, nr);
	if (cat_is_stale(from)) /* zeros may have been copied */
		rc = -ESTALE;
	w->rc = rc;
	return rc == -EBADMSG || rc == -ESTALE ? shoal_catalog_explain(from, rc, err)
					       : writer_explain(rc, err);
}
