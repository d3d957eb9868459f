/* Resuming an interrupted listing: taking over its checkpoints. */
#include "index/checkpoint.h"

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
#include "base/text.h"
#include "index/job.h"
#include "index/walk.h"

/* Bytes read at a time to check the runs. */
#define SUM_BYTES (1u << 20)

/* Buffer for reading the names of runs. */
#define SAMPLE_BYTES (256u << 10)

/* ---- Opening ---- */

/* The request and the place; without the time and the number of ranks. */
static char *fingerprint(const struct index_job *job)
{
	const struct shoal_tree_options *tree = job->tree;
	struct index_provenance l = job->provenance;
	char *text, *all = NULL, shard[64] = "";

	if (tree->nr_shards > 0)
		snprintf(shard, sizeof(shard), " shard %u of %u", tree->shard, tree->nr_shards);
	l.started = 0;
	text = index_provenance_text(&l);
	if (!text || asprintf(&all, "%swhere %s%s\n", text, job->store->uri, shard) < 0)
		all = NULL;
	free(text);
	return all;
}

/* Whether the runs in @fd are those written with @c. */
static int check_sums(int fd, const struct index_checkpoint *c)
{
	struct span sums = c->sums;
	uint64_t at = 0;
	struct stat st;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < c->runs_end)
		return -EBADMSG;
	while (span_left(&sums) > 0) {
		uint64_t end = span_varint(&sums), sum = 0;
		const uint8_t *want = span_bytes(&sums, 8);
		int rc;

		if (sums.bad || end < at || end > c->runs_end)
			return -EBADMSG;
		rc = index_checkpoint_sum(fd, at, end, &sum);
		if (rc < 0 || sum != le64_load(want))
			return rc < 0 ? rc : -EBADMSG;
		at = end;
	}
	return at == c->runs_end ? 0 : -EBADMSG;
}

/* Record where the runs of @c are, which begin at @off of our file. */
static int add_runs(struct index_resume *r, const struct index_checkpoint *c, uint64_t off)
{
	struct span runs = c->runs;
	struct sort_run run;
	int rc;

	while ((rc = index_checkpoint_run(&runs, c->runs_end, &run)) > 0) {
		run.off += off;
		rc = sort_runs_add(&r->runs, &run);
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
		size_t n = (size_t)u64_min(SUM_BYTES, len - at);

		rc = pread_all(fd, buf, n, at);
		if (rc == 0)
			rc = pwrite_all(r->spill.fd, buf, n, r->spill.end + at);
		at += n;
	}
	free(buf);
	return rc;
}

/* Take over the runs of @c. They are in our own file if @in_place, otherwise in the file @path. */
static int take_runs(struct index_resume *r, const struct index_checkpoint *c, bool in_place,
		     const char *path)
{
	int fd = in_place ? r->spill.fd : publish_open_own(path, O_RDONLY, NULL);
	int rc = fd < 0 ? fd : check_sums(fd, c);

	if (rc == 0)
		rc = add_runs(r, c, r->spill.end);
	if (rc == 0 && in_place) {
		buf_append(&r->sums, c->sums.p, span_left(&c->sums));
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
static int read_checkpoint(const struct index_resume *r, int k, struct map *ret_map,
			   struct index_checkpoint *ret_c, char **ret_path, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc;

	*ret_path = index_resume_path_of(r->output, "resume", k, r->old_ranks);
	if (!*ret_path)
		return err_set(err, -ENOMEM, "out of memory");
	rc = index_checkpoint_map(*ret_path, ret_map, &why);
	if (rc == -ENOENT)
		return rc;
	if (rc == -EPERM)
		return err_set_as(err, rc, &why, "%s", why.msg);
	if (rc == 0)
		rc = index_checkpoint_parse(ret_map->addr, ret_map->len, ret_c);
	if (rc < 0 && ret_map->addr &&
	    index_checkpoint_is_other_version(ret_map->addr, ret_map->len))
		return err_set(err, rc,
			       "'%s' is a checkpoint of another version of Shoal: remove it to "
			       "start anew, or go on with that version",
			       *ret_path);
	if (rc < 0)
		return err_set_as(err, rc == -ENOENT ? -EIO : rc, &why,
				  "cannot continue from '%s': remove it%s%s", *ret_path,
				  *why.msg ? ": " : "", why.msg);
	return 0;
}

/* Find the handoffs of @a that the receivers have in checkpoints of their own. Only within the
 * same run of the listing: handoffs are numbered anew in each. */
static int find_taken(const struct index_resume *r, struct index_adopted *a, struct shoal_err *err)
{
	struct span handoffs = a->c.handoffs;
	uint64_t to, nr;
	struct index_unit_ref unit;

	if (span_left(&handoffs) == 0)
		return 0;
	a->taken = malloc((size_t)r->old_ranks * sizeof(*a->taken));
	if (!a->taken)
		return err_set(err, -ENOMEM, "out of memory");
	for (int k = 0; k < r->old_ranks; k++)
		a->taken[k] = UINT64_MAX; /* not looked up */
	while (index_checkpoint_handoff(&handoffs, &to, &nr, &unit) > 0) {
		struct index_checkpoint c = { .root = "", .listing = "" };
		struct map map = MAP_CLOSED;
		char *path = NULL;

		if (to >= (uint64_t)r->old_ranks || a->taken[to] != UINT64_MAX)
			continue;
		a->taken[to] = 0;
		if (read_checkpoint(r, (int)to, &map, &c, &path, NULL) == 0 && is_of_this(r, &c) &&
		    c.started == r->started && c.session == a->c.session && c.rank == to)
			a->taken[to] = index_checkpoint_got(&c, a->c.rank);
		map_close(&map);
		free(path);
	}
	return 0;
}

static int missing(const char *path, struct shoal_err *err)
{
	return err_set(err, -EBADMSG,
		       "'%s' is missing, or belongs to another listing than those of "
		       "the other ranks: restore it, or remove theirs to start again",
		       path);
}

static int take_over(struct index_resume *r, struct index_adopted *a, const char *path,
		     struct shoal_err *err)
{
	bool in_place = a->c.rank == 0 || r->old_ranks == r->nr_ranks;
	char *runs = index_resume_path_of(r->output, "runs", (int)a->c.rank, r->old_ranks);
	int rc = runs ? take_runs(r, &a->c, in_place, runs) : -ENOMEM;

	if (rc == -ENOSPC || rc == -ENOMEM || rc == -EDQUOT)
		rc = err_set_errno(err, rc, "cannot write '%s'", r->runs_path);
	else if (rc < 0)
		rc = err_set(err, -EBADMSG,
			     "'%s' is damaged, or does not belong to '%s': remove both and "
			     "start again",
			     runs, path);
	free(runs);
	r->nr_names += a->c.nr_names;
	r->nr_unreadable += a->c.nr_unreadable;
	r->nr_foreign += a->c.nr_foreign;
	return rc == 0 ? find_taken(r, a, err) : rc;
}

/* Take over the checkpoint of old rank @k. */
static int adopt(struct index_resume *r, int k, struct shoal_err *err)
{
	struct index_adopted *a = &r->adopted[r->nr_adopted++];
	char *path = NULL;
	int rc;

	*a = (struct index_adopted){ .map = MAP_CLOSED, .c = { .root = "", .listing = "" } };
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

/* Rank 0's checkpoint determines whether there is something to resume, and from how many ranks. */
static int resume_read_first(struct index_resume *r, struct shoal_err *err)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct map map = MAP_CLOSED;
	char *path = NULL;
	int rc = read_checkpoint(r, 0, &map, &c, &path, err);

	if (rc == 0 && !is_of_this(r, &c))
		rc = err_set(err, -EINVAL,
			     "'%s' belongs to a listing of something else, or with other "
			     "options: use the same, or remove that file",
			     path);
	if (rc == 0) {
		r->old_ranks = (int)c.nr_ranks;
		r->started = c.started;
	}
	map_close(&map);
	free(path);
	return rc == -ENOENT ? 0 : rc;
}

/* Take over everything that falls to this rank. */
static int adopt_all(struct index_resume *r, struct shoal_err *err)
{
	bool as_before = r->old_ranks == r->nr_ranks;
	int step = as_before ? r->old_ranks : r->nr_ranks, rc = 0;

	r->adopted = calloc((size_t)(r->old_ranks / r->nr_ranks) + 1, sizeof(*r->adopted));
	if (!r->adopted)
		return err_set(err, -ENOMEM, "out of memory");
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

static int name_files(struct index_resume *r, const struct index_job *job)
{
	r->listing = fingerprint(job);
	r->runs_path = index_resume_path_of(r->output, "runs", r->rank, r->nr_ranks);
	r->state_path = index_resume_path_of(r->output, "resume", r->rank, r->nr_ranks);
	if (r->nr_ranks > 1)
		r->got = calloc((size_t)r->nr_ranks, sizeof(*r->got));
	return r->listing && r->runs_path && r->state_path && (r->got || r->nr_ranks == 1)
		       ? 0
		       : -ENOMEM;
}

int index_resume_open(struct index_resume *r, const struct index_job *job, struct shoal_err *err)
{
	bool first = job->place->rank == 0;
	int rc;

	*r = (struct index_resume){ .rank = job->place->rank,
				    .nr_ranks = job->place->size,
				    .old_ranks = first ? 0 : r->old_ranks,
				    .output = job->options->output,
				    .root = job->root.uri,
				    .started = first ? job->provenance.started : r->started,
				    .session = first ? clock_wall() : r->session,
				    .sums = { .max = SIZE_MAX },
				    .spill = { .fd = -1, .runs = &r->runs } };
	rc = name_files(r, job);
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	rc = first ? resume_read_first(r, err) : 0;
	if (rc < 0)
		return rc;
	r->spill.fd = open(r->runs_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->spill.fd < 0)
		return err_set_errno(err, err_errno(), "cannot write '%s'", r->runs_path);
	rc = publish_check_own(r->spill.fd, r->runs_path, err);
	if (rc < 0) {
		close(r->spill.fd);
		r->spill.fd = -1; /* it is not removed either */
		return rc;
	}
	if (r->old_ranks > 0)
		rc = adopt_all(r, err);
	/* Data after the last checkpoint is useless, and without a checkpoint all of it is. */
	if (rc == 0 && ftruncate(r->spill.fd, (off_t)r->spill.end) < 0)
		rc = err_set_errno(err, err_errno(), "cannot write '%s'", r->runs_path);
	return rc;
}

/* Whether rank 0 has written a checkpoint in this run: then it relies on ours. */
static bool is_counted_on(const struct index_resume *r)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct map map = MAP_CLOSED;
	char *path = index_resume_path(r->output, "resume");
	bool counted = path && index_checkpoint_map(path, &map, NULL) == 0 &&
		       index_checkpoint_parse(map.addr, map.len, &c) == 0 &&
		       c.session == r->session;

	map_close(&map);
	free(path);
	return counted;
}

void index_resume_close(struct index_resume *r, bool done)
{
	/* A checkpoint that was refused, for example because of other options, keeps its runs. */
	bool of_use = !done && r->state_path && access(r->state_path, F_OK) == 0;

	if (r->spill.fd >= 0)
		close(r->spill.fd);
	for (size_t i = 0; i < r->nr_adopted; i++) {
		map_close(&r->adopted[i].map);
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
	sort_runs_release(&r->runs);
	buf_release(&r->sums);
	free(r->listing);
	free(r->runs_path);
	free(r->state_path);
	*r = (struct index_resume){ .spill.fd = -1 };
}

/* Units that were waiting or begun, and those handed off that did not arrive. */
static int resume_push_units(const struct index_adopted *a, struct index_walk *walk,
			     struct shoal_err *err)
{
	struct span units = a->c.units, handoffs = a->c.handoffs;
	uint64_t to, nr;
	struct index_unit_ref unit;
	int rc;

	while ((rc = index_unit_next(&units, &unit)) > 0) {
		rc = index_walk_push(walk, unit.unit, unit.len, err);
		if (rc < 0)
			return rc;
	}
	while (rc == 0 && (rc = index_checkpoint_handoff(&handoffs, &to, &nr, &unit)) > 0) {
		bool taken = to < a->c.nr_ranks && nr <= a->taken[to];

		rc = taken ? 0 : index_walk_push(walk, unit.unit, unit.len, err);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? err_set(err, rc, "the checkpoint of rank %llu is damaged: start again",
				(unsigned long long)a->c.rank)
		      : 0;
}

int index_resume_units(struct index_resume *r, struct index_walk *walk, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->nr_adopted && rc == 0; i++)
		rc = resume_push_units(&r->adopted[i], walk, err);
	return rc;
}

/* Runs are files, and a name from them goes into the catalog like one from a list. */
static bool is_good_name(const struct sort_entry *e, bool any_name)
{
	if (e->len == 0 || memchr(e->name, 0, e->len))
		return false;
	return any_name || (e->name[0] != '/' && !path_goes_up((const char *)e->name, e->len));
}

int index_resume_names(const struct index_resume *r, bool any_name, struct index_sample *sample,
		       struct shoal_err *err)
{
	uint8_t *buf = malloc(SAMPLE_BYTES);
	struct sort_run_reader *reader = calloc(1, sizeof(*reader));
	int rc = buf && reader ? 0 : -ENOMEM;

	for (size_t i = 0; i < r->runs.nr && rc == 0; i++) {
		sort_run_open(reader, r->spill.fd, &r->runs.run[i], buf, SAMPLE_BYTES);
		while ((rc = sort_run_next(reader)) == 0 && !reader->done) {
			if (!is_good_name(&reader->entry, any_name)) {
				rc = -EBADMSG;
				break;
			}
			if (sample)
				index_sample_see(sample, reader->entry.name, reader->entry.len);
		}
	}
	free(reader);
	free(buf);
	if (rc == -EBADMSG)
		return err_set(err, rc,
			       "'%s' is damaged: it has a name that no listing finds; "
			       "remove it to start again",
			       r->runs_path);
	return rc < 0 ? err_set_errno(err, rc, "cannot read '%s'", r->runs_path) : 0;
}
