/*
 * What is not to be listed, of a directory tree: struct store_hidden of store.h.
 *
 * A directory is asked once, when it is opened, which of the hidden are about it: a bit for each.
 */
#ifndef SHOAL_STORE_POSIX_HIDDEN_H
#define SHOAL_STORE_POSIX_HIDDEN_H

#include <sys/stat.h>

#include "store/store.h"

uint32_t posix_hidden_in(const struct store_list_options *o, const struct stat *dir);

/* Whether one of those that @hides has a bit for hides the name @base. */
bool posix_hidden_name(const struct store_list_options *o, uint32_t hides, const char *base);

/* Whether what a link leads to is hidden. */
bool posix_hidden_file(const struct store_list_options *o, const struct statx *st);

#endif
