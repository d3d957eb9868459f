/* What all lists have in common; lists of catalogs; merged lists. */
#include "list/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/name.h"
#include "catalog/writer.h"
#include "open/own.h"

/*
 * A directory of 150,000 short names fits into memory; one of 50 million is sorted in a file. The
 * end of an interval wastes part of a page of a bucket's list; eight pages per interval keep that
 * share small.
 */
const struct list_limits list_default_limits = {
	.directory = 8u << 20, .ahead = 16u << 20, .sorter = 32u << 20, .interval = 8000
};

#define WAITING_NS    50000000u
#define STEPS_BETWEEN 256u

/* ---- All lists ---- */

int list_init(struct shoal_list *list, const struct list_ops *ops, const char *root,
	      const struct shoal_select *select, struct shoal_err *err)
{
	list->ops = ops;
	list->root = strdup(root);
	list->info.root = list->root;
	if (!list->root)
		return err_set(err, -ENOMEM, "out of memory");
	return list_select_init(&list->select, select, &list->info, err);
}

struct shoal_list *shoal_list_close(struct shoal_list *list)
{
	if (!list)
		return NULL;
	list->ops->close(list);
	list_select_release(&list->select);
	free(list->root);
	free(list);
	return NULL;
}

void shoal_list_info(const struct shoal_list *list, struct shoal_list_info *ret_info)
{
	*ret_info = list->info;
}

int list_check_stop(struct shoal_list *list, struct shoal_err *err)
{
	uint64_t now;

	if (stop_requested(list->stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (!list->waiting)
		return 0;
	now = clock_now();
	if (now - list->asked < WAITING_NS)
		return 0;
	list->asked = now;
	return list->waiting(list->waiting_self) ? err_set(err, -ECANCELED, "interrupted") : 0;
}

uint64_t shoal_list_nr_steps(const struct shoal_list *list)
{
	return list->nr_steps;
}

/* The next entry that is selected: 1, 0 or an error. */
static int list_find_next(struct shoal_list *list, struct list_entry *e, struct shoal_err *err)
{
	int rc, verdict;

	do {
		bool ask = list->nr_steps++ % STEPS_BETWEEN == 0 || stop_requested(list->stop);

		rc = ask ? list_check_stop(list, err) : 0;
		if (rc == 0)
			rc = list->ops->next(list, e, err);
		if (rc <= 0)
			return rc;
		memcpy(list->name, e->name, e->len);
		list->name[e->len] = '\0';
		e->name = (const uint8_t *)list->name;
		verdict = list_select_entry(&list->select, e, err);
		if (verdict == LIST_TAKE && list->store &&
		    open_is_own(list->store, list->name, e->len))
			verdict = LIST_SKIP;
	} while (verdict == LIST_SKIP);
	return verdict == LIST_END ? 0 : verdict;
}

int list_step(struct shoal_list *list, struct list_entry *ret_entry, struct shoal_err *err)
{
	uint64_t limit = list->select.ask.limit;
	int rc;

	if (list->ended < 0)
		return err_set(err, list->ended, "the list has ended with an error before");
	if (list->ended || (limit && list->nr == limit))
		return 0;
	rc = list_find_next(list, ret_entry, err);
	if (rc <= 0)
		list->ended = rc < 0 ? rc : 1;
	else if (list->nr++, !list->has_ids)
		ret_entry->id = list->nr - 1;
	return rc;
}

int shoal_list_next(struct shoal_list *list, const struct shoal_entry **ret_entry,
		    struct shoal_err *err)
{
	struct list_entry e;
	int rc = list_step(list, &e, err);

	if (rc <= 0)
		return rc;
	list->etag[0] = '\0';
	if (e.etag)
		etag_print(e.etag, list->etag);
	list->entry = (struct shoal_entry){ .name = list->name,
					    .len = e.len,
					    .size = e.size,
					    .samples = e.samples,
					    .etag = list->etag,
					    .id = e.id };
	*ret_entry = &list->entry;
	return 1;
}

int shoal_list_count(struct shoal_list *list, struct shoal_list_totals *ret_totals,
		     struct shoal_err *err)
{
	struct shoal_list_totals t = { .nr_bytes = list->info.sizes ? 0 : SHOAL_SIZE_UNKNOWN };
	struct list_entry e;
	int rc;

	while ((rc = list_step(list, &e, err)) > 0) {
		t.nr_files++;
		t.nr_samples += e.samples;
		if (list->info.sizes)
			t.nr_bytes += e.size;
	}
	if (rc == 0)
		*ret_totals = t;
	return rc;
}

/* ---- A store ---- */

int list_trouble(const struct shoal_list_options *options, pthread_mutex_t *warn_lock, int rc,
		 struct shoal_err *why)
{
	if (!options->keep_going) {
		err_hint(why, SHOAL_HINT_KEEP_GOING, 0);
		return rc;
	}
	pthread_mutex_lock(warn_lock);
	if (options->warn)
		options->warn(options->self, why->msg);
	pthread_mutex_unlock(warn_lock);
	return 0;
}

int list_store_open(struct store *store, const struct shoal_list_options *options,
		    const struct list_limits *limits, struct shoal_list **ret_list,
		    struct shoal_err *err)
{
	int rc;

	if (options->nr_shards > 0 && options->shard >= options->nr_shards) {
		store_close(store);
		return err_set(err, -EINVAL, "there is no shard %u of %u: they count from 0",
			       options->shard, options->nr_shards);
	}
	if (options->etags && !store->traits.etags) {
		store_close(store);
		return err_set(err, -EINVAL, "only objects in a bucket have ETags");
	}
	rc = store_has_directories(store) ? list_tree_open(store, options, limits, ret_list, err)
					  : list_bucket_open(store, options, limits, ret_list, err);
	if (rc == 0)
		(*ret_list)->store = store;
	return rc;
}

int shoal_list_open(const char *uri, const struct shoal_list_options *options,
		    struct shoal_list **ret_list, struct shoal_err *err)
{
	struct store *store;
	int rc = store_open(uri, options->config, &store, err);

	return rc < 0 ? rc : list_store_open(store, options, &list_default_limits, ret_list, err);
}

/* ---- A catalog ---- */

struct list_of_catalog {
	struct shoal_list base;
	const struct shoal_catalog *cat;
	struct shoal_cursor *cursor;
	uint64_t id; /* id of the next file */
	struct etag etag;
	size_t folder_len;               /* of the folder before all names, with its slash */
	char folder[SHOAL_NAME_MAX + 1]; /* where names are put after it */
};

static int catalog_list_entry(struct list_of_catalog *c, struct list_entry *e)
{
	uint64_t first;
	int rc = 0;

	e->size = SHOAL_SIZE_UNKNOWN;
	e->samples = c->base.info.samples_per_file;
	e->etag = NULL;
	if (c->base.info.sizes)
		rc = shoal_catalog_size(c->cat, c->id, &e->size);
	if (rc == 0 && e->samples == 0)
		rc = shoal_catalog_samples(c->cat, c->id, &first, &e->samples);
	if (rc == 0 && c->base.info.etags) {
		rc = catalog_etag_of(c->cat, c->id, &c->etag);
		e->etag = rc == 0 && etag_is_kept(&c->etag) ? &c->etag : NULL;
	}
	return rc;
}

/* Put the folder before the name. */
static int catalog_list_join(struct list_of_catalog *c, const char **name, size_t *len,
			     struct shoal_err *err)
{
	if (*len > SHOAL_NAME_MAX - c->folder_len)
		return err_set(err, -ENAMETOOLONG,
			       "'%.200s...' below '%.*s' has %zu bytes: a name in a catalog has at "
			       "most %d",
			       *name, (int)u64_min(c->folder_len, 200), c->folder,
			       c->folder_len + *len, SHOAL_NAME_MAX);
	memcpy(c->folder + c->folder_len, *name, *len);
	*name = c->folder;
	*len += c->folder_len;
	return 0;
}

static int catalog_list_next(struct shoal_list *list, struct list_entry *e, struct shoal_err *err)
{
	struct list_of_catalog *c = (struct list_of_catalog *)list;
	const char *name;
	int rc = shoal_cursor_next(c->cursor, &name, &e->len);

	if (rc > 0 && c->folder_len > 0 && catalog_list_join(c, &name, &e->len, err) < 0)
		return -ENAMETOOLONG;
	if (rc > 0) {
		int known = catalog_list_entry(c, e);

		e->name = (const uint8_t *)name;
		e->id = c->id++;
		rc = known < 0 ? known : 1;
	}
	return rc < 0 ? shoal_catalog_explain(c->cat, rc, err) : rc;
}

static void catalog_list_close(struct shoal_list *list)
{
	struct list_of_catalog *c = (struct list_of_catalog *)list;

	c->cursor = shoal_cursor_free(c->cursor);
}

static const struct list_ops catalog_list_ops = { .next = catalog_list_next,
						  .close = catalog_list_close };

static int catalog_list_start(struct list_of_catalog *c, struct shoal_err *err)
{
	const char *after = c->base.select.ask.start_after;
	int rc = 0;

	if (after)
		rc = shoal_catalog_lower_bound(c->cat, after, strlen(after), &c->id);
	if (rc < 0)
		return shoal_catalog_explain(c->cat, rc, err);
	return shoal_cursor_new(c->cat, c->id, &c->cursor, err);
}

int list_catalog_below(const struct shoal_catalog *cat, const char *folder, size_t len,
		       struct shoal_list **ret_list, struct shoal_err *err)
{
	struct list_of_catalog *c;
	int rc = len > SHOAL_NAME_MAX ? err_set(err, -ENAMETOOLONG,
						"the folder '%.200s...' has %zu bytes: a name in a "
						"catalog has at most %d",
						folder, len, SHOAL_NAME_MAX)
				      : shoal_list_catalog(cat, NULL, ret_list, err);

	if (rc < 0)
		return rc;
	c = (struct list_of_catalog *)*ret_list;
	memcpy(c->folder, folder, len);
	c->folder_len = len;
	return 0;
}

int shoal_list_catalog(const struct shoal_catalog *cat, const struct shoal_select *select,
		       struct shoal_list **ret_list, struct shoal_err *err)
{
	struct list_of_catalog *c = calloc(1, sizeof(*c));
	struct shoal_catalog_info info;
	int rc;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	shoal_catalog_info(cat, &info);
	c->cat = cat;
	c->base.has_ids = true;
	c->base.info = (struct shoal_list_info){ .sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN,
						 .etags = info.etags,
						 .samples_per_file = info.samples_per_file,
						 .extents = info.extents,
						 .nr_files = info.nr_files };
	rc = list_init(&c->base, &catalog_list_ops, info.root, select, err);
	if (rc == 0)
		rc = catalog_list_start(c, err);
	if (rc < 0)
		shoal_list_close(&c->base);
	else
		*ret_list = &c->base;
	return rc;
}

/* ---- Several lists ---- */

/* The next entry of a list that is merged. */
struct list_source {
	struct shoal_list *list;
	struct list_entry entry;
	bool done;
};

struct list_of_lists {
	struct shoal_list base;
	enum shoal_repeated repeated;
	size_t nr, heaped;
	bool begun;
	size_t *heap; /* a heap of numbers of sources, by their names; among equal names the last
			 source first */
	struct list_source source[];
};

/* Whether source @a is delivered before @b: if the names are equal, that of the last list. */
static bool merge_is_before(const struct list_of_lists *m, size_t a, size_t b)
{
	const struct list_entry *x = &m->source[a].entry, *y = &m->source[b].entry;
	int order = name_compare(x->name, x->len, y->name, y->len);

	return order ? order < 0 : a > b;
}

static void merge_sink(struct list_of_lists *m, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1, moved;

		if (child + 1 < m->heaped && merge_is_before(m, m->heap[child + 1], m->heap[child]))
			child++;
		if (child >= m->heaped || !merge_is_before(m, m->heap[child], m->heap[at]))
			return;
		moved = m->heap[at];
		m->heap[at] = m->heap[child];
		m->heap[child] = moved;
		at = child;
	}
}

/* Step the first source of the heap. */
static int merge_step_first(struct list_of_lists *m, struct shoal_err *err)
{
	struct list_source *s = &m->source[m->heap[0]];
	int rc = list_step(s->list, &s->entry, err);

	if (rc < 0)
		return rc;
	if (rc == 0)
		m->heap[0] = m->heap[--m->heaped];
	merge_sink(m, 0);
	return 0;
}

static int merge_begin(struct list_of_lists *m, struct shoal_err *err)
{
	m->begun = true;
	for (size_t i = 0; i < m->nr; i++) {
		int rc = list_step(m->source[i].list, &m->source[i].entry, err);

		if (rc < 0)
			return rc;
		if (rc > 0)
			m->heap[m->heaped++] = i;
	}
	for (size_t i = m->heaped; i-- > 0;)
		merge_sink(m, i);
	return 0;
}

/* base.name still has the name delivered last: step past it in all sources. */
static int merge_pass_last(struct list_of_lists *m, struct shoal_err *err)
{
	size_t len = strlen(m->base.name);
	uint64_t nr = 0;

	while (m->heaped > 0) {
		const struct list_entry *e = &m->source[m->heap[0]].entry;
		int rc;

		if (name_compare(e->name, e->len, m->base.name, len) != 0)
			return 0;
		if (nr++ > 0 && m->repeated == SHOAL_REPEATED_FAIL)
			return err_set_hint(err, -EEXIST, SHOAL_HINT_REPEATED,
					    "'%.500s' is in more than one of them", m->base.name);
		rc = merge_step_first(m, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int merge_next(struct shoal_list *list, struct list_entry *e, struct shoal_err *err)
{
	struct list_of_lists *m = (struct list_of_lists *)list;
	int rc = m->begun ? merge_pass_last(m, err) : merge_begin(m, err);

	if (rc < 0 || m->heaped == 0)
		return rc;
	*e = m->source[m->heap[0]].entry;
	return 1;
}

static void merge_close(struct shoal_list *list)
{
	struct list_of_lists *m = (struct list_of_lists *)list;

	for (size_t i = 0; i < m->nr; i++)
		shoal_list_close(m->source[i].list);
	free(m->heap);
}

static const struct list_ops merge_ops = { .next = merge_next, .close = merge_close };

void shoal_list_set_waiting(struct shoal_list *list, int (*waiting)(void *self), void *self)
{
	const struct list_of_lists *m = (const struct list_of_lists *)list;

	list->waiting = waiting;
	list->waiting_self = self;
	for (size_t i = 0; list->ops == &merge_ops && i < m->nr; i++)
		shoal_list_set_waiting(m->source[i].list, waiting, self);
}

/* Combine the properties of all sources. */
static struct shoal_list_info merge_info(struct shoal_list *const *lists, size_t nr)
{
	struct shoal_list_info info = lists[0]->info;

	for (size_t i = 1; i < nr; i++) {
		info.sizes = info.sizes && lists[i]->info.sizes;
		info.etags = info.etags || lists[i]->info.etags;
		info.extents = info.extents || lists[i]->info.extents;
		if (info.samples_per_file != lists[i]->info.samples_per_file)
			info.samples_per_file = 0;
		info.nr_files = info.nr_files && lists[i]->info.nr_files
					? info.nr_files + lists[i]->info.nr_files
					: 0;
	}
	return info;
}

int shoal_list_merge(struct shoal_list *const *lists, size_t nr, enum shoal_repeated repeated,
		     struct shoal_list **ret_list, struct shoal_err *err)
{
	struct list_of_lists *m;
	int rc;

	if (nr == 0)
		return err_set(err, -EINVAL, "there is no list to merge");
	m = calloc(1, sizeof(*m) + nr * sizeof(m->source[0]));
	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	m->repeated = repeated;
	m->heap = calloc(nr, sizeof(*m->heap));
	m->base.info = merge_info(lists, nr);
	rc = list_init(&m->base, &merge_ops, lists[0]->info.root, NULL, err);
	if (rc == 0 && !m->heap)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc < 0) {
		shoal_list_close(&m->base); /* it has no sources yet */
		return rc;
	}
	for (m->nr = 0; m->nr < nr; m->nr++)
		m->source[m->nr].list = lists[m->nr];
	*ret_list = &m->base;
	return 0;
}
