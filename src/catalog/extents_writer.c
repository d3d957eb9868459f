#include "catalog/extents_writer.h"

#include <errno.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/extents.h"

/* ---- A layout ---- */

int catalog_layout_of(const struct shoal_catalog *cat, uint64_t id, uint64_t nr,
		      struct cat_layout *l)
{
	int rc = 1, kept = 0;

	if (!cat->view.extents || nr == 0)
		return 0;
	for (uint64_t i = 0; i < nr && rc == 1; i++) {
		struct shoal_extent e = { 0 };

		rc = cat_extent(&cat->view, id, i, nr, &e);
		if (rc == 1 && e.off < l->end)
			rc = -EBADMSG;
		else if (rc == 1)
			kept = cat_layout_add(l, &e);
		rc = kept < 0 ? kept : rc;
	}
	if (rc == 1)
		kept = cat_layout_finish(l);
	rc = kept < 0 ? kept : rc;
	return cat_is_stale(cat) ? -ESTALE : rc;
}

/* ---- The columns ---- */

void cat_extents_writer_init(struct cat_extents_writer *w, struct cat_stream *streams)
{
	struct cat_column_writer *const column[] = { &w->added, &w->shared, &w->gaps, &w->lengths,
						     &w->rows };

	w->header = streams;
	for (size_t i = 0; i < ARRAY_LEN(column); i++) {
		cat_column_writer_init(column[i], &streams[1 + 3 * i], &streams[2 + 3 * i],
				       &streams[3 + 3 * i]);
		column[i]->may_be_sparse = true;
	}
}

struct put_extents {
	struct cat_extents_writer *w;
	struct shoal_err *err;
};

static int put_extents(void *self, const struct cat_layout_run *r)
{
	const struct put_extents *p = self;
	int rc = cat_column_writer_add_many(&p->w->gaps, r->gap, r->nr, p->err);

	if (rc == 0)
		rc = cat_column_writer_add_many(&p->w->lengths, r->len, r->nr, p->err);
	if (rc == 0)
		rc = cat_column_writer_add_many(&p->w->rows, r->rows, r->nr, p->err);
	return rc;
}

static int put_layout(struct cat_extents_writer *w, const struct cat_layout *l,
		      struct shoal_err *err)
{
	struct shoal_err why = { "" };
	struct put_extents p = { w, &why };
	int rc = cat_layout_each(l, put_extents, &p);

	if (rc == 0 || why.msg[0])
		return rc == 0 ? 0 : err_set_as(err, rc, &why, "%s", why.msg);
	return err_set_errno(err, rc, "cannot read a temporary file of extents");
}

int cat_extents_writer_add(struct cat_extents_writer *w, const struct cat_layout *l, uint64_t size,
			   uint64_t nr_samples, struct shoal_err *err)
{
	uint64_t nr = l ? l->nr : 0, back = 0, hash[2];
	size_t k;
	int rc = 0;

	if (nr > 0 ? nr != nr_samples : nr_samples > 1)
		return err_set(err, -EINVAL,
			       "a file has another number of extents than of samples");
	if (nr == 0 && nr_samples == 1)
		w->longest = u64_max(w->longest, size);
	if (nr > 0) {
		cat_layout_hash(l, hash);
		k = hash[0] % CAT_LAYOUTS_KEPT;
		if (w->kept[k].nr == nr && memcmp(w->kept[k].hash, hash, sizeof(hash)) == 0) {
			back = w->added.sum - w->kept[k].first + 1;
			nr = 0;
		} else {
			memcpy(w->kept[k].hash, hash, sizeof(hash));
			w->kept[k].first = w->added.sum;
			w->kept[k].nr = nr;
			rc = put_layout(w, l, err);
		}
		w->longest = u64_max(w->longest, l->longest);
	}
	if (rc == 0)
		rc = cat_column_writer_add_many(&w->added, nr, 1, err);
	return rc < 0 ? rc : cat_column_writer_add_many(&w->shared, back, 1, err);
}

int cat_extents_writer_count(struct cat_extents_writer *w, const char *format, uint64_t nr_files,
			     uint64_t nr_samples, struct shoal_err *err)
{
	unsigned k = 0;

	while (k < w->nr_formats && strcmp(w->format[k].name, format) != 0)
		k++;
	if (k == CAT_FORMATS_MAX || strlen(format) >= sizeof(w->format[k].name))
		return err_set(err, -E2BIG, "more than %u formats", CAT_FORMATS_MAX);
	if (k == w->nr_formats) {
		w->format[k] = (struct shoal_format_count){ .nr_files = 0 };
		memcpy(w->format[k].name, format, strlen(format));
		w->nr_formats++;
	}
	w->format[k].nr_files += nr_files;
	w->format[k].nr_samples += nr_samples;
	return 0;
}

/* ---- Appending ---- */

static int extents_append(struct cat_column_writer *to, const struct cat_view *v,
			  enum cat_section_id runs, uint64_t nr, struct shoal_err *err)
{
	struct cat_column c = { .view = v, .runs = runs, .nr = nr };
	uint64_t last, sum;
	int rc;

	if (nr == 0)
		return 0;
	rc = cat_column_get(&c, nr - 1, &last, &sum);
	return rc < 0 ? rc : cat_column_writer_append(to, &c, nr, sum + last, 0, err);
}

int cat_extents_writer_append(struct cat_extents_writer *w, const struct shoal_catalog *part,
			      struct shoal_err *err)
{
	const struct cat_view *v = &part->view;
	const struct cat_extents_header *h;
	struct shoal_format_count f;
	int rc = extents_append(&w->added, v, CAT_XNRN, v->nr_files, err);

	if (rc == 0)
		rc = extents_append(&w->shared, v, CAT_XSRN, v->nr_files, err);
	if (rc == 0)
		rc = extents_append(&w->gaps, v, CAT_XGRN, v->nr_extents, err);
	if (rc == 0)
		rc = extents_append(&w->lengths, v, CAT_XLRN, v->nr_extents, err);
	if (rc == 0)
		rc = extents_append(&w->rows, v, CAT_XRRN, v->nr_extents, err);
	w->longest = u64_max(w->longest, v->longest);
	w->sparse |= v->sparse;
	for (uint64_t k = 0; rc == 0 && (rc = shoal_catalog_format(part, k, &f)) == 0; k++)
		rc = cat_extents_writer_count(w, f.name, f.nr_files, f.nr_samples, err);
	if (rc != -ERANGE)
		return rc;
	h = (const struct cat_extents_header *)cat_need(v, CAT_XHDR, 0, sizeof(*h));
	w->nr_uncut += h ? le64_get(h->nr_uncut) : 0;
	return h ? 0 : -EBADMSG;
}

int cat_extents_writer_finish(struct cat_extents_writer *w, struct shoal_err *err)
{
	struct cat_column_writer *const column[] = { &w->added, &w->shared, &w->gaps, &w->lengths,
						     &w->rows };
	struct cat_extents_header h = { .nr_extents = le64_of(w->added.sum),
					.longest = le64_of(w->longest),
					.nr_uncut = le64_of(w->nr_uncut) };
	int rc = cat_stream_write(w->header, &h, sizeof(h), err);

	for (unsigned k = 0; k < w->nr_formats && rc == 0; k++) {
		struct cat_format_entry e = { .nr_files = le64_of(w->format[k].nr_files),
					      .nr_samples = le64_of(w->format[k].nr_samples) };

		memcpy(e.name, w->format[k].name, sizeof(e.name));
		rc = cat_stream_write(w->header, &e, sizeof(e), err);
	}
	for (size_t i = 0; i < ARRAY_LEN(column) && rc == 0; i++) {
		rc = cat_column_writer_finish(column[i], err);
		w->sparse |= column[i]->sparse;
	}
	return rc;
}
