/* pool.h - clients that are kept with their connections for the next thread. */
#ifndef SHOAL_STORE_S3_POOL_H
#define SHOAL_STORE_S3_POOL_H

#include "store/s3/client.h"

struct s3_pool;

/* @config is lent. NULL without memory. */
struct s3_pool *s3_pool_new(const struct s3_config *config);
struct s3_pool *s3_pool_free(struct s3_pool *p); /* NULL is fine */

int s3_pool_take(struct s3_pool *p, struct s3_client **ret_client, struct shoal_err *err) MUST_USE;
void s3_pool_give(struct s3_pool *p, struct s3_client *client);

/* Of all clients that are not in use. */
void s3_pool_stats(struct s3_pool *p, struct s3_stats *ret_stats);

#endif
