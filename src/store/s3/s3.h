/*
 * s3.h - a bucket, or a part of one, as a store; the only header of this folder for other rooms.
 *
 * "s3://bucket/prefix": a name is the part of a key after "prefix/". Any number of threads may use
 * a store: each call takes an unused client, or creates one. Opening sends no request, because keys
 * that may read objects may not be allowed to query the bucket.
 *
 * An engine that reads many objects at once has a client of its own (client.h), with the store's
 * configuration.
 */
#ifndef SHOAL_STORE_S3_S3_H
#define SHOAL_STORE_S3_S3_H

#include "store/kind.h"
#include "store/s3/client.h"

struct store_s3;

/* @s as one of these; NULL if it is another kind of store. */
struct store_s3 *store_s3_of(struct store *s);

/* Lent, for as long as the store is open. */
const struct s3_config *store_s3_config(const struct store_s3 *s3);

/* Write the key of @name to @ret_key, of STORE_S3_KEY bytes, ended by a NUL. Returns its length.
 * It may exceed S3's limit: then the client fails. */
#define STORE_S3_KEY (S3_KEY_MAX + 1 + SHOAL_NAME_MAX + 1)
size_t store_s3_key(const struct store_s3 *s3, const char *name, char *ret_key);
size_t store_s3_key_len(const struct store_s3 *s3, const char *name);

#endif
