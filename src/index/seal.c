#include "index/seal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/name.h"
#include "index/stretch.h"
#include "sort/merge.h"

/* Entries per range, in bytes: each range but the first is merged from its splitter on, but begins
 * only at the next cut, on average a million names later. */
#define RANGE_LEAST (128u << 20)

/* What a part's encoder and streams take: with names of 100 bytes 11 MB were seen. */
#define PART_MEMORY (12u << 20)

#define RANGES_MAX 64u

/* A range of names, on its way into a catalog. */
struct part {
	struct index_job *job;
	struct part *all; /* parts of the job */
	unsigned nr;      /* of them */
	struct shoal_writer *writer;
	struct cat_digester digester;
	struct index_stretches stretches; /* of a catalog that is updated */
	struct sort_range range;          /* begins and ends at the first cut from its names on */
	bool waiting;                     /* it has not begun */
	uint64_t *repeated;               /* what the merge has counted, */
	uint64_t repeated_last;           /* and had when it came to the last entry */
	uint64_t nr_put;                  /* read by the first part's thread, to report progress */
	uint64_t nr_unkept;
	int fd; /* of the sealed part; -1: there is none */
};

/* Cores for this rank's threads: the ranks of a node share them. */
static unsigned cores_for(const struct index_job *j)
{
	uint64_t ranks = j->place ? (uint64_t)j->place->node_size : 1;

	return (unsigned)u64_max(1, cores_available() / ranks);
}

/* ---- One range ---- */

/* Entries that were put in order must come before all sorted ones, or the catalog would be
 * damaged: check the first. */
static int seal_check_first(const struct part *p, const struct sort_entry *e, struct shoal_err *err)
{
	if (p != p->all || p->nr_put > 0 || p->job->nr_next == 0)
		return 0;
	return writer_check_name(p->writer, (const char *)e->name, e->len, err);
}

static uint64_t parts_put(const struct part *p)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < p->nr; i++)
		sum += __atomic_load_n(&p->all[i].nr_put, __ATOMIC_RELAXED);
	return sum;
}

static int part_put_stretch(struct part *p, const struct sort_entry *e, struct shoal_err *err)
{
	struct index_stretch stretch = index_stretch_of(e->payload);
	uint64_t before = p->stretches.nr_put;
	int rc = index_stretches_put(&p->stretches, &stretch, err);

	__atomic_store_n(&p->nr_put, p->nr_put + p->stretches.nr_put - before, __ATOMIC_RELAXED);
	return rc;
}

/* Put the stretch that is before entry @e, or what is left of it at the end (NULL). */
static int part_flush(struct part *p, const struct sort_entry *e, struct shoal_err *err)
{
	uint64_t before = p->stretches.nr_put;
	int rc = e ? index_stretches_before(&p->stretches, e->name, e->len, err)
		   : index_stretches_end(&p->stretches, err);

	__atomic_store_n(&p->nr_put, p->nr_put + p->stretches.nr_put - before, __ATOMIC_RELAXED);
	return rc;
}

static void part_begin(void *self, const struct sort_range *range, uint64_t *repeated)
{
	struct part *p = self;

	p->range = *range;
	p->waiting = range->from_len > 0;
	p->repeated = repeated;
}

/*
 * The catalog is cut before entry @e: the part may begin or end here. What was dropped of names of
 * other parts is counted by these.
 */
static int part_cut(struct part *p, const struct sort_entry *e, struct shoal_err *err)
{
	const struct sort_range *r = &p->range;

	if (r->to_len > 0 && name_compare(e->name, e->len, r->to, r->to_len) >= 0) {
		*p->repeated = p->waiting ? 0 : p->repeated_last;
		return SORT_ENOUGH;
	}
	if (p->waiting)
		*p->repeated -= p->repeated_last;
	p->waiting = false;
	return writer_cut(p->writer, err);
}

static int part_take(struct part *p, const struct sort_entry *e, const struct index_record *r,
		     struct shoal_err *err)
{
	int rc = writer_add_sorted(p->writer, (const char *)e->name, e->len, r->size, r->samples,
				   r->etag, err);

	p->nr_unkept += r->etag && !etag_is_kept(r->etag);
	__atomic_store_n(&p->nr_put, p->nr_put + 1, __ATOMIC_RELAXED);
	if (rc == 0 && p == p->all && (p->nr_put & 0xffff) == 0)
		rc = index_job_report_sealing(p->job, p->job->nr_put + parts_put(p), err);
	return rc;
}

/* Of an update, whose file depends on the old catalog: its parts begin where the ranges do. */
static int part_put_updated(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct part *p = self;
	struct index_record r;
	int rc;

	if (index_is_stretch(e))
		return part_put_stretch(p, e, err);
	r = index_record_of(e);
	rc = p->stretches.pending.nr ? part_flush(p, e, err) : seal_check_first(p, e, err);
	if (rc == 0 && cat_digester_add(&p->digester, e->name, e->len, r.size, r.samples))
		rc = writer_cut(p->writer, err);
	return rc < 0 ? rc : part_take(p, e, &r, err);
}

static int part_put(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct part *p = self;
	struct index_record r = index_record_of(e);
	struct cat_digest before = p->digester.digest;
	int rc = seal_check_first(p, e, err);

	if (rc == 0 && cat_digester_add(&p->digester, e->name, e->len, r.size, r.samples))
		rc = part_cut(p, e, err);
	if (p->waiting || rc != 0)
		p->digester.digest = before;
	p->repeated_last = *p->repeated;
	return p->waiting || rc != 0 ? rc : part_take(p, e, &r, err);
}

static int seal_part_end(void *self, struct shoal_err *err)
{
	struct part *p = self;
	int rc = part_flush(p, NULL, err);

	if (rc < 0)
		return rc;
	if (p->waiting) /* its names were another's */
		*p->repeated = 0;
	writer_add_packed(p->writer, &p->digester);
	if (p == p->all)
		return 0;
	p->fd = writer_seal_nameless(p->writer, err);
	p->writer = NULL;
	return p->fd < 0 ? p->fd : 0;
}

/* ---- All ranges ---- */

int index_append_part(struct shoal_writer *w, int fd, struct shoal_err *err)
{
	struct shoal_catalog *part = NULL;
	int rc = catalog_open_fd(fd, &part, err);

	if (rc == 0)
		rc = shoal_writer_append(w, part, err);
	shoal_catalog_close(part);
	return rc;
}

static int seal_open_parts(struct index_job *j, struct part *parts, struct sort_part *to,
			   unsigned nr, struct shoal_err *err)
{
	struct shoal_writer_options wo = j->writer_options;
	unsigned cores = cores_for(j);
	int rc = 0;

	wo.listing = NULL;
	wo.tmp_dir = j->tmp_dir;
	for (unsigned i = 0; i < nr && rc == 0; i++) {
		struct part *p = &parts[i];

		*p = (struct part){ .job = j, .all = parts, .nr = nr, .fd = -1 };
		to[i] = (struct sort_part){ .begin = j->update.old ? NULL : part_begin,
					    .take = j->update.old ? part_put_updated : part_put,
					    .end = seal_part_end,
					    .self = p };
		if (i == 0)
			p->writer = j->writer;
		else
			rc = shoal_writer_open(NULL, &wo, &p->writer, err);
		if (rc == 0 && i > 0)
			writer_set_part(p->writer);
		if (rc == 0)
			p->digester = i == 0 ? j->digester : writer_digester(p->writer);
		p->stretches =
			(struct index_stretches){ .old = j->update.old,
						  .path = j->update.path,
						  .writer = p->writer,
						  .digester = &p->digester,
						  .nr_threads = (unsigned)u64_max(1, cores / nr) };
	}
	return rc;
}

static int seal_join_parts(struct index_job *j, struct part *parts, unsigned nr,
			   struct shoal_err *err)
{
	int rc = 0;

	for (unsigned i = 0; i < nr && rc == 0; i++) {
		j->nr_put += parts[i].nr_put;
		j->nr_unkept += parts[i].nr_unkept;
		if (i == 0)
			continue;
		rc = index_append_part(j->writer, parts[i].fd, err);
		parts[i].fd = -1;
		if (rc == 0)
			rc = index_job_report_sealing(j, j->nr_put, err);
	}
	return rc;
}

static void release_parts(struct part *parts, unsigned nr)
{
	for (unsigned i = 1; i < nr; i++) {
		shoal_writer_abort(parts[i].writer);
		if (parts[i].fd >= 0)
			close(parts[i].fd);
	}
}

/* What is merged: the job's sorter, or runs in a file. */
struct seal_source {
	struct sort_merge_job *merge; /* NULL: */
	struct sorter *sorter;
	uint64_t *repeated;
};

static int merge_ranges(const struct seal_source *from, const struct sort_limits *limits,
			const struct sort_part *to, unsigned nr, struct shoal_err *err)
{
	if (from->merge)
		return sort_merge_ranges(from->merge, NULL, 0, to, nr, limits->range_memory, err);
	return sorter_finish_ranges(from->sorter, limits, to, nr, from->repeated, err);
}

static int seal_ranges(struct index_job *j, const struct seal_source *from,
		       const struct sort_limits *limits, unsigned nr, struct shoal_err *err)
{
	struct part *parts = calloc(nr, sizeof(*parts));
	struct sort_part *to = calloc(nr, sizeof(*to));
	int rc = parts && to ? seal_open_parts(j, parts, to, nr, err)
			     : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0)
		rc = merge_ranges(from, limits, to, nr, err);
	if (rc == 0) { /* the memory is needed to append, if there are ETags or many pages */
		j->sorter = sorter_free(j->sorter);
		rc = seal_join_parts(j, parts, nr, err);
	}
	if (parts)
		release_parts(parts, nr);
	free(parts);
	free(to);
	return rc;
}

/* By one range, which a thread merges and digests while the caller encodes. */
static int seal_whole(struct index_job *j, const struct seal_source *from, struct shoal_err *err)
{
	/* A copy: another thread writes the original, and sharing its cache line would be slow. */
	struct cat_digester digester = j->digester;
	struct sort_stage digest = { .see = index_record_digest,
				     .self = &digester,
				     .before = index_job_cut };
	int rc;

	if (from->merge) {
		from->merge->take = index_job_put_sorted;
		from->merge->self = j;
		from->merge->stage = &digest;
		rc = sort_merge(from->merge, err);
	} else {
		rc = sorter_finish(from->sorter, index_job_put_sorted, j, &digest, from->repeated,
				   err);
	}
	if (rc == 0)
		writer_add_packed(j->writer, &digester);
	return rc;
}

/* Stretches of an old catalog are digested by the thread that puts them. */
static int seal_from(struct index_job *j, const struct seal_source *from,
		     const struct sort_limits *limits, unsigned nr, struct shoal_err *err)
{
	j->nr_sealers = nr;
	return nr > 1 || j->update.old ? seal_ranges(j, from, limits, nr, err)
				       : seal_whole(j, from, err);
}

static struct sort_limits seal_limits(const struct index_job *j)
{
	if (j->seal_limits)
		return *j->seal_limits;
	return (struct sort_limits){ .nr_max = (unsigned)u64_min(RANGES_MAX, cores_for(j)),
				     .least = RANGE_LEAST,
				     .range_memory = PART_MEMORY };
}

int index_seal_entries(struct index_job *j, uint64_t *ret_repeated, struct shoal_err *err)
{
	struct seal_source from = { .sorter = j->sorter, .repeated = ret_repeated };
	struct sort_limits limits = seal_limits(j);
	int rc = sorter_end_input(j->sorter, err);

	return rc < 0 ? rc : seal_from(j, &from, &limits, sorter_ranges(j->sorter, &limits), err);
}

int index_seal_runs(struct index_job *j, struct sort_merge_job *merge, struct shoal_err *err)
{
	struct seal_source from = { .merge = merge };
	struct sort_limits limits = seal_limits(j);
	int rc = sort_merge_reduce(merge, err);

	return rc < 0 ? rc
		      : seal_from(j, &from, &limits, sort_merge_ranges_of(merge, NULL, 0, &limits),
				  err);
}
