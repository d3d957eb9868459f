/*
 * Opening a catalog, wherever it is: shoal_catalog_open() and shoal_catalog_open_with().
 * Everything except the catalog room, and code that has just written the file itself, opens
 * catalogs here.
 *
 * Catalogs are mapped, so a catalog that is an object is fetched first: into an unnamed file that
 * vanishes with the process, or into a directory of copies, which are named after their origin and
 * version and are kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/path.h"
#include "base/publish.h"
#include "catalog/writer.h"
#include "open/transfer.h"
#include "store/uri.h"

/* How often to check whether another process has finished its copy, or whether to stop. */
#define LOOK_MS 50u

/* A catalog that is an object. */
struct opening {
	struct transfer from;
	bool bad; /* there was a copy, but it was damaged */
	const struct shoal_catalog_options *options;
	struct shoal_err *err;
};

static void opening_progress(void *self, uint64_t nr_bytes)
{
	const struct opening *f = self;

	f->options->progress(f->options->self, nr_bytes, f->from.object.size);
}

/* Through an unnamed file. */
static int open_open_nameless(struct opening *f, const int *stop, struct shoal_catalog **ret_cat)
{
	int fd = spill_open(path_tmp_dir(NULL), f->err), rc;

	if (fd < 0)
		return fd;
	rc = store_fetch(f->from.store, f->from.name, &f->from.object, fd, stop, f->err);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return catalog_open_fd(fd, ret_cat, f->err);
}

static char *copy_path(const struct opening *f, const char *uri, const char *dir)
{
	uint64_t hash = XXH3_64bits_withSeed(f->from.object.version, strlen(f->from.object.version),
					     f->from.object.size);
	char *path = NULL;

	hash = XXH3_64bits_withSeed(uri, strlen(uri), hash);
	if (asprintf(&path, "%s/shoal-%s-%016" PRIx64 ".cat", dir, f->from.store->ops->kind, hash) <
	    0)
		return NULL;
	return path;
}

/* -ENOENT if there is none, or none that can be trusted. */
static int open_copy(struct opening *f, const char *path, struct shoal_catalog **ret_cat)
{
	struct stat st;
	int rc;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	f->bad |=
		(uint64_t)st.st_size != f->from.object.size || catalog_copy_is_marked(&st.st_mtim);
	if ((uint64_t)st.st_size != f->from.object.size || catalog_copy_is_marked(&st.st_mtim))
		return -ENOENT;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(
			f->err, -EPERM,
			"its local copy '%.300s' belongs to another user; use a directory of your "
			"own",
			path);
	rc = catalog_open_file(path, ret_cat, f->err);
	f->bad |= rc == -EBADMSG;
	if (rc == 0)
		catalog_set_copy(*ret_cat, path);
	return rc;
}

static int open_by_copy(struct opening *f, const char *path, const int *stop,
			struct shoal_catalog **ret_cat)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	int rc;

	/* A damaged copy is fetched again. */
	while ((rc = open_copy(f, path, ret_cat)) == -ENOENT || rc == -EBADMSG) {
		rc = transfer_to_file(&f->from, path, stop, f->err);
		if (rc == -EBUSY && !stop_requested(stop)) {
			nanosleep(&pause, NULL);
			continue;
		}
		if (rc == -EBUSY)
			rc = err_set(f->err, -ECANCELED, "interrupted");
		if (rc < 0)
			return rc;
		rc = open_copy(f, path, ret_cat);
		if (rc == 0 && f->bad) {
			err_describe(f->err,
				     "its local copy '%.400s' was damaged and has been replaced",
				     path);
			return 0;
		}
		break;
	}
	if (rc == 0 && f->err)
		f->err->msg[0] = '\0'; /* for example from waiting for another process */
	return rc;
}

static int open_object(const char *uri, const struct shoal_catalog_options *o,
		       struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct opening f = { .err = err, .options = o };
	char *path = NULL;
	int rc = transfer_begin(&f.from, uri, o->config, o->stop, err);

	if (rc < 0)
		return rc;
	if (o->progress) {
		f.from.object.progress = opening_progress;
		f.from.object.self = &f;
	}
	if (o->copy_dir) {
		path = copy_path(&f, uri, o->copy_dir);
		rc = path ? open_by_copy(&f, path, o->stop, ret_cat)
			  : err_set(err, -ENOMEM, "out of memory");
	} else {
		rc = open_open_nameless(&f, o->stop, ret_cat);
	}
	transfer_release(&f.from);
	free(path);
	return rc;
}

int shoal_catalog_open_with(const char *path, const struct shoal_catalog_options *options,
			    struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	static const struct shoal_catalog_options none;
	const struct shoal_catalog_options *o = options ? options : &none;
	const char *local = store_local_path(path);

	if (store_uri_traits(path).objects)
		return open_object(path, o, ret_cat, err);
	path = local ? local : path;
	if (o->copy_dir)
		return catalog_open_file_local(path, o->copy_dir, o->stop, ret_cat, err);
	return catalog_open_file(path, ret_cat, err);
}

int shoal_catalog_open(const char *path, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	return shoal_catalog_open_with(path, NULL, ret_cat, err);
}
