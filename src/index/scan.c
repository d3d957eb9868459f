#include "index/scan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/publish.h"
#include "index/share.h"

/* How long the owner of the walk waits before it shows how far it is. */
#define TICK_US 50000

/* Connections to a server, of all ranks on a node. */
#define BUCKET_THREADS 64u

static bool is_bucket(const struct index_scan *s)
{
	return strncmp(s->store->uri, "s3://", strlen("s3://")) == 0;
}

/* ---- What is not listed ---- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What lies in a directory of temporary files, on file systems where these need names. */
static const char *const spilled[] = { ".shoal-spill-", ".nfs0000" };

/* Begin to hide something in the directory @dir, which may not be there. */
static struct store_hidden *hide_in(struct index_scan *s, const char *dir)
{
	struct store_hidden *h = &s->hidden[s->nr_hidden];
	struct stat st;

	if (!dir || stat(dir, &st) < 0)
		return NULL;
	*h = (struct store_hidden){ .dev = st.st_dev, .ino = st.st_ino };
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(spilled); i++)
		h->prefix[i] = spilled[i];
	s->nr_hidden++;
	return h;
}

/*
 * The catalog and what lies beside it while it is made are no part of the dataset: the one rule for
 * that, whether links are followed or not. More may follow a partial name where there are no locks
 * (see shoal_publish_open()), and a rank's number the others.
 */
static void hide_catalog(struct index_scan *s, struct store_hidden *h, const char *path)
{
	struct stat st;

	for (size_t i = 1; i < SHOAL_ARRAY_LEN(s->own); i++)
		if (s->own[i])
			h->prefix[SHOAL_ARRAY_LEN(spilled) + i - 1] = base_of(s->own[i]);
	h->name = base_of(s->own[0]);
	if (stat(path, &st) == 0) {
		h->file_dev = st.st_dev;
		h->file_ino = st.st_ino;
	}
}

/* What @uri is called in the bucket, or below the prefix, at @where; NULL: it is not there. */
static const char *key_in(const char *where, const char *uri)
{
	size_t len = strlen(where);

	return strncmp(uri, where, len) == 0 && uri[len] == '/' ? uri + len + 1 : NULL;
}

static int find_own(struct index_scan *s, const char *catalog, struct shoal_err *err)
{
	const char *at[2] = { NULL, catalog };
	int rc;

	if (is_bucket(s))
		s->own_key =
			key_in(s->store->uri, s->options->goes_to ? s->options->goes_to : catalog);
	if (strncmp(s->store->uri, "file://", strlen("file://")) != 0)
		return 0;
	rc = shoal_publish_names(catalog, &s->own[0], &s->own[1], err);
	if (rc < 0)
		return rc;
	/* Where @catalog is a link these lie beside the link, and the others where it leads to. */
	s->own[2] = index_resume_path(catalog, "runs");
	s->own[3] = index_resume_path(catalog, "resume");
	s->own[4] = s->own[3] ? index_resume_path(s->own[3], "") : NULL;
	at[0] = s->own[0];
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(at); i++) {
		char *dir = shoal_dir_of(at[i]);
		struct store_hidden *h = hide_in(s, dir);

		if (h)
			hide_catalog(s, h, s->own[0]);
		free(dir);
	}
	(void)hide_in(s, s->options->tmp_dir);
	return 0;
}

static bool wanted(void *self, const char *name, size_t len, bool is_dir)
{
	const struct index_scan *s = self;

	return index_filter_wants(&s->filter, name, len, is_dir);
}

/* ---- What is ---- */

static bool is_own_key(const struct index_scan *s, const struct store_entry *e)
{
	return s->own_key && strlen(s->own_key) == e->len &&
	       memcmp(s->own_key, e->name, e->len) == 0;
}

static int take(void *self, const struct store_entry *entries, size_t nr, struct shoal_err *err)
{
	struct index_scan *s = self;

	for (size_t i = 0; i < nr; i++) {
		struct shoal_entry e = { .name = (const uint8_t *)entries[i].name,
					 .len = entries[i].len,
					 .size = entries[i].size,
					 .samples = s->samples,
					 .etag = entries[i].etag };
		int rc;

		if (is_own_key(s, &entries[i]))
			continue;
		rc = shoal_sorter_add(s->sorter, &e, err);
		if (rc < 0)
			return rc;
		if (s->sample)
			index_sample_see(s->sample, e.name, e.len);
	}
	return 0;
}

static int known(void *self, struct store_sink *sink, const struct store_dir *dir,
		 struct shoal_err *err)
{
	const struct index_scan *s = self;

	return index_update_take(s->update, s->store, sink, dir, err);
}

static void warn(void *self, const char *words)
{
	const struct index_scan *s = self;

	if (s->options->warn)
		s->options->warn(s->options->self, words);
}

static void count(const struct index_walk_state *state, struct shoal_index_result *r)
{
	r->nr_directories = state->nr_directories;
	r->nr_repeated = state->nr_repeated;
	r->nr_unreadable = state->nr_trouble;
	r->nr_vanished = state->skipped[STORE_SKIP_VANISHED];
	r->nr_links = state->skipped[STORE_SKIP_LINK];
	r->nr_loops = state->skipped[STORE_SKIP_LOOP];
	r->nr_special = state->skipped[STORE_SKIP_SPECIAL];
	r->nr_other_fs = state->skipped[STORE_SKIP_OTHER_FS];
	r->nr_filtered = state->skipped[STORE_SKIP_FILTERED];
}

/* ---- Walking ---- */

/* Descriptors that a listing needs beside the directories: for runs, units, and a checkpoint or
 * columns of the catalog: six of its streams grow while directories are listed. */
#define OTHER_FILES 8u

/* A limit from which on nobody needs to count. */
#define MANY_FILES 1024u

/* As many threads as may have a directory open at once, one in any case. */
static unsigned limit_by_files(unsigned threads)
{
	struct rlimit limit;
	uint64_t used = OTHER_FILES;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= MANY_FILES)
		return threads;
	for (int fd = 0; fd < (int)limit.rlim_cur; fd++)
		used += fcntl(fd, F_GETFD) >= 0;
	if (limit.rlim_cur <= used)
		return 1;
	return (unsigned)shoal_min(threads, limit.rlim_cur - used);
}

/*
 * Threads wait for the disk or the network most of the time when nothing is cached. The ranks of a
 * node share them.
 */
unsigned index_scan_threads(const struct index_scan *s)
{
	uint64_t cpus = shoal_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	uint64_t node = shoal_min(64, shoal_max(16, 2 * cpus));

	if (s->tree->nr_threads)
		return s->tree->nr_threads;
	if (is_bucket(s)) /* they wait for the server nearly all the time */
		node = BUCKET_THREADS;
	return (unsigned)shoal_max(4, node / (uint64_t)s->place->node_size);
}

/* Cores for this rank's threads; 0: who asked for a number of threads gets them at once. */
static unsigned cores_to_list(const struct index_scan *s)
{
	uint64_t node = shoal_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));

	if (is_bucket(s) || s->tree->nr_threads)
		return 0;
	return (unsigned)shoal_max(
		1, shoal_min(shoal_nr_cores(), node / (uint64_t)s->place->node_size));
}

static int tick(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	const struct shoal_index_options *o = ((const struct index_scan *)self)->options;

	if (index_stopped(o->stop))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (o->progress)
		o->progress(o->self,
			    &(struct shoal_index_progress){ .nr_names = state->nr_names,
							    .nr_pending = state->nr_pending,
							    .where = state->where });
	return 0;
}

static int walk_alone(struct index_scan *s, struct index_walk *w, struct index_walk_state *state,
		      struct shoal_err *err)
{
	struct index_resume *r = s->resume;
	int rc = r && r->found ? index_resume_units(r, w, err) : 0;

	if (rc == 0 && r && index_resume_is_dealt_anew(r)) {
		rc = index_resume_begin(r, w, s->sorter, err);
		if (rc == 0)
			index_resume_drop_old(r);
	}
	while (rc == 0 && !state->idle) {
		rc = index_walk_wait(w, TICK_US, state, err);
		if (rc == 0)
			rc = tick(s, state, err);
		if (rc == 0 && r) /* the last one before sealing, too */
			rc = index_resume_checkpoint(r, w, s->sorter, state, state->idle, err);
		rc = rc > 0 ? 0 : rc;
	}
	if (rc == -ECANCELED && r) /* as far as we got; without it an older one will do */
		(void)!index_resume_checkpoint(r, w, s->sorter, state, true, NULL);
	return rc;
}

/* Begin with a part of the store. */
static int push_shard(const struct index_scan *s, struct index_walk *w, struct shoal_err *err)
{
	uint8_t *unit = malloc(STORE_UNIT_MAX);
	size_t len = 0;
	int rc;

	if (!unit)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = store_shard(s->store, s->tree->shard, s->tree->nr_shards, s->options->stop, unit, &len,
			 err);
	if (rc == 0)
		rc = index_walk_push(w, unit, len, err);
	free(unit);
	return rc;
}

/*
 * All ranks' first checkpoints, rank 0's last: where that is, the others are. So one that is
 * interrupted goes through with it: it cannot know whether the others have gone on.
 */
static int begin_checkpoints(struct index_scan *s, struct shoal_err *err)
{
	bool first = s->place->rank == 0;
	int rc = first ? 0 : index_resume_begin(s->resume, s->walk, s->sorter, err);

	s->resume->alone = !first && s->resume->old_ranks != s->place->size;
	shoal_comm_set_stop(s->comm, NULL);
	if (rc == 0)
		rc = shoal_comm_barrier(s->comm, err);
	if (rc == 0)
		s->resume->alone = false; /* rank 0's may be there from here on, and needs ours */
	if (rc == 0 && first)
		rc = index_resume_begin(s->resume, s->walk, s->sorter, err);
	if (rc == 0)
		rc = shoal_comm_barrier(s->comm, err);
	if (rc == 0)
		index_resume_drop_old(s->resume);
	s->resume->found |= rc == 0;
	shoal_comm_set_stop(s->comm, s->options->stop);
	return rc;
}

static int save(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	struct index_scan *s = self;

	return index_resume_checkpoint(s->resume, s->walk, s->sorter, state, false, err);
}

static int walk_together(struct index_scan *s, struct index_walk_state *state,
			 struct shoal_err *err)
{
	struct index_resume *r = s->resume;
	struct index_share_owner owner = {
		.tick = tick, .save = r ? save : NULL, .got = r ? r->got : NULL, .self = s
	};
	int rc = r && r->found ? index_resume_units(r, s->walk, err) : 0;

	if (rc == 0 && r)
		rc = begin_checkpoints(s, err);
	if (rc == 0)
		rc = index_share_walk(s->comm, s->walk, &owner, state, err);
	/* Before sealing; or as far as we got: whoever failed, the other ranks' work is good. */
	if (r && r->found) {
		int saved = index_resume_checkpoint(r, s->walk, s->sorter, state, true,
						    rc == 0 ? err : NULL);

		rc = rc == 0 && saved < 0 ? saved : rc;
	}
	return rc;
}

/* What a server was asked for @ns by up to @nr_connections at once. */
static void count_requests(const struct index_scan *s, uint64_t ns, unsigned nr_connections,
			   struct shoal_index_result *r)
{
	struct store_requests requests = store_requests(s->store);

	r->nr_requests = requests.nr;
	r->nr_retries = requests.nr_retries;
	r->nr_throttled = requests.nr_throttled;
	r->busy_us = requests.busy_ns / 1000;
	r->allowed_us = requests.nr ? ns / 1000 * nr_connections : 0;
}

static int walk(struct index_scan *s, const char *tmp_dir, struct shoal_index_result *result,
		struct shoal_err *err)
{
	struct index_walk_options wo = {
		.store = s->store,
		.list = { .sizes = !s->tree->no_sizes,
			  .follow = s->tree->follow,
			  .one_fs = s->tree->one_fs,
			  .hidden = s->hidden,
			  .nr_hidden = s->nr_hidden,
			  .etags = s->tree->etags },
		.nr_threads = is_bucket(s) ? index_scan_threads(s)
					   : limit_by_files(index_scan_threads(s)),
		.nr_cores = cores_to_list(s),
		.wanted = s->filter.nr_include || s->filter.nr_exclude ? wanted : NULL,
		.known = s->update ? known : NULL,
		.keep_going = s->tree->keep_going,
		.trouble = warn,
		.tmp_dir = tmp_dir,
		.take = take,
		.self = s,
		.take_next = s->take_next,
		.next_self = s->next_self,
		.next_memory = s->next_memory,
		.samples = s->samples,
	};
	struct index_walk_state state = { 0 };
	struct index_walk *w = NULL;
	uint64_t start = shoal_clock_ns(CLOCK_MONOTONIC);
	bool afresh = s->place->rank == 0 && (!s->resume || !s->resume->found);
	int rc = index_walk_start(&wo, afresh && s->tree->nr_shards == 0, &w, err);

	s->walk = w;
	if (rc == 0 && afresh && s->tree->nr_shards > 0)
		rc = push_shard(s, w, err);
	if (rc == 0)
		rc = s->place->size == 1 ? walk_alone(s, w, &state, err)
					 : walk_together(s, &state, err);
	s->walk = NULL;
	index_walk_free(w);
	count(&state, result);
	count_requests(s, shoal_clock_ns(CLOCK_MONOTONIC) - start, wo.nr_threads, result);
	s->nr_foreign = state.nr_foreign + (s->resume ? s->resume->nr_foreign : 0);
	if (s->resume)
		result->nr_unreadable += s->resume->nr_unreadable;
	if (s->update) {
		result->nr_reused = s->update->nr_names;
		result->nr_unchanged = s->update->nr_directories;
	}
	return rc;
}

/* ---- Opening and closing ---- */

int index_scan_open(struct index_scan *s, struct shoal_comm *comm, const char *where,
		    const char *catalog, const struct shoal_tree_options *tree,
		    const struct shoal_index_options *options, struct shoal_err *err)
{
	int rc;

	*s = (struct index_scan){
		.comm = comm,
		.place = shoal_comm_place(comm),
		.tree = tree,
		.options = options,
		.filter = { .include = tree->include,
			    .nr_include = tree->nr_include,
			    .exclude = tree->exclude,
			    .nr_exclude = tree->nr_exclude },
		.samples = options->samples_per_file ? options->samples_per_file : 1,
	};
	rc = index_filter_check(&s->filter, err);
	if (rc == 0)
		rc = shoal_store_open(where, &s->store, err);
	assert(rc < 0 || s->store);
	if (rc == 0 && tree->etags && !is_bucket(s))
		rc = shoal_fail(err, -EINVAL, "only objects in a bucket have ETags to keep");
	return rc == 0 && catalog ? find_own(s, catalog, err) : rc;
}

void index_scan_release(struct index_scan *s)
{
	shoal_store_close(s->store);
	s->store = NULL;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(s->own); i++) {
		free(s->own[i]);
		s->own[i] = NULL;
	}
}

int index_scan_run(struct index_scan *s, struct shoal_sorter *sorter, struct index_sample *sample,
		   const char *tmp_dir, struct shoal_index_result *result, struct shoal_err *err)
{
	s->sorter = sorter;
	s->sample = sample;
	return walk(s, tmp_dir, result, err);
}

static uint64_t root_inode(const struct index_scan *s)
{
	struct stat st;

	if (strncmp(s->store->uri, "file://", strlen("file://")) != 0 ||
	    stat(s->store->uri + strlen("file://"), &st) < 0)
		return 0;
	return st.st_ino;
}

struct index_listing index_scan_listing(const struct index_scan *s)
{
	return (struct index_listing){ .started = shoal_clock_ns(CLOCK_REALTIME),
				       .inode = root_inode(s),
				       .sizes = !s->tree->no_sizes,
				       .follow = s->tree->follow,
				       .one_fs = s->tree->one_fs,
				       .etags = s->tree->etags,
				       .include = s->tree->include,
				       .nr_include = s->tree->nr_include,
				       .exclude = s->tree->exclude,
				       .nr_exclude = s->tree->nr_exclude };
}
