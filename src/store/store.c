#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/out.h"
#include "base/text.h"
#include "store/kind.h"

#define FETCH_BYTES (1u << 20)

/* ---- Opening ---- */

int shoal_store_config_check(const struct shoal_store_config *config, struct shoal_err *err)
{
	const struct store_kind *kind;
	int rc = 0;

	for (size_t i = 0; rc == 0 && (kind = store_kind_at(i)) != NULL; i++)
		if (kind->check_config)
			rc = kind->check_config(config, err);
	return rc;
}

int store_open(const char *uri, const struct shoal_store_config *config, struct store **ret_store,
	       struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(uri);
	int rc = store_uri_check(uri, err);

	return rc < 0 ? rc : u.kind->open(&u, config, ret_store, err);
}

int store_make(const char *uri, const struct shoal_store_config *config, struct store **ret_store,
	       struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(uri);
	int rc = store_uri_check(uri, err);

	if (rc == 0 && u.kind->make)
		rc = u.kind->make(&u, err);
	return rc < 0 ? rc : u.kind->open(&u, config, ret_store, err);
}

struct store *store_close(struct store *s)
{
	if (s && s->ops->close)
		s->ops->close(s);
	return NULL;
}

/* ---- The table ---- */

static int check_length(const char *name, size_t *ret_len, struct shoal_err *err)
{
	size_t len = strnlen(name, SHOAL_NAME_MAX + 1);

	if (len == 0)
		return err_set(err, -EINVAL, "the name is empty");
	if (len > SHOAL_NAME_MAX)
		return err_set(err, -ENAMETOOLONG, "the name has more than %d bytes",
			       SHOAL_NAME_MAX);
	*ret_len = len;
	return 0;
}

int store_check_name_for(const struct store *s, const char *name, struct shoal_err *err)
{
	size_t len;

	return s->traits.any_name ? check_length(name, &len, err) : store_check_name(name, err);
}

int store_check_name(const char *name, struct shoal_err *err)
{
	size_t len = 0;
	int rc = check_length(name, &len, err);

	if (rc < 0)
		return rc;
	if (name[0] == '/')
		return err_set(err, -EINVAL,
			       "'%.200s' starts with a slash: names are relative to the store",
			       name);
	if (path_goes_up(name, len))
		return err_set(err, -EINVAL,
			       "'%.200s' contains '..': names must not lead out of the store",
			       name);
	return 0;
}

static int unsupported(const struct store *s, const char *what, struct shoal_err *err)
{
	return err_set(err, -ENOTSUP, "a %s store does not support %s", s->ops->kind, what);
}

int store_stat(struct store *s, const char *name, struct store_stat *ret_stat,
	       struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->stat)
		return unsupported(s, "sizes", err);
	return s->ops->stat(s, name, ret_stat, err);
}

int64_t store_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
		   struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->read)
		return unsupported(s, "reading", err);
	return s->ops->read(s, name, off, buf, len, err);
}

int64_t store_read_if(struct store *s, const char *name, const struct etag *etag, uint64_t off,
		      void *buf, size_t len, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->read_if)
		return unsupported(s, "conditional reads", err);
	return s->ops->read_if(s, name, etag, off, buf, len, err);
}

int store_examine(struct store *s, const char *name, const int *stop,
		  struct store_object *ret_object, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);
	struct store_stat st;

	if (rc < 0)
		return rc;
	if (s->ops->examine)
		return s->ops->examine(s, name, stop, ret_object, err);
	rc = store_stat(s, name, &st, err);
	if (rc == 0 && st.is_dir)
		rc = err_set(err, -EISDIR, "'%.200s' is a directory", name);
	if (rc == 0)
		*ret_object = (struct store_object){ .size = st.size };
	return rc;
}

/* With one read after the other, for stores without an operation of their own. */
static int fetch_by_reads(struct store *s, const char *name, uint64_t size, int fd, const int *stop,
			  struct shoal_err *err)
{
	uint8_t *buf = malloc(FETCH_BYTES);
	uint64_t at = 0;
	int64_t n = 1;
	int rc = buf ? 0 : err_set(err, -ENOMEM, "out of memory");

	while (rc == 0 && n > 0) {
		if (stop_requested(stop)) {
			rc = err_set(err, -ECANCELED, "interrupted");
			break;
		}
		n = store_read(s, name, at, buf, FETCH_BYTES, err);
		if (n < 0) {
			rc = (int)n;
			break;
		}
		rc = pwrite_all(fd, buf, (size_t)n, at);
		if (rc < 0)
			err_set_errno(err, rc, "cannot write a copy");
		at += (uint64_t)n;
	}
	free(buf);
	if (rc == 0 && at != size)
		rc = err_set(err, -ESTALE, "'%.200s' changed while it was being fetched", name);
	return rc;
}

int store_fetch(struct store *s, const char *name, const struct store_object *object, int fd,
		const int *stop, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (s->ops->fetch)
		return s->ops->fetch(s, name, object, fd, stop, err);
	return fetch_by_reads(s, name, object->size, fd, stop, err);
}

int store_create(struct store *s, const char *name, struct store_writer **ret_writer,
		 struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->create)
		return unsupported(s, "writing", err);
	return s->ops->create(s, name, ret_writer, err);
}

int store_write(struct store_writer *w, const void *data, size_t len, struct shoal_err *err)
{
	const struct store_ops *ops = w->store->ops;
	int rc;

	if (w->rc < 0)
		return err_set_errno(err, w->rc, "an earlier write failed");
	if (ops->write)
		rc = ops->write(w, data, len, err);
	else
		rc = unsupported(w->store, "writing", err);
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
		err_describe_errno(err, rc, "it is incomplete because a write failed");
	else
		rc = unsupported(w->store, "writing", err);
	store_abort(w);
	return rc;
}

void store_abort(struct store_writer *w)
{
	if (w && w->store->ops->abort)
		w->store->ops->abort(w);
}

int store_remove(struct store *s, const char *name, struct shoal_err *err)
{
	int rc = store_check_name_for(s, name, err);

	if (rc < 0)
		return rc;
	if (!s->ops->remove)
		return unsupported(s, "removal", err);
	return s->ops->remove(s, name, err);
}

int store_sync(struct store *s, struct shoal_err *err)
{
	return s->ops->sync ? s->ops->sync(s, err) : 0;
}

int store_space(struct store *s, struct store_space *ret_space, struct shoal_err *err)
{
	if (!s->ops->space)
		return unsupported(s, "queries of free space", err);
	return s->ops->space(s, ret_space, err);
}

struct store_requests store_requests(struct store *s)
{
	struct store_requests r = { 0 };

	if (s->ops->requests)
		s->ops->requests(s, &r);
	return r;
}

size_t store_unit(struct store *s, const char *name, size_t len, void *unit)
{
	return s->ops->unit ? s->ops->unit(s, name, len, unit) : 0;
}

bool store_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
		      size_t *ret_len)
{
	return s->ops->unit_start && s->ops->unit_start(s, unit, len, ret_name, ret_len);
}

bool store_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
		    size_t *ret_len)
{
	return s->ops->unit_end && s->ops->unit_end(s, unit, len, ret_name, ret_len);
}

size_t store_interval(struct store *s, const char *after, size_t after_len, const char *upto,
		      size_t upto_len, void *unit)
{
	if (!s->ops->interval)
		return 0;
	return s->ops->interval(s, after, after_len, upto, upto_len, unit);
}

int store_shard(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		size_t *ret_len, struct shoal_err *err)
{
	if (!s->ops->shard)
		return unsupported(s, "shards", err);
	return s->ops->shard(s, k, n, stop, unit, ret_len, err);
}

bool store_is_wanted(struct store_sink *sink, const char *name, size_t len)
{
	const char *slash = name;

	if (!sink->wanted)
		return true;
	while ((slash = memchr(slash, '/', (size_t)(name + len - slash))) != NULL) {
		if (slash > name && !sink->wanted(sink, name, (size_t)(slash - name), true))
			return false;
		slash++;
	}
	return sink->wanted(sink, name, len, false);
}

int store_list(struct store *s, const struct store_list_options *options, const void *unit,
	       size_t len, struct store_sink *sink, struct shoal_err *err)
{
	if (len > STORE_UNIT_MAX)
		return err_set(err, -EINVAL, "a unit of a listing has more than %u bytes",
			       STORE_UNIT_MAX);
	if (!s->ops->list)
		return unsupported(s, "listing", err);
	return s->ops->list(s, options, unit, len, sink, err);
}
