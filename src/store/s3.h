/*
 * s3.h - a bucket, or a part of one, as a store.
 *
 * "s3://bucket/prefix": names are what follows "prefix/" in a key. Any number of threads may use
 * it: each call takes a client that nobody uses, or makes one. Opening asks the server nothing, as
 * who may read objects need not be allowed to ask for the bucket.
 */
#ifndef SHOAL_STORE_S3_H
#define SHOAL_STORE_S3_H

#include "store/s3_client.h"
#include "store/s3_pool.h"
#include "store/s3_ranges.h"
#include "store/store.h"

struct store_s3 {
	struct shoal_store base;
	struct s3_config *config;
	char *prefix; /* of all keys: "" or ends in a slash */
	size_t prefix_len;
	struct s3_pool *pool;
	struct s3_ranges *ranges; /* that are being listed */
};

/* @place is what follows "s3://". */
int store_s3_open(const char *place, struct shoal_store **ret_store,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* @s as one of these; NULL when it is another kind of store. */
struct store_s3 *store_s3_of(struct shoal_store *s);

/*
 * The key of @name, into @ret_key of STORE_S3_KEY bytes, ended by a NUL: its length. It may be
 * longer than S3 has keys: the client says so.
 */
#define STORE_S3_KEY (S3_KEY_MAX + 1 + SHOAL_NAME_MAX + 1)
size_t store_s3_key(const struct store_s3 *s3, const char *name, char *ret_key);

/* Writing: see s3_write.c. */
int store_s3_create(struct shoal_store *s, const char *name, struct store_writer **ret_writer,
		    struct shoal_err *err) SHOAL_MUST_USE;
int store_s3_write(struct store_writer *w, const void *data, size_t len,
		   struct shoal_err *err) SHOAL_MUST_USE;
int store_s3_commit(struct store_writer *w, struct shoal_err *err) SHOAL_MUST_USE;
void store_s3_abort(struct store_writer *w);

/* Listing: see s3_list.c. */
int store_s3_list(struct shoal_store *s, const struct store_list_options *options, const void *unit,
		  size_t len, struct store_sink *sink, struct shoal_err *err) SHOAL_MUST_USE;

/* The K-th of N parts: see s3_shard.c. */
int store_s3_shard(struct shoal_store *s, unsigned k, unsigned n, const int *stop, void *unit,
		   size_t *ret_len, struct shoal_err *err) SHOAL_MUST_USE;

#endif
