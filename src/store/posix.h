/*
 * posix.h - a directory tree as a store.
 *
 * Names go from the root's descriptor down, so that the store stays the same place when somebody
 * renames the root or changes the current directory. Links are followed.
 */
#ifndef SHOAL_STORE_POSIX_H
#define SHOAL_STORE_POSIX_H

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "store/store.h"

struct store_posix {
	struct shoal_store base;
	int root_fd;   /* for reading: getdents(2) needs more than O_PATH */
	dev_t dev;     /* file system of the root */
	uint32_t salt; /* drawn at open, so that processes choose other partial names */
	atomic_uint_least32_t uses; /* of the salt; atomic */
};

/* @path is absolute or relative to the current directory. */
int store_posix_open(const char *path, struct shoal_store **ret_store,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* Make the directory @path and those above it, as far as they are missing. */
int store_posix_make(const char *path, struct shoal_err *err) SHOAL_MUST_USE;

/* @s as one of these; NULL when it is another kind of store. */
struct store_posix *store_posix_of(struct shoal_store *s);

/*
 * Open what @name, which was checked, stands for, to read it: a descriptor, without words. @flags,
 * such as O_DIRECT, are added to STORE_POSIX_READ.
 */
int store_posix_open_file(const struct store_posix *p, const char *name, int flags) SHOAL_MUST_USE;

/* A pipe must not make us wait for its writer; files do not care, unless they are leased. */
#define STORE_POSIX_READ (O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

/* As the table's: see posix_unit.c and posix_list.c. */
size_t store_posix_unit(struct shoal_store *s, const char *name, size_t len, void *unit);
bool store_posix_unit_dir(struct shoal_store *s, const void *unit, size_t len,
			  const char **ret_name, size_t *ret_len);
int store_posix_list(struct shoal_store *s, const struct store_list_options *options,
		     const void *unit, size_t len, struct store_sink *sink,
		     struct shoal_err *err) SHOAL_MUST_USE;

#endif
