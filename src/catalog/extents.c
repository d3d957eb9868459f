#include "catalog/extents.h"

#include "catalog/catalog.h"

static struct cat_column column_of(const struct cat_view *v, enum cat_section_id runs)
{
	return (struct cat_column){ .view = v,
				    .runs = runs,
				    .nr = runs < CAT_XGRN ? v->nr_files : v->nr_extents };
}

/* The index of the first extent of file @id: 1; 0 if it has none. */
static int layout_of(const struct cat_view *v, uint64_t id, uint64_t count, uint64_t *ret_first)
{
	struct cat_column added = column_of(v, CAT_XNRN), shared = column_of(v, CAT_XSRN);
	uint64_t nr = 0, back = 0, before = 0, end;
	int rc = cat_column_get(&added, id, &nr, &before);

	if (rc == 0)
		rc = cat_column_get(&shared, id, &back, NULL);
	if (rc < 0)
		return rc;
	if (nr == 0 && back == 0)
		return 0;
	if (nr > 0 && (nr != count || back > 0))
		return cat_damaged(v, CAT_XNRN, 0,
				   "a file has extents of another number of samples");
	if (before > v->nr_extents || nr > v->nr_extents - before ||
	    (back > 0 && back - 1 > before))
		return cat_damaged(v, CAT_XSRN, 0, "a layout lies outside the extents");
	end = before + nr;
	*ret_first = back > 0 ? before - (back - 1) : before;
	if (count > end - *ret_first)
		return cat_damaged(v, CAT_XSRN, 0, "a layout lies outside the extents");
	return 1;
}

/* Value @e of a column, and the sum of its values from @first to before @e. */
static int value_and_sum(const struct cat_view *v, enum cat_section_id runs, uint64_t first,
			 uint64_t e, uint64_t *ret_value, uint64_t *ret_sum)
{
	struct cat_column c = column_of(v, runs);
	uint64_t from = 0, to = 0, value = 0;
	int rc = cat_column_get(&c, first, &value, &from);

	if (rc == 0)
		rc = cat_column_get(&c, e, &value, &to);
	if (rc < 0)
		return rc;
	*ret_value = value;
	*ret_sum = to - from;
	return to < from ? cat_damaged(v, runs, 0, "sums do not add up") : 0;
}

int cat_extent(const struct cat_view *v, uint64_t id, uint64_t index, uint64_t count,
	       struct shoal_extent *ret_extent)
{
	struct cat_column sizes = { .view = v, .runs = CAT_SZRN, .nr = v->nr_files };
	struct cat_column rows = column_of(v, CAT_XRRN);
	uint64_t first = 0, gap = 0, gaps = 0, len = 0, lens = 0, off, size = 0;
	struct shoal_extent e = { 0 };
	int rc = layout_of(v, id, count, &first);

	if (rc <= 0)
		return rc;
	rc = value_and_sum(v, CAT_XGRN, first, first + index, &gap, &gaps);
	if (rc == 0)
		rc = value_and_sum(v, CAT_XLRN, first, first + index, &len, &lens);
	if (rc == 0)
		rc = cat_column_get(&rows, first + index, &e.rows, NULL);
	if (rc == 0)
		rc = cat_column_get(&sizes, id, &size, NULL);
	if (rc < 0)
		return rc;
	if (__builtin_add_overflow(gaps, gap, &off) || __builtin_add_overflow(off, lens, &off) ||
	    off > size || len > size - off)
		return cat_damaged(v, CAT_XGRN, 0, "an extent lies outside its file");
	e.off = off;
	e.len = len;
	*ret_extent = e;
	return 1;
}

int cat_extent_rows(const struct cat_view *v, uint64_t id, uint64_t nr, uint64_t count,
		    uint64_t *ret_rows)
{
	uint64_t first = 0, last = 0, before = 0;
	int rc = nr > 0 ? layout_of(v, id, count, &first) : 0;

	*ret_rows = nr;
	if (rc <= 0)
		return rc;
	rc = value_and_sum(v, CAT_XRRN, first, first + nr - 1, &last, &before);
	if (rc == 0 && __builtin_add_overflow(before, last, ret_rows))
		rc = cat_damaged(v, CAT_XRRN, 0, "sums do not add up");
	return rc;
}

/* Equal parts; the last one includes the remainder. */
static struct shoal_extent part_of(uint64_t size, uint64_t index, uint64_t count)
{
	struct shoal_extent e = { .len = size, .rows = 1 };

	if (count > 1 && size != SHOAL_SIZE_UNKNOWN) {
		e.off = size / count * index;
		e.len = index + 1 < count ? size / count : size - e.off;
	}
	return e;
}

int cat_place(const struct shoal_catalog *cat, uint64_t id, uint64_t index,
	      struct shoal_extent *ret_extent, bool *ret_more)
{
	uint64_t first, count, size = SHOAL_SIZE_UNKNOWN;
	struct shoal_extent e = { 0 };
	int rc = shoal_catalog_samples(cat, id, &first, &count), found = 0;

	if (rc == 0 && index >= count)
		return -ERANGE;
	if (rc == 0 && cat->view.extents)
		rc = found = cat_extent(&cat->view, id, index, count, &e);
	if (rc >= 0 && (found == 0 || ret_more))
		rc = shoal_catalog_size(cat, id, &size);
	if (rc < 0)
		return cat_is_stale(cat) ? -ESTALE : rc;
	if (found == 1 && cat_is_stale(cat))
		return -ESTALE;
	if (found == 0)
		e = part_of(size, index, count);
	if (ret_more)
		*ret_more = size != SHOAL_SIZE_UNKNOWN && e.off + e.len < size;
	*ret_extent = e;
	return 0;
}

int shoal_catalog_extent(const struct shoal_catalog *cat, uint64_t id, uint64_t index,
			 struct shoal_extent *ret_extent)
{
	return cat_place(cat, id, index, ret_extent, NULL);
}

int shoal_catalog_format(const struct shoal_catalog *cat, uint64_t index,
			 struct shoal_format_count *ret_count)
{
	const struct cat_view *v = &cat->view;
	const struct cat_format_entry *e;

	if (!v->extents || index >= v->sec[CAT_XHDR].len / sizeof(*e) - 1)
		return -ERANGE;
	e = (const struct cat_format_entry *)cat_need(v, CAT_XHDR, (index + 1) * sizeof(*e),
						      sizeof(*e));
	if (!e || e->name[0] == '\0' || e->name[sizeof(e->name) - 1])
		return e ? cat_damaged(v, CAT_XHDR, (index + 1) * sizeof(*e), "a format's name")
			 : -EBADMSG;
	memcpy(ret_count->name, e->name, sizeof(e->name));
	ret_count->nr_files = le64_get(e->nr_files);
	ret_count->nr_samples = le64_get(e->nr_samples);
	return 0;
}
