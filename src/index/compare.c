/* Compare a catalog with the current contents of the store. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/path.h"
#include "catalog/writer.h"
#include "index/compare_inside.h"
#include "index/job.h"
#include "store/uri.h"

/* Memory besides the sorter's: threads with their buffers, the catalog's pages, the libraries. */
#define OVERHEAD (UINT64_C(24) << 20)

struct comparison {
	const struct shoal_catalog *cat;
	const struct shoal_compare_options *options;
	bool sizes, etags;
	struct shoal_cursor *cursor;
	uint64_t id; /* name at the cursor */
	const char *name;
	size_t len;
	bool at_end;
	const char *kind;          /* of samples, if insides are compared, or NULL */
	struct shoal_writer *same; /* names to look into; afterwards they are sealed */
	struct shoal_compare_result result;
};

static int compare_step(struct comparison *c, struct shoal_err *err)
{
	int rc = shoal_cursor_next(c->cursor, &c->name, &c->len);

	c->at_end = rc == 0;
	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

static int compare_report(const struct comparison *c, enum shoal_difference what, const char *name,
			  size_t len, uint64_t was, uint64_t is, struct shoal_err *err)
{
	const struct shoal_compare_options *o = c->options;
	int rc = o->differs ? o->differs(o->self, what, name, len, was, is) : 0;

	return rc < 0 ? err_set_errno(err, rc, "cannot report a difference") : 0;
}

static int size_of(const struct comparison *c, uint64_t *ret_size, struct shoal_err *err)
{
	int rc = shoal_catalog_size(c->cat, c->id, ret_size);

	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

/* The catalog's name is missing in the store. */
static int take_missing(struct comparison *c, struct shoal_err *err)
{
	uint64_t was = SHOAL_SIZE_UNKNOWN;
	int rc = size_of(c, &was, err);

	c->result.nr_missing++;
	if (rc == 0)
		rc = compare_report(c, SHOAL_MISSING, c->name, c->len, was, SHOAL_SIZE_UNKNOWN,
				    err);
	c->id++;
	return rc < 0 ? rc : compare_step(c, err);
}

/* Whether its ETag differs now. An ETag that is not stored, or is of another form, is not
 * compared. */
static int etag_differs(const struct comparison *c, const struct index_record *e, bool *ret_differs,
			struct shoal_err *err)
{
	struct etag was;
	int rc = c->etags ? catalog_etag_of(c->cat, c->id, &was) : 0;

	*ret_differs = rc == 0 && c->etags && e->etag && etag_is_kept(&was) &&
		       etag_is_kept(e->etag) && !etag_same(&was, e->etag);
	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : 0;
}

static int take_both(struct comparison *c, const struct index_record *e, struct shoal_err *err)
{
	uint64_t was = SHOAL_SIZE_UNKNOWN;
	bool changed = false;
	int rc = size_of(c, &was, err);

	if (rc == 0)
		rc = etag_differs(c, e, &changed, err);
	if (rc == 0 && c->sizes && was != e->size) {
		c->result.nr_resized++;
		rc = compare_report(c, SHOAL_RESIZED, c->name, c->len, was, e->size, err);
	} else if (rc == 0 && changed) {
		c->result.nr_changed++;
		rc = compare_report(c, SHOAL_CHANGED, c->name, c->len, was, e->size, err);
	} else {
		c->result.nr_same++;
		if (rc == 0 && c->same)
			rc = shoal_writer_add(c->same, c->name, c->len, e->size, 1, err);
	}
	c->id++;
	return rc < 0 ? rc : compare_step(c, err);
}

/* The next name in the store. */
static int take_there(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct comparison *c = self;
	const char *name = (const char *)e->name;
	struct index_record record = index_record_of(e);
	int order = 1, rc = 0;

	while (rc == 0 && !c->at_end && (order = name_compare(c->name, c->len, name, e->len)) < 0)
		rc = take_missing(c, err);
	if (rc < 0)
		return rc;
	if (!c->at_end && order == 0)
		return take_both(c, &record, err);
	c->result.nr_new++;
	return compare_report(c, SHOAL_NEW, name, e->len, SHOAL_SIZE_UNKNOWN, record.size, err);
}

static int compare_compare(struct comparison *c, struct index_job *j, struct shoal_err *err)
{
	struct shoal_index_result listed = { 0 };
	uint64_t repeated;
	int rc = index_scan_run(j, &listed, err);

	if (rc == 0)
		rc = shoal_cursor_new(c->cat, 0, &c->cursor, err);
	if (rc == 0)
		rc = compare_step(c, err);
	if (rc == 0)
		rc = sorter_finish(j->sorter, take_there, c, NULL, &repeated, err);
	while (rc == 0 && !c->at_end) {
		if ((c->id & 0xffff) == 0 && stop_requested(c->options->stop))
			return err_set(err, -ECANCELED, "interrupted");
		rc = take_missing(c, err);
	}
	return rc;
}

static bool is_file_system(const char *root)
{
	const char *path = store_local_path(root);

	return path && strcmp(path, "/") == 0;
}

static int compare_look_inside(struct comparison *c, const struct index_job *j,
			       struct shoal_err *err)
{
	struct index_compare_inside in = { .cat = c->cat,
					   .options = c->options,
					   .store = j->store,
					   .kind = c->kind,
					   .tmp_dir = j->tmp_dir,
					   .nr_threads = index_scan_threads(j),
					   .nr_cores = index_scan_cores(j) };
	struct shoal_writer *same = c->same;

	c->same = NULL; /* sealing frees it */
	return index_compare_inside(&in, same, &c->result, err);
}

static int scan_and_compare(struct comparison *c, const struct shoal_tree_options *tree,
			    struct shoal_err *err)
{
	const struct shoal_compare_options *o = c->options;
	uint64_t memory = o->memory ? o->memory : SHOAL_INDEX_MEMORY;
	struct shoal_index_options io = { .stop = o->stop,
					  .progress = o->progress,
					  .warn = o->warn,
					  .self = o->self,
					  .config = o->config };
	struct sorter_options so = { .stop = o->stop };
	struct shoal_err why = { "" };
	struct comm *comm = NULL;
	struct shoal_catalog_info info;
	struct index_job j = { .options = &io, .tree = tree, .resume = { .spill.fd = -1 } };
	int rc = comm_self(&comm, err);

	if (rc == 0 && memory < SHOAL_INDEX_MEMORY_MIN) {
		rc = err_set(err, -EINVAL, "%llu bytes of memory are too few",
			     (unsigned long long)memory);
		err_hint(err, SHOAL_HINT_MORE_MEMORY, SHOAL_INDEX_MEMORY_MIN);
	}
	so.memory = (size_t)(u64_max(memory, SHOAL_INDEX_MEMORY_MIN) - OVERHEAD);
	so.tmp_dir = j.tmp_dir = strdup(path_tmp_dir(o->tmp_dir));
	if (rc == 0 && !j.tmp_dir)
		rc = err_set(err, -ENOMEM, "out of memory");
	shoal_catalog_info(c->cat, &info);
	if (rc == 0 && !o->where && is_file_system(info.root))
		rc = err_set_hint(err, -EINVAL, SHOAL_HINT_WHERE,
				  "the catalog's root is '/', which is too much to list");
	if (rc == 0) {
		const char *where = o->where ? o->where : info.root;

		j.comm = comm;
		j.place = comm_place(comm);
		rc = index_scan_open(&j, where, o->catalog, &why);
		if (rc < 0)
			err_set_as(err, rc, &why, "cannot list '%.300s': %s", where, why.msg);
		if (rc == -ENOENT && !o->where) /* the data may have moved */
			err_hint(err, SHOAL_HINT_WHERE, 0);
	}
	if (rc == 0)
		rc = sorter_new(&so, &j.sorter, err);
	if (rc == 0 && c->kind)
		rc = shoal_writer_open(NULL,
				       &(struct shoal_writer_options){ .root = info.root,
								       .sizes = true,
								       .samples_per_file = 1,
								       .tmp_dir = j.tmp_dir },
				       &c->same, err);
	if (rc == 0)
		rc = compare_compare(c, &j, err);
	if (rc == 0 && c->kind)
		rc = compare_look_inside(c, &j, err);
	index_job_release(&j);
	comm_close(comm);
	return rc;
}

int shoal_catalog_compare(const struct shoal_catalog *cat,
			  const struct shoal_compare_options *options,
			  struct shoal_compare_result *ret_result, struct shoal_err *err)
{
	struct comparison c = { .cat = cat, .options = options };
	struct shoal_tree_options tree = { .nr_threads = options->nr_threads,
					   .keep_going = options->keep_going };
	struct index_provenance was = { 0 };
	struct shoal_catalog_info info;
	const char *text;
	size_t len;
	int rc;

	rc = catalog_listing(cat, &text, &len);
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	if (len > 0) {
		rc = index_provenance_parse(text, len, &was, err);
		if (rc < 0)
			return rc;
	}
	shoal_catalog_info(cat, &info);
	c.sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN;
	c.etags = info.etags && store_uri_traits(options->where ? options->where : info.root).etags;
	tree.no_sizes = !c.sizes;
	tree.etags = c.etags;
	tree.follow = was.follow;
	tree.one_fs = was.one_fs;
	tree.include = was.include;
	tree.nr_include = was.nr_include;
	tree.exclude = was.exclude;
	tree.nr_exclude = was.nr_exclude;
	if (options->samples && !info.extents) {
		index_provenance_release(&was);
		return err_set(err, -EINVAL, "the catalog has no extents of samples inside files");
	}
	if (options->samples)
		c.kind = was.samples ? was.samples : "auto";
	rc = scan_and_compare(&c, &tree, err);
	shoal_writer_abort(c.same);
	shoal_cursor_free(c.cursor);
	index_provenance_release(&was);
	if (rc == 0)
		*ret_result = c.result;
	return rc;
}
