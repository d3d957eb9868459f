/* Reads of objects: one client, one thread, with the requested number of range GETs in flight.
 * The only copy is the one from libcurl's receive buffer to the request's buffer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/engine_private.h"
#include "store/s3/s3.h"

/* How many failed requests keep their messages until these are requested: usually ten are printed.
 * */
#define WORDS_KEPT 16u

/* One GET in flight. */
struct flight {
	struct s3_request get;
	struct load_request *request; /* NULL: free */
	struct flight *next;          /* the next free one */
	struct s3_engine *engine;
	struct shoal_err err;
	char key[S3_KEY_MAX + 1];
	char match[SHOAL_ETAG_MAX + 1];
};

struct kept_error {
	const uint8_t *buf; /* identifies the request: the buffer stays with its slot */
	int rc;
	struct shoal_err err;
};

struct s3_engine {
	struct load_engine base;
	struct store_s3 *s3;
	struct s3_client *client;
	int woken;                /* atomic; set by s3_wake() until the next s3_wait() */
	struct load_list waiting; /* for a flight */
	struct flight *free;
	pthread_mutex_t lock; /* protects everything below, up to the flights */
	struct kept_error kept[WORDS_KEPT];
	unsigned nr_kept;
	struct load_remote remote;
	struct flight flight[];
};

static struct s3_engine *s3_engine_of(struct load_engine *e)
{
	return (struct s3_engine *)e;
}

/* ---- One GET ---- */

static int s3_engine_receive(struct s3_request *get, const void *data, size_t len)
{
	struct load_request *r = ((struct flight *)get->self)->request;

	if (len > r->cap - r->got) /* never: a range is cut off at its end */
		return -EOVERFLOW;
	memcpy(r->buf + r->got, data, len);
	r->got += len;
	return 0;
}

static void s3_engine_restart(struct s3_request *get)
{
	((struct flight *)get->self)->request->got = 0;
}

/*
 * The server sends the object's length with each range, so growth is detected without an extra
 * byte. A range after the end of an object is an error of its own, which means the same as 0
 * bytes.
 */
static int64_t result_of(const struct s3_request *get, const struct load_request *r)
{
	if (get->rc == -ERANGE)
		return 0;
	if (get->rc < 0)
		return get->rc;
	if (!get->size_known)
		return (int64_t)r->got;
	return (int64_t)u64_min(get->size > r->off ? get->size - r->off : 0, r->len + !r->inside);
}

static void s3_engine_count(struct s3_engine *e, const struct s3_request *get)
{
	pthread_mutex_lock(&e->lock);
	e->remote.nr_requests += get->tries;
	e->remote.nr_retries += get->tries > 0 ? get->tries - 1 : 0;
	e->remote.nr_throttled += get->throttled;
	e->remote.bytes += get->nr_bytes;
	if (get->first > get->sent)
		histogram_add(&e->remote.first_ns, get->first - get->sent);
	if (get->rc == 0)
		histogram_add(&e->remote.total_ns, get->finished - get->started);
	pthread_mutex_unlock(&e->lock);
}

static void keep_words(struct s3_engine *e, const struct load_request *r,
		       const struct shoal_err *err)
{
	struct kept_error *s;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 0; i < WORDS_KEPT; i++)
		if (e->kept[i].buf == r->buf) /* a message of an earlier request in this slot */
			e->kept[i].rc = 0;
	s = &e->kept[e->nr_kept++ % WORDS_KEPT];
	s->buf = r->buf;
	s->rc = (int)r->result;
	s->err = *err;
	pthread_mutex_unlock(&e->lock);
}

static void s3_engine_done(struct s3_request *get)
{
	struct flight *f = get->self;
	struct s3_engine *e = f->engine;
	struct load_request *r = f->request;

	r->result = result_of(get, r);
	r->opened = get->first;
	r->finished = get->finished;
	if (r->result < 0)
		keep_words(e, r, &f->err);
	s3_engine_count(e, get);
	f->request = NULL;
	f->next = e->free;
	e->free = f;
	load_push(&e->base.done, r);
}

static void s3_engine_start(struct s3_engine *e, struct flight *f, struct load_request *r)
{
	f->request = r;
	f->get = (struct s3_request){ .method = S3_GET,
				      .key = f->key,
				      .key_len = store_s3_key(e->s3, r->name, f->key),
				      .ranged = true,
				      .range_off = r->off,
				      .range_len = r->len ? r->len : 1,
				      .if_match = r->etag ? f->match : NULL,
				      .sink = s3_engine_receive,
				      .again = s3_engine_restart,
				      .done = s3_engine_done,
				      .self = f,
				      .err = &f->err };
	if (r->etag)
		etag_print(r->etag, f->match);
	s3_client_submit(e->client, &f->get);
}

static void start_waiting(struct s3_engine *e)
{
	while (e->waiting.head && e->free) {
		struct flight *f = e->free;

		e->free = f->next;
		s3_engine_start(e, f, load_pop(&e->waiting));
	}
}

/* ---- The table ---- */

static void s3_submit(struct load_engine *base, struct load_request *r)
{
	struct s3_engine *e = s3_engine_of(base);

	if (store_s3_key_len(e->s3, r->name) > S3_KEY_MAX) {
		r->result = -ENAMETOOLONG;
		r->finished = clock_now();
		load_push(&base->done, r);
		return;
	}
	load_push(&e->waiting, r);
}

/* From any thread. A kick may consume the wake-up of the client, so the flag is kept for the next
 * wait. */
static void s3_wake(struct load_engine *base)
{
	struct s3_engine *e = s3_engine_of(base);

	__atomic_store_n(&e->woken, 1, __ATOMIC_SEQ_CST);
	s3_client_wake(e->client);
}

static int drive(struct s3_engine *e, unsigned timeout_ms, struct shoal_err *err)
{
	int rc;

	start_waiting(e);
	rc = s3_client_run(e->client, timeout_ms, err);
	start_waiting(e);
	return rc;
}

static int s3_wait(struct load_engine *base, uint64_t timeout_us, struct shoal_err *err)
{
	struct s3_engine *e = s3_engine_of(base);

	if (__atomic_exchange_n(&e->woken, 0, __ATOMIC_SEQ_CST))
		timeout_us = 0;
	return drive(e, (unsigned)u64_min((timeout_us + 999) / 1000, 3600000), err);
}

/* An error of the loop is returned again by the next wait. */
static void s3_kick(struct load_engine *base)
{
	(void)!drive(s3_engine_of(base), 0, NULL);
}

/* If its own message is gone, that of another request with the same error is used. */
static int s3_why(const struct load_engine *base, const struct load_request *r,
		  struct shoal_err *err)
{
	struct s3_engine *e = (struct s3_engine *)(uintptr_t)base; /* for its lock */
	const struct kept_error *same = NULL, *own = NULL;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 0; i < WORDS_KEPT && !own; i++) {
		const struct kept_error *s = &e->kept[i];

		if (s->rc == 0 || s->rc != r->result)
			continue;
		same = s;
		own = s->buf == r->buf ? s : NULL;
	}
	if (own)
		err_describe(err, "%s", own->err.msg);
	else if (same)
		err_describe(err, "cannot read '%.200s', like others: %s", r->name, same->err.msg);
	if (same)
		err_hint(err, same->err.hint, same->err.hint_value);
	pthread_mutex_unlock(&e->lock);
	return same ? (int)r->result : 0;
}

static void s3_remote(struct load_engine *base, struct load_remote *ret, bool clear)
{
	struct s3_engine *e = s3_engine_of(base);

	pthread_mutex_lock(&e->lock);
	if (ret)
		*ret = e->remote;
	if (clear) { /* an epoch begins, with new slots */
		memset(&e->remote, 0, sizeof(e->remote));
		memset(e->kept, 0, sizeof(e->kept));
	}
	pthread_mutex_unlock(&e->lock);
}

/* Nothing writes into a buffer once the client is freed: no need to wait. */
static void s3_free(struct load_engine *base)
{
	struct s3_engine *e = s3_engine_of(base);

	s3_client_free(e->client);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static const struct load_engine_ops s3_ops = {
	.name = "s3",
	.submit = s3_submit,
	.kick = s3_kick,
	.wait = s3_wait,
	.wake = s3_wake,
	.why = s3_why,
	.remote = s3_remote,
	.free = s3_free,
};

int load_s3_new(const struct load_engine *base, struct load_engine **ret_engine,
		struct shoal_err *err)
{
	struct s3_engine *e = calloc(1, sizeof(*e) + base->in_flight * sizeof(e->flight[0]));
	int rc;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	e->base = *base;
	e->base.ops = &s3_ops;
	e->s3 = store_s3_of(base->store);
	pthread_mutex_init(&e->lock, NULL);
	for (unsigned i = base->in_flight; i-- > 0;) {
		e->flight[i].engine = e;
		e->flight[i].next = e->free;
		e->free = &e->flight[i];
	}
	rc = s3_client_new(store_s3_config(e->s3), base->in_flight, &e->client, err);
	if (rc < 0) {
		s3_free(&e->base);
		return rc;
	}
	snprintf(e->base.detail, sizeof(e->base.detail), "%u connections to %.100s%s%s",
		 s3_client_in_flight(e->client), store_s3_config(e->s3)->endpoint[0].host,
		 store_s3_config(e->s3)->nr_endpoints > 1 ? " and others" : "",
		 s3_client_in_flight(e->client) < base->in_flight
			 ? ", as many as the process may open (ulimit -n)"
			 : "");
	*ret_engine = &e->base;
	return 0;
}
