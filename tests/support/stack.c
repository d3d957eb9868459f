#include "stack.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct stack {
	struct store base;
	struct store *inner;
	/* Before the call: an error ends it; a read returns *ret_short fewer bytes. */
	int (*before)(struct stack *st, enum store_op op, size_t *ret_short, struct shoal_err *err);
	uint64_t delay_us;
	atomic_uint_least64_t calls[STORE_NR_OPS]; /* atomic */
	atomic_uint_least64_t fired;               /* atomic */
	size_t nr_faults;
	struct store_fault fault[];
};

struct stack_writer {
	struct store_writer base;
	struct store_writer *inner;
};

static struct stack *stack_of(struct store *s)
{
	return (struct stack *)s;
}

/* ---- Forwarding ---- */

static void stack_close(struct store *s)
{
	struct stack *st = stack_of(s);

	store_close(st->inner);
	free(s->uri);
	free(st);
}

static int stack_stat(struct store *s, const char *name, struct store_stat *ret_stat,
		      struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	int rc = st->before(st, STORE_STAT, NULL, err);

	return rc < 0 ? rc : store_stat(st->inner, name, ret_stat, err);
}

static int64_t stack_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			  struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	size_t short_by = 0;
	int64_t n = st->before(st, STORE_READ, &short_by, err);

	if (n < 0)
		return n;
	n = store_read(st->inner, name, off, buf, len, err);
	return n <= 0 ? n : (int64_t)((uint64_t)n - u64_min((uint64_t)n, short_by));
}

static int64_t stack_read_if(struct store *s, const char *name, const struct etag *etag,
			     uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	size_t short_by = 0;
	int64_t n = st->before(st, STORE_READ, &short_by, err);

	if (n < 0)
		return n;
	n = store_read_if(st->inner, name, etag, off, buf, len, err);
	return n <= 0 ? n : (int64_t)((uint64_t)n - u64_min((uint64_t)n, short_by));
}

static int stack_examine(struct store *s, const char *name, const int *stop,
			 struct store_object *ret_object, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	int rc = st->before(st, STORE_STAT, NULL, err);

	return rc < 0 ? rc : store_examine(st->inner, name, stop, ret_object, err);
}

static int stack_fetch(struct store *s, const char *name, const struct store_object *object, int fd,
		       const int *stop, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	struct store_object expected = *object;
	size_t short_by = 0;
	int rc = st->before(st, STORE_READ, &short_by, err);

	expected.size += short_by; /* the store below has fewer bytes than that */
	return rc < 0 ? rc : store_fetch(st->inner, name, &expected, fd, stop, err);
}

static int stack_create(struct store *s, const char *name, struct store_writer **ret_writer,
			struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	struct stack_writer *w;
	int rc = st->before(st, STORE_CREATE, NULL, err);

	if (rc < 0)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	rc = store_create(st->inner, name, &w->inner, err);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->base.store = s;
	*ret_writer = &w->base;
	return 0;
}

static int stack_write(struct store_writer *w, const void *data, size_t len, struct shoal_err *err)
{
	struct stack *st = stack_of(w->store);
	int rc = st->before(st, STORE_WRITE, NULL, err);

	return rc < 0 ? rc : store_write(((struct stack_writer *)w)->inner, data, len, err);
}

static void stack_abort(struct store_writer *w)
{
	struct stack_writer *mine = (struct stack_writer *)w;

	store_abort(mine->inner);
	free(mine);
}

static int stack_commit(struct store_writer *w, struct shoal_err *err)
{
	struct stack *st = stack_of(w->store);
	struct stack_writer *mine = (struct stack_writer *)w;
	int rc = st->before(st, STORE_COMMIT, NULL, err);

	if (rc < 0) {
		stack_abort(w);
		return rc;
	}
	rc = store_commit(mine->inner, err);
	free(mine);
	return rc;
}

static int stack_remove(struct store *s, const char *name, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	int rc = st->before(st, STORE_REMOVE, NULL, err);

	return rc < 0 ? rc : store_remove(st->inner, name, err);
}

static int stack_sync(struct store *s, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	int rc = st->before(st, STORE_SYNC, NULL, err);

	return rc < 0 ? rc : store_sync(st->inner, err);
}

static int stack_space(struct store *s, struct store_space *ret_space, struct shoal_err *err)
{
	return store_space(stack_of(s)->inner, ret_space, err);
}

static size_t stack_unit(struct store *s, const char *name, size_t len, void *unit)
{
	return store_unit(stack_of(s)->inner, name, len, unit);
}

static bool stack_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			     size_t *ret_len)
{
	return store_unit_start(stack_of(s)->inner, unit, len, ret_name, ret_len);
}

static bool stack_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
			   size_t *ret_len)
{
	return store_unit_end(stack_of(s)->inner, unit, len, ret_name, ret_len);
}

static size_t stack_interval(struct store *s, const char *after, size_t after_len, const char *upto,
			     size_t upto_len, void *unit)
{
	return store_interval(stack_of(s)->inner, after, after_len, upto, upto_len, unit);
}

static int stack_shard(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		       size_t *ret_len, struct shoal_err *err)
{
	return store_shard(stack_of(s)->inner, k, n, stop, unit, ret_len, err);
}

static void stack_requests(struct store *s, struct store_requests *ret_requests)
{
	*ret_requests = store_requests(stack_of(s)->inner);
}

static int stack_list(struct store *s, const struct store_list_options *options, const void *unit,
		      size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct stack *st = stack_of(s);
	int rc = st->before(st, STORE_LIST, NULL, err);

	return rc < 0 ? rc : store_list(st->inner, options, unit, len, sink, err);
}

#define STACK_OPS(name)                                                                       \
	{                                                                                     \
		.kind = (name), .close = stack_close, .stat = stack_stat, .read = stack_read, \
		.create = stack_create, .write = stack_write, .commit = stack_commit,         \
		.abort = stack_abort, .remove = stack_remove, .sync = stack_sync,             \
		.space = stack_space, .unit = stack_unit, .unit_start = stack_unit_start,     \
		.list = stack_list, .read_if = stack_read_if, .shard = stack_shard,           \
		.unit_end = stack_unit_end, .interval = stack_interval,                       \
		.requests = stack_requests, .examine = stack_examine, .fetch = stack_fetch,   \
	}

static const struct store_ops fault_ops = STACK_OPS("fault");
static const struct store_ops delay_ops = STACK_OPS("delay");

static struct stack *stack_new(struct store *inner, const struct store_ops *ops, size_t nr_faults)
{
	struct stack *st = calloc(1, sizeof(*st) + nr_faults * sizeof(st->fault[0]));
	char *uri = strdup(inner->uri);

	if (!st || !uri) {
		free(st);
		free(uri);
		return NULL;
	}
	st->base = (struct store){ .ops = ops, .traits = inner->traits, .uri = uri };
	st->inner = inner;
	st->nr_faults = nr_faults;
	return st;
}

/* ---- Fault ---- */

static const char *const op_name[STORE_NR_OPS] = {
	[STORE_STAT] = "stat",   [STORE_READ] = "read",     [STORE_CREATE] = "create",
	[STORE_WRITE] = "write", [STORE_COMMIT] = "commit", [STORE_REMOVE] = "remove",
	[STORE_SYNC] = "sync",   [STORE_LIST] = "listing",
};

static int fault_before(struct stack *st, enum store_op op, size_t *ret_short,
			struct shoal_err *err)
{
	uint64_t call = atomic_fetch_add(&st->calls[op], 1) + 1;

	for (size_t i = 0; i < st->nr_faults; i++) {
		const struct store_fault *f = &st->fault[i];

		if (f->op != op || call < f->nth || (f->count && call - f->nth >= f->count))
			continue;
		atomic_fetch_add(&st->fired, 1);
		if (f->rc < 0)
			return err_set_errno(err, f->rc, "%s number %" PRIu64 " fails on purpose",
					     op_name[op], call);
		*ret_short = f->short_by;
		break;
	}
	return 0;
}

int store_fault_new(struct store *inner, const struct store_fault *faults, size_t nr,
		    struct store **ret_store, struct shoal_err *err)
{
	struct stack *st;

	for (size_t i = 0; i < nr; i++) {
		bool cuts = faults[i].op == STORE_READ && faults[i].rc == 0 && faults[i].short_by;

		if (faults[i].nth == 0)
			return err_set(err, -EINVAL, "fault %zu: calls count from 1", i);
		if (faults[i].rc >= 0 && !cuts)
			return err_set(err, -EINVAL, "fault %zu neither fails nor shortens a read",
				       i);
	}
	st = stack_new(inner, &fault_ops, nr);
	if (!st)
		return err_set(err, -ENOMEM, "out of memory");
	st->before = fault_before;
	if (nr > 0)
		memcpy(st->fault, faults, nr * sizeof(*faults));
	*ret_store = &st->base;
	return 0;
}

uint64_t store_fault_fired(const struct store *s)
{
	assert(s->ops == &fault_ops);
	return atomic_load(&((const struct stack *)s)->fired);
}

/* ---- Delay ---- */

static int delay_before(struct stack *st, enum store_op op, size_t *ret_short,
			struct shoal_err *err)
{
	(void)op;
	(void)ret_short;
	(void)err;
	clock_pause_us(st->delay_us);
	return 0;
}

int store_delay_new(struct store *inner, uint64_t delay_us, struct store **ret_store,
		    struct shoal_err *err)
{
	struct stack *st;

	if (delay_us > STACK_DELAY_MAX_US)
		return err_set(err, -EINVAL, "a delay is at most %" PRIu64 " us",
			       STACK_DELAY_MAX_US);
	st = stack_new(inner, &delay_ops, 0);
	if (!st)
		return err_set(err, -ENOMEM, "out of memory");
	st->before = delay_before;
	st->delay_us = delay_us;
	st->base.traits.instant = inner->traits.instant && delay_us == 0;
	*ret_store = &st->base;
	return 0;
}
