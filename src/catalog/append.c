/* Append another catalog to one that is written, without decoding its names. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/writer_private.h"

static int writer_check_part(const struct shoal_writer *w, const struct shoal_catalog *part,
			     struct shoal_err *err)
{
	const struct cat_view *v = &part->view;
	const struct cat_stream *root = &w->stream[CAT_ROOT];

	if (v->sec[CAT_ROOT].len != root->len ||
	    memcmp(part->root, root->buf, (size_t)root->len) != 0)
		return err_set(err, -EINVAL, "the parts have different roots");
	if (v->nr_files && w->sizes != (v->nr_bytes != SHOAL_SIZE_UNKNOWN))
		return err_set(err, -EINVAL, "only some of the parts have sizes");
	if (v->nr_files && w->samples_per_file && v->samples_per_file != w->samples_per_file)
		return err_set(err, -EINVAL, "the parts have different samples per file");
	if (v->nr_files && w->etags && !v->etags)
		return err_set(err, -EINVAL, "only some of the parts have ETags");
	if (v->nr_files && w->extents && !v->extents)
		return err_set(err, -EINVAL,
			       "only some of the parts have extents of samples inside files");
	return 0;
}

/* Append the part's section unchanged. */
static int append_section(struct shoal_writer *w, const struct cat_view *v, enum cat_section_id s)
{
	uint64_t len = v->sec[s].len;

	for (uint64_t off = 0; off < len; off += CAT_PAGE) {
		uint64_t n = u64_min(CAT_PAGE, len - off);
		const uint8_t *bytes = cat_need(v, s, off, n);
		int rc = bytes ? cat_stream_write(&w->stream[s], bytes, (size_t)n, w->err)
			       : -EBADMSG;

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int append_payloads(struct shoal_writer *w, const struct cat_view *v)
{
	uint64_t base = w->stream[CAT_NAME].len;

	for (uint64_t k = 0; k < v->nr_segments; k++) {
		struct cat_segment seg;
		int rc = cat_segment_load(v, NULL, k, &seg);

		/*
		 * Keys are made from the first names, without the prefix that the first and the
		 * last share.
		 */
		if (rc == 0 && w->nr_segments > 0 &&
		    name_compare(w->last, w->last_len, seg.first, seg.first_len) >= 0)
			rc = cat_damaged(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
					 "first names are not ascending");
		if (rc == 0)
			rc = writer_note_segment(w, seg.nr, base + seg.off, seg.first,
						 seg.first_len);
		if (rc < 0)
			return rc;
	}
	return append_section(w, v, CAT_NAME);
}

static int append_dictionaries(struct shoal_writer *w, const struct cat_view *v,
			       uint64_t segment_shift)
{
	uint64_t nr = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);

	for (uint64_t k = 0; k < nr; k++) {
		const struct cat_dict_entry *e = (const struct cat_dict_entry *)cat_need(
			v, CAT_DTAB, k * sizeof(*e), sizeof(*e));
		const uint8_t *bytes;
		uint64_t off, len;
		int rc = e ? cat_dict_bounds(v, k, &off, &len) : -EBADMSG;

		if (rc < 0)
			return rc;
		bytes = cat_need(v, CAT_DICT, off, len);
		if (!bytes)
			return -EBADMSG;
		rc = writer_put_dictionary(w, segment_shift + le64_get(e->first_segment),
					   w->stream[CAT_DICT].len, len);
		if (rc == 0)
			rc = cat_stream_write(&w->stream[CAT_DICT], bytes, (size_t)len, w->err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Append the part's sizes. */
static int append_sizes(struct shoal_writer *w, const struct cat_view *v, struct shoal_err *err)
{
	struct cat_column sizes = { .view = v, .runs = CAT_SZRN, .nr = v->nr_files };
	uint64_t largest = v->largest;
	int rc = 0;

	if (largest == SHOAL_SIZE_UNKNOWN) /* the part is older than that field */
		rc = cat_column_largest(&sizes, &largest);
	return rc < 0 ? rc
		      : cat_column_writer_append(&w->size_column, &sizes, v->nr_files, v->nr_bytes,
						 largest, err);
}

static int append_columns(struct shoal_writer *w, const struct cat_view *v, struct shoal_err *err)
{
	struct cat_column samples = { .view = v, .runs = CAT_SMRN, .nr = v->nr_files };
	int rc = 0;

	if (v->nr_samples > UINT64_MAX - w->nr_samples)
		return err_set(err, -EOVERFLOW, "more than 2^64 samples");
	if (w->sizes)
		rc = append_sizes(w, v, err);
	if (rc == 0 && !w->samples_per_file) {
		if (v->samples_per_file)
			rc = cat_column_writer_add_many(&w->sample_column, v->samples_per_file,
							v->nr_files, err);
		else
			rc = cat_column_writer_append(&w->sample_column, &samples, v->nr_files,
						      v->nr_samples, 0, err);
	}
	w->nr_samples += v->nr_samples;
	return rc;
}

int shoal_writer_append(struct shoal_writer *writer, const struct shoal_catalog *part,
			struct shoal_err *err)
{
	const struct cat_view *v = &part->view;
	struct cat_digest digest = { .lane = { v->lane[0], v->lane[1] }, .nr_files = v->nr_files };
	char first[SHOAL_NAME_MAX + 1], last[SHOAL_NAME_MAX + 1];
	int first_len, last_len, rc;

	rc = writer_check_usable(writer, err);
	if (rc == 0)
		rc = writer_check_part(writer, part, err);
	if (rc < 0 || v->nr_files == 0)
		return rc;
	first_len = shoal_catalog_name(part, 0, first);
	last_len = shoal_catalog_name(part, v->nr_files - 1, last);
	if (first_len < 0 || last_len < 0)
		return shoal_catalog_explain(part, first_len < 0 ? first_len : last_len, err);
	rc = writer_check_name(writer, first, (size_t)first_len, err);
	if (rc < 0)
		return rc;
	writer->err = err;
	rc = cat_encoder_cut(&writer->encoder, (const uint8_t *)last, (size_t)last_len);
	writer->dict_of = NULL;
	if (rc == 0)
		rc = append_dictionaries(writer, v, writer->nr_segments);
	if (rc == 0)
		rc = append_payloads(writer, v);
	if (rc == 0)
		rc = append_columns(writer, v, err);
	if (rc == 0 && writer->etags)
		rc = append_section(writer, v, CAT_ETGS);
	if (rc == 0 && writer->extents)
		rc = cat_extents_writer_append(&writer->extents_writer, part, err);
	cat_digest_append(&writer->digest, &digest);
	if (cat_is_stale(part)) /* zeros may have been copied */
		rc = -ESTALE;
	writer->rc = rc;
	return rc == -EBADMSG || rc == -ESTALE ? shoal_catalog_explain(part, rc, err)
					       : writer_explain(rc, err);
}
