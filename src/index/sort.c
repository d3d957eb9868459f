#include "index/sort.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/publish.h"
#include "base/queue.h"
#include "index/merge.h"

#define WRITE_BUF (1u << 20)

/* A chunk's share of the memory. Of the usual 256 MiB it stays in the processor's cache while it is
 * sorted; half of that was slower, as there are more packs to merge. */
#define CHUNK_SHARE 64u

/* Any name and what is said of it fit into this. */
#define CHUNK_LEAST (8u << 10)

/* Beside one for each thread: the one that fills, and some that wait. */
#define MORE_CHUNKS 2u

/* Packs of a half. More would be slower to merge. */
#define NR_PACKS 64u

/* Most of the memory, in two halves: where sorted entries are packed. */
struct half {
	uint8_t *bytes;
	size_t cap, fill; /* fill: also what will be packed by threads */
	struct index_pack pack[NR_PACKS];
	uint32_t nr;
	uint32_t unsorted; /* of those that were given to threads. Under the sorter's lock */
	/* What a thread is asked to do with it: sort a chunk into it, or (the last) spill it. */
	struct task {
		struct half *half;
		struct index_chunk *chunk; /* NULL: spill */
		uint8_t *to;               /* where to pack it */
		uint64_t turn;             /* of a spill: so many come before it */
	} task[NR_PACKS + 1];
};

struct sort_thread {
	struct shoal_sorter *sorter;
	pthread_t thread;
	uint8_t *spare; /* as long as a chunk */
};

struct shoal_sorter {
	struct shoal_sorter_options options;
	uint8_t *memory;
	size_t memory_len;
	struct index_chunk chunk[SHOAL_SORTER_THREADS_MAX + MORE_CHUNKS];
	struct index_chunk *filling; /* one of these */
	struct half half[2];
	struct half *half_now; /* that chunks are sorted into */
	uint64_t nr_turns;     /* halves that were given away, so that there is a spill file */
	int spill_fd;
	struct sort_thread thread[SHOAL_SORTER_THREADS_MAX];
	struct sort_thread own; /* who sorts when nobody else does: the caller */
	unsigned nr_started;
	struct shoal_queue tasks;       /* to the threads */
	struct shoal_queue idle, empty; /* chunks and halves that come back */
	pthread_mutex_t lock;           /* of how much is unsorted, and of what follows */
	pthread_cond_t changed;
	uint64_t nr_spilled;
	int rc; /* of the threads */
	struct shoal_err err;
	/* The rest is of whose turn it is to spill, while threads run. */
	struct shoal_out out;
	struct index_runs runs;
	uint64_t repeated;
};

static bool has_spilled(const struct shoal_sorter *s)
{
	return s->out.buf;
}

/* ---- The threads ---- */

static unsigned nr_chunks(const struct shoal_sorter *s)
{
	return s->options.nr_threads + MORE_CHUNKS;
}

static uint8_t *cut_off(uint8_t **bytes, size_t len)
{
	uint8_t *start = *bytes;

	*bytes += len;
	return start;
}

/* Chunks, as much again for each who sorts, and two halves of what is left. */
static void share_out(struct shoal_sorter *s)
{
	size_t cap = (size_t)shoal_max(CHUNK_LEAST, s->memory_len / CHUNK_SHARE) & ~(size_t)15;
	size_t nr = nr_chunks(s) + s->options.nr_threads + 1;
	uint8_t *bytes = s->memory;

	for (unsigned i = 0; i < nr_chunks(s); i++)
		index_chunk_init(&s->chunk[i], cut_off(&bytes, cap), cap);
	for (unsigned i = 0; i < s->options.nr_threads; i++)
		s->thread[i] = (struct sort_thread){ .sorter = s, .spare = cut_off(&bytes, cap) };
	s->own = (struct sort_thread){ .sorter = s, .spare = cut_off(&bytes, cap) };
	cap = (s->memory_len - nr * cap) / 2;
	for (unsigned i = 0; i < 2; i++)
		s->half[i] = (struct half){ .bytes = cut_off(&bytes, cap), .cap = cap };
}

static void chunk_is_sorted(struct shoal_sorter *s, struct half *h)
{
	pthread_mutex_lock(&s->lock);
	h->unsorted--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int spill(struct shoal_sorter *s, struct half *h, struct shoal_err *err)
{
	struct index_run run;
	struct shoal_err why = { "" };
	int rc;

	rc = index_merge_into_run(h->pack, h->nr, &s->out, &s->repeated, &run, &why);
	if (rc < 0)
		return shoal_fail(err, rc, "in '%s': %s", s->options.tmp_dir, why.msg);
	rc = run.len > 0 ? index_runs_add(&s->runs, &run) : 0;
	return rc < 0 ? shoal_fail(err, rc, "out of memory") : 0;
}

/*
 * Once all of the half is sorted, which was given out before, and when halves given away earlier
 * are spilled: of equal names in two runs the later one counts.
 */
static int spill_in_turn(struct shoal_sorter *s, const struct task *t)
{
	struct shoal_err err = { "" };
	int rc;

	pthread_mutex_lock(&s->lock);
	while (s->rc == 0 && (t->half->unsorted > 0 || s->nr_spilled < t->turn))
		pthread_cond_wait(&s->changed, &s->lock);
	rc = s->rc;
	pthread_mutex_unlock(&s->lock);
	if (rc < 0)
		return rc;
	rc = spill(s, t->half, &err);
	t->half->nr = 0;
	t->half->fill = 0;
	pthread_mutex_lock(&s->lock);
	s->nr_spilled++;
	if (rc < 0) {
		s->rc = rc;
		s->err = err;
	}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Sort, or spill and hand back. */
static int do_task(struct sort_thread *me, const struct task *t)
{
	struct shoal_sorter *s = me->sorter;
	int rc;

	if (t->chunk) {
		struct index_chunk *c = t->chunk;

		t->half->pack[t - t->half->task] = index_chunk_sort(c, me->spare, t->to);
		index_chunk_init(c, c->bytes, c->cap);
		chunk_is_sorted(s, t->half); /* from here on the task may be another one */
		return shoal_queue_give(&s->idle, c) ? 0 : -EIO;
	}
	rc = spill_in_turn(s, t);
	if (rc == 0 && !shoal_queue_give(&s->empty, t->half))
		rc = -EIO;
	return rc;
}

static void *sort_thread(void *arg)
{
	struct sort_thread *me = arg;
	struct shoal_sorter *s = me->sorter;
	const struct task *t;

	while ((t = shoal_queue_take(&s->tasks)) != NULL) {
		if (do_task(me, t) < 0) {
			shoal_queue_close(&s->idle);
			shoal_queue_close(&s->empty);
			shoal_queue_close(&s->tasks);
			break;
		}
	}
	return NULL;
}

/* ---- Giving them work ---- */

/* Wait for the threads to do what they have been given, and take their error. */
static int stop_threads(struct shoal_sorter *s, struct shoal_err *err)
{
	if (s->nr_started == 0)
		return 0;
	shoal_queue_close(&s->tasks);
	for (unsigned i = 0; i < s->nr_started; i++)
		pthread_join(s->thread[i].thread, NULL);
	s->nr_started = 0;
	return s->rc < 0 ? shoal_fail(err, s->rc, "%s", s->err.msg) : 0;
}

/* One more with each piece of work, while there may be more. Fewer will do, or none. */
static void start_thread(struct shoal_sorter *s)
{
	struct sort_thread *next = &s->thread[s->nr_started];

	if (s->nr_started < s->options.nr_threads &&
	    shoal_thread_start(&next->thread, sort_thread, next) == 0)
		s->nr_started++;
}

static int give(struct shoal_sorter *s, struct task *t, struct shoal_err *err)
{
	if (s->nr_started == 0 && s->rc < 0) /* threads gave up, and said so once already */
		return shoal_fail(err, s->rc, "%s", s->err.msg);
	start_thread(s);
	if (s->nr_started == 0) /* the system has none for us: we do it ourselves */
		return do_task(&s->own, t) < 0
			       ? shoal_fail(err, s->rc < 0 ? s->rc : -EIO, "%s", s->err.msg)
			       : 0;
	if (shoal_queue_give(&s->tasks, t))
		return 0;
	return shoal_first_error(stop_threads(s, err), -EIO); /* they gave up: say why */
}

static int open_spill(struct shoal_sorter *s, struct shoal_err *err)
{
	uint64_t end = 0;
	int rc;

	if (s->options.spill) {
		s->spill_fd = s->options.spill->fd;
		end = s->options.spill->end;
	} else {
		s->spill_fd = shoal_spill_open(s->options.tmp_dir, err);
		if (s->spill_fd < 0)
			return s->spill_fd;
	}
	rc = shoal_out_init(&s->out, s->spill_fd, end, WRITE_BUF);
	if (rc < 0)
		return shoal_fail_errno(err, rc, "cannot start sorting");
	return shoal_queue_give(&s->empty, &s->half[1]) ? 0 : -EIO;
}

/* Give the half away, to be spilled when all of it is sorted, and go on with the other one. */
static int next_half(struct shoal_sorter *s, struct shoal_err *err)
{
	struct half *h = s->half_now;
	struct task *t = &h->task[NR_PACKS];
	int rc = 0;

	if (!has_spilled(s))
		rc = open_spill(s, err);
	if (rc < 0)
		return rc;
	*t = (struct task){ .half = h, .turn = s->nr_turns++ };
	rc = give(s, t, err);
	if (rc < 0)
		return rc;
	h = shoal_queue_take(&s->empty);
	if (!h)
		return shoal_first_error(stop_threads(s, err), -EIO);
	s->half_now = h;
	return 0;
}

/* See to it that there is room to sort the chunk that fills into the half. */
static int make_room(struct shoal_sorter *s, struct shoal_err *err)
{
	const struct half *h = s->half_now;

	if (!s->filling) /* threads gave up, and the chunks are with them */
		return shoal_fail(err, s->rc < 0 ? s->rc : -EIO, "%s", s->err.msg);
	return h->nr < NR_PACKS && h->cap - h->fill >= s->filling->packed ? 0 : next_half(s, err);
}

/* The task of sorting it, for which there is room. */
static struct task *task_to_sort(struct shoal_sorter *s)
{
	struct half *h = s->half_now;
	struct task *t = &h->task[h->nr++];

	*t = (struct task){ .half = h, .chunk = s->filling, .to = h->bytes + h->fill };
	h->fill += s->filling->packed;
	pthread_mutex_lock(&s->lock);
	h->unsorted++;
	pthread_mutex_unlock(&s->lock);
	return t;
}

/* Give the chunk that fills away, to be sorted, and go on with another one. */
static int next_chunk(struct shoal_sorter *s, struct shoal_err *err)
{
	int rc = make_room(s, err);

	if (rc == 0)
		rc = give(s, task_to_sort(s), err);
	if (rc < 0)
		return rc;
	s->filling = shoal_queue_take(&s->idle);
	return s->filling ? 0 : shoal_first_error(stop_threads(s, err), -EIO);
}

/* ---- The sorter ---- */

int shoal_sorter_new(const struct shoal_sorter_options *options, struct shoal_sorter **ret_sorter,
		     struct shoal_err *err)
{
	struct shoal_sorter *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return shoal_fail(err, -ENOMEM, "out of memory");
	assert(options->memory >= SHOAL_SORTER_MEMORY_MIN);
	s->options = *options;
	s->options.nr_threads =
		(unsigned)shoal_min(shoal_max(1, options->nr_threads), SHOAL_SORTER_THREADS_MAX);
	s->spill_fd = -1;
	/* References count bytes in 32 bits, so a chunk has at most 4 GiB. */
	s->memory_len =
		(size_t)shoal_min(options->memory, CHUNK_SHARE * (UINT64_C(4) << 30) - 4096) &
		~(size_t)4095;
	s->memory = mmap(NULL, s->memory_len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->memory == MAP_FAILED) {
		free(s);
		return shoal_fail(err, -ENOMEM, "no %zu bytes of memory: lower --memory",
				  options->memory);
	}
	if (options->spill && options->spill->runs)
		for (size_t i = 0; i < options->spill->runs->nr; i++)
			rc = shoal_first_error(
				rc, index_runs_add(&s->runs, &options->spill->runs->run[i]));
	share_out(s);
	s->half_now = &s->half[0];
	shoal_queue_init(&s->tasks, SHOAL_QUEUE_MAX);
	shoal_queue_init(&s->idle, nr_chunks(s));
	shoal_queue_init(&s->empty, 2);
	s->filling = &s->chunk[0];
	for (unsigned i = 1; i < nr_chunks(s); i++)
		(void)!shoal_queue_give(&s->idle, &s->chunk[i]);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (rc < 0) {
		shoal_sorter_free(s);
		return shoal_fail(err, rc, "out of memory");
	}
	*ret_sorter = s;
	return 0;
}

struct shoal_sorter *shoal_sorter_free(struct shoal_sorter *s)
{
	if (!s)
		return NULL;
	(void)stop_threads(s, NULL);
	shoal_queue_release(&s->tasks);
	shoal_queue_release(&s->idle);
	shoal_queue_release(&s->empty);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	shoal_out_release(&s->out);
	index_runs_release(&s->runs);
	if (s->spill_fd >= 0 && !s->options.spill)
		close(s->spill_fd);
	munmap(s->memory, s->memory_len);
	free(s);
	return NULL;
}

int shoal_sorter_add(struct shoal_sorter *s, const struct shoal_entry *entry, struct shoal_err *err)
{
	assert(entry->len >= 1 && entry->len <= SHOAL_NAME_MAX);
	while (!s->filling || !index_chunk_put(s->filling, entry)) {
		int rc;

		if (index_stopped(s->options.stop))
			return shoal_fail(err, -ECANCELED, "interrupted");
		rc = next_chunk(s, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int shoal_sorter_flush(struct shoal_sorter *s, const struct index_runs **ret_runs,
		       uint64_t *ret_end, struct shoal_err *err)
{
	struct half *other;
	int rc = next_chunk(s, err);

	if (rc == 0)
		rc = next_half(s, err);
	if (rc < 0)
		return rc;
	other = shoal_queue_take(&s->empty); /* the one just given away comes back last */
	if (!other)
		return shoal_first_error(stop_threads(s, err), -EIO);
	if (!shoal_queue_give(&s->empty, other))
		return -EIO;
	*ret_runs = &s->runs;
	*ret_end = shoal_out_tell(&s->out);
	return 0;
}

/* Nothing has been spilled: sort the last chunk, and whatever the threads have not come to yet. */
static int sort_rest(struct shoal_sorter *s, struct shoal_err *err)
{
	int rc = do_task(&s->own, task_to_sort(s));
	const struct task *t;

	shoal_queue_close(&s->tasks);
	while (rc == 0 && (t = shoal_queue_take(&s->tasks)) != NULL)
		rc = do_task(&s->own, t);
	return shoal_first_error(stop_threads(s, err), rc);
}

int shoal_sorter_finish(struct shoal_sorter *s, shoal_entry_fn *take, void *self,
			struct cat_digester *digester, uint64_t *ret_repeated,
			struct shoal_err *err)
{
	struct index_merge_job job = { .memory = s->memory,
				       .memory_len = s->memory_len,
				       .stop = s->options.stop,
				       .repeated = &s->repeated,
				       .take = take,
				       .self = self,
				       .digester = digester };
	int rc = 0;

	if (!has_spilled(s) && s->runs.nr > 0)
		rc = open_spill(s, err); /* what an earlier listing left is to be merged, too */
	if (rc == 0)
		rc = make_room(s, err);
	if (rc < 0)
		return rc;
	if (!has_spilled(s)) {
		rc = sort_rest(s, err);
		job.memory_len = (size_t)(s->half[0].bytes - s->memory); /* of chunks */
		if (rc == 0)
			rc = index_merge_packs(&job, s->half_now->pack, s->half_now->nr, err);
	} else {
		if (s->filling->nr > 0)
			rc = next_chunk(s, err);
		if (rc == 0 && s->half_now->nr > 0)
			rc = next_half(s, err);
		rc = shoal_first_error(rc, stop_threads(s, err));
		job.fd = s->spill_fd;
		job.keep = s->options.spill ? shoal_out_tell(&s->out) : 0;
		job.runs = &s->runs;
		job.out = &s->out;
		if (rc == 0 && s->runs.nr > 0)
			rc = index_merge(&job, err);
	}
	*ret_repeated = s->repeated;
	return rc;
}
