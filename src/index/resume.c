#include "index/resume.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/le.h"
#include "base/publish.h"
#include "base/span.h"

/* Read at once to check the runs. */
#define SUM_BYTES (1u << 20)

/* How often: at least this many seconds apart, and so that they take a twentieth of the time. */
#define SECONDS 5.0
#define SHARE   20.0

/* What runs are read by when their names are looked at. */
#define SAMPLE_BYTES (256u << 10)

/* ---- Opening ---- */

/* What is asked for, and where; without when, and by how many. */
static char *fingerprint(const struct index_resume_job *job)
{
	struct index_listing l = *job->listing;
	char *text, *all = NULL;

	l.started = 0;
	text = index_listing_text(&l);
	if (!text || asprintf(&all, "%swhere %s\n", text, job->where) < 0)
		all = NULL;
	free(text);
	return all;
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

/* Whether the runs in @fd are what was written with @c. */
static int check_sums(int fd, const struct index_checkpoint *c)
{
	struct shoal_span sums = c->sums;
	uint64_t at = 0;
	struct stat st;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < c->runs_end)
		return -EBADMSG;
	while (shoal_span_left(&sums) > 0) {
		uint64_t end = shoal_span_varint(&sums), sum = 0;
		const uint8_t *want = shoal_span_bytes(&sums, 8);
		int rc;

		if (sums.bad || end < at || end > c->runs_end)
			return -EBADMSG;
		rc = sum_runs(fd, at, end, &sum);
		if (rc < 0 || sum != shoal_le64_load(want))
			return rc < 0 ? rc : -EBADMSG;
		at = end;
	}
	return at == c->runs_end ? 0 : -EBADMSG;
}

/* Note where the runs of @c are, which begin at @off of our file. */
static int add_runs(struct index_resume *r, const struct index_checkpoint *c, uint64_t off)
{
	struct shoal_span runs = c->runs;
	struct index_run run;
	int rc;

	while ((rc = index_checkpoint_run(&runs, c->runs_end, &run)) > 0) {
		run.off += off;
		run.etags = r->etags; /* or the listing's text would be another */
		rc = index_runs_add(&r->runs, &run);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* Append the runs of another rank, in @fd, to our own. */
static int copy_runs(struct index_resume *r, int fd, uint64_t len)
{
	uint8_t *buf = malloc(SUM_BYTES);
	int rc = buf ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < len;) {
		size_t n = (size_t)shoal_min(SUM_BYTES, len - at);

		rc = shoal_pread_all(fd, buf, n, at);
		if (rc == 0)
			rc = shoal_pwrite_all(r->spill.fd, buf, n, r->spill.end + at);
		at += n;
	}
	free(buf);
	return rc;
}

/* The runs of @c become ours. They are in our own file if @in_place, else in that at @path. */
static int take_runs(struct index_resume *r, const struct index_checkpoint *c, bool in_place,
		     const char *path)
{
	int fd = in_place ? r->spill.fd : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int rc = fd < 0 ? shoal_errno() : check_sums(fd, c);

	if (rc == 0)
		rc = add_runs(r, c, r->spill.end);
	if (rc == 0 && in_place) {
		shoal_buf_append(&r->sums, c->sums.p, shoal_span_left(&c->sums));
		r->summed = c->runs_end;
		rc = r->sums.rc;
	} else if (rc == 0) {
		rc = copy_runs(r, fd, c->runs_end);
	}
	if (fd >= 0 && !in_place)
		close(fd);
	r->spill.end += c->runs_end;
	return rc;
}

static bool is_of_this(const struct index_resume *r, const struct index_checkpoint *c)
{
	return c->root_len == strlen(r->root) && memcmp(c->root, r->root, c->root_len) == 0 &&
	       c->listing_len == strlen(r->listing) &&
	       memcmp(c->listing, r->listing, c->listing_len) == 0;
}

/* Read the checkpoint of old rank @k. -ENOENT without one. */
static int read_checkpoint(const struct index_resume *r, int k, struct shoal_map *ret_map,
			   struct index_checkpoint *ret_c, char **ret_path, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc;

	*ret_path = index_resume_path_of(r->output, "resume", k, r->old_ranks);
	if (!*ret_path)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = shoal_map_open(*ret_path, ret_map, &why);
	if (rc == -ENOENT)
		return rc;
	if (rc == 0)
		rc = index_checkpoint_parse(ret_map->addr, ret_map->len, ret_c);
	if (rc < 0)
		return shoal_fail(err, rc == -ENOENT ? -EIO : rc,
				  "'%s' cannot be used to go on: remove it%s%s", *ret_path,
				  *why.msg ? ": " : "", why.msg);
	return 0;
}

/*
 * Which of the gifts of @a its takers have in checkpoints of their own. Only of the same run of the
 * listing: gifts are counted anew in each.
 */
static int find_taken(const struct index_resume *r, struct index_adopted *a, struct shoal_err *err)
{
	struct shoal_span gifts = a->c.gifts;
	uint64_t to, nr;
	const void *unit;
	size_t len;

	if (shoal_span_left(&gifts) == 0)
		return 0;
	a->taken = malloc((size_t)r->old_ranks * sizeof(*a->taken));
	if (!a->taken)
		return shoal_fail(err, -ENOMEM, "out of memory");
	for (int k = 0; k < r->old_ranks; k++)
		a->taken[k] = UINT64_MAX; /* not looked up */
	while (index_checkpoint_gift(&gifts, &to, &nr, &unit, &len) > 0) {
		struct index_checkpoint c = { .root = "", .listing = "" };
		struct shoal_map map = SHOAL_MAP_CLOSED;
		char *path = NULL;

		if (to >= (uint64_t)r->old_ranks || a->taken[to] != UINT64_MAX)
			continue;
		a->taken[to] = 0;
		if (read_checkpoint(r, (int)to, &map, &c, &path, NULL) == 0 && is_of_this(r, &c) &&
		    c.started == r->started && c.session == a->c.session && c.rank == to)
			a->taken[to] = index_checkpoint_got(&c, a->c.rank);
		shoal_map_close(&map);
		free(path);
	}
	return 0;
}

static int missing(const char *path, struct shoal_err *err)
{
	return shoal_fail(err, -EBADMSG,
			  "'%s' is missing, or not of the listing that the other ranks left: "
			  "bring it back, or remove theirs to start anew",
			  path);
}

static int take_over(struct index_resume *r, struct index_adopted *a, const char *path,
		     struct shoal_err *err)
{
	bool in_place = a->c.rank == 0 || r->old_ranks == r->nr_ranks;
	char *runs = index_resume_path_of(r->output, "runs", (int)a->c.rank, r->old_ranks);
	int rc = runs ? take_runs(r, &a->c, in_place, runs) : -ENOMEM;

	if (rc == -ENOSPC || rc == -ENOMEM || rc == -EDQUOT)
		rc = shoal_fail_errno(err, rc, "cannot write '%s'", r->runs_path);
	else if (rc < 0)
		rc = shoal_fail(err, -EBADMSG,
				"'%s' is damaged, or not what '%s' was written with: remove both, "
				"and start anew",
				runs, path);
	free(runs);
	r->nr_names += a->c.nr_names;
	r->nr_unreadable += a->c.nr_unreadable;
	r->nr_foreign += a->c.nr_foreign;
	return rc == 0 ? find_taken(r, a, err) : rc;
}

/* Take over what old rank @k left. */
static int adopt(struct index_resume *r, int k, struct shoal_err *err)
{
	struct index_adopted *a = &r->adopted[r->nr_adopted++];
	char *path = NULL;
	int rc;

	*a = (struct index_adopted){ .map = SHOAL_MAP_CLOSED, .c = { .root = "", .listing = "" } };
	rc = read_checkpoint(r, k, &a->map, &a->c, &path, err);
	if (rc == -ENOENT ||
	    (rc == 0 && (!is_of_this(r, &a->c) || a->c.started != r->started ||
			 a->c.rank != (uint64_t)k || a->c.nr_ranks != (uint64_t)r->old_ranks)))
		rc = missing(path, err);
	if (rc == 0)
		rc = take_over(r, a, path, err);
	free(path);
	return rc;
}

/* Rank 0's checkpoint tells whether there is something to go on with, and how many left it. */
static int look(struct index_resume *r, struct shoal_err *err)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_map map = SHOAL_MAP_CLOSED;
	char *path = NULL;
	int rc = read_checkpoint(r, 0, &map, &c, &path, err);

	if (rc == 0 && !is_of_this(r, &c))
		rc = shoal_fail(err, -EINVAL,
				"'%s' is of a listing of something else, or with other options: "
				"give the same, or remove that file",
				path);
	if (rc == 0) {
		r->old_ranks = (int)c.nr_ranks;
		r->started = c.started;
	}
	shoal_map_close(&map);
	free(path);
	return rc == -ENOENT ? 0 : rc;
}

/* All that this rank has to take over. */
static int adopt_all(struct index_resume *r, struct shoal_err *err)
{
	bool as_before = r->old_ranks == r->nr_ranks;
	int step = as_before ? r->old_ranks : r->nr_ranks, rc = 0;

	r->adopted = calloc((size_t)(r->old_ranks / r->nr_ranks) + 1, sizeof(*r->adopted));
	if (!r->adopted)
		return shoal_fail(err, -ENOMEM, "out of memory");
	for (int k = r->rank; k < r->old_ranks && rc == 0; k += step)
		rc = adopt(r, k, err);
	r->found = rc == 0;
	return rc;
}

bool index_resume_is_dealt_anew(const struct index_resume *r)
{
	return r->found && r->old_ranks != r->nr_ranks;
}

void index_resume_drop_old(const struct index_resume *r)
{
	for (size_t i = 0; index_resume_is_dealt_anew(r) && i < r->nr_adopted; i++)
		if (r->adopted[i].c.rank > 0)
			index_resume_remove(r->output, (int)r->adopted[i].c.rank, r->old_ranks);
}

static int name_files(struct index_resume *r, const struct index_resume_job *job)
{
	r->listing = fingerprint(job);
	r->runs_path = index_resume_path_of(job->output, "runs", job->rank, job->nr_ranks);
	r->state_path = index_resume_path_of(job->output, "resume", job->rank, job->nr_ranks);
	if (job->nr_ranks > 1)
		r->got = calloc((size_t)job->nr_ranks, sizeof(*r->got));
	return r->listing && r->runs_path && r->state_path && (r->got || job->nr_ranks == 1)
		       ? 0
		       : -ENOMEM;
}

int index_resume_open(struct index_resume *r, const struct index_resume_job *job,
		      struct shoal_err *err)
{
	bool first = job->rank == 0;
	int rc;

	*r = (struct index_resume){ .rank = job->rank,
				    .nr_ranks = job->nr_ranks,
				    .old_ranks = first ? 0 : job->old_ranks,
				    .output = job->output,
				    .root = job->root,
				    .started = first ? job->listing->started : job->started,
				    .session =
					    first ? shoal_clock_ns(CLOCK_REALTIME) : job->session,
				    .etags = job->listing->etags,
				    .sums = { .max = SIZE_MAX },
				    .spill = { .fd = -1, .runs = &r->runs } };
	rc = name_files(r, job);
	if (rc < 0)
		return shoal_fail(err, rc, "out of memory");
	rc = first ? look(r, err) : 0;
	if (rc < 0)
		return rc;
	r->spill.fd = open(r->runs_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->spill.fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot write '%s'", r->runs_path);
	if (r->old_ranks > 0)
		rc = adopt_all(r, err);
	/* What is behind the last checkpoint is of no use, and without one all is. */
	if (rc == 0 && ftruncate(r->spill.fd, (off_t)r->spill.end) < 0)
		rc = shoal_fail_errno(err, shoal_errno(), "cannot write '%s'", r->runs_path);
	return rc;
}

/* Whether rank 0 has written a checkpoint in this run: then it counts on ours. */
static bool is_counted_on(const struct index_resume *r)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_map map = SHOAL_MAP_CLOSED;
	char *path = index_resume_path(r->output, "resume");
	bool counted = path && shoal_map_open(path, &map, NULL) == 0 &&
		       index_checkpoint_parse(map.addr, map.len, &c) == 0 &&
		       c.session == r->session;

	shoal_map_close(&map);
	free(path);
	return counted;
}

void index_resume_close(struct index_resume *r, bool done)
{
	/* A checkpoint that was refused, say because it is of other options, keeps its runs. */
	bool of_use = !done && r->state_path && access(r->state_path, F_OK) == 0;

	if (r->spill.fd >= 0)
		close(r->spill.fd);
	for (size_t i = 0; i < r->nr_adopted; i++) {
		shoal_map_close(&r->adopted[i].map);
		free(r->adopted[i].taken);
	}
	free(r->adopted);
	free(r->got);
	if (r->state_path && (done || (r->alone && !is_counted_on(r)))) {
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
	*r = (struct index_resume){ .spill.fd = -1 };
}

/* What was waiting or begun, and what was given away and did not arrive. */
static int push_units(const struct index_adopted *a, struct index_walk *walk, struct shoal_err *err)
{
	struct shoal_span units = a->c.units, gifts = a->c.gifts;
	uint64_t to, nr;
	const void *unit;
	size_t len;
	int rc;

	while ((rc = index_checkpoint_unit(&units, &unit, &len)) > 0) {
		rc = index_walk_push(walk, unit, len, err);
		if (rc < 0)
			return rc;
	}
	while (rc == 0 && (rc = index_checkpoint_gift(&gifts, &to, &nr, &unit, &len)) > 0) {
		bool taken = to < a->c.nr_ranks && nr <= a->taken[to];

		rc = taken ? 0 : index_walk_push(walk, unit, len, err);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? shoal_fail(err, rc, "the checkpoint of rank %llu is damaged: start anew",
				   (unsigned long long)a->c.rank)
		      : 0;
}

int index_resume_units(struct index_resume *r, struct index_walk *walk, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->nr_adopted && rc == 0; i++)
		rc = push_units(&r->adopted[i], walk, err);
	return rc;
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
	return (double)shoal_clock_ns(CLOCK_MONOTONIC) * 1e-9;
}

/* A checkpoint on its way to the disk. */
struct writing {
	struct index_resume *resume;
	struct shoal_out out;
	XXH3_state_t *sum;
	uint64_t nr_names, nr_unreadable, nr_foreign;
	/* Units come before it is known where the runs end up, and lie in a file of their own
	 * first. */
	int units_fd;
	struct shoal_out units;
	struct shoal_buf gifts; /* as much as a walk remembers of them: a few megabytes */
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

static int put_unit(void *self, const struct index_walk_gift *gift, const void *unit, size_t len,
		    struct shoal_err *err)
{
	struct writing *w = self;
	uint8_t head[10];

	if (gift) {
		shoal_buf_varint(&w->gifts, (uint64_t)gift->to);
		shoal_buf_varint(&w->gifts, gift->nr);
		shoal_buf_varint(&w->gifts, len);
		shoal_buf_append(&w->gifts, unit, len);
		return w->gifts.rc < 0 ? shoal_fail(err, w->gifts.rc, "out of memory") : 0;
	}
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

/* A stretch: how long it is, and the bytes. Frees them. */
static void put_buf(struct writing *w, struct shoal_buf *b)
{
	struct shoal_le64 head = shoal_le64_of(b->len);

	put(w, &head, sizeof(head));
	if (b->len)
		put(w, b->data, b->len);
	if (b->rc < 0)
		w->out.rc = b->rc;
	shoal_buf_release(b);
}

static void put_got(struct writing *w)
{
	struct shoal_buf b = { .max = SIZE_MAX };

	for (int k = 0; w->resume->got && k < w->resume->nr_ranks; k++)
		shoal_buf_varint(&b, w->resume->got[k]);
	put_buf(w, &b);
}

static void put_runs(struct writing *w, const struct index_runs *runs)
{
	struct shoal_buf b = { .max = SIZE_MAX };

	for (size_t i = 0; i < runs->nr; i++) {
		shoal_buf_varint(&b, runs->run[i].off);
		shoal_buf_varint(&b, runs->run[i].len);
		shoal_buf_varint(&b, runs->run[i].shared);
	}
	put_buf(w, &b);
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
	put(w, INDEX_CHECKPOINT_MAGIC, INDEX_CHECKPOINT_MAGIC_LEN);
	put_varint(w, w->resume->started);
	put_varint(w, w->nr_names);
	put_varint(w, w->nr_unreadable);
	put_varint(w, w->nr_foreign);
	put_varint(w, end);
	put_varint(w, (uint64_t)w->resume->rank);
	put_varint(w, (uint64_t)w->resume->nr_ranks);
	put_varint(w, w->resume->session);
	put_text(w, w->resume->root);
	put_text(w, w->resume->listing);
	put_runs(w, runs);
	put_sums(w);
	rc = put_units(w);
	put_buf(w, &w->gifts);
	put_got(w);
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
			     .nr_foreign = r->nr_foreign + state->nr_foreign,
			     .units_fd = -1,
			     .gifts = { .max = SIZE_MAX } };
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
	shoal_buf_release(&w.gifts);
	if (w.units_fd >= 0)
		close(w.units_fd);
	XXH3_freeState(w.sum);
	free(dir);
	return rc;
}

int index_resume_begin(struct index_resume *r, struct index_walk *walk, struct shoal_sorter *sorter,
		       struct shoal_err *err)
{
	struct index_walk_state state = { 0 };
	int rc = index_walk_wait(walk, 0, &state, err); /* what was taken over may be begun */

	r->sorter = sorter;
	return rc < 0 ? rc : write_checkpoint(r, walk, &state, err);
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
