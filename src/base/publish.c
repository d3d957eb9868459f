#include "base/publish.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

char *shoal_dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* The target of the link at @path as a path of its own; NULL when it is no link. */
static char *link_target(const char *path)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target));
	const char *slash = strrchr(path, '/');
	char *joined = NULL;

	if (n <= 0 || n == (ssize_t)sizeof(target))
		return NULL;
	if (target[0] == '/' || !slash)
		return strndup(target, (size_t)n);
	if (asprintf(&joined, "%.*s/%.*s", (int)(slash - path), path, (int)n, target) < 0)
		return NULL;
	return joined;
}

/* Where the bytes will end up: through links, so that a link is kept and its target written. */
static char *follow_links(const char *path)
{
	char *at = strdup(path);

	for (int depth = 0; at && depth < 40; depth++) {
		char *next = link_target(at);

		if (!next)
			break;
		free(at);
		at = next;
	}
	return at;
}

static int final_path(const char *path, char **ret_path, struct shoal_err *err)
{
	struct stat st;
	char *resolved;

	if (!*path || path[strlen(path) - 1] == '/')
		return shoal_fail(err, -EISDIR, "'%s' names a directory, not a file to write",
				  path);
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return shoal_fail(err, -EISDIR, "'%s' is a directory: name a file", path);
		if (!S_ISREG(st.st_mode))
			return shoal_fail(err, -ENOTSUP, "'%s' is not a regular file", path);
	} else if (errno == ELOOP) {
		return shoal_fail(err, -ELOOP, "'%s' is a link that leads to itself", path);
	}
	resolved = follow_links(path);
	if (!resolved)
		return shoal_fail(err, -ENOMEM, "out of memory");
	*ret_path = resolved;
	return 0;
}

static char *partial_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	int dir_len = (int)(base - path);
	char *name = NULL;
	int n;

	if (strlen(base) + sizeof("..partial") <= NAME_MAX)
		n = asprintf(&name, "%.*s.%s.partial", dir_len, path, base);
	else /* the name is too long to lengthen */
		n = asprintf(&name, "%.*s.shoal-%016llx.partial", dir_len, path,
			     (unsigned long long)XXH3_64bits(base, strlen(base)));
	return n < 0 ? NULL : name;
}

enum lock { LOCKED, RENAMED, NO_LOCKS };

/* RENAMED: it was renamed away meanwhile, try again. NO_LOCKS: the file system has none. */
static int lock_partial(int fd, const char *partial)
{
	struct stat mine, named;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : NO_LOCKS;
	if (fstat(fd, &mine) < 0)
		return shoal_errno();
	if (stat(partial, &named) < 0)
		return errno == ENOENT ? RENAMED : shoal_errno();
	return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev ? LOCKED : RENAMED;
}

/*
 * Without locks (Lustre mounted without flock, say) each writer has a partial file of its own: the
 * last to finish wins, whole.
 */
static int open_unique(char **partial, struct shoal_err *err)
{
	struct stat st;

	/* The common name may just have been made by us, or be another's: remove it if it is empty.
	 */
	if (stat(*partial, &st) == 0 && st.st_size == 0)
		unlink(*partial);
	for (int attempt = 0; attempt < 1000; attempt++) {
		char *name = NULL;
		int fd;

		if (asprintf(&name, "%s.%ld-%d", *partial, (long)getpid(), attempt) < 0)
			return shoal_fail(err, -ENOMEM, "out of memory");
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			free(*partial);
			*partial = name;
			return fd;
		}
		free(name);
		if (errno != EEXIST)
			return shoal_fail_errno(err, shoal_errno(), "cannot write beside '%s'",
						*partial);
	}
	return shoal_fail(err, -EBUSY, "too many files '%s.*' are in the way: remove them",
			  *partial);
}

/*
 * Make the partial file, or take over one that was left behind; but not another user's, who could
 * change it when it has its final name.
 */
static int make_partial(const char *partial, struct shoal_err *err)
{
	struct stat st;
	int fd = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);

	if (fd >= 0)
		return fd;
	if (errno == EEXIST)
		fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot write '%s'", partial);
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid())
		return fd;
	close(fd);
	return shoal_fail(err, -EPERM,
			  "'%s' belongs to another user: remove it, or write elsewhere", partial);
}

static int open_partial(char **partial, const char *path, struct shoal_err *err)
{
	for (int attempt = 0; attempt < 100; attempt++) {
		int fd = make_partial(*partial, err);
		int rc;

		if (fd < 0)
			return fd;
		rc = lock_partial(fd, *partial);
		if (rc == LOCKED) {
			if (ftruncate(fd, 0) == 0)
				return fd;
			rc = shoal_errno();
			unlink(*partial); /* ours: it is locked */
		}
		close(fd);
		if (rc == NO_LOCKS)
			return open_unique(partial, err);
		if (rc == -EBUSY)
			break;
		if (rc < 0)
			return shoal_fail_errno(err, rc, "cannot write '%s'", *partial);
	}
	return shoal_fail(err, -EBUSY,
			  "another process is writing '%s' now: wait for it, or write another file",
			  path);
}

int shoal_publish_names(const char *path, char **ret_path, char **ret_partial,
			struct shoal_err *err)
{
	char *final = NULL;
	int rc = final_path(path, &final, err);

	if (rc < 0)
		return rc;
	assert(final);
	*ret_partial = partial_name(final);
	if (!*ret_partial) {
		free(final);
		return shoal_fail(err, -ENOMEM, "out of memory");
	}
	*ret_path = final;
	return 0;
}

/* With the names in place: open, and hand over. */
static int open_named(struct shoal_publish pub, const char *path, struct shoal_publish *ret_pub,
		      struct shoal_err *err)
{
	int rc;

	pub.fd = open_partial(&pub.partial, path, err);
	if (pub.fd < 0) {
		rc = pub.fd;
		free(pub.path);
		free(pub.partial);
		return rc;
	}
	*ret_pub = pub;
	return 0;
}

int shoal_publish_open(const char *path, struct shoal_publish *ret_pub, struct shoal_err *err)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	int rc = shoal_publish_names(path, &pub.path, &pub.partial, err);

	return rc < 0 ? rc : open_named(pub, path, ret_pub, err);
}

int shoal_publish_open_here(const char *path, struct shoal_publish *ret_pub, struct shoal_err *err)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;

	pub.path = strdup(path);
	pub.partial = pub.path ? partial_name(path) : NULL;
	if (!pub.partial) {
		free(pub.path);
		return shoal_fail(err, -ENOMEM, "out of memory");
	}
	return open_named(pub, path, ret_pub, err);
}

int shoal_publish_nameless(const char *dir, struct shoal_publish *ret_pub, struct shoal_err *err)
{
	int fd = shoal_spill_open(dir, err);

	if (fd < 0)
		return fd;
	*ret_pub = (struct shoal_publish){ .fd = fd };
	return 0;
}

static int open_dir_of(const char *path)
{
	char *dir = shoal_dir_of(path);
	int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int rc = !dir ? -ENOMEM : fd < 0 ? shoal_errno() : fd;

	free(dir);
	return rc;
}

/* The file, and its new name with the directory @dir_fd; -1: neither is to be safe from a crash. */
static int sync_and_rename(struct shoal_publish *pub, int dir_fd, struct shoal_err *err)
{
	if (dir_fd >= 0 && fsync(pub->fd) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot sync '%s'", pub->path);
	if (rename(pub->partial, pub->path) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot rename to '%s'", pub->path);
	free(pub->partial);
	pub->partial = NULL; /* it has its final name now: abort must not remove it */
	/* Some file systems do not sync directories (EINVAL); the file itself is safe. */
	if (dir_fd >= 0 && fsync(dir_fd) < 0 && errno != EINVAL)
		return shoal_fail_errno(err, shoal_errno(), "cannot sync the directory of '%s'",
					pub->path);
	return 0;
}

static int commit(struct shoal_publish *pub, bool sync, struct shoal_err *err)
{
	int rc, dir_fd;

	assert(pub->path);
	/* Before the rename, so that what can fail without harm has. */
	dir_fd = sync ? open_dir_of(pub->path) : -1;
	if (sync && dir_fd < 0)
		rc = shoal_fail_errno(err, dir_fd, "cannot open the directory of '%s'", pub->path);
	else
		rc = sync_and_rename(pub, dir_fd, err);
	if (dir_fd >= 0)
		close(dir_fd);
	shoal_publish_abort(pub);
	return rc;
}

int shoal_publish_commit(struct shoal_publish *pub, struct shoal_err *err)
{
	return commit(pub, true, err);
}

int shoal_publish_commit_unsynced(struct shoal_publish *pub, struct shoal_err *err)
{
	return commit(pub, false, err);
}

bool shoal_publish_sweep(const char *path)
{
	char *final = NULL, *partial = NULL;
	int fd = -1;
	bool left;

	if (shoal_publish_names(path, &final, &partial, NULL) == 0)
		fd = open(partial, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	left = fd >= 0 && lock_partial(fd, partial) == LOCKED;
	if (left)
		unlink(partial);
	if (fd >= 0)
		close(fd);
	free(final);
	free(partial);
	return left;
}

void shoal_publish_abort(struct shoal_publish *pub)
{
	if (pub->partial)
		unlink(pub->partial); /* before the lock goes with the descriptor */
	if (pub->fd >= 0)
		close(pub->fd);
	free(pub->path);
	free(pub->partial);
	*pub = SHOAL_PUBLISH_CLOSED;
}

static int spill_by_name(const char *dir, struct shoal_err *err)
{
	char *name = NULL;
	int fd;

	if (asprintf(&name, "%s/.shoal-spill-XXXXXX", dir) < 0)
		return shoal_fail(err, -ENOMEM, "out of memory");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		fd = shoal_fail_errno(err, shoal_errno(), "cannot make a temporary file in '%s'",
				      dir);
	else
		unlink(name);
	free(name);
	return fd;
}

int shoal_spill_open(const char *dir, struct shoal_err *err)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		return shoal_fail_errno(err, shoal_errno(), "cannot make a temporary file in '%s'",
					dir);
	return spill_by_name(dir, err); /* not every file system has O_TMPFILE */
}
