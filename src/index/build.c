#include "index/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/publish.h"
#include "catalog/writer.h"

/*
 * What is not the sorter's: the writer's chunk, values and buffers, stacks, and the libraries. With
 * 100 million names and 256 MiB the whole process was seen to take 232 MiB.
 */
#define OVERHEAD (UINT64_C(32) << 20)

/* A thread that lists, with its buffers (of the store 369 KB, for sorting 96, a unit 60) and its
 * stack; and what the sorter is left in any case, together with what waits (below). */
#define THREAD_BYTES (UINT64_C(640) << 10)
#define SORTER_LEAST (UINT64_C(4) << 20)

/* Of the sorter's memory, what is kept for entries that wait for a slow directory before them. */
#define NEXT_SHARE 8u

/* Where runs go: beside the catalog, or on a rank whose node does not have that, to the usual
 * place. */
static char *choose_tmp_dir(const struct shoal_index_options *o, bool elsewhere)
{
	const char *usual = getenv("TMPDIR");
	char *dir = o->tmp_dir ? strdup(o->tmp_dir) : shoal_dir_of(o->output);

	if (!dir || o->tmp_dir || !elsewhere || access(dir, W_OK | X_OK) == 0)
		return dir;
	free(dir);
	return strdup(usual && *usual ? usual : "/tmp");
}

/* A thread sorts ten million names a second: less than many cores list. */
static unsigned threads_to_sort(const struct index_build_spec *spec)
{
	uint64_t most = spec->threads ? spec->threads / 4 : SHOAL_SORTER_THREADS_MAX;

	return (unsigned)shoal_min(most, shoal_nr_cores() / 4);
}

static int make_sorter(struct index_build *b, const struct index_build_spec *spec,
		       struct shoal_err *err)
{
	const struct shoal_index_options *o = b->options;
	struct shoal_sorter_options so = { .memory = b->memory,
					   .stop = o->stop,
					   .nr_threads = threads_to_sort(spec) };
	struct stat st;
	int rc;

	b->tmp_dir = choose_tmp_dir(o, spec->no_writer);
	if (!b->tmp_dir)
		return shoal_fail(err, -ENOMEM, "out of memory");
	if (o->tmp_dir && stat(o->tmp_dir, &st) == 0 && !S_ISDIR(st.st_mode))
		return shoal_fail(err, -ENOTDIR,
				  "cannot put temporary files into '%s': it is not a directory",
				  o->tmp_dir);
	if (o->tmp_dir && access(o->tmp_dir, W_OK | X_OK) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot put temporary files into '%s'",
					o->tmp_dir);
	so.tmp_dir = b->tmp_dir;
	if (spec->resume) {
		rc = index_resume_open(spec->resume, spec->resume_job, err);
		if (rc < 0)
			return rc;
		so.spill = &spec->resume->spill;
		so.tmp_dir = spec->resume->runs_path; /* for words */
	}
	return shoal_sorter_new(&so, &b->sorter, err);
}

int index_build_start(struct index_build *b, const struct shoal_index_options *options,
		      const struct index_build_spec *spec, struct shoal_err *err)
{
	struct shoal_writer_options wo = {
		.root = spec->root,
		.sizes = spec->sizes,
		.samples_per_file = spec->samples               ? 0
				    : options->samples_per_file ? options->samples_per_file
								: 1,
		.tmp_dir = options->tmp_dir,
		.listing = spec->listing,
		.etags = spec->etags,
	};
	uint64_t memory = spec->memory      ? spec->memory
			  : options->memory ? options->memory
					    : SHOAL_INDEX_MEMORY;
	uint64_t threads;
	int rc = 0;

	*b = (struct index_build){ .options = options };
	if (memory < SHOAL_INDEX_MEMORY_MIN)
		return shoal_fail(err, -EINVAL,
				  "%llu bytes of memory are too few: give 48M or more",
				  (unsigned long long)memory);
	threads = THREAD_BYTES * spec->threads;
	b->memory = (size_t)shoal_max(SORTER_LEAST,
				      memory - OVERHEAD - shoal_min(threads, memory - OVERHEAD));
	b->next_memory = spec->in_order ? b->memory / NEXT_SHARE : 0;
	b->memory -= b->next_memory;
	if (!spec->no_writer)
		rc = shoal_writer_open(options->output, &wo, &b->writer, err);
	if (rc == 0 && b->writer)
		b->digester = shoal_writer_digester(b->writer);
	if (rc == 0)
		rc = make_sorter(b, spec, err);
	if (rc < 0)
		index_build_release(b);
	return rc;
}

int index_build_add(struct index_build *b, const struct shoal_entry *entry, struct shoal_err *err)
{
	if ((++b->nr_added & 0xffff) == 0) {
		if (index_stopped(b->options->stop))
			return shoal_fail(err, -ECANCELED, "interrupted");
		if (b->options->progress)
			b->options->progress(b->options->self,
					     &(struct shoal_index_progress){
						     .nr_names = b->nr_added, .where = "" });
	}
	return shoal_sorter_add(b->sorter, entry, err);
}

static int put(struct index_build *b, const struct shoal_entry *e, struct shoal_err *err)
{
	b->nr_put++;
	b->nr_odd += e->etag && !shoal_etag_is_kept(e->etag);
	return shoal_writer_add_sorted(b->writer, (const char *)e->name, e->len, e->size,
				       e->samples, e->etag, err);
}

int index_build_put_next(void *build, const struct shoal_entry *entry, struct shoal_err *err)
{
	struct index_build *b = build;

	cat_digester_add(&b->digester, entry->name, entry->len, entry->size, entry->samples);
	b->nr_next++;
	return put(b, entry, err);
}

/* What was put in order comes before all that was sorted, or the catalog would be damaged: worth a
 * look at the first. */
static int put_first_sorted(struct index_build *b, const struct shoal_entry *e,
			    struct shoal_err *err)
{
	int rc = shoal_writer_check_name(b->writer, (const char *)e->name, e->len, err);

	return rc < 0 ? rc : put(b, e, err);
}

static int tell(const struct index_build *b, struct shoal_err *err)
{
	const struct shoal_index_options *o = b->options;

	if (index_stopped(o->stop))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (o->progress)
		o->progress(o->self, &(struct shoal_index_progress){
					     .sealing = true, .nr_names = b->nr_put, .where = "" });
	return 0;
}

static int put_sorted(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct index_build *b = self;
	bool behind_others = b->nr_next > 0 && b->nr_put == b->nr_next;
	int rc = behind_others ? put_first_sorted(b, e, err) : put(b, e, err);

	return rc == 0 && (b->nr_put & 0xffff) == 0 ? tell(b, err) : rc;
}

int index_build_finish(struct index_build *b, struct shoal_index_result *ret_result,
		       struct shoal_err *err)
{
	struct shoal_writer *writer;
	uint64_t repeated = 0;
	int rc;

	rc = shoal_sorter_finish(b->sorter, put_sorted, b, &b->digester, &repeated, err);
	if (rc < 0)
		return rc;
	if (index_stopped(b->options->stop))
		return shoal_fail(err, -ECANCELED, "interrupted");
	b->sorter = shoal_sorter_free(b->sorter);
	writer = b->writer;
	b->writer = NULL; /* sealing frees it */
	shoal_writer_hand_in(writer, &b->digester);
	ret_result->nr_names = b->nr_put;
	ret_result->nr_odd_etags = b->nr_odd;
	ret_result->nr_repeated += repeated;
	return shoal_writer_seal(writer, err);
}

void index_build_release(struct index_build *b)
{
	b->sorter = shoal_sorter_free(b->sorter);
	b->writer = shoal_writer_abort(b->writer);
	free(b->tmp_dir);
	b->tmp_dir = NULL;
}
