/* A catalog and what is in the storage now, side by side. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "catalog/writer.h"
#include "index/scan.h"

/* What is not the sorter's: threads with their buffers, the catalog's pages, the libraries. */
#define OVERHEAD (UINT64_C(24) << 20)

struct comparison {
	const struct shoal_catalog *cat;
	const struct shoal_compare_options *options;
	bool sizes, etags;
	struct shoal_cursor *cursor;
	uint64_t id; /* of the name that the cursor is at */
	const char *name;
	size_t len;
	bool at_end;
	struct shoal_compare_result result;
};

static int step(struct comparison *c, struct shoal_err *err)
{
	int rc = shoal_cursor_next(c->cursor, &c->name, &c->len);

	c->at_end = rc == 0;
	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

static int tell(const struct comparison *c, enum shoal_difference what, const char *name,
		size_t len, uint64_t was, uint64_t is, struct shoal_err *err)
{
	const struct shoal_compare_options *o = c->options;
	int rc = o->differs ? o->differs(o->self, what, name, len, was, is) : 0;

	return rc < 0 ? shoal_fail_errno(err, rc, "cannot tell of a difference") : 0;
}

static int size_of(const struct comparison *c, uint64_t *ret_size, struct shoal_err *err)
{
	int rc = shoal_catalog_size(c->cat, c->id, ret_size);

	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

/* The catalog's name is not there. */
static int take_missing(struct comparison *c, struct shoal_err *err)
{
	uint64_t was = SHOAL_SIZE_UNKNOWN;
	int rc = size_of(c, &was, err);

	c->result.nr_missing++;
	if (rc == 0)
		rc = tell(c, SHOAL_MISSING, c->name, c->len, was, SHOAL_SIZE_UNKNOWN, err);
	c->id++;
	return rc < 0 ? rc : step(c, err);
}

/* Whether it has another ETag now. One that was not kept, or is not of the kind, tells nothing. */
static int etag_differs(const struct comparison *c, const struct shoal_entry *e, bool *ret_differs,
			struct shoal_err *err)
{
	struct shoal_etag was;
	int rc = c->etags ? shoal_catalog_etag_of(c->cat, c->id, &was) : 0;

	*ret_differs = rc == 0 && c->etags && e->etag && shoal_etag_is_kept(&was) &&
		       shoal_etag_is_kept(e->etag) && !shoal_etag_same(&was, e->etag);
	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

static int take_both(struct comparison *c, const struct shoal_entry *e, struct shoal_err *err)
{
	uint64_t was = SHOAL_SIZE_UNKNOWN;
	bool changed = false;
	int rc = size_of(c, &was, err);

	if (rc == 0)
		rc = etag_differs(c, e, &changed, err);
	if (rc == 0 && c->sizes && was != e->size) {
		c->result.nr_resized++;
		rc = tell(c, SHOAL_RESIZED, c->name, c->len, was, e->size, err);
	} else if (rc == 0 && changed) {
		c->result.nr_changed++;
		rc = tell(c, SHOAL_CHANGED, c->name, c->len, was, e->size, err);
	} else {
		c->result.nr_same++;
	}
	c->id++;
	return rc < 0 ? rc : step(c, err);
}

/* The next name that is there. */
static int take_there(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct comparison *c = self;
	const char *name = (const char *)e->name;
	int order = 1, rc = 0;

	while (rc == 0 && !c->at_end &&
	       (order = shoal_name_compare(c->name, c->len, name, e->len)) < 0)
		rc = take_missing(c, err);
	if (rc < 0)
		return rc;
	if (!c->at_end && order == 0)
		return take_both(c, e, err);
	c->result.nr_new++;
	return tell(c, SHOAL_NEW, name, e->len, SHOAL_SIZE_UNKNOWN, e->size, err);
}

static int compare(struct comparison *c, struct index_scan *scan, struct shoal_sorter *sorter,
		   const char *tmp_dir, struct shoal_err *err)
{
	struct shoal_index_result listed = { 0 };
	uint64_t repeated;
	int rc = index_scan_run(scan, sorter, NULL, tmp_dir, &listed, err);

	if (rc == 0)
		rc = shoal_cursor_new(c->cat, 0, &c->cursor, err);
	if (rc == 0)
		rc = step(c, err);
	if (rc == 0)
		rc = shoal_sorter_finish(sorter, take_there, c, NULL, &repeated, err);
	while (rc == 0 && !c->at_end) {
		if ((c->id & 0xffff) == 0 && index_stopped(c->options->stop))
			return shoal_fail(err, -ECANCELED, "interrupted");
		rc = take_missing(c, err);
	}
	return rc;
}

static int scan_and_compare(struct comparison *c, const struct shoal_tree_options *tree,
			    struct shoal_err *err)
{
	const struct shoal_compare_options *o = c->options;
	const char *tmp = o->tmp_dir ? o->tmp_dir : getenv("TMPDIR");
	uint64_t memory = o->memory ? o->memory : SHOAL_INDEX_MEMORY;
	struct shoal_index_options io = {
		.stop = o->stop, .progress = o->progress, .warn = o->warn, .self = o->self
	};
	struct shoal_sorter_options so = { .stop = o->stop };
	struct shoal_sorter *sorter = NULL;
	struct shoal_err why = { "" };
	struct shoal_comm *comm = NULL;
	struct shoal_catalog_info info;
	struct index_scan scan = { 0 };
	int rc = shoal_comm_self(&comm, err);

	if (rc == 0 && memory < SHOAL_INDEX_MEMORY_MIN)
		rc = shoal_fail(err, -EINVAL, "too little memory: give 48M or more");
	so.memory = (size_t)(shoal_max(memory, SHOAL_INDEX_MEMORY_MIN) - OVERHEAD);
	so.tmp_dir = tmp && *tmp ? tmp : "/tmp";
	shoal_catalog_info(c->cat, &info);
	if (rc == 0 && !o->where && strcmp(info.root, "file:///") == 0)
		rc = shoal_fail(
			err, -EINVAL,
			"its names are relative to '/', and all of that is too much to list: "
			"say where to look with --where");
	if (rc == 0) {
		const char *where = o->where ? o->where : info.root;

		rc = index_scan_open(&scan, comm, where, o->catalog, tree, &io, &why);
		if (rc < 0)
			shoal_fail(err, rc, "cannot list '%.300s': %s", where, why.msg);
	}
	if (rc == 0)
		rc = shoal_sorter_new(&so, &sorter, err);
	if (rc == 0)
		rc = compare(c, &scan, sorter, so.tmp_dir, err);
	shoal_sorter_free(sorter);
	index_scan_release(&scan);
	shoal_comm_close(comm);
	return rc;
}

int shoal_catalog_compare(const struct shoal_catalog *cat,
			  const struct shoal_compare_options *options,
			  struct shoal_compare_result *ret_result, struct shoal_err *err)
{
	struct comparison c = { .cat = cat, .options = options };
	struct shoal_tree_options tree = { .nr_threads = options->nr_threads,
					   .keep_going = options->keep_going };
	struct index_listing was = { 0 };
	struct shoal_catalog_info info;
	const char *text;
	size_t len;
	int rc;

	rc = shoal_catalog_listing(cat, &text, &len);
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	if (len > 0) {
		rc = index_listing_parse(text, len, &was, err);
		if (rc < 0)
			return rc;
	}
	shoal_catalog_info(cat, &info);
	c.sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN;
	c.etags =
		info.etags && strncmp(options->where ? options->where : info.root, "s3://", 5) == 0;
	tree.no_sizes = !c.sizes;
	tree.etags = c.etags;
	tree.follow = was.follow;
	tree.one_fs = was.one_fs;
	tree.include = was.include;
	tree.nr_include = was.nr_include;
	tree.exclude = was.exclude;
	tree.nr_exclude = was.nr_exclude;
	rc = scan_and_compare(&c, &tree, err);
	shoal_cursor_free(c.cursor);
	index_listing_release(&was);
	if (rc == 0)
		*ret_result = c.result;
	return rc;
}
