/*
 * Packs in memory become a run on disk. With several threads each merges a range of the names into
 * pieces of the run, which lie where there is room in the file: their lengths are known only in the
 * end, because names are front-coded.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/publish.h"
#include "sort/merge.h"

/* How much of the file a thread claims at a time. The last of it stays a hole, which takes no space
 * on disk. */
#define EXTENT (8u << 20)

/* The most that may be written after a check whether there is room: an entry, and what is left of
 * a block before it. */
#define EXTENT_REST (2 * RUN_BLOCK)

#define SPILL_BUF (512u << 10)

/* Bytes of packs per range: less is not worth a thread. */
#define SPILL_LEAST (4u << 20)

#define SPILL_THREADS_MAX 16u

/* A range of names on its way into the file. */
struct spill_part {
	struct sort_run_writer writer; /* of the piece that is being written */
	struct out out;
	uint64_t *end;  /* of what is claimed; atomic */
	uint64_t limit; /* of the piece; 0: nothing is written yet */
	struct sort_runs pieces;
	size_t first_len;
	uint8_t first[SHOAL_NAME_MAX];
};

static int spill_check(const struct out *out, struct shoal_err *err)
{
	return out->rc < 0 ? spill_failed(err, out->rc, NULL) : 0;
}

static int end_piece(struct spill_part *p, struct shoal_err *err)
{
	struct sort_run piece = sort_run_end(&p->writer);

	out_flush(&p->out);
	if (p->pieces.nr == 0) {
		memcpy(p->first, p->writer.first, p->writer.first_len);
		p->first_len = p->writer.first_len;
	}
	return sort_runs_add(&p->pieces, &piece) < 0 ? err_set(err, -ENOMEM, "out of memory")
						     : spill_check(&p->out, err);
}

static int spill_next_piece(struct spill_part *p, struct shoal_err *err)
{
	int rc = p->limit ? end_piece(p, err) : 0;

	if (rc < 0)
		return rc;
	p->out.pos = __atomic_fetch_add(p->end, EXTENT, __ATOMIC_RELAXED);
	p->limit = p->out.pos + EXTENT;
	sort_run_start(&p->writer, &p->out);
	return 0;
}

static int spill_put(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct spill_part *p = self;
	int rc = 0;

	if (UNLIKELY(out_tell(&p->out) + EXTENT_REST > p->limit))
		rc = spill_next_piece(p, err);
	if (rc < 0)
		return rc;
	sort_run_put(&p->writer, e);
	return spill_check(&p->out, err);
}

static int spill_part_end(void *self, struct shoal_err *err)
{
	struct spill_part *p = self;

	return p->limit ? end_piece(p, err) : 0;
}

/* Join the pieces to one run. */
static int join_pieces(const struct sort_spill_job *job, const struct spill_part *part, unsigned nr,
		       struct shoal_err *err)
{
	const struct spill_part *first = NULL, *last = NULL;
	size_t before = job->runs->nr;
	size_t shared;

	for (unsigned i = 0; i < nr; i++) {
		for (size_t k = 0; k < part[i].pieces.nr; k++)
			if (sort_runs_add(job->runs, &part[i].pieces.run[k]) < 0)
				return err_set(err, -ENOMEM, "out of memory");
		if (part[i].pieces.nr > 0) {
			first = first ? first : &part[i];
			last = &part[i];
		}
	}
	if (!first)
		return 0;
	shared = name_shared(first->first, first->first_len, last->writer.last,
			     last->writer.last_len);
	for (size_t i = before; i < job->runs->nr; i++) {
		job->runs->run[i].shared = (uint32_t)shared;
		job->runs->run[i].more = i + 1 < job->runs->nr;
	}
	return 0;
}

static int spill_ranges(const struct sort_spill_job *job, const struct pack *packs,
			uint32_t nr_packs, struct spill_part *part, unsigned nr,
			struct shoal_err *err)
{
	struct sort_merge_job merge = { .repeated = job->repeated,
					.stop = job->stop,
					.order_len = job->order_len };
	struct sort_part to[SPILL_THREADS_MAX] = { 0 };
	uint64_t end = out_tell(job->out);
	int rc = 0;

	assert(nr <= SPILL_THREADS_MAX && job->out->fill == 0);
	for (unsigned i = 0; i < nr; i++) {
		part[i].end = &end;
		to[i] = (struct sort_part){ .take = spill_put,
					    .end = spill_part_end,
					    .self = &part[i] };
		rc = err_first(rc, out_init(&part[i].out, job->out->fd, 0, SPILL_BUF));
	}
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	rc = sort_merge_ranges(&merge, packs, nr_packs, to, nr, /* range_memory= */ 0, err);
	job->out->pos = end;
	return rc == 0 ? join_pieces(job, part, nr, err) : rc;
}

static int put_alone(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct sort_run_writer *w = self;

	sort_run_put(w, e);
	return spill_check(w->out, err);
}

/* On the calling thread, into one piece. */
static int spill_alone(const struct sort_spill_job *job, const struct pack *packs, uint32_t nr,
		       struct shoal_err *err)
{
	struct tournament t;
	struct sort_run_writer w;
	struct sort_run run;
	int rc = tournament_of_packs(&t, packs, nr);

	for (uint32_t i = 0; i < nr; i++)
		*job->repeated += packs[i].repeated;
	t.order_len = job->order_len;
	sort_run_start(&w, job->out);
	rc = rc < 0 ? err_set(err, rc, "out of memory")
		    : tournament_play(&t, job->stop, job->repeated, put_alone, &w, err);
	tournament_release(&t);
	out_flush(job->out);
	if (rc == 0)
		rc = spill_check(job->out, err);
	if (rc < 0)
		return rc;
	run = sort_run_end(&w);
	if (run.len > 0)
		rc = sort_runs_add(job->runs, &run);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

int sort_spill(const struct sort_spill_job *job, const struct pack *packs, uint32_t nr,
	       struct shoal_err *err)
{
	struct spill_part *part;
	uint64_t bytes = 0;
	unsigned ranges;
	int rc;

	for (uint32_t i = 0; i < nr; i++)
		bytes += packs[i].len;
	ranges =
		(unsigned)u64_min(u64_min(job->nr_threads, SPILL_THREADS_MAX), bytes / SPILL_LEAST);
	part = ranges > 1 ? calloc(ranges, sizeof(*part)) : NULL;
	if (!part)
		return spill_alone(job, packs, nr, err);
	rc = spill_ranges(job, packs, nr, part, ranges, err);
	for (unsigned i = 0; i < ranges; i++) {
		out_release(&part[i].out);
		sort_runs_release(&part[i].pieces);
	}
	free(part);
	return rc;
}
