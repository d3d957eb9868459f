/*
 * A copy of a catalog on this node's own disk, made by the first process that needs it.
 *
 * A copy has the original's mtime. A copy with a different mtime was modified or marked as damaged,
 * and is read completely before use; doing that every time would cost more than the copy saves.
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

/* How often to check whether another process has finished its copy. */
#define WAIT_NS 50000000

/* Named by content and by the file's own checksum, because writers may cut segments differently. */
static char *local_copy_path(const struct shoal_catalog *cat, const char *dir)
{
	struct shoal_catalog_info info;
	char *path = NULL;

	shoal_catalog_info(cat, &info);
	if (asprintf(&path, "%s/shoal-%s-%016llx.cat", dir, info.digest,
		     (unsigned long long)le64_get(cat->view.header->header_checksum)) < 0)
		return NULL;
	return path;
}

static bool same_mtime(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Give the file @fd the original's mtime. If that fails, the copy is only checked more often. */
static void set_mtime(int fd, const struct stat *original)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, original->st_mtim };

	(void)!futimens(fd, times);
}

/* Whether the open copy matches the original. */
static bool copy_is_good(const struct shoal_catalog *copy, const struct stat *st,
			 const struct shoal_catalog *cat, const struct stat *original)
{
	if (copy->view.file_len != cat->view.file_len ||
	    memcmp(copy->view.header, cat->view.header, sizeof(struct cat_header)) != 0)
		return false;
	/*
	 * A copy owned by another user cannot be given a new mtime, so everyone would read it every
	 * time.
	 */
	if (same_mtime(st, original) || st->st_uid != geteuid())
		return true;
	if (cat_check_all(&copy->view, NULL) < 0)
		return false;
	set_mtime(copy->map.fd, original);
	return true;
}

/* Open the copy. -ENOENT if there is none, or (with *@ret_bad set) if it is damaged. */
static int local_open_copy(const char *path, const struct shoal_catalog *cat,
			   struct shoal_catalog **ret_copy, bool *ret_bad, struct shoal_err *err)
{
	struct stat original;
	struct shoal_catalog *copy = NULL;
	struct shoal_err why = { "" };
	struct stat st;
	int rc;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) /* a link was not made by Shoal */
		return -ENOENT;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM,
			       "its local copy '%s' belongs to another user; use a directory of "
			       "your own",
			       path);
	if (fstat(cat->map.fd, &original) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	rc = catalog_open_file(path, &copy, &why);
	*ret_bad |= rc == -EBADMSG;
	if (rc == -ENOENT || rc == -EBADMSG)
		return -ENOENT;
	if (rc < 0)
		return err_set_as(err, rc, &why, "its local copy '%s': %s", path, why.msg);
	if (copy_is_good(copy, &st, cat, &original)) {
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
	int rc = buf ? 0 : err_set(err, -ENOMEM, "out of memory");

	while (rc == 0 && at < len) {
		size_t n = (size_t)u64_min(COPY_BYTES, len - at);

		if (stop_requested(stop)) {
			rc = err_set(err, -ECANCELED, "interrupted");
			break;
		}
		/* With read(2), which reads ahead further than a map does. */
		rc = pread_all(cat->map.fd, buf, n, at);
		if (rc < 0) {
			err_set_errno(err, rc, "cannot read it");
			break;
		}
		rc = pwrite_all(fd, buf, n, at);
		if (rc < 0)
			err_set_errno(err, rc, "cannot write a copy");
		at += n;
	}
	free(buf);
	return rc;
}

/* -EBUSY if another process is copying. */
static int local_make_copy(const char *path, const struct shoal_catalog *cat, const int *stop,
			   struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	struct stat original;
	int rc = publish_open_here(path, &pub, err);

	if (rc == 0)
		rc = copy_bytes(cat, pub.fd, stop, err);
	if (rc == 0 && fstat(cat->map.fd, &original) == 0)
		set_mtime(pub.fd, &original);
	if (rc == 0)
		rc = publish_commit(&pub, err);
	publish_abort(&pub);
	return rc;
}

/* Check a copy that replaced a damaged one, and report it; unless the original is damaged too. */
static int check_new_copy(const struct shoal_catalog *copy, const char *path, struct shoal_err *err)
{
	int rc = cat_check_all(&copy->view, err);

	if (rc == 0)
		err_describe(err, "its local copy '%.400s' was damaged and has been replaced",
			     path);
	return rc;
}

int catalog_open_file_local(const char *path, const char *dir, const int *stop,
			    struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	struct shoal_catalog *cat = NULL, *copy = NULL;
	char *copy_name = NULL;
	bool bad = false, made = false;
	int rc = catalog_open_file(path, &cat, err);

	if (rc < 0)
		return rc;
	copy_name = local_copy_path(cat, dir);
	rc = copy_name ? 0 : err_set(err, -ENOMEM, "out of memory");
	for (int copies = 0;
	     rc == 0 && (rc = local_open_copy(copy_name, cat, &copy, &bad, err)) == -ENOENT;) {
		if (++copies > 3) {
			rc = err_set(err, -ESTALE, "it changed while it was being copied");
			break;
		}
		rc = local_make_copy(copy_name, cat, stop, err);
		made |= rc == 0;
		if (rc == -EBUSY) { /* another process is copying */
			copies--;
			nanosleep(&pause, NULL);
			rc = stop_requested(stop) ? err_set(err, -ECANCELED, "interrupted") : 0;
		}
	}
	shoal_catalog_close(cat);
	if (rc == 0 && bad && made)
		rc = check_new_copy(copy, copy_name, err);
	else if (rc == 0 && err)
		err->msg[0] = '\0'; /* such as a message about waiting for another process */
	if (rc == 0) {
		catalog_set_copy(copy, copy_name);
		*ret_cat = copy;
	} else {
		shoal_catalog_close(copy);
	}
	free(copy_name);
	return rc;
}
