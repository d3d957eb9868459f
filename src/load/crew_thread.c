/* The threads of a crew. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "load/crew_private.h"

/* How many threads are being woken at once. The first of them to run wakes more if there is still
 * work: if reads take no time, one thread does them all before a second could start. */
#define WAKING_MAX 4u

/* The owner is not woken for each request while there are queued ones: only for this many, or for
 * one that took so long that waking costs little in comparison. */
#define DONE_MANY    16u
#define DONE_SLOW_NS 50000u

/* A thread with a ring wakes up this often even if nothing is read. */
#define RING_WAIT_US 100000u

/* One of so many reads is examined; each, if they take long. */
#define SAMPLE_1_OF 16u

/* How often opening a file is attempted if no descriptor is free and none will be closed, and the
 * pause before. */
#define STARVED_TRIES    16u
#define STARVED_PAUSE_NS 1000000

/* States of a request: the file could not be opened, because no descriptor was free. A read that
 * fails with the same error, as of a file system in user space, is an ordinary failure. */
#define STARVED 1u

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

/* ThreadSanitizer takes equal numbers in different tables for the same descriptor. */
#if defined(__SANITIZE_THREAD__)
#define OWN_TABLES false
#else
#define OWN_TABLES true
#endif

/* ---- A descriptor table of its own ---- */

static void close_range_of(unsigned first, unsigned last, unsigned flags)
{
	if (first <= last)
		(void)!syscall(SYS_close_range, first, last, flags);
}

/*
 * Whether closing a copy of @fd has an effect: the file is open for writing, on a file system that
 * writes back at every close, or completes an upload.
 */
static bool is_flushed_by_close(int fd)
{
	static const unsigned types[] = {
		0x65735546, /* FUSE */
		0x6969,     /* NFS */
		0x517b,     /* SMB */
		0xff534d42, /* CIFS */
		0xfe534d42, /* SMB 2 */
		0x00c36400, /* Ceph */
	};
	int flags = fcntl(fd, F_GETFL);
	struct statfs fs;
	struct stat st;

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || flags & O_PATH || fstat(fd, &st) < 0 ||
	    !S_ISREG(st.st_mode) || fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if ((unsigned)fs.f_type == types[i])
			return true;
	return false;
}

/*
 * Give the calling thread a descriptor table of its own, with only the standard error, @low and
 * @high in it (-1: none). Threads that share a table wait for each other whenever they open or
 * close a file. What the process closes must not stay open here, such as an end of a pipe.
 */
static bool leave_table(int low, int high)
{
	int first = 3;

	if (!OWN_TABLES || high < 0)
		return false;
	for (int fd = 0; fd < high; fd++)
		if (fd != low && is_flushed_by_close(fd))
			return false;
	if (syscall(SYS_close_range, (unsigned)(high > 2 ? high : 2) + 1, ~0u, UNSHARE_TABLE) < 0)
		return false; /* before Linux 5.9, or not permitted */
	for (int fd = 0; fd < 2; fd++)
		if (fd != low && fd != high)
			close_range_of((unsigned)fd, (unsigned)fd, 0);
	if (low >= 3) {
		close_range_of(3, (unsigned)low - 1, 0);
		first = low + 1;
	}
	if (high > first)
		close_range_of((unsigned)first, (unsigned)high - 1, 0);
	return true;
}

/* What a thread needs of the process's table: the root of the store, and the means to wake the
 * owner. */
static bool leave_table_of(const struct crew *c)
{
	int root = c->base.posix->root_fd, wake = c->ring ? c->ring->wake_fd : -1;

	return root < wake ? leave_table(root, wake) : leave_table(wake, root);
}

/* ---- Under the lock ---- */

/* An idle thread that takes requests; PACE_MAX: there is none. */
static unsigned find_idle(const struct crew *c)
{
	for (unsigned i = 0; i < CREW_SET && c->nr_idle > 0 && 64 * i < c->wanted; i++)
		if (c->idle[i]) {
			unsigned k = 64 * i + (unsigned)__builtin_ctzll(c->idle[i]);

			return k < c->wanted ? k : PACE_MAX;
		}
	return PACE_MAX;
}

void crew_wake_threads(struct crew *c)
{
	unsigned nr = (unsigned)u64_divide_up(c->nr_queued, u64_max(c->share, 1)), i;

	while (c->waking < nr && c->waking < WAKING_MAX && crew_is_work(c)) {
		i = find_idle(c);
		if (i == PACE_MAX)
			return;
		c->idle[i / 64] &= ~(UINT64_C(1) << i % 64);
		c->nr_idle--;
		c->waking++;
		pthread_cond_signal(&c->thread[i]->work);
	}
}

/* Wait until requests are queued for this thread, or the crew ends. */
static void crew_rest(struct crew_thread *t)
{
	struct crew *c = t->crew;
	uint64_t bit = UINT64_C(1) << t->number % 64;

	c->idle[t->number / 64] |= bit;
	c->nr_idle++;
	while (c->idle[t->number / 64] & bit && !c->stop)
		pthread_cond_wait(&t->work, &c->lock);
	if (c->idle[t->number / 64] & bit) {
		c->idle[t->number / 64] &= ~bit;
		c->nr_idle--;
	} else {
		c->waking--;
	}
}

/* So many requests at once that the other threads have as many. */
static unsigned crew_share(const struct crew *c)
{
	return (unsigned)u64_min(c->share, c->nr_queued / (2 * u64_max(c->wanted, 1)) + 1);
}

/* Wake the owner, if it waits, for what is done. */
static void tell_owner(struct crew *c, bool now)
{
	enum crew_wait waiting = c->waiting;

	if (waiting == CREW_AWAKE || !(now || c->nr_done >= DONE_MANY || c->nr_queued == 0))
		return;
	c->waiting = CREW_AWAKE; /* one wake-up is enough */
	if (waiting == CREW_ON_CONDITION)
		pthread_cond_signal(&c->some);
	else
		load_engine_wake(c->ring); /* does not wait */
}

/* ---- Reading by calls ---- */

static int read_file(const struct load_engine *e, struct load_request *r)
{
	ssize_t n = 0;
	bool more = true;

	r->fd = load_shared_fd(r);
	if (r->fd < 0) {
		r->fd = store_posix_open_file(e->posix, r->name, e->direct ? O_DIRECT : 0);
		if (r->fd < 0)
			return load_open_error(e, r, r->fd);
		r->opens = true;
		load_share_fd(r);
	}
	r->opened = clock_now();
	while (more) {
		struct load_piece p = load_next_piece(e, r);

		n = pread(r->fd, p.buf, p.len, (off_t)p.off);
		more = n < 0 ? errno == EINTR : load_took(e, r, (uint32_t)n);
	}
	load_settle(e, r, n < 0 ? err_errno() : 0);
	return 0;
}

static void crew_close_files(struct load_request *r)
{
	struct load_closing c = load_release_file(r);

	if (c.own >= 0)
		close(c.own);
	if (c.shared >= 0)
		close(c.shared);
}

/* A request that found no free descriptor keeps its files, to be retried. */
static void read_now(const struct load_engine *e, struct load_request *r, uint64_t now)
{
	int rc;

	r->begun = now;
	r->got = 0;
	rc = read_file(e, r);
	if (rc < 0)
		r->result = rc;
	r->state = load_starved(rc) ? STARVED : 0;
	if (r->state != STARVED)
		crew_close_files(r);
	r->finished = clock_now();
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

/* Read, and find out whether that had to wait. */
static void read_examined(struct crew_thread *t, struct load_request *r, uint64_t now)
{
	struct rusage before, after;
	uint64_t weight = t->unsampled;

	t->unsampled = 0;
	getrusage(RUSAGE_THREAD, &before);
	read_now(&t->crew->base, r, now);
	getrusage(RUSAGE_THREAD, &after);
	t->spacing = r->finished - now > DONE_SLOW_NS ? 1 : SAMPLE_1_OF;
	t->cpu = timeval_ns(&after.ru_utime) + timeval_ns(&after.ru_stime);
	t->sampled += weight;
	if (after.ru_nvcsw > before.ru_nvcsw)
		t->waited += weight;
}

/* Under the lock: return a request that was read. */
static void put_done(struct crew *c, struct load_request *r)
{
	load_push(&c->done, r);
	c->nr_done++;
}

/*
 * Under the lock: no descriptor was free for @r. With a ring, the owner reads it and all later
 * ones, so that the descriptors that are held are closed soon. Otherwise one thread reads, first
 * the requests whose shared file is open: the last of them closes it. Returns whether there is none
 * of them, so that the thread has to wait.
 */
static bool crew_starve(struct crew *c, struct load_request *r)
{
	struct load_request *open;

	c->alone = true;
	c->wanted = c->ring ? 0 : 1;
	if (!c->ring && c->starved >= STARVED_TRIES && c->nr_helped <= 1) {
		c->starved = 0; /* the next one has as many attempts */
		crew_close_files(r);
		put_done(c, r);
		return false;
	}
	open = load_pop_open(&c->queued);
	r->fd = -1; /* as load_take_again(), but its file was not released */
	r->got = 0;
	load_push_front(&c->queued, r);
	if (open)
		load_push_front(&c->queued, open);
	c->nr_queued++;
	return !open && !c->ring;
}

/* Under the lock, which it releases meanwhile: one attempt more to find a free descriptor. */
static void wait_for_descriptors(struct crew *c)
{
	c->starved++;
	pthread_mutex_unlock(&c->lock);
	nanosleep(&(struct timespec){ .tv_nsec = STARVED_PAUSE_NS }, NULL);
	pthread_mutex_lock(&c->lock);
}

/* Under the lock: return what was read, in the sequence in which it was read. */
static void return_done(struct crew *c, struct load_list *mine, unsigned nr, bool slow)
{
	if (nr > 0)
		c->starved = 0;
	load_splice(&c->done, mine);
	c->nr_done += nr;
	c->nr_by_threads += nr;
	tell_owner(c, slow);
}

/* Read @todo, from time @now on. Called without the lock; left with it. */
static void read_share(struct crew_thread *t, struct load_list *todo, uint64_t now)
{
	struct load_list mine = { NULL, NULL }, starved = { NULL, NULL };
	struct crew *c = t->crew;
	struct load_request *r;
	bool slow = false, must_wait = false;
	unsigned nr = 0;

	while ((r = c->stop_now ? NULL : load_pop(todo))) {
		if (++t->unsampled >= t->spacing)
			read_examined(t, r, now);
		else
			read_now(&c->base, r, now);
		slow = r->finished - now > DONE_SLOW_NS;
		now = r->finished;
		if (r->state == STARVED) {
			load_push(&starved, r);
			continue;
		}
		load_push(&mine, r);
		nr++;
		if (slow && todo->head) {
			pthread_mutex_lock(&c->lock);
			return_done(c, &mine, nr, true);
			pthread_mutex_unlock(&c->lock);
			nr = 0;
		}
	}
	pthread_mutex_lock(&c->lock);
	return_done(c, &mine, nr, slow);
	while ((r = load_pop(&starved)))
		must_wait |= crew_starve(c, r);
	if (must_wait)
		wait_for_descriptors(c);
}

/* Take some requests and read them. Called and left with the lock held. */
static void serve_by_calls(struct crew_thread *t)
{
	struct load_list todo = { NULL, NULL };
	struct crew *c = t->crew;
	uint64_t began;

	for (unsigned nr = crew_share(c); nr > 0 && c->queued.head; nr--)
		load_push(&todo, crew_pop(c));
	c->nr_helped++;
	crew_wake_threads(c);
	pthread_mutex_unlock(&c->lock);
	began = clock_now();
	t->busy = crew_busy_from(t->was_busy, began);
	read_share(t, &todo, began);
	c->nr_helped--;
	t->was_busy += clock_now() - began;
	t->busy = t->was_busy << 1;
	tell_owner(c, c->rc < 0 || (c->alone && c->queued.head));
}

/* ---- Reading by a ring ---- */

/*
 * Under the lock: return to the owner the requests that this ring has read. A request that found
 * no free descriptor is left to the owner, and so are all later ones, so that the descriptors
 * that are held are closed soon.
 */
static void return_from_ring(struct crew_thread *t)
{
	struct crew *c = t->crew;

	for (struct load_request *r = load_pop(&t->ring->done); r; r = load_pop(&t->ring->done)) {
		t->active--;
		c->nr_helped--;
		if (load_open_starved(r)) {
			c->alone = true;
			c->wanted = 0;
			load_take_again(r);
			load_push(&c->queued, r);
			c->nr_queued++;
		} else {
			put_done(c, r);
			c->nr_by_threads++;
		}
	}
}

/* Execute one group of requests. Called and left with the lock held. */
static void serve_by_ring(struct crew_thread *t)
{
	struct crew *c = t->crew;
	struct load_list mine = { NULL, NULL };
	struct shoal_err err = { "" };
	uint64_t now;
	int rc;

	for (unsigned nr = 0; nr < c->share && t->number < c->wanted && crew_is_work(c); nr++) {
		load_push(&mine, crew_pop(c));
		c->nr_helped++;
		t->active++;
	}
	crew_wake_threads(c);
	pthread_mutex_unlock(&c->lock);
	now = mine.head ? clock_now() : 0;
	for (struct load_request *r = load_pop(&mine); r; r = load_pop(&mine)) {
		r->begun = now;
		t->ring->ops->submit(t->ring, r);
	}
	rc = t->ring->ops->wait(t->ring, RING_WAIT_US, &err);
	pthread_mutex_lock(&c->lock);
	return_from_ring(t);
	if (rc < 0 && c->rc == 0) {
		c->rc = rc;
		c->err = err;
	}
	tell_owner(c, c->done.head || c->queued.head || c->rc < 0);
}

void *crew_thread_main(void *arg)
{
	struct crew_thread *t = arg;
	struct crew *c = t->crew;

	if (c->own_tables && leave_table_of(c))
		c->nr_own_tables++;
	pthread_mutex_lock(&c->lock);
	while (!c->stop && c->rc == 0) {
		if (t->active == 0 && !(t->number < c->wanted && crew_is_work(c))) {
			crew_wake_threads(c); /* it may have been woken in place of another */
			crew_rest(t);
		} else if (t->ring) {
			serve_by_ring(t);
		} else {
			serve_by_calls(t);
		}
	}
	pthread_mutex_unlock(&c->lock);
	t->ring = load_engine_free(t->ring);
	return NULL;
}
