#include "load/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mark.h"
#include "base/out.h"
#include "base/publish.h"
#include "load/loader.h"
#include "load/oplog.h"
#include "load/trace_private.h"
#include "store/uri.h"

#define GATHER_BYTES (1u << 20)
#define LOG_BUFFER   (1u << 16)

struct trace {
	struct comm *comm;
	uint64_t origin; /* clock_now() of time 0 */
	struct oplog_head head;
	bool tracing, logging;
	struct trace_pool pools[TRACE_KINDS];
	/* The log of this rank: */
	int spill;
	struct out log;
	uint64_t nr_logged, nr_left_out;
	uint64_t nr_steps;
	uint8_t record[OPLOG_RECORD];
	/* On rank 0: */
	char root[SHOAL_NAME_MAX + 1];
	struct publish trace_file, log_file;
};

/* ---- Pools ---- */

int trace_pool_init(struct trace_pool *p, size_t cap)
{
	*p = (struct trace_pool){ .cap = cap, .every = 1 };
	p->kept = malloc(cap * sizeof(*p->kept)); /* at most 1 MB; used as far as it is filled */
	p->slow = malloc(TRACE_SLOW_MAX * sizeof(*p->slow));
	return p->kept && p->slow ? 0 : -ENOMEM;
}

void trace_pool_release(struct trace_pool *p)
{
	free(p->kept);
	free(p->slow);
	p->kept = p->slow = NULL;
}

static void find_least(struct trace_pool *p)
{
	p->least = 0;
	for (size_t i = 1; i < p->nr_slow; i++)
		if (p->slow[i].duration < p->slow[p->least].duration)
			p->least = i;
}

/* A place among the slow ones, if it is one of them. */
static struct trace_event *take_slow(struct trace_pool *p, uint64_t duration)
{
	struct trace_event *e;

	if (p->nr_slow < TRACE_SLOW_MAX) {
		e = &p->slow[p->nr_slow++];
	} else {
		e = &p->slow[p->least];
		if (duration <= e->duration)
			return NULL;
	}
	e->duration = duration;
	if (p->nr_slow == TRACE_SLOW_MAX)
		find_least(p);
	return e;
}

/* Drop every second event, but keep the slow ones. */
static void trace_thin_out(struct trace_pool *p)
{
	size_t nr = 0;

	for (size_t i = 0; i < p->nr; i++) {
		struct trace_event *slow;

		if (i % 2 == 0) {
			p->kept[nr++] = p->kept[i];
			continue;
		}
		slow = take_slow(p, p->kept[i].duration);
		if (slow)
			*slow = p->kept[i];
	}
	p->nr = nr;
	p->every *= 2;
}

struct trace_event *trace_pool_take(struct trace_pool *p, uint64_t duration)
{
	struct trace_event *e;

	if (p->seen++ % p->every != 0)
		return take_slow(p, duration);
	if (p->nr == p->cap) {
		trace_thin_out(p);
		if ((p->seen - 1) % p->every != 0)
			return take_slow(p, duration);
	}
	e = &p->kept[p->nr++];
	e->duration = duration;
	return e;
}

/* ---- Recording ---- */

static uint64_t since(const struct trace *t, uint64_t at)
{
	/* The origin may be before 0, if rank 0 began before this machine: then it has wrapped. */
	return (int64_t)(at - t->origin) > 0 ? at - t->origin : 0;
}

static void trace_read(struct trace *t, const struct load_request *r)
{
	uint64_t took = r->finished - r->started;
	struct trace_event *e = trace_pool_take(&t->pools[TRACE_READ], took);
	size_t len;

	if (!e)
		return;
	*e = (struct trace_event){ .kind = TRACE_READ,
				   .start = since(t, r->started),
				   .duration = took,
				   .opened = r->opened ? r->opened - r->started : 0,
				   .off = r->off,
				   .len = r->len,
				   .result = r->result };
	len = strlen(r->name);
	if (len >= TRACE_NAME_MAX)
		memcpy(e->name, r->name + len - (TRACE_NAME_MAX - 1), TRACE_NAME_MAX - 1);
	else
		memcpy(e->name, r->name, len);
}

static void trace_wait(struct trace *t, uint64_t asked, uint64_t arrived)
{
	struct trace_event *e = trace_pool_take(&t->pools[TRACE_WAIT], arrived - asked);

	if (!e)
		return;
	*e = (struct trace_event){ .kind = TRACE_WAIT,
				   .start = since(t, asked),
				   .duration = arrived - asked };
	snprintf(e->name, sizeof(e->name), "batch %llu", (unsigned long long)t->nr_steps);
}

static void log_read(struct trace *t, const struct load_request *r)
{
	struct oplog_op op = { .start = since(t, r->started),
			       .duration = r->finished - r->started,
			       .opened = r->opened ? r->opened - r->started : 0,
			       .off = r->off,
			       .len = r->len,
			       .result = r->result < 0
						 ? r->result
						 : (int64_t)u64_min((uint64_t)r->result, r->len),
			       .rank = (uint32_t)comm_place(t->comm)->rank,
			       .name = r->name };

	if (out_tell(&t->log) >= TRACE_LOG_MAX || t->log.rc < 0) {
		t->nr_left_out++;
		return;
	}
	out_write(&t->log, t->record, oplog_pack_op(&op, t->record));
	t->nr_logged++;
}

void trace_batch(struct trace *t, const struct shoal_batch *batch, uint64_t asked, uint64_t arrived)
{
	if (!t)
		return;
	if (t->tracing)
		trace_wait(t, asked, arrived);
	t->nr_steps += batch->last;
	for (size_t i = 0; i < batch->nr; i++) {
		const struct load_request *r = load_request_of(batch, i);

		/* One that was never submitted, because it is too large, has no times. */
		if (batch->sample[i].error && r->result >= 0)
			continue;
		if (t->tracing)
			trace_read(t, r);
		if (t->logging)
			log_read(t, r);
	}
}

/* ---- Opening ---- */

static int trace_open_log(struct trace *t, const char *path, struct shoal_err *err)
{
	char *dir = path_dir(path);
	int rc;

	if (!dir)
		return err_set(err, -ENOMEM, "out of memory");
	t->spill = spill_open(dir, err);
	free(dir);
	if (t->spill < 0)
		return t->spill;
	rc = out_init(&t->log, t->spill, 0, LOG_BUFFER);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

static int open_pools(struct trace *t, struct shoal_err *err)
{
	size_t cap = TRACE_ALL / (size_t)comm_place(t->comm)->size;

	cap = cap < 64 ? 64 : cap > TRACE_RANK_MAX ? TRACE_RANK_MAX : cap;
	for (size_t i = 0; i < TRACE_KINDS; i++)
		if (trace_pool_init(&t->pools[i], cap) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/*
 * -EEXIST if a file at @path has other content than @mark near its beginning: a typing error must
 * not cost a catalog or a sample. Empty files are replaced.
 */
static int keep_foreign(const char *path, const char *what, const void *mark, size_t len,
			struct shoal_err *err)
{
	char head[MARK_WITHIN];
	ssize_t got = 0;
	struct stat st;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return 0; /* publish_open() reports why that is not possible */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		got = pread(fd, head, sizeof(head), 0);
	close(fd);
	if (got <= 0 || memmem(head, (size_t)got, mark, len))
		return 0;
	return err_set(err, -EEXIST, "'%s' exists and is not %s: remove it, or choose another file",
		       path, what);
}

/*
 * Beside data it needs a name by which listings recognise it: they do not read every file. A list
 * of absolute names has the root "/", which says nothing about where its files are.
 */
static int keep_out_of_data(const char *path, const char *root, const char *end,
			    struct shoal_err *err)
{
	const char *data = root ? store_local_path(root) : NULL;

	if (!data || strcmp(data, "/") == 0 || path_has_end(path, end) ||
	    !path_is_inside(path, data))
		return 0;
	return err_set(err, -EINVAL,
		       "'%.500s' lies inside the data, where listings would take it for a file "
		       "of the dataset: choose another folder, or a name that ends in '%s'",
		       path, end);
}

int trace_check(const struct trace_options *o, struct shoal_err *err)
{
	int rc = 0;

	if (o->trace)
		rc = keep_out_of_data(o->trace, o->root, MARK_END_OF_TRACE, err);
	if (rc == 0 && o->log)
		rc = keep_out_of_data(o->log, o->root, MARK_END_OF_OPLOG, err);
	if (rc == 0 && o->trace)
		rc = keep_foreign(o->trace, "a trace", MARK_OF_TRACE, strlen(MARK_OF_TRACE), err);
	if (rc == 0 && o->log)
		rc = keep_foreign(o->log, "a log of operations", MARK_OF_OPLOG,
				  strlen(MARK_OF_OPLOG), err);
	return rc;
}

static int open_files(struct trace *t, const struct trace_options *o, struct shoal_err *err)
{
	int rc = trace_check(o, err);

	snprintf(t->root, sizeof(t->root), "%s", o->root);
	if (rc == 0 && o->trace)
		rc = publish_open(o->trace, &t->trace_file, err);
	if (rc == 0 && o->log)
		rc = publish_open(o->log, &t->log_file, err);
	return rc;
}

/* Collective: all ranks count time from the same moment, as far as their clocks agree. */
static int trace_agree_on_start(struct trace *t, struct shoal_err *err)
{
	uint64_t wall = clock_wall();
	int rc;

	t->head = (struct oplog_head){ wall, (uint32_t)comm_place(t->comm)->size };
	rc = comm_broadcast(t->comm, 0, &t->head.started, sizeof(t->head.started), err);
	t->origin = clock_now() - (clock_wall() - t->head.started);
	return rc;
}

int trace_open(const struct trace_options *o, struct trace **ret_trace, struct shoal_err *err)
{
	struct trace *t;
	int rc;

	*ret_trace = NULL;
	if (!o->trace && !o->log)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(o->comm, err);
		return rc;
	}
	t->comm = o->comm;
	t->spill = -1;
	t->trace_file = t->log_file = PUBLISH_CLOSED;
	t->tracing = o->trace != NULL;
	t->logging = o->log != NULL;
	rc = t->tracing ? open_pools(t, err) : 0;
	if (rc == 0 && t->logging)
		rc = trace_open_log(t, o->log, err);
	if (rc == 0 && comm_place(t->comm)->rank == 0)
		rc = open_files(t, o, err);
	if (rc < 0)
		comm_fail(t->comm, err);
	else
		rc = trace_agree_on_start(t, err);
	if (rc < 0)
		t = trace_close(t);
	*ret_trace = t;
	return rc;
}

struct trace *trace_close(struct trace *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < TRACE_KINDS; i++)
		trace_pool_release(&t->pools[i]);
	out_release(&t->log);
	if (t->spill >= 0)
		close(t->spill);
	publish_abort(&t->trace_file);
	publish_abort(&t->log_file);
	free(t);
	return NULL;
}

/* ---- The log ---- */

static int read_spill(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct trace *t = self;
	int rc = pread_all(t->spill, buf, len, off);

	return rc < 0 ? err_set_errno(err, rc, "cannot read the recorded operations") : 0;
}

static int take_log(void *self, int from, uint64_t off, uint64_t total, const void *data,
		    size_t len, struct shoal_err *err)
{
	struct out *out = self;

	(void)from;
	(void)off;
	(void)total;
	out_write(out, data, len);
	return out->rc < 0 ? err_set_errno(err, out->rc, "cannot write the log of operations") : 0;
}

static int trace_finish_log(struct trace *t, struct shoal_err *err)
{
	struct comm_blob mine = { .read = read_spill, .self = t };
	uint64_t nr[2] = { t->nr_logged, t->nr_left_out };
	bool first = comm_place(t->comm)->rank == 0;
	struct out out = { 0 };
	int rc;

	out_flush(&t->log);
	mine.len = out_tell(&t->log);
	rc = t->log.rc < 0 ? err_set_errno(err, t->log.rc, "cannot record operations") : 0;
	if (rc == 0 && first && out_init(&out, t->log_file.fd, 0, LOG_BUFFER) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc < 0) {
		comm_fail(t->comm, err);
		return rc;
	}
	rc = comm_reduce(t->comm, COMM_SUM, nr, 2, err);
	if (first) {
		out_write(&out, t->record, oplog_pack_head(&t->head, t->record));
		out_write(&out, t->record, oplog_pack_root(t->root, t->record));
	}
	if (rc == 0)
		rc = comm_gather(t->comm, &mine, 0, GATHER_BYTES, take_log, &out, err);
	if (rc == 0 && first) {
		out_write(&out, t->record, oplog_pack_end(nr[0], nr[1], t->record));
		out_flush(&out);
		rc = out.rc < 0 ? err_set_errno(err, out.rc, "cannot write the log of operations")
				: publish_commit(&t->log_file, err);
	}
	out_release(&out);
	return rc;
}

/* ---- The trace ---- */

struct trace_gather {
	struct json j;
	struct out out;
	uint8_t *events; /* of one rank */
};

static int take_events(void *self, int from, uint64_t off, uint64_t total, const void *data,
		       size_t len, struct shoal_err *err)
{
	struct trace_gather *g = self;

	if (total > 2 * (TRACE_RANK_MAX + TRACE_SLOW_MAX) * sizeof(struct trace_event))
		return err_set(err, -EPROTO, "rank %d sends more events than it may", from);
	if (len > 0)
		memcpy(g->events + off, data, len);
	if (off + len == total)
		trace_put_rank(&g->j, (unsigned)from, (struct trace_event *)(void *)g->events,
			       (size_t)total / sizeof(struct trace_event));
	return g->out.rc < 0 ? err_set_errno(err, g->out.rc, "cannot write the trace") : 0;
}

/* All events of this rank, one after another. NULL: no memory. */
static struct trace_event *join_events(const struct trace *t, size_t *ret_nr)
{
	struct trace_event *all;
	size_t nr = 0;

	for (size_t i = 0; i < TRACE_KINDS; i++)
		nr += t->pools[i].nr + t->pools[i].nr_slow;
	all = malloc((nr + 1) * sizeof(*all));
	*ret_nr = 0;
	for (size_t i = 0; all && i < TRACE_KINDS; i++) {
		const struct trace_pool *p = &t->pools[i];

		memcpy(all + *ret_nr, p->kept, p->nr * sizeof(*all));
		*ret_nr += p->nr;
		memcpy(all + *ret_nr, p->slow, p->nr_slow * sizeof(*all));
		*ret_nr += p->nr_slow;
	}
	return all;
}

static void begin_trace(struct trace_gather *g, const struct trace *t, uint64_t reads)
{
	g->j = (struct json){ .put = json_put_out, .self = &g->out, .lines = 2 };
	json_open_object(&g->j, NULL);
	json_string(&g->j, "displayTimeUnit", "ms"); /* other programs write that, too */
	json_open_object(&g->j, "otherData");
	json_u64(&g->j, MARK_OF_TRACE, t->pools[TRACE_READ].every);
	json_string(&g->j, "version", shoal_version());
	json_string(&g->j, "root", t->root);
	json_u64(&g->j, "reads", reads);
	json_u64(&g->j, "started_ns", t->head.started);
	json_close_object(&g->j);
	json_open_array(&g->j, "traceEvents");
}

static int trace_finish_json(struct trace *t, struct shoal_err *err)
{
	struct trace_gather g = { .events = NULL };
	bool first = comm_place(t->comm)->rank == 0;
	uint64_t reads = t->pools[TRACE_READ].seen;
	size_t nr = 0, room = 2 * (TRACE_RANK_MAX + TRACE_SLOW_MAX) * sizeof(struct trace_event);
	struct trace_event *all = join_events(t, &nr);
	struct comm_blob mine = { .len = nr * sizeof(*all), .data = all };
	int rc = all ? 0 : -ENOMEM;

	if (first)
		g.events = malloc(room); /* of one rank at a time */
	if (rc == 0 && first &&
	    (!g.events || out_init(&g.out, t->trace_file.fd, 0, LOG_BUFFER) < 0))
		rc = -ENOMEM;
	if (rc < 0) {
		err_set(err, rc, "out of memory");
		comm_fail(t->comm, err);
	}
	if (rc == 0)
		rc = comm_reduce(t->comm, COMM_SUM, &reads, 1, err);
	if (rc == 0 && first)
		begin_trace(&g, t, reads);
	if (rc == 0)
		rc = comm_gather(t->comm, &mine, 0, GATHER_BYTES, take_events, &g, err);
	if (rc == 0 && first) {
		json_close_array(&g.j);
		json_close_object(&g.j);
		out_flush(&g.out);
		rc = g.out.rc < 0 ? err_set_errno(err, g.out.rc, "cannot write the trace")
				  : publish_commit(&t->trace_file, err);
	}
	out_release(&g.out);
	free(g.events);
	free(all);
	return rc;
}

int trace_finish(struct trace *t, struct shoal_err *err)
{
	int rc = 0;

	if (!t)
		return 0;
	if (t->tracing)
		rc = trace_finish_json(t, err);
	if (rc == 0 && t->logging)
		rc = trace_finish_log(t, err);
	if (rc < 0)
		comm_fail(t->comm, err);
	return rc < 0 ? rc : comm_barrier(t->comm, err); /* rank 0 may have failed to publish */
}
