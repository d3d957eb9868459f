/* Write lists to catalogs. */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "catalog/writer.h"
#include "index/root.h"
#include "list/list.h"
#include "open/output.h"

#define NOTHING_WRITTEN "interrupted: nothing was written"

static struct shoal_writer_options writer_options(const struct shoal_list_info *info,
						  const struct shoal_write_options *o)
{
	return (struct shoal_writer_options){
		.root = o->root ? o->root : info->root,
		.sizes = info->sizes,
		.etags = info->etags,
		.extents = info->extents,
		.samples_per_file =
			o->samples_per_file ? o->samples_per_file : info->samples_per_file,
		.tmp_dir = o->tmp_dir,
	};
}

/*
 * Entries of a list have numbers of samples, but no extents: readers would divide the files into
 * equal parts.
 */
static int check_extents_lost(const struct shoal_list_info *info, struct shoal_err *err)
{
	if (!info->extents)
		return 0;
	return err_set(
		err, -ENOTSUP,
		"the catalog knows where samples lie inside files, which would be lost; list "
		"and look up the files again");
}

/* A catalog that is being written. */
struct write_job {
	struct shoal_write_options o; /* the caller's, but the output is a file */
	struct output out;
	struct shoal_list_totals t;
	const struct shoal_list *list;
	int (*waiting)(void *self); /* that the list had */
	void *waiting_self;
};

/* Report that @nr of @nr_all names were looked at. */
static int write_report(const struct write_job *w, uint64_t nr, uint64_t nr_all,
			struct shoal_err *err)
{
	if (w->o.progress)
		w->o.progress(w->o.self, nr, nr_all);
	return stop_requested(w->o.stop) ? err_set(err, -ECANCELED, NOTHING_WRITTEN) : 0;
}

/* The list calls this while it looks for entries, which may be few. */
static int write_waiting(void *self)
{
	const struct write_job *w = self;

	return write_report(w, w->list->nr_steps, w->list->info.nr_files, NULL) < 0 ||
	       (w->waiting && w->waiting(w->waiting_self));
}

/* Open a writer; NULL for a dry run. */
static int write_open(const struct write_job *w, const struct shoal_list_info *info,
		      struct shoal_writer **ret_writer, struct shoal_err *err)
{
	struct shoal_writer_options wo = writer_options(info, &w->o);

	*ret_writer = NULL;
	return w->o.dry_run ? 0 : shoal_writer_open(w->o.output, &wo, ret_writer, err);
}

/* Add all entries; the writer computes the digest. */
static int write_entries(struct write_job *w, struct shoal_list *list, struct shoal_writer *writer,
			 struct shoal_err *err)
{
	const struct shoal_write_options *o = &w->o;
	struct cat_digester digester = writer_digester(writer);
	struct shoal_list_totals *t = &w->t;
	struct list_entry e;
	int rc;

	while ((rc = list_step(list, &e, err)) > 0) {
		if (o->samples_per_file)
			e.samples = o->samples_per_file;
		if (!list->info.sizes)
			e.size = SHOAL_SIZE_UNKNOWN;
		t->nr_samples += e.samples;
		t->nr_bytes += list->info.sizes ? e.size : 0;
		cat_digester_add(&digester, e.name, e.len, e.size, e.samples);
		rc = writer_add_sorted(writer, (const char *)e.name, e.len, e.size, e.samples,
				       e.etag, err);
		if (rc < 0)
			return rc;
		t->nr_files++;
	}
	writer_add_packed(writer, &digester);
	return rc;
}

static int write_seal(const struct write_job *w, struct shoal_writer *writer, struct shoal_err *err)
{
	int rc = 0;

	if (w->o.refuse_empty && w->t.nr_files == 0)
		rc = err_set_hint(err, -ENOENT, SHOAL_HINT_REPLACE,
				  "no file is left to make a catalog of");
	if (rc == 0 && w->o.careful)
		rc = output_permit(&w->out, w->t.nr_files, err);
	if (rc == 0 && !w->o.dry_run)
		return shoal_writer_seal(writer, err);
	shoal_writer_abort(writer);
	return rc;
}

/* A dry run: count what write_entries() would add. */
static int write_count_entries(struct write_job *w, struct shoal_list *list, struct shoal_err *err)
{
	const struct shoal_write_options *o = &w->o;
	struct shoal_list_totals *t = &w->t;
	struct list_entry e;
	int rc;

	while ((rc = list_step(list, &e, err)) > 0) {
		t->nr_samples += o->samples_per_file ? o->samples_per_file : e.samples;
		t->nr_bytes += list->info.sizes ? e.size : 0;
		t->nr_files++;
	}
	return rc;
}

/* Add all entries, or count them, and report how far it is. */
static int write_all_entries(struct write_job *w, struct shoal_list *list,
			     struct shoal_writer *writer, struct shoal_err *err)
{
	uint64_t nr_all = list->info.nr_files;
	int rc;

	w->list = list;
	w->waiting = list->waiting;
	w->waiting_self = list->waiting_self;
	shoal_list_set_waiting(list, write_waiting, w);
	rc = w->o.dry_run ? write_count_entries(w, list, err) : write_entries(w, list, writer, err);
	shoal_list_set_waiting(list, w->waiting, w->waiting_self);
	if (rc == 0)
		rc = write_report(w, nr_all ? nr_all : list->nr_steps, nr_all, err);
	else if (rc == -ECANCELED)
		err_describe(err, NOTHING_WRITTEN);
	return rc;
}

static int list_write_all(struct write_job *w, struct shoal_list *list, struct shoal_err *err)
{
	struct shoal_writer *writer;
	int rc = check_extents_lost(&list->info, err);

	if (rc == 0)
		rc = write_open(w, &list->info, &writer, err);

	if (rc < 0)
		return rc;
	rc = write_all_entries(w, list, writer, err);
	if (rc < 0) {
		shoal_writer_abort(writer);
		return rc;
	}
	rc = write_seal(w, writer, err);
	if (!list->info.sizes)
		w->t.nr_bytes = SHOAL_SIZE_UNKNOWN;
	return rc;
}

/* Write to a file, which becomes the object at the end; unless that would replace what is not a
 * catalog. */
static int write_stage(struct write_job *w, const struct shoal_write_options *options,
		       struct shoal_err *err)
{
	struct output *out = &w->out;
	int rc;

	*w = (struct write_job){ .o = *options };
	rc = output_open(out, w->o.output, err);
	if (rc == 0 && w->o.careful)
		rc = output_protect(out, w->o.config, w->o.stop, err);
	if (rc == 0)
		rc = output_stage(out, w->o.tmp_dir, err);
	w->o.output = out->path;
	return rc;
}

static int write_unstage(const struct write_job *w, int rc, struct shoal_list_totals *ret_totals,
			 struct shoal_err *err)
{
	struct transfer_watch watch = { .stop = w->o.stop };

	if (rc == 0 && !w->o.dry_run)
		rc = output_send(&w->out, w->o.config, &watch, err);
	output_release(&w->out);
	if (rc == 0 && ret_totals)
		*ret_totals = w->t;
	return rc;
}

int shoal_list_write(struct shoal_list *list, const struct shoal_write_options *options,
		     struct shoal_list_totals *ret_totals, struct shoal_err *err)
{
	struct write_job w;
	int rc = write_stage(&w, options, err);

	if (rc < 0)
		return rc;
	rc = list_write_all(&w, list, err);
	return write_unstage(&w, rc, ret_totals, err);
}

/* ---- Joining catalogs ---- */

struct catalog_join {
	const struct shoal_catalog *const *cats;
	size_t nr;
	struct shoal_list_info info; /* entries of all catalogs */
	bool etags_differ;
	struct index_root *root; /* that replaces those of the catalogs; NULL: they are the same */
};

/*
 * The folder, with its slash, that comes before the names of a catalog with the root @was, so that
 * they are relative to the new root. -EINVAL if the catalog's root is elsewhere.
 */
static int join_folder(const struct catalog_join *j, size_t i, const char *was, char *ret_folder,
		       size_t *ret_len, struct shoal_err *err)
{
	const struct index_root *to = j->root;
	const char *rest = was + (to ? to->len : 0);
	size_t len = 0;

	*ret_len = 0;
	if (!to || strcmp(was, to->uri) == 0)
		return 0;
	if (strncmp(was, to->uri, to->len) != 0 || (*rest != '/' && to->uri[to->len - 1] != '/'))
		return err_set(
			err, -EINVAL,
			"the root of catalog %zu, '%.200s', is not below '%.200s': its names "
			"cannot be relative to that",
			i + 1, was, to->uri);
	rest += *rest == '/';
	len = strlen(
		rest); /* a root has no slash at its end, and is no longer than INDEX_ROOT_MAX */
	memcpy(ret_folder, rest, len);
	ret_folder[len] = '/';
	*ret_len = len + 1;
	return 0;
}

/* The root that is asked for, as a URI. */
static int join_open_root(struct catalog_join *j, const char *root, struct shoal_err *err)
{
	if (!root)
		return 0;
	j->root = malloc(sizeof(*j->root));
	if (!j->root)
		return err_set(err, -ENOMEM, "out of memory");
	return index_root_init(j->root, root, "", 0, err);
}

static int join_check(struct catalog_join *j, struct shoal_err *err)
{
	struct shoal_catalog_info first, info;

	shoal_catalog_info(j->cats[0], &first);
	j->info = (struct shoal_list_info){ .root = first.root,
					    .sizes = first.nr_bytes != SHOAL_SIZE_UNKNOWN,
					    .etags = first.etags,
					    .samples_per_file = first.samples_per_file,
					    .extents = first.extents };
	for (size_t i = 1; i < j->nr; i++) {
		shoal_catalog_info(j->cats[i], &info);
		if (!j->root && strcmp(first.root, info.root) != 0)
			return err_set_hint(err, -EINVAL, SHOAL_HINT_ROOT,
					    "the roots of catalog 1, '%.200s', and catalog %zu, "
					    "'%.200s', differ",
					    first.root, i + 1, info.root);
		if ((info.nr_bytes != SHOAL_SIZE_UNKNOWN) != j->info.sizes)
			return err_set_hint(err, -EINVAL, SHOAL_HINT_SIZES,
					    "catalog %zu has %s sizes, but catalog 1 has %s", i + 1,
					    j->info.sizes ? "no" : "",
					    j->info.sizes ? "them" : "none");
		j->etags_differ = j->etags_differ || info.etags != first.etags;
		j->info.etags = j->info.etags || info.etags;
		if (info.extents != first.extents)
			return err_set(
				err, -EINVAL,
				"catalog %zu %s where samples lie inside files, but catalog 1 "
				"%s",
				i + 1, info.extents ? "knows" : "does not know",
				first.extents ? "does" : "does not");
		if (info.samples_per_file != j->info.samples_per_file)
			j->info.samples_per_file = 0;
	}
	return 0;
}

/* The first and the last name of a catalog that is not empty. */
static int join_ends(const struct shoal_catalog *cat, uint64_t nr, char *first, char *last,
		     struct shoal_err *err)
{
	int rc = shoal_catalog_name(cat, 0, first);

	if (rc >= 0)
		rc = shoal_catalog_name(cat, nr - 1, last);
	return rc < 0 ? shoal_catalog_explain(cat, rc, err) : 0;
}

/* Whether the names of each catalog come after those of the one before: 1, 0, or an error. */
static int join_is_in_order(const struct catalog_join *j, struct shoal_err *err)
{
	char(*name)[SHOAL_NAME_MAX + 1] = malloc(3 * sizeof(*name));
	struct shoal_catalog_info info;
	bool any = false;
	int rc = name ? 1 : err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; i < j->nr && rc > 0; i++) {
		int ends;

		shoal_catalog_info(j->cats[i], &info);
		if (info.nr_files == 0)
			continue;
		ends = join_ends(j->cats[i], info.nr_files, name[0], name[1], err);
		if (ends < 0)
			rc = ends;
		else if (any && strcmp(name[2], name[0]) >= 0)
			rc = 0;
		memcpy(name[2], name[1], sizeof(name[1]));
		any = true;
	}
	free(name);
	return rc;
}

/* Copy the catalogs one after another, without decoding them. */
static int join_append(const struct catalog_join *j, struct write_job *w, struct shoal_err *err)
{
	struct shoal_list_totals *t = &w->t;
	struct shoal_catalog_info info;
	struct shoal_writer *writer;
	uint64_t nr_all = 0;
	int rc = write_open(w, &j->info, &writer, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < j->nr; i++) {
		shoal_catalog_info(j->cats[i], &info);
		nr_all += info.nr_files;
	}
	for (size_t i = 0; i < j->nr && rc == 0; i++) {
		shoal_catalog_info(j->cats[i], &info);
		rc = w->o.dry_run ? 0 : shoal_writer_append(writer, j->cats[i], err);
		t->nr_files += info.nr_files;
		t->nr_samples += info.nr_samples;
		t->nr_bytes += j->info.sizes ? info.nr_bytes : 0;
		if (rc == 0)
			rc = write_report(w, t->nr_files, nr_all, err);
	}
	if (rc == 0)
		return write_seal(w, writer, err);
	shoal_writer_abort(writer);
	return rc;
}

/* Merge their entries. */
static int join_merge(const struct catalog_join *j, enum shoal_repeated repeated,
		      struct write_job *w, struct shoal_err *err)
{
	struct shoal_list **lists = calloc(j->nr, sizeof(struct shoal_list *)), *all = NULL;
	char folder[INDEX_ROOT_MAX + 2];
	struct shoal_catalog_info info;
	size_t nr = 0, len;
	int rc = lists ? 0 : err_set(err, -ENOMEM, "out of memory");

	for (; nr < j->nr && rc == 0; nr += rc == 0) {
		shoal_catalog_info(j->cats[nr], &info);
		rc = join_folder(j, nr, info.root, folder, &len, err);
		if (rc == 0)
			rc = list_catalog_below(j->cats[nr], folder, len, &lists[nr], err);
	}
	if (rc == 0)
		rc = shoal_list_merge(lists, nr, repeated, &all, err);
	if (rc == 0)
		rc = list_write_all(w, all, err);
	else
		while (nr > 0)
			shoal_list_close(lists[--nr]);
	shoal_list_close(all);
	free(lists);
	return rc;
}

static int join_all(struct catalog_join *j, enum shoal_repeated repeated,
		    const struct shoal_write_options *options, struct shoal_list_totals *ret_totals,
		    struct shoal_err *err)
{
	bool as_they_are = !j->root && !options->samples_per_file && !j->etags_differ;
	struct write_job w;
	int rc = write_stage(&w, options, err);

	if (rc < 0)
		return rc;
	if (j->root)
		w.o.root = j->root->uri;
	if (as_they_are)
		rc = join_is_in_order(j, err);
	if (rc > 0)
		rc = join_append(j, &w, err);
	else if (rc == 0)
		rc = join_merge(j, repeated, &w, err);
	if (rc == 0 && !j->info.sizes)
		w.t.nr_bytes = SHOAL_SIZE_UNKNOWN;
	return write_unstage(&w, rc, ret_totals, err);
}

int shoal_catalog_merge(const struct shoal_catalog *const *cats, size_t nr,
			enum shoal_repeated repeated, const struct shoal_write_options *options,
			struct shoal_list_totals *ret_totals, struct shoal_err *err)
{
	struct catalog_join j = { .cats = cats, .nr = nr };
	int rc = nr ? join_open_root(&j, options->root, err)
		    : err_set(err, -EINVAL, "there is no catalog to join");

	if (rc == 0)
		rc = join_check(&j, err);
	if (rc == 0)
		rc = join_all(&j, repeated, options, ret_totals, err);
	free(j.root);
	return rc;
}
