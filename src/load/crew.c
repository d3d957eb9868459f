/*
 * The crew: one owner and several threads. One thread with one io_uring ring is as fast as most
 * disks, for the least CPU time. If the files are in the page cache, or the device is faster than a
 * core, that core is the limit. Then threads take the submitted requests, a few at a time.
 *
 * - Reads through the page cache on four cores or more: the threads make one call after another.
 *   A ring would copy in the thread that submits, too, and a call costs less. Each thread has a
 *   descriptor table of its own: with 16 threads and one table, opening and closing files takes
 *   most of the time.
 * - Direct reads, and on fewer cores: each thread has a ring of its own, and so has the owner.
 * - Without io_uring, threads make calls for all reads.
 *
 * How many threads there are is decided while it runs: see pace.h.
 *
 * Measured with 200,000 files of 16 KB in the page cache on 2 cores: 118,000 files per second
 * with one ring, 220,000 with two (8.5 and 8.4 us of CPU per file).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/queue.h"
#include "load/crew_private.h"

/* More threads with rings would wait for the owner, which also looks up names and computes the
 * order. */
#define RINGS_MAX 3u

/* From this number of cores on, threads make calls. */
#define CALLS_FROM 4u

/*
 * Reads of this length or longer through the page cache are not for a ring on these cores: what is
 * not cached is read ahead in steps of about this size, and a ring does not begin the next step by
 * itself. On 16 cores, 300 KB not cached: 4,560 to 7,950 files per second with one ring, 10,600
 * with 32 threads.
 */
#define LONG_READ (UINT64_C(128) << 10)

/* How many reads are queued for each thread while they do not wait. Long ones take longer than the
 * owner, and each has a buffer: the fewer there are, the more of them stay in caches. */
#define QUEUED_SHORT CREW_SHARE
#define QUEUED_LONG  2u

/* While they wait, one more read is queued for so many threads, so that most threads find one. */
#define QUEUED_1_PER 2u

/* How often it is checked which cores may be used. */
#define CORES_NS 1000000000u

/* After too few descriptors were free for several threads, these rest for so long, and for twice as
 * long each time it happens again soon. */
#define SHORT_NS     1000000000u
#define SHORT_NS_MAX (60 * (uint64_t)SHORT_NS)

/* How often, and after which pause, opening a file is retried when no descriptor was free. */
#define GRACE          3u
#define GRACE_PAUSE_NS 1000000

static struct crew *crew_of(struct load_engine *e)
{
	return (struct crew *)e;
}

/* ---- The number of threads ---- */

static bool is_descriptor_free(const struct crew *c)
{
	int fd = fcntl(c->base.posix->root_fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		syscall(SYS_close, fd); /* ThreadSanitizer does not see that rings close files */
	return fd >= 0;
}

/* More requests may be queued than in flight, so that threads that read fast need not wait. */
static void crew_use_pace(struct crew *c)
{
	bool fast = c->by_calls && !c->pace.waits, is_long = c->options.mean_len >= LONG_READ;

	c->base.depth = c->base.in_flight;
	if (c->by_calls && c->pace.waits && !c->ring)
		c->base.depth += c->pace.wanted / QUEUED_1_PER;
	else if (fast && is_long && !c->ring)
		c->base.depth = c->pace.wanted * (1 + QUEUED_LONG);
	else if (fast)
		c->base.depth += c->pace.wanted * QUEUED_SHORT;
	c->now = c->pace.wanted;
	c->peak = (unsigned)u64_max(c->peak, c->pace.wanted);
	c->cores = c->pace.cores;
	c->now_waits = c->pace.waits;
}

/* Use no threads for a while; without a ring, one. */
static void stay_alone(struct crew *c)
{
	if (!c->short_of_files) {
		c->short_since = clock_now();
		if (c->short_since - c->short_until > SHORT_NS_MAX || c->short_ns == 0)
			c->short_ns = SHORT_NS;
	}
	c->short_of_files = true;
	pace_limit(&c->pace, c->ring ? 0 : 1);
	crew_use_pace(c);
}

/* A ring for a thread. It must not take the last free descriptor, which files need. */
static int crew_ring_new(struct crew *c, struct load_engine **ret_ring)
{
	struct load_engine base = { .store = c->base.store,
				    .posix = c->base.posix,
				    .direct = c->base.direct,
				    .in_flight = c->base.in_flight };
	int spare = fcntl(base.posix->root_fd, F_DUPFD_CLOEXEC, 0), rc;

	if (spare < 0)
		return err_errno();
	rc = load_uring_new(&c->options, &base, ret_ring, NULL);
	if (rc < 0 && !is_descriptor_free(c))
		rc = -EMFILE;
	syscall(SYS_close, spare);
	return rc;
}

/* Returns why it cannot be started. */
static int crew_thread_new(struct crew *c, struct crew_thread **ret_thread)
{
	struct crew_thread *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->crew = c;
	t->number = c->nr_threads;
	pthread_cond_init(&t->work, NULL);
	rc = c->by_calls ? 0 : crew_ring_new(c, &t->ring);
	if (rc == 0)
		rc = thread_start(&t->thread, crew_thread_main, t);
	if (rc == 0) {
		*ret_thread = t;
		return 0;
	}
	load_engine_free(t->ring);
	pthread_cond_destroy(&t->work);
	free(t);
	return rc;
}

/* Start threads until there are as many as wanted. If one cannot be started, the crew continues
 * with those that it has and does not try again. */
static void crew_start_threads(struct crew *c)
{
	while (c->nr_threads < c->pace.wanted) {
		struct crew_thread *t = NULL;
		int rc = crew_thread_new(c, &t);

		if (load_starved(rc)) {
			stay_alone(c);
			return;
		}
		if (rc < 0) {
			c->refused = true;
			pace_limit(&c->pace, c->nr_threads);
			c->limits = c->pace.is;
			return;
		}
		pthread_mutex_lock(&c->lock);
		c->thread[c->nr_threads++] = t;
		pthread_mutex_unlock(&c->lock);
	}
}

static void add_sums(const struct crew *c, uint64_t now, struct pace_sums *sums)
{
	for (unsigned i = 0; i < c->nr_threads; i++) {
		const struct crew_thread *t = c->thread[i];

		sums->cpu += t->cpu;
		sums->busy += crew_busy(t->busy, now);
		sums->sampled += t->sampled;
		sums->waited += t->waited;
	}
}

/* If threads have rested for long enough because of too few descriptors, let them read again. */
static void crew_end_rest(struct crew *c, uint64_t now)
{
	if (!c->short_of_files || now < c->short_since || now - c->short_since < c->short_ns)
		return;
	c->short_of_files = false;
	c->short_until = now;
	c->short_ns = u64_min(2 * c->short_ns, SHORT_NS_MAX);
	c->grace = 0;
	pthread_mutex_lock(&c->lock);
	c->alone = false;
	c->starved = 0;
	pthread_mutex_unlock(&c->lock);
	pace_set_limits(&c->pace, &c->limits);
	crew_start_threads(c);
	crew_use_pace(c);
}

/* From time to time: decide how many threads there should be. */
static void crew_check_load(struct crew *c, uint64_t now)
{
	struct pace_sums sums = { 0 };

	crew_end_rest(c, now);
	if (!pace_is_due(&c->pace, now))
		return;
	if (now - c->looked_at_cores > CORES_NS) {
		if (is_descriptor_free(c)) /* or the limit of a control group is not seen */
			c->pace.cores = cores_allowed();
		c->looked_at_cores = now;
	}
	sums.owner_cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	add_sums(c, now, &sums);
	pace_decide(&c->pace, &sums, now);
	crew_start_threads(c);
	crew_use_pace(c);
}

/* ---- The owner's side ---- */

static void crew_submit(struct load_engine *e, struct load_request *r)
{
	struct crew *c = crew_of(e);

	if (c->ring && c->pace.wanted == 0 && c->out == 0) {
		c->own++;
		c->nr_by_owner++;
		c->ring->ops->submit(c->ring, r);
	} else {
		load_push(&c->fresh, r);
		c->nr_fresh++;
	}
}

/* Under the lock. */
static void crew_deliver(struct crew *c)
{
	if (c->alone)
		stay_alone(c);
	c->out += c->nr_fresh;
	c->nr_queued += c->nr_fresh;
	c->nr_fresh = 0;
	load_splice(&c->queued, &c->fresh);
	c->wanted = c->pace.wanted;
	c->share = c->by_calls && c->pace.waits ? 1 : CREW_SHARE;
	c->nr_own = c->own;
	if (c->nr_idle > 0)
		crew_wake_threads(c);
}

static void crew_kick(struct load_engine *e)
{
	struct crew *c = crew_of(e);

	if (c->fresh.head) {
		pthread_mutex_lock(&c->lock);
		crew_deliver(c);
		pthread_mutex_unlock(&c->lock);
	}
	if (c->own > 0)
		c->ring->ops->kick(c->ring);
}

/* No descriptor was free: whether threads hold some, or held some until a moment ago, because
 * closing takes a while after the last read. Waits a little, so that retries do not use up a core.
 */
static bool may_be_freed(struct crew *c)
{
	if (c->nr_threads == 0)
		return false;
	pthread_mutex_lock(&c->lock);
	if (c->nr_helped > 0 || !c->alone)
		c->grace = GRACE;
	c->alone = true;
	c->wanted = 0;
	pthread_mutex_unlock(&c->lock);
	stay_alone(c);
	if (c->grace == 0)
		return false;
	c->grace--;
	nanosleep(&(struct timespec){ .tv_nsec = GRACE_PAUSE_NS }, NULL);
	return true;
}

/* No descriptor was free: begin a waiting request that needs none. Returns whether there was one.
 */
static bool crew_begin_open(struct crew *c)
{
	struct load_request *r;

	if (c->out == 0)
		return false;
	pthread_mutex_lock(&c->lock);
	r = load_pop_open(&c->queued);
	if (r) {
		c->nr_queued--;
		c->nr_own++;
	}
	pthread_mutex_unlock(&c->lock);
	if (!r)
		return false;
	c->out--;
	c->own++;
	c->nr_by_owner++;
	c->ring->ops->submit(c->ring, r);
	return true;
}

/* Reap the owner's ring. A request that found no free descriptor is retried while threads may
 * hold some. */
static void collect(struct crew *c)
{
	struct load_list *done = &c->ring->done;

	for (struct load_request *r = load_pop(done); r; r = load_pop(done)) {
		if (!load_open_starved(r) || !(crew_begin_open(c) || may_be_freed(c))) {
			c->own--;
			load_push(&c->base.done, r);
			continue;
		}
		load_take_again(r);
		c->ring->ops->submit(c->ring, r);
	}
}

/* Under the lock: collect the requests that threads have completed, and their errors. */
static int collect_helped(struct crew *c, struct shoal_err *err)
{
	load_splice(&c->base.done, &c->done);
	c->out -= c->nr_done;
	c->nr_done = 0;
	if (c->rc < 0 && err)
		*err = c->err;
	return c->rc;
}

/*
 * Under the lock: how many queued requests the owner reads by its ring. Threads that make calls
 * leave it none while there are completed ones, which it has to return first; and then so few that
 * they do not run out of them meanwhile.
 */
static unsigned share_of_owner(const struct crew *c)
{
	if (!c->ring || c->pace.is.fixed)
		return c->ring && !c->by_calls ? CREW_SHARE : 0;
	if (!c->by_calls || c->pace.wanted == 0 || c->pace.waits)
		return CREW_SHARE;
	if (c->base.done.head)
		return 0;
	return (unsigned)u64_min(CREW_SHARE, c->nr_queued / (2 * (c->pace.wanted + 1)));
}

/* With threads: queue new requests, collect completed ones, and take some for the owner's ring. */
static int turn_with_threads(struct crew *c, struct shoal_err *err)
{
	struct load_list mine = { NULL, NULL };
	uint64_t now;
	int rc;

	pthread_mutex_lock(&c->lock);
	crew_deliver(c);
	rc = collect_helped(c, err);
	for (unsigned nr = share_of_owner(c); nr > 0 && crew_is_work(c); nr--) {
		load_push(&mine, crew_pop(c));
		c->nr_own++;
		c->out--;
		c->nr_by_owner++;
	}
	c->own = c->nr_own;
	c->waiting = c->ring && !c->base.done.head ? CREW_IN_RING : CREW_AWAKE;
	pthread_mutex_unlock(&c->lock);
	now = mine.head ? clock_now() : 0;
	for (struct load_request *r = load_pop(&mine); r; r = load_pop(&mine)) {
		r->begun = now;
		c->ring->ops->submit(c->ring, r);
	}
	return rc;
}

/* Wait until a thread has completed something, time is up or another thread wakes the owner. */
static int wait_for_threads(struct crew *c, uint64_t left_us, struct shoal_err *err)
{
	/* A year stands for no timeout, and does not overflow. */
	uint64_t until = clock_now() + u64_min(left_us, UINT64_C(31536000000000)) * 1000;
	struct timespec end = clock_time(until);
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->done.head && !c->wake_asked && c->rc == 0 && left_us > 0 && rc == 0 &&
	       !(c->ring && c->alone && c->queued.head)) { /* returned, for the owner to read */
		c->waiting = CREW_ON_CONDITION;
		rc = pthread_cond_timedwait(&c->some, &c->lock, &end);
	}
	c->waiting = CREW_AWAKE;
	rc = collect_helped(c, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* After a wait in the ring: collect the requests that threads have completed meanwhile. */
static int look_at_threads(struct crew *c, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	c->waiting = CREW_AWAKE;
	c->nr_own = c->own;
	rc = collect_helped(c, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* One round of waiting, of at most @left us. */
static int crew_turn(struct crew *c, uint64_t left, struct shoal_err *err)
{
	bool helped = c->out > 0 || c->fresh.head;
	int rc = helped ? turn_with_threads(c, err) : 0;

	if (rc < 0)
		return rc;
	if (c->own == 0 && helped)
		return c->base.done.head ? 0 : wait_for_threads(c, left, err);
	if (!c->ring) /* nothing is in flight */
		return 0;
	rc = c->ring->ops->wait(c->ring, c->base.done.head ? 0 : left, err);
	collect(c);
	return helped && rc == 0 ? look_at_threads(c, err) : rc;
}

/* Wait until a request is done, time is up or another thread wakes the owner. Threads wake the
 * ring, maybe later than needed, so that it returns with nothing; signals do not end this wait. */
static int crew_wait(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err)
{
	struct crew *c = crew_of(e);
	uint64_t now = clock_now(), end = now + u64_min(timeout_us, UINT64_MAX / 4000) * 1000;
	uint64_t left;
	int rc;

	crew_check_load(c, now);
	do {
		left = end > now ? (end - now) / 1000 : 0;
		rc = crew_turn(c, left, err);
		now = clock_now();
	} while (rc == 0 && !e->done.head && left > 0 && !c->wake_asked);
	c->wake_asked = false;
	return e->done.head ? 0 : rc;
}

static void crew_wake(struct load_engine *e)
{
	struct crew *c = crew_of(e);
	bool on_condition;

	pthread_mutex_lock(&c->lock);
	c->wake_asked = true;
	on_condition = c->waiting == CREW_ON_CONDITION;
	if (on_condition)
		pthread_cond_signal(&c->some);
	pthread_mutex_unlock(&c->lock);
	if (c->ring && !on_condition)
		load_engine_wake(c->ring);
}

static void crew_free(struct load_engine *e)
{
	struct crew *c = crew_of(e);

	c->stop_now = true;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	c->queued = (struct load_list){ NULL, NULL };
	for (unsigned i = 0; i < c->nr_threads; i++)
		pthread_cond_signal(&c->thread[i]->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->nr_threads; i++) {
		pthread_join(c->thread[i]->thread, NULL);
		pthread_cond_destroy(&c->thread[i]->work);
		free(c->thread[i]);
	}
	load_engine_free(c->ring);
	pthread_cond_destroy(&c->some);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- Description ---- */

static const char *crew_name(const struct load_engine *e)
{
	const struct crew *c = (const struct crew *)e;

	return !c->ring || (c->by_calls && c->nr_by_threads > c->nr_by_owner) ? "threads" : "uring";
}

/* Why there are so many threads. */
static const char *crew_reason(const struct crew *c)
{
	if (c->options.threads > 0)
		return "as requested";
	if (c->now_waits)
		return "reads wait for the storage";
	return c->ring ? "one core was not enough" : "reads do not wait";
}

/* Such as "12 of at most 15 threads on 16 cores: one core was not enough; registered buffers". */
static void crew_describe(const struct load_engine *e, char *words, size_t room)
{
	const struct crew *c = (const struct crew *)e;
	unsigned now = c->now, peak = c->peak;
	char most[32] = "";

	if (peak == 0) {
		snprintf(words, room, "%s", c->base.detail);
		return;
	}
	if (!c->by_calls) { /* the owner is one of them */
		now++;
		peak++;
	}
	if (now != peak)
		snprintf(most, sizeof(most), "%u of at most ", now);
	snprintf(words, room, "%s%u thread%s %s on %u core%s: %s%s%s%s%s%.120s", most, peak,
		 peak == 1 ? "" : "s", c->by_calls ? "with calls" : "with rings", c->cores,
		 c->cores == 1 ? "" : "s", crew_reason(c),
		 c->refused ? ", no more could be started" : "",
		 c->short_of_files ? ", too few descriptors are free for more" : "",
		 c->nr_own_tables > 0 ? ", each with a table of open files" : "",
		 c->base.detail[0] ? "; " : "", c->base.detail);
}

static const struct load_engine_ops crew_ops = {
	.submit = crew_submit,
	.kick = crew_kick,
	.wait = crew_wait,
	.wake = crew_wake,
	.name_of = crew_name,
	.describe = crew_describe,
	.free = crew_free,
};

/* ---- Creating ---- */

/*
 * Whether a library may stand between the program and the kernel that has one table of all files by
 * their descriptors: with tables of their own, several threads use the same number at once.
 */
static bool has_io_library(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && preloaded[0] && !strstr(preloaded, "malloc");
}

static void crew_init(struct crew *c, const struct load_engine_options *options)
{
	struct pace_limits limits = { .in_flight = options->in_flight,
				      .most = c->by_calls ? PACE_MAX : RINGS_MAX,
				      .fixed = options->threads,
				      .ring = c->ring,
				      .rings = !c->by_calls };
	unsigned cores = cores_allowed();

	if (limits.fixed && limits.rings) { /* the owner's ring counts */
		limits.most = PACE_MAX;
		limits.fixed--;
	}
	c->base.ops = &crew_ops;
	c->options = *options;
	c->options.pool = NULL; /* registered once: the pages would count twice as locked memory */
	c->own_tables = c->by_calls && options->own_files && !has_io_library();
	c->looked_at_cores = clock_now();
	c->share = CREW_SHARE;
	pthread_mutex_init(&c->lock, NULL);
	cond_init_steady(&c->some);
	pace_init(&c->pace, &limits, cores, c->looked_at_cores);
	c->limits = c->pace.is;
}

/* Without a ring there must be a thread. */
static int crew_start(struct crew *c, struct load_engine **ret_engine, struct shoal_err *err)
{
	crew_start_threads(c);
	crew_use_pace(c);
	if (!c->ring && c->nr_threads == 0) {
		crew_free(&c->base);
		return err_set_errno(err, -EAGAIN, "cannot start a reading thread");
	}
	*ret_engine = &c->base;
	return 0;
}

/* Whether threads that make calls will be faster than rings. */
static bool calls_pay(const struct load_engine_options *o)
{
	if (o->kind == LOAD_URING || o->direct)
		return false;
	return o->threads > 0 || cores_allowed() >= CALLS_FROM;
}

bool load_calls_alone(const struct load_engine_options *o)
{
	return calls_pay(o) && o->own_files && o->mean_len >= LONG_READ;
}

int load_calls_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err)
{
	struct crew *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->base = *base;
	if (base->direct)
		snprintf(c->base.detail, sizeof(c->base.detail), "direct%s%.190s",
			 base->detail[0] ? "; " : "", base->detail);
	c->by_calls = true;
	crew_init(c, options);
	return crew_start(c, ret_engine, err);
}

/* Create a crew, sized for the cores that this thread may run on. */
int load_crew_new(const struct load_engine_options *options, const struct load_engine *base,
		  struct load_engine **ret_engine, struct shoal_err *err)
{
	struct load_engine *ring;
	struct crew *c;
	bool by_calls;
	int rc = load_uring_new(options, base, &ring, err);

	if (rc < 0)
		return rc;
	*ret_engine = ring;
	by_calls = calls_pay(options);
	if (options->threads == 1 && !by_calls)
		return 0; /* the owner's */
	c = cores_allowed() > 1 || options->threads > 0 ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return 0; /* one ring works without threads */
	c->base = *ring;
	c->ring = ring;
	c->by_calls = by_calls;
	crew_init(c, options);
	return crew_start(c, ret_engine, err);
}
