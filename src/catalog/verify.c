/* Read a whole catalog and check sums, order, totals and digest. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/column.h"
#include "catalog/digest.h"
#include "catalog/extents.h"
#include "catalog/writer.h"

/* A shape that computes names must also reproduce the first name: lookups rely on it. */
static int check_first(const struct cat_segment *seg)
{
	uint8_t name[SHOAL_NAME_MAX + 1];
	int n;

	if (seg->kind != CAT_FIXED && seg->kind != CAT_DECIMAL)
		return 0;
	n = cat_segment_name(seg, 0, name);
	if (n < 0)
		return n;
	if (name_compare(name, (size_t)n, seg->first, seg->first_len) != 0)
		return cat_segment_bad(seg, "the first name is not the first number's");
	return seg->kind == CAT_FIXED ? cat_fixed_check(seg) : cat_decimal_check(seg);
}

/* Keys must match the first names, or a lookup could miss a name that is there. */
static int check_directory(const struct cat_view *v)
{
	struct cat_segment first, seg;
	int rc = 0;

	for (uint64_t k = 0; k < v->nr_segments; k++) {
		rc = cat_segment_load(v, NULL, k, &seg);
		if (rc < 0)
			return rc;
		if (k == 0)
			first = seg;
		if (seg.first_len < v->key_skip ||
		    memcmp(seg.first, first.first, v->key_skip) != 0 ||
		    (k == 0 && (seg.first_id != 0 || seg.off != 0)))
			return cat_damaged(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
					   "an entry does not fit its segment");
		if (le64_get(cat_dir(v, k)->key) != name_key(seg.first, seg.first_len, v->key_skip))
			return cat_damaged(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
					   "a key does not fit its name");
		rc = check_first(&seg);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* First segments are strictly ascending, or some dictionaries would serve nothing. */
static int check_dictionaries(const struct cat_view *v)
{
	uint64_t nr = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry), before = 0;

	for (uint64_t k = 0; k < nr; k++) {
		const struct cat_dict_entry *e = (const struct cat_dict_entry *)cat_need(
			v, CAT_DTAB, k * sizeof(*e), sizeof(*e));
		uint64_t off, len;
		int rc = e ? cat_dict_bounds(v, k, &off, &len) : -EBADMSG;

		if (rc < 0)
			return rc;
		if (!cat_need(v, CAT_DICT, off, len))
			return -EBADMSG;
		if (k > 0 && le64_get(e->first_segment) <= before)
			return cat_damaged(v, CAT_DTAB, k * sizeof(*e),
					   "first segments are out of order");
		before = le64_get(e->first_segment);
	}
	return 0;
}

/* A scan of a column: every value, and the sum at the start of each run and block. */
struct column_scan {
	enum cat_section_id runs;
	uint64_t nr;       /* values */
	uint64_t next_run; /* the run that has not started yet */
	uint64_t first_id; /* of the one before it */
	uint64_t sum;
	uint64_t largest;
};

static int scan_step(const struct cat_view *v, struct column_scan *w, uint64_t id,
		     uint64_t constant, uint64_t *ret_value)
{
	struct cat_column c = { .view = v, .runs = w->runs, .nr = w->nr };
	uint64_t before = w->sum;
	int rc;

	*ret_value = constant;
	if (v->sec[w->runs].len == 0)
		return 0;
	if (w->next_run < v->sec[w->runs].len / sizeof(struct cat_run)) {
		const struct cat_run *e = (const struct cat_run *)cat_need(
			v, w->runs, w->next_run * sizeof(*e), sizeof(*e));

		if (!e)
			return -EBADMSG;
		if (le64_get(e->first_id) == id) {
			w->first_id = id;
			w->next_run++;
		}
	}
	/* At the start of a block the sum before it needs no scan of its values. */
	rc = cat_column_get(&c, id, ret_value,
			    (id - w->first_id) % CAT_BLOCK_VALUES == 0 ? &before : NULL);
	if (rc < 0)
		return rc;
	if (before != w->sum || __builtin_add_overflow(w->sum, *ret_value, &w->sum))
		return cat_damaged(v, w->runs, 0, "sums do not add up");
	w->largest = u64_max(w->largest, *ret_value);
	return 0;
}

static int check_totals(const struct cat_view *v, const struct cat_digest *d,
			const struct column_scan *bytes, const struct column_scan *samples,
			struct shoal_err *err)
{
	uint64_t digest[2];

	if (v->sec[CAT_SZRN].len && bytes->sum != v->nr_bytes)
		return err_set(err, -EBADMSG,
			       "damaged catalog: sizes add up to %" PRIu64
			       ", but its header says %" PRIu64,
			       bytes->sum, v->nr_bytes);
	if (v->sec[CAT_SZRN].len && v->largest != SHOAL_SIZE_UNKNOWN &&
	    bytes->largest != v->largest)
		return err_set(err, -EBADMSG,
			       "damaged catalog: the largest size is %" PRIu64
			       ", but its header says %" PRIu64,
			       bytes->largest, v->largest);
	if (v->sec[CAT_SMRN].len && samples->sum != v->nr_samples)
		return err_set(err, -EBADMSG,
			       "damaged catalog: %" PRIu64 " samples, but its header says %" PRIu64,
			       samples->sum, v->nr_samples);
	cat_digest_final(d, digest);
	if (memcmp(digest, v->digest, sizeof(digest)) != 0 || d->lane[0] != v->lane[0] ||
	    d->lane[1] != v->lane[1])
		return err_set(err, -EBADMSG,
			       "damaged catalog: its content does not match its digest");
	return 0;
}

/* The sums of a column of extents, and whether it has values for the right number of them. */
static int check_column(const struct cat_view *v, enum cat_section_id runs, uint64_t nr,
			struct column_scan *ret_scan)
{
	struct column_scan scan = { .runs = runs, .nr = nr };
	uint64_t value;
	int rc = 0;

	for (uint64_t id = 0; id < nr && rc == 0; id++)
		rc = scan_step(v, &scan, id, 0, &value);
	*ret_scan = scan;
	return rc;
}

/* The last extent of a file ends last, because sums rise: cat_extent() checks that it is inside. */
static int check_layout(const struct cat_view *v, uint64_t id, uint64_t *longest)
{
	struct cat_column counts = { .view = v, .runs = CAT_SMRN, .nr = v->nr_files };
	struct cat_column sizes = { .view = v, .runs = CAT_SZRN, .nr = v->nr_files };
	uint64_t nr = v->samples_per_file, size;
	struct shoal_extent last;
	int rc = nr ? 0 : cat_column_get(&counts, id, &nr, NULL);

	if (rc < 0 || nr == 0)
		return rc;
	rc = cat_extent(v, id, nr - 1, nr, &last);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (nr > 1)
		return cat_damaged(v, CAT_XSRN, 0, "a file of several samples has no extents");
	rc = cat_column_get(&sizes, id, &size, NULL);
	if (rc == 0)
		*longest = u64_max(*longest, size);
	return rc;
}

static int check_extents(const struct cat_view *v)
{
	static const enum cat_section_id others[] = { CAT_XSRN, CAT_XGRN, CAT_XRRN };
	struct column_scan added, other, lengths = { .largest = 0 };
	int rc = check_column(v, CAT_XNRN, v->nr_files, &added);

	if (rc == 0 && added.sum != v->nr_extents)
		rc = cat_damaged(v, CAT_XHDR, 0, "wrong number of extents");
	for (size_t i = 0; i < ARRAY_LEN(others) && rc == 0; i++)
		rc = check_column(v, others[i], i == 0 ? v->nr_files : v->nr_extents, &other);
	if (rc == 0)
		rc = check_column(v, CAT_XLRN, v->nr_extents, &lengths);
	for (uint64_t id = 0; id < v->nr_files && rc == 0; id++)
		rc = check_layout(v, id, &lengths.largest);
	if (rc == 0 && lengths.largest != v->longest)
		rc = cat_damaged(v, CAT_XHDR, 8, "wrong length of the longest sample");
	return rc;
}

#define PROGRESS_EVERY 0x10000u

static int verify_names(const struct shoal_catalog *cat, struct shoal_cursor *cursor,
			void (*progress)(void *self, uint64_t nr_names), void *self,
			struct shoal_err *err)
{
	const struct cat_view *v = &cat->view;
	struct cat_digest digest = { 0 };
	struct column_scan bytes = { .runs = CAT_SZRN, .nr = v->nr_files };
	struct column_scan samples = { .runs = CAT_SMRN, .nr = v->nr_files };
	uint64_t id = 0;
	char last[SHOAL_NAME_MAX];
	size_t len, last_len = 0;
	const char *name;
	int rc;

	while ((rc = shoal_cursor_next(cursor, &name, &len)) > 0) {
		uint64_t size = 0, nr = 0;

		if (id > 0 && name_compare(last, last_len, name, len) >= 0)
			return err_set(err, -EBADMSG,
				       "damaged catalog: name %" PRIu64 " is out of order", id);
		if (memchr(name, 0, len))
			return err_set(err, -EBADMSG,
				       "damaged catalog: name %" PRIu64 " contains a NUL byte", id);
		memcpy(last, name, len);
		last_len = len;
		rc = scan_step(v, &bytes, id, SHOAL_SIZE_UNKNOWN, &size);
		if (rc == 0)
			rc = scan_step(v, &samples, id, v->samples_per_file, &nr);
		if (rc < 0)
			return shoal_catalog_explain(cat, rc, err);
		cat_digest_add(&digest, name, len, size, nr);
		if ((++id & (PROGRESS_EVERY - 1)) == 0 && progress)
			progress(self, id);
	}
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	return check_totals(v, &digest, &bytes, &samples, err);
}

int shoal_catalog_verify(const struct shoal_catalog *cat, struct shoal_err *err)
{
	return catalog_verify_with(cat, NULL, NULL, err);
}

int catalog_verify_with(const struct shoal_catalog *cat,
			void (*progress)(void *self, uint64_t nr_names), void *self,
			struct shoal_err *err)
{
	struct shoal_cursor *cursor = NULL;
	int rc;

	rc = cat_check_all(&cat->view, err);
	if (rc < 0 && !cat_is_stale(cat))
		return rc == -EBADMSG && cat->copy ? cat_explain_copy(cat, rc, err) : rc;
	if (rc == 0)
		rc = check_directory(&cat->view);
	if (rc == 0)
		rc = check_dictionaries(&cat->view);
	if (rc == 0 && cat->view.extents)
		rc = check_extents(&cat->view);
	if (rc < 0)
		return shoal_catalog_explain(cat, cat_is_stale(cat) ? -ESTALE : rc, err);
	rc = shoal_cursor_new(cat, 0, &cursor, err);
	if (rc < 0)
		return rc;
	rc = verify_names(cat, cursor, progress, self, err);
	shoal_cursor_free(cursor);
	return rc < 0 ? rc : shoal_catalog_check_fresh(cat, err);
}
