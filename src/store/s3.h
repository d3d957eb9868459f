/*
 * s3.h - a bucket, or a part of one, as a store.
 *
 * "s3://bucket/prefix": names are what follows "prefix/" in a key. Any number of threads may use
 * it: each call takes a client that nobody uses, or makes one.
 */
#ifndef SHOAL_STORE_S3_H
#define SHOAL_STORE_S3_H

#include "store/s3_client.h"
#include "store/store.h"

struct store_s3 {
	struct shoal_store base;
	struct s3_config *config;
	char *prefix; /* of all keys: "" or ends in a slash */
	size_t prefix_len;
	struct s3_pool *pool; /* clients that nobody uses: s3_pool.c */
};

/* @place is what follows "s3://". */
int store_s3_open(const char *place, struct shoal_store **ret_store,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* @s as one of these; NULL when it is another kind of store. */
struct store_s3 *store_s3_of(struct shoal_store *s);

/* A client with one request at a time, for this thread until it is given back. */
int store_s3_take(struct store_s3 *s3, struct s3_client **ret_client,
		  struct shoal_err *err) SHOAL_MUST_USE;
void store_s3_give(struct store_s3 *s3, struct s3_client *client);

/* As the table's: see s3_list.c. */
size_t store_s3_unit(struct shoal_store *s, const char *name, size_t len, void *unit);
int store_s3_list(struct shoal_store *s, const struct store_list_options *options, const void *unit,
		  size_t len, struct store_sink *sink, struct shoal_err *err) SHOAL_MUST_USE;

#endif
