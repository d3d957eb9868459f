/*
 * A copy of a catalog on this node's own disk, made by whoever comes first.
 *
 * A copy has the original's mtime. One with another was touched by somebody, or marked as damaged,
 * and is read whole before it is used; to do so each time would cost more than the copy saves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/out.h"
#include "base/publish.h"
#include "catalog/catalog.h"
#include "catalog/writer.h"

#define COPY_BYTES (1u << 20)

/* How often to look whether another process has finished its copy. */
#define WAIT_NS 50000000

static bool stopped(const int *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Named by content, and by the file's own checksum: how it is cut may differ between writers. */
static char *copy_path(const struct shoal_catalog *cat, const char *dir)
{
	struct shoal_catalog_info info;
	char *path = NULL;

	shoal_catalog_info(cat, &info);
	if (asprintf(&path, "%s/shoal-%s-%016llx.cat", dir, info.digest,
		     (unsigned long long)shoal_le64_get(cat->view.header->header_checksum)) < 0)
		return NULL;
	return path;
}

static bool same_mtime(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Give the file @fd the original's mtime. Without it, it is only checked more often. */
static void set_mtime(int fd, const struct stat *original)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, original->st_mtim };

	(void)!futimens(fd, times);
}

/* Whether the open copy is what it should be. */
static bool is_good(const struct shoal_catalog *copy, const struct stat *st,
		    const struct shoal_catalog *cat, const struct stat *original)
{
	if (copy->view.file_len != cat->view.file_len ||
	    memcmp(copy->view.header, cat->view.header, sizeof(struct cat_header)) != 0)
		return false;
	/* One of root's cannot be stamped, and would be read whole by everybody each time. */
	if (same_mtime(st, original) || st->st_uid != geteuid())
		return true;
	if (cat_check_all(&copy->view, NULL) < 0)
		return false;
	set_mtime(copy->map.fd, original);
	return true;
}

/* Open the copy: -ENOENT when there is none, or (*@ret_bad) one that is not whole. */
static int open_copy(const char *path, const struct shoal_catalog *cat,
		     struct shoal_catalog **ret_copy, bool *ret_bad, struct shoal_err *err)
{
	struct stat original;
	struct shoal_catalog *copy = NULL;
	struct shoal_err why = { "" };
	struct stat st;
	int rc;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) /* a link is not of our making */
		return -ENOENT;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return shoal_fail(
			err, -EPERM,
			"its copy '%s' belongs to another user: use a directory of your own", path);
	if (fstat(cat->map.fd, &original) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot stat it");
	rc = shoal_catalog_open_file(path, &copy, &why);
	*ret_bad |= rc == -EBADMSG;
	if (rc == -ENOENT || rc == -EBADMSG)
		return -ENOENT;
	if (rc < 0)
		return shoal_fail(err, rc, "its copy '%s': %s", path, why.msg);
	if (is_good(copy, &st, cat, &original)) {
		*ret_copy = copy;
		return 0;
	}
	*ret_bad = true;
	shoal_catalog_close(copy);
	return -ENOENT;
}

static int copy_bytes(const struct shoal_catalog *cat, int fd, const int *stop,
		      struct shoal_err *err)
{
	uint64_t len = cat->view.file_len, at = 0;
	uint8_t *buf = malloc(COPY_BYTES);
	int rc = buf ? 0 : shoal_fail(err, -ENOMEM, "out of memory");

	while (rc == 0 && at < len) {
		size_t n = (size_t)shoal_min(COPY_BYTES, len - at);

		if (stopped(stop)) {
			rc = shoal_fail(err, -ECANCELED, "interrupted");
			break;
		}
		/* Through read(2), which reads ahead further than a map does. */
		rc = shoal_pread_all(cat->map.fd, buf, n, at);
		if (rc < 0) {
			shoal_fail_errno(err, rc, "cannot read it");
			break;
		}
		rc = shoal_pwrite_all(fd, buf, n, at);
		if (rc < 0)
			shoal_fail_errno(err, rc, "cannot write a copy");
		at += n;
	}
	free(buf);
	return rc;
}

/* -EBUSY when another process is at it. */
static int make_copy(const char *path, const struct shoal_catalog *cat, const int *stop,
		     struct shoal_err *err)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	struct stat original;
	int rc = shoal_publish_open_here(path, &pub, err);

	if (rc == 0)
		rc = copy_bytes(cat, pub.fd, stop, err);
	if (rc == 0 && fstat(cat->map.fd, &original) == 0)
		set_mtime(pub.fd, &original);
	if (rc == 0)
		rc = shoal_publish_commit(&pub, err);
	shoal_publish_abort(&pub);
	return rc;
}

/* A bad copy was made anew: that is a word worth, unless the original is no better. */
static int check_anew(const struct shoal_catalog *copy, const char *path, struct shoal_err *err)
{
	int rc = cat_check_all(&copy->view, err);

	if (rc == 0)
		shoal_say(err, "its copy '%.400s' was damaged, and has been made anew", path);
	return rc;
}

int shoal_catalog_open_file_local(const char *path, const char *dir, const int *stop,
				  struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	struct shoal_catalog *cat = NULL, *copy = NULL;
	char *copy_name = NULL;
	bool bad = false, made = false;
	int rc = shoal_catalog_open_file(path, &cat, err);

	if (rc < 0)
		return rc;
	copy_name = copy_path(cat, dir);
	rc = copy_name ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
	for (int copies = 0;
	     rc == 0 && (rc = open_copy(copy_name, cat, &copy, &bad, err)) == -ENOENT;) {
		if (++copies > 3) {
			rc = shoal_fail(err, -ESTALE, "it changes while it is copied");
			break;
		}
		rc = make_copy(copy_name, cat, stop, err);
		made |= rc == 0;
		if (rc == -EBUSY) { /* by another process: that is not one of ours */
			copies--;
			nanosleep(&pause, NULL);
			rc = stopped(stop) ? shoal_fail(err, -ECANCELED, "interrupted") : 0;
		}
	}
	shoal_catalog_close(cat);
	if (rc == 0 && bad && made)
		rc = check_anew(copy, copy_name, err);
	else if (rc == 0 && err)
		err->msg[0] = '\0'; /* of waiting for another process, say */
	if (rc == 0) {
		shoal_catalog_set_copy(copy, copy_name);
		*ret_cat = copy;
	} else {
		shoal_catalog_close(copy);
	}
	free(copy_name);
	return rc;
}
