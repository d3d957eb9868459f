/* A directory tree becomes a catalog. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/publish.h"
#include "index/build.h"
#include "index/filter.h"
#include "index/walk.h"

/* How long the owner of the walk waits before it shows how far it is. */
#define TICK_US 50000

struct tree {
	const struct shoal_tree_options *tree;
	const struct shoal_index_options *options;
	struct shoal_store *store;
	struct index_filter filter;
	/* What the catalog and its partial file are called in the tree; NULL when they lie
	 * elsewhere. */
	char *own, *own_partial;
	uint64_t nr_own; /* how often they were met; atomic */
	uint64_t samples;
	struct index_build build;
	bool started;
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
	/* Where there are no locks more follows: see shoal_publish_open(). */
	return (t->own && strcmp(name, t->own) == 0) ||
	       (t->own_partial && strncmp(name, t->own_partial, strlen(t->own_partial)) == 0);
}

static int find_own(struct tree *t, struct shoal_err *err)
{
	char *path = NULL, *partial = NULL;
	const char *root;
	int rc;

	assert(t->store);
	if (strncmp(t->store->uri, "file://", strlen("file://")) != 0)
		return 0;
	root = t->store->uri + strlen("file://");
	rc = shoal_publish_names(t->options->output, &path, &partial, err);
	if (rc < 0)
		return rc;
	t->own = name_below(root, path);
	t->own_partial = name_below(root, partial);
	free(path);
	free(partial);
	return 0;
}

static bool wanted(void *self, const char *name, size_t len, bool is_dir)
{
	struct tree *t = self;

	if (!is_dir && is_own(t, name)) {
		__atomic_fetch_add(&t->nr_own, 1, __ATOMIC_RELAXED);
		return false;
	}
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
	}
	return 0;
}

static void warn(void *self, const char *words)
{
	const struct tree *t = self;

	if (t->options->warn)
		t->options->warn(t->options->self, words);
}

static void count(const struct tree *t, const struct index_walk_state *s,
		  struct shoal_index_result *r)
{
	r->nr_directories = s->nr_directories;
	r->nr_unreadable = s->nr_trouble;
	r->nr_vanished = s->skipped[STORE_SKIP_VANISHED];
	r->nr_links = s->skipped[STORE_SKIP_LINK];
	r->nr_loops = s->skipped[STORE_SKIP_LOOP];
	r->nr_special = s->skipped[STORE_SKIP_SPECIAL];
	r->nr_other_fs = s->skipped[STORE_SKIP_OTHER_FS];
	r->nr_filtered = s->skipped[STORE_SKIP_FILTERED] - t->nr_own;
}

/* Threads wait for the disk or the network most of the time when nothing is cached. */
static unsigned nr_threads(const struct shoal_tree_options *tree)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (tree->nr_threads)
		return tree->nr_threads;
	return (unsigned)shoal_min(32, shoal_max(4, 2 * (uint64_t)shoal_max(1, (uint64_t)cpus)));
}

static int walk(struct tree *t, struct shoal_index_result *result, struct shoal_err *err)
{
	struct index_walk_options wo = {
		.store = t->store,
		.list = { .sizes = !t->tree->no_sizes,
			  .follow = t->tree->follow,
			  .one_fs = t->tree->one_fs },
		.nr_threads = nr_threads(t->tree),
		.wanted = t->own || t->filter.nr_include || t->filter.nr_exclude ? wanted : NULL,
		.keep_going = t->tree->keep_going,
		.trouble = warn,
		.tmp_dir = t->build.tmp_dir,
		.take = take,
		.self = t,
	};
	struct index_walk_state state = { 0 };
	struct index_walk *w = NULL;
	int rc = index_walk_start(&wo, true, &w, err);

	while (rc == 0 && !state.idle) {
		rc = index_walk_wait(w, TICK_US, &state, err);
		if (rc == 0 && index_stopped(t->options->stop))
			rc = shoal_fail(err, -ECANCELED, "interrupted");
		if (rc == 0 && t->options->progress)
			t->options->progress(
				t->options->self,
				&(struct shoal_index_progress){ .nr_names = state.nr_names,
								.nr_pending = state.nr_pending,
								.where = state.where });
	}
	index_walk_free(w);
	count(t, &state, result);
	return rc;
}

static int list_tree(struct tree *t, const char *where, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	struct index_root root;
	int rc;

	rc = index_filter_check(&t->filter, err);
	if (rc == 0)
		rc = shoal_store_open(where, &t->store, err);
	if (rc == 0)
		rc = index_root_init(&root, t->options->root ? t->options->root : t->store->uri,
				     NULL, 0, err);
	if (rc == 0)
		rc = index_build_start(&t->build, t->options, &root, !t->tree->no_sizes, false,
				       err);
	if (rc < 0)
		return rc;
	t->started = true;
	rc = find_own(t, err);
	if (rc == 0)
		rc = walk(t, result, err);
	return rc < 0 ? rc : index_build_finish(&t->build, result, err);
}

int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct tree t = {
		.tree = tree,
		.options = options,
		.filter = { .include = tree->include,
			    .nr_include = tree->nr_include,
			    .exclude = tree->exclude,
			    .nr_exclude = tree->nr_exclude },
		.samples = options->samples_per_file ? options->samples_per_file : 1,
	};
	int rc = list_tree(&t, where, &result, err);

	if (t.started)
		index_build_release(&t.build);
	shoal_store_close(t.store);
	free(t.own);
	free(t.own_partial);
	if (rc == 0)
		*ret_result = result;
	return rc;
}
