#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/engine_inside.h"
#include "store/s3.h"

/* ---- What of a file is read next ---- */

/* One call never reads more than 2 GiB less a page; a power of two keeps direct reads aligned. */
#define PIECE_MAX (UINT64_C(1) << 30)

/* Bytes in front of what is wanted that come along. */
static size_t skip_of(const struct load_engine *e, const struct load_request *r)
{
	return e->direct && e->posix ? (size_t)(r->off % LOAD_ALIGN) : 0;
}

/* So many bytes in whole blocks. */
static uint64_t load_whole(uint64_t len)
{
	return (len + LOAD_ALIGN - 1) / LOAD_ALIGN * LOAD_ALIGN;
}

struct load_piece load_next_piece(const struct load_engine *e, const struct load_request *r)
{
	size_t skip = skip_of(e, r);
	uint64_t from = r->got, end = skip + r->len + !r->inside;

	if (e->direct) {
		/* After a short read this may read some bytes again. */
		from -= from % LOAD_ALIGN;
		end = r->inside ? load_whole(end) : load_cap(r->off, r->len);
	}
	return (struct load_piece){
		.buf = r->buf + from,
		.len = (uint32_t)shoal_min(end - from, PIECE_MAX),
		.off = r->off - skip + from,
	};
}

/*
 * A read that is short of the wanted bytes is tried again until nothing comes: then the file ends
 * there. One that brought them all is not, though it may have been short of the byte that tells of
 * growth: that would be a second call for nearly every file.
 */
bool load_took(const struct load_engine *e, struct load_request *r, uint32_t n)
{
	uint64_t end = (e->direct ? r->got - r->got % LOAD_ALIGN : r->got) + n;

	if (end <= r->got)
		return false;
	r->got = end;
	return end < skip_of(e, r) + r->len;
}

/* ---- Files that are shared ---- */

int load_shared_fd(const struct load_request *r)
{
	return r->file ? atomic_load(&r->file->fd) : -1;
}

void load_share_fd(struct load_request *r)
{
	int none = -1;

	if (r->file) /* else it stays its own: another was first */
		atomic_compare_exchange_strong(&r->file->fd, &none, r->fd);
}

struct load_closing load_let_go(struct load_request *r)
{
	struct load_closing c = { .own = r->fd, .shared = -1 };

	if (r->fd >= 0 && r->fd == load_shared_fd(r))
		c.own = -1;
	if (r->file && atomic_fetch_sub(&r->file->left, 1) == 1)
		c.shared = atomic_exchange(&r->file->fd, -1);
	return c;
}

struct load_request *load_pop_open(struct load_list *l)
{
	struct load_request *r = l->head, *before = NULL;

	for (; r && load_shared_fd(r) < 0; r = r->next)
		before = r;
	if (!r || !before)
		return r ? load_pop(l) : NULL;
	before->next = r->next;
	if (l->tail == r)
		l->tail = before;
	return r;
}

void load_take_again(struct load_request *r)
{
	if (r->file)
		atomic_fetch_add(&r->file->left, 1);
	r->fd = -1;
	r->got = 0;
	r->state = 0;
}

void load_file_release(struct load_file *f)
{
	int fd = atomic_exchange(&f->fd, -1);

	if (fd >= 0)
		close(fd);
}

/* ---- How it ends ---- */

/* What is not a file may have been read as if it were one that has shrunk. */
static int check_regular(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return shoal_errno();
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE;
}

void load_settle(const struct load_engine *e, struct load_request *r, int rc)
{
	size_t skip = skip_of(e, r);
	uint64_t got = r->got > skip ? r->got - skip : 0;

	got = shoal_min(got, r->len + !r->inside);
	if (rc == 0 && got != r->len)
		rc = check_regular(r->fd);
	r->data = r->buf + skip;
	r->result = rc < 0 ? rc : (int64_t)got;
}

/*
 * Directories refuse O_DIRECT with the same EINVAL as file systems that do not have it. To tell
 * them apart is worth a second open, here and not for each file.
 */
int load_open_error(const struct load_engine *e, const struct load_request *r, int rc)
{
	int fd;

	if (rc == -ENXIO)
		return -ESPIPE; /* a socket */
	if (rc != -EINVAL || !e->direct)
		return rc;
	fd = store_posix_open_file(e->posix, r->name, 0);
	if (fd < 0)
		return fd;
	rc = check_regular(fd);
	close(fd);
	return rc < 0 ? rc : -EOPNOTSUPP;
}

/* ---- Choosing ---- */

/* A file without a name, that is never written, or an error. */
static int open_nameless(const struct store_posix *p, int flags)
{
	int fd = openat(p->root_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

	return fd < 0 ? shoal_errno() : fd;
}

/*
 * Only files can be asked for O_DIRECT, and none is known yet. Where none can be made either, as on
 * a file system that is read-only, the first request tells.
 */
static int probe_direct(const struct load_engine *e, struct shoal_err *err)
{
	int fd = open_nameless(e->posix, O_DIRECT);

	if (fd == -EINVAL) {
		fd = open_nameless(e->posix, 0);
		if (fd >= 0) {
			close(fd);
			return shoal_fail(err, -ENOTSUP,
					  "the file system of '%.300s' refuses O_DIRECT",
					  e->store->uri);
		}
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

static int check_options(const struct load_engine_options *o, struct shoal_err *err)
{
	if (o->in_flight < 1 || o->in_flight > LOAD_IN_FLIGHT_MAX)
		return shoal_fail(err, -EINVAL, "%u requests in flight: there are 1 to %u",
				  o->in_flight, LOAD_IN_FLIGHT_MAX);
	if (o->kind == LOAD_URING && !store_posix_of(o->store))
		return shoal_fail(err, -ENOTSUP, "io_uring reads files, and a %s store has none",
				  o->store->ops->kind);
	return 0;
}

int load_engine_new(const struct load_engine_options *options, struct load_engine **ret_engine,
		    struct shoal_err *err)
{
	struct load_engine base = {
		.store = options->store,
		.posix = store_posix_of(options->store),
		.in_flight = options->in_flight,
	};
	struct shoal_err why = { "" };
	int rc = check_options(options, err);

	if (rc < 0)
		return rc;
	base.direct = options->direct && base.posix;
	if (base.direct) {
		rc = probe_direct(&base, err);
		if (rc < 0)
			return rc;
	}
	if (options->kind == LOAD_URING)
		return load_crew_new(options, &base, ret_engine, err);
	if (options->kind == LOAD_AUTO && base.posix) {
		rc = load_crew_new(options, &base, ret_engine, &why);
		if (rc == 0 || rc == -ENOMEM)
			return rc < 0 ? shoal_fail(err, rc, "%s", why.msg) : 0;
		snprintf(base.detail, sizeof(base.detail), "%.200s", why.msg);
	} else if (options->direct && !base.posix) {
		snprintf(base.detail, sizeof(base.detail),
			 "no O_DIRECT, as a %.50s store has no files", options->store->ops->kind);
	}
	if (options->kind == LOAD_AUTO && store_s3_of(options->store))
		return load_s3_new(&base, ret_engine, err);
	return load_threads_new(&base, ret_engine, err);
}

/* ---- The thin calls ---- */

struct load_engine *load_engine_free(struct load_engine *e)
{
	if (e)
		e->ops->free(e);
	return NULL;
}

const char *load_engine_name(const struct load_engine *e)
{
	return e->ops->name;
}

const char *load_engine_detail(const struct load_engine *e)
{
	return e->detail;
}

unsigned load_engine_pending(const struct load_engine *e)
{
	return e->pending;
}

static int check_request(const struct load_engine *e, const struct load_request *r)
{
	if (r->off > INT64_MAX / 2 || r->len > INT64_MAX / 2)
		return -EOVERFLOW;
	if (r->cap < load_cap(r->off, r->len) || (uintptr_t)r->buf % LOAD_ALIGN != 0)
		return -EINVAL;
	return store_check_name_for(e->store, r->name, NULL);
}

void load_engine_submit(struct load_engine *e, struct load_request *r)
{
	struct load_closing c;
	int rc = check_request(e, r);

	e->pending++;
	r->got = 0;
	r->fd = -1;
	r->state = 0;
	r->opened = 0;
	r->data = r->buf;
	r->started = load_now();
	if (rc == 0) {
		e->ops->submit(e, r);
		return;
	}
	r->result = rc;
	r->finished = r->started;
	c = load_let_go(r);
	if (c.shared >= 0)
		close(c.shared);
	load_push(&e->done, r);
}

void load_engine_kick(struct load_engine *e)
{
	e->ops->kick(e);
}

void load_engine_wake(struct load_engine *e)
{
	if (e->ops->wake)
		e->ops->wake(e);
}

int load_engine_reap(struct load_engine *e, struct load_request **done, size_t max,
		     uint64_t timeout_us, struct shoal_err *err)
{
	size_t nr = 0;
	int rc;

	if (e->pending == 0 || max == 0)
		return 0;
	if (e->done.head) {
		e->ops->kick(e);
	} else {
		rc = e->ops->wait(e, timeout_us, err);
		if (rc < 0)
			return rc;
	}
	for (; nr < max && nr < INT32_MAX && e->done.head; nr++)
		done[nr] = load_pop(&e->done);
	e->pending -= (unsigned)nr;
	return (int)nr;
}

bool load_engine_remote(struct load_engine *e, struct load_remote *ret_remote)
{
	if (e->ops->remote)
		e->ops->remote(e, ret_remote, false);
	return e->ops->remote;
}

void load_engine_remote_clear(struct load_engine *e)
{
	if (e->ops->remote)
		e->ops->remote(e, NULL, true);
}

int load_engine_why(const struct load_engine *e, const struct load_request *r,
		    struct shoal_err *err)
{
	int rc = r->result < 0 ? (int)r->result : 0;

	if (rc == -ESTALE && r->etag) /* short: a loader keeps 160 bytes, names of 90 among them */
		return shoal_fail(err, rc,
				  "'%.200s' changed since it was listed: index the bucket again "
				  "with --etags",
				  r->name);
	if (rc < 0 && e->ops->why && e->ops->why(e, r, err) < 0)
		return rc;
	switch (rc) {
	case 0:
		return 0;
	case -ENOENT:
		return shoal_fail(err, rc, "'%.200s' is not there", r->name);
	case -EISDIR:
		return shoal_fail(err, rc, "'%.200s' is a directory", r->name);
	case -ESPIPE:
		return shoal_fail(err, rc, "'%.200s' is not a regular file", r->name);
	case -EOPNOTSUPP:
		if (e->direct)
			return shoal_fail(err, rc, "the file system of '%.200s' refuses O_DIRECT",
					  r->name);
		return shoal_fail_errno(err, rc, "cannot read '%.200s'", r->name);
	case -EMFILE:
		return shoal_fail(err, rc,
				  "cannot open '%.200s': the process may open no more files "
				  "(ulimit -n): allow it more, or have fewer in flight",
				  r->name);
	default:
		return shoal_fail_errno(err, rc, "cannot read '%.200s'", r->name);
	}
}
