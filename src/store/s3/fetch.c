/* Fetch a whole object into a file: many ranges at the same time, all of one version. */
#include <stdlib.h>
#include <string.h>

#include "base/out.h"
#include "store/s3/s3_private.h"

#define AT_ONCE     8u
#define RANGE_BYTES (UINT64_C(8) << 20)

/* How often to check whether to stop. */
#define LOOK_MS 50u

struct fetch;

/* A range in flight, and its place in the file. */
struct fetch_range {
	struct s3_request get;
	struct fetch *fetch;
	struct shoal_err err;
};

struct fetch {
	struct s3_client *client;
	char key[STORE_S3_KEY];
	const char *etag;
	uint64_t size, next; /* next: where the next range begins */
	uint64_t done;       /* bytes that came, some of them again */
	int fd;
	int rc;
	struct shoal_err *err;
	struct fetch_range range[AT_ONCE];
};

static int put_bytes(struct s3_request *get, const void *data, size_t len)
{
	struct fetch_range *r = get->self;
	int rc = pwrite_all(r->fetch->fd, data, len, get->range_off + get->nr_bytes);

	r->fetch->done += len;
	return rc < 0 ? err_set_errno(&r->err, rc, "cannot write a copy") : 0;
}

static void put_again(struct s3_request *get)
{
	(void)get; /* its bytes go to the same place */
}

static void next_range(struct fetch_range *r);

static void range_done(struct s3_request *get)
{
	struct fetch_range *r = get->self;
	struct fetch *f = r->fetch;

	if (get->rc == 0 && get->nr_bytes != get->range_len)
		get->rc = err_set(&r->err, -ESTALE, "'%.200s' changed while it was being fetched",
				  f->key);
	if (get->rc < 0 && f->rc == 0)
		f->rc = err_set_as(f->err, get->rc, &r->err, "%s", r->err.msg);
	if (f->rc == 0)
		next_range(r);
}

static void next_range(struct fetch_range *r)
{
	struct fetch *f = r->fetch;

	if (f->next >= f->size)
		return;
	r->get = (struct s3_request){ .method = S3_GET,
				      .key = f->key,
				      .key_len = strlen(f->key),
				      .ranged = true,
				      .range_off = f->next,
				      .range_len = u64_min(RANGE_BYTES, f->size - f->next),
				      .if_match = f->etag[0] ? f->etag : NULL,
				      .sink = put_bytes,
				      .again = put_again,
				      .done = range_done,
				      .self = r,
				      .err = &r->err };
	f->next += r->get.range_len;
	s3_client_submit(f->client, &r->get);
}

/* Fetch all of the object into @fd. */
static int fetch_bytes(struct fetch *f, const struct store_object *object, const int *stop)
{
	int rc;

	f->next = 0;
	f->rc = 0;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		f->range[i].fetch = f;
		next_range(&f->range[i]);
	}
	while (f->rc == 0 && s3_client_pending(f->client) > 0) {
		if (object->progress)
			object->progress(object->self, u64_min(f->done, f->size));
		rc = stop_requested(stop) ? err_set(f->err, -ECANCELED, "interrupted")
					  : s3_client_run(f->client, LOOK_MS, f->err);
		f->rc = err_first(f->rc, rc); /* ranges may have set it meanwhile */
	}
	return f->rc;
}

int store_s3_fetch(struct store *s, const char *name, const struct store_object *object, int fd,
		   const int *stop, struct shoal_err *err)
{
	struct store_s3 *s3 = store_s3_of(s);
	struct fetch *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	store_s3_key(s3, name, f->key);
	f->etag = object->version;
	f->size = object->size;
	f->fd = fd;
	f->err = err;
	rc = s3_client_new(s3->config, AT_ONCE, &f->client, err);
	if (rc == 0)
		rc = fetch_bytes(f, object, stop);
	s3_client_free(f->client);
	free(f);
	return rc;
}

int store_s3_examine(struct store *s, const char *name, const int *stop,
		     struct store_object *ret_object, struct shoal_err *err)
{
	struct store_s3 *s3 = store_s3_of(s);
	char key[STORE_S3_KEY];
	struct s3_request head = {
		.method = S3_HEAD, .key = key, .key_len = store_s3_key(s3, name, key), .err = err
	};
	struct s3_client *client;
	int rc = s3_pool_take(s3->pool, &client, err);

	if (rc < 0)
		return rc;
	rc = s3_client_do(client, &head, stop);
	if (rc == -EACCES || rc == -ENOENT)
		rc = s3_client_ask_why(client, &head, stop);
	s3_pool_give(s3->pool, client);
	if (rc < 0)
		return rc;
	if (!head.size_known)
		return err_set(err, -EBADMSG, "the server does not report its size");
	*ret_object = (struct store_object){ .size = head.size };
	_Static_assert(sizeof(ret_object->version) == sizeof(head.etag), "a version is an ETag");
	memcpy(ret_object->version, head.etag, sizeof(head.etag));
	return 0;
}
