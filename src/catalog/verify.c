/*
 * Read a whole catalog and check sums, order, totals and digest: by ranges of pages, segments and
 * names, on all cores.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/tasks.h"
#include "catalog/catalog.h"
#include "catalog/column.h"
#include "catalog/digest.h"
#include "catalog/extents.h"
#include "catalog/writer.h"

/* Names, values or segments that a thread checks at a time. To enter a range in the middle of a
 * FRONT segment takes as long as 500 names. */
#define RANGE_NAMES    0x10000u
#define RANGE_SEGMENTS 64u

/* A scan of a column: every value, and the sum at the start of each run and block. */
struct column_scan {
	struct cat_column column;
	uint64_t next_run; /* the run that has not started yet */
	uint64_t first_id; /* of the one before it */
	uint64_t sum;
	uint64_t largest;
};

/* What a thread finds in a range. */
struct verified {
	struct cat_digest digest;
	struct column_scan bytes, samples;
};

struct verification {
	const struct shoal_catalog *cat;
	void (*progress)(void *self, uint64_t nr_names);
	void *self;
	struct cat_column column;              /* that is scanned, or */
	uint64_t longest[TASKS_THREADS_MAX];   /* samples in the files that a thread looked at */
	struct verified of[TASKS_THREADS_MAX]; /* each thread's current range */
	struct verified all;                   /* ranges so far */
};

typedef int verify_fn(void *self, unsigned thread, uint64_t k, struct shoal_err *err);

/* Do @run for all of @nr things, @step at a time, and then @commit in order (NULL: nothing). */
static int verify_in_ranges(struct verification *x, uint64_t nr, uint64_t step, verify_fn *run,
			    verify_fn *commit, struct shoal_err *err)
{
	struct tasks t = { .nr = u64_divide_up(nr, step), .run = run, .commit = commit, .self = x };

	return tasks_run(&t, err);
}

static int verify_explain(const struct verification *x, int rc, struct shoal_err *err)
{
	if (rc == 0)
		return 0;
	return shoal_catalog_explain(x->cat, cat_is_stale(x->cat) ? -ESTALE : rc, err);
}

/* ---- The directory and the dictionaries ---- */

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
static int check_segment(const struct cat_view *v, uint64_t k)
{
	struct cat_segment first, seg;
	int rc = cat_segment_load(v, NULL, 0, &first);

	if (rc < 0)
		return rc;
	rc = cat_segment_load(v, NULL, k, &seg);
	if (rc < 0)
		return rc;
	if (seg.first_len < v->key_skip || memcmp(seg.first, first.first, v->key_skip) != 0 ||
	    (k == 0 && (seg.first_id != 0 || seg.off != 0)))
		return cat_damaged(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
				   "an entry does not fit its segment");
	if (le64_get(cat_dir(v, k)->key) != name_key(seg.first, seg.first_len, v->key_skip))
		return cat_damaged(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
				   "a key does not fit its name");
	return check_first(&seg);
}

static int check_segments(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	const struct verification *x = self;
	const struct cat_view *v = &x->cat->view;
	uint64_t end = u64_min(v->nr_segments, (k + 1) * RANGE_SEGMENTS);
	int rc = 0;

	(void)thread;
	for (uint64_t i = k * RANGE_SEGMENTS; i < end && rc == 0; i++)
		rc = check_segment(v, i);
	return verify_explain(x, rc, err);
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

/* ---- Columns ---- */

/* Begin at value @id: the sum before it is what the column says, which the scan of the range before
 * it checks. */
static int scan_begin(struct column_scan *w, const struct cat_column *c, uint64_t id)
{
	uint64_t value;
	int rc;

	*w = (struct column_scan){ .column = *c };
	if (id == 0 || c->view->sec[c->runs].len == 0)
		return 0;
	rc = cat_column_run(c, id - 1, &w->next_run, &w->first_id);
	if (rc < 0)
		return rc;
	w->next_run++;
	return cat_column_get(c, id, &value, &w->sum);
}

static int scan_sum_is_wrong(const struct column_scan *w)
{
	return cat_damaged(w->column.view, w->column.runs, 0, "sums do not add up");
}

static int scan_step(struct column_scan *w, uint64_t id, uint64_t constant, uint64_t *ret_value)
{
	const struct cat_view *v = w->column.view;
	enum cat_section_id runs = w->column.runs;
	uint64_t before = w->sum;
	int rc;

	*ret_value = constant;
	if (v->sec[runs].len == 0)
		return 0;
	if (w->next_run < v->sec[runs].len / sizeof(struct cat_run)) {
		const struct cat_run *e = (const struct cat_run *)cat_need(
			v, runs, w->next_run * sizeof(*e), sizeof(*e));

		if (!e)
			return -EBADMSG;
		if (le64_get(e->first_id) == id) {
			w->first_id = id;
			w->next_run++;
		}
	}
	/* At the start of a block the sum before it needs no scan of its values. */
	rc = cat_column_get(&w->column, id, ret_value,
			    (id - w->first_id) % CAT_BLOCK_VALUES == 0 ? &before : NULL);
	if (rc < 0)
		return rc;
	if (before != w->sum || __builtin_add_overflow(w->sum, *ret_value, &w->sum))
		return scan_sum_is_wrong(w);
	w->largest = u64_max(w->largest, *ret_value);
	return 0;
}

/* All values before @id were scanned. */
static int scan_end(const struct column_scan *w, uint64_t id)
{
	const struct cat_column *c = &w->column;
	uint64_t value, sum;
	int rc;

	if (id == c->nr || c->view->sec[c->runs].len == 0)
		return 0;
	rc = cat_column_get(c, id, &value, &sum);
	return rc == 0 && sum != w->sum ? scan_sum_is_wrong(w) : rc;
}

/* @next is the range after @all. */
static void scan_append(struct column_scan *all, const struct column_scan *next)
{
	all->sum = next->sum;
	all->largest = u64_max(all->largest, next->largest);
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

/* ---- Extents ---- */

static int scan_range(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct verification *x = self;
	struct column_scan *scan = &x->of[thread].bytes;
	uint64_t id = k * RANGE_NAMES, end = u64_min(x->column.nr, id + RANGE_NAMES), value;
	int rc = scan_begin(scan, &x->column, id);

	for (; id < end && rc == 0; id++)
		rc = scan_step(scan, id, 0, &value);
	if (rc == 0)
		rc = scan_end(scan, end);
	return verify_explain(x, rc, err);
}

static int scan_commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct verification *x = self;

	(void)k;
	(void)err;
	scan_append(&x->all.bytes, &x->of[thread].bytes);
	return 0;
}

/* The sums of a column of extents, and whether it has values for the right number of them. */
static int check_column(struct verification *x, enum cat_section_id runs, uint64_t nr,
			struct shoal_err *err)
{
	x->column = (struct cat_column){ .view = &x->cat->view, .runs = runs, .nr = nr };
	x->all.bytes = (struct column_scan){ .sum = 0 };
	return verify_in_ranges(x, nr, RANGE_NAMES, scan_range, scan_commit, err);
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

static int check_layouts(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct verification *x = self;
	const struct cat_view *v = &x->cat->view;
	uint64_t id = k * RANGE_NAMES, end = u64_min(v->nr_files, id + RANGE_NAMES);
	int rc = 0;

	for (; id < end && rc == 0; id++)
		rc = check_layout(v, id, &x->longest[thread]);
	return verify_explain(x, rc, err);
}

static int check_extents(struct verification *x, struct shoal_err *err)
{
	static const enum cat_section_id others[] = { CAT_XSRN, CAT_XGRN, CAT_XRRN };
	const struct cat_view *v = &x->cat->view;
	int rc = check_column(x, CAT_XNRN, v->nr_files, err);
	uint64_t longest;

	if (rc == 0 && x->all.bytes.sum != v->nr_extents)
		return verify_explain(x, cat_damaged(v, CAT_XHDR, 0, "wrong number of extents"),
				      err);
	for (size_t i = 0; i < ARRAY_LEN(others) && rc == 0; i++)
		rc = check_column(x, others[i], i == 0 ? v->nr_files : v->nr_extents, err);
	if (rc == 0)
		rc = check_column(x, CAT_XLRN, v->nr_extents, err);
	if (rc == 0)
		rc = verify_in_ranges(x, v->nr_files, RANGE_NAMES, check_layouts, NULL, err);
	longest = x->all.bytes.largest;
	for (unsigned i = 0; i < TASKS_THREADS_MAX; i++)
		longest = u64_max(longest, x->longest[i]);
	if (rc == 0 && longest != v->longest)
		rc = verify_explain(
			x, cat_damaged(v, CAT_XHDR, 8, "wrong length of the longest sample"), err);
	return rc;
}

/* ---- Names ---- */

/* The name before the range, which its first must come after. */
struct last_name {
	size_t len;
	char bytes[SHOAL_NAME_MAX + 1];
};

static int verify_name(struct last_name *last, const char *name, size_t len, uint64_t id,
		       struct shoal_err *err)
{
	if (id > 0 && name_compare(last->bytes, last->len, name, len) >= 0)
		return err_set(err, -EBADMSG, "damaged catalog: name %" PRIu64 " is out of order",
			       id);
	if (memchr(name, 0, len))
		return err_set(err, -EBADMSG,
			       "damaged catalog: name %" PRIu64 " contains a NUL byte", id);
	memcpy(last->bytes, name, len);
	last->len = len;
	return 0;
}

static int verify_begin(const struct verification *x, struct verified *r, uint64_t id,
			struct last_name *last)
{
	const struct cat_view *v = &x->cat->view;
	struct cat_column bytes = { .view = v, .runs = CAT_SZRN, .nr = v->nr_files };
	struct cat_column samples = { .view = v, .runs = CAT_SMRN, .nr = v->nr_files };
	int rc = scan_begin(&r->bytes, &bytes, id), len = 0;

	r->digest = (struct cat_digest){ .nr_files = 0 };
	if (rc == 0)
		rc = scan_begin(&r->samples, &samples, id);
	if (rc == 0 && id > 0)
		len = shoal_catalog_name(x->cat, id - 1, last->bytes);
	last->len = len < 0 ? 0 : (size_t)len;
	return rc < 0 ? rc : len < 0 ? len : 0;
}

/* The names that @cursor has up to @end. */
static int verify_walk(const struct verification *x, struct verified *r, uint64_t id, uint64_t end,
		       struct shoal_cursor *cursor, struct shoal_err *err)
{
	struct last_name last;
	const char *name;
	size_t len;
	int rc = verify_begin(x, r, id, &last);

	for (; id < end && rc == 0; id++) {
		uint64_t size = 0, nr = 0;

		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			break;
		rc = verify_name(&last, name, len, id, err);
		if (rc < 0)
			return rc;
		rc = scan_step(&r->bytes, id, SHOAL_SIZE_UNKNOWN, &size);
		if (rc == 0)
			rc = scan_step(&r->samples, id, x->cat->view.samples_per_file, &nr);
		cat_digest_add(&r->digest, name, len, size, nr);
	}
	if (rc == 0)
		rc = scan_end(&r->bytes, end);
	if (rc == 0)
		rc = scan_end(&r->samples, end);
	return verify_explain(x, rc, err);
}

static int verify_names(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct verification *x = self;
	uint64_t from = k * RANGE_NAMES, end = u64_min(x->cat->view.nr_files, from + RANGE_NAMES);
	struct shoal_cursor *cursor = NULL;
	int rc = shoal_cursor_new(x->cat, from, &cursor, err);

	if (rc == 0)
		rc = verify_walk(x, &x->of[thread], from, end, cursor, err);
	shoal_cursor_free(cursor);
	return rc;
}

static int verify_commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct verification *x = self;
	const struct verified *r = &x->of[thread];

	(void)k;
	(void)err;
	cat_digest_append(&x->all.digest, &r->digest);
	scan_append(&x->all.bytes, &r->bytes);
	scan_append(&x->all.samples, &r->samples);
	if (x->progress)
		x->progress(x->self, x->all.digest.nr_files);
	return 0;
}

/* ---- All of it ---- */

int shoal_catalog_verify(const struct shoal_catalog *cat, struct shoal_err *err)
{
	return catalog_verify_with(cat, NULL, NULL, err);
}

static int verify_content(struct verification *x, struct shoal_err *err)
{
	const struct cat_view *v = &x->cat->view;
	int rc = verify_in_ranges(x, v->nr_segments, RANGE_SEGMENTS, check_segments, NULL, err);

	if (rc == 0)
		rc = verify_explain(x, check_dictionaries(v), err);
	if (rc == 0 && v->extents)
		rc = check_extents(x, err);
	if (rc < 0)
		return rc;
	x->all.bytes = (struct column_scan){ .sum = 0 };
	rc = verify_in_ranges(x, v->nr_files, RANGE_NAMES, verify_names, verify_commit, err);
	if (rc == 0)
		rc = check_totals(v, &x->all.digest, &x->all.bytes, &x->all.samples, err);
	return rc;
}

int catalog_verify_with(const struct shoal_catalog *cat,
			void (*progress)(void *self, uint64_t nr_names), void *self,
			struct shoal_err *err)
{
	struct verification *x;
	int rc = cat_check_all(&cat->view, err);

	if (rc < 0 && cat_is_stale(cat))
		return shoal_catalog_explain(cat, -ESTALE, err);
	if (rc < 0)
		return rc == -EBADMSG && cat->copy ? cat_explain_copy(cat, rc, err) : rc;
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	x->cat = cat;
	x->progress = progress;
	x->self = self;
	rc = verify_content(x, err);
	free(x);
	return rc < 0 ? rc : shoal_catalog_check_fresh(cat, err);
}
