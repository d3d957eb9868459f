/*
 * publish.h - make a file under its final name all at once, or not at all.
 *
 * The bytes go to a partial file beside the final one (".NAME.partial"), which is locked so that
 * a second writer of the same name is told so; commit syncs it and renames it into place. A
 * partial file that a killed process left behind is taken over by the next writer.
 */
#ifndef SHOAL_BASE_PUBLISH_H
#define SHOAL_BASE_PUBLISH_H

#include "base/err.h"

struct shoal_publish {
	int fd;        /* write here; -1 when closed */
	char *path;    /* final name, links resolved */
	char *partial; /* the name the bytes have now */
};

#define SHOAL_PUBLISH_CLOSED ((struct shoal_publish){ .fd = -1 })

/* -EBUSY: another process is writing @path now. */
int shoal_publish_open(const char *path, struct shoal_publish *ret_pub,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* Without a name, in directory @dir: it cannot be committed, and is gone when it is closed. */
int shoal_publish_nameless(const char *dir, struct shoal_publish *ret_pub,
			   struct shoal_err *err) SHOAL_MUST_USE;

/* The same, but a link at @path is replaced, not followed: for names that the user did not choose.
 */
int shoal_publish_open_here(const char *path, struct shoal_publish *ret_pub,
			    struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Where the bytes of @path would end up, through links, and what the partial file would be called
 * (without locks something follows that). Both are the caller's to free.
 */
int shoal_publish_names(const char *path, char **ret_path, char **ret_partial,
			struct shoal_err *err) SHOAL_MUST_USE;

/* Sync, rename, sync the directory. On failure the partial file is removed. Closes either way. */
int shoal_publish_commit(struct shoal_publish *pub, struct shoal_err *err) SHOAL_MUST_USE;

/* Rename only: for many files, which the caller syncs together afterwards. */
int shoal_publish_commit_unsynced(struct shoal_publish *pub, struct shoal_err *err) SHOAL_MUST_USE;

/* Remove what a writer of @path left that was killed. False: there is no such thing, or the writer
 * is at work. */
bool shoal_publish_sweep(const char *path);

/* Remove the partial file and close. Idempotent, also after commit. */
void shoal_publish_abort(struct shoal_publish *pub);

/* The directory part of @path, "." when it has none; the caller's to free, NULL without memory. */
char *shoal_dir_of(const char *path);

/* A nameless temporary file in directory @dir: gone when closed, however the process ends. */
int shoal_spill_open(const char *dir, struct shoal_err *err) SHOAL_MUST_USE;

#endif
