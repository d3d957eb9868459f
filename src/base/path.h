/* path.h - paths of the local file system: their parts, and the directories above them. */
#ifndef SHOAL_BASE_PATH_H
#define SHOAL_BASE_PATH_H

#include "base/err.h"

/* The directory that @path is in, to be freed; "." without a slash. NULL: out of memory. */
char *path_dir(const char *path);

/* @dir, a slash and @name into @buf. -ENAMETOOLONG, with a message, if they do not fit. */
int path_join(const char *dir, const char *name, char *buf, size_t cap,
	      struct shoal_err *err) MUST_USE;

/* Make the directory @path and all directories above it that are missing. */
int path_make_dirs(const char *path, struct shoal_err *err) MUST_USE;

#endif
