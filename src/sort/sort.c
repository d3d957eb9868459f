#include "sort/sort.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/publish.h"
#include "base/queue.h"
#include "sort/merge.h"

#define WRITE_BUF (1u << 20)

/* A packer's share of the memory. With the usual 256 MiB it stays in the processor's cache while
 * it is sorted; half of that was slower, because there are more packs to merge. With many threads,
 * which share that cache and each have a packer and as much again, it is half of that. */
#define PACKER_SHARE      64u
#define PACKER_SHARE_MANY 128u
#define MANY_THREADS      4u

/* Any name fits with its payload. */
#define PACKER_LEAST (8u << 10)

/* Packs per half. More would be slower to merge. */
#define NR_PACKS 64u

/* Most of the memory, in two halves: sorted entries are packed into these. */
struct half {
	uint8_t *bytes;
	size_t cap, fill; /* fill: including what threads will pack */
	struct pack pack[NR_PACKS];
	uint32_t nr;
	uint32_t unsorted; /* how many were given to threads. Under the sorter's lock */
	/* What a thread does with it: sort a packer into it, or (last) spill it. */
	struct task {
		struct half *half;
		struct packer *packer; /* NULL: spill */
		uint8_t *to;           /* where to pack it */
		uint64_t turn;         /* of a spill: how many come before it */
	} task[NR_PACKS + 1];
};

struct sort_thread {
	struct sorter *sorter;
	pthread_t thread;
	uint8_t *spare; /* as long as a packer */
};

struct sorter {
	struct sorter_options options;
	uint8_t *memory;
	size_t memory_len;
	/* One per lane and per thread, and a spare one if there is one lane. */
	struct packer packer[SORTER_LANES_MAX + SORTER_THREADS_MAX + 1];
	struct lane {
		pthread_mutex_t
			lock; /* held by a thread that adds, or by the one that holds all lanes */
		struct packer *filling; /* one of the packers; NULL: threads gave up */
		struct sort_ref *spare; /* to sort a group; NULL before there is one */
	} lane[SORTER_LANES_MAX];
	struct half half[2];
	pthread_mutex_t
		task_lock; /* protects what follows, up to the queues. Taken after a lane's lock */
	struct half *half_now; /* the half that packers are sorted into */
	bool ended;            /* nothing is added any more, and all is sorted */
	uint64_t nr_turns;     /* halves given to threads, so that there is a spill file */
	int spill_fd;
	struct sort_thread thread[SORTER_THREADS_MAX];
	struct sort_thread own; /* used by the caller if it sorts itself */
	unsigned nr_started;
	struct queue tasks;       /* to the threads */
	struct queue idle, empty; /* packers and halves that are returned */
	pthread_mutex_t
		lock; /* protects the amount of unsorted data, and what follows. Taken last */
	pthread_cond_t changed;
	uint64_t nr_spilled;
	int rc; /* error of the threads */
	struct shoal_err err;
	/* The rest belongs to the thread whose turn it is to spill, while threads run. */
	struct out out;
	struct sort_runs runs;
	uint64_t repeated;
};

static bool has_spilled(const struct sorter *s)
{
	return s->out.buf;
}

/* ---- The threads ---- */

static unsigned nr_packers(const struct sorter *s)
{
	return (unsigned)u64_max(2, s->options.nr_lanes) + s->options.nr_threads;
}

static uint8_t *cut_off(uint8_t **bytes, size_t len)
{
	uint8_t *start = *bytes;

	*bytes += len;
	return start;
}

/* Allocate packers, the same again per sorting thread, and two halves from the rest. */
static void share_out(struct sorter *s)
{
	bool many = s->options.nr_threads > MANY_THREADS;
	size_t cap = (size_t)u64_max(PACKER_LEAST,
				     s->memory_len / (many ? PACKER_SHARE_MANY : PACKER_SHARE)) &
		     ~(size_t)15;
	size_t nr = nr_packers(s) + s->options.nr_threads + 1;
	uint8_t *bytes = s->memory;

	for (unsigned i = 0; i < nr_packers(s); i++)
		packer_init(&s->packer[i], cut_off(&bytes, cap), cap);
	for (unsigned i = 0; i < s->options.nr_threads; i++)
		s->thread[i] = (struct sort_thread){ .sorter = s, .spare = cut_off(&bytes, cap) };
	s->own = (struct sort_thread){ .sorter = s, .spare = cut_off(&bytes, cap) };
	cap = (s->memory_len - nr * cap) / 2;
	for (unsigned i = 0; i < 2; i++)
		s->half[i] = (struct half){ .bytes = cut_off(&bytes, cap), .cap = cap };
}

static void packer_is_sorted(struct sorter *s, struct half *h)
{
	pthread_mutex_lock(&s->lock);
	h->unsorted--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int spill(struct sorter *s, struct half *h, struct shoal_err *err)
{
	const struct sort_spill_job job = {
		.out = &s->out,
		.repeated = &s->repeated,
		.runs = &s->runs,
		/* The last checkpoint is saved after the stop: at most what fits in memory. */
		.stop = s->options.spill ? NULL : s->options.stop,
		.order_len = s->options.order_len,
		/* A checkpoint knows only runs of one piece. */
		.nr_threads = s->options.spill ? 1 : s->options.nr_threads,
	};
	struct shoal_err why = { "" };
	int rc;

	if (h->nr == 0) /* a flush of nothing */
		return 0;
	rc = sort_spill(&job, h->pack, h->nr, &why);
	return rc < 0 && rc != -ECANCELED
		       ? err_set_as(err, rc, &why, "in '%s': %s", s->options.tmp_dir, why.msg)
	       : rc < 0 ? err_set_as(err, rc, &why, "%s", why.msg)
			: 0;
}

/* Wait until all of the half is sorted and earlier halves are spilled: of equal names in two
 * runs the later one is kept. */
static int spill_in_turn(struct sorter *s, const struct task *t)
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

/* Sort, or spill and return the half. */
static int do_task(struct sort_thread *me, const struct task *t)
{
	struct sorter *s = me->sorter;
	int rc;

	if (t->packer) {
		struct packer *c = t->packer;

		t->half->pack[t - t->half->task] = packer_sort(c, me->spare, t->to);
		packer_init(c, c->bytes, c->cap);
		packer_is_sorted(s, t->half); /* from here on the task may be reused */
		return queue_give(&s->idle, c) ? 0 : -EIO;
	}
	rc = spill_in_turn(s, t);
	if (rc == 0 && !queue_give(&s->empty, t->half))
		rc = -EIO;
	return rc;
}

static void *sort_thread(void *arg)
{
	struct sort_thread *me = arg;
	struct sorter *s = me->sorter;
	const struct task *t;

	while ((t = queue_take(&s->tasks)) != NULL) {
		if (do_task(me, t) < 0) {
			queue_close(&s->idle);
			queue_close(&s->empty);
			queue_close(&s->tasks);
			break;
		}
	}
	return NULL;
}

/* ---- Giving work to the threads ---- */

/* Called by the owner: wait for the threads to finish their work, and return their error. */
static int stop_threads(struct sorter *s, struct shoal_err *err)
{
	if (s->nr_started == 0)
		return 0;
	queue_close(&s->tasks);
	for (unsigned i = 0; i < s->nr_started; i++)
		pthread_join(s->thread[i].thread, NULL);
	s->nr_started = 0;
	return s->rc < 0 ? err_set_as(err, s->rc, &s->err, "%s", s->err.msg) : 0;
}

/* Why the threads gave up. */
static int fail_as_threads(struct sorter *s, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = s->rc < 0 ? err_set_as(err, s->rc, &s->err, "%s", s->err.msg)
		       : err_set(err, -EIO, "sorting has ended");
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Start one more thread per piece of work, up to the limit. The sorter works with fewer, or
 * none. */
static void sorter_start_thread(struct sorter *s)
{
	struct sort_thread *next = &s->thread[s->nr_started];

	if (s->nr_started < s->options.nr_threads &&
	    thread_start(&next->thread, sort_thread, next) == 0)
		s->nr_started++;
}

static int give(struct sorter *s, struct task *t, struct shoal_err *err)
{
	bool given;

	sorter_start_thread(s);
	/* If no thread can be started, the caller does the work. */
	given = s->nr_started == 0 ? do_task(&s->own, t) == 0 : queue_give(&s->tasks, t);
	return given ? 0 : fail_as_threads(s, err);
}

static int open_spill(struct sorter *s, struct shoal_err *err)
{
	uint64_t end = 0;
	int rc;

	if (s->options.spill) {
		s->spill_fd = s->options.spill->fd;
		end = s->options.spill->end;
	} else {
		s->spill_fd = spill_open(s->options.tmp_dir, err);
		if (s->spill_fd < 0)
			return s->spill_fd;
	}
	rc = out_init(&s->out, s->spill_fd, end, WRITE_BUF);
	if (rc < 0)
		return err_set_errno(err, rc, "cannot start sorting");
	return queue_give(&s->empty, &s->half[1]) ? 0 : -EIO;
}

/* Queue the half to be spilled when all of it is sorted, and continue with the other one. */
static int next_half(struct sorter *s, struct shoal_err *err)
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
	h = queue_take(&s->empty);
	if (!h)
		return fail_as_threads(s, err);
	s->half_now = h;
	return 0;
}

/* Ensure that the half has room for sorting @p into it. */
static int sorter_make_room(struct sorter *s, const struct packer *p, struct shoal_err *err)
{
	const struct half *h = s->half_now;

	return h->nr < NR_PACKS && h->cap - h->fill >= packer_packed(p) ? 0 : next_half(s, err);
}

/* The task that sorts it; there is room. */
static struct task *task_to_sort(struct sorter *s, struct packer *p)
{
	struct half *h = s->half_now;
	struct task *t = &h->task[h->nr++];

	*t = (struct task){ .half = h, .packer = p, .to = h->bytes + h->fill };
	h->fill += packer_packed(p);
	pthread_mutex_lock(&s->lock);
	h->unsorted++;
	pthread_mutex_unlock(&s->lock);
	return t;
}

/* Queue a lane's full packer to be sorted, and continue with an empty one. */
static int next_packer(struct sorter *s, struct lane *l, struct shoal_err *err)
{
	struct packer *full = l->filling;
	int rc = 0;

	if (!full)
		return fail_as_threads(s, err);
	pthread_mutex_lock(&s->task_lock);
	if (full->nr > 0)
		rc = sorter_make_room(s, full, err);
	if (rc == 0 && full->nr > 0) {
		l->filling = NULL;
		rc = give(s, task_to_sort(s, full), err);
	}
	pthread_mutex_unlock(&s->task_lock);
	if (rc == 0 && !l->filling)
		l->filling = queue_take(&s->idle);
	return rc == 0 && !l->filling ? fail_as_threads(s, err) : rc;
}

/* ---- The sorter ---- */

int sorter_new(const struct sorter_options *options, struct sorter **ret_sorter,
	       struct shoal_err *err)
{
	struct sorter *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	assert(options->memory >= SORTER_MEMORY_MIN);
	s->options = *options;
	s->options.nr_threads =
		(unsigned)u64_min(u64_max(1, options->nr_threads), SORTER_THREADS_MAX);
	s->options.nr_lanes = (unsigned)u64_min(u64_max(1, options->nr_lanes), SORTER_LANES_MAX);
	s->spill_fd = -1;
	/* References count bytes in 32 bits, so a packer has at most 4 GiB. */
	s->memory_len =
		(size_t)u64_min(options->memory, PACKER_SHARE * (UINT64_C(4) << 30) - 4096) &
		~(size_t)4095;
	s->memory = mmap(NULL, s->memory_len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->memory == MAP_FAILED) {
		free(s);
		return err_set_hint(err, -ENOMEM, SHOAL_HINT_LESS_MEMORY,
				    "cannot reserve %zu bytes of memory", options->memory);
	}
	if (options->spill && options->spill->runs)
		for (size_t i = 0; i < options->spill->runs->nr; i++)
			rc = err_first(rc, sort_runs_add(&s->runs, &options->spill->runs->run[i]));
	share_out(s);
	s->half_now = &s->half[0];
	queue_init(&s->tasks, QUEUE_MAX);
	queue_init(&s->idle, nr_packers(s));
	queue_init(&s->empty, 2);
	for (unsigned i = 0; i < nr_packers(s); i++) {
		if (i < s->options.nr_lanes)
			s->lane[i].filling = &s->packer[i];
		else
			(void)!queue_give(&s->idle, &s->packer[i]);
	}
	for (unsigned i = 0; i < SORTER_LANES_MAX; i++)
		pthread_mutex_init(&s->lane[i].lock, NULL);
	pthread_mutex_init(&s->task_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (rc < 0) {
		sorter_free(s);
		return err_set(err, rc, "out of memory");
	}
	*ret_sorter = s;
	return 0;
}

struct sorter *sorter_free(struct sorter *s)
{
	if (!s)
		return NULL;
	(void)stop_threads(s, NULL);
	queue_release(&s->tasks);
	queue_release(&s->idle);
	queue_release(&s->empty);
	for (unsigned i = 0; i < SORTER_LANES_MAX; i++) {
		pthread_mutex_destroy(&s->lane[i].lock);
		free(s->lane[i].spare);
	}
	pthread_mutex_destroy(&s->task_lock);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	out_release(&s->out);
	sort_runs_release(&s->runs);
	if (s->spill_fd >= 0 && !s->options.spill)
		close(s->spill_fd);
	munmap(s->memory, s->memory_len);
	free(s);
	return NULL;
}

static int make_room_in(struct sorter *s, struct lane *l, struct shoal_err *err)
{
	if (stop_requested(s->options.stop))
		return err_set(err, -ECANCELED, "interrupted");
	return next_packer(s, l, err);
}

int sorter_add(struct sorter *s, const struct sort_entry *entry, struct shoal_err *err)
{
	struct lane *l = &s->lane[0];

	assert(entry->len >= 1 && entry->len <= SHOAL_NAME_MAX);
	while (!l->filling || packer_put(l->filling, entry, 1) == 0) {
		int rc = make_room_in(s, l, err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Put as many as fit. */
static size_t put_some(struct lane *l, const struct sort_entry *entries, size_t nr, bool group)
{
	if (!l->filling)
		return 0;
	if (group && !l->spare)
		l->spare = malloc(SORTER_GROUP_MAX * sizeof(*l->spare));
	return group && l->spare ? packer_put_group(l->filling, entries, nr, l->spare)
				 : packer_put(l->filling, entries, nr);
}

int sorter_add_many(struct sorter *s, unsigned lane, const struct sort_entry *entries, size_t nr,
		    bool group, struct shoal_err *err)
{
	struct lane *l = &s->lane[lane % s->options.nr_lanes];
	size_t put;
	int rc = 0;

	assert(nr <= SORTER_GROUP_MAX);
	pthread_mutex_lock(&l->lock);
	for (put = put_some(l, entries, nr, group); rc == 0 && put < nr;
	     put += put_some(l, entries + put, nr - put, group))
		rc = make_room_in(s, l, err);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void sorter_hold(struct sorter *s)
{
	for (unsigned i = 0; i < s->options.nr_lanes; i++)
		pthread_mutex_lock(&s->lane[i].lock);
}

void sorter_release(struct sorter *s)
{
	for (unsigned i = 0; i < s->options.nr_lanes; i++)
		pthread_mutex_unlock(&s->lane[i].lock);
}

int sorter_flush(struct sorter *s, const struct sort_runs **ret_runs, uint64_t *ret_end,
		 struct shoal_err *err)
{
	struct half *other;
	int rc = 0;

	for (unsigned i = 0; i < s->options.nr_lanes && rc == 0; i++)
		rc = next_packer(s, &s->lane[i], err);
	if (rc == 0)
		rc = next_half(s, err);
	if (rc < 0)
		return rc;
	other = queue_take(&s->empty); /* the half just given away comes back last */
	if (!other)
		return fail_as_threads(s, err);
	if (!queue_give(&s->empty, other))
		return -EIO;
	*ret_runs = &s->runs;
	*ret_end = out_tell(&s->out);
	return 0;
}

/* Sort the rest of a lane: by the caller if nothing is spilled, because the merge waits for it. */
static int end_lane(struct sorter *s, struct lane *l, struct shoal_err *err)
{
	int rc = l->filling ? 0 : fail_as_threads(s, err);

	if (rc < 0 || l->filling->nr == 0)
		return rc;
	rc = sorter_make_room(s, l->filling, err);
	if (rc < 0)
		return rc;
	return has_spilled(s) ? next_packer(s, l, err)
			      : do_task(&s->own, task_to_sort(s, l->filling));
}

/* Nothing has been spilled: sort the packers that the threads have not reached yet. */
static int sort_rest(struct sorter *s, struct shoal_err *err)
{
	const struct task *t;
	int rc = 0;

	queue_close(&s->tasks);
	while (rc == 0 && (t = queue_take(&s->tasks)) != NULL)
		rc = do_task(&s->own, t);
	return err_first(stop_threads(s, err), rc);
}

/* How the entries are merged once the input has ended. */
static struct sort_merge_job merge_job(struct sorter *s)
{
	struct sort_merge_job job = { .memory = s->memory,
				      .memory_len = s->memory_len,
				      .stop = s->options.stop,
				      .repeated = &s->repeated,
				      .order_len = s->options.order_len,
				      .strip_order = true };

	if (!has_spilled(s)) {
		job.memory_len = (size_t)(s->half[0].bytes - s->memory); /* memory of packers */
		return job;
	}
	job.fd = s->spill_fd;
	job.keep = s->options.spill ? out_tell(&s->out) : 0;
	job.runs = &s->runs;
	job.out = &s->out;
	return job;
}

int sorter_end_input(struct sorter *s, struct shoal_err *err)
{
	int rc = 0;

	if (s->ended)
		return 0;
	if (!has_spilled(s) && s->runs.nr > 0)
		rc = open_spill(s,
				err); /* runs of an earlier, interrupted listing are merged too */
	for (unsigned i = 0; i < s->options.nr_lanes && rc == 0; i++)
		rc = end_lane(s, &s->lane[i], err);
	if (rc < 0)
		return rc;
	if (!has_spilled(s)) {
		rc = sort_rest(s, err);
	} else {
		struct sort_merge_job job;

		if (s->half_now->nr > 0)
			rc = next_half(s, err);
		rc = err_first(rc, stop_threads(s, err));
		job = merge_job(s);
		if (rc == 0)
			rc = sort_merge_reduce(&job, err);
	}
	s->ended = rc == 0;
	return rc;
}

int sorter_finish(struct sorter *s, sort_entry_fn *take, void *self, const struct sort_stage *stage,
		  uint64_t *ret_repeated, struct shoal_err *err)
{
	struct sort_merge_job job;
	int rc = sorter_end_input(s, err);

	if (rc < 0)
		return rc;
	job = merge_job(s);
	job.take = take;
	job.self = self;
	job.stage = stage;
	if (has_spilled(s))
		rc = s->runs.nr > 0 ? sort_merge(&job, err) : 0;
	else if (s->half_now->nr > 0)
		rc = sort_merge_packs(&job, s->half_now->pack, s->half_now->nr, err);
	*ret_repeated = s->repeated;
	return rc;
}

/* The packs, if all entries are in memory. */
static const struct pack *packs_of(const struct sorter *s, uint32_t *ret_nr)
{
	*ret_nr = has_spilled(s) ? 0 : s->half_now->nr;
	return has_spilled(s) ? NULL : s->half_now->pack;
}

unsigned sorter_ranges(struct sorter *s, const struct sort_limits *limits)
{
	struct sort_merge_job job = merge_job(s);
	uint32_t nr;
	const struct pack *packs = packs_of(s, &nr);

	assert(s->ended);
	if (packs) /* the other half is unused */
		job.memory_len = s->half[1].cap;
	return sort_merge_ranges_of(&job, packs, nr, limits);
}

int sorter_finish_ranges(struct sorter *s, const struct sort_limits *limits,
			 const struct sort_part *parts, unsigned nr, uint64_t *ret_repeated,
			 struct shoal_err *err)
{
	struct sort_merge_job job = merge_job(s);
	uint32_t nr_packs;
	const struct pack *packs = packs_of(s, &nr_packs);
	int rc = sort_merge_ranges(&job, packs, nr_packs, parts, nr, limits->range_memory, err);

	*ret_repeated = s->repeated;
	return rc;
}
