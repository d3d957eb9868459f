/*
 * Reads of files by io_uring: open, read, close, each of many files in flight, by one thread.
 *
 * A file whose names are in the kernel's cache is opened by openat2(RESOLVE_CACHED) on the spot:
 * that never waits, and saves a turn through the ring. What would have to wait is opened by the
 * ring's workers. Against opening all of them in the ring, which tries its cache first too, this
 * was no clear gain on a noisy machine: 16 KB files, direct, best of 9 to 12, 64 in flight 6.0 to
 * 6.5 us of CPU each (ring: 5.7 to 6.0) and 66,000 to 67,000 a second (61,000 to 62,000); 8 in
 * flight 13.3 us and 32,000 (12.0 and 35,000); names not cached, three runs on a loop device, 13.3
 * to 15.6 us (14.7 to 15.5). To close by the ring, by it without a completion, or by close(2) could
 * not be told apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <liburing.h>

#include "load/engine_inside.h"

#define BUFFER_MAX (UINT64_C(1) << 30) /* of one registered buffer: the kernel's limit */
#define BUFFERS    1024u               /* at most */

/* After so many opens in a row that were not in the cache, only one in so many tries it. */
#define COLD_AFTER 64u
#define COLD_TRY   64u

enum { OPENING, OPENING_LEASED, READING, READING_AGAIN };

/* How often a file is tried to be opened when no descriptor is free, and none will be given back.
 */
#define STARVED_TRIES 16u

struct uring {
	struct load_engine base;
	struct io_uring ring;
	struct load_list waiting; /* submitted, not begun */
	unsigned active;          /* begun, not done: each has one entry in the ring */
	unsigned closing;         /* entries in the ring that close a file */
	unsigned misses;          /* opens in a row that were not in the cache */
	bool disabled;            /* until the first submit, which says whose the ring is */
	bool starved;             /* no descriptor is free: wait until one is closed */
	bool cached;              /* the kernel has RESOLVE_CACHED */
	bool no_nonblock;         /* O_NONBLOCK makes this file system's reads fail */
	bool armed;               /* the ring watches wake_fd */
	bool woken;               /* by it, so do not wait */
	int wake_fd;              /* others write here to wake the owner; -1: there is none */
	unsigned nr_buffers;      /* registered; 0: none */
	uint8_t *pool;
	size_t pool_len;
};

static struct uring *uring_of(struct load_engine *e)
{
	return (struct uring *)e;
}

/* ---- Entries ---- */

/*
 * The ring has room for what `active` and `closing` may be: it is full only while the kernel, out
 * of memory, does not take what is in it. NULL then.
 */
static struct io_uring_sqe *entry_for(struct uring *u, void *what)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (!sqe && io_uring_submit(&u->ring) > 0)
		sqe = io_uring_get_sqe(&u->ring);
	if (sqe)
		io_uring_sqe_set_data(sqe, what);
	return sqe;
}

/* By the ring: on network file systems to close takes a message, and waits for its answer. */
static void close_file(struct uring *u, int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (!sqe) {
		close(fd);
		return;
	}
	io_uring_prep_close(sqe, fd);
	io_uring_sqe_set_data(sqe, NULL);
	u->closing++;
}

/* It is done, with an error or what it got. */
static void finish(struct uring *u, struct load_request *r, int rc)
{
	struct load_closing c;

	load_settle(&u->base, r, rc);
	c = load_let_go(r);
	if (c.own >= 0)
		close_file(u, c.own);
	if (c.shared >= 0)
		close_file(u, c.shared);
	r->finished = load_now();
	u->active--;
	u->starved = false;
	load_push(&u->base.done, r);
}

/* The registered buffer that all of a piece lies in; -1: none. */
static int buffer_of(const struct uring *u, const struct load_piece *p)
{
	uint64_t from = (uint64_t)((uintptr_t)p->buf - (uintptr_t)u->pool), end = from + p->len;

	if (from >= u->pool_len || end > u->pool_len)
		return -1;
	if (from / BUFFER_MAX >= u->nr_buffers || from / BUFFER_MAX != (end - 1) / BUFFER_MAX)
		return -1;
	return (int)(from / BUFFER_MAX);
}

static void read_on(struct uring *u, struct load_request *r)
{
	struct load_piece p = load_next_piece(&u->base, r);
	struct io_uring_sqe *sqe = entry_for(u, r);
	int buffer;

	if (!sqe) {
		finish(u, r, -EAGAIN);
		return;
	}
	buffer = buffer_of(u, &p);
	if (buffer >= 0)
		io_uring_prep_read_fixed(sqe, r->fd, p.buf, p.len, p.off, buffer);
	else
		io_uring_prep_read(sqe, r->fd, p.buf, p.len, p.off);
}

/* ---- Opening ---- */

static int open_flags(const struct uring *u)
{
	return STORE_POSIX_READ | (u->base.direct ? O_DIRECT : 0);
}

/* O_NONBLOCK was for opening. Who reads through the ring may wait. */
static void clear_nonblock(const struct uring *u, int fd)
{
	fcntl(fd, F_SETFL, u->base.direct ? O_DIRECT : 0);
}

/* Back to the front of the queue, as nothing says that it was begun. */
static void put_back(struct uring *u, struct load_request *r)
{
	u->active--;
	u->starved = true;
	load_push_front(&u->waiting, r);
}

static void open_in_ring(struct uring *u, struct load_request *r, uint32_t state)
{
	struct io_uring_sqe *sqe = entry_for(u, r);
	int flags = open_flags(u);

	if (!sqe) {
		finish(u, r, -EAGAIN);
		return;
	}
	r->state = state;
	if (state == OPENING_LEASED)
		flags &= ~O_NONBLOCK;
	io_uring_prep_openat(sqe, u->base.posix->root_fd, r->name, flags, 0);
	if (u->cached)
		sqe->flags |= IOSQE_ASYNC; /* it is known that it would have to wait */
}

/* Its file is open. */
static void read_first(struct uring *u, struct load_request *r)
{
	r->got = 0; /* it counted tries until now */
	r->state = READING;
	r->opened = load_now();
	read_on(u, r);
}

/* One that needs no descriptor, as its file is open, if such a one is waiting. */
static bool begin_open(struct uring *u)
{
	struct load_request *r = load_pop_open(&u->waiting);

	if (!r)
		return false;
	u->active++;
	r->fd = load_shared_fd(r);
	read_first(u, r);
	return true;
}

/* @fd is the open file or an error. */
static void opened(struct uring *u, struct load_request *r, int fd)
{
	if (fd == -EAGAIN && r->state == OPENING) {
		open_in_ring(u, r, OPENING_LEASED);
		return;
	}
	if (fd == -EINTR) {
		open_in_ring(u, r, r->state);
		return;
	}
	if (load_starved(fd) && (u->active > 1 || u->closing > 0 || begin_open(u))) {
		put_back(u, r);
		return;
	}
	/*
	 * Nobody to wait for, but one that was opening a file that is not there may have had the
	 * last descriptor for that long: try a few times more before it is an error.
	 */
	if (load_starved(fd) && r->got < STARVED_TRIES) {
		r->got++;
		open_in_ring(u, r, r->state == OPENING_LEASED ? OPENING_LEASED : OPENING);
		return;
	}
	if (fd < 0) {
		finish(u, r, load_open_error(&u->base, r, fd));
		return;
	}
	r->fd = fd;
	if (u->no_nonblock)
		clear_nonblock(u, fd);
	load_share_fd(r);
	read_first(u, r);
}

/* -EAGAIN where it would have to wait. */
static int open_cached(struct uring *u, const char *name)
{
	struct open_how how = { .flags = (unsigned)open_flags(u), .resolve = RESOLVE_CACHED };
	int fd;

	if (!u->cached || (u->misses > COLD_AFTER && u->misses++ % COLD_TRY != 0))
		return -EAGAIN;
	fd = (int)syscall(SYS_openat2, u->base.posix->root_fd, name, &how, sizeof(how));
	if (fd < 0)
		fd = shoal_errno();
	u->misses = fd == -EAGAIN ? u->misses + 1 : 0;
	return fd;
}

static void begin(struct uring *u, struct load_request *r)
{
	int fd;

	u->active++;
	r->fd = load_shared_fd(r);
	if (r->fd >= 0) {
		read_first(u, r);
		return;
	}
	r->state = OPENING;
	if (strlen(r->name) >= PATH_MAX) { /* as long as a name may be: takes two steps */
		r->state = OPENING_LEASED;
		opened(u, r, store_posix_open_file(u->base.posix, r->name, open_flags(u)));
		return;
	}
	fd = open_cached(u, r->name);
	if (fd == -EAGAIN)
		open_in_ring(u, r, OPENING);
	else
		opened(u, r, fd);
}

static void begin_waiting(struct uring *u)
{
	while (u->waiting.head && !u->starved && u->active < u->base.in_flight &&
	       u->closing < u->base.in_flight)
		begin(u, load_pop(&u->waiting));
}

/* ---- What comes out of the ring ---- */

/* @n bytes or an error came for the last read of a request. */
static void came(struct uring *u, struct load_request *r, int n)
{
	if (n == -EAGAIN && r->state == READING) {
		/* Of file systems whose reads cannot but wait (NFS, some FUSE), or old kernels.
		 * Others that share the file may have found out first, or before it was open. */
		u->no_nonblock = true;
		clear_nonblock(u, r->fd);
		r->state = READING_AGAIN;
		read_on(u, r);
	} else if (n == -EINTR || (n >= 0 && load_took(&u->base, r, (uint32_t)n))) {
		read_on(u, r);
	} else {
		finish(u, r, n < 0 ? n : 0);
	}
}

/* Somebody has written to wake_fd. */
static void take_wake(struct uring *u)
{
	uint64_t times;

	u->armed = false;
	u->woken = true;
	(void)!read(u->wake_fd, &times, sizeof(times));
}

static void watch_wake(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (u->armed || u->wake_fd < 0)
		return;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe)
		return; /* there is much to do: it will not wait for long */
	io_uring_prep_poll_add(sqe, u->wake_fd, POLLIN);
	io_uring_sqe_set_data(sqe, u);
	u->armed = true;
}

static void uring_wake(struct load_engine *e)
{
	uint64_t once = 1;

	if (uring_of(e)->wake_fd >= 0)
		(void)!write(uring_of(e)->wake_fd, &once, sizeof(once));
}

static void take_completions(struct uring *u)
{
	struct io_uring_cqe *cqe;
	unsigned head, nr = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe)
	{
		void *what = io_uring_cqe_get_data(cqe);
		struct load_request *r = what;

		nr++;
		if (what == u) {
			take_wake(u);
		} else if (!r) {
			u->closing--;
			u->starved = false;
		} else if (r->state == READING || r->state == READING_AGAIN) {
			came(u, r, cqe->res);
		} else {
			opened(u, r, cqe->res);
		}
	}
	io_uring_cq_advance(&u->ring, nr);
	begin_waiting(u);
}

/* Hand the kernel what is in the ring. What it does not take now it is given again later. */
static void uring_kick(struct load_engine *e)
{
	struct uring *u = uring_of(e);

	if (io_uring_sq_ready(&u->ring) > 0)
		io_uring_submit(&u->ring);
}

/* One turn: hand over, wait for something to come out or @ns, take it. 1 when time is up. */
static int turn(struct uring *u, uint64_t ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = (long long)(ns / 1000000000),
		.tv_nsec = (long long)(ns % 1000000000),
	};
	struct io_uring_cqe *cqe;
	int rc = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);

	take_completions(u);
	/* Busy: it takes no more before something came out, which was just done. */
	return rc >= 0 || rc == -EAGAIN || rc == -EBUSY ? 0 : rc;
}

static int uring_wait(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err)
{
	struct uring *u = uring_of(e);
	uint64_t now = load_now(), end = now + shoal_min(timeout_us, UINT64_MAX / 4000) * 1000;
	int rc = 0;

	take_completions(u);
	watch_wake(u);
	while (!e->done.head && !u->woken && rc == 0) {
		rc = turn(u, end > now ? end - now : 0);
		now = load_now();
		if (now >= end)
			break;
	}
	u->woken = false;
	/* Whoever was waiting has begun: not to be left until the owner comes back. */
	uring_kick(e);
	if (rc < 0 && rc != -ETIME && rc != -EINTR && !e->done.head)
		return shoal_fail_errno(err, rc, "io_uring failed");
	return 0;
}

static void uring_submit(struct load_engine *e, struct load_request *r)
{
	struct uring *u = uring_of(e);

	if (u->disabled) {
		/* When it fails, so does the first turn. (liburing 2.3 forgot to export its call.)
		 */
		syscall(SYS_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
			0);
		u->disabled = false;
	}
	load_push(&u->waiting, r);
	begin_waiting(u);
}

/* ---- Making and freeing ---- */

static void uring_free(struct load_engine *e)
{
	struct uring *u = uring_of(e);
	int rc = 0;

	u->waiting = (struct load_list){ NULL, NULL };
	while (u->active + u->closing > 0 && (rc == 0 || rc == -ETIME || rc == -EINTR)) {
		rc = turn(u, 1000000000);
		u->waiting = (struct load_list){ NULL, NULL }; /* what was starved */
	}
	io_uring_queue_exit(&u->ring);
	if (u->wake_fd >= 0)
		close(u->wake_fd);
	free(u);
}

static const struct load_engine_ops uring_ops = {
	.name = "uring",
	.submit = uring_submit,
	.kick = uring_kick,
	.wait = uring_wait,
	.wake = uring_wake,
	.free = uring_free,
};

static int refused(struct shoal_err *err, int rc)
{
	switch (rc) {
	case -EPERM:
	case -EACCES:
		return shoal_fail(err, -ENOTSUP,
				  "io_uring is not permitted here (seccomp, as in containers, or "
				  "kernel.io_uring_disabled)");
	case -ENOSYS:
		return shoal_fail(err, -ENOTSUP, "this kernel has no io_uring");
	case -ENOMEM:
		return shoal_fail(err, -ENOTSUP,
				  "io_uring gets no memory: RLIMIT_MEMLOCK (ulimit -l) may be too "
				  "small");
	default:
		shoal_say_errno(err, rc, "io_uring cannot be set up");
		return -ENOTSUP;
	}
}

/* Older kernels say EINVAL to what they do not know. */
static int make_ring(struct uring *u, struct shoal_err *err)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED,
		IORING_SETUP_COOP_TASKRUN,
		0,
	};
	struct io_uring_params params;
	int rc = -EINVAL;

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(flags) && rc == -EINVAL; i++) {
		params = (struct io_uring_params){ .flags = flags[i] | IORING_SETUP_CLAMP };
		/* Each request in flight has a read or an open there, and a close of the last. */
		rc = io_uring_queue_init_params(2 * u->base.in_flight, &u->ring, &params);
	}
	if (rc < 0)
		return refused(err, rc);
	u->disabled = params.flags & IORING_SETUP_R_DISABLED;
	if (!(params.features & IORING_FEAT_EXT_ARG) || !(params.features & IORING_FEAT_NODROP)) {
		io_uring_queue_exit(&u->ring);
		return shoal_fail(err, -ENOTSUP,
				  "the io_uring of this kernel is too old (before 5.11)");
	}
	return 0;
}

static int check_operations(struct uring *u, struct shoal_err *err)
{
	static const int needed[] = { IORING_OP_OPENAT, IORING_OP_READ, IORING_OP_READ_FIXED,
				      IORING_OP_CLOSE };
	struct io_uring_probe *probe = io_uring_get_probe_ring(&u->ring);
	bool all = probe;

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(needed) && all; i++)
		all = io_uring_opcode_supported(probe, needed[i]);
	io_uring_free_probe(probe);
	return all ? 0
		   : shoal_fail(err, -ENOTSUP,
				"the io_uring of this kernel cannot open and read files");
}

/* Registered, the kernel need not pin and unpin the pages for each direct read. */
static int register_pool(struct uring *u, const struct load_engine_options *o)
{
	struct iovec *part;
	size_t nr = (size_t)(o->pool_len / BUFFER_MAX + (o->pool_len % BUFFER_MAX > 0));
	int rc;

	if (!o->pool || nr == 0)
		return -ENOENT;
	nr = nr < BUFFERS ? nr : BUFFERS;
	part = calloc(nr, sizeof(*part));
	if (!part)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		part[i] = (struct iovec){
			.iov_base = o->pool + i * BUFFER_MAX,
			.iov_len = (size_t)shoal_min(o->pool_len - i * BUFFER_MAX, BUFFER_MAX),
		};
	rc = io_uring_register_buffers(&u->ring, part, (unsigned)nr);
	free(part);
	if (rc < 0)
		return rc;
	u->pool = o->pool;
	u->pool_len = o->pool_len;
	u->nr_buffers = (unsigned)nr;
	return 0;
}

static bool has_resolve_cached(const struct uring *u)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED };
	int fd = (int)syscall(SYS_openat2, u->base.posix->root_fd, ".", &how, sizeof(how));

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno == EAGAIN;
}

int load_uring_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return shoal_fail(err, -ENOMEM, "out of memory");
	u->base = *base;
	u->base.ops = &uring_ops;
	u->wake_fd = -1;
	rc = make_ring(u, err);
	if (rc < 0) {
		free(u);
		return rc;
	}
	rc = check_operations(u, err);
	if (rc < 0) {
		uring_free(&u->base);
		return rc;
	}
	u->cached = has_resolve_cached(u);
	u->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); /* without one it wakes by itself */
	rc = register_pool(u, options);
	snprintf(u->base.detail, sizeof(u->base.detail), "%s%s",
		 rc == 0         ? "registered buffers"
		 : rc == -ENOMEM ? "buffers not registered: RLIMIT_MEMLOCK (ulimit -l) is too small"
				 : "buffers not registered",
		 base->direct ? ", direct" : "");
	*ret_engine = &u->base;
	return 0;
}
