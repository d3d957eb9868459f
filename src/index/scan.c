/* The store's side of a job: what is listed, what is hidden, and the walk. */
#include "index/job.h"

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
#include "index/balance.h"
#include "index/walk.h"
#include "store/posix/posix.h"
#include "store/uri.h"

/* How long the owner of the walk waits before it shows progress. */
#define TICK_US 50000

/* Connections to a server, over all ranks of a node. */
#define BUCKET_THREADS 64u

static bool is_bucket(const struct index_job *j)
{
	return j->store->traits.objects;
}

/* ---- What is not listed ---- */

/* Temporary files, on file systems where these need names. */
static const char *const spilled[] = { ".shoal-spill-", ".nfs0000" };

/* Begin to hide something in the directory @dir, which may not exist. */
static struct store_hidden *hide_in(struct index_job *j, const char *dir)
{
	struct store_hidden *h = &j->hidden[j->nr_hidden];
	struct stat st;

	if (!dir || stat(dir, &st) < 0)
		return NULL;
	*h = (struct store_hidden){ .dev = st.st_dev, .ino = st.st_ino };
	for (size_t i = 0; i < ARRAY_LEN(spilled); i++)
		h->prefix[i] = spilled[i];
	j->nr_hidden++;
	return h;
}

/*
 * The catalog and its companion files are not part of the dataset: this is the one rule for
 * that, whether links are followed or not. Other names may end in a rank's number.
 */
static void hide_catalog(struct index_job *j, struct store_hidden *h, const char *path)
{
	struct stat st;

	for (size_t i = 1; i < ARRAY_LEN(j->own); i++)
		if (j->own[i])
			h->prefix[ARRAY_LEN(spilled) + i - 1] = path_base(j->own[i]);
	h->name = path_base(j->own[0]);
	if (stat(path, &st) == 0) {
		h->file_dev = st.st_dev;
		h->file_ino = st.st_ino;
	}
}

static int find_own(struct index_job *j, const char *catalog, struct shoal_err *err)
{
	const char *at[2];
	int rc;

	if (is_bucket(j))
		j->own_key = store_uri_below(j->output && j->output->object ? j->output->object
									    : catalog,
					     j->store->uri);
	catalog = store_local_path(catalog);
	if (!j->store->traits.files || !catalog)
		return 0;
	at[1] = catalog;
	rc = publish_names(catalog, &j->own[0], &j->own[1], err);
	if (rc < 0)
		return rc;
	/* If @catalog is a link, these are beside the link, and the others beside its target. */
	j->own[2] = index_resume_path(catalog, "runs");
	j->own[3] = index_resume_path(catalog, "resume");
	j->own[4] = j->own[3] ? index_resume_path(j->own[3], "") : NULL;
	at[0] = j->own[0];
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		char *dir = path_dir(at[i]);
		struct store_hidden *h = hide_in(j, dir);

		if (h)
			hide_catalog(j, h, j->own[0]);
		free(dir);
	}
	(void)hide_in(j, j->options->tmp_dir);
	return 0;
}

static bool wanted(void *self, const char *name, size_t len, bool is_dir)
{
	const struct index_job *j = self;

	return index_filter_wants(&j->filter, name, len, is_dir);
}

/* ---- What is listed ---- */

static int scan_take(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		     bool group, struct shoal_err *err)
{
	struct index_job *j = self;

	for (size_t i = 0; j->samples && i < nr; i++)
		index_sample_see(&j->samples[thread], entries[i].name, entries[i].len);
	return sorter_add_many(j->sorter, thread, entries, nr, group, err);
}

/* A sample per thread, so that they need no lock: at most 64 KiB together, or two names each. */
static int scan_open_samples(struct index_job *j, unsigned nr_threads, struct shoal_err *err)
{
	int rc = 0;

	if (!j->sample.bytes)
		return 0;
	j->samples = calloc(nr_threads, sizeof(*j->samples));
	if (!j->samples)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; rc == 0 && i < nr_threads; i++)
		rc = index_sample_init(&j->samples[i], j->place->size * (int)nr_threads, err);
	return rc;
}

static void scan_join_samples(struct index_job *j, unsigned nr_threads)
{
	for (unsigned i = 0; j->samples && i < nr_threads; i++) {
		index_sample_join(&j->sample, &j->samples[i]);
		index_sample_release(&j->samples[i]);
	}
	free(j->samples);
	j->samples = NULL;
}

static int known(void *self, struct store_sink *sink, const struct store_dir *dir,
		 struct shoal_err *err)
{
	struct index_job *j = self;

	return index_update_take(&j->update, j->store, sink, dir, err);
}

static void scan_warn(void *self, const char *words)
{
	const struct index_job *j = self;

	if (j->options->warn)
		j->options->warn(j->options->self, words);
}

static void scan_count(const struct index_walk_state *state, struct shoal_index_result *r)
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

/* A limit that is never reached. */
#define MANY_FILES 1024u

/* As many threads as may have a directory open at once, at least one. */
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
	return (unsigned)u64_min(threads, limit.rlim_cur - used);
}

/* Threads wait for the disk or the network most of the time if nothing is cached. The ranks of a
 * node share them. */
unsigned index_scan_threads(const struct index_job *j)
{
	uint64_t cpus = u64_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	uint64_t node = u64_min(64, u64_max(16, 2 * cpus));

	if (j->tree && j->tree->nr_threads)
		return j->tree->nr_threads;
	if (is_bucket(j)) /* they wait for the server nearly all the time */
		node = BUCKET_THREADS;
	if (!j->place) /* a list: there is one rank */
		return (unsigned)node;
	return (unsigned)u64_max(4, node / (uint64_t)j->place->node_size);
}

unsigned index_scan_cores(const struct index_job *j)
{
	uint64_t node = u64_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));

	if (is_bucket(j) || (j->tree && j->tree->nr_threads))
		return 0;
	if (j->place)
		node /= (uint64_t)j->place->node_size;
	return (unsigned)u64_max(1, u64_min(cores_available(), node));
}

static int tick(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	const struct shoal_index_options *o = ((const struct index_job *)self)->options;

	if (stop_requested(o->stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (o->progress)
		o->progress(o->self,
			    &(struct shoal_index_progress){ .nr_names = state->nr_names,
							    .nr_pending = state->nr_pending,
							    .where = state->where });
	return 0;
}

static int walk_alone(struct index_job *j, struct index_walk_state *state, struct shoal_err *err)
{
	bool resume = j->tree->resume;
	int rc = j->resume.found ? index_resume_units(&j->resume, j->walk, err) : 0;

	if (rc == 0 && index_resume_is_dealt_anew(&j->resume)) {
		rc = index_resume_begin(j, err);
		if (rc == 0)
			index_resume_drop_old(&j->resume);
	}
	while (rc == 0 && !state->idle) {
		rc = index_walk_wait(j->walk, TICK_US, state, err);
		if (rc == 0)
			rc = tick(j, state, err);
		if (rc == 0 && resume) /* the last one before sealing, too */
			rc = index_resume_checkpoint(j, state, state->idle, err);
		rc = rc > 0 ? 0 : rc;
	}
	if (rc == -ECANCELED &&
	    resume) /* save the progress so far; on failure an older checkpoint is good enough */
		(void)!index_resume_checkpoint(j, state, true, NULL);
	return rc;
}

/* Begin with a part of the store. */
static int push_shard(const struct index_job *j, struct index_walk *w, struct shoal_err *err)
{
	uint8_t *unit = malloc(STORE_UNIT_MAX);
	size_t len = 0;
	int rc;

	if (!unit)
		return err_set(err, -ENOMEM, "out of memory");
	rc = store_shard(j->store, j->tree->shard, j->tree->nr_shards, j->options->stop, unit, &len,
			 err);
	if (rc == 0)
		rc = index_walk_push(w, unit, len, err);
	free(unit);
	return rc;
}

/* Write all ranks' first checkpoints, rank 0's last: if that exists, the others do. So an
 * interrupted rank completes this: it cannot know whether the others have continued. */
static int begin_checkpoints(struct index_job *j, struct shoal_err *err)
{
	bool first = j->place->rank == 0;
	int rc = first ? 0 : index_resume_begin(j, err);

	j->resume.alone = !first && j->resume.old_ranks != j->place->size;
	comm_defer_stop(j->comm, true);
	if (rc == 0)
		rc = comm_barrier(j->comm, err);
	if (rc == 0)
		j->resume.alone = false; /* rank 0's may exist from here on, and needs ours */
	if (rc == 0 && first)
		rc = index_resume_begin(j, err);
	if (rc == 0)
		rc = comm_barrier(j->comm, err);
	if (rc == 0)
		index_resume_drop_old(&j->resume);
	j->resume.found |= rc == 0;
	comm_defer_stop(j->comm, false);
	return rc;
}

static int scan_save(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	struct index_job *j = self;

	return index_resume_checkpoint(j, state, false, err);
}

static int walk_together(struct index_job *j, struct index_walk_state *state, struct shoal_err *err)
{
	bool resume = j->tree->resume;
	struct index_balance_owner owner = {
		.tick = tick, .save = resume ? scan_save : NULL, .got = j->resume.got, .self = j
	};
	int rc = j->resume.found ? index_resume_units(&j->resume, j->walk, err) : 0;

	if (rc == 0 && resume)
		rc = begin_checkpoints(j, err);
	if (rc == 0)
		rc = index_balance_walk(j->comm, j->walk, &owner, state, err);
	/* Before sealing; or after a failure: the other ranks' work is still good. */
	if (j->resume.found) {
		int saved = index_resume_checkpoint(j, state, true, rc == 0 ? err : NULL);

		rc = rc == 0 && saved < 0 ? saved : rc;
	}
	return rc;
}

/* The requests to a server during @ns on up to @nr_connections connections. */
static void count_requests(const struct index_job *j, uint64_t ns, unsigned nr_connections,
			   struct shoal_index_result *r)
{
	struct store_requests requests = store_requests(j->store);

	r->nr_requests = requests.nr;
	r->nr_retries = requests.nr_retries;
	r->nr_throttled = requests.nr_throttled;
	r->busy_us = requests.busy_ns / 1000;
	r->allowed_us = requests.nr ? ns / 1000 * nr_connections : 0;
}

int index_scan_run(struct index_job *j, struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_walk_options wo = {
		.store = j->store,
		.list = { .sizes = index_scan_sizes(j),
			  .follow = j->tree->follow,
			  .one_fs = j->tree->one_fs,
			  .hidden = j->hidden,
			  .nr_hidden = j->nr_hidden,
			  .etags = j->tree->etags },
		.nr_threads = is_bucket(j) ? index_scan_threads(j)
					   : limit_by_files(index_scan_threads(j)),
		.nr_cores = index_scan_cores(j),
		.wanted = j->filter.nr_include || j->filter.nr_exclude ? wanted : NULL,
		.known = j->tree->update ? known : NULL,
		.keep_going = j->tree->keep_going,
		.trouble = scan_warn,
		.tmp_dir = j->tmp_dir,
		.take = scan_take,
		.self = j,
		.take_next = j->in_order ? index_job_put_next : NULL,
		.see_next = index_job_see_pack,
		.take_next_pack = index_job_put_pack,
		.next_memory = j->next_memory,
		.samples = index_job_samples(j),
		.own_name = j->own_key,
	};
	struct index_walk_state state = { 0 };
	uint64_t start = clock_now();
	bool afresh = j->place->rank == 0 && !j->resume.found;
	int rc = scan_open_samples(j, wo.nr_threads, err);

	if (rc == 0)
		rc = index_walk_start(&wo, afresh && j->tree->nr_shards == 0, &j->walk, err);
	if (rc == 0 && afresh && j->tree->nr_shards > 0)
		rc = push_shard(j, j->walk, err);
	if (rc == 0)
		rc = j->place->size == 1 ? walk_alone(j, &state, err)
					 : walk_together(j, &state, err);
	j->walk = index_walk_free(j->walk);
	scan_join_samples(j, wo.nr_threads);
	scan_count(&state, result);
	if (j->place->size == 1 && !j->resume.found) /* other ranks' names are not known here */
		j->nr_all = state.nr_names;
	count_requests(j, clock_now() - start, wo.nr_threads, result);
	j->nr_foreign = state.nr_foreign + j->resume.nr_foreign;
	result->nr_unreadable += j->resume.nr_unreadable;
	result->nr_reused = j->update.nr_names;
	result->nr_unchanged = j->update.nr_directories;
	return rc;
}

/* ---- Opening ---- */

int index_scan_open(struct index_job *j, const char *where, const char *catalog,
		    struct shoal_err *err)
{
	const struct shoal_tree_options *tree = j->tree;
	int rc;

	j->filter = (struct index_filter){ .include = tree->include,
					   .nr_include = tree->nr_include,
					   .exclude = tree->exclude,
					   .nr_exclude = tree->nr_exclude };
	rc = index_filter_check(&j->filter, err);
	if (rc == 0)
		rc = store_open(where, j->options->config, &j->store, err);
	assert(rc < 0 || j->store);
	if (rc == 0 && tree->etags && !is_bucket(j))
		rc = err_set(err, -EINVAL, "only objects in a bucket have ETags to keep");
	return rc == 0 && catalog ? find_own(j, catalog, err) : rc;
}

bool index_scan_sizes(const struct index_job *j)
{
	bool all_opened = j->options->samples && store_posix_of(j->store) && !j->tree->update &&
			  !j->tree->resume;

	return !j->tree->no_sizes && !all_opened;
}

static uint64_t root_inode(const struct index_job *j)
{
	const char *path = store_local_path(j->store->uri);
	struct stat st;

	return path && stat(path, &st) == 0 ? st.st_ino : 0;
}

struct index_provenance index_scan_provenance(const struct index_job *j)
{
	return (struct index_provenance){ .started = clock_wall(),
					  .inode = root_inode(j),
					  .sizes = !j->tree->no_sizes,
					  .follow = j->tree->follow,
					  .one_fs = j->tree->one_fs,
					  .etags = j->tree->etags,
					  .samples = j->options->samples,
					  .include = j->tree->include,
					  .nr_include = j->tree->nr_include,
					  .exclude = j->tree->exclude,
					  .nr_exclude = j->tree->nr_exclude };
}
