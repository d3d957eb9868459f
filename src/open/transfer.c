#include "open/transfer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/publish.h"
#include "store/kind.h"

#define PUT_BYTES (1u << 20)

int transfer_no_name(const char *uri, struct shoal_err *err)
{
	return err_set(err, -EINVAL, "'%.200s' has no name: write %sbucket/name", uri,
		       store_uri_parse(uri).kind->prefix);
}

/* The store that @uri is in, and its name there, which is inside @uri. */
static int open_store_of(const char *uri, const struct shoal_store_config *config,
			 struct store **ret_store, const char **ret_name, struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(uri);
	char *bucket;
	int rc;

	if (!*u.path)
		return transfer_no_name(uri, err);
	bucket = strndup(uri, (size_t)(u.authority + u.authority_len - uri));
	if (!bucket)
		return err_set(err, -ENOMEM, "out of memory");
	rc = store_open(bucket, config, ret_store, err);
	free(bucket);
	*ret_name = u.path;
	return rc;
}

void transfer_release(struct transfer *t)
{
	t->store = store_close(t->store);
}

int transfer_begin(struct transfer *t, const char *uri, const struct shoal_store_config *config,
		   const int *stop, struct shoal_err *err)
{
	int rc;

	*t = (struct transfer){ .store = NULL };
	rc = open_store_of(uri, config, &t->store, &t->name, err);
	if (rc == 0)
		rc = store_examine(t->store, t->name, stop, &t->object, err);
	if (rc < 0)
		transfer_release(t);
	return rc;
}

int transfer_to_file(struct transfer *t, const char *path, const int *stop, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	int rc = publish_open_here(path, &pub, err);

	if (rc == 0)
		rc = store_fetch(t->store, t->name, &t->object, pub.fd, stop, err);
	if (rc == 0)
		rc = publish_commit(&pub, err);
	publish_abort(&pub);
	return rc;
}

int transfer_is_object(const char *uri, const struct shoal_store_config *config, const int *stop,
		       struct shoal_err *err)
{
	struct transfer t;
	int rc;

	if (!*store_uri_parse(uri).path)
		return 0;
	rc = transfer_begin(&t, uri, config, stop, err);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	transfer_release(&t);
	return t.object.size > 0;
}

int transfer_get_file(const char *uri, const char *path, const struct shoal_store_config *config,
		      const int *stop, struct shoal_err *err)
{
	struct transfer t;
	int rc = transfer_begin(&t, uri, config, stop, err);

	if (rc < 0)
		return rc;
	rc = transfer_to_file(&t, path, stop, err);
	if (rc == -EBUSY)
		err_describe(err, "'%.300s' is being written by another process", path);
	transfer_release(&t);
	return rc;
}

static int copy_file(int fd, struct store_writer *w, const struct transfer_watch *watch,
		     struct shoal_err *err)
{
	uint8_t *buf = malloc(PUT_BYTES);
	int rc = buf ? 0 : err_set(err, -ENOMEM, "out of memory");
	ssize_t n = 1;

	while (rc == 0 && n > 0) {
		if (watch && watch->progress)
			watch->progress(watch->self);
		if (watch && stop_requested(watch->stop)) {
			rc = err_set(err, -ECANCELED, "interrupted");
			break;
		}
		n = read(fd, buf, PUT_BYTES);
		if (n < 0)
			rc = err_set_errno(err, err_errno(), "cannot read it");
		else if (n > 0)
			rc = store_write(w, buf, (size_t)n, err);
	}
	free(buf);
	return rc;
}

int transfer_put_file(const char *path, const char *uri, const struct shoal_store_config *config,
		      const struct transfer_watch *watch, struct shoal_err *err)
{
	struct store_writer *w = NULL;
	struct store *s = NULL;
	const char *key = NULL;
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%.300s'", path);
	rc = open_store_of(uri, config, &s, &key, err);
	if (rc == 0)
		rc = store_create(s, key, &w, err);
	if (rc == 0) {
		rc = copy_file(fd, w, watch, err);
		if (rc == 0)
			rc = store_commit(w, err);
		else
			store_abort(w);
	}
	close(fd);
	store_close(s);
	return rc;
}
