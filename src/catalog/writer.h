/* writer.h - what the index room needs of the writer beyond shoal.h. */
#ifndef SHOAL_CATALOG_WRITER_H
#define SHOAL_CATALOG_WRITER_H

#include <time.h>

#include "base/etag.h"
#include "catalog/digest.h"
#include "catalog/grid.h"
#include "shoal.h"

/*
 * Add a grid of names without listing them: @g, whose first name is @first, has as many names as
 * the product of its extents, in rising order. All have the same size and number of samples.
 * -ECANCELED once *@stop (which may be NULL) is not 0.
 */
int shoal_writer_add_grid(struct shoal_writer *w, const struct cat_grid *g, const char *first,
			  size_t len, uint64_t size, uint64_t samples, const int *stop,
			  struct shoal_err *err) SHOAL_MUST_USE;

/*
 * shoal_writer_add_object() with the ETag as it is kept (NULL: none), of a name that is not looked
 * at again: the caller has seen that it is of a length that names have, without NUL, behind the
 * last. Nor is it digested: see shoal_writer_digester().
 */
int shoal_writer_add_sorted(struct shoal_writer *w, const char *name, size_t len, uint64_t size,
			    uint64_t samples, const struct shoal_etag *etag,
			    struct shoal_err *err) SHOAL_MUST_USE;

/* Whether it is such a name. */
int shoal_writer_check_name(const struct shoal_writer *w, const char *name, size_t len,
			    struct shoal_err *err) SHOAL_MUST_USE;

/* What is to be fed all names that are added so, by whoever has time for it, and handed in before
 * the catalog is sealed or something else is added. */
struct cat_digester shoal_writer_digester(const struct shoal_writer *w);
void shoal_writer_hand_in(struct shoal_writer *w, const struct cat_digester *d);

/* Say otherwise how the names were found, of a writer that was opened with a listing. */
int shoal_writer_set_listing(struct shoal_writer *w, const char *listing,
			     struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Seal a writer that was opened without a path, so that its file has no name and is gone once it is
 * closed. Returns the file's descriptor. Frees the writer, also on failure.
 */
int shoal_writer_seal_nameless(struct shoal_writer *w, struct shoal_err *err) SHOAL_MUST_USE;

/* shoal_catalog_open() and shoal_catalog_open_local() of what is a file, and not in a bucket. */
int shoal_catalog_open_file(const char *path, struct shoal_catalog **ret_cat,
			    struct shoal_err *err) SHOAL_MUST_USE;
int shoal_catalog_open_file_local(const char *path, const char *dir, const int *stop,
				  struct shoal_catalog **ret_cat,
				  struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Let @cat be a copy at @path: when it is found to be damaged that is said of the copy, which is
 * marked, for who opens it next to make it anew.
 */
void shoal_catalog_set_copy(struct shoal_catalog *cat, const char *path);

/* Whether a copy of which @mtime is the time was found to be damaged. */
static inline bool shoal_catalog_copy_is_marked(const struct timespec *mtime)
{
	return mtime->tv_sec == 0;
}

/* Open the catalog in the file @fd, which is closed with it, and also on failure. */
int shoal_catalog_open_fd(int fd, struct shoal_catalog **ret_cat,
			  struct shoal_err *err) SHOAL_MUST_USE;

/* shoal_catalog_etag() as it is kept. */
int shoal_catalog_etag_of(const struct shoal_catalog *cat, uint64_t id,
			  struct shoal_etag *ret_etag) SHOAL_MUST_USE;

/* How the names were listed, as index/listing.h has it: lent, not ended by a NUL. -EBADMSG. */
int shoal_catalog_listing(const struct shoal_catalog *cat, const char **ret_text,
			  size_t *ret_len) SHOAL_MUST_USE;

#endif
