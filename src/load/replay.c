#include "load/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/map.h"
#include "comm/compare.h"

#define WAIT_US       100000u /* between looks at the stop */
#define IN_FLIGHT_MAX LOAD_IN_FLIGHT_MAX
#define REAPED        64u
#define OP_BYTES_MAX  (UINT64_C(1) << 30)

/* An operation to replay: 48 bytes per operation of the log, besides the map of the log. */
struct replay_op {
	uint64_t start, end, off, len;
	uint64_t result;
	const char *name;
};

struct replay_slot {
	struct load_request request; /* first member: the engine returns this */
	const struct replay_op *op;
	struct replay_slot *next;
};

struct replay {
	const struct replay_options *o;
	struct replay_result *r;
	struct map map;
	struct replay_op *ops;
	size_t nr, cap;
	uint64_t longest; /* bytes of an operation */
	struct store *store;
	struct load_engine *engine;
	struct replay_slot *slots, *unused;
	uint8_t *pool;
	uint64_t begun; /* clock_now() */
};

/* ---- The operations ---- */

static int replay_take_op(void *self, const struct oplog_op *op)
{
	struct replay *p = self;
	const struct comm_place *place = comm_place(p->o->comm);
	struct replay_op *more;

	if (op->rank % (uint32_t)place->size != (uint32_t)place->rank)
		return 0;
	p->r->nr_recorded_errors += op->result < 0;
	if (op->result < 0)
		return 0;
	if (p->nr == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 1024;
		more = reallocarray(p->ops, p->cap, sizeof(*more));
		if (!more)
			return -ENOMEM;
		p->ops = more;
	}
	p->ops[p->nr++] = (struct replay_op){ .start = op->start,
					      .end = op->start + op->duration,
					      .off = op->off,
					      .len = op->len,
					      .result = (uint64_t)op->result,
					      .name = op->name };
	p->longest = u64_max(p->longest, op->len);
	histogram_add(&p->r->recorded_latency, op->duration);
	return 0;
}

static int compare_ops(const void *a, const void *b)
{
	const struct replay_op *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The most operations that were in flight at once, and when the last one ended. -ENOMEM. */
static int count_in_flight(const struct replay *p, uint64_t *ret_most, uint64_t *ret_last)
{
	uint64_t *ends = malloc((p->nr + 1) * sizeof(*ends)); /* 8 bytes per operation */
	size_t ended = 0;

	*ret_most = 1;
	*ret_last = 0;
	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < p->nr; i++)
		ends[i] = p->ops[i].end;
	qsort(ends, p->nr, sizeof(*ends), compare_times);
	for (size_t i = 0; i < p->nr; i++) {
		while (ended < i && ends[ended] <= p->ops[i].start)
			ended++;
		*ret_most = u64_max(*ret_most, i + 1 - ended);
	}
	*ret_last = p->nr > 0 ? ends[p->nr - 1] : 0;
	free(ends);
	return 0;
}

static int read_log(struct replay *p, const char *path, struct shoal_err *err)
{
	int rc = map_open(path, &p->map, err);

	if (rc == 0)
		rc = oplog_read(p->map.addr, p->map.len, replay_take_op, p, &p->r->log, err);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (rc == 0 && map_faulted(&p->map))
		return err_set(err, -ESTALE, "the log is being truncated");
	if (rc == 0 && p->longest > OP_BYTES_MAX)
		return err_set(err, -EBADMSG, "an operation of the log reads more than 1 GiB");
	if (rc == 0 && p->nr > 0)
		qsort(p->ops, p->nr, sizeof(*p->ops), compare_ops);
	return rc;
}

/* ---- The engine ---- */

static int make_slots(struct replay *p, unsigned nr, struct shoal_err *err)
{
	uint64_t one = load_cap(LOAD_ALIGN - 1, p->longest);
	void *pool = NULL;

	p->slots = calloc(nr, sizeof(*p->slots));
	if (!p->slots || posix_memalign(&pool, LOAD_ALIGN, (size_t)one * nr) != 0)
		return err_set_hint(err, -ENOMEM, SHOAL_HINT_LESS_MEMORY,
				    "no memory for the buffers of %u operations", nr);
	p->pool = pool;
	for (unsigned i = 0; i < nr; i++) {
		struct replay_slot *s = &p->slots[i];

		s->request.buf = p->pool + (size_t)one * i;
		s->request.cap = (size_t)one;
		s->next = p->unused;
		p->unused = s;
	}
	return 0;
}

static int replay_open_engine(struct replay *p, struct shoal_err *err)
{
	uint64_t one = load_cap(LOAD_ALIGN - 1, p->longest), nr = p->o->in_flight, last;
	struct load_engine_options e = { .kind = p->o->engine, .direct = p->o->direct };
	const char *store = p->o->store ? p->o->store : p->r->log.root;
	int rc = count_in_flight(p, nr ? &last : &nr, &last);

	if (rc < 0)
		return err_set(err, rc, "out of memory");
	nr = u64_min(u64_min(nr, IN_FLIGHT_MAX), u64_max(p->o->memory / one, 1));
	p->r->in_flight = nr;
	rc = make_slots(p, (unsigned)nr, err);
	if (rc == 0)
		rc = store_open(store, p->o->config, &p->store, err);
	if (rc < 0)
		return rc;
	e.store = p->store;
	e.in_flight = (unsigned)nr;
	e.pool = p->pool;
	e.pool_len = (size_t)(one * nr);
	rc = load_engine_new(&e, &p->engine, err);
	if (rc == 0)
		snprintf(p->r->engine, sizeof(p->r->engine), "%s", load_engine_name(p->engine));
	return rc;
}

/* ---- Replaying ---- */

static void submit_op(struct replay *p, const struct replay_op *op, uint64_t now, uint64_t due)
{
	struct replay_slot *s = p->unused;

	p->unused = s->next;
	s->op = op;
	s->request.name = op->name;
	s->request.off = op->off;
	s->request.len = op->len;
	s->request.inside = true; /* a file may have grown: that does not matter here */
	if (!p->o->fast)
		histogram_add(&p->r->late, now > due ? now - due : 0);
	load_engine_submit(p->engine, &s->request);
}

static void finish_op(struct replay *p, struct replay_slot *s)
{
	const struct load_request *q = &s->request;
	struct replay_result *r = p->r;
	struct shoal_err why = { "" };

	s->next = p->unused;
	p->unused = s;
	if (q->result < 0) {
		if (r->nr_errors++ == 0) {
			err_set_errno(&why, (int)q->result, "'%.200s'", q->name);
			snprintf(r->first_error, sizeof(r->first_error), "%.299s", why.msg);
		}
		return;
	}
	r->nr++;
	r->bytes += (uint64_t)q->result;
	r->nr_differ += (uint64_t)q->result != s->op->result;
	histogram_add(&r->latency, q->finished - q->started);
}

static uint64_t due_at(const struct replay *p, size_t i)
{
	return p->o->fast ? 0 : p->begun + p->ops[i].start;
}

/* Until the next operation is due, or something has completed. */
static int replay_wait(struct replay *p, size_t next, struct shoal_err *err)
{
	uint64_t now = clock_now(), us = WAIT_US;
	struct load_request *done[REAPED];
	int nr;

	if (next < p->nr && p->unused) {
		uint64_t due = due_at(p, next);

		us = due > now ? u64_min((due - now) / 1000 + 1, WAIT_US) : 0;
	}
	if (load_engine_pending(p->engine) == 0) {
		struct timespec t = { .tv_nsec = (long)(us * 1000) };

		nanosleep(&t, NULL);
		return 0;
	}
	nr = load_engine_reap(p->engine, done, REAPED, us, err);
	for (int i = 0; i < nr; i++)
		finish_op(p, (struct replay_slot *)(void *)done[i]);
	return nr < 0 ? nr : 0;
}

static int replay_ops(struct replay *p, struct shoal_err *err)
{
	size_t next = 0;
	int rc = 0;

	p->begun = clock_now();
	while (rc == 0 && (next < p->nr || load_engine_pending(p->engine) > 0)) {
		uint64_t now = clock_now();
		bool any = false;

		if (stop_requested(p->o->stop)) {
			p->r->interrupted |= next < p->nr;
			next = p->nr;
		}
		while (next < p->nr && p->unused && due_at(p, next) <= now) {
			submit_op(p, &p->ops[next], now, due_at(p, next));
			next++;
			any = true;
		}
		if (any)
			load_engine_kick(p->engine);
		rc = replay_wait(p, next, err);
		if (p->o->progress)
			p->o->progress(p->o->self, p->r->nr + p->r->nr_errors, p->nr, p->r->bytes);
	}
	p->r->seconds = (double)(clock_now() - p->begun) * 1e-9;
	return rc;
}

/* ---- All ranks ---- */

static int sum_up_ranks(struct replay *p, struct shoal_err *err)
{
	struct replay_result *r = p->r;
	uint64_t sums[] = { r->nr, r->bytes, r->nr_recorded_errors, r->nr_errors, r->nr_differ };
	uint64_t most[] = { r->in_flight, (uint64_t)(r->seconds * 1e9),
			    (uint64_t)(r->recorded_seconds * 1e9), r->interrupted };
	struct histogram *h[] = { &r->latency, &r->recorded_latency, &r->late };
	int rc = comm_reduce(p->o->comm, COMM_SUM, sums, ARRAY_LEN(sums), err);

	if (rc == 0)
		rc = comm_reduce(p->o->comm, COMM_MAX, most, ARRAY_LEN(most), err);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(h); i++)
		rc = comm_reduce(p->o->comm, COMM_SUM, h[i]->count, HISTOGRAM_PLACES, err);
	r->nr = sums[0];
	r->bytes = sums[1];
	r->nr_recorded_errors = sums[2];
	r->nr_errors = sums[3];
	r->nr_differ = sums[4];
	r->in_flight = most[0];
	r->seconds = (double)most[1] * 1e-9;
	r->recorded_seconds = (double)most[2] * 1e-9;
	r->interrupted = most[3];
	return rc;
}

/* Collective: all ranks have the same log, and read in the same way. */
static int replay_compare_ranks(const struct replay *p, struct shoal_err *err)
{
	const struct replay_options *o = p->o;
	char text[1000];

	if (comm_place(o->comm)->size == 1)
		return 0;
	snprintf(text, sizeof(text),
		 "log: %016" PRIx64 " of %zu bytes\nfast: %d\nstore: %.600s\nengine: %d\n"
		 "direct: %d\nin-flight: %u\nmemory: %" PRIu64 "\n",
		 (uint64_t)XXH3_64bits(p->map.addr, p->map.len), p->map.len, o->fast,
		 o->store ? o->store : "that of the log", (int)o->engine, o->direct, o->in_flight,
		 o->memory);
	return comm_compare(o->comm, text, err);
}

/* Ranks start together, and the first operations of all are at the recorded distance. */
static int begin_together(struct replay *p, struct shoal_err *err)
{
	uint64_t first = p->nr > 0 ? p->ops[0].start : UINT64_MAX, most, last = 0;
	int rc = count_in_flight(p, &most, &last);

	if (rc < 0) {
		err_set(err, rc, "out of memory");
		comm_fail(p->o->comm, err);
		return rc;
	}
	rc = comm_reduce(p->o->comm, COMM_MIN, &first, 1, err);
	if (rc < 0)
		return rc;
	p->r->recorded_seconds = p->nr > 0 ? (double)(last - first) * 1e-9 : 0;
	for (size_t i = 0; i < p->nr; i++)
		p->ops[i].start -= first;
	return 0;
}

static int replay_prepare(struct replay *p, const char *path, struct shoal_err *err)
{
	int rc = read_log(p, path, err);

	if (rc == 0)
		rc = replay_open_engine(p, err);
	if (rc < 0) {
		comm_fail(p->o->comm, err);
		return rc;
	}
	rc = replay_compare_ranks(p, err);
	return rc < 0 ? rc : begin_together(p, err);
}

int replay_run(const char *path, const struct replay_options *o, struct replay_result *ret,
	       struct shoal_err *err)
{
	struct replay p = { .o = o, .r = ret, .map = MAP_CLOSED };
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = replay_prepare(&p, path, err);
	if (rc == 0) {
		rc = replay_ops(&p, err);
		if (rc < 0)
			comm_fail(o->comm, err);
		else
			rc = sum_up_ranks(&p, err);
	}
	load_engine_free(p.engine);
	store_close(p.store);
	free(p.slots);
	free(p.pool);
	free(p.ops);
	map_close(&p.map);
	return rc;
}
