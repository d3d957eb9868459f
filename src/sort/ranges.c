/*
 * The last pass by ranges of names. Splitters are taken from a sample of the names, so that the
 * ranges are about equal; every source is cut at them, runs by their blocks and packs by their
 * marks, and each range is merged by a thread of its own.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/name.h"
#include "base/queue.h"
#include "sort/merge.h"

/* Names in the sample per range: the ranges then differ by some 20 %. */
#define SAMPLE_PER_RANGE 64u

/* ---- How many ranges ---- */

static uint64_t ranges_bytes(const struct sort_merge_job *job, const struct pack *packs,
			     uint32_t nr)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += packs[i].len;
	for (size_t i = 0; !packs && i < job->runs->nr; i++)
		sum += job->runs->run[i].len;
	return sum;
}

/* What the buffers for all runs take at least, per range. */
static size_t least_buffers(const struct sort_merge_job *job, const struct pack *packs)
{
	return packs ? 0 : sort_runs_count(job->runs) * SORT_READ_MIN;
}

unsigned sort_merge_ranges_of(const struct sort_merge_job *job, const struct pack *packs,
			      uint32_t nr_packs, const struct sort_limits *limits)
{
	uint64_t nr = ranges_bytes(job, packs, nr_packs) / limits->least;
	size_t memory = limits->range_memory + least_buffers(job, packs);

	nr = u64_min(nr, limits->nr_max);
	return (unsigned)u64_max(1, u64_min(nr, job->memory_len / memory));
}

/* ---- Splitters ---- */

/* Names, some 64 per range: at most 4 KiB each, and usually 30 bytes. */
struct sample {
	struct sample_name {
		uint8_t *name;
		size_t len;
	} * name;
	size_t nr, cap;
};

static int sample_add(struct sample *s, const uint8_t *name, size_t len)
{
	uint8_t *copy;

	if (s->nr == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 256;
		struct sample_name *grown = realloc(s->name, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->name = grown;
		s->cap = cap;
	}
	copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len);
	s->name[s->nr].name = copy;
	s->name[s->nr].len = len;
	s->nr++;
	return 0;
}

static void sample_release(struct sample *s)
{
	for (size_t i = 0; i < s->nr; i++)
		free(s->name[i].name);
	free(s->name);
}

/* From every @step-th block on, whichever run it is in. */
static int sample_runs(struct sample *s, const struct sort_merge_job *job, uint64_t wanted)
{
	uint8_t name[SHOAL_NAME_MAX];
	uint64_t total = 0, step, skip = 0;

	for (size_t i = 0; i < job->runs->nr; i++)
		total += sort_run_blocks(&job->runs->run[i]);
	step = u64_max(1, total / wanted);
	for (size_t i = 0; i < job->runs->nr; i++) {
		uint64_t nr = sort_run_blocks(&job->runs->run[i]), at = skip;

		for (; at < nr; at += step) {
			int len = sort_run_name(job->fd, &job->runs->run[i], at, name);
			int rc = len < 0 ? len : sample_add(s, name, (size_t)len);

			if (rc < 0)
				return rc;
		}
		skip = at - nr;
	}
	return 0;
}

static int sample_packs(struct sample *s, const struct pack *packs, uint32_t nr, uint64_t wanted)
{
	uint64_t total = 0, step, skip = 0;

	for (uint32_t i = 0; i < nr; i++)
		total += packs[i].nr / PACK_MARK;
	step = u64_max(1, total / wanted);
	for (uint32_t i = 0; i < nr; i++) {
		/* A mark is where the entry after it starts, which need not exist. */
		uint64_t marks = packs[i].nr ? (packs[i].nr - 1) / PACK_MARK : 0, at = skip;

		for (; at < marks; at += step) {
			size_t len;
			const uint8_t *name = pack_name(packs[i].bytes + packs[i].mark[at], &len);
			int rc = sample_add(s, name, len);

			if (rc < 0)
				return rc;
		}
		skip = at - marks;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct sample_name *x = a, *y = b;

	return name_compare(x->name, x->len, y->name, y->len);
}

/* ---- One range ---- */

struct range_merge {
	const struct sort_merge_job *job;
	const struct pack *packs;
	uint32_t nr_packs;
	struct sort_range range;
	bool empty; /* instead of the range */
	const struct sort_part *part;
	uint8_t *memory;
	size_t memory_len;
	pthread_t thread;
	bool started;
	uint64_t repeated;
	int rc;
	struct shoal_err err;
};

static int begin_packs(const struct range_merge *m, struct tournament *t, struct pack *cut)
{
	for (uint32_t i = 0; i < m->nr_packs; i++) {
		const struct pack *p = &m->packs[i];
		const uint8_t *from = p->bytes, *to = p->bytes + p->len;

		if (m->range.from_len > 0)
			from = pack_split(p, from, m->range.from, m->range.from_len, false);
		if (m->range.to_len > 0)
			to = pack_split(p, from, m->range.to, m->range.to_len, false);
		cut[i] = *p;
		cut[i].bytes = from;
		cut[i].len = (size_t)(to - from);
	}
	return tournament_of_packs(t, cut, m->nr_packs);
}

static int begin_runs(const struct range_merge *m, struct tournament *t, struct sort_run *cut)
{
	const struct sort_runs *runs = m->job->runs;

	for (size_t i = 0; i < runs->nr; i++) {
		int rc = sort_run_narrow(m->job->fd, &runs->run[i], &m->range, &cut[i]);

		if (rc < 0)
			return rc;
	}
	return tournament_of_runs(t, m->job->fd, cut, (uint32_t)sort_runs_count(runs), &m->range,
				  m->memory, m->memory_len);
}

static int play_range(struct range_merge *m)
{
	size_t nr = m->packs ? m->nr_packs : m->job->runs->nr;
	struct tournament t = { 0 };
	int rc = -ENOMEM;
	void *cut;

	if (nr == 0 || m->empty)
		return 0;
	if (m->part->begin) {
		m->part->begin(m->part->self, &m->range, &m->repeated);
		m->range.to_len = 0;
	}
	cut = calloc(nr, u64_max(sizeof(struct pack), sizeof(struct sort_run)));
	if (cut)
		rc = m->packs ? begin_packs(m, &t, cut) : begin_runs(m, &t, cut);
	if (rc == -ENOMEM)
		err_set(&m->err, rc, "out of memory");
	else if (rc < 0)
		err_set_errno(&m->err, rc, "cannot read a temporary file back");
	t.order_len = m->job->order_len;
	t.strip_order = m->job->strip_order;
	if (rc == 0)
		rc = tournament_play(&t, m->job->stop, &m->repeated, m->part->take, m->part->self,
				     &m->err);
	if (rc == SORT_ENOUGH)
		rc = 0;
	tournament_release(&t);
	free(cut);
	return rc;
}

static void *range_thread(void *arg)
{
	struct range_merge *m = arg;

	m->rc = play_range(m);
	if (m->rc == 0 && m->part->end)
		m->rc = m->part->end(m->part->self, &m->err);
	return NULL;
}

/* ---- All ranges ---- */

static int choose_splitters(struct range_merge *m, unsigned nr, struct sample *sample,
			    struct shoal_err *err)
{
	uint64_t wanted = (uint64_t)nr * SAMPLE_PER_RANGE;
	int rc = m->packs ? sample_packs(sample, m->packs, m->nr_packs, wanted)
			  : sample_runs(sample, m->job, wanted);

	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (rc < 0)
		return err_set_errno(err, rc, "cannot read a temporary file back");
	for (unsigned i = 1; i < nr; i++) /* with few names everything is in the first range */
		m[i].empty = sample->nr == 0;
	if (sample->nr == 0)
		return 0;
	qsort(sample->name, sample->nr, sizeof(*sample->name), by_name);
	for (unsigned i = 1; i < nr; i++) {
		const struct sample_name *s = &sample->name[sample->nr * i / nr];

		m[i - 1].range.to = m[i].range.from = s->name;
		m[i - 1].range.to_len = m[i].range.from_len = s->len;
	}
	return 0;
}

/* Give each range its buffers, and what is left of the memory back: parts allocate their own. */
static void ranges_share_memory(struct range_merge *m, unsigned nr, size_t range_memory)
{
	const struct sort_merge_job *job = m->job;
	size_t reserved = (size_t)u64_min(job->memory_len, (uint64_t)nr * range_memory);
	size_t each = m->packs ? 0 : (job->memory_len - reserved) / nr;
	size_t used, whole = job->memory_len & ~(size_t)4095;

	each = (size_t)u64_max(each, least_buffers(job, m->packs)) & ~(size_t)4095;
	used = nr * each;
	assert(used <= job->memory_len);
	/* The page in which the memory ends is not given back: packs may begin in it. */
	if (used < whole)
		(void)madvise(job->memory + used, whole - used, MADV_DONTNEED);
	for (unsigned i = 0; i < nr; i++) {
		m[i].memory = job->memory + i * each;
		m[i].memory_len = each;
	}
}

static int run_ranges(struct range_merge *m, unsigned nr, struct shoal_err *err)
{
	int rc = 0;

	for (unsigned i = 1; i < nr; i++)
		m[i].started = thread_start(&m[i].thread, range_thread, &m[i]) == 0;
	range_thread(&m[0]);
	for (unsigned i = 1; i < nr; i++) {
		if (m[i].started)
			pthread_join(m[i].thread, NULL);
		else /* no thread could be started */
			range_thread(&m[i]);
	}
	for (unsigned i = 0; i < nr; i++) {
		*m->job->repeated += m[i].repeated;
		if (rc == 0 && m[i].rc < 0)
			rc = err_set_as(err, m[i].rc, &m[i].err, "%s", m[i].err.msg);
	}
	return rc;
}

int sort_merge_ranges(struct sort_merge_job *job, const struct pack *packs, uint32_t nr_packs,
		      const struct sort_part *parts, unsigned nr, size_t range_memory,
		      struct shoal_err *err)
{
	struct range_merge *m = calloc(nr, sizeof(*m));
	struct sample sample = { 0 };
	int rc;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < nr; i++) {
		m[i].job = job;
		m[i].packs = packs;
		m[i].nr_packs = nr_packs;
		m[i].part = &parts[i];
	}
	for (uint32_t i = 0; i < nr_packs; i++)
		*job->repeated += packs[i].repeated;
	rc = choose_splitters(m, nr, &sample, err);
	ranges_share_memory(m, nr, range_memory);
	if (rc == 0)
		rc = run_ranges(m, nr, err);
	sample_release(&sample);
	free(m);
	return rc;
}
