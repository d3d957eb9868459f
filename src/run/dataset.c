#include "run/dataset.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/text.h"
#include "datagen/datagen.h"
#include "index/tree.h"
#include "open/transfer.h"
#include "run/choose.h"
#include "store/null/null.h"
#include "store/uri.h"

/* Catalogs that a start may create in the results folder: bits of `made` in struct run_data. */
enum { MADE_TRAIN = 1, MADE_VALID = 2, MADE_COPY = 4 };
static const enum run_file made_files[] = { RUN_FILE_TRAIN_CATALOG, RUN_FILE_EVAL_CATALOG,
					    RUN_FILE_COPY };

enum data_kind {
	KIND_CATALOG,  /* given */
	KIND_COMPUTED, /* names follow from the workload */
	KIND_LISTED,
};

/* What rank 0 has found, sent to all ranks. */
struct data_source {
	uint64_t kind;
	uint64_t sealed;     /* the catalog lies in the data folder */
	uint64_t kept, made; /* see struct run_data */
	char from[1024];     /* the object that train is a copy of, or "" */
	char train[RUN_PATH_MAX], eval[RUN_PATH_MAX]; /* paths of catalogs; eval "": in the same */
};

static void data_say(const struct run_data_options *o, const char *words)
{
	if (o->say)
		o->say(o->self, words);
}

/* ---- Computed names ---- */

static int probe(struct store *store, const struct workload *w, bool valid, uint64_t id,
		 bool *ret_same_size, struct shoal_err *err)
{
	char name[WORKLOAD_NAME_MAX];
	struct store_stat st;
	int rc = workload_file_name(w, valid, id, name, sizeof(name));

	if (rc >= 0)
		rc = store_stat(store, name, &st, err);
	if (rc == 0 && st.size != workload_file_size(w, valid, id))
		*ret_same_size = false;
	return rc < 0 ? rc : 0;
}

/*
 * Returns 1 if the files have the names and sizes of the workload: the first, the last and some
 * between are probed. 0 if the first does not exist, or sizes differ: then they must be listed. An
 * error if the first exists and others do not.
 */
static int probe_all(struct store *store, const struct workload *w, bool valid,
		     struct shoal_err *err)
{
	uint64_t nr = workload_nr_files(w, valid), nr_probes = u64_min(nr, RUN_PROBES);
	bool same = true;
	int rc;

	if (nr == 0)
		return 1;
	rc = probe(store, w, valid, 0, &same, NULL);
	if (rc < 0)
		return 0;
	for (uint64_t i = 1; i < nr_probes; i++) {
		uint64_t id = (uint64_t)((unsigned __int128)(nr - 1) * i / (nr_probes - 1));
		struct shoal_err why = { "" };

		rc = probe(store, w, valid, id, &same, &why);
		if (rc < 0)
			return err_set_hint(err, rc, SHOAL_HINT_GENERATE,
					    "the first file exists, but file %" PRIu64
					    " of %" PRIu64 " does not (%.300s)",
					    id, nr, why.msg);
	}
	return same;
}

/* One at a time, in the order of names: if folders have several levels, or sizes differ. */
static int write_names(const struct workload *w, bool valid, const struct run_data_options *o,
		       const char *root, const char *path, struct shoal_err *err)
{
	bool extents = workload_has_extents(w) && !o->object_size;
	struct shoal_writer_options wo = { .root = root,
					   .sizes = true,
					   .samples_per_file = extents ? 0 : run_samples_in_file(w),
					   .extents = extents };
	struct datagen_layout layout = { .w = w };
	struct shoal_writer *writer = NULL;
	uint64_t nr = workload_nr_files(w, valid), id = 0;
	char name[WORKLOAD_NAME_MAX];
	int rc = extents ? datagen_layout_init(&layout, w, err) : 0;

	if (rc == 0)
		rc = shoal_writer_open(path, &wo, &writer, err);

	for (uint64_t i = 0; rc >= 0 && i < nr; i++) {
		rc = workload_file_at(w, valid, i, &id);
		if (rc == 0)
			rc = workload_file_name(w, valid, id, name, sizeof(name));
		if (rc < 0)
			err_describe_errno(err, rc, "cannot name file %" PRIu64, i);
		else if (stop_requested(o->stop))
			rc = err_set(err, -ECANCELED, "interrupted");
		else
			rc = datagen_layout_add(&layout, writer, name, (size_t)rc,
						o->object_size ? o->object_size
							       : workload_file_size(w, valid, id),
						err);
	}
	datagen_layout_release(&layout);
	if (rc < 0) {
		shoal_writer_abort(writer);
		return rc;
	}
	return shoal_writer_seal(writer, err);
}

static int write_computed(const struct workload *w, bool valid, const struct run_data_options *o,
			  const char *path, struct shoal_err *err)
{
	const struct workload_subfolders *sub =
		valid ? &w->dataset.subfolders_eval : &w->dataset.subfolders_train;
	const char *root = o->data ? o->data : STORE_ANY_SIZE;
	struct shoal_pattern pattern = { .count = workload_nr_files(w, valid),
					 .subfolders = sub->nr_levels == 1 ? sub->nr : 0,
					 .size = o->object_size ? o->object_size
								: workload_file_size(w, valid, 0) };
	struct shoal_index_options io = { .output = path,
					  .root = root,
					  .samples_per_file = run_samples_in_file(w),
					  .stop = o->stop };
	struct shoal_index_result result;
	char format[WORKLOAD_PATTERN_MAX];
	int rc;

	if (sub->nr_levels > 1 || (workload_has_extents(w) && !o->object_size) ||
	    (w->dataset.record_stdev > 0 && !o->object_size))
		return write_names(w, valid, o, root, path, err);
	rc = workload_file_pattern(w, valid, format, sizeof(format));
	if (rc < 0)
		return err_set_errno(err, rc, "cannot name the first file");
	pattern.format = format;
	return shoal_index_pattern(&pattern, &io, &result, err);
}

/* ---- Finding a catalog ---- */

/*
 * On rank 0: copy a catalog from its bucket to the results folder, so that the ranks of a node map
 * the same pages.
 */
static int take_object(const struct run_data_options *o, const char *uri, struct data_source *f,
		       struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc;

	f->kind = KIND_CATALOG;
	snprintf(f->train, sizeof(f->train), "%s/%s", o->folder, DATAGEN_CATALOG_NAME);
	if (snprintf(f->from, sizeof(f->from), "%s", uri) >= (int)sizeof(f->from))
		return err_set(err, -ENAMETOOLONG, "the path is too long");
	rc = transfer_get_file(uri, f->train, o->open.config, o->stop, &why);
	if (rc < 0)
		return err_set_as(err, rc, &why, "'%.200s': %.500s", uri, why.msg);
	f->made |= MADE_COPY;
	return 0;
}

/* On rank 0: 1 if data generation left a catalog there, otherwise 0. */
static int take_datagen_catalog(struct store *store, const struct run_data_options *o,
				struct data_source *f, struct shoal_err *err)
{
	const char *path_of = store_local_path(o->data), *data = path_of ? path_of : o->data;
	char path[sizeof(f->train)];
	struct store_stat st;
	struct stat is;
	int rc;

	if (store_stat(store, DATAGEN_CATALOG_NAME, &st, NULL) < 0 || st.is_dir)
		return 0;
	rc = snprintf(path, sizeof(path), "%s/%s", data, DATAGEN_CATALOG_NAME);
	if (rc >= (int)sizeof(path))
		return 0;
	if (!store_uri_traits(data).objects && stat(path, &is) < 0) /* a directory is listed */
		return 0;
	f->sealed = 1;
	if (store_uri_traits(data).objects) {
		rc = take_object(o, path, f, err);
		return rc < 0 ? rc : 1;
	}
	f->kind = KIND_CATALOG;
	memcpy(f->train, path, sizeof(path));
	return 1;
}

/* On rank 0: decide how to get the catalog of a directory or URI. */
static int choose_source(const struct workload *w, const struct run_data_options *o,
			 struct data_source *f, struct shoal_err *err)
{
	struct store *store = NULL;
	int rc = store_open(o->data, o->open.config, &store, err);

	if (rc < 0)
		return rc;
	f->kind = KIND_LISTED;
	rc = take_datagen_catalog(store, o, f, err);
	if (rc == 0 && !o->etags) {
		rc = probe_all(store, w, false, err);
		if (rc == 1)
			rc = probe_all(store, w, true, err);
		if (rc == 1)
			f->kind = KIND_COMPUTED;
	}
	store_close(store);
	return rc < 0 ? rc : 0;
}

/* On rank 0: 1 if --data names a catalog, in a file or an object; otherwise 0. */
static int take_given(const struct run_data_options *o, struct data_source *f,
		      struct shoal_err *err)
{
	struct stat st;
	int rc;

	if (store_uri_traits(o->data).objects) {
		rc = transfer_is_object(o->data, o->open.config, o->stop, err);
		if (rc <= 0)
			return rc;
		rc = take_object(o, o->data, f, err);
		return rc < 0 ? rc : 1;
	}
	if (stat(o->data, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	f->kind = KIND_CATALOG;
	if (snprintf(f->train, sizeof(f->train), "%s", o->data) >= (int)sizeof(f->train))
		return err_set(err, -ENAMETOOLONG, "the path is too long");
	return 1;
}

/* On rank 0: write the catalogs of computed names. */
static int compute_catalogs(const struct workload *w, const struct run_data_options *o,
			    struct data_source *f, struct shoal_err *err)
{
	int rc = write_computed(w, false, o, f->train, err);

	if (rc < 0)
		return rc;
	f->made |= MADE_TRAIN;
	if (w->dataset.nr_files_eval == 0)
		return 0;
	rc = run_file_path(o->folder, RUN_FILE_EVAL_CATALOG, f->eval, err);
	if (rc == 0)
		rc = write_computed(w, true, o, f->eval, err);
	if (rc == 0)
		f->made |= MADE_VALID;
	return rc;
}

static int find_data(const struct workload *w, const struct run_data_options *o,
		     struct data_source *f, struct shoal_err *err)
{
	struct stat st;
	int rc = run_file_path(o->folder, RUN_FILE_TRAIN_CATALOG, f->train, err);

	if (rc < 0)
		return rc;
	if (o->reuse && stat(f->train, &st) == 0) {
		f->kind = KIND_CATALOG;
		f->kept = 1;
		rc = run_file_path(o->folder, RUN_FILE_EVAL_CATALOG, f->eval, err);
		if (stat(f->eval, &st) < 0)
			f->eval[0] = '\0';
	} else if (!o->data) {
		f->kind = KIND_COMPUTED;
	} else {
		rc = take_given(o, f, err);
		if (rc == 0)
			rc = choose_source(w, o, f, err);
		else if (rc > 0)
			rc = 0;
	}
	if (rc == 0 && f->kind != KIND_CATALOG)
		f->kept = 1;
	return rc == 0 && f->kind == KIND_COMPUTED ? compute_catalogs(w, o, f, err) : rc;
}

#define PATTERN_MAX 128u /* of an extension: each letter takes four bytes */

/* "*.[jJ][pP][gG]" */
static void any_case(const char *ending, char *buf, size_t cap)
{
	size_t at = (size_t)snprintf(buf, cap, "*.");

	for (; *ending && at + 5 < cap; ending++) {
		if (isalpha((unsigned char)*ending))
			at += (size_t)snprintf(buf + at, cap - at, "[%c%c]", *ending,
					       toupper((unsigned char)*ending));
		else
			at += (size_t)snprintf(buf + at, cap - at, "%c", *ending);
	}
	assert(!*ending); /* a truncated pattern would match nothing */
}

/* Whether the samples that were found are those of the workload. In arrays that DLIO has made they
 * are the last dimension, and interleaved. */
static bool listed_as_they_lie(const struct workload *w, const struct shoal_index_result *r)
{
	bool array = w->dataset.format == WORKLOAD_NPZ || w->dataset.format == WORKLOAD_NPY;

	if (array && r->nr_samples != r->nr_names * w->dataset.samples_per_file)
		return false;
	return r->nr_uncut == 0 || workload_rows_together(w) > 1;
}

/* Collective. */
static int list_data(struct comm *comm, const struct workload *w, const struct run_data_options *o,
		     const char *path, struct shoal_err *err)
{
	struct shoal_index_options io = {
		.output = path,
		.config = o->open.config,
		.samples_per_file = workload_has_extents(w) ? 0 : w->dataset.samples_per_file,
		.samples = workload_has_extents(w) ? "auto" : NULL,
		.stop = o->stop,
		.progress = comm_place(comm)->rank == 0 ? o->progress : NULL,
		.self = o->self
	};
	struct shoal_index_result result = { 0 };
	char patterns[RUN_ENDINGS_MAX][PATTERN_MAX];
	const char *include[RUN_ENDINGS_MAX];
	struct shoal_tree_options tree = { .include = include, .etags = o->etags };
	int rc;

	/* Only files of the format: side files and notes may lie next to them. */
	for (; w->dataset.format != WORKLOAD_SYNTHETIC && tree.nr_include < RUN_ENDINGS_MAX &&
	       run_endings[w->dataset.format][tree.nr_include];
	     tree.nr_include++) {
		any_case(run_endings[w->dataset.format][tree.nr_include], patterns[tree.nr_include],
			 sizeof(patterns[0]));
		include[tree.nr_include] = patterns[tree.nr_include];
	}
	if (comm_place(comm)->rank == 0)
		data_say(o, o->etags ? "there is no catalog: listing names and ETags"
				     : "there is no catalog, and the names are not the workload's: "
				       "listing them");
	rc = index_tree(comm, o->data, &tree, &io, &result, err);
	if (rc < 0 || !io.samples || listed_as_they_lie(w, &result))
		return rc;
	if (comm_place(comm)->rank == 0)
		data_say(o, "the samples inside files are not contiguous: reading equal parts "
			    "of files instead");
	io.samples = NULL;
	io.samples_per_file = w->dataset.samples_per_file;
	return index_tree(comm, o->data, &tree, &io, &result, err);
}

/* ---- Opening ---- */

/* A larger relative difference between the workload's record length and the files' is reported. */
#define SIZE_DIFFERS 0.01

static void note_sizes(const struct run_data *d, const struct workload *w,
		       const struct run_data_options *o)
{
	double mean = d->train.bytes / (double)d->train.nr_rows;
	char words[300];

	if (o->synthetic || d->train.bytes <= 0 ||
	    fabs(mean - w->dataset.record_bytes) <= SIZE_DIFFERS * w->dataset.record_bytes)
		return;
	snprintf(
		words, sizeof(words),
		"samples have %.0f bytes here, but dataset.record_length_bytes is %.15g: MB/s at the "
		"nominal size, as DLIO counts, is by the latter",
		mean, w->dataset.record_bytes);
	data_say(o, words);
}

static int open_one(const struct run_data_options *o, const char *path,
		    struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct shoal_err words = { "" };
	int rc = shoal_catalog_open_with(path, &o->open, ret_cat, &words);

	if (rc < 0)
		return err_set_as(err, rc, &words, "%s", words.msg);
	if (*words.msg) /* its copy was made again */
		data_say(o, words.msg);
	return 0;
}

static int open_data_parts(struct run_data *d, const struct workload *w,
			   const struct run_data_options *o, const struct data_source *f,
			   struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc = open_one(o, f->train, &d->cat, err);

	if (rc == 0 && f->eval[0])
		rc = open_one(o, f->eval, &d->cat_eval, err);
	if (rc < 0) {
		struct shoal_err why = *err;

		return err_set_as(err, rc, &why, "'%.200s': %.500s",
				  f->from[0] ? f->from : f->train, why.msg);
	}
	shoal_catalog_info(d->cat, &info);
	if (f->kind == KIND_CATALOG && info.nr_files == 0)
		return err_set(err, -ENODATA,
			       "the catalog '%.300s' lists no files: index a directory that has "
			       "some, or choose other data",
			       f->from[0] ? f->from : f->train);
	rc = run_choose_range(d->cat, "train", true, &d->train, err);
	if (rc == 0)
		rc = run_choose_files(&d->train, w, w->dataset.nr_files_train, "num_files_train",
				      err);
	if (rc == 0)
		run_measure_part(&d->train);
	if (rc < 0 || !w->workflow.evaluation || w->dataset.nr_files_eval == 0)
		return rc;
	rc = run_choose_range(d->cat_eval ? d->cat_eval : d->cat, "valid", false, &d->eval, err);
	return rc < 0 ? rc
		      : run_choose_files(&d->eval, w, w->dataset.nr_files_eval, "num_files_eval",
					 err);
}

static void describe_data(struct run_data *d, const struct run_data_options *o,
			  const struct data_source *f)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(d->cat, &info);
	snprintf(d->root, sizeof(d->root), "%s", info.root);
	if (f->kind == KIND_CATALOG)
		snprintf(d->how, sizeof(d->how), "the catalog '%.900s'",
			 f->from[0] ? f->from : f->train);
	else if (f->kind == KIND_LISTED)
		snprintf(d->how, sizeof(d->how),
			 "listed for this run; '%.900s' can be given as the data next time",
			 f->train);
	else if (!o->data)
		snprintf(d->how, sizeof(d->how), "computed names, none of which was checked");
	else
		snprintf(d->how, sizeof(d->how), "computed names, of which up to %u were checked",
			 RUN_PROBES);
}

int run_data_open(struct run_data *d, struct comm *comm, const struct workload *w,
		  const struct run_data_options *o, struct shoal_err *err)
{
	struct data_source f = { 0 };
	struct shoal_err own = { "" };
	int rc = 0;

	err = err ? err : &own;
	*d = (struct run_data){ 0 };
	if (comm_place(comm)->rank == 0) {
		rc = find_data(w, o, &f, err);
		d->made = (unsigned)f.made;
	}
	if (rc < 0) {
		comm_fail(comm, err);
		return rc;
	}
	rc = comm_broadcast(comm, 0, &f, sizeof(f), err);
	if (rc == 0 && f.kind == KIND_LISTED) {
		rc = list_data(comm, w, o, f.train, err);
		if (rc == 0 && comm_place(comm)->rank == 0)
			d->made |= MADE_TRAIN;
	}
	if (rc < 0)
		return rc;
	rc = open_data_parts(d, w, o, &f, err);
	if (rc < 0) {
		comm_fail(comm, err);
		run_data_close(d);
		return rc;
	}
	d->kept = f.kept != 0;
	/* A catalog that is stored with its files may have moved with them. */
	if (f.sealed)
		d->store = o->data;
	describe_data(d, o, &f);
	if (comm_place(comm)->rank == 0) {
		data_say(o, d->how);
		note_sizes(d, w, o);
	}
	return 0;
}

void run_data_name(const char *data, char buf[RUN_DATA_NAME])
{
	char *real;

	if (data && store_local_path(data))
		data = store_local_path(data);
	real = data && !store_uri_traits(data).objects ? realpath(data, NULL) : NULL;
	snprintf(buf, RUN_DATA_NAME, "%s", real ? real : data ? data : "");
	free(real);
}

void run_data_forget(struct run_data *d, const char *folder)
{
	char path[RUN_PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(made_files); i++)
		if ((d->made & 1u << i) != 0 &&
		    run_file_path(folder, made_files[i], path, NULL) == 0)
			(void)!unlink(path);
	d->made = 0;
}

void run_data_close(struct run_data *d)
{
	d->cat = shoal_catalog_close(d->cat);
	d->cat_eval = shoal_catalog_close(d->cat_eval);
}
