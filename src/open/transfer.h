/*
 * transfer.h - whole files to and from object stores.
 *
 * In all functions @uri names an object, such as "s3://bucket/name"; @config (or NULL) is how to
 * reach it; they end with -ECANCELED once *@stop (may be NULL) is not 0.
 */
#ifndef SHOAL_OPEN_TRANSFER_H
#define SHOAL_OPEN_TRANSFER_H

#include "store/store.h"

/* An existing object in its store. */
struct transfer {
	struct store *store;
	const char *name; /* inside the URI, which is lent */
	struct store_object object;
};

/* -EINVAL: @uri names a whole bucket. */
int transfer_no_name(const char *uri, struct shoal_err *err);

/* Look it up. Must be released, unless this fails. */
int transfer_begin(struct transfer *t, const char *uri, const struct shoal_store_config *config,
		   const int *stop, struct shoal_err *err) MUST_USE;
void transfer_release(struct transfer *t);

/* Copy all of it to the file @path, which appears only when it is complete. -EBUSY: another
 * process is writing it. */
int transfer_to_file(struct transfer *t, const char *path, const int *stop,
		     struct shoal_err *err) MUST_USE;

/* 1 if there is an object of exactly this name that is not empty, 0 otherwise: then @uri may be
 * a prefix of other objects. */
int transfer_is_object(const char *uri, const struct shoal_store_config *config, const int *stop,
		       struct shoal_err *err) MUST_USE;

/* Copy the object @uri to the file @path, which appears only when it is complete. */
int transfer_get_file(const char *uri, const char *path, const struct shoal_store_config *config,
		      const int *stop, struct shoal_err *err) MUST_USE;

/* How to observe and stop a transfer. */
struct transfer_watch {
	const int *stop;              /* may be NULL */
	void (*progress)(void *self); /* called repeatedly, on the calling thread; or NULL */
	void *self;
};

/* Copy the file @path to the object @uri, which appears only when it is complete. */
int transfer_put_file(const char *path, const char *uri, const struct shoal_store_config *config,
		      const struct transfer_watch *watch, struct shoal_err *err) MUST_USE;

#endif
