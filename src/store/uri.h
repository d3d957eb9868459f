/*
 * uri.h - the one place that parses the URIs of stores.
 *
 *   file:///data, s3://bucket/prefix   the prefix of a kind, an authority, a path
 *   null:size=4K                       a prefix without "//": only the kind interprets the rest
 *   data, ./data, /data                anything else is the path of a directory
 *
 * A path is used as it is, without %-decoding.
 */
#ifndef SHOAL_STORE_URI_H
#define SHOAL_STORE_URI_H

#include "store/store.h"

struct store_kind;

struct store_uri {
	const char *text;              /* the whole text; it and everything below is lent */
	const struct store_kind *kind; /* NULL: no kind has its scheme */
	const char *authority;         /* the bucket, of authority_len bytes */
	size_t authority_len;
	const char *path; /* for files as open(2) takes it; otherwise what follows the authority and
			     its slash, or the prefix of a kind without one */
};

/* Parse any text. The kind is found without opening anything; whether the URI is valid is not
 * checked. */
struct store_uri store_uri_parse(const char *text);

/* Length of "scheme://" at the start of @text; 0: there is none. Any scheme counts. */
size_t store_uri_scheme_len(const char *text, size_t len);

/* -EINVAL, -ENOTSUP with a message if no store can have this URI. Nothing is opened. */
int store_uri_check(const char *text, struct shoal_err *err) MUST_USE;

/* The same, but the scheme may be unknown: names below it can be listed. */
int store_uri_check_root(const char *text, struct shoal_err *err) MUST_USE;

/* The traits of a store of this URI; none if no kind has its scheme. */
struct store_traits store_uri_traits(const char *text);

/* The name of @uri in the store of URI @root, below its prefix: lent by @uri. NULL: it is not
 * there. */
const char *store_uri_below(const char *uri, const char *root);

/* The path in a file URI, or a path itself; NULL for everything else. Lent by @text. */
const char *store_local_path(const char *text);

/* Write the URI of the bucket @name of the first kind that has objects, of @len bytes, with a slash
 * at its end and without a NUL to @to. Returns its length, at most @len + 8. */
size_t store_bucket_uri(const char *name, size_t len, char *to);

/* The prefix that makes an absolute path a URI, and whether @text, of @len bytes, has it. */
#define STORE_FILE_URI "file://"
bool store_uri_is_file(const char *text, size_t len);

#endif
