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

int publish_check_own(int fd, const char *path, struct shoal_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set_errno(err, err_errno(), "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EPERM, "'%s' is not a regular file: remove it", path);
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "'%s' belongs to another user: remove it, or write elsewhere", path);
	if (st.st_nlink > 1)
		return err_set(err, -EPERM,
			       "'%s' has several names (hard links): remove it, or write elsewhere",
			       path);
	return 0;
}

int publish_open_own(const char *path, int flags, struct shoal_err *err)
{
	/* O_NONBLOCK: a FIFO put there must not hang the open. */
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc;

	if (fd < 0 && errno == ELOOP)
		return err_set(err, -EPERM, "'%s' is a symbolic link: remove it", path);
	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%s'", path);
	rc = publish_check_own(fd, path, err);
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/*
 * Whether the link at @path may lead us elsewhere: the rule of fs.protected_symlinks, which the
 * kernel does not apply to readlink(2). In a directory that anyone may write to, such as /tmp, a
 * link must be this user's, or of the directory's owner.
 */
static bool link_is_trusted(const char *path)
{
	char *dir = path_dir(path);
	struct stat link, parent;
	bool trusted;

	if (!dir)
		return false;
	trusted = lstat(path, &link) == 0 && stat(dir, &parent) == 0 &&
		  ((parent.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) ||
		   link.st_uid == geteuid() || link.st_uid == parent.st_uid);
	free(dir);
	return trusted;
}

/* The target of the link at @path as a path of its own, to be freed; NULL if @path is not a link.
 */
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

/* The length of @path up to the end of the component after @from. */
static size_t component_end(const char *path, size_t from)
{
	from += strspn(path + from, "/");
	return from + strcspn(path + from, "/");
}

/*
 * Whether all links on the way to @path may lead us there. The path is resolved as the kernel does
 * it: a link is replaced by its target, which may have links of its own. -ENOMEM.
 */
static int check_links(const char *path, struct shoal_err *err)
{
	char *at = strdup(path);
	size_t end = 0;
	bool trusted = true;

	/* More links are an error of every function that is given the path. */
	for (int nr_links = 0; at && trusted && at[end] && nr_links < 40;) {
		size_t to = component_end(at, end);
		char *prefix = strndup(at, to), *target = prefix ? link_target(prefix) : NULL;
		char *next = NULL;

		trusted = !target || link_is_trusted(prefix);
		if (target && asprintf(&next, "%s%s", target, at + to) < 0)
			next = NULL;
		if (!prefix || target) {
			free(at);
			at = next;
			nr_links++;
		}
		end = target ? 0 : to;
		free(prefix);
		free(target);
	}
	if (trusted && !at)
		return err_set(err, -ENOMEM, "out of memory");
	free(at);
	return trusted ? 0
		       : err_set(err, -EPERM,
				 "'%s' leads through another user's symbolic link in a directory "
				 "that anyone may write to: remove it, or write elsewhere",
				 path);
}

/*
 * The final path of the bytes: links are followed, so that a link is kept and its target written.
 */
static int follow_links(const char *path, char **ret_path, struct shoal_err *err)
{
	int rc = check_links(path, err);
	char *at, *next;

	if (rc < 0)
		return rc;
	at = strdup(path);
	for (int depth = 0; at && depth < 40 && (next = link_target(at)) != NULL; depth++) {
		free(at);
		at = next;
	}
	*ret_path = at;
	return at ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int final_path(const char *path, char **ret_path, struct shoal_err *err)
{
	struct stat st;

	if (!*path || path[strlen(path) - 1] == '/')
		return err_set(err, -EISDIR, "'%s' names a directory, not a file to write", path);
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return err_set(err, -EISDIR, "'%s' is a directory: name a file", path);
		if (!S_ISREG(st.st_mode))
			return err_set(err, -ENOTSUP, "'%s' is not a regular file", path);
	} else if (errno == ELOOP) {
		return err_set(err, -ELOOP, "'%s' is a symbolic link to itself", path);
	} else if (errno == EACCES) { /* as for a link that the kernel does not follow */
		return err_set_errno(err, -EACCES, "cannot write '%s'", path);
	}
	return follow_links(path, ret_path, err);
}

static char *partial_name(const char *path)
{
	const char *base = path_base(path);
	int dir_len = (int)(base - path);
	char *name = NULL;
	int n;

	if (strlen(base) + sizeof("." PATH_END_OF_PARTIAL) <= NAME_MAX)
		n = asprintf(&name, "%.*s.%s" PATH_END_OF_PARTIAL, dir_len, path, base);
	else /* the name is too long to lengthen */
		n = asprintf(&name, "%.*s.shoal-%016llx" PATH_END_OF_PARTIAL, dir_len, path,
			     (unsigned long long)XXH3_64bits(base, strlen(base)));
	return n < 0 ? NULL : name;
}

enum lock { LOCKED, RENAMED, NO_LOCKS };

/*
 * RENAMED: another process renamed it in the meantime; try again. NO_LOCKS: the file system has no
 * locks.
 */
static int lock_partial(int fd, const char *partial)
{
	struct stat mine, named;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : NO_LOCKS;
	if (fstat(fd, &mine) < 0)
		return err_errno();
	if (stat(partial, &named) < 0)
		return errno == ENOENT ? RENAMED : err_errno();
	return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev ? LOCKED : RENAMED;
}

/*
 * Without locks (Lustre mounted without flock, for example) each writer has a partial file of its
 * own; the last to finish wins with a complete file.
 */
static int open_unique(char **partial, struct shoal_err *err)
{
	int len = (int)(strlen(*partial) - strlen(PATH_END_OF_PARTIAL));
	struct stat st;

	/*
	 * The common name was just created by us or belongs to another writer: remove it if it is
	 * empty.
	 */
	if (stat(*partial, &st) == 0 && st.st_size == 0)
		unlink(*partial);
	for (int attempt = 0; attempt < 1000; attempt++) {
		char *name = NULL;
		int fd;

		/* Another number for the zeros. */
		if (asprintf(&name, "%.*s.%08x.partial", len, *partial,
			     (unsigned)getpid() << 10 | (unsigned)attempt) < 0)
			return err_set(err, -ENOMEM, "out of memory");
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			free(*partial);
			*partial = name;
			return fd;
		}
		free(name);
		if (errno != EEXIST)
			return err_set_errno(err, err_errno(), "cannot create '%s'", *partial);
	}
	return err_set(err, -EBUSY, "too many files '%.*s.*' are in the way: remove them", len,
		       *partial);
}

/*
 * Create the partial file, or take over one left by a killed process. Never take over another
 * user's: that user could still change it after it got its final name.
 */
static int make_partial(const char *partial, const char *path, struct shoal_err *err)
{
	int fd = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666), rc;

	if (fd >= 0)
		return fd;
	if (errno == EEXIST)
		fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0) { /* the user has named the other one, unless this is in the way */
		rc = err_errno();
		return err_set_errno(err, rc, "cannot write '%s'",
				     access(partial, F_OK) == 0 ? partial : path);
	}
	rc = publish_check_own(fd, partial, err);
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

static int open_or_take_partial(char **partial, const char *path, struct shoal_err *err)
{
	for (int attempt = 0; attempt < 100; attempt++) {
		int fd = make_partial(*partial, path, err);
		int rc;

		if (fd < 0)
			return fd;
		rc = lock_partial(fd, *partial);
		if (rc == LOCKED) {
			if (ftruncate(fd, 0) == 0)
				return fd;
			rc = err_errno();
			unlink(*partial); /* ours: it is locked */
		}
		close(fd);
		if (rc == NO_LOCKS)
			return open_unique(partial, err);
		if (rc == -EBUSY)
			break;
		if (rc < 0)
			return err_set_errno(err, rc, "cannot write '%s'", *partial);
	}
	return err_set(err, -EBUSY,
		       "another process is writing '%s' now: wait for it, or write another file",
		       path);
}

int publish_names(const char *path, char **ret_path, char **ret_partial, struct shoal_err *err)
{
	char *final = NULL;
	int rc = final_path(path, &final, err);

	if (rc < 0)
		return rc;
	assert(final);
	*ret_partial = partial_name(final);
	if (!*ret_partial) {
		free(final);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret_path = final;
	return 0;
}

/* Open, with both names already set, and transfer ownership to the caller. */
static int open_named(struct publish pub, const char *path, struct publish *ret_pub,
		      struct shoal_err *err)
{
	int rc;

	pub.fd = open_or_take_partial(&pub.partial, path, err);
	if (pub.fd < 0) {
		rc = pub.fd;
		free(pub.path);
		free(pub.partial);
		return rc;
	}
	*ret_pub = pub;
	return 0;
}

int publish_open(const char *path, struct publish *ret_pub, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	int rc = publish_names(path, &pub.path, &pub.partial, err);

	return rc < 0 ? rc : open_named(pub, path, ret_pub, err);
}

int publish_open_here(const char *path, struct publish *ret_pub, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	char *dir = path_dir(path);
	int rc = dir ? check_links(dir, err) : 0;

	free(dir);
	if (rc < 0)
		return rc;
	pub.path = strdup(path);
	pub.partial = pub.path ? partial_name(path) : NULL;
	if (!pub.partial) {
		free(pub.path);
		return err_set(err, -ENOMEM, "out of memory");
	}
	return open_named(pub, path, ret_pub, err);
}

int publish_nameless(const char *dir, struct publish *ret_pub, struct shoal_err *err)
{
	int fd = spill_open(dir, err);

	if (fd < 0)
		return fd;
	*ret_pub = (struct publish){ .fd = fd };
	return 0;
}

static int open_dir_of(const char *path)
{
	char *dir = path_dir(path);
	int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int rc = !dir ? -ENOMEM : fd < 0 ? err_errno() : fd;

	free(dir);
	return rc;
}

/* Sync the file, rename it, and sync its directory @dir_fd. With @dir_fd -1 neither is synced. */
static int sync_and_rename(struct publish *pub, int dir_fd, struct shoal_err *err)
{
	if (dir_fd >= 0 && fsync(pub->fd) < 0)
		return err_set_errno(err, err_errno(), "cannot sync '%s'", pub->path);
	if (rename(pub->partial, pub->path) < 0)
		return err_set_errno(err, err_errno(), "cannot rename to '%s'", pub->path);
	free(pub->partial);
	pub->partial = NULL; /* it has its final name now, so abort must not remove it */
	/* Some file systems do not sync directories (EINVAL); the file itself is safe. */
	if (dir_fd >= 0 && fsync(dir_fd) < 0 && errno != EINVAL)
		return err_set_errno(err, err_errno(), "cannot sync the directory of '%s'",
				     pub->path);
	return 0;
}

static int commit_and_close(struct publish *pub, bool sync, struct shoal_err *err)
{
	int rc, dir_fd;

	assert(pub->path);
	/* Before the rename, so that a failure here does no harm. */
	dir_fd = sync ? open_dir_of(pub->path) : -1;
	if (sync && dir_fd < 0)
		rc = err_set_errno(err, dir_fd, "cannot open the directory of '%s'", pub->path);
	else
		rc = sync_and_rename(pub, dir_fd, err);
	if (dir_fd >= 0)
		close(dir_fd);
	publish_abort(pub);
	return rc;
}

int publish_commit(struct publish *pub, struct shoal_err *err)
{
	return commit_and_close(pub, true, err);
}

int publish_commit_unsynced(struct publish *pub, struct shoal_err *err)
{
	return commit_and_close(pub, false, err);
}

bool publish_sweep(const char *path)
{
	char *final = NULL, *partial = NULL;
	int fd = -1;
	bool left;

	if (publish_names(path, &final, &partial, NULL) == 0)
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

void publish_abort(struct publish *pub)
{
	if (pub->partial)
		unlink(pub->partial); /* before closing the descriptor releases the lock */
	if (pub->fd >= 0)
		close(pub->fd);
	free(pub->path);
	free(pub->partial);
	*pub = PUBLISH_CLOSED;
}

/* A full disk is one that another directory may not be on. */
static int suggest_tmp_dir(struct shoal_err *err, int rc)
{
	if (rc == -ENOSPC || rc == -EDQUOT)
		err_hint(err, SHOAL_HINT_TMP_DIR, 0);
	return rc;
}

int spill_failed(struct shoal_err *err, int rc, const char *dir)
{
	if (dir)
		err_describe_errno(err, rc, "cannot write a temporary file in '%s'", dir);
	else
		err_describe_errno(err, rc, "cannot write a temporary file");
	return suggest_tmp_dir(err, rc);
}

static int spill_not_made(struct shoal_err *err, int rc, const char *dir)
{
	err_describe_errno(err, rc, "cannot make a temporary file in '%s'", dir);
	return suggest_tmp_dir(err, rc);
}

static int spill_by_name(const char *dir, struct shoal_err *err)
{
	char *name = NULL;
	int fd;

	if (asprintf(&name, "%s/.shoal-spill-XXXXXX", dir) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		fd = spill_not_made(err, err_errno(), dir);
	else
		unlink(name);
	free(name);
	return fd;
}

int spill_open(const char *dir, struct shoal_err *err)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		return spill_not_made(err, err_errno(), dir);
	return spill_by_name(dir, err); /* not every file system has O_TMPFILE */
}
