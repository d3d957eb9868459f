/*
 * posix.h - a directory tree as a store.
 *
 * Names are resolved from the root's descriptor, so that the store stays the same place if the
 * root is renamed or the current directory changes. Links are followed; with `beneath` only those
 * that stay below the root, and -EXDEV is returned for others, and for all links to absolute paths.
 */
#ifndef SHOAL_STORE_POSIX_POSIX_H
#define SHOAL_STORE_POSIX_POSIX_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "store/kind.h"

struct store_posix {
	struct store base;
	int root_fd; /* for reading: getdents(2) needs more than O_PATH */
	dev_t dev;   /* file system of the root */
	bool beneath;
	uint32_t salt; /* chosen at open, so that processes use different partial names */
	atomic_uint_least32_t uses; /* counter for the salt; atomic */
};

/* @s if it is a directory tree, NULL for any other kind of store. */
struct store_posix *store_posix_of(struct store *s);

/* openat2(2) below the root, for those who call it by other means. */
struct open_how store_posix_how(const struct store_posix *p, int flags);

/* Open @path, which is shorter than PATH_MAX: a descriptor or a negative errno. */
int store_posix_open_path(const struct store_posix *p, const char *path, int flags) MUST_USE;

/* -EXDEV with its message. */
int store_posix_leads_out(const char *name, struct shoal_err *err);

/* Open @name, which was checked, for reading: returns a descriptor, without a message on
 * failure. @flags, such as O_DIRECT, are added to STORE_POSIX_READ. */
int store_posix_open_file(const struct store_posix *p, const char *name, int flags) MUST_USE;

/* fstatat(2) of @name, which was checked: 0 or a negative errno. */
int store_posix_stat_file(const struct store_posix *p, const char *name,
			  struct stat *ret_stat) MUST_USE;

/* Opening a pipe must not wait for its writer; files ignore the flag, unless they are leased. */
#define STORE_POSIX_READ (O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

/* Entries of the table: see unit.c and list.c. */
size_t store_posix_unit(struct store *s, const char *name, size_t len, void *unit);
bool store_posix_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			    size_t *ret_len);
int store_posix_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err) MUST_USE;

#endif
