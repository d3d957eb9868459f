/*
 * Reads of objects: one client, one thread, as many range GETs in flight as were asked for. The
 * only copy is the one from libcurl's receive buffer to the request's own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/engine_inside.h"
#include "store/s3.h"

/* Failed requests whose words are kept until somebody asks for them: ten are told of, as a rule. */
#define WORDS_KEPT 16u

/* One GET on its way. */
struct flight {
	struct s3_request get;
	struct load_request *request; /* NULL: free */
	struct flight *next;          /* that is free */
	struct s3_engine *engine;
	struct shoal_err err;
	char key[S3_KEY_MAX + 1];
	char match[SHOAL_ETAG_MAX + 1];
};

struct said {
	const uint8_t *buf; /* of the request: it stays the slot's */
	int rc;
	struct shoal_err err;
};

struct s3_engine {
	struct load_engine base;
	struct store_s3 *s3;
	struct s3_client *client;
	int woken;                /* by s3_wake(), atomic, until the next s3_wait() */
	struct load_list waiting; /* for a flight */
	struct flight *free;
	pthread_mutex_t lock; /* of all that follows, up to the flights */
	struct said said[WORDS_KEPT];
	unsigned nr_said;
	struct load_remote remote;
	struct flight flight[];
};

static struct s3_engine *s3_engine_of(struct load_engine *e)
{
	return (struct s3_engine *)e;
}

/* ---- One GET ---- */

static int take_bytes(struct s3_request *get, const void *data, size_t len)
{
	struct load_request *r = ((struct flight *)get->self)->request;

	if (len > r->cap - r->got) /* never: a range is cut off where it should end */
		return -EOVERFLOW;
	memcpy(r->buf + r->got, data, len);
	r->got += len;
	return 0;
}

static void take_again(struct s3_request *get)
{
	((struct flight *)get->self)->request->got = 0;
}

/*
 * The server tells with each range how long the object is: so growth is seen without a byte more.
 * Behind the end of an object there is no range at all, which says the same as no bytes.
 */
static int64_t result_of(const struct s3_request *get, const struct load_request *r)
{
	if (get->rc == -ERANGE)
		return 0;
	if (get->rc < 0)
		return get->rc;
	if (!get->size_known)
		return (int64_t)r->got;
	return (int64_t)shoal_min(get->size > r->off ? get->size - r->off : 0, r->len + !r->inside);
}

static void count(struct s3_engine *e, const struct s3_request *get)
{
	pthread_mutex_lock(&e->lock);
	e->remote.nr_requests += get->tries;
	e->remote.nr_retries += get->tries > 0 ? get->tries - 1 : 0;
	e->remote.nr_throttled += get->throttled;
	e->remote.bytes += get->nr_bytes;
	if (get->first > get->sent)
		shoal_histogram_add(&e->remote.first_ns, get->first - get->sent);
	if (get->rc == 0)
		shoal_histogram_add(&e->remote.total_ns, get->finished - get->started);
	pthread_mutex_unlock(&e->lock);
}

static void keep_words(struct s3_engine *e, const struct load_request *r,
		       const struct shoal_err *err)
{
	struct said *s;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 0; i < WORDS_KEPT; i++)
		if (e->said[i].buf == r->buf) /* of a request that had the slot before */
			e->said[i].rc = 0;
	s = &e->said[e->nr_said++ % WORDS_KEPT];
	s->buf = r->buf;
	s->rc = (int)r->result;
	s->err = *err;
	pthread_mutex_unlock(&e->lock);
}

static void take_done(struct s3_request *get)
{
	struct flight *f = get->self;
	struct s3_engine *e = f->engine;
	struct load_request *r = f->request;

	r->result = result_of(get, r);
	r->opened = get->first;
	r->finished = get->finished;
	if (r->result < 0)
		keep_words(e, r, &f->err);
	count(e, get);
	f->request = NULL;
	f->next = e->free;
	e->free = f;
	load_push(&e->base.done, r);
}

static void start(struct s3_engine *e, struct flight *f, struct load_request *r)
{
	f->request = r;
	f->get = (struct s3_request){ .method = S3_GET,
				      .key = f->key,
				      .key_len = e->s3->prefix_len + strlen(r->name),
				      .ranged = true,
				      .range_off = r->off,
				      .range_len = r->len ? r->len : 1,
				      .if_match = r->etag ? f->match : NULL,
				      .sink = take_bytes,
				      .again = take_again,
				      .done = take_done,
				      .self = f,
				      .err = &f->err };
	store_s3_key(e->s3, r->name, f->key);
	if (r->etag)
		shoal_etag_print(r->etag, f->match);
	s3_client_submit(e->client, &f->get);
}

static void start_waiting(struct s3_engine *e)
{
	while (e->waiting.head && e->free) {
		struct flight *f = e->free;

		e->free = f->next;
		start(e, f, load_pop(&e->waiting));
	}
}

/* ---- The table ---- */

static void s3_submit(struct load_engine *base, struct load_request *r)
{
	struct s3_engine *e = s3_engine_of(base);

	if (e->s3->prefix_len + strlen(r->name) > S3_KEY_MAX) {
		r->result = -ENAMETOOLONG;
		r->finished = load_now();
		load_push(&base->done, r);
		return;
	}
	load_push(&e->waiting, r);
}

/* By any thread. A kick may be what the client wakes from: the next wait is to know still. */
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
	return drive(e, (unsigned)shoal_min((timeout_us + 999) / 1000, 3600000), err);
}

/* An error of the loop comes again when it is waited for. */
static void s3_kick(struct load_engine *base)
{
	(void)!drive(s3_engine_of(base), 0, NULL);
}

/* Where its own words are gone those of another that failed in the same way will do. */
static int s3_why(const struct load_engine *base, const struct load_request *r,
		  struct shoal_err *err)
{
	struct s3_engine *e = (struct s3_engine *)(uintptr_t)base; /* for its lock */
	const struct said *same = NULL, *own = NULL;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 0; i < WORDS_KEPT && !own; i++) {
		const struct said *s = &e->said[i];

		if (s->rc == 0 || s->rc != r->result)
			continue;
		same = s;
		own = s->buf == r->buf ? s : NULL;
	}
	if (own)
		shoal_say(err, "%s", own->err.msg);
	else if (same)
		shoal_say(err, "cannot read '%.200s', as others: %s", r->name, same->err.msg);
	pthread_mutex_unlock(&e->lock);
	return same ? (int)r->result : 0;
}

static void s3_remote(struct load_engine *base, struct load_remote *ret, bool clear)
{
	struct s3_engine *e = s3_engine_of(base);

	pthread_mutex_lock(&e->lock);
	if (ret)
		*ret = e->remote;
	if (clear) { /* an epoch begins, and slots with it */
		memset(&e->remote, 0, sizeof(e->remote));
		memset(e->said, 0, sizeof(e->said));
	}
	pthread_mutex_unlock(&e->lock);
}

/* Nothing writes into a buffer once the client is gone: no need to wait. */
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
		return shoal_fail(err, -ENOMEM, "out of memory");
	e->base = *base;
	e->base.ops = &s3_ops;
	e->s3 = store_s3_of(base->store);
	pthread_mutex_init(&e->lock, NULL);
	for (unsigned i = base->in_flight; i-- > 0;) {
		e->flight[i].engine = e;
		e->flight[i].next = e->free;
		e->free = &e->flight[i];
	}
	rc = s3_client_new(e->s3->config, base->in_flight, &e->client, err);
	if (rc < 0) {
		s3_free(&e->base);
		return rc;
	}
	snprintf(e->base.detail, sizeof(e->base.detail), "%u connections to %.100s%s%s",
		 s3_client_in_flight(e->client), e->s3->config->endpoint[0].host,
		 e->s3->config->nr_endpoints > 1 ? " and others" : "",
		 s3_client_in_flight(e->client) < base->in_flight
			 ? ", as many as the process may open (ulimit -n)"
			 : "");
	*ret_engine = &e->base;
	return 0;
}
