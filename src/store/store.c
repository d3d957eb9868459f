#include "store/store.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "store/null.h"
#include "store/posix.h"
#include "store/s3.h"

/* ---- Opening ---- */

#define FILE_SCHEME "file:"
#define NULL_SCHEME "null:"

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Length of the scheme of "scheme://..."; 0 when @uri is a path. */
static size_t scheme_len(const char *uri)
{
	size_t i = 0;

	if (!isalpha((unsigned char)uri[0]))
		return 0;
	while (isalnum((unsigned char)uri[i]) || uri[i] == '+' || uri[i] == '-' || uri[i] == '.')
		i++;
	return starts_with(uri + i, "://") ? i : 0;
}

int shoal_store_open(const char *uri, struct shoal_store **ret_store, struct shoal_err *err)
{
	size_t scheme;

	if (!*uri)
		return shoal_fail(err, -EINVAL, "the store is empty: give a URI or a path");
	if (starts_with(uri, NULL_SCHEME))
		return store_null_open(uri + strlen(NULL_SCHEME), ret_store, err);
	if (starts_with(uri, FILE_SCHEME)) {
		if (!starts_with(uri, "file:///"))
			return shoal_fail(err, -EINVAL,
					  "'%.200s': a file URI has three slashes, as file:///data",
					  uri);
		return store_posix_open(uri + strlen("file://"), ret_store, err);
	}
	if (starts_with(uri, "s3://"))
		return store_s3_open(uri + strlen("s3://"), ret_store, err);
	scheme = scheme_len(uri);
	if (scheme)
		return shoal_fail(
			err, -ENOTSUP,
			"'%.*s://' is no kind of store: there are file://, s3://, null: and paths",
			(int)shoal_min(scheme, 200), uri);
	return store_posix_open(uri, ret_store, err);
}

int shoal_store_make(const char *uri, struct shoal_store **ret_store, struct shoal_err *err)
{
	int rc = 0;

	if (starts_with(uri, "file:///"))
		rc = store_posix_make(uri + strlen("file://"), err);
	else if (*uri && !starts_with(uri, NULL_SCHEME) && !scheme_len(uri))
		rc = store_posix_make(uri, err);
	return rc < 0 ? rc : shoal_store_open(uri, ret_store, err);
}

struct shoal_store *shoal_store_close(struct shoal_store *s)
{
	if (s && s->ops->close)
		s->ops->close(s);
	return NULL;
}

/* ---- The table ---- */

static int check_length(const char *name, struct shoal_err *err)
{
	size_t len = strnlen(name, SHOAL_NAME_MAX + 1);

	if (len == 0)
		return shoal_fail(err, -EINVAL, "the name is empty");
	if (len > SHOAL_NAME_MAX)
		return shoal_fail(err, -ENAMETOOLONG, "the name has more than %d bytes",
				  SHOAL_NAME_MAX);
	return 0;
}

int store_check_name_for(const struct shoal_store *s, const char *name, struct shoal_err *err)
{
	return s->ops->any_name ? check_length(name, err) : store_check_name(name, err);
}

int store_check_name(const char *name, struct shoal_err *err)
{
	const char *at = name;
	int rc = check_length(name, err);

	if (rc < 0)
		return rc;
	if (name[0] == '/')
		return shoal_fail(err, -EINVAL,
				  "'%.200s' starts with a slash: names are relative to the store",
				  name);
	for (;;) {
		size_t part = strcspn(at, "/");

		if (part == 2 && at[0] == '.' && at[1] == '.')
			return shoal_fail(err, -EINVAL,
					  "'%.200s' has a '..': names do not lead out of the store",
					  name);
		if (!at[part])
			return 0;
		at += part + 1;
	}
}

static int cannot(const struct shoal_store *s, const char *verb, struct shoal_err *err)
{
	return shoal_fail(err, -ENOTSUP, "a %s store cannot %s", s->ops->kind, verb);
}

int store_stat(struct shoal_store *s, const char *name, struct store_stat *ret_stat,
	       struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->stat)
		return cannot(s, "tell sizes", err);
	return s->ops->stat(s, name, ret_stat, err);
}

int64_t store_read(struct shoal_store *s, const char *name, uint64_t off, void *buf, size_t len,
		   struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->read)
		return cannot(s, "be read from", err);
	return s->ops->read(s, name, off, buf, len, err);
}

int64_t store_read_if(struct shoal_store *s, const char *name, const struct shoal_etag *etag,
		      uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->read_if)
		return cannot(s, "be read from by ETags", err);
	return s->ops->read_if(s, name, etag, off, buf, len, err);
}

int store_create(struct shoal_store *s, const char *name, struct store_writer **ret_writer,
		 struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->create)
		return cannot(s, "be written to", err);
	return s->ops->create(s, name, ret_writer, err);
}

int store_write(struct store_writer *w, const void *data, size_t len, struct shoal_err *err)
{
	const struct store_ops *ops = w->store->ops;
	int rc;

	if (w->rc < 0)
		return shoal_fail_errno(err, w->rc, "an earlier write failed");
	if (ops->write)
		rc = ops->write(w, data, len, err);
	else
		rc = cannot(w->store, "be written to", err);
	if (rc < 0)
		w->rc = rc;
	return rc;
}

int store_commit(struct store_writer *w, struct shoal_err *err)
{
	const struct store_ops *ops = w->store->ops;
	int rc = w->rc;

	if (rc == 0 && ops->commit)
		return ops->commit(w, err);
	if (rc < 0)
		shoal_say_errno(err, rc, "it is not whole, as a write failed");
	else
		rc = cannot(w->store, "be written to", err);
	store_abort(w);
	return rc;
}

void store_abort(struct store_writer *w)
{
	if (w && w->store->ops->abort)
		w->store->ops->abort(w);
}

int store_remove(struct shoal_store *s, const char *name, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->remove)
		return cannot(s, "remove things", err);
	return s->ops->remove(s, name, err);
}

int store_sync(struct shoal_store *s, struct shoal_err *err)
{
	return s->ops->sync ? s->ops->sync(s, err) : 0;
}

int store_space(struct shoal_store *s, struct store_space *ret_space, struct shoal_err *err)
{
	if (!s->ops->space)
		return cannot(s, "tell how much room there is", err);
	return s->ops->space(s, ret_space, err);
}

struct store_requests store_requests(struct shoal_store *s)
{
	struct store_requests r = { 0 };

	if (s->ops->requests)
		s->ops->requests(s, &r);
	return r;
}

size_t store_unit(struct shoal_store *s, const char *name, size_t len, void *unit)
{
	return s->ops->unit ? s->ops->unit(s, name, len, unit) : 0;
}

bool store_unit_dir(struct shoal_store *s, const void *unit, size_t len, const char **ret_name,
		    size_t *ret_len)
{
	return s->ops->unit_dir && s->ops->unit_dir(s, unit, len, ret_name, ret_len);
}

int store_shard(struct shoal_store *s, unsigned k, unsigned n, const int *stop, void *unit,
		size_t *ret_len, struct shoal_err *err)
{
	if (!s->ops->shard)
		return cannot(s, "be listed by shards", err);
	return s->ops->shard(s, k, n, stop, unit, ret_len, err);
}

int store_list(struct shoal_store *s, const struct store_list_options *options, const void *unit,
	       size_t len, struct store_sink *sink, struct shoal_err *err)
{
	if (len > STORE_UNIT_MAX)
		return shoal_fail(err, -EINVAL, "a unit of a listing has more than %u bytes",
				  STORE_UNIT_MAX);
	if (!s->ops->list)
		return cannot(s, "be listed", err);
	return s->ops->list(s, options, unit, len, sink, err);
}
