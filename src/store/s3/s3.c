#include "store/s3/s3_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct store_s3 *s3_of(struct store *s)
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

size_t store_s3_key_len(const struct store_s3 *s3, const char *name)
{
	return s3->prefix_len + strlen(name);
}

/* Perform one request from beginning to end. */
static int s3_perform(struct store_s3 *s3, struct s3_request *r, struct shoal_err *err)
{
	struct s3_client *client;
	int rc = s3_pool_take(s3->pool, &client, err);

	if (rc < 0)
		return rc;
	r->err = err;
	rc = s3_client_do(client, r, NULL);
	if (r->method == S3_HEAD && rc == -EACCES) /* not if it is missing: that is common */
		rc = s3_client_ask_why(client, r, NULL);
	s3_pool_give(s3->pool, client);
	return rc;
}

/* ---- Reading ---- */

static int s3_stat(struct store *s, const char *name, struct store_stat *ret_stat,
		   struct shoal_err *err)
{
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_HEAD,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key) };
	int rc = s3_perform(s3_of(s), &r, err);

	if (rc < 0)
		return rc;
	if (!r.size_known)
		return err_set(err, -EBADMSG, "'%.200s': the server does not report its size", key);
	*ret_stat = (struct store_stat){ .size = r.size };
	return 0;
}

struct s3_reading {
	uint8_t *buf;
	size_t got;
};

static int s3_receive(struct s3_request *r, const void *data, size_t len)
{
	struct s3_reading *to = r->self;

	memcpy(to->buf + to->got, data, len); /* never past the requested range */
	to->got += len;
	return 0;
}

static void s3_restart(struct s3_request *r)
{
	((struct s3_reading *)r->self)->got = 0;
}

static int64_t s3_read_if(struct store *s, const char *name, const struct etag *etag, uint64_t off,
			  void *buf, size_t len, struct shoal_err *err)
{
	char match[SHOAL_ETAG_MAX + 1];
	struct s3_reading to = { .buf = buf };
	struct store_stat st;
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_GET,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key),
				.ranged = true,
				.range_off = off,
				.range_len = len,
				.if_match = etag && etag_print(etag, match) > 0 ? match : NULL,
				.sink = s3_receive,
				.again = s3_restart,
				.self = &to };
	int rc;

	if (len == 0) /* an empty range cannot be requested; but the object must exist */
		return s3_stat(s, name, &st, err);
	if (off > INT64_MAX || len > INT64_MAX - off)
		return err_set(err, -EOVERFLOW, "'%.200s' is too large", name);
	rc = s3_perform(s3_of(s), &r, err);
	if (rc == -ERANGE) /* after its end */
		return 0;
	return rc < 0 ? rc : (int64_t)to.got;
}

static int64_t s3_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
		       struct shoal_err *err)
{
	return s3_read_if(s, name, NULL, off, buf, len, err);
}

/* S3 does not report whether it existed. */
static int s3_remove(struct store *s, const char *name, struct shoal_err *err)
{
	char key[STORE_S3_KEY];
	struct s3_request r = { .method = S3_DELETE,
				.key = key,
				.key_len = store_s3_key(s3_of(s), name, key) };

	return s3_perform(s3_of(s), &r, err);
}

/* ---- Opening ---- */

static void s3_close(struct store *s)
{
	struct store_s3 *s3 = s3_of(s);

	s3_pool_free(s3->pool);
	s3_ranges_free(s3->ranges);
	s3_config_free(s3->config);
	free(s3->prefix);
	free(s->uri);
	free(s3);
}

static void s3_requests(struct store *s, struct store_requests *ret_requests)
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
	.close = s3_close,
	.stat = s3_stat,
	.read = s3_read,
	.read_if = s3_read_if,
	.examine = store_s3_examine,
	.fetch = store_s3_fetch,
	.create = store_s3_create,
	.write = store_s3_write,
	.commit = store_s3_commit,
	.abort = store_s3_abort,
	.remove = s3_remove,
	.unit_start = store_s3_unit_start,
	.unit_end = store_s3_unit_end,
	.interval = store_s3_interval,
	.list = store_s3_list,
	.shard = store_s3_shard,
	.requests = s3_requests,
};

struct store_s3 *store_s3_of(struct store *s)
{
	return s->ops == &s3_ops ? s3_of(s) : NULL;
}

const struct s3_config *store_s3_config(const struct store_s3 *s3)
{
	return s3->config;
}

static int s3_check(const struct store_uri *uri, struct shoal_err *err)
{
	if (uri->authority_len == 0)
		return err_set(err, -EINVAL, "'%.200s' has no bucket: write s3://bucket/prefix",
			       uri->text);
	return 0;
}

/* "bucket" and "prefix", with any number of slashes at its end, become "prefix/" and a URI. */
static int take_place(struct store_s3 *s3, const struct store_uri *uri, struct shoal_err *err)
{
	const char *prefix = uri->path;
	size_t len = strlen(prefix);

	while (len > 0 && prefix[len - 1] == '/')
		len--;
	if (len >= S3_KEY_MAX)
		return err_set(err, -ENAMETOOLONG,
			       "the prefix has %zu bytes, but keys have at most %d", len,
			       S3_KEY_MAX);
	if (asprintf(&s3->prefix, "%.*s%s", (int)len, prefix, len > 0 ? "/" : "") < 0)
		s3->prefix = NULL;
	if (asprintf(&s3->base.uri, "%s%.*s%s%.*s", uri->kind->prefix, (int)uri->authority_len,
		     uri->authority, len > 0 ? "/" : "", (int)len, prefix) < 0)
		s3->base.uri = NULL;
	if (!s3->prefix || !s3->base.uri)
		return err_set(err, -ENOMEM, "out of memory");
	s3->prefix_len = strlen(s3->prefix);
	return 0;
}

static int s3_open(const struct store_uri *uri, const struct shoal_store_config *config,
		   struct store **ret_store, struct shoal_err *err)
{
	struct store_s3 *s3 = calloc(1, sizeof(*s3));
	char *bucket = strndup(uri->authority, uri->authority_len);
	int rc = s3 && bucket ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0) {
		s3->base.ops = &s3_ops;
		s3->base.traits = uri->kind->traits;
		rc = take_place(s3, uri, err);
	}
	if (rc == 0)
		rc = s3_config_new(bucket, config, &s3->config, err);
	if (rc == 0) {
		s3->pool = s3_pool_new(s3->config);
		s3->ranges = s3_ranges_new();
		if (!s3->pool || !s3->ranges)
			rc = err_set(err, -ENOMEM, "out of memory");
	}
	free(bucket);
	if (rc < 0 && s3)
		s3_close(&s3->base);
	else if (rc == 0)
		*ret_store = &s3->base;
	return rc;
}

const struct store_kind store_s3_kind = {
	.prefix = "s3://",
	.traits = { .objects = true, .etags = true, .any_name = true },
	.check = s3_check,
	.check_config = s3_config_check,
	.open = s3_open,
};
