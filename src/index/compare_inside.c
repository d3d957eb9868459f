#include "index/compare_inside.h"

#include <errno.h>
#include <string.h>

#include "catalog/extents_writer.h"
#include "index/inside.h"

/* Whether file @id of @a and file @other of @b have the same samples: 1 or 0. */
static int has_same_samples(const struct shoal_catalog *a, uint64_t id,
			    const struct shoal_catalog *b, uint64_t other, struct cat_layout *x,
			    struct cat_layout *y)
{
	uint64_t first, nr = 0, now = 0, was[2], is[2];
	int rc = shoal_catalog_samples(a, id, &first, &nr), found;

	if (rc == 0)
		rc = shoal_catalog_samples(b, other, &first, &now);
	if (rc < 0 || nr != now)
		return rc < 0 ? rc : 0;
	cat_layout_clear(x);
	cat_layout_clear(y);
	rc = catalog_layout_of(a, id, nr, x);
	found = rc < 0 ? rc : catalog_layout_of(b, other, now, y);
	if (rc < 0 || found < 0)
		return rc < 0 ? rc : found;
	cat_layout_hash(x, was);
	cat_layout_hash(y, is);
	return rc == found && memcmp(was, is, sizeof(was)) == 0;
}

/* Compare each file of @now, which has extents, with the catalog. */
static int compare_insides(const struct index_compare_inside *in, const struct shoal_catalog *now,
			   struct shoal_compare_result *result, struct shoal_err *err)
{
	const struct shoal_compare_options *o = in->options;
	struct cat_layout x = CAT_LAYOUT_EMPTY, y = CAT_LAYOUT_EMPTY;
	struct shoal_cursor *cursor = NULL;
	int rc = shoal_cursor_new(now, 0, &cursor, err);
	const char *name;
	size_t len;

	x.tmp_dir = y.tmp_dir = in->tmp_dir;
	for (uint64_t id = 0; rc == 0 && (rc = shoal_cursor_next(cursor, &name, &len)) > 0; id++) {
		uint64_t was = 0;

		rc = shoal_catalog_find(in->cat, name, len, &was);
		if (rc == 0)
			rc = has_same_samples(in->cat, was, now, id, &x, &y);
		if (rc == 0) {
			result->nr_inside++;
			result->nr_same--;
			rc = o->differs ? o->differs(o->self, SHOAL_INSIDE, name, len, 0, 0) : 0;
		}
		rc = rc < 0 ? rc : 0;
	}
	cat_layout_release(&x);
	cat_layout_release(&y);
	shoal_cursor_free(cursor);
	return rc < 0 ? shoal_catalog_explain(in->cat, rc, err) : 0;
}

int index_compare_inside(const struct index_compare_inside *in, struct shoal_writer *same,
			 struct shoal_compare_result *result, struct shoal_err *err)
{
	const struct shoal_compare_options *o = in->options;
	struct shoal_index_options io = { .samples = in->kind,
					  .stop = o->stop,
					  .progress = o->progress,
					  .warn = o->warn,
					  .self = o->self };
	struct index_inside inside = { .options = &io,
				       .store = in->store,
				       .nr_threads = in->nr_threads,
				       .nr_cores = in->nr_cores,
				       .tmp_dir = in->tmp_dir,
				       .verify = true,
				       .keep_going = true };
	struct shoal_catalog_info info;
	struct shoal_writer_options wo = { .sizes = true, .tmp_dir = in->tmp_dir, .extents = true };
	struct shoal_catalog *names = NULL, *now = NULL;
	struct shoal_index_result found = { 0 };
	struct shoal_writer *to = NULL;
	int fd = writer_seal_nameless(same, err), rc = fd < 0 ? fd : 0;

	if (rc == 0)
		rc = catalog_open_fd(fd, &names, err);
	shoal_catalog_info(in->cat, &info);
	wo.root = info.root;
	if (rc == 0)
		rc = shoal_writer_open(NULL, &wo, &to, err);
	if (rc == 0)
		rc = index_inside_run(&inside, names, to, &found, err);
	if (rc == 0) {
		fd = writer_seal_nameless(to, err);
		to = NULL; /* sealing frees it */
		rc = fd < 0 ? fd : catalog_open_fd(fd, &now, err);
	}
	result->nr_inside += found.nr_unreadable; /* a file that a warning named */
	result->nr_same -= rc == 0 ? found.nr_unreadable : 0;
	if (rc == 0)
		rc = compare_insides(in, now, result, err);
	shoal_writer_abort(to);
	shoal_catalog_close(now);
	shoal_catalog_close(names);
	return rc;
}
