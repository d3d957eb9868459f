#include "index/sort.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/name.h"
#include "base/publish.h"
#include "base/queue.h"
#include "base/span.h"
#include "index/merge.h"
#include "index/radix.h"
#include "index/run.h"

/* What follows a name in the gather buffer: size and samples as varints. */
#define TAIL_MAX  20u
#define WRITE_BUF (1u << 20)

/* One half of the memory: names from the front, references to them from the back. */
struct gather {
	uint8_t *bytes;
	size_t cap;
	size_t fill;
	size_t nr;
	bool sorted; /* names came in order, so far */
};

struct shoal_sorter {
	struct shoal_sorter_options options;
	uint8_t *memory;
	size_t memory_len;
	struct gather half[2];
	struct gather *filling;
	int spill_fd;
	bool spilling; /* the thread runs */
	pthread_t thread;
	struct shoal_queue full, empty; /* halves on their way to the thread and back */
	/* The rest belongs to the thread while it runs. */
	struct shoal_out out;
	struct index_runs runs;
	uint64_t repeated;
	int rc; /* of the thread */
	struct shoal_err err;
};

/* ---- Gathering ---- */

static struct index_ref *refs_of(const struct gather *g)
{
	return (struct index_ref *)(void *)(g->bytes + g->cap) - g->nr;
}

static void gather_init(struct gather *g, uint8_t *bytes, size_t cap)
{
	*g = (struct gather){ .bytes = bytes, .cap = cap & ~(size_t)15, .sorted = true };
}

static bool gather_has_room(const struct gather *g, size_t len)
{
	size_t refs = (g->nr + 1) * sizeof(struct index_ref);

	return refs + g->fill + len + TAIL_MAX <= g->cap;
}

static bool comes_after_last(const struct gather *g, const struct shoal_entry *e)
{
	const struct index_ref *last = refs_of(g);

	return g->nr == 0 ||
	       shoal_name_compare(g->bytes + last->off, last->len, e->name, e->len) < 0;
}

static void gather_put(struct gather *g, const struct shoal_entry *e)
{
	uint8_t *p = g->bytes + g->fill;

	if (g->sorted && g->nr > 0)
		g->sorted = comes_after_last(g, e);
	memcpy(p, e->name, e->len);
	g->nr++;
	*refs_of(g) = (struct index_ref){ .off = (uint32_t)g->fill, .len = (uint32_t)e->len };
	p = shoal_varint_put(p + e->len, e->size + 1);
	p = shoal_varint_put(p, e->samples);
	g->fill = (size_t)(p - g->bytes);
}

static void entry_of(const struct gather *g, const struct index_ref *r, struct shoal_entry *e)
{
	struct shoal_span tail = { .p = g->bytes + r->off + r->len, .end = g->bytes + g->fill };

	e->name = g->bytes + r->off;
	e->len = r->len;
	e->size = shoal_span_varint(&tail) - 1;
	e->samples = shoal_span_varint(&tail);
}

/* References lie in reverse order of adding. */
static void reverse(struct index_ref *refs, size_t nr)
{
	for (size_t i = 0; i < nr / 2; i++) {
		struct index_ref r = refs[i];

		refs[i] = refs[nr - 1 - i];
		refs[nr - 1 - i] = r;
	}
}

static void gather_sort(struct gather *g)
{
	struct index_ref *refs = refs_of(g);
	uint32_t shared;

	reverse(refs, g->nr);
	if (g->sorted || g->nr < 2)
		return;
	/* What all names start with need not be sorted by. */
	shared = refs[0].len;
	for (size_t i = 1; i < g->nr && shared > 0; i++)
		shared = (uint32_t)shoal_name_shared(g->bytes + refs[0].off, shared,
						     g->bytes + refs[i].off, refs[i].len);
	index_radix_sort(g->bytes, refs, g->nr, shared);
}

/* Hand the sorted entries to @take, the last of equal ones only. */
static int gather_emit(const struct gather *g, shoal_entry_fn *take, void *self, uint64_t *repeated,
		       struct shoal_err *err)
{
	const struct index_ref *refs = refs_of(g);

	for (size_t i = 0; i < g->nr; i++) {
		const struct index_ref *r = &refs[i];
		struct shoal_entry e;
		int rc;

		if (i + 16 < g->nr) /* sorted order jumps about in memory */
			__builtin_prefetch(g->bytes + refs[i + 16].off);
		if (i + 1 < g->nr && r[1].len == r->len &&
		    memcmp(g->bytes + r->off, g->bytes + r[1].off, r->len) == 0) {
			++*repeated;
			continue;
		}
		entry_of(g, r, &e);
		rc = take(self, &e, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- Spilling ---- */

static int put_in_run(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct index_run_writer *w = self;

	(void)err;
	index_run_put(w, e);
	return w->out->rc;
}

static int spill_half(struct shoal_sorter *s, struct gather *g)
{
	struct index_run_writer w;
	struct index_run run;
	int rc;

	gather_sort(g);
	index_run_start(&w, &s->out);
	rc = gather_emit(g, put_in_run, &w, &s->repeated, &s->err);
	shoal_out_flush(&s->out);
	if (rc == 0)
		rc = s->out.rc;
	if (rc < 0)
		return shoal_fail_errno(&s->err, rc, "cannot write a temporary file in '%s'",
					s->options.tmp_dir);
	run = index_run_end(&w);
	rc = index_runs_add(&s->runs, &run);
	return rc < 0 ? shoal_fail(&s->err, rc, "out of memory") : 0;
}

static void *spill_thread(void *arg)
{
	struct shoal_sorter *s = arg;
	struct gather *g;

	while ((g = shoal_queue_take(&s->full)) != NULL) {
		if (s->rc == 0)
			s->rc = spill_half(s, g);
		gather_init(g, g->bytes, g->cap);
		if (s->rc < 0 || !shoal_queue_give(&s->empty, g))
			break;
	}
	shoal_queue_close(&s->empty);
	shoal_queue_close(&s->full);
	return NULL;
}

static int spill_start(struct shoal_sorter *s, struct shoal_err *err)
{
	int rc;

	s->spill_fd = shoal_spill_open(s->options.tmp_dir, err);
	if (s->spill_fd < 0)
		return s->spill_fd;
	rc = shoal_out_init(&s->out, s->spill_fd, 0, WRITE_BUF);
	if (rc == 0)
		rc = shoal_thread_start(&s->thread, spill_thread, s);
	if (rc < 0)
		return shoal_fail_errno(err, rc, "cannot start sorting");
	s->spilling = true;
	return shoal_queue_give(&s->empty, &s->half[1]) ? 0 : -EIO;
}

/* Wait for the thread to write what it has, and take its error. */
static int spill_stop(struct shoal_sorter *s, struct shoal_err *err)
{
	if (!s->spilling)
		return 0;
	shoal_queue_close(&s->full);
	pthread_join(s->thread, NULL);
	s->spilling = false;
	return s->rc < 0 ? shoal_fail(err, s->rc, "%s", s->err.msg) : 0;
}

/* Give the full half to the thread and go on with the other one. */
static int next_half(struct shoal_sorter *s, struct shoal_err *err)
{
	int rc = 0;

	if (index_stopped(s->options.stop))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (!s->spilling)
		rc = spill_start(s, err);
	if (rc < 0)
		return rc;
	if (!shoal_queue_give(&s->full, s->filling))
		return spill_stop(s, err);
	s->filling = shoal_queue_take(&s->empty);
	return s->filling ? 0 : spill_stop(s, err);
}

/* ---- The sorter ---- */

int shoal_sorter_new(const struct shoal_sorter_options *options, struct shoal_sorter **ret_sorter,
		     struct shoal_err *err)
{
	struct shoal_sorter *s = calloc(1, sizeof(*s));

	if (!s)
		return shoal_fail(err, -ENOMEM, "out of memory");
	assert(options->memory >= SHOAL_SORTER_MEMORY_MIN);
	s->options = *options;
	s->spill_fd = -1;
	/* References count bytes in 32 bits, so a half has at most 4 GiB. */
	s->memory_len = (size_t)shoal_min(options->memory, UINT64_C(8) << 30) & ~(size_t)4095;
	s->memory = mmap(NULL, s->memory_len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->memory == MAP_FAILED) {
		free(s);
		return shoal_fail(err, -ENOMEM, "no %zu bytes of memory: lower --memory",
				  options->memory);
	}
	gather_init(&s->half[0], s->memory, s->memory_len / 2);
	gather_init(&s->half[1], s->memory + s->memory_len / 2, s->memory_len / 2);
	s->filling = &s->half[0];
	shoal_queue_init(&s->full, 1);
	shoal_queue_init(&s->empty, 2);
	*ret_sorter = s;
	return 0;
}

struct shoal_sorter *shoal_sorter_free(struct shoal_sorter *s)
{
	if (!s)
		return NULL;
	(void)spill_stop(s, NULL);
	shoal_queue_release(&s->full);
	shoal_queue_release(&s->empty);
	shoal_out_release(&s->out);
	index_runs_release(&s->runs);
	if (s->spill_fd >= 0)
		close(s->spill_fd);
	munmap(s->memory, s->memory_len);
	free(s);
	return NULL;
}

int shoal_sorter_add(struct shoal_sorter *s, const struct shoal_entry *entry, struct shoal_err *err)
{
	assert(entry->len >= 1 && entry->len <= SHOAL_NAME_MAX);
	if (!gather_has_room(s->filling, entry->len)) {
		int rc = next_half(s, err);

		if (rc < 0)
			return rc;
	}
	gather_put(s->filling, entry);
	return 0;
}

int shoal_sorter_finish(struct shoal_sorter *s, shoal_entry_fn *take, void *self,
			uint64_t *ret_repeated, struct shoal_err *err)
{
	int rc;

	if (!s->spilling) {
		gather_sort(s->filling);
		rc = gather_emit(s->filling, take, self, &s->repeated, err);
	} else {
		struct index_merge_job job = { .fd = s->spill_fd,
					       .runs = &s->runs,
					       .out = &s->out,
					       .memory = s->memory,
					       .memory_len = s->memory_len,
					       .stop = s->options.stop,
					       .repeated = &s->repeated,
					       .take = take,
					       .self = self };

		rc = s->filling->nr > 0 && !shoal_queue_give(&s->full, s->filling) ? -EIO : 0;
		rc = shoal_first_error(spill_stop(s, err), rc);
		if (rc == 0)
			rc = index_merge(&job, err);
	}
	*ret_repeated = s->repeated;
	return rc;
}
