#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/path.h"
#include "base/text.h"

#define BENEATH_TRIES 100

struct posix_writer {
	struct store_writer base;
	int dir_fd; /* directory of the file; the root's is lent */
	int fd;     /* -1 when closed */
	uint64_t pos;
	char partial[NAME_MAX + 1]; /* its partial name until commit; "" if it has none */
	const char *last;           /* its final name there; part of name */
	char name[];
};

static struct store_posix *posix_of(struct store *s)
{
	return (struct store_posix *)s;
}

/* ---- Resolving a name ---- */

/* A descriptor or a negative errno. */
static int open_at(int dir_fd, const char *path, int flags)
{
	int fd;

	do
		fd = openat(dir_fd, path, flags | O_CLOEXEC | O_NOCTTY, 0666);
	while (fd < 0 && errno == EINTR); /* returned by network file systems */
	return fd < 0 ? err_errno() : fd;
}

static void close_dir(const struct store_posix *p, int dir_fd)
{
	if (dir_fd >= 0 && dir_fd != p->root_fd)
		close(dir_fd);
}

struct open_how store_posix_how(const struct store_posix *p, int flags)
{
	flags |= flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY; /* openat2() is strict */
	return (struct open_how){ .flags = (unsigned)flags,
				  .resolve = p->beneath ? RESOLVE_BENEATH : 0 };
}

/* @path from the root, or from a directory below it that no link may leave then. */
static int open_below(const struct store_posix *p, int dir_fd, const char *path, int flags)
{
	struct open_how how = store_posix_how(p, flags);
	int fd = -1;

	if (!p->beneath)
		return open_at(dir_fd, path, flags);
	/* EAGAIN also means that the kernel could not be sure, as something was renamed
	 * meanwhile. */
	for (int attempt = 0; attempt < BENEATH_TRIES; attempt++) {
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EINTR && (errno != EAGAIN || (flags & O_NONBLOCK))))
			break;
	}
	return fd < 0 ? err_errno() : fd;
}

int store_posix_open_path(const struct store_posix *p, const char *path, int flags)
{
	return open_below(p, p->root_fd, path, flags);
}

/* O_PATH: passing through a directory requires less permission than reading it. */
static int open_dir(const struct store_posix *p, const char *path)
{
	return store_posix_open_path(p, path, O_PATH | O_DIRECTORY);
}

/* Open directory @path, and create the last part of it, @name in @dir_fd, if it does not exist.
 * Other processes may do the same meanwhile. */
static int posix_make_dir(const struct store_posix *p, const char *path, int dir_fd,
			  const char *name)
{
	int fd = -ENOENT;

	/* At most a few times: a dangling link neither exists nor can be created. */
	for (int attempt = 0; attempt < 10 && fd == -ENOENT; attempt++) {
		fd = open_dir(p, path);
		if (fd == -ENOENT && mkdirat(dir_fd, name, 0777) < 0 && errno != EEXIST)
			return err_errno();
	}
	return fd;
}

/* Open the directory @path below the root, creating missing ones. Each is resolved from the root,
 * as a link may lead to a place beside it. The path is modified for a while. */
static int make_dirs(const struct store_posix *p, char *path)
{
	int fd = p->root_fd;
	char *end;

	for (char *at = path; at && fd >= 0; at = end ? end + 1 : NULL) {
		int below;

		end = strchr(at, '/');
		if (end == at || !*at) /* an empty part between two slashes */
			continue;
		if (end)
			*end = '\0';
		below = posix_make_dir(p, path, fd, at);
		if (end)
			*end = '/';
		close_dir(p, fd);
		fd = below;
	}
	return fd;
}

/* The directory of @name, for close_dir(). One call, usually: a name's directory part is shorter
 * than PATH_MAX. */
static int open_parent(const struct store_posix *p, const char *name, bool make)
{
	size_t len = (size_t)(path_base(name) - name);
	char path[SHOAL_NAME_MAX + 1];
	int fd;

	_Static_assert(SHOAL_NAME_MAX <= PATH_MAX, "a name less a byte is a path");
	if (len == 0)
		return p->root_fd;
	memcpy(path, name, len - 1);
	path[len - 1] = '\0';
	fd = open_dir(p, path);
	return fd == -ENOENT && make ? make_dirs(p, path) : fd;
}

/* A directory, for close_dir(), and the path from there to @name: usually all of it, except for
 * names that are too long for one path. */
static int find(const struct store_posix *p, const char *name, const char **ret_path)
{
	int fd = p->root_fd;

	*ret_path = name;
	if (strlen(name) >= PATH_MAX) {
		fd = open_parent(p, name, false);
		*ret_path = path_base(name);
	}
	return fd;
}

/* ---- Reading ---- */

int store_posix_leads_out(const char *name, struct shoal_err *err)
{
	return err_set(err, -EXDEV,
		       "'%.200s' is refused: a symbolic link of its path is absolute or leads out "
		       "of the root",
		       name);
}

/* The message for a failure to @verb something that should exist. */
static int posix_failed(struct shoal_err *err, int rc, const char *verb, const char *name)
{
	switch (rc) {
	case -ENOENT:
		return err_set(err, rc, "'%.200s' does not exist", name);
	case -EISDIR:
		return err_set(err, rc, "'%.200s' is a directory", name);
	case -ESPIPE: /* a pipe */
	case -ENXIO:  /* a socket */
		return err_set(err, -ENOTSUP, "'%.200s' is not a regular file", name);
	case -EXDEV: /* with `beneath` only */
		return store_posix_leads_out(name, err);
	default:
		return err_set_errno(err, rc, "cannot %s '%.200s'", verb, name);
	}
}

/* stat(2) takes no RESOLVE_BENEATH. */
static int stat_below(const struct store_posix *p, int dir_fd, const char *path,
		      struct stat *ret_stat)
{
	int fd = open_below(p, dir_fd, path, O_PATH), rc;

	if (fd < 0)
		return fd;
	rc = fstat(fd, ret_stat) < 0 ? err_errno() : 0;
	close(fd);
	return rc;
}

int store_posix_stat_file(const struct store_posix *p, const char *name, struct stat *ret_stat)
{
	const char *path;
	int dir_fd = find(p, name, &path), rc = 0;

	if (dir_fd < 0)
		return dir_fd;
	if (p->beneath)
		rc = stat_below(p, dir_fd, path, ret_stat);
	else if (fstatat(dir_fd, path, ret_stat, 0) < 0)
		rc = err_errno();
	close_dir(p, dir_fd);
	return rc;
}

static int posix_stat(struct store *s, const char *name, struct store_stat *ret_stat,
		      struct shoal_err *err)
{
	struct stat st;
	int rc = store_posix_stat_file(posix_of(s), name, &st);

	if (rc < 0)
		rc = posix_failed(err, rc, "look at", name);
	else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		rc = posix_failed(err, -ESPIPE, "look at", name);
	else
		*ret_stat = (struct store_stat){
			.size = (uint64_t)st.st_size,
			.is_dir = S_ISDIR(st.st_mode),
		};
	return rc;
}

int store_posix_open_file(const struct store_posix *p, const char *name, int flags)
{
	const char *path;
	int dir_fd = find(p, name, &path), fd;

	if (dir_fd < 0)
		return dir_fd;
	fd = open_below(p, dir_fd, path, STORE_POSIX_READ | flags);
	if (fd == -EWOULDBLOCK) /* leased */
		fd = open_below(p, dir_fd, path, (STORE_POSIX_READ & ~O_NONBLOCK) | flags);
	close_dir(p, dir_fd);
	return fd;
}

/* At least one call, even for 0 bytes: it distinguishes a file from a directory. */
static int64_t read_to_end(int fd, uint8_t *buf, size_t len, uint64_t off)
{
	size_t got = 0;
	ssize_t n;

	/* An offset that exceeds off_t is past the end of any file, but the kernel would fail. */
	off = u64_min(off, INT64_MAX);
	len = (size_t)u64_min(len, INT64_MAX - off);
	do {
		n = pread(fd, buf + got, len - got, (off_t)(off + got));
		if (n > 0)
			got += (size_t)n;
	} while (n < 0 ? errno == EINTR : n > 0 && got < len);
	return n < 0 ? err_errno() : (int64_t)got;
}

static int64_t posix_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			  struct shoal_err *err)
{
	int fd = store_posix_open_file(posix_of(s), name, 0);
	int64_t n;

	if (fd < 0)
		return posix_failed(err, fd, "read", name);
	n = read_to_end(fd, buf, len, off);
	close(fd);
	return n < 0 ? posix_failed(err, (int)n, "read", name) : n;
}

/* ---- Writing ---- */

static void posix_writer_free(struct posix_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	if (w->partial[0])
		unlinkat(w->dir_fd, w->partial, 0);
	close_dir(posix_of(w->base.store), w->dir_fd);
	free(w);
}

/* Hidden, and named after the final file so that a person recognises it, unless that would be too
 * long. */
static void name_partial(struct posix_writer *w, bool brief)
{
	struct store_posix *p = posix_of(w->base.store);
	uint32_t token = p->salt + atomic_fetch_add(&p->uses, 1);
	int n = NAME_MAX + 1;

	if (!brief)
		n = snprintf(w->partial, sizeof(w->partial), ".%s.%08x.partial", w->last, token);
	if (n > NAME_MAX)
		snprintf(w->partial, sizeof(w->partial), ".shoal-%016llx.%08x.partial",
			 (unsigned long long)XXH3_64bits(w->last, strlen(w->last)), token);
}

static int open_partial(struct posix_writer *w)
{
	bool brief = false;
	int fd = -EEXIST;

	/* Another process may have chosen the same name, or was killed and left it. */
	for (int attempt = 0; attempt < 100 && fd == -EEXIST; attempt++) {
		name_partial(w, brief);
		fd = open_at(w->dir_fd, w->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
		if (fd == -ENAMETOOLONG && !brief) { /* not every file system allows 255 bytes */
			brief = true;
			fd = -EEXIST;
		}
	}
	if (fd < 0)
		w->partial[0] = '\0';
	return fd;
}

static int posix_create(struct store *s, const char *name, struct store_writer **ret_writer,
			struct shoal_err *err)
{
	const char *last = path_base(name);
	size_t len = strlen(name);
	struct posix_writer *w;
	int rc;

	if (!*last || strcmp(last, ".") == 0)
		return err_set(err, -EISDIR, "'%.200s' names a directory, not a file to write",
			       name);
	if (strlen(last) > NAME_MAX) /* fail now, not after all of it was written */
		return err_set_errno(err, -ENAMETOOLONG, "cannot write '%.200s'", name);
	w = calloc(1, sizeof(*w) + len + 1);
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->base.store = s;
	memcpy(w->name, name, len);
	w->last = path_base(w->name);
	w->fd = -1;
	w->dir_fd = open_parent(posix_of(s), name, true);
	if (w->dir_fd < 0) {
		rc = w->dir_fd == -EXDEV
			     ? store_posix_leads_out(name, err)
			     : err_set_errno(err, w->dir_fd,
					     "cannot create the directory of '%.200s'", name);
		posix_writer_free(w);
		return rc;
	}
	w->fd = open_partial(w);
	if (w->fd < 0) {
		rc = err_set_errno(err, w->fd, "cannot write '%.200s'", name);
		posix_writer_free(w);
		return rc;
	}
	*ret_writer = &w->base;
	return 0;
}

static int posix_write(struct store_writer *base, const void *data, size_t len,
		       struct shoal_err *err)
{
	struct posix_writer *w = (struct posix_writer *)base;
	int rc = pwrite_all(w->fd, data, len, w->pos);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot write '%.200s'", w->name);
	w->pos += len;
	return 0;
}

static int posix_commit(struct store_writer *base, struct shoal_err *err)
{
	struct posix_writer *w = (struct posix_writer *)base;
	int fd = w->fd, rc = 0;

	w->fd = -1;
	/* Network file systems and quotas may fail as late as here. The descriptor is closed
	 * even then. */
	if (close(fd) < 0)
		rc = err_set_errno(err, err_errno(), "cannot write '%.200s'", w->name);
	else if (renameat(w->dir_fd, w->partial, w->dir_fd, w->last) < 0)
		rc = err_set_errno(err, err_errno(), "cannot rename to '%.200s'", w->name);
	else
		w->partial[0] = '\0';
	posix_writer_free(w);
	return rc;
}

static void posix_abort(struct store_writer *base)
{
	posix_writer_free((struct posix_writer *)base);
}

static int posix_remove(struct store *s, const char *name, struct shoal_err *err)
{
	const struct store_posix *p = posix_of(s);
	const char *path = path_base(name);
	int dir_fd = p->beneath ? open_parent(p, name, false) : find(p, name, &path), rc = 0;

	if (dir_fd < 0)
		return posix_failed(err, dir_fd, "remove", name);
	if (unlinkat(dir_fd, path, 0) < 0)
		rc = posix_failed(err, err_errno(), "remove", name);
	close_dir(p, dir_fd);
	return rc;
}

/* A directory opened with O_PATH cannot be synced. */
static int posix_sync(struct store *s, struct shoal_err *err)
{
	int fd = open_at(posix_of(s)->root_fd, ".", O_RDONLY | O_DIRECTORY), rc = 0;

	if (fd < 0)
		return err_set_errno(err, fd, "cannot open '%.300s'", s->uri);
	if (syncfs(fd) < 0)
		rc = err_set_errno(err, err_errno(), "cannot sync '%.300s'", s->uri);
	close(fd);
	return rc;
}

static int posix_space(struct store *s, struct store_space *ret_space, struct shoal_err *err)
{
	struct statvfs st;

	if (fstatvfs(posix_of(s)->root_fd, &st) < 0)
		return err_set_errno(err, err_errno(),
				     "cannot determine the free space of '%.300s'", s->uri);
	/* Some file systems (often FUSE) do not know, and report 0 of 0. */
	if (st.f_blocks == 0 ||
	    __builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, &ret_space->bytes))
		ret_space->bytes = UINT64_MAX;
	ret_space->names = st.f_files ? st.f_favail : UINT64_MAX;
	return 0;
}

/* ---- Opening ---- */

static void posix_close(struct store *s)
{
	struct store_posix *p = posix_of(s);

	if (p->root_fd >= 0)
		close(p->root_fd);
	free(s->uri);
	free(p);
}

static const struct store_ops posix_ops = {
	.kind = "posix",
	.close = posix_close,
	.stat = posix_stat,
	.read = posix_read,
	.create = posix_create,
	.write = posix_write,
	.commit = posix_commit,
	.abort = posix_abort,
	.remove = posix_remove,
	.sync = posix_sync,
	.space = posix_space,
	.unit = store_posix_unit,
	.unit_start = store_posix_unit_start,
	.list = store_posix_list,
};

struct store_posix *store_posix_of(struct store *s)
{
	return s->ops == &posix_ops ? posix_of(s) : NULL;
}

/*
 * "file:///abs/path" without a slash or a dot at its end, as stored in catalogs. Links are kept,
 * because a link may be the permanent name; but a path with ".." is resolved, so that a place
 * has one name. NULL with errno set.
 */
static char *uri_of(const char *path)
{
	char *cwd = NULL, *uri = NULL, *real = NULL;
	size_t len;
	int n;

	if (path_goes_up(path, strlen(path)))
		real = realpath(path, NULL);
	if (real) {
		n = asprintf(&uri, "file://%s", real);
		free(real);
	} else if (path[0] == '/') {
		n = asprintf(&uri, "file://%s", path);
	} else {
		cwd = getcwd(NULL, 0);
		if (!cwd)
			return NULL;
		while (path[0] == '.' && path[1] == '/')
			path += 1 + strspn(path + 1, "/");
		n = asprintf(&uri, "file://%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd,
			     strcmp(path, ".") == 0 ? "" : path);
	}
	free(cwd);
	if (n < 0)
		return NULL;
	len = (size_t)n;
	while (len > strlen("file:///") &&
	       (uri[len - 1] == '/' || (uri[len - 1] == '.' && uri[len - 2] == '/')))
		uri[--len] = '\0';
	return uri;
}

static int open_root(const char *path, struct shoal_err *err)
{
	int fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	struct stat st;

	if (fd == -ENOENT)
		return err_set(err, fd, "there is no directory '%.400s'", path);
	if (fd == -ENOTDIR && stat(path, &st) == 0)
		return err_set(err, fd, "'%.400s' is a file, not a directory", path);
	if (fd == -EACCES)
		return err_set(err, fd, "no permission to read the directory '%.400s'", path);
	if (fd < 0)
		return err_set_errno(err, fd, "cannot open the directory '%.400s'", path);
	return fd;
}

/* Any number will do, because existing names are not overwritten. So failing to get random bytes is
 * not an error. */
static uint32_t draw_salt(void)
{
	uint32_t salt;

	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != (ssize_t)sizeof(salt))
		salt = (uint32_t)getpid() * 0x9e3779b1u;
	return salt;
}

/* Create the directory and its missing parents. */
static int posix_make(const struct store_uri *uri, struct shoal_err *err)
{
	const char *path = uri->path;
	char *copy = strdup(path);
	struct store_posix from = { .beneath = false };
	int fd;

	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	from.root_fd = fd = open_at(AT_FDCWD, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY);
	if (fd >= 0)
		fd = make_dirs(&from, copy + strspn(copy, "/"));
	free(copy);
	close_dir(&from, fd);
	if (from.root_fd >= 0)
		close(from.root_fd);
	if (fd == -ENOTDIR && access(path, F_OK) == 0)
		return err_set(err, fd, "'%.400s' is a file, not a directory", path);
	return fd < 0 ? err_set_errno(err, fd, "cannot create the directory '%.400s'", path) : 0;
}

static int posix_check(const struct store_uri *uri, struct shoal_err *err)
{
	size_t before = (size_t)(uri->path - uri->text);

	if (before != 0 && before != strlen("file://"))
		return err_set(err, -EINVAL,
			       "'%.200s': a file URI has three slashes, as file:///data",
			       uri->text);
	return 0;
}

static bool wants_beneath(const struct shoal_store_config *config)
{
	const char *said = getenv("SHOAL_BENEATH");

	return (config && config->beneath) || (said && *said && strcmp(said, "0") != 0);
}

/* Whether links can be kept from leading out: openat2(2) is of Linux 5.6, and some containers
 * refuse it. */
static int check_beneath(const struct store_posix *p, struct shoal_err *err)
{
	int fd = open_dir(p, ".");

	if (fd < 0)
		return err_set_errno(err, fd,
				     "links that lead out of '%.300s' cannot be refused here "
				     "(openat2)",
				     p->base.uri);
	close(fd);
	return 0;
}

/* The path is absolute or relative to the current directory. */
static int posix_open(const struct store_uri *uri, const struct shoal_store_config *config,
		      struct store **ret_store, struct shoal_err *err)
{
	struct store_posix *p = calloc(1, sizeof(*p));
	const char *path = uri->path;
	struct stat st;
	int rc;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->base.ops = &posix_ops;
	p->base.traits = uri->kind->traits;
	p->salt = draw_salt();
	p->root_fd = rc = open_root(path, err);
	if (rc < 0)
		goto out;
	if (fstat(p->root_fd, &st) < 0) {
		rc = err_set_errno(err, err_errno(), "cannot stat '%.400s'", path);
		goto out;
	}
	p->dev = st.st_dev;
	p->base.uri = uri_of(path);
	if (!p->base.uri) {
		rc = err_set_errno(err, err_errno(), "cannot resolve the path '%.400s'", path);
		goto out;
	}
	p->beneath = wants_beneath(config);
	rc = p->beneath ? check_beneath(p, err) : 0;
	if (rc < 0)
		goto out;
	*ret_store = &p->base;
	return 0;
out:
	posix_close(&p->base);
	return rc;
}

const struct store_kind store_posix_kind = {
	.prefix = "file:",
	.form = "file://",
	.traits = { .files = true, .directories = true },
	.check = posix_check,
	.open = posix_open,
	.make = posix_make,
};
