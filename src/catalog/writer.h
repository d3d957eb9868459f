/* writer.h - the parts of the writer and the reader that other rooms use beyond shoal.h. */
#ifndef SHOAL_CATALOG_WRITER_H
#define SHOAL_CATALOG_WRITER_H

#include <time.h>

#include "base/etag.h"
#include "catalog/digest.h"
#include "catalog/grid.h"
#include "shoal.h"

/*
 * Add a grid of names without listing them. The first name of @g is @first; it has as many names as
 * the product of its extents, in ascending order. All have the same size and number of samples.
 */
int writer_add_grid(struct shoal_writer *w, const struct cat_grid *g, const char *first, size_t len,
		    uint64_t size, uint64_t samples, const struct cat_grid_watch *watch,
		    struct shoal_err *err) MUST_USE;

/*
 * As shoal_writer_add_object(), with the ETag in its stored form (NULL: none), for a name that is
 * not checked again: the caller has made sure that its length is valid, that it has no NUL, and
 * that it sorts after the last. Nor is it digested: see writer_digester().
 */
int writer_add_sorted(struct shoal_writer *w, const char *name, size_t len, uint64_t size,
		      uint64_t samples, const struct etag *etag, struct shoal_err *err) MUST_USE;

/* The same for many names. */
struct writer_name {
	const uint8_t *name;
	size_t len;
	uint64_t size, samples;
	const struct etag *etag;
};
int writer_add_many_sorted(struct shoal_writer *w, const struct writer_name *names, size_t nr,
			   struct shoal_err *err) MUST_USE;

/*
 * Cut the catalog before the next name: see cat_digest_add(). If each name before which it is to be
 * cut is, the file is the same if it is put together from parts that begin at such names.
 */
int writer_cut(struct shoal_writer *w, struct shoal_err *err) MUST_USE;

/* The catalog is a part of another one. */
void writer_set_part(struct shoal_writer *w);

/* The extents of the samples of the next file (NULL: none), of a writer with extents. Lent until it
 * is added. */
struct cat_layout;
void writer_set_layout(struct shoal_writer *w, const struct cat_layout *layout);

/* Count that file as one of @format; @uncut if its samples are not contiguous. */
int writer_count_format(struct shoal_writer *w, const char *format, uint64_t nr_samples, bool uncut,
			struct shoal_err *err) MUST_USE;

/*
 * Add @nr files of the catalog @from, from file @first on, which come after all that were added,
 * with the writer's number of samples per file: what is whole in @from is copied without being
 * decoded. The writer has no extents, and sizes only if @from has them. They are not digested:
 */
int writer_append_range(struct shoal_writer *w, const struct shoal_catalog *from, uint64_t first,
			uint64_t nr, struct shoal_err *err) MUST_USE;

/* Add these files to a digest, on up to @nr_threads threads (0: all cores): if they are the whole
 * catalog, without decoding them. */
int catalog_digest_range(const struct shoal_catalog *from, uint64_t first, uint64_t nr,
			 unsigned nr_threads, struct cat_digester *d,
			 struct shoal_err *err) MUST_USE;

/* Make the checks that writer_add_sorted() leaves to its caller. */
int writer_check_name(const struct shoal_writer *w, const char *name, size_t len,
		      struct shoal_err *err) MUST_USE;

/*
 * The digester for the names added with writer_add_sorted(). Any thread may feed it all of them; it
 * must be handed in before the catalog is sealed or something else is added.
 */
struct cat_digester writer_digester(const struct shoal_writer *w);
void writer_add_packed(struct shoal_writer *w, const struct cat_digester *d);

/* Replace the provenance of a writer that was opened with one. */
int writer_set_listing(struct shoal_writer *w, const char *listing, struct shoal_err *err) MUST_USE;

/*
 * Seal a writer that was opened without a path: its file has no name and vanishes when it is
 * closed. Returns the file's descriptor. Frees the writer, even on failure.
 */
int writer_seal_nameless(struct shoal_writer *w, struct shoal_err *err) MUST_USE;

/* As shoal_catalog_open(), for a file; the second through a copy in the directory @dir. */
int catalog_open_file(const char *path, struct shoal_catalog **ret_cat,
		      struct shoal_err *err) MUST_USE;
int catalog_open_file_local(const char *path, const char *dir, const int *stop,
			    struct shoal_catalog **ret_cat, struct shoal_err *err) MUST_USE;

/*
 * Declare that @cat is a node-local copy at @path. If it turns out to be damaged, the message names
 * the copy, and the copy is marked so that the next process that opens it replaces it.
 */
/* As shoal_catalog_verify(), and report how many names were checked. */
int catalog_verify_with(const struct shoal_catalog *cat,
			void (*progress)(void *self, uint64_t nr_names), void *self,
			struct shoal_err *err) MUST_USE;

void catalog_set_copy(struct shoal_catalog *cat, const char *path);

/* Whether a copy with this mtime was marked as damaged. */
static inline bool catalog_copy_is_marked(const struct timespec *mtime)
{
	return mtime->tv_sec == 0;
}

/* Open the catalog in the file @fd, which is closed with it, and on failure. */
int catalog_open_fd(int fd, struct shoal_catalog **ret_cat, struct shoal_err *err) MUST_USE;

/* shoal_catalog_etag() in the stored form. */
int catalog_etag_of(const struct shoal_catalog *cat, uint64_t id, struct etag *ret_etag) MUST_USE;

/*
 * After shoal_cursor_next() has returned a name: how many names from it on, up to @most, surely lie
 * in the same directory, at least 1. The cursor moves behind them without decoding them.
 */
int catalog_cursor_skip(struct shoal_cursor *cursor, uint64_t most, uint64_t *ret_nr) MUST_USE;

/* The provenance text, in the format of index/listing.h. Lent, without a final NUL. -EBADMSG. */
int catalog_listing(const struct shoal_catalog *cat, const char **ret_text,
		    size_t *ret_len) MUST_USE;

#endif
