/* Where the samples of generated files lie: computed, not read. */
#include <stdlib.h>

#include "catalog/writer.h"
#include "datagen/datagen.h"

int datagen_layout_init(struct datagen_layout *l, const struct workload *w, struct shoal_err *err)
{
	*l = (struct datagen_layout){ .w = w };
	if (!workload_has_extents(w))
		return 0;
	l->layout = malloc(sizeof(*l->layout));
	if (!l->layout)
		return err_set(err, -ENOMEM, "out of memory");
	*l->layout = (struct cat_layout)CAT_LAYOUT_EMPTY;
	return 0;
}

void datagen_layout_release(struct datagen_layout *l)
{
	if (l->layout)
		cat_layout_release(l->layout);
	free(l->layout);
	l->layout = NULL;
}

static int layout_take_extent(void *self, uint64_t index, uint64_t off, uint64_t len, uint64_t rows)
{
	(void)index;
	return cat_layout_add(self, &(struct shoal_extent){ off, len, rows });
}

static int compute(struct datagen_layout *l, uint64_t size, struct shoal_err *err)
{
	const struct workload_dataset *d = &l->w->dataset;
	struct format_spec spec = { .size = size,
				    .nr_samples = d->samples_per_file,
				    .table = &d->table };
	int rc;

	cat_layout_clear(l->layout);
	rc = format_extents(workload_format(l->w), &spec, layout_take_extent, l->layout);
	if (rc == 0)
		rc = cat_layout_finish(l->layout);
	l->size = rc == 0 ? size : 0;
	return rc < 0 ? err_set_errno(err, rc, "cannot compute where the samples of a file lie")
		      : 0;
}

int datagen_layout_add(struct datagen_layout *l, struct shoal_writer *to, const char *name,
		       size_t len, uint64_t size, struct shoal_err *err)
{
	const char *kind = l->w->dataset.format == WORKLOAD_TAR
				   ? "webdataset"
				   : workload_format_name(l->w->dataset.format);
	int rc = 0;

	if (!l->layout)
		return shoal_writer_add(to, name, len, size, 0, err);
	if (l->size != size)
		rc = compute(l, size, err);
	if (rc < 0)
		return rc;
	writer_set_layout(to, l->layout);
	rc = shoal_writer_add(to, name, len, size, l->layout->nr, err);
	return rc < 0 ? rc : writer_count_format(to, kind, l->layout->nr, false, err);
}
