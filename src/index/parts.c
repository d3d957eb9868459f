#include "index/parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/name.h"
#include "base/publish.h"
#include "catalog/writer.h"
#include "index/cuts.h"
#include "index/merge.h"

#define WRITE_BUF (1u << 20)

/* Most that is sent at once. More was not faster. */
#define BUDGET_MAX (8u << 20)

/* In front of a run on its way: how many bytes all its names share. */
#define RUN_HEAD sizeof(struct shoal_le32)

/* Where there is no room is as good to know as that there is none. */
static int fail_to_write(const char *tmp_dir, int rc, struct shoal_err *err)
{
	return shoal_fail_errno(err, rc, "in '%s': cannot write a temporary file", tmp_dir);
}

/* ---- Cutting what this rank has into a run for each rank ---- */

struct splitter {
	struct shoal_comm *comm;
	const char *tmp_dir;
	uint64_t nr;
	const struct index_cuts *cuts;
	int at; /* the range being written */
	struct shoal_out out;
	struct index_run *run;          /* for each range, its head not counted */
	struct index_run_writer writer; /* of the range being written */
};

static void start_run(struct splitter *s)
{
	const struct shoal_le32 head = shoal_le32_of(0); /* known only at its end */

	shoal_out_write(&s->out, &head, sizeof(head));
	index_run_start(&s->writer, &s->out);
}

/* Now and then, while nothing is waited for: whether another rank has failed. */
static int look_up(struct shoal_comm *comm, struct shoal_err *err)
{
	struct shoal_comm_mail mail;
	int rc = shoal_comm_poll(comm, 0, &mail, err);

	return rc < 0 ? rc : 0;
}

static int split(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct splitter *s = self;

	if ((++s->nr & 0xffff) == 0) {
		int rc = look_up(s->comm, err);

		if (rc < 0)
			return rc;
	}
	while (index_cuts_is_past(s->cuts, s->at, e->name, e->len)) {
		s->run[s->at++] = index_run_end(&s->writer);
		start_run(s);
	}
	index_run_put(&s->writer, e);
	return s->out.rc < 0 ? fail_to_write(s->tmp_dir, s->out.rc, err) : 0;
}

static int write_heads(const struct splitter *s, int fd)
{
	int rc = s->out.rc;

	for (int r = 0; r <= s->cuts->nr && rc == 0; r++) {
		struct shoal_le32 head = shoal_le32_of(s->run[r].shared);

		rc = shoal_pwrite_all(fd, &head, sizeof(head), s->run[r].off - RUN_HEAD);
	}
	return rc;
}

/* Sort what the rank has into @fd, and say where the run for each rank is. */
static int split_runs(const struct index_parts *p, const struct index_cuts *cuts,
		      struct shoal_sorter *sorter, int fd, struct index_run *runs,
		      uint64_t *repeated, struct shoal_err *err)
{
	struct splitter *s = calloc(1, sizeof(*s));
	int rc = s ? shoal_out_init(&s->out, fd, 0, WRITE_BUF) : -ENOMEM;

	if (rc < 0) {
		free(s);
		return shoal_fail(err, rc, "out of memory");
	}
	s->comm = p->comm;
	s->tmp_dir = p->tmp_dir;
	s->cuts = cuts;
	s->run = runs;
	start_run(s);
	rc = shoal_sorter_finish(sorter, split, s, NULL, repeated, err);
	while (rc == 0 && s->at <= cuts->nr) {
		runs[s->at++] = index_run_end(&s->writer);
		if (s->at <= cuts->nr)
			start_run(s);
	}
	shoal_out_flush(&s->out);
	if (rc == 0) {
		rc = write_heads(s, fd);
		if (rc < 0)
			fail_to_write(p->tmp_dir, rc, err);
	}
	shoal_out_release(&s->out);
	free(s);
	return rc;
}

/* ---- Sending them to where they belong ---- */

struct outgoing {
	int fd;
	uint64_t off;
};

static int read_outgoing(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct outgoing *o = self;
	int rc = shoal_pread_all(o->fd, buf, len, o->off + off);

	return rc < 0 ? shoal_fail_errno(err, rc, "cannot read a temporary file back") : 0;
}

struct incoming {
	int fd;
	const char *tmp_dir; /* that it is in */
	uint64_t end;
	bool etags;            /* are in what comes */
	uint64_t *start;       /* of each rank's */
	struct index_run *run; /* from each rank */
};

static int take_incoming(void *self, int from, uint64_t off, uint64_t total, const void *data,
			 size_t len, struct shoal_err *err)
{
	struct incoming *in = self;
	struct shoal_le32 head;
	int rc;

	if (len == 0)
		return 0;
	if (off == 0) {
		assert(len >= RUN_HEAD); /* a budget is much more than that */
		memcpy(&head, data, sizeof(head));
		in->start[from] = in->end;
		in->run[from] = (struct index_run){ .off = in->end + RUN_HEAD,
						    .len = total - RUN_HEAD,
						    .shared = shoal_le32_get(head),
						    .etags = in->etags };
		in->end += total;
	}
	rc = shoal_pwrite_all(in->fd, data, len, in->start[from] + off);
	return rc < 0 ? fail_to_write(in->tmp_dir, rc, err) : 0;
}

static int send_runs(const struct index_parts *p, int from_fd, const struct index_run *runs,
		     struct incoming *in, struct shoal_err *err)
{
	size_t size = (size_t)shoal_comm_place(p->comm)->size;
	/* Some 60 bytes a rank. */
	struct shoal_comm_blob *to = calloc(size, sizeof(*to));
	struct outgoing *out = calloc(size, sizeof(*out));
	int rc;

	for (size_t r = 0; r < size && to && out; r++) {
		out[r] = (struct outgoing){ .fd = from_fd, .off = runs[r].off - RUN_HEAD };
		to[r] = (struct shoal_comm_blob){ .len = runs[r].len ? runs[r].len + RUN_HEAD : 0,
						  .read = read_outgoing,
						  .self = &out[r] };
	}
	rc = to && out ? shoal_comm_exchange(p->comm, to,
					     (size_t)shoal_min(BUDGET_MAX, p->memory / 2),
					     take_incoming, in, err)
		       : shoal_fail(err, -ENOMEM, "out of memory");
	free(to);
	free(out);
	return rc;
}

/* ---- Writing this rank's range ---- */

struct part {
	struct shoal_comm *comm;
	struct shoal_writer *writer;
	const struct shoal_index_options *options;
	uint64_t nr, nr_odd;
};

static int put_in_part(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct part *part = self;
	const struct shoal_index_options *o = part->options;

	if ((++part->nr & 0xffff) == 0) {
		int rc = index_stopped(o->stop) ? shoal_fail(err, -ECANCELED, "interrupted")
						: look_up(part->comm, err);

		if (rc < 0)
			return rc;
		if (o->progress)
			o->progress(o->self, &(struct shoal_index_progress){ .sealing = true,
									     .nr_names = part->nr,
									     .where = "" });
	}
	part->nr_odd += e->etag && !shoal_etag_is_kept(e->etag);
	return shoal_writer_add_sorted(part->writer, (const char *)e->name, e->len, e->size,
				       e->samples, e->etag, err);
}

static int merge_part(const struct index_parts *p, struct incoming *in, struct part *part,
		      uint64_t *repeated, struct shoal_err *err)
{
	size_t size = (size_t)shoal_comm_place(p->comm)->size;
	struct index_runs runs = { 0 };
	struct shoal_out out = { 0 };
	struct cat_digester digester = shoal_writer_digester(part->writer);
	struct index_merge_job job = { .fd = in->fd,
				       .runs = &runs,
				       .out = &out,
				       .memory_len = p->memory,
				       .stop = p->options->stop,
				       .repeated = repeated,
				       .take = put_in_part,
				       .self = part,
				       .digester = &digester };
	int rc = 0;

	for (size_t r = 0; r < size && rc == 0; r++)
		if (in->run[r].len > 0)
			rc = index_runs_add(&runs, &in->run[r]);
	if (rc == 0)
		rc = shoal_out_init(&out, in->fd, in->end, WRITE_BUF);
	job.memory = mmap(NULL, p->memory, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (rc < 0 || job.memory == MAP_FAILED)
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	else if (runs.nr > 0)
		rc = index_merge(&job, err);
	shoal_writer_hand_in(part->writer, &digester);
	if (job.memory != MAP_FAILED)
		munmap(job.memory, p->memory);
	shoal_out_release(&out);
	index_runs_release(&runs);
	return rc;
}

/* ---- Bringing the parts together ---- */

/* Rank 0: the part being received, and where the whole goes. */
struct assembly {
	const struct index_parts *parts;
	struct shoal_writer *writer;
	int fd;
};

static int append_part(struct assembly *a, struct shoal_err *err)
{
	struct shoal_catalog *part = NULL;
	int fd = a->fd, rc;

	a->fd = -1;
	rc = shoal_catalog_open_fd(fd, &part, err);
	if (rc == 0)
		rc = shoal_writer_append(a->writer, part, err);
	shoal_catalog_close(part);
	return rc;
}

static int take_part(void *self, int from, uint64_t off, uint64_t total, const void *data,
		     size_t len, struct shoal_err *err)
{
	struct assembly *a = self;
	int rc;

	(void)from;
	if (len == 0) /* rank 0's own */
		return 0;
	if (off == 0) {
		a->fd = shoal_spill_open(a->parts->tmp_dir, err);
		if (a->fd < 0)
			return a->fd;
	}
	rc = shoal_pwrite_all(a->fd, data, len, off);
	if (rc < 0)
		return fail_to_write(a->parts->tmp_dir, rc, err);
	return off + len == total ? append_part(a, err) : 0;
}

/* @fd: the part of this rank; -1 on rank 0, which has @writer instead. */
static int assemble(const struct index_parts *p, int fd, struct shoal_writer **writer,
		    struct shoal_err *err)
{
	struct assembly a = { .parts = p, .writer = *writer, .fd = -1 };
	struct outgoing out = { .fd = fd };
	struct shoal_comm_blob mine = { .read = read_outgoing, .self = &out };
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	int rc;

	if (end < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot read a temporary file back");
	mine.len = (uint64_t)end;
	rc = shoal_comm_gather(p->comm, &mine, 0, (size_t)shoal_min(BUDGET_MAX, p->memory / 2),
			       take_part, &a, err);
	if (a.fd >= 0)
		close(a.fd);
	if (rc == 0 && *writer) {
		*writer = NULL; /* sealing frees it */
		rc = shoal_writer_seal(a.writer, err);
		if (rc == 0) /* nothing can be undone from here on */
			shoal_comm_set_stop(p->comm, NULL);
	}
	return rc;
}

/* ---- All of it ---- */

/* Write this rank's range: a nameless file, or on rank 0 the beginning of the whole. */
static int write_part(const struct index_parts *p, struct incoming *in, struct shoal_writer *whole,
		      int *ret_fd, struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_writer_options wo = {
		.root = p->root,
		.sizes = p->sizes,
		.samples_per_file = p->options->samples_per_file ? p->options->samples_per_file : 1,
		.tmp_dir = p->tmp_dir,
		.etags = p->etags
	};
	struct part part = { .comm = p->comm, .writer = whole, .options = p->options };
	int rc = whole ? 0 : shoal_writer_open(NULL, &wo, &part.writer, err);

	if (rc == 0)
		rc = merge_part(p, in, &part, &result->nr_repeated, err);
	if (!whole && rc < 0)
		shoal_writer_abort(part.writer);
	if (!whole && rc == 0) {
		*ret_fd = shoal_writer_seal_nameless(part.writer, err);
		rc = *ret_fd < 0 ? *ret_fd : 0;
	}
	result->nr_names = part.nr;
	result->nr_odd_etags = part.nr_odd;
	return rc;
}

static int exchange(const struct index_parts *p, struct shoal_sorter **sorter,
		    const struct index_cuts *cuts, struct incoming *in,
		    struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_run *runs = calloc((size_t)cuts->nr + 1, sizeof(*runs));
	int fd = shoal_spill_open(p->tmp_dir, err), rc = fd < 0 ? fd : 0;

	if (rc == 0 && !runs)
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = split_runs(p, cuts, *sorter, fd, runs, &result->nr_repeated, err);
	*sorter = shoal_sorter_free(*sorter); /* its memory is needed */
	if (rc == 0) {
		in->fd = shoal_spill_open(p->tmp_dir, err);
		rc = in->fd < 0 ? in->fd : send_runs(p, fd, runs, in, err);
	}
	if (fd >= 0)
		close(fd);
	free(runs);
	return rc;
}

int index_parts_seal(const struct index_parts *p, struct shoal_sorter **sorter,
		     const struct index_sample *sample, struct shoal_writer **writer,
		     struct shoal_index_result *result, struct shoal_err *err)
{
	size_t size = (size_t)shoal_comm_place(p->comm)->size;
	struct incoming in = { .fd = -1,
			       .tmp_dir = p->tmp_dir,
			       .etags = p->etags,
			       .start = calloc(size, sizeof(*in.start)),
			       .run = calloc(size, sizeof(*in.run)) };
	struct index_cuts cuts = { 0 };
	int part_fd = -1, rc = 0;

	if (!in.start || !in.run)
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = index_cuts_agree(&cuts, p->comm, sample, err);
	if (rc == 0)
		rc = exchange(p, sorter, &cuts, &in, result, err);
	if (rc == 0)
		rc = write_part(p, &in, *writer, &part_fd, result, err);
	if (in.fd >= 0)
		close(in.fd);
	if (rc == 0)
		rc = assemble(p, part_fd, writer, err);
	if (rc == 0) /* nobody says that it is done before it is */
		rc = shoal_comm_barrier(p->comm, err);
	if (part_fd >= 0)
		close(part_fd);
	index_cuts_release(&cuts);
	free(in.start);
	free(in.run);
	return rc;
}
