#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/engine_private.h"
#include "store/s3/s3.h"

/* ---- The next read of a file ---- */

/* A single read is less than 2 GiB minus a page; a power of two keeps direct reads aligned. */
#define PIECE_MAX (UINT64_C(1) << 30)

/* Bytes before the wanted ones that an aligned read includes. */
static size_t skip_of(const struct load_engine *e, const struct load_request *r)
{
	return e->direct && e->posix ? (size_t)(r->off % LOAD_ALIGN) : 0;
}

/* Round up to whole blocks. */
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
		.len = (uint32_t)u64_min(end - from, PIECE_MAX),
		.off = r->off - skip + from,
	};
}

/*
 * A short read is repeated until it returns nothing: then the file ends there. A read that
 * returned all wanted bytes is not repeated, even if the extra byte that detects growth is
 * missing: that would be a second call for nearly every file.
 */
bool load_took(const struct load_engine *e, struct load_request *r, uint32_t n)
{
	uint64_t end = (e->direct ? r->got - r->got % LOAD_ALIGN : r->got) + n;

	if (end <= r->got)
		return false;
	r->got = end;
	return end < skip_of(e, r) + r->len;
}

/* ---- Shared files ---- */

int load_shared_fd(const struct load_request *r)
{
	return r->file ? atomic_load(&r->file->fd) : -1;
}

void load_share_fd(struct load_request *r)
{
	int none = -1;

	if (r->file) /* otherwise the descriptor stays the request's own: another one was first */
		atomic_compare_exchange_strong(&r->file->fd, &none, r->fd);
}

struct load_closing load_release_file(struct load_request *r)
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

/* ---- Completion ---- */

/* Something other than a regular file may look like a file that has shrunk. */
static int check_regular(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno();
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE;
}

void load_settle(const struct load_engine *e, struct load_request *r, int rc)
{
	size_t skip = skip_of(e, r);
	uint64_t got = r->got > skip ? r->got - skip : 0;

	got = u64_min(got, r->len + !r->inside);
	if (rc == 0 && got != r->len)
		rc = check_regular(r->fd);
	r->data = r->buf + skip;
	r->result = rc < 0 ? rc : (int64_t)got;
}

/* Directories refuse O_DIRECT with the same EINVAL as file systems without support for it. A
 * second open tells them apart; it is done here and not for each file. */
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

/* ---- Choosing an engine ---- */

/* Open an unnamed file that is never written; or an error. */
static int engine_open_nameless(const struct store_posix *p, int flags)
{
	int fd = openat(p->root_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

	return fd < 0 ? err_errno() : fd;
}

/* O_DIRECT can only be tried on a file, and none is known yet. If no file can be created either,
 * as on a read-only file system, the first request shows whether it works. */
static int probe_direct(const struct load_engine *e, struct shoal_err *err)
{
	int fd = engine_open_nameless(e->posix, O_DIRECT);

	if (fd == -EINVAL) {
		fd = engine_open_nameless(e->posix, 0);
		if (fd >= 0) {
			close(fd);
			return err_set(err, -ENOTSUP,
				       "the file system of '%.300s' does not support O_DIRECT",
				       e->store->uri);
		}
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

static int engine_check_options(const struct load_engine_options *o, struct shoal_err *err)
{
	if (o->in_flight < 1 || o->in_flight > LOAD_IN_FLIGHT_MAX)
		return err_set(err, -EINVAL, "%u requests in flight: there must be 1 to %u",
			       o->in_flight, LOAD_IN_FLIGHT_MAX);
	if (o->kind == LOAD_URING && !store_posix_of(o->store))
		return err_set(err, -ENOTSUP, "io_uring reads files, but a %s store has none",
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
		.depth = options->in_flight,
		.wake_fd = -1,
	};
	struct shoal_err why = { "" };
	int rc = engine_check_options(options, err);

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
	if (options->kind == LOAD_AUTO && base.posix && load_calls_alone(options)) {
		snprintf(base.detail, sizeof(base.detail),
			 "io_uring is slower for long reads through the page cache");
	} else if (options->kind == LOAD_AUTO && base.posix) {
		rc = load_crew_new(options, &base, ret_engine, &why);
		if (rc == 0 || rc == -ENOMEM)
			return rc < 0 ? err_set_as(err, rc, &why, "%s", why.msg) : 0;
		snprintf(base.detail, sizeof(base.detail), "%.200s", why.msg);
	} else if (options->direct && !base.posix) {
		snprintf(base.detail, sizeof(base.detail),
			 "no O_DIRECT: a %.50s store has no files", options->store->ops->kind);
	}
	if (options->kind == LOAD_AUTO && store_s3_of(options->store))
		return load_s3_new(&base, ret_engine, err);
	if (base.posix)
		return load_calls_new(options, &base, ret_engine, err);
	return load_threads_new(options, &base, ret_engine, err);
}

/* ---- Wrappers ---- */

struct load_engine *load_engine_free(struct load_engine *e)
{
	if (e)
		e->ops->free(e);
	return NULL;
}

const char *load_engine_name(const struct load_engine *e)
{
	return e->ops->name_of ? e->ops->name_of(e) : e->ops->name;
}

void load_engine_describe(const struct load_engine *e, char words[LOAD_DETAIL])
{
	if (e->ops->describe)
		e->ops->describe(e, words, LOAD_DETAIL);
	else
		snprintf(words, LOAD_DETAIL, "%s", e->detail);
}

unsigned load_engine_pending(const struct load_engine *e)
{
	return e->pending;
}

unsigned load_engine_depth(const struct load_engine *e)
{
	return e->depth;
}

static int check_request(const struct load_engine *e, const struct load_request *r)
{
	if (r->off > INT64_MAX / 2 || r->len > INT64_MAX / 2)
		return -EOVERFLOW;
	if (r->cap < load_cap(r->off, r->len) || (uintptr_t)r->buf % LOAD_ALIGN != 0)
		return -EINVAL;
	return e->ops->by_store ? 0 : store_check_name_for(e->store, r->name, NULL);
}

void load_engine_submit(struct load_engine *e, struct load_request *r)
{
	struct load_closing c;
	int rc = check_request(e, r);

	e->pending++;
	r->got = 0;
	r->fd = -1;
	r->state = 0;
	r->opened = r->begun = 0;
	r->opens = false;
	r->data = r->buf;
	r->started = clock_now();
	if (rc == 0) {
		e->ops->submit(e, r);
		return;
	}
	r->result = rc;
	r->finished = r->started;
	c = load_release_file(r);
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
	for (; nr < max && nr < INT32_MAX && e->done.head; nr++) {
		done[nr] = load_pop(&e->done);
		done[nr]->started = u64_max(done[nr]->started, done[nr]->begun);
	}
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

	if (rc == -ESTALE &&
	    r->etag) /* short: a loader keeps 160 bytes for it, with names of up to 90 */
		return err_set_hint(err, rc, SHOAL_HINT_ETAGS,
				    "'%.200s' changed since it was listed (ETag mismatch)",
				    r->name);
	if (rc < 0 && e->ops->why && e->ops->why(e, r, err) < 0)
		return rc;
	switch (rc) {
	case 0:
		return 0;
	case -ENOENT:
		return err_set(err, rc, "'%.200s' does not exist", r->name);
	case -EISDIR:
		return err_set(err, rc, "'%.200s' is a directory", r->name);
	case -ESPIPE:
		return err_set(err, rc, "'%.200s' is not a regular file", r->name);
	case -EXDEV: /* only if the store refuses links that lead out */
		return store_posix_leads_out(r->name, err);
	case -EOPNOTSUPP:
		if (e->direct)
			return err_set(err, rc,
				       "the file system of '%.200s' does not support O_DIRECT",
				       r->name);
		return err_set_errno(err, rc, "cannot read '%.200s'", r->name);
	case -EMFILE:
		return err_set(err, rc,
			       "cannot open '%.200s': too many open files in this process: "
			       "raise its limit (ulimit -n), or have fewer in flight",
			       r->name);
	default:
		return err_set_errno(err, rc, "cannot read '%.200s'", r->name);
	}
}
