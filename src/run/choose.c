#include "run/choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "base/text.h"

const char *const run_endings[][RUN_ENDINGS_MAX] = {
	[WORKLOAD_TFRECORD] = { "tfrecord" },
	[WORKLOAD_CSV] = { "csv" },
	[WORKLOAD_NPZ] = { "npz" },
	[WORKLOAD_NPY] = { "npy" },
	[WORKLOAD_HDF5] = { "hdf5", "h5" },
	[WORKLOAD_JPEG] = { "jpeg", "jpg" },
	[WORKLOAD_PNG] = { "png" },
	[WORKLOAD_INDEXED_BINARY] = { "indexed_binary" },
	[WORKLOAD_MMAP_INDEXED_BINARY] = { "mmap_indexed_binary", "indexed_binary" },
	[WORKLOAD_SYNTHETIC] = { "synthetic" },
	[WORKLOAD_PARQUET] = { "parquet", "parq" },
	[WORKLOAD_ARROW] = { "arrow", "feather" },
	[WORKLOAD_TAR] = { "tar" },
};

uint64_t run_samples_in_file(const struct workload *w)
{
	uint64_t rows = workload_rows_together(w);

	return (w->dataset.samples_per_file + rows - 1) / rows;
}

int run_choose_range(const struct shoal_catalog *cat, const char *name, bool or_all,
		     struct run_data_part *part, struct shoal_err *err)
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

/* The N of a name "..._of_N.jpeg"; 0 for other names. */
static uint64_t number_in(const char *name)
{
	const char *of = strstr(name, "_of_");
	uint64_t n = 0;

	while (of && strstr(of + 1, "_of_"))
		of = strstr(of + 1, "_of_");
	if (!of || parse_digits(of + 4, strspn(of + 4, "0123456789"), &n) < 0)
		return 0;
	return n;
}

static bool ending_fits(enum workload_format format, const char *ending)
{
	if (format == WORKLOAD_SYNTHETIC)
		return true;
	for (size_t i = 0; i < RUN_ENDINGS_MAX && run_endings[format][i]; i++)
		if (strcasecmp(ending, run_endings[format][i]) == 0)
			return true;
	return false;
}

/*
 * Check for a name of this workload's form but from a dataset of another size. A part of a larger
 * dataset may be read.
 */
static int check_set(const struct workload *w, bool valid, const char *name, const char *last,
		     struct shoal_err *err)
{
	size_t len = strlen(w->dataset.file_prefix);
	uint64_t n = number_in(last), want = workload_nr_files(w, valid);

	if (!valid && w->dataset.nr_files_generated)
		want = w->dataset.nr_files_generated;
	if (n == 0 || n == want || strncmp(last, w->dataset.file_prefix, len) != 0 ||
	    last[len] != '_')
		return 0;
	return err_set(err, -EINVAL,
		       "'%.200s' belongs to a set of %" PRIu64
		       " files, but the workload has %" PRIu64 ": set dataset.%s=%" PRIu64
		       ", or choose other data",
		       name, n, want, valid ? "num_files_eval" : "num_files_generated", n);
}

static int data_check_name(const struct run_data_part *part, const struct workload *w, bool valid,
			   uint64_t file, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1] = "";
	const char *ending;
	int rc = shoal_catalog_name(part->cat, part->first_file + file, name);

	if (rc < 0)
		return shoal_catalog_explain(part->cat, rc, err);
	ending = strrchr(path_base(name), '.');
	if (ending && !ending_fits(w->dataset.format, ending + 1))
		return err_set(err, -EINVAL,
			       "the workload reads %s files, but one here is '%.200s': set "
			       "dataset.format=..., or choose other data",
			       workload_format_name(w->dataset.format), name);
	return check_set(w, valid, name, path_base(name), err);
}

/*
 * Check the first, the last and some between of the first @nr files. Check the successor of each as
 * well: if every file has a side file, even steps could meet no other.
 */
static int data_check_names(const struct run_data_part *part, const struct workload *w, bool valid,
			    uint64_t nr, struct shoal_err *err)
{
	uint64_t nr_probes = u64_min(nr, RUN_PROBES);
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && i < nr_probes; i++) {
		uint64_t file =
			nr_probes == 1
				? 0
				: (uint64_t)((unsigned __int128)(nr - 1) * i / (nr_probes - 1));

		rc = data_check_name(part, w, valid, file, err);
		if (rc == 0 && file + 1 < nr)
			rc = data_check_name(part, w, valid, file + 1, err);
	}
	return rc;
}

/* The rows of the first file; all others are assumed to have as many. */
static int check_rows(const struct run_data_part *part, const struct workload *w,
		      struct shoal_err *err)
{
	uint64_t rows = 0, first, nr = 0;
	char name[SHOAL_NAME_MAX + 1] = "";
	struct shoal_extent e;
	int rc = shoal_catalog_samples(part->cat, part->first_file, &first, &nr);

	for (uint64_t i = 0; rc == 0 && i < nr; i++) {
		rc = shoal_catalog_extent(part->cat, part->first_file, i, &e);
		rows += rc == 0 ? e.rows : 0;
	}
	if (rc == 0)
		rc = shoal_catalog_name(part->cat, part->first_file, name);
	if (rc < 0)
		return shoal_catalog_explain(part->cat, rc, err);
	if (rows == w->dataset.samples_per_file)
		return 0;
	return err_set(err, -EINVAL,
		       "the workload has %" PRIu64 " sample%s per file, but '%.200s' has %" PRIu64
		       ": set dataset.num_samples_per_file=%" PRIu64 ", or choose other data",
		       w->dataset.samples_per_file, plural(w->dataset.samples_per_file), name, rows,
		       rows);
}

int run_choose_files(struct run_data_part *part, const struct workload *w, uint64_t want,
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
	/* If there are too few files, their number is more useful than their names. */
	if (part->nr_files >= want)
		rc = data_check_names(part, w, strcmp(key, "num_files_eval") == 0, want, err);
	if (rc == 0 && part->nr_files == 0)
		rc = err_set(err, -EINVAL,
			     "the workload reads %s files, but there are none: set "
			     "dataset.format=..., or choose other data",
			     workload_format_name(w->dataset.format));
	else if (rc == 0 && part->nr_files < want && n != 0 && n != want)
		rc = err_set(err, -EINVAL,
			     "the workload reads %" PRIu64 " file%s, but there are %" PRIu64
			     " of a set of %" PRIu64 " ('%.200s'): set dataset.%s=%" PRIu64
			     ", or generate the files that it needs",
			     want, plural(want), part->nr_files, n, name, key, part->nr_files);
	else if (rc == 0 && part->nr_files < want)
		rc = err_set(err, -EINVAL,
			     "the workload reads %" PRIu64 " file%s, but there are %" PRIu64
			     ": set dataset.%s=%" PRIu64 ", or generate the rest",
			     want, plural(want), part->nr_files, key, part->nr_files);
	if (rc == 0 && info.extents)
		rc = check_rows(part, w, err);
	else if (rc == 0 && info.samples_per_file != run_samples_in_file(w))
		rc = err_set_hint(err, -EINVAL, SHOAL_HINT_SAMPLES_PER_FILE,
				  "the workload has %" PRIu64
				  " sample%s per file, but the catalog has %" PRIu64,
				  w->dataset.samples_per_file, plural(w->dataset.samples_per_file),
				  info.samples_per_file);
	if (rc < 0)
		return rc;
	part->nr_rows = want * w->dataset.samples_per_file;
	part->nr_files = want;
	rc = shoal_catalog_samples(part->cat, part->first_file + want, &end, &count);
	part->nr_samples = end - part->first_sample;
	return rc < 0 ? shoal_catalog_explain(part->cat, rc, err) : 0;
}

/* Files whose sizes are sampled: reading millions of sizes would take seconds. */
#define SIZES_LOOKED_AT 1024u

void run_measure_part(struct run_data_part *part)
{
	uint64_t nr = u64_min(part->nr_files, SIZES_LOOKED_AT), size = 0;
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
