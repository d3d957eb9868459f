#include "load/fetch.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/publish.h"
#include "catalog/writer.h"
#include "store/s3.h"

#define AT_ONCE     8u
#define RANGE_BYTES (UINT64_C(8) << 20)
#define PUT_BYTES   (1u << 20)

/* How often to look whether another process has finished its copy, or whether to stop. */
#define LOOK_MS 50u

static bool stopped(const int *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

bool load_is_remote(const char *path)
{
	return strncmp(path, "s3://", strlen("s3://")) == 0;
}

/* The store of the bucket that @uri is in, and the key, which is inside @uri. */
static int open_bucket(const char *uri, struct shoal_store **ret_store, const char **ret_key,
		       struct shoal_err *err)
{
	const char *place = uri + strlen("s3://"), *slash = strchr(place, '/');
	char *bucket;
	int rc;

	if (!slash || !slash[1])
		return shoal_fail(err, -EINVAL, "'%.200s' has no name: write s3://bucket/name",
				  uri);
	bucket = strndup(place, (size_t)(slash - place));
	if (!bucket)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = store_s3_open(bucket, ret_store, err);
	free(bucket);
	*ret_key = slash + 1;
	return rc;
}

/* ---- Fetching ---- */

struct fetch;

/* One range on its way to its place in the file. */
struct range {
	struct s3_request get;
	struct fetch *fetch;
	struct shoal_err err;
};

struct fetch {
	struct shoal_store *store;
	struct s3_client *client;
	const char *key;
	char etag[80];
	bool bad;            /* there was a copy, and it was damaged */
	uint64_t size, next; /* next: where the next range begins */
	int fd;
	int rc;
	struct shoal_err *err;
	struct range range[AT_ONCE];
};

static int put_bytes(struct s3_request *get, const void *data, size_t len)
{
	struct range *r = get->self;
	int rc = shoal_pwrite_all(r->fetch->fd, data, len, get->range_off + get->nr_bytes);

	return rc < 0 ? shoal_fail_errno(&r->err, rc, "cannot write a copy") : 0;
}

static void put_again(struct s3_request *get)
{
	(void)get; /* its bytes go to the same place */
}

static void next_range(struct range *r);

static void range_done(struct s3_request *get)
{
	struct range *r = get->self;
	struct fetch *f = r->fetch;

	if (get->rc == 0 && get->nr_bytes != get->range_len)
		get->rc = shoal_fail(&r->err, -ESTALE, "'%.200s' changes while it is fetched",
				     f->key);
	if (get->rc < 0 && f->rc == 0)
		f->rc = shoal_fail(f->err, get->rc, "%s", r->err.msg);
	if (f->rc == 0)
		next_range(r);
}

static void next_range(struct range *r)
{
	struct fetch *f = r->fetch;

	if (f->next >= f->size)
		return;
	r->get = (struct s3_request){ .method = S3_GET,
				      .key = f->key,
				      .key_len = strlen(f->key),
				      .ranged = true,
				      .range_off = f->next,
				      .range_len = shoal_min(RANGE_BYTES, f->size - f->next),
				      .if_match = f->etag[0] ? f->etag : NULL,
				      .sink = put_bytes,
				      .again = put_again,
				      .done = range_done,
				      .self = r,
				      .err = &r->err };
	f->next += r->get.range_len;
	s3_client_submit(f->client, &r->get);
}

/* All of the object into @fd. */
static int fetch_bytes(struct fetch *f, const int *stop)
{
	int rc;

	f->next = 0;
	f->rc = 0;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		f->range[i].fetch = f;
		next_range(&f->range[i]);
	}
	while (f->rc == 0 && s3_client_pending(f->client) > 0) {
		rc = stopped(stop) ? shoal_fail(f->err, -ECANCELED, "interrupted")
				   : s3_client_run(f->client, LOOK_MS, f->err);
		f->rc = shoal_first_error(f->rc, rc); /* which ranges may have set meanwhile */
	}
	return f->rc;
}

/* Its size and its version. */
static int look(struct fetch *f, const int *stop)
{
	struct s3_request head = {
		.method = S3_HEAD, .key = f->key, .key_len = strlen(f->key), .err = f->err
	};
	int rc = s3_client_do(f->client, &head, stop);

	if (rc == -EACCES || rc == -ENOENT)
		rc = s3_client_ask_why(f->client, &head, stop);
	if (rc < 0)
		return rc;
	if (!head.size_known)
		return shoal_fail(f->err, -EBADMSG, "the server does not tell its size");
	f->size = head.size;
	memcpy(f->etag, head.etag, sizeof(f->etag));
	return 0;
}

/* ---- Where it goes ---- */

/* A file without a name. */
static int open_nameless(struct fetch *f, const int *stop, struct shoal_catalog **ret_cat)
{
	const char *tmp = getenv("TMPDIR");
	int rc;

	f->fd = shoal_spill_open(tmp && *tmp ? tmp : "/tmp", f->err);
	if (f->fd < 0)
		return f->fd;
	rc = fetch_bytes(f, stop);
	if (rc < 0) {
		close(f->fd);
		return rc;
	}
	return shoal_catalog_open_fd(f->fd, ret_cat, f->err);
}

static char *copy_path(const struct fetch *f, const char *uri, const char *dir)
{
	uint64_t hash = XXH3_64bits_withSeed(f->etag, strlen(f->etag), f->size);
	char *path = NULL;

	hash = XXH3_64bits_withSeed(uri, strlen(uri), hash);
	if (asprintf(&path, "%s/shoal-s3-%016" PRIx64 ".cat", dir, hash) < 0)
		return NULL;
	return path;
}

/* -ENOENT when there is none, or none that we can trust. */
static int open_copy(struct fetch *f, const char *path, struct shoal_catalog **ret_cat)
{
	struct stat st;
	int rc;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	f->bad |= (uint64_t)st.st_size != f->size || shoal_catalog_copy_is_marked(&st.st_mtim);
	if ((uint64_t)st.st_size != f->size || shoal_catalog_copy_is_marked(&st.st_mtim))
		return -ENOENT;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return shoal_fail(
			f->err, -EPERM,
			"its copy '%.300s' belongs to another user: use a directory of your "
			"own",
			path);
	rc = shoal_catalog_open_file(path, ret_cat, f->err);
	f->bad |= rc == -EBADMSG;
	if (rc == 0)
		shoal_catalog_set_copy(*ret_cat, path);
	return rc;
}

/* -EBUSY when another process is at it. */
static int make_copy(struct fetch *f, const char *path, const int *stop)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	int rc = shoal_publish_open_here(path, &pub, f->err);

	f->fd = pub.fd;
	if (rc == 0)
		rc = fetch_bytes(f, stop);
	if (rc == 0)
		rc = shoal_publish_commit(&pub, f->err);
	shoal_publish_abort(&pub);
	return rc;
}

static int open_by_copy(struct fetch *f, const char *path, const int *stop,
			struct shoal_catalog **ret_cat)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	int rc;

	/* A copy that is damaged is made again. */
	while ((rc = open_copy(f, path, ret_cat)) == -ENOENT || rc == -EBADMSG) {
		rc = make_copy(f, path, stop);
		if (rc == -EBUSY && !stopped(stop)) {
			nanosleep(&pause, NULL);
			continue;
		}
		if (rc == -EBUSY)
			rc = shoal_fail(f->err, -ECANCELED, "interrupted");
		if (rc < 0)
			return rc;
		rc = open_copy(f, path, ret_cat);
		if (rc == 0 && f->bad) {
			shoal_say(f->err, "its copy '%.400s' was damaged, and has been made anew",
				  path);
			return 0;
		}
		break;
	}
	if (rc == 0 && f->err)
		f->err->msg[0] = '\0'; /* of waiting for another process, say */
	return rc;
}

static void end_fetch(struct fetch *f)
{
	if (!f)
		return;
	s3_client_free(f->client);
	shoal_store_close(f->store);
	free(f);
}

/* Look at the object @uri, which is then there. */
static int begin_fetch(const char *uri, const int *stop, struct fetch **ret_f,
		       struct shoal_err *err)
{
	struct fetch *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return shoal_fail(err, -ENOMEM, "out of memory");
	f->err = err;
	rc = open_bucket(uri, &f->store, &f->key, err);
	if (rc == 0)
		rc = s3_client_new(store_s3_of(f->store)->config, AT_ONCE, &f->client, err);
	if (rc == 0)
		rc = look(f, stop);
	if (rc == 0)
		*ret_f = f;
	else
		end_fetch(f);
	return rc;
}

static int open_remote(const char *uri, const char *copies, const int *stop,
		       struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct fetch *f = NULL;
	char *path = NULL;
	int rc = begin_fetch(uri, stop, &f, err);

	if (rc == 0 && copies) {
		path = copy_path(f, uri, copies);
		rc = path ? open_by_copy(f, path, stop, ret_cat)
			  : shoal_fail(err, -ENOMEM, "out of memory");
	} else if (rc == 0) {
		rc = open_nameless(f, stop, ret_cat);
	}
	end_fetch(f);
	free(path);
	return rc;
}

int load_open_catalog(const char *path, const char *copies, const int *stop,
		      struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	if (load_is_remote(path))
		return open_remote(path, copies, stop, ret_cat, err);
	if (copies)
		return shoal_catalog_open_file_local(path, copies, stop, ret_cat, err);
	return shoal_catalog_open_file(path, ret_cat, err);
}

/* The public ones are here, as the catalog's own room knows of no bucket. */

int shoal_catalog_open(const char *path, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	return load_open_catalog(path, NULL, NULL, ret_cat, err);
}

int shoal_catalog_open_local(const char *path, const char *dir, const int *stop,
			     struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	return load_open_catalog(path, dir, stop, ret_cat, err);
}

int load_is_object(const char *uri, const int *stop, struct shoal_err *err)
{
	const char *place = uri + strlen("s3://"), *slash = strchr(place, '/');
	struct fetch *f = NULL;
	bool empty;
	int rc;

	if (!slash || !slash[1])
		return 0;
	rc = begin_fetch(uri, stop, &f, err);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	assert(f);
	empty = f->size == 0;
	end_fetch(f);
	return !empty;
}

int load_get_file(const char *uri, const char *path, const int *stop, struct shoal_err *err)
{
	struct fetch *f = NULL;
	int rc = begin_fetch(uri, stop, &f, err);

	if (rc == 0)
		rc = make_copy(f, path, stop);
	if (rc == -EBUSY)
		shoal_say(err, "'%.300s' is being written by another process", path);
	end_fetch(f);
	return rc;
}

/* ---- The other way ---- */

static int copy_file(int fd, struct store_writer *w, const int *stop, struct shoal_err *err)
{
	uint8_t *buf = malloc(PUT_BYTES);
	int rc = buf ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
	ssize_t n = 1;

	while (rc == 0 && n > 0) {
		if (stopped(stop)) {
			rc = shoal_fail(err, -ECANCELED, "interrupted");
			break;
		}
		n = read(fd, buf, PUT_BYTES);
		if (n < 0)
			rc = shoal_fail_errno(err, shoal_errno(), "cannot read it");
		else if (n > 0)
			rc = store_write(w, buf, (size_t)n, err);
	}
	free(buf);
	return rc;
}

int load_put_file(const char *path, const char *uri, const int *stop, struct shoal_err *err)
{
	struct store_writer *w = NULL;
	struct shoal_store *s = NULL;
	const char *key = NULL;
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot open '%.300s'", path);
	rc = open_bucket(uri, &s, &key, err);
	if (rc == 0)
		rc = store_create(s, key, &w, err);
	if (rc == 0) {
		rc = copy_file(fd, w, stop, err);
		if (rc == 0)
			rc = store_commit(w, err);
		else
			store_abort(w);
	}
	close(fd);
	shoal_store_close(s);
	return rc;
}
