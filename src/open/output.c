#include "open/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/out.h"
#include "base/path.h"
#include "base/text.h"
#include "catalog/catalog_format.h"
#include "shoal.h"
#include "store/uri.h"

int output_check(const char *text, struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(text);
	int rc = store_uri_check(text, err);

	if (rc < 0)
		return rc;
	if (!store_local_path(text) && !store_uri_traits(text).objects)
		return err_set(err, -ENOTSUP, "nothing can be written to '%.300s'", text);
	return *u.path ? 0 : transfer_no_name(text, err);
}

int output_file(const char *text, const char **ret_path, struct shoal_err *err)
{
	int rc = store_uri_check(text, err);
	const char *path = store_local_path(text);

	if (rc == 0 && !path)
		rc = err_set(err, -ENOTSUP, "'%.300s' is not a file", text);
	if (rc == 0)
		*ret_path = path;
	return rc;
}

int output_open(struct output *o, const char *text, struct shoal_err *err)
{
	int rc = output_check(text, err);

	*o = (struct output){ .path = store_local_path(text) };
	if (rc == 0 && !o->path)
		o->object = text;
	return rc;
}

void output_share(struct output *o, const char *dir)
{
	snprintf(o->dir, sizeof(o->dir), "%s", dir);
	snprintf(o->temporary, sizeof(o->temporary), "%.2047s/catalog", dir);
	o->path = o->temporary;
}

static int output_explain(const char *uri, int rc, const struct shoal_err *why,
			  struct shoal_err *err)
{
	return err_set_as(err, rc, why, "cannot write the catalog to %.300s: %s", uri, why->msg);
}

/* The beginning of an object: how many bytes of @head, or an error. */
static int64_t peek_object(const char *uri, const struct shoal_store_config *config,
			   const int *stop, struct cat_header *head, uint64_t *ret_size,
			   struct shoal_err *err)
{
	struct shoal_err why = { "" };
	struct transfer t;
	int64_t n = transfer_begin(&t, uri, config, stop, &why);

	if (n == 0) {
		*ret_size = t.object.size;
		if (t.object.size > 0)
			n = store_read(t.store, t.name, 0, head, sizeof(*head), &why);
		transfer_release(&t);
	}
	return n < 0 ? output_explain(uri, (int)n, &why, err) : n;
}

/* The same of a file. -EISDIR: it is a directory. */
static int64_t peek_file(const char *path, struct cat_header *head, uint64_t *ret_size,
			 struct shoal_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int64_t n = fd < 0 ? -errno : 0;
	struct stat st;

	if (n == 0 && fstat(fd, &st) < 0)
		n = -errno;
	if (n == 0 && S_ISDIR(st.st_mode))
		n = err_set(err, -EISDIR, "'%.300s' is a directory: name a file", path);
	else if (n == 0 && !S_ISREG(st.st_mode))
		n = err_set(err, -EEXIST, "'%.300s' is not a regular file", path);
	else if (n == 0 && pread_all(fd, head, u64_min(sizeof(*head), (uint64_t)st.st_size), 0) < 0)
		n = err_set_errno(err, -EIO, "cannot read '%.300s', which would be replaced", path);
	else if (n == 0)
		n = (int64_t)u64_min(sizeof(*head), *ret_size = (uint64_t)st.st_size);
	else if (n != -ENOENT)
		err_set_errno(err, (int)n, "cannot open '%.300s', which would be replaced", path);
	if (fd >= 0)
		close(fd);
	return n;
}

int output_protect(struct output *o, const struct shoal_store_config *config, const int *stop,
		   struct shoal_err *err)
{
	const char *target = o->object ? o->object : o->path;
	struct cat_header head;
	uint64_t size = 0;
	int64_t n = o->object ? peek_object(target, config, stop, &head, &size, err)
			      : peek_file(target, &head, &size, err);

	o->nr_old = 0;
	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return (int)n;
	if (cat_peek(&head, (size_t)n, size, &o->nr_old) < 0)
		return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
				    "'%.300s' exists and is not a catalog", target);
	return 0;
}

int output_permit(const struct output *o, uint64_t nr, struct shoal_err *err)
{
	if (nr >= o->nr_old - o->nr_old / 2)
		return 0;
	return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
			    "'%.300s' has %" PRIu64 " name%s, and only %" PRIu64
			    " %s found now: it stays as it was",
			    o->object ? o->object : o->path, o->nr_old, plural(o->nr_old), nr,
			    nr == 1 ? "was" : "were");
}

int output_stage(struct output *o, const char *tmp_dir, struct shoal_err *err)
{
	char dir[sizeof(o->dir)];

	if (!o->object)
		return 0;
	tmp_dir = path_tmp_dir(tmp_dir);
	snprintf(dir, sizeof(dir), "%.2000s/shoal-output-XXXXXX", tmp_dir);
	if (!mkdtemp(dir))
		return err_set_errno(err, err_errno(), "cannot create a directory in '%.200s'",
				     tmp_dir);
	output_share(o, dir);
	return 0;
}

int output_send(const struct output *o, const struct shoal_store_config *config,
		const struct transfer_watch *watch, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc = o->object ? transfer_put_file(o->path, o->object, config, watch, &why) : 0;

	return rc < 0 ? output_explain(o->object, rc, &why, err) : 0;
}

void output_release(const struct output *o)
{
	if (!*o->dir)
		return;
	unlink(o->temporary);
	rmdir(o->dir);
}

uint64_t open_nr_names(const char *uri, const struct shoal_store_config *config, const int *stop)
{
	struct output o;

	return output_open(&o, uri, NULL) == 0 && output_protect(&o, config, stop, NULL) == 0
		       ? o.nr_old
		       : 0;
}
