/*
 * A directory tree in the order of names: depth first, one sorted directory per level.
 *
 * In a directory the names of subdirectories are sorted with a slash at their end, because that is
 * where the names below them belong: "a-b", "a/x", "a0". So a sorted directory in which each
 * subdirectory is replaced by its contents is the list.
 *
 * The consumer walks. Threads list the directories that it will need next, nearest first: those
 * that were begun form a list in the order of names (`begun`), and a thread takes the next
 * subdirectory of the first of them that has one. The bytes listed ahead are limited. The consumer
 * lists a directory itself if no thread has begun it, so it never waits for memory.
 *
 * A directory that exceeds its limit is sorted in a temporary file, one at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/out.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/queue.h"
#include "index/record.h"
#include "list/content.h"
#include "list/list.h"
#include "sort/run.h"
#include "sort/sort.h"

#define TREE_THREADS_MAX 64u
#define TREE_WAIT_MS     100u
#define SPILL_BUFFER     (256u << 10)

struct tree_node {
	struct tree_node *parent;
	/* Subdirectories that were begun and that the consumer has not reached, in order. */
	struct tree_node *child, **last_child, *sibling;
	struct tree_node *before, *after; /* in `begun` */
	bool in_begun, listed;
	int rc;
	struct shoal_err *err; /* the message for rc; NULL: none, or out of memory */
	struct list_content content;
	struct list_reader next;  /* for the consumer */
	struct list_reader ahead; /* the next subdirectory to begin; under the lock */
	size_t memory;            /* bytes counted for it in t->ahead */
	size_t path_len;
	char path[]; /* with a slash at its end; "" for the root */
};

struct list_of_tree {
	struct shoal_list base;
	struct store *store;
	struct shoal_list_options options;
	struct store_list_options ask;
	struct list_limits limits;
	struct tree_node *root;
	struct tree_node *current; /* where the consumer is; only it uses this */
	bool past_end;             /* it has reached the end of the bounds */
	char name[SHOAL_NAME_MAX + 1];
	pthread_mutex_t spill_lock; /* one directory is sorted in a file at a time */
	pthread_mutex_t warn_lock;
	pthread_mutex_t lock; /* protects everything below, and the nodes except for what their
				 owner uses */
	pthread_cond_t work;  /* there may be something to list, or the list is closed */
	pthread_cond_t done;  /* a directory is listed */
	struct tree_node *begun;
	size_t memory; /* of all nodes */
	int closing;   /* also the stop flag of the threads' listings */
	unsigned nr_threads, nr_wanted;
	pthread_t thread[TREE_THREADS_MAX];
	void *scratch; /* the store's buffers, of the consumer */
	void (*free_scratch)(void *scratch);
};

/* ---- Nodes ---- */

/* Under the lock. */
static struct tree_node *node_new(struct list_of_tree *t, struct tree_node *parent,
				  const uint8_t *name, size_t len)
{
	size_t above = parent ? parent->path_len : 0;
	struct tree_node *n = calloc(1, sizeof(*n) + above + len + 1);

	if (!n)
		return NULL;
	n->content.fd = -1;
	n->parent = parent;
	n->last_child = &n->child;
	n->path_len = above + len;
	if (parent)
		memcpy(n->path, parent->path, above);
	memcpy(n->path + above, name, len);
	n->memory = sizeof(*n) + n->path_len;
	t->memory += n->memory;
	return n;
}

static void begun_remove(struct list_of_tree *t, struct tree_node *n)
{
	if (!n->in_begun)
		return;
	if (n->before)
		n->before->after = n->after;
	else
		t->begun = n->after;
	if (n->after)
		n->after->before = n->before;
	n->in_begun = false;
}

/* Insert @n just before its parent: after the parent's other subdirectories, which were begun
 * before it, and what is in those. */
static void begun_insert(struct list_of_tree *t, struct tree_node *n)
{
	struct tree_node *parent = n->parent;

	n->in_begun = true;
	if (!parent || !parent->in_begun) {
		n->after = t->begun;
		if (n->after)
			n->after->before = n;
		t->begun = n;
		return;
	}
	n->before = parent->before;
	n->after = parent;
	if (n->before)
		n->before->after = n;
	else
		t->begun = n;
	parent->before = n;
}

/* Under the lock, after all threads are done with it. */
static void node_free(struct list_of_tree *t, struct tree_node *n)
{
	begun_remove(t, n);
	t->memory -= n->memory;
	list_content_release(&n->content);
	free(n->next.run);
	free(n->ahead.run);
	free(n->err);
	free(n);
}

/*
 * Begin the next subdirectory of @n that is within the bounds: 1, 0 if there is none, or an error.
 * Under the lock. Everything after the bounds' end is left out, because it is never delivered.
 */
static int node_begin_child(struct list_of_tree *t, struct tree_node *n,
			    struct tree_node **ret_child)
{
	struct sort_entry e;
	int rc;

	while ((rc = list_content_read(&n->content, &n->ahead, true, &e)) > 0) {
		struct tree_node *child = node_new(t, n, e.name, e.len);
		enum list_verdict within;

		if (!child)
			return -ENOMEM;
		within = list_select_bounds(&t->base.select, child->path, child->path_len);
		if (within != LIST_TAKE) {
			node_free(t, child);
			if (within == LIST_END)
				break;
			continue;
		}
		begun_insert(t, child);
		*n->last_child = child;
		n->last_child = &child->sibling;
		*ret_child = child;
		return 1;
	}
	begun_remove(t, n);
	return rc < 0 ? rc : 0;
}

/* ---- Listing one directory ---- */

struct tree_listing {
	struct store_sink sink;
	struct list_of_tree *tree;
	struct tree_node *node;
	struct sorter *sorter; /* once it exceeds its limit */
	size_t limit;
	bool here; /* by the consumer */
};

static int spill_put_run(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	(void)err;
	sort_run_put(self, e);
	return 0;
}

/* It is too large for memory: pass it to a sorter. */
static int spill_begin(struct tree_listing *l, struct shoal_err *err)
{
	struct list_of_tree *t = l->tree;
	struct list_content *c = &l->node->content;
	struct sorter_options so = { .memory = t->limits.sorter,
				     .tmp_dir = path_tmp_dir(t->options.tmp_dir),
				     .stop = l->sink.stop };
	int rc;

	pthread_mutex_lock(&t->spill_lock);
	rc = sorter_new(&so, &l->sorter, err);
	if (rc < 0) {
		pthread_mutex_unlock(&t->spill_lock);
		return rc;
	}
	for (size_t i = 0; i < c->nr && rc == 0; i++) {
		struct sort_entry e = list_content_at(c, i);

		rc = sorter_add(l->sorter, &e, err);
	}
	buf_release(&c->bytes);
	free(c->refs);
	c->refs = NULL;
	c->bytes = (struct buf){ .max = SIZE_MAX };
	c->nr = c->cap = 0;
	return rc;
}

/* Sort all of it into one run of a file that has no name. */
static int spill_write(struct tree_listing *l, struct shoal_err *err)
{
	const char *dir = path_tmp_dir(l->tree->options.tmp_dir);
	struct list_content *c = &l->node->content;
	struct sort_run_writer *w = malloc(sizeof(*w));
	struct out out = { 0 };
	uint64_t repeated = 0;
	int rc = w ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0) {
		c->fd = spill_open(dir, err);
		rc = c->fd < 0 ? c->fd : 0;
	}
	if (rc == 0 && out_init(&out, c->fd, 0, SPILL_BUFFER) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0) {
		sort_run_start(w, &out);
		rc = sorter_finish(l->sorter, spill_put_run, w, NULL, &repeated, err);
	}
	if (rc == 0) {
		c->run = sort_run_end(w);
		out_flush(&out);
		rc = out.rc < 0 ? spill_failed(err, out.rc, dir) : 0;
	}
	out_release(&out);
	free(w);
	return rc;
}

static void spill_end(struct tree_listing *l)
{
	if (!l->sorter)
		return;
	l->sorter = sorter_free(l->sorter);
	pthread_mutex_unlock(&l->tree->spill_lock);
}

static int tree_put(struct tree_listing *l, const struct sort_entry *e, unsigned tag,
		    struct shoal_err *err)
{
	struct list_content *c = &l->node->content;
	int rc = 0;

	c->nr_dirs += tag == LIST_DIR;
	if (!l->sorter && c->bytes.len + c->nr * sizeof(*c->refs) > l->limit)
		rc = spill_begin(l, err);
	if (rc < 0)
		return rc;
	if (l->sorter)
		return sorter_add(l->sorter, e, err);
	return list_content_put(c, e, tag) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static int tree_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		      struct shoal_err *err)
{
	struct tree_listing *l = (struct tree_listing *)sink;
	uint8_t payload[INDEX_RECORD_MAX];
	int rc = l->here ? list_check_stop(&l->tree->base, err) : 0;

	for (size_t i = 0; i < nr && rc == 0; i++) {
		struct index_record r = { .size = entries[i].size, .samples = 1 };
		struct sort_entry e = {
			.name = (const uint8_t *)entries[i].name + l->node->path_len,
			.len = entries[i].len - l->node->path_len,
			.payload = payload,
			.payload_len = index_record_put(&r, payload),
		};

		rc = tree_put(l, &e, 0, err);
	}
	return rc;
}

/* A subdirectory: other units are not handed over, because no thread is idle. */
static int tree_add_unit(struct store_sink *sink, const void *unit, size_t len,
			 struct shoal_err *err)
{
	struct tree_listing *l = (struct tree_listing *)sink;
	struct sort_entry e = { .payload = (const uint8_t *)"" };
	const char *name;

	if (!store_unit_start(l->tree->store, unit, len, &name, &e.len) ||
	    e.len <= l->node->path_len)
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	e.name = (const uint8_t *)name + l->node->path_len;
	e.len -= l->node->path_len;
	return tree_put(l, &e, LIST_DIR, err);
}

static int tree_trouble(struct store_sink *sink, int rc, struct shoal_err *err)
{
	struct list_of_tree *t = ((struct tree_listing *)sink)->tree;

	return list_trouble(&t->options, &t->warn_lock, rc, err);
}

static unsigned tree_nr_idle(struct store_sink *sink)
{
	(void)sink;
	return 0;
}

static bool tree_wanted(struct store_sink *sink, const char *name, size_t len, bool is_dir)
{
	return index_filter_wants(&((struct tree_listing *)sink)->tree->base.select.filter, name,
				  len, is_dir);
}

static int tree_list_unit(struct tree_listing *l, struct shoal_err *err)
{
	struct tree_node *n = l->node;
	uint8_t unit[SHOAL_NAME_MAX + 16]; /* a letter and the path */
	size_t len = n->path_len ? n->path_len - 1 : 0;

	len = n->path_len ? store_unit(l->tree->store, n->path, len, unit) : 0;
	return store_list(l->tree->store, &l->tree->ask, unit, len, &l->sink, err);
}

/* List and sort the directory of @n, which no other thread uses meanwhile. */
static void tree_list_node(struct list_of_tree *t, struct tree_node *n, size_t limit,
			   const int *stop, void **scratch, void (**free_scratch)(void *))
{
	struct tree_listing l = { .sink = { .found = tree_found,
					    .add_unit = tree_add_unit,
					    .trouble = tree_trouble,
					    .nr_idle = tree_nr_idle,
					    .stop = stop,
					    .scratch = *scratch,
					    .free_scratch = *free_scratch },
				  .tree = t,
				  .node = n,
				  .limit = limit,
				  .here = stop != &t->closing };
	struct shoal_err err = { "" };
	int rc;

	if (t->base.select.filter.nr_include + t->base.select.filter.nr_exclude > 0)
		l.sink.wanted = tree_wanted;
	n->content.bytes.max = SIZE_MAX;
	rc = tree_list_unit(&l, &err);
	*scratch = l.sink.scratch;
	*free_scratch = l.sink.free_scratch;
	if (rc == 0 && l.sorter)
		rc = spill_write(&l, &err);
	else if (rc == 0 && list_content_sort(&n->content) < 0)
		rc = err_set(&err, -ENOMEM, "out of memory");
	spill_end(&l);
	n->rc = rc;
	if (rc < 0) {
		n->err = malloc(sizeof(*n->err));
		if (n->err)
			*n->err = err;
	}
}

/*
 * The limit for another directory: less if much is in memory, for example several large directories
 * inside each other.
 */
static size_t tree_limit(const struct list_of_tree *t)
{
	return t->memory < 2 * t->limits.ahead ? t->limits.directory : t->limits.directory / 64;
}

/* It is listed: under the lock. */
static void node_done(struct list_of_tree *t, struct tree_node *n)
{
	size_t memory = list_content_memory(&n->content);

	n->memory += memory;
	t->memory += memory;
	n->listed = true;
	if (n->rc < 0 || n->content.nr_dirs == 0)
		begun_remove(t, n);
	pthread_cond_broadcast(&t->done);
	pthread_cond_signal(&t->work);
}

/* ---- Threads ---- */

/* The next directory to list: under the lock. NULL if there is none, or too much is ahead. */
static struct tree_node *tree_next_ahead(struct list_of_tree *t)
{
	struct tree_node *child = NULL, *n = t->begun, *after;

	if (t->memory >= t->limits.ahead)
		return NULL;
	for (; n; n = after) {
		int rc;

		after = n->after; /* @n leaves the list if it has no more subdirectories */
		rc = n->listed ? node_begin_child(t, n, &child) : 0;
		if (rc > 0)
			return child;
		if (rc < 0) /* the consumer will meet the error, too */
			begun_remove(t, n);
	}
	return NULL;
}

static void *tree_list_ahead(void *arg)
{
	struct list_of_tree *t = arg;
	void *scratch = NULL;
	void (*free_scratch)(void *) = NULL;

	pthread_mutex_lock(&t->lock);
	while (!t->closing) {
		struct tree_node *n = tree_next_ahead(t);
		size_t limit = tree_limit(t);

		if (!n) {
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		pthread_cond_signal(&t->work); /* there may be more for another thread */
		pthread_mutex_unlock(&t->lock);
		tree_list_node(t, n, limit, &t->closing, &scratch, &free_scratch);
		pthread_mutex_lock(&t->lock);
		node_done(t, n);
	}
	pthread_mutex_unlock(&t->lock);
	if (free_scratch)
		free_scratch(scratch);
	return NULL;
}

/* The limit needs no more threads. */
static void tree_start_threads(struct list_of_tree *t)
{
	while (t->nr_threads < t->nr_wanted &&
	       thread_start(&t->thread[t->nr_threads], tree_list_ahead, t) == 0)
		t->nr_threads++;
	t->nr_wanted = 0;
}

/* ---- The consumer ---- */

static int tree_failed(const struct tree_node *n, struct shoal_err *err)
{
	if (!n->err)
		return err_set(err, n->rc, "out of memory");
	return err_set_as(err, n->rc, n->err, "%s", n->err->msg);
}

/* List it on the consumer's thread. The lock is held on entry and on return. */
static void tree_list_here(struct list_of_tree *t, struct tree_node *n)
{
	size_t limit = tree_limit(t);

	pthread_mutex_unlock(&t->lock);
	tree_list_node(t, n, limit, t->options.stop, &t->scratch, &t->free_scratch);
	pthread_mutex_lock(&t->lock);
	node_done(t, n);
}

static int tree_wait(struct list_of_tree *t, const struct tree_node *n, struct shoal_err *err)
{
	while (!n->listed) {
		struct timespec until;

		int rc;

		pthread_mutex_unlock(&t->lock); /* the user's function may take long */
		rc = list_check_stop(&t->base, err);
		pthread_mutex_lock(&t->lock);
		if (rc < 0)
			return rc;
		if (n->listed)
			break;
		until = clock_time(clock_wall() + TREE_WAIT_MS * 1000000u);
		pthread_cond_timedwait(&t->done, &t->lock, &until);
	}
	return 0;
}

/* Go into the next subdirectory of the current one. Under the lock. */
static int tree_descend_locked(struct list_of_tree *t, struct shoal_err *err)
{
	struct tree_node *n = t->current, *child = n->child;
	int rc = 0;

	if (!child) {
		rc = node_begin_child(t, n, &child);
		if (rc < 0)
			return err_set_errno(err, rc, "cannot read a temporary file");
		if (rc == 0)
			return err_set(err, -EBADMSG, "a temporary file was changed");
		tree_list_here(t, child);
	}
	rc = tree_wait(t, child, err);
	if (rc < 0)
		return rc;
	n->child = child->sibling;
	if (!n->child)
		n->last_child = &n->child;
	t->current = child;
	return child->rc < 0 ? tree_failed(child, err) : 0;
}

static int tree_descend(struct list_of_tree *t, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = tree_descend_locked(t, err);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static void tree_ascend(struct list_of_tree *t)
{
	struct tree_node *n = t->current;

	pthread_mutex_lock(&t->lock);
	t->current = n->parent;
	if (n == t->root)
		t->root = NULL;
	node_free(t, n);
	pthread_cond_signal(&t->work); /* there is memory again */
	pthread_mutex_unlock(&t->lock);
}

static int tree_begin(struct list_of_tree *t, struct shoal_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	t->root = t->current = node_new(t, NULL, (const uint8_t *)"", 0);
	if (t->root) {
		begun_insert(t, t->root);
		tree_list_here(t, t->root);
	}
	pthread_mutex_unlock(&t->lock);
	if (!t->root)
		return err_set(err, -ENOMEM, "out of memory");
	if (t->root->rc < 0)
		rc = tree_failed(t->root, err);
	else if (t->root->content.nr_dirs > 0)
		tree_start_threads(t);
	return rc;
}

/* The next entry of the current directory: 1 if it is a file. */
static int tree_take(struct list_of_tree *t, const struct sort_entry *e, struct list_entry *ret,
		     struct shoal_err *err)
{
	struct tree_node *n = t->current;
	struct index_record r;
	enum list_verdict within;

	memcpy(t->name, n->path, n->path_len);
	memcpy(t->name + n->path_len, e->name, e->len);
	if (e->name[e->len - 1] == '/') {
		within = list_select_bounds(&t->base.select, t->name, n->path_len + e->len);
		t->past_end = within == LIST_END;
		return within == LIST_TAKE ? tree_descend(t, err) : 0;
	}
	r = index_record_of(e);
	*ret = (struct list_entry){ .name = (const uint8_t *)t->name,
				    .len = n->path_len + e->len,
				    .size = r.size,
				    .samples = 1 };
	return 1;
}

static int tree_next(struct shoal_list *list, struct list_entry *ret_entry, struct shoal_err *err)
{
	struct list_of_tree *t = (struct list_of_tree *)list;
	struct sort_entry e;
	int rc = t->root ? 0 : tree_begin(t, err);

	while (rc == 0 && t->current && !t->past_end) {
		rc = list_content_read(&t->current->content, &t->current->next, false, &e);
		if (rc < 0)
			return err_set_errno(err, rc, "cannot read a temporary file");
		if (rc == 0)
			tree_ascend(t);
		else
			rc = tree_take(t, &e, ret_entry, err);
	}
	return rc;
}

/* ---- Opening and closing ---- */

/* Free a directory and all that was begun below it. Not recursive: trees may be deep. */
static void tree_free_below(struct list_of_tree *t, struct tree_node *n)
{
	while (n) {
		struct tree_node *up;

		if (n->child) {
			struct tree_node *child = n->child;

			n->child = child->sibling;
			n = child;
			continue;
		}
		up = n->parent;
		node_free(t, n);
		n = up;
	}
}

static void tree_close(struct shoal_list *list)
{
	struct list_of_tree *t = (struct list_of_tree *)list;

	pthread_mutex_lock(&t->lock);
	__atomic_store_n(&t->closing, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->nr_threads; i++)
		pthread_join(t->thread[i], NULL);
	tree_free_below(t, t->current); /* and all above it */
	if (t->free_scratch)
		t->free_scratch(t->scratch);
	store_close(t->store);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->warn_lock);
	pthread_mutex_destroy(&t->spill_lock);
}

static const struct list_ops tree_ops = { .next = tree_next, .close = tree_close };

/* While directories are not cached, threads wait for the disk or the network. */
static unsigned tree_threads(const struct shoal_list_options *o)
{
	uint64_t nr =
		o->nr_threads ? o->nr_threads : u64_min(32, u64_max(8, 2 * cores_available()));

	return (unsigned)u64_min(nr - 1, TREE_THREADS_MAX); /* the consumer lists, too */
}

int list_tree_open(struct store *store, const struct shoal_list_options *options,
		   const struct list_limits *limits, struct shoal_list **ret_list,
		   struct shoal_err *err)
{
	struct list_of_tree *t = calloc(1, sizeof(*t));
	int rc;

	if (!t) {
		store_close(store);
		return err_set(err, -ENOMEM, "out of memory");
	}
	t->store = store;
	t->options = *options;
	t->limits = *limits;
	t->ask = (struct store_list_options){ .sizes = !options->no_sizes,
					      .follow = options->follow,
					      .one_fs = options->one_fs };
	t->nr_wanted = tree_threads(options);
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->warn_lock, NULL);
	pthread_mutex_init(&t->spill_lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->done, NULL);
	t->base.stop = options->stop;
	t->base.info =
		(struct shoal_list_info){ .sizes = !options->no_sizes, .samples_per_file = 1 };
	t->base.select.shard = options->shard;
	t->base.select.nr_shards = options->nr_shards;
	rc = list_init(&t->base, &tree_ops, store->uri, &options->select, err);
	t->base.select.filtered = true;
	if (rc < 0)
		shoal_list_close(&t->base);
	else
		*ret_list = &t->base;
	return rc;
}
