#include "thread_transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct thread_request {
	struct thread_request *next; /* among those posted */
	void *buf;
	size_t cap, len;
	int from, tag;
	bool done, truncated;
};

struct thread_message {
	struct thread_message *next;
	struct thread_request *sender; /* to be told; NULL when it was told at once */
	int from, tag;
	size_t len;
	char bytes[];
};

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

void thread_world_init(struct thread_world *w, int size, int per_node, size_t eager)
{
	*w = (struct thread_world){
		.size = size, .per_node = per_node, .eager = eager, .fail_sends_to = -1
	};
	pthread_mutex_init(&w->lock, NULL);
	for (int i = 0; i < size; i++)
		w->rank[i] = (struct thread_rank){ .world = w, .rank = i };
}

void thread_world_release(struct thread_world *w)
{
	for (int i = 0; i < w->size; i++)
		while (w->rank[i].come) {
			struct thread_message *m = w->rank[i].come;

			w->rank[i].come = m->next;
			free(m->sender);
			free(m);
		}
	pthread_mutex_destroy(&w->lock);
}

static int start(void *self, struct comm_world *ret_world)
{
	const struct thread_rank *r = self;

	*ret_world = (struct comm_world){ .rank = r->rank,
					  .size = r->world->size,
					  .node_leader = r->rank - r->rank % r->world->per_node };
	snprintf(ret_world->name, sizeof(ret_world->name), "threads");
	return 0;
}

static void deliver(struct thread_request *into, const void *bytes, size_t len)
{
	into->truncated = len > into->cap;
	into->len = into->truncated ? into->cap : len;
	memcpy(into->buf, bytes, into->len);
	into->done = true;
}

static void set_request(struct comm_request *ret, struct thread_request *req)
{
	memcpy(ret->opaque, &req, sizeof(req));
}

static struct thread_request *get_request(const struct comm_request *r)
{
	struct thread_request *req;

	memcpy(&req, r->opaque, sizeof(req));
	return req;
}

/* With the lock. */
static void leave(struct thread_rank *to, int from, int tag, const void *buf, size_t len,
		  struct thread_request *req)
{
	struct thread_message *m = must(malloc(sizeof(*m) + len + 1)), **at;
	struct thread_world *w = to->world;

	*m = (struct thread_message){ .from = from, .tag = tag, .len = len };
	memcpy(m->bytes, buf, len);
	if (len <= w->eager)
		req->done = true;
	else
		m->sender = req;
	for (at = &to->come; *at; at = &(*at)->next)
		;
	*at = m;
	w->waiting += len;
	if (w->waiting > w->waiting_max)
		w->waiting_max = w->waiting;
}

static int isend(void *self, const void *buf, size_t len, int to, int tag,
		 struct comm_request *ret_req)
{
	struct thread_rank *me = self, *other = &me->world->rank[to];
	struct thread_request *req, **at;
	int rc = 0;

	pthread_mutex_lock(&me->world->lock);
	if (me->world->fail_sends_to == to) {
		rc = -EIO;
		goto out;
	}
	req = must(calloc(1, sizeof(*req)));
	for (at = &other->posted; *at; at = &(*at)->next)
		if ((*at)->from == me->rank && (*at)->tag == tag)
			break;
	if (*at) {
		struct thread_request *into = *at;

		*at = into->next;
		deliver(into, buf, len);
		req->done = true;
	} else {
		leave(other, me->rank, tag, buf, len, req);
	}
	set_request(ret_req, req);
out:
	pthread_mutex_unlock(&me->world->lock);
	return rc;
}

static int irecv(void *self, void *buf, size_t len, int from, int tag, struct comm_request *ret_req)
{
	struct thread_rank *me = self;
	struct thread_request *req = must(calloc(1, sizeof(*req))), **end;
	struct thread_message **at;

	*req = (struct thread_request){ .buf = buf, .cap = len, .from = from, .tag = tag };
	pthread_mutex_lock(&me->world->lock);
	for (at = &me->come; *at; at = &(*at)->next)
		if ((*at)->from == from && (*at)->tag == tag)
			break;
	if (*at) {
		struct thread_message *m = *at;

		*at = m->next;
		deliver(req, m->bytes, m->len);
		me->world->waiting -= m->len;
		if (m->sender)
			m->sender->done = true;
		free(m);
	} else {
		for (end = &me->posted; *end; end = &(*end)->next)
			;
		*end = req;
	}
	set_request(ret_req, req);
	pthread_mutex_unlock(&me->world->lock);
	return 0;
}

static int test(void *self, struct comm_request *r, size_t *ret_len)
{
	struct thread_rank *me = self;
	struct thread_request *req = get_request(r);
	int rc = 0;

	pthread_mutex_lock(&me->world->lock);
	if (req->done) {
		*ret_len = req->len;
		rc = req->truncated ? -EMSGSIZE : 1;
		free(req);
	}
	pthread_mutex_unlock(&me->world->lock);
	return rc;
}

static bool cancel(void *self, struct comm_request *r)
{
	struct thread_rank *me = self;
	struct thread_request *req = get_request(r), **at;

	pthread_mutex_lock(&me->world->lock);
	for (at = &me->posted; *at; at = &(*at)->next)
		if (*at == req) {
			*at = req->next;
			break;
		}
	for (int i = 0; i < me->world->size; i++)
		for (struct thread_message *m = me->world->rank[i].come; m; m = m->next)
			if (m->sender == req) {
				m->sender = NULL;
				me->world->cut_sends++;
			}
	free(req);
	pthread_mutex_unlock(&me->world->lock);
	return true;
}

static int iprobe(void *self, int tag, int *ret_from, size_t *ret_len)
{
	struct thread_rank *me = self;
	int found = 0;

	pthread_mutex_lock(&me->world->lock);
	for (const struct thread_message *m = me->come; m && !found; m = m->next)
		if (m->tag == tag) {
			*ret_from = m->from;
			*ret_len = m->len;
			found = 1;
		}
	if (me->world->aborted)
		found = -ECONNABORTED; /* under MPI this rank would be dead by now */
	pthread_mutex_unlock(&me->world->lock);
	return found;
}

static const char *words(void *self)
{
	(void)self;
	return "the thread transport has words too";
}

static void end_all(void *self, int code)
{
	struct thread_rank *me = self;

	pthread_mutex_lock(&me->world->lock);
	__atomic_store_n(&me->world->aborted, code,
			 __ATOMIC_RELAXED); /* read without the lock, too */
	pthread_mutex_unlock(&me->world->lock);
}

static void stop(void *self)
{
	struct thread_rank *me = self;

	pthread_mutex_lock(&me->world->lock);
	me->stopped = true;
	pthread_mutex_unlock(&me->world->lock);
}

const struct comm_transport thread_transport = {
	.version = COMM_TRANSPORT_VERSION,
	.start = start,
	.isend = isend,
	.irecv = irecv,
	.test = test,
	.cancel = cancel,
	.iprobe = iprobe,
	.words = words,
	.abort = end_all,
	.stop = stop,
};
