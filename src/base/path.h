/* path.h - paths of the local file system: their parts, and the directories above them. */
#ifndef SHOAL_BASE_PATH_H
#define SHOAL_BASE_PATH_H

#include <string.h>

#include "base/err.h"

/* What follows the last slash of @path, or all of it. Lent. */
static inline const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The directory that @path is in, to be freed; "." without a slash. NULL: out of memory. */
char *path_dir(const char *path);

/* The directory of the running program; false if the kernel does not tell. */
bool path_of_program(char *ret_dir, size_t cap);

/* The directory for temporary files: @chosen, or if that is NULL $TMPDIR, or otherwise /tmp. */
const char *path_tmp_dir(const char *chosen);

/* @dir, a slash and @name into @buf. -ENAMETOOLONG, with a message, if they do not fit. */
int path_join(const char *dir, const char *name, char *buf, size_t cap,
	      struct shoal_err *err) MUST_USE;

/* How many of the last components of @path do not exist: the directories that path_make_dirs()
 * would make. */
unsigned path_count_missing(const char *path);

/* Remove the last @nr components of @path, as far as they are empty directories. */
void path_remove_empty(const char *path, unsigned nr);

/*
 * Whether @path is the directory @dir or below it, by whatever links; or, if @dir does not exist,
 * whether its path begins as that of @dir. @path need not exist.
 */
bool path_is_inside(const char *path, const char *dir);

/* Whether the name of a file ends so. */
bool path_has_end(const char *path, const char *end);

/* Make the directory @path and all directories above it that are missing. */
int path_make_dirs(const char *path, struct shoal_err *err) MUST_USE;

/* The end of ".train.shoal-manifest", the note beside lists that begin with "train". */
#define PATH_NOTE_OF_LISTS ".shoal-manifest"

/* For "a/train_epoch0000_rank00000.txt", a list of a manifest: the length of "a/train". 0: it is no
 * name of a list. */
size_t path_list_prefix(const char *name, size_t len);

/*
 * Whether to ask at all whether Shoal wrote a file: by its last two bytes. This is asked for every
 * file that is listed, and nearly all names end otherwise.
 */
static inline bool path_may_be_own(const char *name, size_t len)
{
	char last = len > 1 ? name[len - 1] : '\0', before = len > 1 ? name[len - 2] : '\0';

	switch (last) {
	case 't': /* .txt, .shoal-dataset, .shoal-manifest */
	case 'k': /* .shoal-lock */
	case 'l': /* .shoal, .partial, .col, .yaml, .html */
		return true;
	case 'n': /* .json */
	case 'g': /* .oplog */
		return before == 'o';
	case 'e': /* .shoal-run/state */
		return before == 't';
	default: /* series.0 */
		return last >= '0' && last <= '9';
	}
}

/* So the name of a file ends that is being written (base/publish.h): see path_is_own(). */
#define PATH_END_OF_PARTIAL ".00000000.partial"

/* The length of the folder of a name with its slash; 0 without one. And whether that folder, the
 * first @folder bytes of a name, is called @which or ends in "/which". */
size_t path_folder_len(const char *name, size_t len);
bool path_in_folder(const char *name, size_t folder, const char *which);

/* The slow part of path_is_own(), for names that end as one of these does. */
bool path_compare_own(const char *name, size_t len);

/*
 * Whether the name @name, of @len bytes, is one that Shoal alone gives to files beside data: the
 * note, the lock and the catalogs of datagen, the note of a manifest, files that it has not
 * finished (".NAME.01234567.partial"), and what an unfinished run keeps in ".shoal-run". These are
 * never samples.
 */
static inline bool path_is_own(const char *name, size_t len)
{
	return UNLIKELY(path_may_be_own(name, len)) && path_compare_own(name, len);
}

#endif
