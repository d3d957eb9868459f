/*
 * fetch.h - catalogs that are kept in a bucket.
 *
 * They are mapped, so they are fetched first: into a file without a name that is gone with the
 * process, or into a directory of copies which stay, named after where they are from and their
 * ETag. Many ranges are fetched at once, all of one version of the object.
 */
#ifndef SHOAL_LOAD_FETCH_H
#define SHOAL_LOAD_FETCH_H

#include "base/err.h"

/* Whether @path is in a bucket: "s3://...". */
bool load_is_remote(const char *path);

/*
 * Open the catalog at @path, a file or an object. @copies is a directory for copies, as of
 * shoal_catalog_open_local(), or NULL. -ECANCELED once *@stop (may be NULL) is not 0.
 */
int load_open_catalog(const char *path, const char *copies, const int *stop,
		      struct shoal_catalog **ret_cat, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * 1 when there is an object of exactly this name with something in it, 0 when not: then @uri may
 * be what others begin with.
 */
int load_is_object(const char *uri, const int *stop, struct shoal_err *err) SHOAL_MUST_USE;

/* Copy the object @uri to the file @path, which is there only once it is whole. */
int load_get_file(const char *uri, const char *path, const int *stop,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* Copy the file @path to the object @uri, which is there only once it is whole. */
int load_put_file(const char *path, const char *uri, const int *stop,
		  struct shoal_err *err) SHOAL_MUST_USE;

#endif
