/*
 * filter.h - which names to list: shell patterns that include and exclude.
 *
 * '*' and '?' match anything but a slash, '**' slashes too, [a-z] and [!a-z] a byte of a set, and a
 * backslash takes the next byte literally. A pattern without a slash is matched with the last
 * component of a name, one with a slash with the whole name, from the root on (a slash at the start
 * changes nothing else). A slash at the end restricts a pattern to directories.
 *
 * A file is listed if an including pattern matches it, or there is none, and no excluding pattern
 * matches it. An excluded directory is not read.
 */
#ifndef SHOAL_INDEX_FILTER_H
#define SHOAL_INDEX_FILTER_H

#include "base/err.h"

struct index_filter {
	const char *const *include;
	size_t nr_include;
	const char *const *exclude;
	size_t nr_exclude;
};

/* -EINVAL with a message for a pattern that cannot match, such as one with an open bracket. */
int index_filter_check(const struct index_filter *f, struct shoal_err *err) MUST_USE;

bool index_filter_wants(const struct index_filter *f, const char *name, size_t len, bool is_dir);

/* Whether @pattern, of @pattern_len bytes, matches all of @text. */
bool index_glob(const char *pattern, size_t pattern_len, const char *text, size_t len);

#endif
