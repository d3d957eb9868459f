#include "index/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/path.h"
#include "base/publish.h"
#include "index/inside.h"
#include "index/seal.h"
#include "index/tree.h"

/* Memory besides the sorter's: the writer's chunk, values and buffers, stacks, and the
 * libraries. With 100 million names and 256 MiB the whole process took 232 MiB. */
#define OVERHEAD (UINT64_C(32) << 20)

/*
 * Memory of a listing thread with its buffers (store 369 KB, directory 192 KB, found entries 80 KB,
 * unit 60 KB) and its stack; and the minimum left for the sorter, together with entries that wait
 * (below).
 */
#define THREAD_BYTES (UINT64_C(768) << 10)

/* The same of a thread that reads a list (block 1 MB, entries 40 KB), and of one that spills (512
 * KB); of the memory that is not fixed, they get at most a quarter. */
#define READER_BYTES  (UINT64_C(2) << 20)
#define READERS_SHARE 4u
#define SORTER_LEAST  (UINT64_C(4) << 20)

/*
 * The part of the sorter's memory that is reserved for entries that wait for a slow directory
 * before them.
 */
#define NEXT_SHARE 8u

/* The same for intervals: several connections list names far apart, and most entries would wait
 * in vain. */
#define NEXT_OF_RANGES (UINT64_C(1) << 20)

/* ---- Memory and threads ---- */

static uint64_t share_of_memory(const struct comm_place *place, const struct shoal_index_options *o)
{
	return (o->memory ? o->memory : SHOAL_INDEX_MEMORY) /
	       (uint64_t)(place ? place->node_size : 1);
}

bool index_tree_exceeds_memory(const struct comm_place *place,
			       const struct shoal_index_options *options)
{
	return place->node_size > 1 && share_of_memory(place, options) < SHOAL_INDEX_MEMORY_MIN;
}

/* This rank's part of the node's memory, or the minimum if that is more. */
static uint64_t memory_of_rank(const struct index_job *j)
{
	return j->place && index_tree_exceeds_memory(j->place, j->options)
		       ? SHOAL_INDEX_MEMORY_MIN
		       : share_of_memory(j->place, j->options);
}

static int divide_memory(struct index_job *j, struct shoal_err *err)
{
	uint64_t memory = memory_of_rank(j), threads;
	int rc;

	if (memory < SHOAL_INDEX_MEMORY_MIN) {
		rc = err_set(err, -EINVAL, "%llu bytes of memory are too few",
			     (unsigned long long)memory);
		err_hint(err, SHOAL_HINT_MORE_MEMORY, SHOAL_INDEX_MEMORY_MIN);
		return rc;
	}
	threads = (memory - OVERHEAD) / READERS_SHARE;
	j->nr_readers = (unsigned)u64_min(j->nr_readers, threads / READER_BYTES);
	if (j->nr_readers <= 1) { /* the job's own thread adds in the list's order */
		j->nr_readers = 0;
		j->order_len = 0;
	}
	threads = j->tree ? THREAD_BYTES * index_scan_threads(j) : READER_BYTES * j->nr_readers;
	j->memory = (size_t)u64_max(SORTER_LEAST,
				    memory - OVERHEAD - u64_min(threads, memory - OVERHEAD));
	j->next_memory = j->in_order ? j->memory / NEXT_SHARE : 0;
	if (j->in_order && !store_has_directories(j->store))
		j->next_memory = (size_t)u64_min(j->next_memory, NEXT_OF_RANGES);
	j->memory -= j->next_memory;
	return 0;
}

/* A thread sorts ten million names per second: less than many cores list. */
static unsigned threads_to_sort(const struct index_job *j)
{
	uint64_t most = j->tree ? index_scan_threads(j) / 4 : SORTER_THREADS_MAX;

	if (j->nr_readers > 1)
		return (unsigned)u64_max(1, cores_available() / 2);
	return (unsigned)u64_min(most, cores_available() / 4);
}

/* Where runs are written: beside the catalog or, on a rank whose node does not have that, to the
 * default directory. */
static char *choose_tmp_dir(const struct index_job *j)
{
	const struct shoal_index_options *o = j->options;
	char *dir = o->tmp_dir ? strdup(o->tmp_dir) : path_dir(o->output);

	if (!dir || o->tmp_dir || index_job_output(j) || access(dir, W_OK | X_OK) == 0)
		return dir;
	free(dir);
	return strdup(path_tmp_dir(NULL));
}

/* ---- Opening ---- */

static int open_sorter(struct index_job *j, struct shoal_err *err)
{
	const struct shoal_index_options *o = j->options;
	struct sorter_options so = { .memory = j->memory,
				     .stop = o->stop,
				     .nr_threads = threads_to_sort(j),
				     .nr_lanes = j->tree ? cores_available() : j->nr_readers,
				     .order_len = j->order_len };
	struct stat st;
	int rc;

	j->tmp_dir = choose_tmp_dir(j);
	if (!j->tmp_dir)
		return err_set(err, -ENOMEM, "out of memory");
	if (o->tmp_dir && stat(o->tmp_dir, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR,
			       "cannot write temporary files to '%s': it is not a directory",
			       o->tmp_dir);
	if (o->tmp_dir && access(o->tmp_dir, W_OK | X_OK) < 0)
		return err_set_errno(err, err_errno(), "cannot write temporary files to '%s'",
				     o->tmp_dir);
	so.tmp_dir = j->tmp_dir;
	if (j->tree && j->tree->resume) {
		rc = index_resume_open(&j->resume, j, err);
		if (rc < 0)
			return rc;
		so.spill = &j->resume.spill;
		so.tmp_dir = j->resume.runs_path; /* for words */
	}
	return sorter_new(&so, &j->sorter, err);
}

/* The catalog that is published. Names alone go to one without a name first, if files are opened.
 */
static int job_open_output(struct index_job *j, const struct shoal_writer_options *names,
			   struct shoal_err *err)
{
	struct shoal_writer_options wo = *names;

	if (!j->options->samples)
		return shoal_writer_open(j->options->output, &wo, &j->writer, err);
	wo.extents = true;
	wo.sizes = true; /* if the names have none, the files are asked */
	wo.samples_per_file = 0;
	return shoal_writer_open(j->options->output, &wo, &j->final, err);
}

static int job_open_names(struct index_job *j, const struct shoal_writer_options *names,
			  struct shoal_err *err)
{
	struct shoal_writer_options wo = *names;
	char *dir = choose_tmp_dir(j);
	int rc;

	wo.listing = NULL;
	wo.tmp_dir = dir;
	rc = dir ? shoal_writer_open(NULL, &wo, &j->writer, err)
		 : err_set(err, -ENOMEM, "out of memory");
	free(dir);
	return rc;
}

int index_job_open(struct index_job *j, bool sizes, bool samples, struct shoal_err *err)
{
	struct shoal_writer_options wo = {
		.root = j->root.uri,
		.sizes = sizes,
		.samples_per_file = samples ? 0 : index_job_samples(j),
		.tmp_dir = j->options->tmp_dir,
		.listing = j->tree ? "" : NULL, /* known when it is sealed */
		.etags = j->tree ? j->tree->etags : j->etags,
	};
	bool inside = j->options->samples, many = j->place && j->place->size > 1;
	int rc = divide_memory(j, err);

	j->writer_options = wo;
	if (rc == 0 && inside && j->tree && j->tree->no_sizes)
		rc = err_set(err, -EINVAL, "samples inside files need the sizes of files");
	if (rc == 0 && inside)
		rc = index_inside_check(j->options->samples, err);
	if (rc == 0 && (!j->place || j->place->rank == 0))
		rc = job_open_output(j, &wo, err);
	if (rc == 0 && inside && !many)
		rc = job_open_names(j, &wo, err);
	if (rc == 0 && j->writer)
		j->digester = writer_digester(j->writer);
	return rc < 0 ? rc : open_sorter(j, err);
}

void index_job_release(struct index_job *j)
{
	j->sorter = sorter_free(j->sorter);
	j->writer = shoal_writer_abort(j->writer);
	j->final = shoal_writer_abort(j->final);
	free(j->tmp_dir);
	j->tmp_dir = NULL;
	index_sample_release(&j->sample);
	index_update_release(&j->update);
	j->store = store_close(j->store);
	for (size_t i = 0; i < ARRAY_LEN(j->own); i++) {
		free(j->own[i]);
		j->own[i] = NULL;
	}
}

/* ---- Putting entries in ---- */

int index_job_add(struct index_job *j, const void *name, size_t len,
		  const struct index_record *record, struct shoal_err *err)
{
	uint8_t payload[INDEX_RECORD_MAX + 8];
	struct sort_entry e = { .name = name,
				.len = len,
				.payload = payload,
				.payload_len = index_record_put(record, payload) };

	if (j->order_len) { /* it comes before all that threads read */
		memset(payload + e.payload_len, 0, j->order_len);
		e.payload_len += j->order_len;
	}

	if ((++j->nr_added & 0xffff) == 0) {
		if (stop_requested(j->options->stop))
			return err_set(err, -ECANCELED, "interrupted");
		if (j->options->progress)
			j->options->progress(j->options->self, &(struct shoal_index_progress){
								       .nr_names = j->nr_added,
								       .where = "",
								       .nr_all = j->nr_all });
	}
	return sorter_add(j->sorter, &e, err);
}

static inline int job_put(struct index_job *j, const struct sort_entry *e,
			  const struct index_record *r, struct shoal_err *err)
{
	j->nr_put++;
	j->nr_unkept += r->etag && !etag_is_kept(r->etag);
	return writer_add_sorted(j->writer, (const char *)e->name, e->len, r->size, r->samples,
				 r->etag, err);
}

int index_job_put_next(void *job, const struct sort_entry *entry, struct shoal_err *err)
{
	struct index_job *j = job;
	struct index_record r = index_record_of(entry);
	int rc = 0;

	if (cat_digester_add(&j->digester, entry->name, entry->len, r.size, r.samples))
		rc = writer_cut(j->writer, err);
	j->nr_next++;
	return rc < 0 ? rc : job_put(j, entry, &r, err);
}

bool index_job_see_pack(void *job, const struct pack *pack, struct cat_digest *ret_digest)
{
	const struct index_job *j = job;
	struct cat_digester d = writer_digester(j->writer);
	const uint8_t *at = pack->bytes, *end = pack->bytes + pack->len;
	struct sort_entry e;

	while (at < end) {
		struct index_record r;

		at = pack_entry(at, &e);
		r = index_record_of(&e);
		if (cat_digester_add(&d, e.name, e.len, r.size, r.samples))
			return false;
	}
	*ret_digest = d.digest;
	return true;
}

/* Names that go to the writer together: they stay in the cache. */
#define PUT_AT_ONCE 64u

int index_job_put_pack(void *job, const uint8_t *at, const uint8_t *to,
		       const struct cat_digest *digest, struct shoal_err *err)
{
	struct index_job *j = job;
	struct writer_name name[PUT_AT_ONCE];
	int rc = 0;

	cat_digest_append(&j->digester.digest, digest);
	j->nr_next += digest->nr_files;
	j->nr_put += digest->nr_files;
	while (at < to && rc == 0) {
		size_t nr = 0;

		while (at < to && nr < PUT_AT_ONCE) {
			struct sort_entry e;
			struct index_record r;

			at = pack_entry(at, &e);
			r = index_record_of(&e);
			j->nr_unkept += r.etag && !etag_is_kept(r.etag);
			name[nr++] = (struct writer_name){ .name = e.name,
							   .len = e.len,
							   .size = r.size,
							   .samples = r.samples,
							   .etag = r.etag };
		}
		rc = writer_add_many_sorted(j->writer, name, nr, err);
	}
	return rc;
}

int index_job_report_sealing(const struct index_job *j, uint64_t nr_names, struct shoal_err *err)
{
	const struct shoal_index_options *o = j->options;
	int rc = j->comm ? index_exchange_check_peers(j->comm, err) : 0;

	if (rc < 0)
		return rc;
	if (stop_requested(o->stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (o->progress)
		o->progress(o->self, &(struct shoal_index_progress){ .sealing = true,
								     .nr_names = nr_names,
								     .where = "",
								     .nr_all = j->nr_all });
	return 0;
}

int index_job_cut(void *job, struct shoal_err *err)
{
	const struct index_job *j = job;

	return writer_cut(j->writer, err);
}

int index_job_put_sorted(void *job, const struct sort_entry *e, struct shoal_err *err)
{
	struct index_job *j = job;
	struct index_record r = index_record_of(e);
	int rc = 0;

	/* Entries put in order must come before all sorted ones, or the catalog would be damaged:
	 * check the first. */
	if (j->nr_next > 0 && j->nr_put == j->nr_next)
		rc = writer_check_name(j->writer, (const char *)e->name, e->len, err);
	if (rc == 0)
		rc = job_put(j, e, &r, err);
	return rc == 0 && (j->nr_put & 0xffff) == 0 ? index_job_report_sealing(j, j->nr_put, err)
						    : rc;
}

/* What earlier catalogs know of the files, and where to save what is found now. */
static int open_known(struct index_job *j, struct index_inside *in, struct index_known *known,
		      struct index_parts *parts, struct shoal_err *err)
{
	const struct index_resume *r = &j->resume;
	struct index_known_source old = { .cat = j->update.old, .started = j->update.started };
	int rc = 0;

	if (!j->tree)
		return 0;
	if (j->tree->update || (j->tree->resume && r->old_ranks > 0))
		in->known = known;
	if (j->update.knows_insides && index_known_add(known, &old) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0 && j->tree->resume) {
		*parts = (struct index_parts){ .options = { .root = j->root.uri,
							    .sizes = true,
							    .tmp_dir = j->tmp_dir,
							    .etags = j->tree->etags,
							    .extents = true },
					       .output = r->output,
					       .started = r->started,
					       .session = r->session,
					       .rank = r->rank };
		in->parts = parts;
		rc = index_parts_open(r->output, r->started, known, err);
	}
	index_known_sort(known);
	return rc;
}

int index_job_look_inside(struct index_job *j, struct shoal_writer *names, struct shoal_writer *to,
			  struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_inside in = { .options = j->options,
				   .store = j->store,
				   .tmp_dir = j->tmp_dir,
				   .regular = j->tree != NULL,
				   .keep_going = j->tree && j->tree->keep_going };
	struct index_known known = { .nr = 0 };
	struct index_parts parts = { .nr = 0 };
	struct shoal_catalog *cat = NULL;
	int fd = writer_seal_nameless(names, err), rc = fd < 0 ? fd : 0, flushed;

	if (rc == 0)
		rc = catalog_open_fd(fd, &cat, err);
	if (rc == 0 && !j->store) /* of a list */
		rc = store_open(j->root.uri, j->options->config, &j->store, err);
	in.store = j->store;
	if (rc == 0) {
		in.nr_threads = index_scan_threads(j);
		in.nr_cores = index_scan_cores(j);
	}
	if (rc == 0)
		rc = open_known(j, &in, &known, &parts, err);
	if (rc == 0)
		rc = index_inside_run(&in, cat, to, result, err);
	flushed = rc < 0 ? index_parts_flush(&parts, NULL) : 0; /* for the next run */
	(void)flushed;
	parts.writer = shoal_writer_abort(parts.writer);
	index_known_release(&known);
	shoal_catalog_close(cat);
	return rc;
}

int index_job_add_unreadable(struct index_job *j, uint64_t nr, struct shoal_err *err)
{
	char *text;
	int rc;

	if (nr == 0 || !j->tree || !index_job_output(j))
		return 0;
	j->provenance.nr_unreadable += nr;
	text = index_provenance_text(&j->provenance);
	rc = text ? writer_set_listing(index_job_output(j), text, err)
		  : err_set(err, -ENOMEM, "out of memory");
	free(text);
	return rc;
}

int index_job_finish(struct index_job *j, struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_writer *writer = j->writer;
	uint64_t repeated = 0;
	int rc;

	if (!j->tree)
		j->nr_all = j->nr_added;
	rc = index_seal_entries(j, &repeated, err);
	if (rc < 0)
		return rc;
	if (stop_requested(j->options->stop))
		return err_set(err, -ECANCELED, "interrupted");
	j->refused = j->nr_put == 0 && j->least > 0;
	if (j->refused)
		return err_set_hint(err, -ENOENT, SHOAL_HINT_REPLACE,
				    "there are no names to make a catalog of");
	if (j->nr_put < j->least)
		return output_permit(j->output, j->nr_put, err);
	j->sorter = sorter_free(j->sorter);
	j->writer = NULL; /* sealing frees it */
	result->nr_names = j->nr_put;
	result->nr_sealers = j->nr_sealers;
	result->nr_odd_etags = j->nr_unkept;
	result->nr_repeated += repeated;
	if (j->final) {
		uint64_t before = result->nr_unreadable;

		rc = index_job_look_inside(j, writer, j->final, result, err);
		if (rc == 0)
			rc = index_job_add_unreadable(j, result->nr_unreadable - before, err);
		if (rc < 0)
			return rc;
		writer = j->final;
		j->final = NULL;
	}
	return shoal_writer_seal(writer, err);
}
