/*
 * Rows: those of all samples, one after the other. A file's rows follow from its layout; those of
 * all files before it are a sum, of which every 64th is kept, unless all files have the same
 * number.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "catalog/catalog.h"
#include "catalog/extents.h"

#define STEP 64u /* files: a search adds up the rows of half as many */

/* Bytes of sums, whatever a catalog claims: with more files the step is larger. */
#define SUMS_MAX (UINT64_C(32) << 20)

struct shoal_rows {
	const struct shoal_catalog *cat;
	uint64_t nr_files, nr_rows;
	uint64_t file_rows; /* if it is the same for all files; otherwise 0 */
	uint64_t step;      /* files */
	uint64_t *before;   /* the rows before files 0, step, 2 * step: 8 bytes for 64 files */
};

/* The rows of file @id; its samples. */
static int rows_of_file(const struct shoal_rows *r, uint64_t id, uint64_t *ret_rows,
			uint64_t *ret_first, uint64_t *ret_count)
{
	const struct cat_view *v = &r->cat->view;
	int rc = shoal_catalog_samples(r->cat, id, ret_first, ret_count);

	*ret_rows = *ret_count;
	if (rc == 0 && v->extents)
		rc = cat_extent_rows(v, id, *ret_count, *ret_count, ret_rows);
	return rc;
}

/*
 * Whether all files have the same number of rows: there is a row per sample, or all have one
 * layout, with as many extents as a file has samples.
 */
static bool have_same_rows(const struct shoal_catalog_info *info)
{
	return info->nr_files > 0 && info->samples_per_file > 0 &&
	       (!info->extents ||
		(info->samples_per_file > 1 && info->nr_extents == info->samples_per_file));
}

static int rows_add_up(struct shoal_rows *r)
{
	uint64_t rows = 0, first, count;
	int rc = 0;

	for (r->step = STEP; r->nr_files / r->step >= SUMS_MAX / sizeof(*r->before);)
		r->step *= 2;
	r->before = calloc(r->nr_files / r->step + 1, sizeof(*r->before));
	if (!r->before)
		return -ENOMEM;
	for (uint64_t id = 0; id < r->nr_files && rc == 0; id++) {
		if (id % r->step == 0)
			r->before[id / r->step] = r->nr_rows;
		rc = rows_of_file(r, id, &rows, &first, &count);
		if (rc == 0 && __builtin_add_overflow(r->nr_rows, rows, &r->nr_rows))
			rc = -EBADMSG;
	}
	return rc;
}

int shoal_rows_open(const struct shoal_catalog *cat, struct shoal_rows **ret_rows,
		    struct shoal_err *err)
{
	struct shoal_rows *r = calloc(1, sizeof(*r));
	struct shoal_catalog_info info;
	uint64_t first, count;
	int rc;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	shoal_catalog_info(cat, &info);
	r->cat = cat;
	r->nr_files = info.nr_files;
	if (have_same_rows(&info)) {
		rc = rows_of_file(r, 0, &r->file_rows, &first, &count);
		if (rc == 0 && __builtin_mul_overflow(r->file_rows, r->nr_files, &r->nr_rows))
			rc = -EBADMSG;
	} else {
		rc = rows_add_up(r);
	}
	if (rc < 0) {
		shoal_rows_close(r);
		return rc == -ENOMEM ? err_set(err, rc, "out of memory")
				     : shoal_catalog_explain(cat, rc, err);
	}
	*ret_rows = r;
	return 0;
}

struct shoal_rows *shoal_rows_close(struct shoal_rows *r)
{
	if (r)
		free(r->before);
	free(r);
	return NULL;
}

uint64_t shoal_rows_count(const struct shoal_rows *r)
{
	return r->nr_rows;
}

/* The file that has row @row, and the rows before it. */
static int rows_find_file(const struct shoal_rows *r, uint64_t row, uint64_t *ret_id,
			  uint64_t *ret_before)
{
	uint64_t low = 0, high, before, rows = 0, first, count;
	int rc = 0;

	if (r->file_rows) {
		*ret_id = row / r->file_rows;
		*ret_before = *ret_id * r->file_rows;
		return 0;
	}
	high = (r->nr_files - 1) / r->step;
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (r->before[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	before = r->before[low];
	for (uint64_t id = low * r->step; id < r->nr_files && rc == 0; id++) {
		rc = rows_of_file(r, id, &rows, &first, &count);
		if (rc == 0 && row - before < rows) {
			*ret_id = id;
			*ret_before = before;
			return 0;
		}
		before += rows;
	}
	return rc < 0 ? rc : -EBADMSG;
}

int shoal_rows_find(const struct shoal_rows *r, uint64_t row, struct shoal_row_place *ret_place)
{
	const struct cat_view *v = &r->cat->view;
	uint64_t id = 0, before = 0, first = 0, count = 0, low = 0, high, rows = 0, to = 0;
	int rc = row < r->nr_rows ? rows_find_file(r, row, &id, &before) : -ERANGE;

	if (rc == 0)
		rc = shoal_catalog_samples(r->cat, id, &first, &count);
	if (rc < 0)
		return rc;
	if (!v->extents) {
		*ret_place = (struct shoal_row_place){ first + row - before, row, 1 };
		return 0;
	}
	high = count - 1;
	while (low < high && rc == 0) { /* the last sample that does not begin after the row */
		uint64_t middle = high - (high - low) / 2;

		rc = cat_extent_rows(v, id, middle, count, &rows);
		if (rows <= row - before)
			low = middle;
		else
			high = middle - 1;
	}
	if (rc == 0)
		rc = cat_extent_rows(v, id, low, count, &rows);
	if (rc == 0)
		rc = cat_extent_rows(v, id, low + 1, count, &to);
	if (rc < 0)
		return rc;
	*ret_place = (struct shoal_row_place){ first + low, before + rows, to - rows };
	return to > rows && row - before - rows < to - rows ? 0 : -EBADMSG;
}
