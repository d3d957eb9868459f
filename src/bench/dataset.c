#include "bench/dataset.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "bench/datagen.h"
#include "index/tree.h"
#include "load/fetch.h"
#include "store/store.h"

/* Files looked at to see that names and sizes are what they should be. */
#define PROBES 64u

/* Catalogs that a start may put into the results folder: bits of struct bench_data's made. */
enum { MADE_TRAIN = 1, MADE_VALID = 2, MADE_COPY = 4 };
static const char *const made_names[] = { "train.shoal", "valid.shoal", BENCH_CATALOG_NAME };

enum kind {
	KIND_CATALOG,  /* given */
	KIND_COMPUTED, /* names follow from the workload */
	KIND_LISTED,
};

/* What rank 0 has found out, for all. */
struct finding {
	uint64_t kind;
	uint64_t sealed;              /* the catalog lies in the data folder */
	uint64_t kept, made;          /* see struct bench_data */
	char from[1024];              /* the object that train is a copy of, or "" */
	char train[4096], eval[4096]; /* paths of catalogs; eval "": in the same */
};

static void say(const struct bench_data_options *o, const char *words)
{
	if (o->say)
		o->say(o->self, words);
}

/* ---- Names that can be computed ---- */

static int probe(struct shoal_store *store, const struct bench_workload *w, bool valid, uint64_t id,
		 bool *ret_same_size, struct shoal_err *err)
{
	char name[BENCH_NAME_MAX];
	struct store_stat st;
	int rc = bench_file_name(w, valid, id, name, sizeof(name));

	if (rc >= 0)
		rc = store_stat(store, name, &st, err);
	if (rc == 0 && st.size != bench_file_size(w, valid, id))
		*ret_same_size = false;
	return rc < 0 ? rc : 0;
}

/*
 * 1 when the files have the names and sizes that the workload says: the first, the last and some
 * between were looked at. 0 when the first is not there, or sizes differ: then they must be listed.
 * An error when the first is there and others are not.
 */
static int probe_all(struct shoal_store *store, const struct bench_workload *w, bool valid,
		     struct shoal_err *err)
{
	uint64_t nr = bench_nr_files(w, valid), nr_probes = shoal_min(nr, PROBES);
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
			return shoal_fail(err, rc,
					  "the first file is there, but file %" PRIu64
					  " of %" PRIu64
					  " is not (%.300s): generate the rest (shoal datagen "
					  "--resume), or say how many there are "
					  "(dataset.num_files_train)",
					  id, nr, why.msg);
	}
	return same;
}

/* One at a time, in the order of names: where folders have several levels, or sizes differ. */
static int write_names(const struct bench_workload *w, bool valid,
		       const struct bench_data_options *o, const char *root, const char *path,
		       struct shoal_err *err)
{
	struct shoal_writer_options wo = { .root = root,
					   .sizes = true,
					   .samples_per_file = w->dataset.samples_per_file };
	struct shoal_writer *writer = NULL;
	uint64_t nr = bench_nr_files(w, valid), id = 0;
	char name[BENCH_NAME_MAX];
	int rc = shoal_writer_open(path, &wo, &writer, err);

	for (uint64_t i = 0; rc >= 0 && i < nr; i++) {
		rc = bench_file_at(w, valid, i, &id);
		if (rc == 0)
			rc = bench_file_name(w, valid, id, name, sizeof(name));
		if (rc < 0)
			shoal_say_errno(err, rc, "cannot name file %" PRIu64, i);
		else if (o->stop && __atomic_load_n(o->stop, __ATOMIC_RELAXED))
			rc = shoal_fail(err, -ECANCELED, "interrupted");
		else
			rc = shoal_writer_add(writer, name, (size_t)rc,
					      o->object_size ? o->object_size
							     : bench_file_size(w, valid, id),
					      0, err);
	}
	if (rc < 0) {
		shoal_writer_abort(writer);
		return rc;
	}
	return shoal_writer_seal(writer, err);
}

static int write_computed(const struct bench_workload *w, bool valid,
			  const struct bench_data_options *o, const char *path,
			  struct shoal_err *err)
{
	const struct bench_subfolders *sub =
		valid ? &w->dataset.subfolders_eval : &w->dataset.subfolders_train;
	const char *root = o->data ? o->data : "null:size=1T";
	struct shoal_pattern pattern = { .count = bench_nr_files(w, valid),
					 .subfolders = sub->nr_levels == 1 ? sub->nr : 0,
					 .size = o->object_size ? o->object_size
								: bench_file_size(w, valid, 0) };
	struct shoal_index_options io = { .output = path,
					  .root = root,
					  .samples_per_file = w->dataset.samples_per_file,
					  .stop = o->stop };
	struct shoal_index_result result;
	char format[BENCH_PATTERN_MAX];
	int rc;

	if (sub->nr_levels > 1 || (w->dataset.record_stdev > 0 && !o->object_size))
		return write_names(w, valid, o, root, path, err);
	rc = bench_file_pattern(w, valid, format, sizeof(format));
	if (rc < 0)
		return shoal_fail_errno(err, rc, "cannot name the first file");
	pattern.format = format;
	return shoal_index_pattern(&pattern, &io, &result, err);
}

/* ---- What there is ---- */

/*
 * Rank 0: copy a catalog out of its bucket to where all ranks look, so that those of a node map the
 * same pages.
 */
static int take_object(const struct bench_data_options *o, const char *uri, struct finding *f,
		       struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc;

	f->kind = KIND_CATALOG;
	snprintf(f->train, sizeof(f->train), "%s/%s", o->folder, BENCH_CATALOG_NAME);
	if (snprintf(f->from, sizeof(f->from), "%s", uri) >= (int)sizeof(f->from))
		return shoal_fail(err, -ENAMETOOLONG, "the path is too long");
	rc = load_get_file(uri, f->train, o->stop, &why);
	if (rc < 0)
		return shoal_fail(err, rc, "'%.200s': %.500s", uri, why.msg);
	f->made |= MADE_COPY;
	return 0;
}

/* Rank 0: 1 when there is a catalog that data generation has left there, 0 when not. */
static int take_sealed(struct shoal_store *store, const struct bench_data_options *o,
		       struct finding *f, struct shoal_err *err)
{
	const char *data = strncmp(o->data, "file://", 7) == 0 ? o->data + 7 : o->data;
	char path[sizeof(f->train)];
	struct store_stat st;
	struct stat is;
	int rc;

	if (store_stat(store, BENCH_CATALOG_NAME, &st, NULL) < 0 || st.is_dir)
		return 0;
	rc = snprintf(path, sizeof(path), "%s/%s", data, BENCH_CATALOG_NAME);
	if (rc >= (int)sizeof(path))
		return 0;
	if (!load_is_remote(data) && stat(path, &is) < 0) /* what is not a file is listed */
		return 0;
	f->sealed = 1;
	if (load_is_remote(data)) {
		rc = take_object(o, path, f, err);
		return rc < 0 ? rc : 1;
	}
	f->kind = KIND_CATALOG;
	memcpy(f->train, path, sizeof(path));
	return 1;
}

/* Rank 0: how to come by the catalog of a directory or URI. */
static int look(const struct bench_workload *w, const struct bench_data_options *o,
		struct finding *f, struct shoal_err *err)
{
	struct shoal_store *store = NULL;
	int rc = shoal_store_open(o->data, &store, err);

	if (rc < 0)
		return rc;
	f->kind = KIND_LISTED;
	rc = take_sealed(store, o, f, err);
	if (rc == 0 && !o->etags) {
		rc = probe_all(store, w, false, err);
		if (rc == 1)
			rc = probe_all(store, w, true, err);
		if (rc == 1)
			f->kind = KIND_COMPUTED;
	}
	shoal_store_close(store);
	return rc < 0 ? rc : 0;
}

/* Rank 0: 1 when the data is named by its catalog, which is a file or an object; 0 when not. */
static int take_given(const struct bench_data_options *o, struct finding *f, struct shoal_err *err)
{
	struct stat st;
	int rc;

	if (load_is_remote(o->data)) {
		rc = load_is_object(o->data, o->stop, err);
		if (rc <= 0)
			return rc;
		rc = take_object(o, o->data, f, err);
		return rc < 0 ? rc : 1;
	}
	if (stat(o->data, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	f->kind = KIND_CATALOG;
	if (snprintf(f->train, sizeof(f->train), "%s", o->data) >= (int)sizeof(f->train))
		return shoal_fail(err, -ENAMETOOLONG, "the path is too long");
	return 1;
}

/* Rank 0: the catalogs of names that follow from the workload. */
static int compute(const struct bench_workload *w, const struct bench_data_options *o,
		   struct finding *f, struct shoal_err *err)
{
	int rc = write_computed(w, false, o, f->train, err);

	if (rc < 0)
		return rc;
	f->made |= MADE_TRAIN;
	if (w->dataset.nr_files_eval == 0)
		return 0;
	snprintf(f->eval, sizeof(f->eval), "%s/valid.shoal", o->folder);
	rc = write_computed(w, true, o, f->eval, err);
	if (rc == 0)
		f->made |= MADE_VALID;
	return rc;
}

static int find(const struct bench_workload *w, const struct bench_data_options *o,
		struct finding *f, struct shoal_err *err)
{
	struct stat st;
	int rc = 0;

	if (snprintf(f->train, sizeof(f->train), "%s/train.shoal", o->folder) >=
	    (int)sizeof(f->train))
		return shoal_fail(err, -ENAMETOOLONG, "the path of the results is too long");
	if (o->reuse && stat(f->train, &st) == 0) {
		f->kind = KIND_CATALOG;
		f->kept = 1;
		snprintf(f->eval, sizeof(f->eval), "%s/valid.shoal", o->folder);
		if (stat(f->eval, &st) < 0)
			f->eval[0] = '\0';
	} else if (!o->data) {
		f->kind = KIND_COMPUTED;
	} else {
		rc = take_given(o, f, err);
		if (rc == 0)
			rc = look(w, o, f, err);
		else if (rc > 0)
			rc = 0;
	}
	if (rc == 0 && f->kind != KIND_CATALOG)
		f->kept = 1;
	return rc == 0 && f->kind == KIND_COMPUTED ? compute(w, o, f, err) : rc;
}

#define ENDINGS_MAX 2u
#define PATTERN_MAX 128u /* of an ending: each letter takes four */

/* What files of a format are called. */
static const char *const endings[][ENDINGS_MAX] = {
	[BENCH_TFRECORD] = { "tfrecord" },
	[BENCH_CSV] = { "csv" },
	[BENCH_NPZ] = { "npz" },
	[BENCH_NPY] = { "npy" },
	[BENCH_HDF5] = { "hdf5", "h5" },
	[BENCH_JPEG] = { "jpeg", "jpg" },
	[BENCH_PNG] = { "png" },
	[BENCH_INDEXED_BINARY] = { "indexed_binary" },
	[BENCH_MMAP_INDEXED_BINARY] = { "mmap_indexed_binary", "indexed_binary" },
	[BENCH_SYNTHETIC] = { "synthetic" },
};

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
	assert(!*ending); /* one that is cut would match nothing */
}

/* Collective. */
static int list(struct shoal_comm *comm, const struct bench_workload *w,
		const struct bench_data_options *o, const char *path, struct shoal_err *err)
{
	struct shoal_index_options io = { .output = path,
					  .samples_per_file = w->dataset.samples_per_file,
					  .stop = o->stop,
					  .progress = shoal_comm_place(comm)->rank == 0
							      ? o->progress
							      : NULL,
					  .self = o->self };
	struct shoal_index_result result;
	char patterns[ENDINGS_MAX][PATTERN_MAX];
	const char *include[ENDINGS_MAX];
	struct shoal_tree_options tree = { .include = include, .etags = o->etags };

	/* Only what the workload reads: beside containers lie their indexes, and people's notes. */
	for (; w->dataset.format != BENCH_SYNTHETIC && tree.nr_include < ENDINGS_MAX &&
	       endings[w->dataset.format][tree.nr_include];
	     tree.nr_include++) {
		any_case(endings[w->dataset.format][tree.nr_include], patterns[tree.nr_include],
			 sizeof(patterns[0]));
		include[tree.nr_include] = patterns[tree.nr_include];
	}
	if (shoal_comm_place(comm)->rank == 0)
		say(o, o->etags ? "there is no catalog: listing names and ETags"
				: "there is no catalog, and the names are not the workload's: "
				  "listing them");
	return index_tree(comm, o->data, &tree, &io, &result, err);
}

/* ---- What of it is read ---- */

/* The files below folder @name, or all of them when there is no such folder. */
static int range_of(const struct shoal_catalog *cat, const char *name, bool or_all,
		    struct bench_part *part, struct shoal_err *err)
{
	struct shoal_catalog_info info;
	uint64_t end = 0, count;
	char bound[32];
	int rc;

	shoal_catalog_info(cat, &info);
	snprintf(bound, sizeof(bound), "%s/", name);
	rc = shoal_catalog_lower_bound(cat, bound, strlen(bound), &part->first_file);
	bound[strlen(name)] = '/' + 1;
	if (rc == 0)
		rc = shoal_catalog_lower_bound(cat, bound, strlen(bound), &end);
	if (rc == 0 && end == part->first_file && or_all) {
		part->first_file = 0;
		end = info.nr_files;
	}
	part->cat = cat;
	part->nr_files = end - part->first_file;
	if (rc == 0)
		rc = shoal_catalog_samples(cat, part->first_file, &part->first_sample, &count);
	return rc < 0 ? shoal_catalog_explain(cat, rc, err) : 0;
}

/* The N of a name "..._of_N.jpeg"; 0 when it is another name. */
static uint64_t number_in(const char *name)
{
	const char *of = strstr(name, "_of_");
	uint64_t n = 0;

	while (of && strstr(of + 1, "_of_"))
		of = strstr(of + 1, "_of_");
	if (!of || shoal_parse_digits(of + 4, strspn(of + 4, "0123456789"), &n) < 0)
		return 0;
	return n;
}

static bool ending_fits(enum bench_format format, const char *ending)
{
	if (format == BENCH_SYNTHETIC)
		return true;
	for (size_t i = 0; i < ENDINGS_MAX && endings[format][i]; i++)
		if (strcasecmp(ending, endings[format][i]) == 0)
			return true;
	return false;
}

/* A name as this workload has them, but of a set of another size; one may read the first of it. */
static int check_set(const struct bench_workload *w, bool valid, const char *name, const char *last,
		     struct shoal_err *err)
{
	size_t len = strlen(w->dataset.file_prefix);
	uint64_t n = number_in(last), want = bench_nr_files(w, valid);

	if (!valid && w->dataset.nr_files_generated)
		want = w->dataset.nr_files_generated;
	if (n == 0 || n == want || strncmp(last, w->dataset.file_prefix, len) != 0 ||
	    last[len] != '_')
		return 0;
	return shoal_fail(err, -EINVAL,
			  "'%.200s' is of a set of %" PRIu64
			  " files, and the workload's has %" PRIu64 ": say dataset.%s=%" PRIu64
			  ", or name other data",
			  name, n, want, valid ? "num_files_eval" : "num_files_generated", n);
}

static int check_name(const struct bench_part *part, const struct bench_workload *w, bool valid,
		      uint64_t file, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1] = "";
	const char *last, *ending;
	int rc = shoal_catalog_name(part->cat, part->first_file + file, name);

	if (rc < 0)
		return shoal_catalog_explain(part->cat, rc, err);
	last = strrchr(name, '/');
	ending = strrchr(last ? last : name, '.');
	if (ending && !ending_fits(w->dataset.format, ending + 1))
		return shoal_fail(err, -EINVAL,
				  "the workload reads %s files, and one here is '%.200s': say "
				  "dataset.format=..., or name other data",
				  bench_format_name(w->dataset.format), name);
	return check_set(w, valid, name, last ? last + 1 : name, err);
}

/*
 * The first, the last and some between of the first @nr files. Of each the one behind as well:
 * where every file has an index beside it, even steps could meet no other.
 */
static int check_names(const struct bench_part *part, const struct bench_workload *w, bool valid,
		       uint64_t nr, struct shoal_err *err)
{
	uint64_t nr_probes = shoal_min(nr, PROBES);
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && i < nr_probes; i++) {
		uint64_t file =
			nr_probes == 1
				? 0
				: (uint64_t)((unsigned __int128)(nr - 1) * i / (nr_probes - 1));

		rc = check_name(part, w, valid, file, err);
		if (rc == 0 && file + 1 < nr)
			rc = check_name(part, w, valid, file + 1, err);
	}
	return rc;
}

/* Cut @part to the first @want files, after looking at some of them. */
static int take_files(struct bench_part *part, const struct bench_workload *w, uint64_t want,
		      const char *key, struct shoal_err *err)
{
	uint64_t end = 0, count = 0, n = 0;
	char name[SHOAL_NAME_MAX + 1] = "";
	struct shoal_catalog_info info;
	int rc = 0;

	shoal_catalog_info(part->cat, &info);
	if (part->nr_files > 0) {
		rc = shoal_catalog_name(part->cat, part->first_file, name);
		if (rc < 0)
			return shoal_catalog_explain(part->cat, rc, err);
		n = number_in(name);
		rc = 0;
	}
	/* Of fewer than it needs, how many there are says more than what they are called. */
	if (part->nr_files >= want)
		rc = check_names(part, w, strcmp(key, "num_files_eval") == 0, want, err);
	if (rc == 0 && part->nr_files == 0)
		rc = shoal_fail(err, -EINVAL,
				"the workload reads %s files, and there are none: say "
				"dataset.format=..., or name other data",
				bench_format_name(w->dataset.format));
	else if (rc == 0 && part->nr_files < want && n != 0 && n != want)
		rc = shoal_fail(err, -EINVAL,
				"the workload reads %" PRIu64 " file%s, and there are %" PRIu64
				" of a set of %" PRIu64 " ('%.200s'): say dataset.%s=%" PRIu64
				", or generate what it needs",
				want, shoal_plural(want), part->nr_files, n, name, key,
				part->nr_files);
	else if (rc == 0 && part->nr_files < want)
		rc = shoal_fail(err, -EINVAL,
				"the workload reads %" PRIu64 " file%s, and there are %" PRIu64
				": say dataset.%s=%" PRIu64 ", or generate the rest",
				want, shoal_plural(want), part->nr_files, key, part->nr_files);
	if (rc == 0 && info.samples_per_file != w->dataset.samples_per_file)
		rc = shoal_fail(
			err, -EINVAL,
			"the workload has %" PRIu64 " sample%s in a file, and the catalog %" PRIu64
			": index it again with --samples-per-file, or say "
			"dataset.num_samples_per_file=%" PRIu64,
			w->dataset.samples_per_file, shoal_plural(w->dataset.samples_per_file),
			info.samples_per_file, info.samples_per_file);
	if (rc < 0)
		return rc;
	part->nr_files = want;
	rc = shoal_catalog_samples(part->cat, part->first_file + want, &end, &count);
	part->nr_samples = end - part->first_sample;
	return rc < 0 ? shoal_catalog_explain(part->cat, rc, err) : 0;
}

/* Files whose sizes stand for all: looking at each would take seconds where there are millions. */
#define SIZES_LOOKED_AT 1024u

static void measure(struct bench_part *part)
{
	uint64_t nr = shoal_min(part->nr_files, SIZES_LOOKED_AT), size = 0;
	double sum = 0;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t file = (uint64_t)((unsigned __int128)part->nr_files * i / nr);

		if (shoal_catalog_size(part->cat, part->first_file + file, &size) < 0 ||
		    size == SHOAL_SIZE_UNKNOWN)
			return;
		sum += (double)size;
	}
	part->bytes = nr ? sum / (double)nr * (double)part->nr_files : 0;
}

/* More than this between the workload's record length and the files' is worth a word. */
#define SIZE_DIFFERS 0.01

static void note_sizes(const struct bench_data *d, const struct bench_workload *w,
		       const struct bench_data_options *o)
{
	double mean = d->train.bytes / (double)d->train.nr_samples;
	char words[300];

	if (o->made_up || d->train.bytes <= 0 ||
	    fabs(mean - w->dataset.record_bytes) <= SIZE_DIFFERS * w->dataset.record_bytes)
		return;
	snprintf(
		words, sizeof(words),
		"a sample has %.0f bytes here, and dataset.record_length_bytes is %.15g: MB/s at the "
		"nominal size, as DLIO counts, is by the latter",
		mean, w->dataset.record_bytes);
	say(o, words);
}

static int open_parts(struct bench_data *d, const struct bench_workload *w,
		      const struct bench_data_options *o, const struct finding *f,
		      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc = o->open(f->train, &d->cat, err);

	if (rc == 0 && f->eval[0])
		rc = o->open(f->eval, &d->cat_eval, err);
	if (rc < 0) {
		struct shoal_err why = *err;

		return shoal_fail(err, rc, "'%.200s': %.500s", f->from[0] ? f->from : f->train,
				  why.msg);
	}
	shoal_catalog_info(d->cat, &info);
	if (f->kind == KIND_CATALOG && info.nr_files == 0)
		return shoal_fail(err, -ENODATA,
				  "the catalog '%.300s' lists no files: index a place that has "
				  "some, or name other data",
				  f->from[0] ? f->from : f->train);
	rc = range_of(d->cat, "train", true, &d->train, err);
	if (rc == 0)
		rc = take_files(&d->train, w, w->dataset.nr_files_train, "num_files_train", err);
	if (rc == 0)
		measure(&d->train);
	if (rc < 0 || !w->workflow.evaluation || w->dataset.nr_files_eval == 0)
		return rc;
	rc = range_of(d->cat_eval ? d->cat_eval : d->cat, "valid", false, &d->eval, err);
	return rc < 0 ? rc
		      : take_files(&d->eval, w, w->dataset.nr_files_eval, "num_files_eval", err);
}

static void describe(struct bench_data *d, const struct bench_data_options *o,
		     const struct finding *f)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(d->cat, &info);
	snprintf(d->root, sizeof(d->root), "%s", info.root);
	if (f->kind == KIND_CATALOG)
		snprintf(d->how, sizeof(d->how), "the catalog '%.900s'",
			 f->from[0] ? f->from : f->train);
	else if (f->kind == KIND_LISTED)
		snprintf(d->how, sizeof(d->how),
			 "listed for this run: '%.900s', which --data takes next time", f->train);
	else if (!o->data)
		snprintf(d->how, sizeof(d->how), "computed names, which nobody has looked for");
	else
		snprintf(d->how, sizeof(d->how),
			 "computed names, of which up to %u were looked for and found", PROBES);
}

int bench_data_open(struct bench_data *d, struct shoal_comm *comm, const struct bench_workload *w,
		    const struct bench_data_options *o, struct shoal_err *err)
{
	struct finding f = { 0 };
	struct shoal_err own = { "" };
	int rc = 0;

	err = err ? err : &own;
	*d = (struct bench_data){ 0 };
	if (shoal_comm_place(comm)->rank == 0) {
		rc = find(w, o, &f, err);
		d->made = (unsigned)f.made;
	}
	if (rc < 0) {
		shoal_comm_fail(comm, err->msg);
		return rc;
	}
	rc = shoal_comm_broadcast(comm, 0, &f, sizeof(f), err);
	if (rc == 0 && f.kind == KIND_LISTED) {
		rc = list(comm, w, o, f.train, err);
		if (rc == 0 && shoal_comm_place(comm)->rank == 0)
			d->made |= MADE_TRAIN;
	}
	if (rc < 0)
		return rc;
	rc = open_parts(d, w, o, &f, err);
	if (rc < 0) {
		shoal_comm_fail(comm, err->msg);
		bench_data_close(d);
		return rc;
	}
	d->kept = f.kept != 0;
	/* A catalog that lies with its files may have moved with them. */
	if (f.sealed)
		d->store = o->data;
	describe(d, o, &f);
	if (shoal_comm_place(comm)->rank == 0) {
		say(o, d->how);
		note_sizes(d, w, o);
	}
	return 0;
}

void bench_data_name(const char *data, char buf[BENCH_DATA_NAME])
{
	char *real;

	if (data && strncmp(data, "file://", 7) == 0)
		data += 7;
	real = data && !load_is_remote(data) ? realpath(data, NULL) : NULL;
	snprintf(buf, BENCH_DATA_NAME, "%s", real ? real : data ? data : "");
	free(real);
}

void bench_data_forget(struct bench_data *d, const char *folder)
{
	char path[4096];

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(made_names); i++)
		if ((d->made & 1u << i) != 0 && snprintf(path, sizeof(path), "%s/%s", folder,
							 made_names[i]) < (int)sizeof(path))
			(void)!unlink(path);
	d->made = 0;
}

void bench_data_close(struct bench_data *d)
{
	d->cat = shoal_catalog_close(d->cat);
	d->cat_eval = shoal_catalog_close(d->cat_eval);
}
