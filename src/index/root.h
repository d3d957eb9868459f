/* root.h - the URI that names are relative to. */
#ifndef SHOAL_INDEX_ROOT_H
#define SHOAL_INDEX_ROOT_H

#include "base/err.h"

#define INDEX_ROOT_MAX 4096

struct index_root {
	char uri[INDEX_ROOT_MAX + 1]; /* without a slash at its end, except for "file:///" */
	size_t len;
	size_t path_at;  /* where the path begins in the URI, if names are paths */
	bool is_file;    /* names are paths */
	bool from_first; /* taken from an absolute first name, so all names must be absolute */
};

/*
 * From the user's URI or path, or otherwise from the first name: "file:///" for an absolute path,
 * the bucket for a URI, the current directory for anything else.
 */
int index_root_init(struct index_root *root, const char *given, const char *first_name,
		    size_t first_len, struct shoal_err *err) MUST_USE;

/* Move *@name and *@len to the part below the root. -EINVAL with a message if it is elsewhere,
 * or if nothing is left. */
int index_root_strip(const struct index_root *root, const char **name, size_t *len,
		     struct shoal_err *err) MUST_USE;

#endif
