#include "index/exchange.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/le.h"
#include "base/name.h"
#include "base/publish.h"
#include "catalog/writer.h"
#include "index/job.h"
#include "index/seal.h"
#include "sort/merge.h"

#define WRITE_BUF (1u << 20)

/* The most that is sent at a time. More was not faster. */
#define BUDGET_MAX (8u << 20)

/* Precedes a run that is sent: the length of its common prefix. */
#define RUN_HEAD sizeof(struct le32)

/* Bytes of names that a rank keeps, and that rank 0 gathers from all. */
#define SAMPLE_BYTES (64u << 10)
#define ALL_BYTES    (16u << 20)

/* Precedes a sample that is sent. */
#define HEAD sizeof(struct le64)

/* ---- The sample ---- */

int index_sample_init(struct index_sample *s, int nr_ranks, struct shoal_err *err)
{
	size_t cap = (size_t)u64_max(2 * (SHOAL_NAME_MAX + 2),
				     u64_min(SAMPLE_BYTES, ALL_BYTES / (uint64_t)nr_ranks));

	*s = (struct index_sample){ .cap = cap, .every = 1, .bytes = malloc(HEAD + cap) };
	return s->bytes ? 0 : err_set(err, -ENOMEM, "out of memory");
}

void index_sample_release(struct index_sample *s)
{
	free(s->bytes);
	*s = (struct index_sample){ 0 };
}

static size_t name_len(const uint8_t *p)
{
	return (size_t)(p[0] | p[1] << 8);
}

/* Keep every second one. */
static void thin_out(struct index_sample *s)
{
	uint8_t *names = s->bytes + HEAD;
	size_t to = 0;
	bool keep = true;

	for (size_t at = 0; at < s->fill; keep = !keep) {
		size_t len = 2 + name_len(names + at);

		if (keep) {
			memmove(names + to, names + at, len);
			to += len;
		}
		at += len;
	}
	s->fill = to;
	s->every *= 2;
}

void index_sample_see(struct index_sample *s, const uint8_t *name, size_t len)
{
	uint8_t *p;

	if (s->until_next > 0) {
		s->until_next--;
		return;
	}
	while (s->cap - s->fill < len + 2)
		thin_out(s);
	p = s->bytes + HEAD + s->fill;
	p[0] = (uint8_t)len;
	p[1] = (uint8_t)(len >> 8);
	memcpy(p + 2, name, len);
	s->fill += len + 2;
	s->until_next = s->every - 1;
}

void index_sample_join(struct index_sample *s, struct index_sample *from)
{
	if (from->fill == 0)
		return;
	/* A name of each always fits. */
	while (from->every != s->every || s->cap - s->fill < from->fill)
		thin_out(from->every < s->every ? from : s);
	memcpy(s->bytes + HEAD + s->fill, from->bytes + HEAD, from->fill);
	s->fill += from->fill;
}

/* ---- Picking ---- */

struct pick {
	const uint8_t *name;
	uint32_t len;
	double weight; /* how many names it stands for */
};

/* All samples, on rank 0: at most ALL_BYTES, or two names per rank. */
struct samples {
	uint8_t *bytes;
	size_t fill, cap;
	struct pick *pick;
	size_t nr;
};

static int exchange_take_sample(void *self, int from, uint64_t off, uint64_t total,
				const void *data, size_t len, struct shoal_err *err)
{
	struct samples *all = self;

	(void)from;
	if (off == 0) { /* each after its length */
		size_t need = all->fill + sizeof(total) + (size_t)total;
		uint8_t *grown = need > all->cap ? realloc(all->bytes, 2 * need) : all->bytes;

		if (!grown)
			return err_set(err, -ENOMEM, "out of memory");
		all->cap = need > all->cap ? 2 * need : all->cap;
		all->bytes = grown;
		memcpy(all->bytes + all->fill, &total, sizeof(total));
		all->fill += sizeof(total);
	}
	if (len > 0)
		memcpy(all->bytes + all->fill, data, len);
	all->fill += len;
	return 0;
}

static int compare_picks(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	return name_compare(x->name, x->len, y->name, y->len);
}

/* Point to the gathered names. They come from our own ranks: malformed ones are ignored. */
static int find_picks(struct samples *all)
{
	size_t most = all->fill / 3 + 1; /* no name takes less than three bytes */

	all->pick = malloc(most * sizeof(*all->pick));
	if (!all->pick)
		return -ENOMEM;
	for (size_t at = 0; at < all->fill;) {
		uint64_t total;
		size_t end;
		double weight;

		memcpy(&total, all->bytes + at, sizeof(total));
		at += sizeof(total);
		end = at + (size_t)total;
		assert(total >= HEAD && end <= all->fill);
		weight = (double)le64_load(all->bytes + at);
		for (at += HEAD; at < end; at += 2 + name_len(all->bytes + at))
			all->pick[all->nr++] =
				(struct pick){ .name = all->bytes + at + 2,
					       .len = (uint32_t)name_len(all->bytes + at),
					       .weight = weight };
	}
	qsort(all->pick, all->nr, sizeof(*all->pick), compare_picks);
	return 0;
}

/* The name at each of @nr equal steps of the weight; an empty name if there is none. */
static void pick_cuts(const struct samples *all, int nr, uint8_t *bytes, uint32_t *at)
{
	double sum = 0, passed = 0;
	size_t i = 0;
	uint32_t fill = 0;

	for (size_t k = 0; k < all->nr; k++)
		sum += all->pick[k].weight;
	for (int cut = 0; cut < nr; cut++) {
		const struct pick *p;

		while (i < all->nr && passed < sum * (cut + 1) / (nr + 1))
			passed += all->pick[i++].weight;
		at[cut] = fill;
		if (all->nr == 0)
			continue;
		p = &all->pick[i < all->nr ? i : all->nr - 1];
		memcpy(bytes + fill, p->name, p->len);
		fill += p->len;
	}
	at[nr] = fill;
}

/* ---- Agreeing ---- */

static int gather_and_pick(struct index_splitters *c, struct comm *comm,
			   const struct index_sample *sample, struct shoal_err *err)
{
	struct le64 every = le64_of(sample->every);
	struct comm_blob mine = { .len = HEAD + sample->fill, .data = sample->bytes };
	struct samples all = { 0 };
	int rc;

	memcpy(sample->bytes, &every, HEAD);
	rc = comm_gather(comm, &mine, 0, 1u << 20, exchange_take_sample, &all, err);
	if (rc == 0 && comm_place(comm)->rank == 0) {
		rc = find_picks(&all);
		if (rc < 0)
			err_set(err, rc, "out of memory");
		else
			pick_cuts(&all, c->nr, c->bytes, c->at);
	}
	free(all.bytes);
	free(all.pick);
	return rc;
}

int index_splitters_agree(struct index_splitters *c, struct comm *comm,
			  const struct index_sample *sample, struct shoal_err *err)
{
	size_t nr = (size_t)comm_place(comm)->size - 1;
	int rc;

	*c = (struct index_splitters){ .nr = (int)nr };
	c->bytes = malloc(nr * SHOAL_NAME_MAX + 1);
	c->at = calloc(nr + 1, sizeof(*c->at));
	if (!c->bytes || !c->at)
		return err_set(err, -ENOMEM, "out of memory");
	rc = gather_and_pick(c, comm, sample, err);
	if (rc == 0)
		rc = comm_broadcast(comm, 0, c->at, (nr + 1) * sizeof(*c->at), err);
	if (rc == 0)
		rc = comm_broadcast(comm, 0, c->bytes, c->at[nr], err);
	return rc;
}

void index_splitters_release(struct index_splitters *c)
{
	free(c->bytes);
	free(c->at);
	*c = (struct index_splitters){ 0 };
}

bool index_splitters_is_past(const struct index_splitters *c, int range, const uint8_t *name,
			     size_t len)
{
	return range < c->nr && name_compare(name, len, c->bytes + c->at[range],
					     c->at[range + 1] - c->at[range]) >= 0;
}

/* The message names the directory that runs are written to, because it may be full. */
static int fail_to_write(const char *tmp_dir, int rc, struct shoal_err *err)
{
	return spill_failed(err, rc, tmp_dir);
}

/* ---- Splitting this rank's names into a run per rank ---- */

struct splitting {
	struct comm *comm;
	const char *tmp_dir;
	uint64_t nr;
	const struct index_splitters *cuts;
	int at; /* the range being written */
	struct out out;
	struct sort_run *run;          /* per range, without its header */
	struct sort_run_writer writer; /* of the range being written */
};

static void start_run(struct splitting *s)
{
	const struct le32 head = le32_of(0); /* known only at its end */

	out_write(&s->out, &head, sizeof(head));
	sort_run_start(&s->writer, &s->out);
}

int index_exchange_check_peers(struct comm *comm, struct shoal_err *err)
{
	struct comm_mail mail;
	int rc = comm_poll(comm, 0, &mail, err);

	return rc < 0 ? rc : 0;
}

static int split(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct splitting *s = self;

	if ((++s->nr & 0xffff) == 0) {
		int rc = index_exchange_check_peers(s->comm, err);

		if (rc < 0)
			return rc;
	}
	while (index_splitters_is_past(s->cuts, s->at, e->name, e->len)) {
		s->run[s->at++] = sort_run_end(&s->writer);
		start_run(s);
	}
	sort_run_put(&s->writer, e);
	return s->out.rc < 0 ? fail_to_write(s->tmp_dir, s->out.rc, err) : 0;
}

static int write_heads(const struct splitting *s, int fd)
{
	int rc = s->out.rc;

	for (int r = 0; r <= s->cuts->nr && rc == 0; r++) {
		struct le32 head = le32_of(s->run[r].shared);

		rc = pwrite_all(fd, &head, sizeof(head), s->run[r].off - RUN_HEAD);
	}
	return rc;
}

/* Sort this rank's names into @fd, and return where the run for each rank is. */
static int split_runs(const struct index_job *j, const struct index_splitters *cuts,
		      struct sorter *sorter, int fd, struct sort_run *runs, uint64_t *repeated,
		      struct shoal_err *err)
{
	struct splitting *s = calloc(1, sizeof(*s));
	int rc = s ? out_init(&s->out, fd, 0, WRITE_BUF) : -ENOMEM;

	if (rc < 0) {
		free(s);
		return err_set(err, rc, "out of memory");
	}
	s->comm = j->comm;
	s->tmp_dir = j->tmp_dir;
	s->cuts = cuts;
	s->run = runs;
	start_run(s);
	rc = sorter_finish(sorter, split, s, NULL, repeated, err);
	while (rc == 0 && s->at <= cuts->nr) {
		runs[s->at++] = sort_run_end(&s->writer);
		if (s->at <= cuts->nr)
			start_run(s);
	}
	out_flush(&s->out);
	if (rc == 0) {
		rc = write_heads(s, fd);
		if (rc < 0)
			fail_to_write(j->tmp_dir, rc, err);
	}
	out_release(&s->out);
	free(s);
	return rc;
}

/* ---- Sending them to their ranks ---- */

struct outgoing {
	int fd;
	uint64_t off;
};

static int read_outgoing(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct outgoing *o = self;
	int rc = pread_all(o->fd, buf, len, o->off + off);

	return rc < 0 ? err_set_errno(err, rc, "cannot read a temporary file back") : 0;
}

struct incoming {
	int fd;
	const char *tmp_dir; /* directory of the runs */
	uint64_t end;
	uint64_t *start;      /* how many of each rank */
	struct sort_run *run; /* how many from each rank */
};

static int take_incoming(void *self, int from, uint64_t off, uint64_t total, const void *data,
			 size_t len, struct shoal_err *err)
{
	struct incoming *in = self;
	struct le32 head;
	int rc;

	if (len == 0)
		return 0;
	if (off == 0) {
		assert(len >= RUN_HEAD); /* a memory budget is much larger */
		memcpy(&head, data, sizeof(head));
		in->start[from] = in->end;
		in->run[from] = (struct sort_run){ .off = in->end + RUN_HEAD,
						   .len = total - RUN_HEAD,
						   .shared = le32_get(head) };
		in->end += total;
	}
	rc = pwrite_all(in->fd, data, len, in->start[from] + off);
	return rc < 0 ? fail_to_write(in->tmp_dir, rc, err) : 0;
}

static int send_runs(const struct index_job *j, int from_fd, const struct sort_run *runs,
		     struct incoming *in, struct shoal_err *err)
{
	size_t size = (size_t)comm_place(j->comm)->size;
	/* Some 60 bytes per rank. */
	struct comm_blob *to = calloc(size, sizeof(*to));
	struct outgoing *out = calloc(size, sizeof(*out));
	int rc;

	for (size_t r = 0; r < size && to && out; r++) {
		out[r] = (struct outgoing){ .fd = from_fd, .off = runs[r].off - RUN_HEAD };
		to[r] = (struct comm_blob){ .len = runs[r].len ? runs[r].len + RUN_HEAD : 0,
					    .read = read_outgoing,
					    .self = &out[r] };
	}
	rc = to && out ? comm_exchange(j->comm, to, (size_t)u64_min(BUDGET_MAX, j->memory / 2),
				       take_incoming, in, err)
		       : err_set(err, -ENOMEM, "out of memory");
	free(to);
	free(out);
	return rc;
}

/* ---- Writing this rank's range ---- */

static int merge_part(struct index_job *j, struct incoming *in, uint64_t *repeated,
		      struct shoal_err *err)
{
	size_t size = (size_t)comm_place(j->comm)->size;
	struct sort_runs runs = { 0 };
	struct out out = { 0 };
	struct sort_merge_job job = { .fd = in->fd,
				      .runs = &runs,
				      .out = &out,
				      .memory_len = j->memory,
				      .stop = j->options->stop,
				      .repeated = repeated };
	int rc = 0;

	for (size_t r = 0; r < size && rc == 0; r++)
		if (in->run[r].len > 0)
			rc = sort_runs_add(&runs, &in->run[r]);
	if (rc == 0)
		rc = out_init(&out, in->fd, in->end, WRITE_BUF);
	job.memory = mmap(NULL, j->memory, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (rc < 0 || job.memory == MAP_FAILED)
		rc = err_set(err, -ENOMEM, "out of memory");
	else if (runs.nr > 0)
		rc = index_seal_runs(j, &job, err);
	if (job.memory != MAP_FAILED)
		munmap(job.memory, j->memory);
	out_release(&out);
	sort_runs_release(&runs);
	return rc;
}

/* ---- Joining the parts ---- */

/* Rank 0: the part being received, and the writer of the whole. */
struct assembly {
	const struct index_job *job;
	struct shoal_writer *writer;
	int fd;
};

static int append_part(struct assembly *a, struct shoal_err *err)
{
	int fd = a->fd;

	a->fd = -1;
	return index_append_part(a->writer, fd, err);
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
		a->fd = spill_open(a->job->tmp_dir, err);
		if (a->fd < 0)
			return a->fd;
	}
	rc = pwrite_all(a->fd, data, len, off);
	if (rc < 0)
		return fail_to_write(a->job->tmp_dir, rc, err);
	return off + len == total ? append_part(a, err) : 0;
}

/* @fd: this rank's part; -1 on rank 0, which has a writer instead. */
static int assemble(struct index_job *j, int fd, struct shoal_err *err)
{
	struct assembly a = { .job = j, .writer = index_job_output(j), .fd = -1 };
	struct outgoing out = { .fd = fd };
	struct comm_blob mine = { .read = read_outgoing, .self = &out };
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	int rc;

	if (end < 0)
		return err_set_errno(err, err_errno(), "cannot read a temporary file back");
	mine.len = (uint64_t)end;
	rc = comm_gather(j->comm, &mine, 0, (size_t)u64_min(BUDGET_MAX, j->memory / 2), take_part,
			 &a, err);
	if (a.fd >= 0)
		close(a.fd);
	if (rc == 0 && a.writer) {
		j->writer = j->final = NULL; /* sealing frees it */
		rc = shoal_writer_seal(a.writer, err);
		if (rc == 0) /* it cannot be undone from here on */
			comm_defer_stop(j->comm, true);
	}
	return rc;
}

/* ---- All of it ---- */

/* Replace the writer of this rank's names by one with samples; on rank 0 these are the beginning of
 * the whole. */
static int look_inside_part(struct index_job *j, const struct shoal_writer_options *names,
			    struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_writer_options wo = *names;
	struct shoal_writer *part = j->writer, *to = j->final;
	int rc = 0;

	j->writer = NULL; /* sealing frees it */
	wo.extents = wo.sizes = true;
	wo.samples_per_file = 0;
	if (!to) {
		rc = shoal_writer_open(NULL, &wo, &j->writer, err);
		to = j->writer;
	}
	if (rc == 0)
		return index_job_look_inside(j, part, to, result, err);
	shoal_writer_abort(part);
	return rc;
}

/* Write this rank's range: to an unnamed file, or on rank 0 to the beginning of the whole. */
static int write_part(struct index_job *j, struct incoming *in, int *ret_fd,
		      struct shoal_index_result *result, struct shoal_err *err)
{
	bool whole = j->writer;
	struct shoal_writer_options wo = { .root = j->root.uri,
					   .sizes = index_scan_sizes(j),
					   .samples_per_file = index_job_samples(j),
					   .tmp_dir = j->tmp_dir,
					   .etags = j->tree->etags };
	int rc = whole ? 0 : shoal_writer_open(NULL, &wo, &j->writer, err);

	if (rc == 0) {
		j->digester = writer_digester(j->writer);
		rc = merge_part(j, in, &result->nr_repeated, err);
	}
	result->nr_sealers = j->nr_sealers;
	result->nr_names = j->nr_put;
	result->nr_odd_etags = j->nr_unkept;
	if (rc == 0 && j->options->samples)
		rc = look_inside_part(j, &wo, result, err);
	if (rc == 0 && !whole && j->writer) {
		struct shoal_writer *part = j->writer;

		j->writer = NULL; /* sealing frees it */
		*ret_fd = writer_seal_nameless(part, err);
		rc = *ret_fd < 0 ? *ret_fd : 0;
	}
	return rc;
}

static int exchange(struct index_job *j, const struct index_splitters *cuts, struct incoming *in,
		    struct shoal_index_result *result, struct shoal_err *err)
{
	struct sort_run *runs = calloc((size_t)cuts->nr + 1, sizeof(*runs));
	int fd = spill_open(j->tmp_dir, err), rc = fd < 0 ? fd : 0;

	if (rc == 0 && !runs)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = split_runs(j, cuts, j->sorter, fd, runs, &result->nr_repeated, err);
	j->sorter = sorter_free(j->sorter); /* its memory is needed */
	if (rc == 0) {
		in->fd = spill_open(j->tmp_dir, err);
		rc = in->fd < 0 ? in->fd : send_runs(j, fd, runs, in, err);
	}
	if (fd >= 0)
		close(fd);
	free(runs);
	return rc;
}

/* All ranks agree on whether these are enough names to replace what is there. */
static int exchange_check_least(struct index_job *j, uint64_t nr_names, struct shoal_err *err)
{
	uint64_t all[2] = { nr_names,
			    j->least }; /* names of all ranks; the minimum of rank 0 counts */
	int rc = comm_reduce(j->comm, COMM_SUM, all, ARRAY_LEN(all), err);

	if (rc < 0 || all[0] >= all[1])
		return rc;
	j->refused = all[0] == 0;
	if (j->refused)
		return err_set(err, -ENOENT, "there are no names to make a catalog of");
	if (j->place->rank > 0)
		return err_set(err, -EREMOTEIO, "another rank has failed");
	return output_permit(j->output, all[0], err);
}

/* The catalog counts the damaged files of all ranks. */
static int exchange_add_unreadable(struct index_job *j, uint64_t nr, struct shoal_err *err)
{
	int rc = comm_reduce(j->comm, COMM_SUM, &nr, 1, err);

	return rc < 0 ? rc : index_job_add_unreadable(j, nr, err);
}

int index_exchange_seal(struct index_job *j, struct shoal_index_result *result,
			struct shoal_err *err)
{
	size_t size = (size_t)j->place->size;
	struct incoming in = { .fd = -1,
			       .tmp_dir = j->tmp_dir,
			       .start = calloc(size, sizeof(*in.start)),
			       .run = calloc(size, sizeof(*in.run)) };
	struct index_splitters cuts = { 0 };
	uint64_t listed;
	int part_fd = -1, rc = 0;

	if (!in.start || !in.run)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = index_splitters_agree(&cuts, j->comm, &j->sample, err);
	if (rc == 0)
		rc = exchange(j, &cuts, &in, result, err);
	listed = result->nr_unreadable;
	if (rc == 0)
		rc = write_part(j, &in, &part_fd, result, err);
	if (rc == 0 && j->options->samples && j->tree->keep_going)
		rc = exchange_add_unreadable(j, result->nr_unreadable - listed, err);
	if (in.fd >= 0)
		close(in.fd);
	if (rc == 0 && j->options->careful)
		rc = exchange_check_least(j, result->nr_names, err);
	if (rc == 0)
		rc = assemble(j, part_fd, err);
	if (rc == 0) /* no rank reports completion before the catalog exists */
		rc = comm_barrier(j->comm, err);
	if (part_fd >= 0)
		close(part_fd);
	index_splitters_release(&cuts);
	free(in.start);
	free(in.run);
	return rc;
}
