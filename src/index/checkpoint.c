#include "index/checkpoint.h"

#include <assert.h>
#include <dirent.h>
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
#include "base/map.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/span.h"
#include "base/text.h"
#include "index/job.h"
#include "index/walk.h"

/* Bytes read at a time to check the runs. */
#define SUM_BYTES (1u << 20)

/* At least this many seconds between checkpoints, and at most a twentieth of the time is spent
 * on them. */
#define SECONDS 5.0
#define SHARE   20.0

/* ---- The files ---- */

char *index_resume_path(const char *output, const char *suffix)
{
	const char *base = path_base(output);
	char *name = NULL;

	if (asprintf(&name, "%.*s.%s.%s", (int)(base - output), output, base, suffix) < 0)
		return NULL;
	return name;
}

char *index_resume_path_of(const char *output, const char *suffix, int rank, int nr_ranks)
{
	char with_rank[64];

	if (rank == 0)
		return index_resume_path(output, suffix);
	snprintf(with_rank, sizeof(with_rank), "%s.%d-of-%d", suffix, rank, nr_ranks);
	return index_resume_path(output, with_rank);
}

void index_resume_remove(const char *output, int rank, int nr_ranks)
{
	static const char *const suffixes[] = { "resume", "runs" };

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		char *path = index_resume_path_of(output, suffixes[i], rank, nr_ranks);

		if (path)
			unlink(path);
		free(path);
	}
}

/* The number of ranks in a file name: @start, which ends in a dot, and "RANK-of-RANKS". */
static uint64_t ranks_of(const char *name, const char *start)
{
	static const char digits[] = "0123456789", of[] = "-of-";
	size_t len = strlen(start), nr;
	uint64_t nr_ranks = 0;

	if (strncmp(name, start, len) != 0)
		return 0;
	name += len;
	nr = strspn(name, digits);
	if (nr == 0 || strncmp(name + nr, of, strlen(of)) != 0)
		return 0;
	return parse_u64(name + nr + strlen(of), &nr_ranks) == 0 ? nr_ranks : 0;
}

void index_resume_sweep(const char *output, int nr_ranks)
{
	char *dir_path = path_dir(output);
	char *resume = index_resume_path(output, "resume."),
	     *runs = index_resume_path(output, "runs.");
	DIR *dir = dir_path && resume && runs ? opendir(dir_path) : NULL;
	const struct dirent *e;

	while (dir && (e = readdir(dir)) != NULL) {
		uint64_t of = ranks_of(e->d_name, path_base(resume)) +
			      ranks_of(e->d_name, path_base(runs));

		if (of > 0 && of != (uint64_t)nr_ranks)
			unlinkat(dirfd(dir), e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	free(dir_path);
	free(resume);
	free(runs);
}

int index_checkpoint_map(const char *path, struct map *ret_map, struct shoal_err *err)
{
	int fd = publish_open_own(path, O_RDONLY, err);

	return fd < 0 ? fd : map_open_fd(fd, ret_map, err);
}

int index_resume_ranks(const char *output)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct map map = MAP_CLOSED;
	char *path = index_resume_path(output, "resume");
	int nr_ranks = 0;

	if (path && index_checkpoint_map(path, &map, NULL) == 0 &&
	    index_checkpoint_parse(map.addr, map.len, &c) == 0)
		nr_ranks = (int)c.nr_ranks;
	map_close(&map);
	free(path);
	return nr_ranks;
}

void index_resume_forget(const char *output)
{
	int nr_ranks = index_resume_ranks(output);

	for (int k = 1; k < nr_ranks; k++)
		index_resume_remove(output, k, nr_ranks);
	index_resume_remove(output, 0, 1);
}

/* ---- Reading ---- */

int index_checkpoint_sum(int fd, uint64_t from, uint64_t end, uint64_t *ret_sum)
{
	XXH3_state_t *state = XXH3_createState();
	uint8_t *buf = malloc(SUM_BYTES);
	int rc = state && buf ? 0 : -ENOMEM;

	if (rc == 0)
		XXH3_64bits_reset(state);
	while (rc == 0 && from < end) {
		size_t n = (size_t)u64_min(SUM_BYTES, end - from);

		rc = pread_all(fd, buf, n, from);
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

#define SUM_LEN 8u

static const char *text_of(struct span *s, size_t *ret_len)
{
	uint64_t len = span_varint(s);

	*ret_len = (size_t)len;
	return (const char *)span_bytes(s, len);
}

/* Bytes after their length, which takes eight bytes. */
static struct span stretch(struct span *s)
{
	const uint8_t *head = span_bytes(s, 8);
	uint64_t len = s->bad ? 0 : le64_load(head);
	const uint8_t *at = span_bytes(s, len);

	return (struct span){ .p = at, .end = s->bad ? at : at + len };
}

bool index_checkpoint_is_other_version(const void *buf, size_t len)
{
	size_t name_len = INDEX_CHECKPOINT_MAGIC_LEN - 1; /* a digit follows */

	return len >= INDEX_CHECKPOINT_MAGIC_LEN &&
	       memcmp(buf, INDEX_CHECKPOINT_MAGIC, name_len) == 0 &&
	       ((const char *)buf)[name_len] != INDEX_CHECKPOINT_MAGIC[name_len];
}

int index_checkpoint_parse(const void *buf, size_t len, struct index_checkpoint *ret_checkpoint)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct span s = { .p = buf, .end = (const uint8_t *)buf + len };

	if (len < INDEX_CHECKPOINT_MAGIC_LEN + SUM_LEN ||
	    memcmp(buf, INDEX_CHECKPOINT_MAGIC, INDEX_CHECKPOINT_MAGIC_LEN) != 0)
		return -EBADMSG;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (XXH3_64bits(buf, len - SUM_LEN) != le64_load(s.end - SUM_LEN))
		return -EBADMSG;
#endif
	s.end -= SUM_LEN;
	s.p += INDEX_CHECKPOINT_MAGIC_LEN;
	c.started = span_varint(&s);
	c.nr_names = span_varint(&s);
	c.nr_unreadable = span_varint(&s);
	c.nr_foreign = span_varint(&s);
	c.runs_end = span_varint(&s);
	c.rank = span_varint(&s);
	c.nr_ranks = span_varint(&s);
	c.session = span_varint(&s);
	c.root = text_of(&s, &c.root_len);
	c.listing = text_of(&s, &c.listing_len);
	c.runs = stretch(&s);
	c.sums = stretch(&s);
	c.units = stretch(&s);
	c.handoffs = stretch(&s);
	c.got = stretch(&s);
	if (s.bad || span_left(&s) > 0 || c.rank >= c.nr_ranks || c.nr_ranks > INT_MAX)
		return -EBADMSG;
	*ret_checkpoint = c;
	return 0;
}

int index_checkpoint_run(struct span *runs, uint64_t runs_end, struct sort_run *ret_run)
{
	if (span_left(runs) == 0)
		return 0;
	/* Pieces of one run count as runs of their own: each of them is sorted. */
	*ret_run = (struct sort_run){ .off = span_varint(runs) };
	ret_run->len = span_varint(runs);
	ret_run->shared = (uint32_t)u64_min(span_varint(runs), SHOAL_NAME_MAX);
	if (runs->bad || ret_run->off > runs_end || ret_run->len > runs_end - ret_run->off)
		return -EBADMSG;
	return 1;
}

int index_checkpoint_handoff(struct span *handoffs, uint64_t *ret_to, uint64_t *ret_nr,
			     struct index_unit_ref *ret_unit)
{
	if (span_left(handoffs) == 0)
		return 0;
	*ret_to = span_varint(handoffs);
	*ret_nr = span_varint(handoffs);
	if (handoffs->bad || span_left(handoffs) == 0)
		return -EBADMSG;
	return index_unit_next(handoffs, ret_unit);
}

uint64_t index_checkpoint_got(const struct index_checkpoint *c, uint64_t from)
{
	struct span got = c->got;
	uint64_t nr = 0;

	for (uint64_t i = 0; i <= from && !got.bad; i++)
		nr = span_varint(&got);
	return got.bad ? 0 : nr;
}

/* ---- Writing ---- */

/* A checkpoint that is being written. */
struct writing {
	struct index_resume *resume;
	struct sorter *sorter;
	struct out out;
	XXH3_state_t *sum;
	uint64_t nr_names, nr_unreadable, nr_foreign;
	/* Units are written before the end of the runs is known, so they go to a file of their
	 * own first. */
	int units_fd;
	struct out units;
	struct buf handoffs; /* as much as a walk keeps of them in memory: a few megabytes */
};

static void checkpoint_put(struct writing *w, const void *data, size_t len)
{
	XXH3_64bits_update(w->sum, data, len);
	out_write(&w->out, data, len);
}

static void put_varint(struct writing *w, uint64_t v)
{
	uint8_t bytes[10];

	checkpoint_put(w, bytes, (size_t)(varint_put(bytes, v) - bytes));
}

static void checkpoint_put_text(struct writing *w, const char *text)
{
	put_varint(w, strlen(text));
	checkpoint_put(w, text, strlen(text));
}

static int put_unit(void *self, const struct index_handoff_id *handoff, const void *unit,
		    size_t len, struct shoal_err *err)
{
	struct writing *w = self;
	struct le32 head = index_unit_head(len);

	if (handoff) {
		buf_varint(&w->handoffs, (uint64_t)handoff->to);
		buf_varint(&w->handoffs, handoff->nr);
		buf_append(&w->handoffs, &head, sizeof(head));
		buf_append(&w->handoffs, unit, len);
		return w->handoffs.rc < 0 ? err_set(err, w->handoffs.rc, "out of memory") : 0;
	}
	out_write(&w->units, &head, sizeof(head));
	out_write(&w->units, unit, len);
	return w->units.rc < 0 ? err_set_errno(err, w->units.rc, "cannot write a checkpoint") : 0;
}

/* Append the units to the checkpoint. */
static int put_units(struct writing *w)
{
	uint64_t len, at = 0;
	struct le64 head;
	uint8_t buf[4096];

	out_flush(&w->units);
	len = out_tell(&w->units);
	head = le64_of(len);
	checkpoint_put(w, &head, sizeof(head));
	while (at < len && w->units.rc == 0) {
		size_t n = (size_t)u64_min(sizeof(buf), len - at);

		w->units.rc = pread_all(w->units_fd, buf, n, at);
		checkpoint_put(w, buf, n);
		at += n;
	}
	return w->units.rc;
}

/* Write a length and the bytes. Frees them. */
static void put_buf(struct writing *w, struct buf *b)
{
	struct le64 head = le64_of(b->len);

	checkpoint_put(w, &head, sizeof(head));
	if (b->len)
		checkpoint_put(w, b->data, b->len);
	if (b->rc < 0)
		w->out.rc = b->rc;
	buf_release(b);
}

static void put_got(struct writing *w)
{
	struct buf b = { .max = SIZE_MAX };

	for (int k = 0; w->resume->got && k < w->resume->nr_ranks; k++)
		buf_varint(&b, w->resume->got[k]);
	put_buf(w, &b);
}

static void put_runs(struct writing *w, const struct sort_runs *runs)
{
	struct buf b = { .max = SIZE_MAX };

	for (size_t i = 0; i < runs->nr; i++) {
		buf_varint(&b, runs->run[i].off);
		buf_varint(&b, runs->run[i].len);
		buf_varint(&b, runs->run[i].shared);
	}
	put_buf(w, &b);
}

static void put_sums(struct writing *w)
{
	struct le64 head = le64_of(w->resume->sums.len);

	checkpoint_put(w, &head, sizeof(head));
	if (w->resume->sums.len)
		checkpoint_put(w, w->resume->sums.data, w->resume->sums.len);
}

/* Add a checksum of what was written since the last checkpoint. */
static int add_sum(struct index_resume *r, uint64_t end)
{
	struct le64 le;
	uint64_t sum = 0;
	int rc;

	if (end == r->summed)
		return 0;
	rc = index_checkpoint_sum(r->spill.fd, r->summed, end, &sum);
	if (rc < 0)
		return rc;
	le = le64_of(sum);
	buf_varint(&r->sums, end);
	buf_append(&r->sums, &le, sizeof(le));
	r->summed = end;
	return r->sums.rc;
}

/* With the walk paused, and all units written: spill memory, and write the rest. */
static int put_rest(void *self, struct shoal_err *err)
{
	struct writing *w = self;
	const struct sort_runs *runs;
	struct le64 sum;
	uint64_t end;
	int rc = sorter_flush(w->sorter, &runs, &end, err);

	if (rc < 0)
		return rc;
	if (fdatasync(w->resume->spill.fd) < 0)
		return err_set_errno(err, err_errno(), "cannot sync '%s'", w->resume->runs_path);
	rc = add_sum(w->resume, end);
	if (rc < 0)
		return err_set_errno(err, rc, "cannot read '%s' back", w->resume->runs_path);
	checkpoint_put(w, INDEX_CHECKPOINT_MAGIC, INDEX_CHECKPOINT_MAGIC_LEN);
	put_varint(w, w->resume->started);
	put_varint(w, w->nr_names);
	put_varint(w, w->nr_unreadable);
	put_varint(w, w->nr_foreign);
	put_varint(w, end);
	put_varint(w, (uint64_t)w->resume->rank);
	put_varint(w, (uint64_t)w->resume->nr_ranks);
	put_varint(w, w->resume->session);
	checkpoint_put_text(w, w->resume->root);
	checkpoint_put_text(w, w->resume->listing);
	put_runs(w, runs);
	put_sums(w);
	rc = put_units(w);
	put_buf(w, &w->handoffs);
	put_got(w);
	sum = le64_of(XXH3_64bits_digest(w->sum));
	out_write(&w->out, &sum, sizeof(sum));
	out_flush(&w->out);
	rc = err_first(rc, w->out.rc);
	return rc < 0 ? err_set_errno(err, rc, "cannot write a checkpoint") : 0;
}

static int write_checkpoint(struct index_job *j, const struct index_walk_state *state,
			    struct shoal_err *err)
{
	struct index_resume *r = &j->resume;
	struct publish pub = PUBLISH_CLOSED;
	struct writing w = { .resume = r,
			     .sorter = j->sorter,
			     .sum = XXH3_createState(),
			     .nr_names = r->nr_names + state->nr_names,
			     .nr_unreadable = r->nr_unreadable + state->nr_trouble,
			     .nr_foreign = r->nr_foreign + state->nr_foreign,
			     .units_fd = -1,
			     .handoffs = { .max = SIZE_MAX } };
	char *dir = path_dir(r->state_path);
	int rc = dir && w.sum ? publish_open(r->state_path, &pub, err)
			      : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0)
		w.units_fd = spill_open(dir, err);
	if (rc == 0 && w.units_fd < 0)
		rc = w.units_fd;
	if (rc == 0) {
		XXH3_64bits_reset(w.sum);
		rc = err_first(out_init(&w.out, pub.fd, 0, 1u << 16),
			       out_init(&w.units, w.units_fd, 0, 1u << 16));
		if (rc < 0)
			err_set(err, rc, "out of memory");
	}
	if (rc == 0) { /* entries that are found and not added yet must be covered by a unit */
		sorter_hold(j->sorter);
		rc = index_walk_checkpoint(j->walk, put_unit, put_rest, &w, err);
		sorter_release(j->sorter);
	}
	if (rc == 0)
		rc = publish_commit(&pub, err);
	publish_abort(&pub);
	out_release(&w.out);
	out_release(&w.units);
	buf_release(&w.handoffs);
	if (w.units_fd >= 0)
		close(w.units_fd);
	XXH3_freeState(w.sum);
	free(dir);
	return rc;
}

int index_resume_begin(struct index_job *j, struct shoal_err *err)
{
	struct index_walk_state state = { 0 };
	int rc = index_walk_wait(j->walk, 0, &state,
				 err); /* what was taken over may be in the middle of a unit */

	return rc < 0 ? rc : write_checkpoint(j, &state, err);
}

int index_resume_checkpoint(struct index_job *j, const struct index_walk_state *state, bool now,
			    struct shoal_err *err)
{
	struct index_resume *r = &j->resume;
	double start = clock_seconds();
	int rc;

	if (r->next == 0)
		r->next = start + SECONDS;
	if (!now && start < r->next)
		return 0;
	/* Names of unfinished directories would be listed again in any case. */
	if (!state->idle && state->nr_steps == r->nr_finished)
		return 0;
	rc = write_checkpoint(j, state, err);
	if (rc < 0)
		return rc;
	r->found = true;
	r->nr_finished = state->nr_steps;
	r->took = clock_seconds() - start;
	r->next = start + r->took + (r->took * SHARE > SECONDS ? r->took * SHARE : SECONDS);
	return 1;
}
