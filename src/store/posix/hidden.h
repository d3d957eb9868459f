/*
 * Files of a directory tree that are not listed: struct store_hidden of store.h.
 *
 * When a directory is opened, it is compared once with all hidden ones: one bit for each.
 */
#ifndef SHOAL_STORE_POSIX_HIDDEN_H
#define SHOAL_STORE_POSIX_HIDDEN_H

#include <sys/stat.h>

#include "store/store.h"

uint32_t posix_hidden_in(const struct store_list_options *o, const struct stat *dir);

/* Whether one of those with a bit in @hides hides the name @base. */
bool posix_hidden_name(const struct store_list_options *o, uint32_t hides, const char *base);

/* Whether the target of a link is hidden. */
bool posix_hidden_file(const struct store_list_options *o, const struct statx *st);

#endif
