/* s3_private.h - shared by the parts of the S3 store. */
#ifndef SHOAL_STORE_S3_PRIVATE_H
#define SHOAL_STORE_S3_PRIVATE_H

#include "store/s3/pool.h"
#include "store/s3/ranges.h"
#include "store/s3/s3.h"

/* Whether a server that claims to encode the keys of its lists does so. */
enum s3_key_encoding { S3_KEYS_UNKNOWN = 0, S3_KEYS_ENCODED, S3_KEYS_RAW };

struct store_s3 {
	struct store base;
	struct s3_config *config;
	char *prefix; /* prefix of all keys: "" or ends in a slash */
	size_t prefix_len;
	struct s3_pool *pool;
	struct s3_ranges *ranges; /* ranges that are being listed */
	unsigned key_encoding;    /* enum s3_key_encoding: what was found out. Atomic */
	bool keys_look_raw;       /* some key has what an encoding server escapes. Atomic */
};

/* Writing: see write.c. */
int store_s3_create(struct store *s, const char *name, struct store_writer **ret_writer,
		    struct shoal_err *err) MUST_USE;
int store_s3_write(struct store_writer *w, const void *data, size_t len,
		   struct shoal_err *err) MUST_USE;
int store_s3_commit(struct store_writer *w, struct shoal_err *err) MUST_USE;
void store_s3_abort(struct store_writer *w);

/* All of an object: see fetch.c. */
int store_s3_examine(struct store *s, const char *name, const int *stop,
		     struct store_object *ret_object, struct shoal_err *err) MUST_USE;
int store_s3_fetch(struct store *s, const char *name, const struct store_object *object, int fd,
		   const int *stop, struct shoal_err *err) MUST_USE;

/* Listing: see list.c. */
int store_s3_list(struct store *s, const struct store_list_options *options, const void *unit,
		  size_t len, struct store_sink *sink, struct shoal_err *err) MUST_USE;

/* The K-th of N parts: see shard.c. */
bool store_s3_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			 size_t *ret_len);
bool store_s3_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
		       size_t *ret_len);
size_t store_s3_interval(struct store *s, const char *after, size_t after_len, const char *upto,
			 size_t upto_len, void *unit);
int store_s3_shard(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		   size_t *ret_len, struct shoal_err *err) MUST_USE;

#endif
