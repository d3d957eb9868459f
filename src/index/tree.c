/* A directory tree becomes a catalog. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/publish.h"
#include "index/build.h"
#include "index/filter.h"
#include "index/listing.h"
#include "index/parts.h"
#include "index/share.h"
#include "index/tree.h"

/* How long the owner of the walk waits before it shows how far it is. */
#define TICK_US 50000

struct tree {
	struct shoal_comm *comm;
	const struct shoal_comm_place *place;
	struct index_root root;
	struct index_sample sample; /* where there are several ranks */
	const struct shoal_tree_options *tree;
	const struct shoal_index_options *options;
	struct shoal_store *store;
	struct index_filter filter;
	char *own; /* the catalog's own name in the tree, or NULL when it lies elsewhere */
	uint64_t samples;
	struct index_build build;
};

/* ---- What is not listed ---- */

/* The name that @path has below the directory @root, or NULL when it lies elsewhere. */
static char *name_below(const char *root, const char *path)
{
	char *dir = shoal_dir_of(path), *real_dir = dir ? realpath(dir, NULL) : NULL;
	char *real_root = realpath(root, NULL), *name = NULL;
	size_t len = real_root ? strlen(real_root) : 0;
	const char *slash = strrchr(path, '/');

	while (len > 0 && real_root[len - 1] == '/')
		len--;
	if (real_root && real_dir && strncmp(real_dir, real_root, len) == 0 &&
	    (real_dir[len] == '/' || !real_dir[len])) {
		const char *below = real_dir + len;

		while (*below == '/')
			below++;
		if (asprintf(&name, "%s%s%s", below, *below ? "/" : "", slash ? slash + 1 : path) <
		    0)
			name = NULL;
	}
	free(dir);
	free(real_dir);
	free(real_root);
	return name;
}

/* The catalog and its partial file are no part of the dataset. */
static bool is_own(const struct tree *t, const char *name)
{
	const char *base = strrchr(t->own, '/'), *other = strrchr(name, '/');
	size_t folder, len;

	base = base ? base + 1 : t->own;
	other = other ? other + 1 : name;
	folder = (size_t)(base - t->own);
	len = strlen(base);
	if ((size_t)(other - name) != folder || memcmp(name, t->own, folder) != 0)
		return false;
	return strcmp(other, base) == 0 || (other[0] == '.' && strncmp(other + 1, base, len) == 0 &&
					    strncmp(other + 1 + len, ".partial", 8) == 0);
}

static bool wanted(void *self, const char *name, size_t len, bool is_dir)
{
	const struct tree *t = self;

	if (t->own && !is_dir && is_own(t, name))
		return false;
	return index_filter_wants(&t->filter, name, len, is_dir);
}

/* ---- What is ---- */

static int take(void *self, const struct store_entry *entries, size_t nr, struct shoal_err *err)
{
	struct tree *t = self;

	for (size_t i = 0; i < nr; i++) {
		struct shoal_entry e = { .name = (const uint8_t *)entries[i].name,
					 .len = entries[i].len,
					 .size = entries[i].size,
					 .samples = t->samples };
		int rc = shoal_sorter_add(t->build.sorter, &e, err);

		if (rc < 0)
			return rc;
		if (t->sample.bytes)
			index_sample_see(&t->sample, e.name, e.len);
	}
	return 0;
}

static void warn(void *self, const char *words)
{
	const struct tree *t = self;

	if (t->options->warn)
		t->options->warn(t->options->self, words);
}

static void count(const struct index_walk_state *s, struct shoal_index_result *r)
{
	r->nr_directories = s->nr_units;
	r->nr_unreadable = s->nr_trouble;
	r->nr_vanished = s->skipped[STORE_SKIP_VANISHED];
	r->nr_links = s->skipped[STORE_SKIP_LINK];
	r->nr_loops = s->skipped[STORE_SKIP_LOOP];
	r->nr_special = s->skipped[STORE_SKIP_SPECIAL];
	r->nr_other_fs = s->skipped[STORE_SKIP_OTHER_FS];
	r->nr_filtered = s->skipped[STORE_SKIP_FILTERED];
}

/* ---- Walking ---- */

/* Threads wait for the disk or the network most of the time when nothing is cached. */
static unsigned nr_threads(const struct tree *t)
{
	uint64_t cpus = shoal_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));

	if (t->tree->nr_threads)
		return t->tree->nr_threads;
	cpus = shoal_max(1, cpus / (uint64_t)t->place->node_size);
	return (unsigned)shoal_min(32, shoal_max(4, 2 * cpus));
}

static int tick(void *self, const struct index_walk_state *state, struct shoal_err *err)
{
	const struct shoal_index_options *o = ((const struct tree *)self)->options;

	if (index_stopped(o->stop))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (o->progress)
		o->progress(o->self,
			    &(struct shoal_index_progress){ .nr_names = state->nr_names,
							    .nr_pending = state->nr_pending,
							    .where = state->where });
	return 0;
}

static int walk_alone(struct tree *t, struct index_walk *w, struct index_walk_state *state,
		      struct shoal_err *err)
{
	int rc = 0;

	while (rc == 0 && !state->idle) {
		rc = index_walk_wait(w, TICK_US, state, err);
		if (rc == 0)
			rc = tick(t, state, err);
	}
	return rc;
}

static int walk(struct tree *t, struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_walk_options wo = {
		.store = t->store,
		.list = { .sizes = !t->tree->no_sizes,
			  .follow = t->tree->follow,
			  .one_fs = t->tree->one_fs },
		.nr_threads = nr_threads(t),
		.wanted = t->own || t->filter.nr_include || t->filter.nr_exclude ? wanted : NULL,
		.keep_going = t->tree->keep_going,
		.trouble = warn,
		.tmp_dir = t->build.tmp_dir,
		.take = take,
		.self = t,
	};
	struct index_walk_state state = { 0 };
	struct index_walk *w = NULL;
	int rc = index_walk_start(&wo, t->place->rank == 0, &w, err);

	if (rc == 0)
		rc = t->place->size == 1 ? walk_alone(t, w, &state, err)
					 : index_share_walk(t->comm, w, tick, t, &state, err);
	index_walk_free(w);
	count(&state, result);
	return rc;
}

/* ---- All of it ---- */

/* This rank's share of the node's memory. Below the least it takes the least, and says so. */
static uint64_t share_of_memory(const struct tree *t)
{
	uint64_t all = t->options->memory ? t->options->memory : SHOAL_INDEX_MEMORY;
	uint64_t share = all / (uint64_t)t->place->node_size;

	if (share >= SHOAL_INDEX_MEMORY_MIN)
		return share;
	if (t->place->node_size > 1 && t->place->rank == 0 && t->options->warn)
		t->options->warn(t->options->self,
				 "each rank takes 48M: give more memory, or start fewer ranks");
	return t->place->node_size > 1 ? SHOAL_INDEX_MEMORY_MIN : share;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int start_build(struct tree *t, struct shoal_err *err)
{
	struct index_listing listing = { .started = now_ns(),
					 .sizes = !t->tree->no_sizes,
					 .follow = t->tree->follow,
					 .one_fs = t->tree->one_fs,
					 .include = t->tree->include,
					 .nr_include = t->tree->nr_include,
					 .exclude = t->tree->exclude,
					 .nr_exclude = t->tree->nr_exclude };
	char *text = index_listing_text(&listing);
	struct index_build_spec spec = { .root = t->root.uri,
					 .sizes = !t->tree->no_sizes,
					 .listing = text,
					 .no_writer = t->place->rank > 0,
					 .memory = share_of_memory(t) };
	int rc = text ? index_build_start(&t->build, t->options, &spec, err)
		      : shoal_fail(err, -ENOMEM, "out of memory");

	free(text);
	if (rc == 0 && t->place->size > 1)
		rc = index_sample_init(&t->sample, t->place->size, err);
	return rc;
}

static int seal(struct tree *t, struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_parts parts = { .comm = t->comm,
				     .options = t->options,
				     .root = t->root.uri,
				     .tmp_dir = t->build.tmp_dir,
				     .sizes = !t->tree->no_sizes,
				     .memory = t->build.memory };

	if (t->place->size == 1)
		return index_build_finish(&t->build, result, err);
	return index_parts_seal(&parts, &t->build.sorter, &t->sample, &t->build.writer, result,
				err);
}

static int list_tree(struct tree *t, const char *where, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	int rc = index_filter_check(&t->filter, err);

	if (rc == 0)
		rc = shoal_store_open(where, &t->store, err);
	if (rc == 0)
		rc = index_root_init(&t->root, t->options->root ? t->options->root : t->store->uri,
				     NULL, 0, err);
	if (rc == 0)
		rc = start_build(t, err);
	if (rc < 0)
		return rc;
	if (strncmp(t->store->uri, "file://", 7) == 0)
		t->own = name_below(t->store->uri + 7, t->options->output);
	rc = walk(t, result, err);
	if (rc == 0)
		rc = seal(t, result, err);
	if (rc == 0) /* a result is nothing but numbers */
		rc = shoal_comm_reduce(t->comm, SHOAL_COMM_SUM, (uint64_t *)(void *)result,
				       sizeof(*result) / sizeof(uint64_t), err);
	return rc;
}

int index_tree(struct shoal_comm *comm, const char *where, const struct shoal_tree_options *tree,
	       const struct shoal_index_options *options, struct shoal_index_result *ret_result,
	       struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct shoal_err words = { "" };
	struct tree t = {
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
	int rc;

	shoal_comm_set_stop(comm, options->stop);
	rc = list_tree(&t, where, &result, &words);
	if (rc < 0 && rc != -EREMOTEIO)
		shoal_comm_fail(comm, words.msg);
	index_build_release(&t.build);
	index_sample_release(&t.sample);
	shoal_store_close(t.store);
	free(t.own);
	if (rc < 0)
		return shoal_fail(err, rc, "%s", words.msg);
	*ret_result = result;
	return 0;
}

int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct shoal_comm *self = NULL;
	int rc = shoal_comm_self(&self, err);

	if (rc == 0)
		rc = index_tree(self, where, tree, options, ret_result, err);
	shoal_comm_close(self);
	return rc;
}
