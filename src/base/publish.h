/*
 * publish.h - give a file its final name when it is complete, or not at all.
 *
 * The bytes go to a partial file next to the final one (".NAME.00000000.partial"). It is locked, so
 * that a second writer of the same name gets an error. Commit syncs it and renames it into place. A
 * partial file left by a killed process is taken over by the next writer.
 */
#ifndef SHOAL_BASE_PUBLISH_H
#define SHOAL_BASE_PUBLISH_H

#include "base/err.h"
#include "base/path.h"

struct publish {
	int fd;        /* write here; -1 when closed */
	char *path;    /* final name, symbolic links resolved */
	char *partial; /* current name of the bytes */
};

#define PUBLISH_CLOSED ((struct publish){ .fd = -1 })

/*
 * Whether the file @fd, opened as @path, is this user's alone: a regular file that belongs to this
 * user and has one name. Another user could change any other file after it was checked, or have
 * had it made for that purpose. -EPERM.
 */
int publish_check_own(int fd, const char *path, struct shoal_err *err) MUST_USE;

/*
 * Open the existing file @path with @flags, if publish_check_own() accepts it; a symbolic link is
 * not followed. Returns the descriptor.
 */
int publish_open_own(const char *path, int flags, struct shoal_err *err) MUST_USE;

/* -EBUSY: another process is writing @path now. */
int publish_open(const char *path, struct publish *ret_pub, struct shoal_err *err) MUST_USE;

/* A nameless file in directory @dir: it cannot be committed, and vanishes when it is closed. */
int publish_nameless(const char *dir, struct publish *ret_pub, struct shoal_err *err) MUST_USE;

/*
 * As publish_open(), but a link at @path is replaced, not followed: for names that the user did not
 * choose.
 */
int publish_open_here(const char *path, struct publish *ret_pub, struct shoal_err *err) MUST_USE;

/*
 * The path that the bytes of @path would get, with links resolved, and the name of the partial file
 * (without file locks it has another number). The caller frees both.
 */
int publish_names(const char *path, char **ret_path, char **ret_partial,
		  struct shoal_err *err) MUST_USE;

/* Sync, rename, sync the directory. On failure the partial file is removed. Closes either way. */
int publish_commit(struct publish *pub, struct shoal_err *err) MUST_USE;

/* Rename only: for many files, which the caller syncs together afterwards. */
int publish_commit_unsynced(struct publish *pub, struct shoal_err *err) MUST_USE;

/*
 * Remove the partial file of a killed writer of @path. False if there is none or its writer is
 * still at work.
 */
bool publish_sweep(const char *path);

/* Remove the partial file and close. Idempotent, even after commit. */
void publish_abort(struct publish *pub);

/*
 * Write into @err that a temporary file in @dir (NULL: not known) could not be written because of
 * @rc, with SHOAL_HINT_TMP_DIR if the disk is full. Returns @rc.
 */
int spill_failed(struct shoal_err *err, int rc, const char *dir);

/*
 * A nameless temporary file in directory @dir: it vanishes when closed, however the process ends.
 */
int spill_open(const char *dir, struct shoal_err *err) MUST_USE;

#endif
