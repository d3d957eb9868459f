#include "store/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct store_s3 *s3_of(struct shoal_store *s)
{
	return (struct store_s3 *)s;
}

size_t store_s3_key(const struct store_s3 *s3, const char *name, char *ret_key)
{
	size_t len = strlen(name);

	memcpy(ret_key, s3->prefix, s3->prefix_len);
	memcpy(ret_key + s3->prefix_len, name, len + 1);
	return s3->prefix_len + len;
}

/* One request from beginning to end. */
static int ask(struct store_s3 *s3, struct s3_request *r, struct shoal_err *err)
{
	struct s3_client *client;
	int rc = s3_pool_take(s3->pool, &client, err);

	if (rc < 0)
		return rc;
	r->err = err;
	rc = s3_client_do(client, r, NULL);
	if (r->method == S3_HEAD && rc == -EACCES) /* not when it is missing: that is common */
		rc = s3_client_ask_why(client, r, NULL);
	s3_pool_give(s3->pool, client);
	return rc;
}

/* ---- Reading ---- */

static int s3_stat(struct shoal_store *s, const char *name, struct store_stat *ret_stat,
		   struct shoal_err *err)
{
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_HEAD,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key) };
	int rc = ask(s3_of(s), &r, err);

	if (rc < 0)
		return rc;
	if (!r.size_known)
		return shoal_fail(err, -EBADMSG, "'%.200s': the server does not tell its size",
				  key);
	*ret_stat = (struct store_stat){ .size = r.size };
	return 0;
}

struct reading {
	uint8_t *buf;
	size_t got;
};

static int take_bytes(struct s3_request *r, const void *data, size_t len)
{
	struct reading *to = r->self;

	memcpy(to->buf + to->got, data, len); /* never past the range that was asked for */
	to->got += len;
	return 0;
}

static void take_again(struct s3_request *r)
{
	((struct reading *)r->self)->got = 0;
}

static int64_t s3_read_if(struct shoal_store *s, const char *name, const struct shoal_etag *etag,
			  uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	char match[SHOAL_ETAG_MAX + 1];
	struct reading to = { .buf = buf };
	struct store_stat st;
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_GET,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key),
				.ranged = true,
				.range_off = off,
				.range_len = len,
				.if_match =
					etag && shoal_etag_print(etag, match) > 0 ? match : NULL,
				.sink = take_bytes,
				.again = take_again,
				.self = &to };
	int rc;

	if (len == 0) /* no range has no bytes; but it should be there */
		return s3_stat(s, name, &st, err);
	if (off > INT64_MAX || len > INT64_MAX - off)
		return shoal_fail(err, -EOVERFLOW, "'%.200s' cannot have as many bytes", name);
	rc = ask(s3_of(s), &r, err);
	if (rc == -ERANGE) /* behind its end */
		return 0;
	return rc < 0 ? rc : (int64_t)to.got;
}

static int64_t s3_read(struct shoal_store *s, const char *name, uint64_t off, void *buf, size_t len,
		       struct shoal_err *err)
{
	return s3_read_if(s, name, NULL, off, buf, len, err);
}

/* S3 does not tell whether it was there. */
static int s3_remove(struct shoal_store *s, const char *name, struct shoal_err *err)
{
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_DELETE,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key) };

	return ask(s3_of(s), &r, err);
}

/* ---- Opening ---- */

static void s3_close(struct shoal_store *s)
{
	struct store_s3 *s3 = s3_of(s);

	s3_pool_free(s3->pool);
	s3_ranges_free(s3->ranges);
	s3_config_free(s3->config);
	free(s3->prefix);
	free(s->uri);
	free(s3);
}

static void s3_requests(struct shoal_store *s, struct store_requests *ret_requests)
{
	struct s3_stats stats;

	s3_pool_stats(s3_of(s)->pool, &stats);
	*ret_requests = (struct store_requests){ .nr = stats.nr_requests + stats.nr_retries,
						 .nr_retries = stats.nr_retries,
						 .nr_throttled = stats.nr_throttled,
						 .busy_ns = stats.busy_ns };
}

static const struct store_ops s3_ops = {
	.kind = "s3",
	.any_name = true,
	.close = s3_close,
	.stat = s3_stat,
	.read = s3_read,
	.read_if = s3_read_if,
	.create = store_s3_create,
	.write = store_s3_write,
	.commit = store_s3_commit,
	.abort = store_s3_abort,
	.remove = s3_remove,
	.list = store_s3_list,
	.shard = store_s3_shard,
	.requests = s3_requests,
};

struct store_s3 *store_s3_of(struct shoal_store *s)
{
	return s->ops == &s3_ops ? s3_of(s) : NULL;
}

/* "bucket/prefix", with any number of slashes at its end, becomes "bucket", "prefix/" and a URI. */
static int take_place(struct store_s3 *s3, const char *place, char **ret_bucket,
		      struct shoal_err *err)
{
	size_t bucket_len = strcspn(place, "/"), len = strlen(place);
	const char *prefix = place + bucket_len + (place[bucket_len] == '/');

	while (len > bucket_len && place[len - 1] == '/')
		len--;
	if (bucket_len == 0)
		return shoal_fail(err, -EINVAL, "'s3://%.200s' has no bucket: s3://bucket/prefix",
				  place);
	len -= shoal_min(len, (size_t)(prefix - place));
	if (len >= S3_KEY_MAX)
		return shoal_fail(err, -ENAMETOOLONG,
				  "the prefix has %zu bytes, and keys at most %d", len, S3_KEY_MAX);
	*ret_bucket = strndup(place, bucket_len);
	if (asprintf(&s3->prefix, "%.*s%s", (int)len, prefix, len > 0 ? "/" : "") < 0)
		s3->prefix = NULL;
	if (asprintf(&s3->base.uri, "s3://%.*s%s%.*s", (int)bucket_len, place, len > 0 ? "/" : "",
		     (int)len, prefix) < 0)
		s3->base.uri = NULL;
	if (!*ret_bucket || !s3->prefix || !s3->base.uri)
		return shoal_fail(err, -ENOMEM, "out of memory");
	s3->prefix_len = strlen(s3->prefix);
	return 0;
}

int store_s3_open(const char *place, struct shoal_store **ret_store, struct shoal_err *err)
{
	struct store_s3 *s3 = calloc(1, sizeof(*s3));
	char *bucket = NULL;
	int rc;

	if (!s3)
		return shoal_fail(err, -ENOMEM, "out of memory");
	s3->base.ops = &s3_ops;
	rc = take_place(s3, place, &bucket, err);
	if (rc == 0)
		rc = s3_config_new(bucket, &s3->config, err);
	if (rc == 0) {
		s3->pool = s3_pool_new(s3->config);
		s3->ranges = s3_ranges_new();
		if (!s3->pool || !s3->ranges)
			rc = shoal_fail(err, -ENOMEM, "out of memory");
	}
	free(bucket);
	if (rc < 0)
		s3_close(&s3->base);
	else
		*ret_store = &s3->base;
	return rc;
}
