/*
 * Reads of objects: range GETs in flight, on one event loop or several. The owner drives the first
 * loop. If that takes all of a core, further loops with threads of their own get requests, too:
 * each request goes to the loop that has the fewest, so that a faster loop gets more. The only copy
 * is the one from libcurl's receive buffer to the request's buffer.
 *
 * Further loops cost connections and wake-ups, and gain nothing if the server or the network is the
 * limit.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/queue.h"
#include "load/engine_private.h"
#include "store/s3/s3.h"

/* How many failed requests keep their messages until these are requested: usually ten are printed.
 * */
#define WORDS_KEPT 16u

/* With fewer requests in flight per loop, waking threads costs more than these gain. */
#define LOOPS_MAX      32u
#define LEAST_PER_LOOP 8u

/*
 * How often the owner measures its load. It uses twice as many loops if it spends this share of the
 * time on a core, in 16ths, and one less if the others would then spend no more than the lower one.
 * With one more at a time 16 cores were in use only after most of a second.
 */
#define LOOK_NS   20000000u
#define BUSY_16TH 14u
#define IDLE_16TH 12u

/* A loop that has nothing to do sleeps until it is woken. */
#define LOOP_WAIT_MS 3600000u

/* One GET in flight. */
struct flight {
	struct s3_request get;
	struct load_request *request; /* NULL: free */
	struct flight *next;          /* free, too */
	struct s3_loop *loop;
	struct shoal_err err;
	char key[S3_KEY_MAX + 1];
	char match[SHOAL_ETAG_MAX + 1];
};

/* An event loop. Number 0 is the owner's. */
struct s3_loop {
	struct s3_engine *engine;
	struct s3_client *client; /* used by the loop's thread, or the owner */
	pthread_t thread;         /* not of number 0 */
	struct load_list ended;   /* used by the loop's thread */
	unsigned kept;            /* connections that the client keeps; likewise */
	unsigned active;          /* flights that it has. Used by the owner */
	struct load_list fresh;   /* to be given to it. Used by the owner */
	struct load_list inbox;   /* under the engine's lock */
};

struct kept_error {
	const uint8_t *buf; /* identifies the request: the buffer stays with its slot */
	int rc;
	struct shoal_err err;
};

struct s3_engine {
	struct load_engine base;
	struct store_s3 *s3;
	int woken; /* atomic; set by s3_wake() until the next s3_wait() */
	/* Used by the owner only: */
	struct load_list waiting;     /* for a flight */
	struct flight *free;          /* flights */
	unsigned nr_loops, most;      /* loops that exist, and their limit */
	uint64_t looked_ns, spent_ns; /* the last measurement, and the CPU time used until then */
	/* Changed by the owner under the lock: */
	unsigned used;          /* only the first this many loops get requests */
	unsigned keep;          /* connections that each client shall keep */
	pthread_mutex_t lock;   /* protects everything below, up to the loops */
	struct load_list ended; /* of other loops than the owner's */
	bool waits;             /* the owner may be asleep in its loop */
	bool stop;
	int rc; /* the error of a loop */
	struct shoal_err err;
	struct kept_error kept[WORDS_KEPT];
	unsigned nr_kept;
	struct load_remote remote;
	struct s3_loop loop[LOOPS_MAX];
	struct flight flight[];
};

static struct s3_engine *s3_engine_of(struct load_engine *e)
{
	return (struct s3_engine *)e;
}

/* The flight of a request that has one. */
static struct flight *flight_of(struct s3_engine *e, const struct load_request *r)
{
	return &e->flight[r->state];
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
	const struct flight *f = get->self;

	pthread_mutex_lock(&e->lock);
	e->remote.nr_requests += get->tries;
	e->remote.loops += (uint64_t)get->tries * e->used;
	e->remote.nr_other += f->loop == &e->loop[0] ? 0 : get->tries;
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

/* On the thread of the loop. */
static void s3_engine_done(struct s3_request *get)
{
	struct flight *f = get->self;
	struct s3_engine *e = f->loop->engine;
	struct load_request *r = f->request;

	r->result = result_of(get, r);
	r->opened = get->first;
	r->finished = get->finished;
	if (r->result < 0)
		keep_words(e, r, &f->err);
	s3_engine_count(e, get);
	load_push(&f->loop->ended, r);
}

/* On the thread of the loop. */
static void s3_engine_start(struct flight *f)
{
	const struct load_request *r = f->request;

	f->get = (struct s3_request){ .method = S3_GET,
				      .key = f->key,
				      .key_len = store_s3_key(f->loop->engine->s3, r->name, f->key),
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
	s3_client_submit(f->loop->client, &f->get);
}

/* ---- Further loops ---- */

/* Under the lock: as many connections as are in flight per loop, and some more because loops are
 * not equally fast. */
static void set_keep(struct s3_engine *e)
{
	e->keep = e->base.in_flight / e->used + e->base.in_flight / (2 * e->used) + 1;
}

/* Called by the thread of the loop. */
static void loop_keep(struct s3_loop *l, unsigned keep)
{
	if (l->kept == keep)
		return;
	l->kept = keep;
	s3_client_keep(l->client, keep);
}

/* Start the requests that the owner has given to the loop. False at the end. */
static bool loop_begin(struct s3_loop *l)
{
	struct s3_engine *e = l->engine;
	struct load_list mine = { NULL, NULL };
	struct load_request *r;
	unsigned keep;
	bool stop;

	pthread_mutex_lock(&e->lock);
	load_splice(&mine, &l->inbox);
	keep = e->keep;
	stop = e->stop;
	pthread_mutex_unlock(&e->lock);
	if (stop)
		return false;
	loop_keep(l, keep);
	while ((r = load_pop(&mine)) != NULL)
		s3_engine_start(flight_of(e, r));
	return true;
}

/* Return what has ended to the owner. */
static void loop_return(struct s3_loop *l, int rc, const struct shoal_err *err)
{
	struct s3_engine *e = l->engine;
	bool wake;

	pthread_mutex_lock(&e->lock);
	load_splice(&e->ended, &l->ended);
	if (rc < 0 && e->rc == 0) {
		e->rc = rc;
		e->err = *err;
	}
	wake = e->waits && (e->ended.head || e->rc < 0);
	e->waits &= !wake;
	pthread_mutex_unlock(&e->lock);
	if (wake)
		s3_client_wake(e->loop[0].client);
}

static void *run_loop(void *arg)
{
	struct s3_loop *l = arg;
	struct shoal_err err = { "" };
	int rc = 0;

	while (rc == 0 && loop_begin(l)) {
		rc = s3_client_run(l->client, LOOP_WAIT_MS, &err);
		loop_return(l, rc, &err);
	}
	return NULL;
}

/* If no thread can be started, the loops that exist go on, and this is not tried again. */
static bool add_loop(struct s3_engine *e)
{
	struct s3_loop *l = &e->loop[e->nr_loops];

	*l = (struct s3_loop){ .engine = e };
	if (s3_client_new(store_s3_config(e->s3), e->base.in_flight, &l->client, NULL) < 0) {
		e->most = e->nr_loops;
		return false;
	}
	if (thread_start(&l->thread, run_loop, l) < 0) {
		l->client = s3_client_free(l->client);
		e->most = e->nr_loops;
		return false;
	}
	e->nr_loops++;
	return true;
}

static void use_loops(struct s3_engine *e, unsigned nr)
{
	while (e->nr_loops < nr && add_loop(e))
		;
	pthread_mutex_lock(&e->lock);
	e->used = (unsigned)u64_min(nr, e->nr_loops);
	set_keep(e);
	pthread_mutex_unlock(&e->lock);
}

/* From time to time: use twice as many loops if the owner's core is fully used, or one less if that
 * leaves the others some time. */
static void s3_check_load(struct s3_engine *e)
{
	uint64_t now, passed, spent, used = e->used;

	if (used == e->most && (used == 1 || store_s3_config(e->s3)->loops))
		return;
	if (store_s3_config(e->s3)->loops) {
		use_loops(e, e->most);
		return;
	}
	now = clock_now();
	passed = now - e->looked_ns;
	if (passed < LOOK_NS)
		return;
	spent = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (spent - e->spent_ns > passed / 16 * BUSY_16TH && used < e->most)
		use_loops(e, (unsigned)u64_min(2 * used, e->most));
	else if (used > 1 && (spent - e->spent_ns) * used < passed / 16 * IDLE_16TH * (used - 1))
		use_loops(e, e->used - 1);
	e->looked_ns = now;
	e->spent_ns = spent;
}

/* ---- Dealing requests to loops ---- */

static struct s3_loop *emptiest_loop(struct s3_engine *e)
{
	struct s3_loop *least = &e->loop[0];

	for (unsigned i = 1; i < e->used; i++)
		if (e->loop[i].active < least->active)
			least = &e->loop[i];
	return least;
}

/* Give other loops than the owner's their requests, and wake those that had none to begin. */
static void give_fresh(struct s3_engine *e)
{
	unsigned wake = 0;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 1; i < e->nr_loops; i++) {
		struct s3_loop *l = &e->loop[i];

		wake |= (unsigned)(l->fresh.head && !l->inbox.head) << i;
		load_splice(&l->inbox, &l->fresh);
	}
	pthread_mutex_unlock(&e->lock);
	for (unsigned i = 1; i < e->nr_loops; i++)
		if (wake & 1u << i)
			s3_client_wake(e->loop[i].client);
}

static void deal(struct s3_engine *e)
{
	bool others = false;

	while (e->waiting.head && e->free) {
		struct s3_loop *l = emptiest_loop(e);
		struct flight *f = e->free;

		e->free = f->next;
		f->request = load_pop(&e->waiting);
		f->request->state = (uint32_t)(f - e->flight);
		f->loop = l;
		l->active++;
		if (l == &e->loop[0]) {
			s3_engine_start(f);
		} else {
			load_push(&l->fresh, f->request);
			others = true;
		}
	}
	if (others)
		give_fresh(e);
}

static void free_flight(struct s3_engine *e, struct flight *f)
{
	f->request = NULL;
	f->next = e->free;
	e->free = f;
}

static void take_back(struct s3_engine *e, struct load_list *ended)
{
	for (struct load_request *r = ended->head; r; r = r->next) {
		flight_of(e, r)->loop->active--;
		free_flight(e, flight_of(e, r));
	}
	load_splice(&e->base.done, ended);
}

/* Collect what other loops have read. @waits: the owner may sleep now, if there is nothing. */
static int s3_collect(struct s3_engine *e, bool waits, struct shoal_err *err)
{
	struct load_list ended = { NULL, NULL };
	int rc;

	if (e->nr_loops == 1)
		return 0;
	pthread_mutex_lock(&e->lock);
	load_splice(&ended, &e->ended);
	e->waits = waits && !ended.head && !e->base.done.head;
	rc = e->rc < 0 ? err_set_as(err, e->rc, &e->err, "%s", e->err.msg) : 0;
	pthread_mutex_unlock(&e->lock);
	take_back(e, &ended);
	return rc;
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
	s3_client_wake(e->loop[0].client);
}

static int drive(struct s3_engine *e, unsigned timeout_ms, struct shoal_err *err)
{
	struct s3_loop *own = &e->loop[0];
	int rc;

	deal(e);
	rc = s3_collect(e, timeout_ms > 0, err);
	if (rc == 0)
		rc = s3_client_run(own->client, e->base.done.head ? 0 : timeout_ms, err);
	take_back(e, &own->ended);
	if (rc == 0)
		rc = s3_collect(e, /* waits= */ false, err);
	deal(e);
	return rc;
}

static int s3_wait(struct load_engine *base, uint64_t timeout_us, struct shoal_err *err)
{
	struct s3_engine *e = s3_engine_of(base);
	int rc;

	if (__atomic_exchange_n(&e->woken, 0, __ATOMIC_SEQ_CST))
		timeout_us = 0;
	s3_check_load(e);
	loop_keep(&e->loop[0], e->keep); /* without the lock: only the owner changes it */
	rc = drive(e, (unsigned)u64_min((timeout_us + 999) / 1000, 3600000), err);
	return base->done.head ? 0 : rc;
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

/* Nothing writes into a buffer once its client is freed: no need to wait for requests. */
static void s3_free(struct load_engine *base)
{
	struct s3_engine *e = s3_engine_of(base);

	pthread_mutex_lock(&e->lock);
	e->stop = true;
	pthread_mutex_unlock(&e->lock);
	for (unsigned i = 1; i < e->nr_loops; i++)
		s3_client_wake(e->loop[i].client);
	for (unsigned i = 1; i < e->nr_loops; i++)
		pthread_join(e->loop[i].thread, NULL);
	for (unsigned i = 0; i < e->nr_loops; i++)
		s3_client_free(e->loop[i].client);
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

/*
 * As many loops as the setting says or, if it says nothing, at most one per core. While requests
 * move from one loop to another, twice as many connections may be open as are in flight.
 */
static unsigned most_loops(const struct s3_engine *e)
{
	unsigned in_flight = e->base.in_flight, fixed = store_s3_config(e->s3)->loops;
	uint64_t most = fixed ? fixed : u64_min(cores_available(), in_flight / LEAST_PER_LOOP);

	if (s3_client_limit(2 * in_flight) < 2 * in_flight)
		return 1;
	return (unsigned)u64_max(1, u64_min(u64_min(most, in_flight), LOOPS_MAX));
}

static void s3_describe(struct s3_engine *e, unsigned in_flight)
{
	const struct s3_config *config = store_s3_config(e->s3);

	snprintf(e->base.detail, sizeof(e->base.detail), "%u connections to %.100s%s%s", in_flight,
		 config->endpoint[0].host, config->nr_endpoints > 1 ? " and others" : "",
		 in_flight < e->base.in_flight ? ", as many as the process may open (ulimit -n)"
					       : "");
}

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
	for (unsigned i = 0; i < base->in_flight; i++)
		free_flight(e, &e->flight[i]);
	e->loop[0].engine = e;
	rc = s3_client_new(store_s3_config(e->s3), base->in_flight, &e->loop[0].client, err);
	if (rc < 0) {
		s3_free(&e->base);
		return rc;
	}
	s3_describe(e, s3_client_in_flight(e->loop[0].client));
	e->nr_loops = e->used = 1;
	e->most = most_loops(e);
	e->looked_ns = clock_now();
	set_keep(e);
	*ret_engine = &e->base;
	return 0;
}
