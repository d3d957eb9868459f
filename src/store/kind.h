/*
 * kind.h - a kind of store: its URI prefix, its traits, and how a store of it is opened.
 *
 * Each backend is a folder that exports one of these, and a line of the table in kind.c.
 */
#ifndef SHOAL_STORE_KIND_H
#define SHOAL_STORE_KIND_H

#include "store/store.h"
#include "store/uri.h"

struct store_kind {
	const char *prefix; /* of its URIs: "s3://". Those with "//" have an authority, see uri.h */
	const char *form;   /* how messages write it; NULL: like the prefix */
	/* Of all stores of this kind; an open store may have more. */
	struct store_traits traits;
	/* Check @uri, which has the prefix: -EINVAL with a message. NULL: every one is valid. */
	int (*check)(const struct store_uri *uri, struct shoal_err *err);
	/* Check a configuration likewise. NULL: this kind uses none. */
	int (*check_config)(const struct shoal_store_config *config, struct shoal_err *err);
	/* Open the store of @uri, which was checked. @config may be NULL; both are lent. */
	int (*open)(const struct store_uri *uri, const struct shoal_store_config *config,
		    struct store **ret_store, struct shoal_err *err);
	/* Create what open() requires to exist. NULL: nothing is required. */
	int (*make)(const struct store_uri *uri, struct shoal_err *err);
};

#define STORE_REGISTERED_MAX 8u

/*
 * Add a kind from outside the library, for example in a test; @kind is static. Call it before
 * other threads use stores. -EEXIST: its prefix begins like an existing one, or the other way
 * round. -ENOSPC: there are STORE_REGISTERED_MAX.
 */
int store_register(const struct store_kind *kind) MUST_USE;

/* The @i-th kind, counted from 0, or NULL after the last. The first is that of paths. */
const struct store_kind *store_kind_at(size_t i);

#endif
