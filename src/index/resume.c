#include "index/resume.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/publish.h"
#include "base/span.h"

/*
 * The file: magic; varints started, nr_names, nr_unreadable, runs_end; root and listing, each a
 * varint and its bytes; the length of the runs as 8 bytes and the runs; the same for sums and
 * units; XXH3 of all before it.
 */
#define MAGIC     "SHOALCP3"
#define MAGIC_LEN 8u
#define SUM_LEN   8u

/* Read at once to check the runs. */
#define SUM_BYTES (1u << 20)

/* How often: at least this many seconds apart, and so that they take a twentieth of the time. */
#define SECONDS 5.0
#define SHARE   20.0

/* What runs are read by when their names are looked at. */
#define SAMPLE_BYTES (256u << 10)

/* ---- Reading ---- */

static const char *text_of(struct shoal_span *s, size_t *ret_len)
{
	uint64_t len = shoal_span_varint(s);

	*ret_len = (size_t)len;
	return (const char *)shoal_span_bytes(s, len);
}

/* A stretch after eight bytes of length. */
static struct shoal_span stretch(struct shoal_span *s)
{
	const uint8_t *head = shoal_span_bytes(s, 8);
	uint64_t len = s->bad ? 0 : shoal_le64_load(head);
	const uint8_t *at = shoal_span_bytes(s, len);

	return (struct shoal_span){ .p = at, .end = s->bad ? at : at + len };
}

int index_checkpoint_parse(const void *buf, size_t len, struct index_checkpoint *ret_checkpoint)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_span s = { .p = buf, .end = (const uint8_t *)buf + len };

	if (len < MAGIC_LEN + SUM_LEN || memcmp(buf, MAGIC, MAGIC_LEN) != 0)
		return -EBADMSG;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (XXH3_64bits(buf, len - SUM_LEN) != shoal_le64_load(s.end - SUM_LEN))
		return -EBADMSG;
#endif
	s.end -= SUM_LEN;
	s.p += MAGIC_LEN;
	c.started = shoal_span_varint(&s);
	c.nr_names = shoal_span_varint(&s);
	c.nr_unreadable = shoal_span_varint(&s);
	c.runs_end = shoal_span_varint(&s);
	c.root = text_of(&s, &c.root_len);
	c.listing = text_of(&s, &c.listing_len);
	c.runs = stretch(&s);
	c.sums = stretch(&s);
	c.units = stretch(&s);
	if (s.bad || shoal_span_left(&s) > 0)
		return -EBADMSG;
	*ret_checkpoint = c;
	return 0;
}

int index_checkpoint_run(struct shoal_span *runs, uint64_t runs_end, struct index_run *ret_run)
{
	if (shoal_span_left(runs) == 0)
		return 0;
	ret_run->off = shoal_span_varint(runs);
	ret_run->len = shoal_span_varint(runs);
	ret_run->etags = false; /* whoever knows what was listed says otherwise */
	ret_run->shared = (uint32_t)shoal_min(shoal_span_varint(runs), SHOAL_NAME_MAX);
	if (runs->bad || ret_run->off > runs_end || ret_run->len > runs_end - ret_run->off)
		return -EBADMSG;
	return 1;
}

int index_checkpoint_unit(struct shoal_span *units, const void **ret_unit, size_t *ret_len)
{
	uint64_t len;

	if (shoal_span_left(units) == 0)
		return 0;
	len = shoal_span_varint(units);
	*ret_unit = shoal_span_bytes(units, len);
	*ret_len = (size_t)len;
	return units->bad || len > STORE_UNIT_MAX ? -EBADMSG : 1;
}

/* ---- Opening ---- */

/* What is asked for, and where; without when. */
static char *fingerprint(const struct index_resume_job *job)
{
	struct index_listing l = *job->listing;
	char *text, *all = NULL, ranks[64] = "";

	l.started = 0;
	text = index_listing_text(&l);
	if (job->nr_ranks > 1)
		snprintf(ranks, sizeof(ranks), "rank %d of %d\n", job->rank, job->nr_ranks);
	if (!text || asprintf(&all, "%swhere %s\n%s", text, job->where, ranks) < 0)
		all = NULL;
	free(text);
	return all;
}

char *index_resume_path(const char *output, const char *suffix)
{
	const char *slash = strrchr(output, '/');
	const char *base = slash ? slash + 1 : output;
	char *name = NULL;

	if (asprintf(&name, "%.*s.%s.%s", (int)(base - output), output, base, suffix) < 0)
		return NULL;
	return name;
}

/* The same for one of several ranks. */
static char *path_of_rank(const char *output, const char *suffix, int rank, int nr_ranks)
{
	char with_rank[32];

	if (nr_ranks == 1)
		return index_resume_path(output, suffix);
	snprintf(with_rank, sizeof(with_rank), "%s.%d", suffix, rank);
	return index_resume_path(output, with_rank);
}

/* XXH3 of a stretch of the runs' file. */
static int sum_runs(int fd, uint64_t from, uint64_t end, uint64_t *ret_sum)
{
	XXH3_state_t *state = XXH3_createState();
	uint8_t *buf = malloc(SUM_BYTES);
	int rc = state && buf ? 0 : -ENOMEM;

	if (rc == 0)
		XXH3_64bits_reset(state);
	while (rc == 0 && from < end) {
		size_t n = (size_t)shoal_min(SUM_BYTES, end - from);

		rc = shoal_pread_all(fd, buf, n, from);
		if (rc == 0)
			XXH3_64bits_update(state, buf, n);
		from += n;
	}
	if (rc == 0)
		*ret_sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	free(buf);
	return rc;
}

/* Whether the runs are still what was written. */
static int check_sums(struct index_resume *r, const struct index_checkpoint *c)
{
	struct shoal_span sums = c->sums;

	while (shoal_span_left(&sums) > 0) {
		uint64_t end = shoal_span_varint(&sums), sum = 0;
		const uint8_t *want = shoal_span_bytes(&sums, 8);
		int rc;

		if (sums.bad || end < r->summed || end > c->runs_end)
			return -EBADMSG;
		rc = sum_runs(r->spill.fd, r->summed, end, &sum);
		if (rc < 0 || sum != shoal_le64_load(want))
			return rc < 0 ? rc : -EBADMSG;
		r->summed = end;
	}
	shoal_buf_append(&r->sums, c->sums.p, shoal_span_left(&c->sums));
	return r->summed == c->runs_end ? r->sums.rc : -EBADMSG;
}

static int take_over(struct index_resume *r, const struct index_checkpoint *c,
		     struct shoal_err *err)
{
	struct shoal_span runs = c->runs;
	struct index_run run;
	struct stat st;
	int rc;

	if (c->root_len != strlen(r->root) || memcmp(c->root, r->root, c->root_len) != 0 ||
	    c->listing_len != strlen(r->listing) ||
	    memcmp(c->listing, r->listing, c->listing_len) != 0)
		return shoal_fail(
			err, -EINVAL,
			"'%s' is of a listing of something else, or with other options%s: "
			"give the same, or remove that file",
			r->state_path, r->nr_ranks > 1 ? " or other ranks" : "");
	if (r->nr_ranks > 1 && c->started != r->started) /* left over from another one */
		return 0;
	while ((rc = index_checkpoint_run(&runs, c->runs_end, &run)) > 0) {
		run.etags = r->etags; /* or the listing's text would be another */
		rc = index_runs_add(&r->runs, &run);
		if (rc < 0)
			return shoal_fail(err, rc, "out of memory");
	}
	if (rc < 0 || fstat(r->spill.fd, &st) < 0 || (uint64_t)st.st_size < c->runs_end ||
	    check_sums(r, c) < 0)
		return shoal_fail(
			err, -EBADMSG,
			"'%s' is damaged, or not what '%s' was written with: remove both, "
			"and start anew",
			r->runs_path, r->state_path);
	r->started = c->started;
	r->nr_names = c->nr_names;
	r->nr_unreadable = c->nr_unreadable;
	r->spill.end = c->runs_end;
	r->units = c->units;
	r->found = true;
	return 0;
}

static int open_checkpoint(struct index_resume *r, struct shoal_err *err)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_err why = { "" };
	int rc = shoal_map_open(r->state_path, &r->map, &why);

	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = index_checkpoint_parse(r->map.addr, r->map.len, &c);
	if (rc < 0)
		return shoal_fail(err, rc, "'%s' cannot be used to go on: remove it%s%s",
				  r->state_path, *why.msg ? ": " : "", why.msg);
	return take_over(r, &c, err);
}

/* Whether there was one to remove. */
static bool forget(const char *output, int rank, int nr_ranks)
{
	static const char *const suffixes[] = { "resume", "runs" };
	bool found = false;

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(suffixes); i++) {
		char *path = path_of_rank(output, suffixes[i], rank, nr_ranks);

		found |= path && unlink(path) == 0;
		free(path);
	}
	return found;
}

void index_resume_forget(const char *output)
{
	(void)forget(output, 0, 1);
	for (int r = 0; forget(output, r, INT_MAX); r++)
		;
}

uint64_t index_resume_started(const char *output, int nr_ranks, uint64_t now)
{
	char *path = path_of_rank(output, "resume", 0, nr_ranks);
	struct shoal_map map = SHOAL_MAP_CLOSED;
	struct index_checkpoint c = { .root = "", .listing = "" };

	if (path && shoal_map_open(path, &map, NULL) == 0 &&
	    index_checkpoint_parse(map.addr, map.len, &c) == 0)
		now = shoal_min(now, c.started);
	shoal_map_close(&map);
	free(path);
	return now;
}

/* One process leaves other files than several ranks do. */
static int check_ranks(const struct index_resume_job *job, struct shoal_err *err)
{
	bool one = job->nr_ranks == 1;
	char *other = path_of_rank(job->output, "resume", 0, one ? INT_MAX : 1);
	bool there = other && access(other, F_OK) == 0;
	int rc = 0;

	if (there)
		rc = shoal_fail(err, -EINVAL,
				"'%s' is of a listing by %s: go on with as many, or remove that "
				"file",
				other, one ? "several ranks" : "one process");
	free(other);
	return rc;
}

int index_resume_open(struct index_resume *r, const struct index_resume_job *job,
		      struct shoal_err *err)
{
	int rc;

	*r = (struct index_resume){ .rank = job->rank,
				    .nr_ranks = job->nr_ranks,
				    .root = job->root,
				    .started = job->listing->started,
				    .etags = job->listing->etags,
				    .map = SHOAL_MAP_CLOSED,
				    .sums = { .max = SIZE_MAX },
				    .spill = { .fd = -1, .runs = &r->runs } };
	r->listing = fingerprint(job);
	r->runs_path = path_of_rank(job->output, "runs", job->rank, job->nr_ranks);
	r->state_path = path_of_rank(job->output, "resume", job->rank, job->nr_ranks);
	if (!r->listing || !r->runs_path || !r->state_path)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = check_ranks(job, err);
	if (rc < 0)
		return rc;
	r->spill.fd = open(r->runs_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->spill.fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot write '%s'", r->runs_path);
	rc = open_checkpoint(r, err);
	/* What is behind the last checkpoint is of no use, and without one all is. */
	if (rc == 0 && ftruncate(r->spill.fd, (off_t)r->spill.end) < 0)
		rc = shoal_fail_errno(err, shoal_errno(), "cannot write '%s'", r->runs_path);
	return rc;
}

void index_resume_close(struct index_resume *r, bool done)
{
	/* A checkpoint that was refused, say because it is of other options, keeps its runs. */
	bool of_use = !done && r->state_path && access(r->state_path, F_OK) == 0;

	if (r->spill.fd >= 0)
		close(r->spill.fd);
	shoal_map_close(&r->map);
	if ((done || r->alone) && r->state_path) {
		unlink(r->state_path);
		of_use = false;
	}
	if (r->spill.fd >= 0 && !of_use)
		unlink(r->runs_path);
	index_runs_release(&r->runs);
	shoal_buf_release(&r->sums);
	free(r->listing);
	free(r->runs_path);
	free(r->state_path);
	*r = (struct index_resume){ .map = SHOAL_MAP_CLOSED, .spill.fd = -1 };
}

int index_resume_units(struct index_resume *r, struct index_walk *walk, struct shoal_err *err)
{
	const void *unit;
	size_t len;
	int rc;

	while ((rc = index_checkpoint_unit(&r->units, &unit, &len)) > 0) {
		rc = index_walk_push(walk, unit, len, err);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? shoal_fail(err, rc, "'%s' is damaged: remove it", r->state_path) : 0;
}

int index_resume_sample(const struct index_resume *r, struct index_sample *sample,
			struct shoal_err *err)
{
	uint8_t *buf = malloc(SAMPLE_BYTES);
	struct index_run_reader *reader = calloc(1, sizeof(*reader));
	int rc = buf && reader ? 0 : -ENOMEM;

	for (size_t i = 0; i < r->runs.nr && rc == 0; i++) {
		index_run_open(reader, r->spill.fd, &r->runs.run[i], buf, SAMPLE_BYTES);
		while ((rc = index_run_next(reader)) == 0 && !reader->done)
			index_sample_see(sample, reader->entry.name, reader->entry.len);
	}
	free(reader);
	free(buf);
	return rc < 0 ? shoal_fail_errno(err, rc, "cannot read '%s'", r->runs_path) : 0;
}

/* ---- Writing ---- */

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A checkpoint on its way to the disk. */
struct writing {
	struct index_resume *resume;
	struct shoal_out out;
	XXH3_state_t *sum;
	uint64_t nr_names, nr_unreadable;
	/* Units come before it is known where the runs end up, and lie in a file of their own
	 * first. */
	int units_fd;
	struct shoal_out units;
};

static void put(struct writing *w, const void *data, size_t len)
{
	XXH3_64bits_update(w->sum, data, len);
	shoal_out_write(&w->out, data, len);
}

static void put_varint(struct writing *w, uint64_t v)
{
	uint8_t bytes[10];

	put(w, bytes, (size_t)(shoal_varint_put(bytes, v) - bytes));
}

static void put_text(struct writing *w, const char *text)
{
	put_varint(w, strlen(text));
	put(w, text, strlen(text));
}

static int put_unit(void *self, const void *unit, size_t len, struct shoal_err *err)
{
	struct writing *w = self;
	uint8_t head[10];

	shoal_out_write(&w->units, head, (size_t)(shoal_varint_put(head, len) - head));
	shoal_out_write(&w->units, unit, len);
	return w->units.rc < 0 ? shoal_fail_errno(err, w->units.rc, "cannot write a checkpoint")
			       : 0;
}

/* Copy the units behind the rest. */
static int put_units(struct writing *w)
{
	uint64_t len, at = 0;
	struct shoal_le64 head;
	uint8_t buf[4096];

	shoal_out_flush(&w->units);
	len = shoal_out_tell(&w->units);
	head = shoal_le64_of(len);
	put(w, &head, sizeof(head));
	while (at < len && w->units.rc == 0) {
		size_t n = (size_t)shoal_min(sizeof(buf), len - at);

		w->units.rc = shoal_pread_all(w->units_fd, buf, n, at);
		put(w, buf, n);
		at += n;
	}
	return w->units.rc;
}

static void put_runs(struct writing *w, const struct index_runs *runs)
{
	struct shoal_buf b = { .max = SIZE_MAX };
	struct shoal_le64 head;

	for (size_t i = 0; i < runs->nr; i++) {
		shoal_buf_varint(&b, runs->run[i].off);
		shoal_buf_varint(&b, runs->run[i].len);
		shoal_buf_varint(&b, runs->run[i].shared);
	}
	head = shoal_le64_of(b.len);
	put(w, &head, sizeof(head));
	if (b.len)
		put(w, b.data, b.len);
	if (b.rc < 0)
		w->out.rc = b.rc;
	shoal_buf_release(&b);
}

static void put_sums(struct writing *w)
{
	struct shoal_le64 head = shoal_le64_of(w->resume->sums.len);

	put(w, &head, sizeof(head));
	if (w->resume->sums.len)
		put(w, w->resume->sums.data, w->resume->sums.len);
}

/* Note what was written since the last checkpoint. */
static int add_sum(struct index_resume *r, uint64_t end)
{
	struct shoal_le64 le;
	uint64_t sum = 0;
	int rc;

	if (end == r->summed)
		return 0;
	rc = sum_runs(r->spill.fd, r->summed, end, &sum);
	if (rc < 0)
		return rc;
	le = shoal_le64_of(sum);
	shoal_buf_varint(&r->sums, end);
	shoal_buf_append(&r->sums, &le, sizeof(le));
	r->summed = end;
	return r->sums.rc;
}

/* With the walk held still, and all units put: spill what is in memory, and write the rest. */
static int put_rest(void *self, struct shoal_err *err)
{
	struct writing *w = self;
	const struct index_runs *runs;
	struct shoal_le64 sum;
	uint64_t end;
	int rc = shoal_sorter_flush(w->resume->sorter, &runs, &end, err);

	if (rc < 0)
		return rc;
	if (fdatasync(w->resume->spill.fd) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot sync '%s'",
					w->resume->runs_path);
	rc = add_sum(w->resume, end);
	if (rc < 0)
		return shoal_fail_errno(err, rc, "cannot read '%s' back", w->resume->runs_path);
	put(w, MAGIC, MAGIC_LEN);
	put_varint(w, w->resume->started);
	put_varint(w, w->nr_names);
	put_varint(w, w->nr_unreadable);
	put_varint(w, end);
	put_text(w, w->resume->root);
	put_text(w, w->resume->listing);
	put_runs(w, runs);
	put_sums(w);
	rc = put_units(w);
	sum = shoal_le64_of(XXH3_64bits_digest(w->sum));
	shoal_out_write(&w->out, &sum, sizeof(sum));
	shoal_out_flush(&w->out);
	rc = shoal_first_error(rc, w->out.rc);
	return rc < 0 ? shoal_fail_errno(err, rc, "cannot write a checkpoint") : 0;
}

static int write_checkpoint(struct index_resume *r, struct index_walk *walk,
			    const struct index_walk_state *state, struct shoal_err *err)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	struct writing w = { .resume = r,
			     .sum = XXH3_createState(),
			     .nr_names = r->nr_names + state->nr_names,
			     .nr_unreadable = r->nr_unreadable + state->nr_trouble,
			     .units_fd = -1 };
	char *dir = shoal_dir_of(r->state_path);
	int rc = dir && w.sum ? shoal_publish_open(r->state_path, &pub, err) : -ENOMEM;

	if (rc == 0)
		w.units_fd = shoal_spill_open(dir, err);
	if (rc == 0 && w.units_fd < 0)
		rc = w.units_fd;
	if (rc == 0) {
		XXH3_64bits_reset(w.sum);
		rc = shoal_first_error(shoal_out_init(&w.out, pub.fd, 0, 1u << 16),
				       shoal_out_init(&w.units, w.units_fd, 0, 1u << 16));
	}
	if (rc == 0)
		rc = index_walk_checkpoint(walk, put_unit, put_rest, &w, err);
	if (rc == 0)
		rc = shoal_publish_commit(&pub, err);
	shoal_publish_abort(&pub);
	shoal_out_release(&w.out);
	shoal_out_release(&w.units);
	if (w.units_fd >= 0)
		close(w.units_fd);
	XXH3_freeState(w.sum);
	free(dir);
	return rc;
}

int index_resume_begin(struct index_resume *r, struct index_walk *walk, struct shoal_sorter *sorter,
		       struct shoal_err *err)
{
	const struct index_walk_state nothing = { 0 };

	r->sorter = sorter;
	return write_checkpoint(r, walk, &nothing, err);
}

int index_resume_checkpoint(struct index_resume *r, struct index_walk *walk,
			    struct shoal_sorter *sorter, const struct index_walk_state *state,
			    bool now, struct shoal_err *err)
{
	double start = now_seconds();
	int rc;

	if (r->next == 0)
		r->next = start + SECONDS;
	if (!now && start < r->next)
		return 0;
	/* Names of directories that are not finished would be listed again in any case. */
	if (!state->idle && state->nr_steps == r->nr_finished)
		return 0;
	r->sorter = sorter;
	rc = write_checkpoint(r, walk, state, err);
	if (rc < 0)
		return rc;
	r->found = true;
	r->nr_finished = state->nr_steps;
	r->took = now_seconds() - start;
	r->next = start + r->took + (r->took * SHARE > SECONDS ? r->took * SHARE : SECONDS);
	return 1;
}
