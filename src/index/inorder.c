#include "index/inorder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

/* What a thread keeps for the next directory, and may without being asked. */
#define UNITS_KEPT (64u << 10)

struct index_stretch {
	struct index_stretch *next, *before;
	size_t cap;    /* bytes in all */
	size_t nr, at; /* entries, and the next one to hand on */
	struct kept {
		uint64_t size;
		uint32_t off, len; /* of the name, behind the entries */
	} entry[];
};

size_t index_inorder_stretch_bytes(size_t nr, size_t bytes)
{
	return sizeof(struct index_stretch) + nr * sizeof(struct kept) + bytes;
}

static const uint8_t *names_of(const struct index_stretch *s)
{
	return (const uint8_t *)&s->entry[s->nr];
}

static const uint8_t *name_at(const struct index_stretch *s, size_t i)
{
	return names_of(s) + s->entry[i].off;
}

bool index_inorder_init(struct index_inorder *o)
{
	o->at = calloc(o->nr_threads, sizeof(*o->at));
	return o->at;
}

void index_inorder_release(struct index_inorder *o)
{
	for (unsigned i = 0; o->at && i < o->nr_threads; i++) {
		free(o->at[i].found);
		free(o->at[i].gathered);
		free(o->at[i].sorted);
		free(o->at[i].units);
	}
	free(o->at);
	o->at = NULL;
	while (o->first) {
		struct index_stretch *s = o->first;

		o->first = s->next;
		free(s);
	}
	free(o->spare);
	o->spare = NULL;
}

void index_inorder_stop(struct index_inorder *o)
{
	__atomic_store_n(&o->over, true, __ATOMIC_RELAXED);
}

/* ---- Order ---- */

/* Whether a directory's first possible name is before another's: they go on with a slash, but for
 * the root, "". */
static int compare_dirs(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t min = a_len < b_len ? a_len : b_len;
	size_t at = shoal_name_shared((const uint8_t *)a, a_len, (const uint8_t *)b, b_len);
	int x, y;

	if (at == min && (min == 0 || a_len == b_len))
		return (a_len > b_len) - (a_len < b_len);
	x = at < a_len ? (uint8_t)a[at] : '/';
	y = at < b_len ? (uint8_t)b[at] : '/';
	return x != y ? (x > y) - (x < y) : (a_len > b_len) - (a_len < b_len);
}

/* Whether a name comes before all that are in a directory. */
static bool is_before_dir(const uint8_t *name, size_t len, const char *dir, size_t dir_len)
{
	size_t at = shoal_name_shared(name, len, (const uint8_t *)dir, dir_len);

	if (dir_len == 0)
		return false;
	if (at == len)
		return true;
	return at < dir_len ? name[at] < (uint8_t)dir[at] : name[at] < '/';
}

static int compare_stretches(const struct index_stretch *a, const struct index_stretch *b)
{
	return shoal_name_compare(name_at(a, a->at), a->entry[a->at].len, name_at(b, b->at),
				  b->entry[b->at].len);
}

/* ---- What a thread finds ---- */

/* Threads may hold half of the room; the other half is for what waits. */
static void hold(struct index_inorder *o, size_t more)
{
	if (__atomic_add_fetch(&o->held, more, __ATOMIC_RELAXED) > o->room / 2)
		index_inorder_stop(o);
}

static void let_loose(struct index_inorder *o, size_t less)
{
	__atomic_sub_fetch(&o->held, less, __ATOMIC_RELAXED);
}

void index_inorder_begin(struct index_inorder *o, unsigned thread, const void *unit, size_t len)
{
	struct index_inorder_at *at = &o->at[thread];

	at->at_work = store_unit_dir(o->store, unit, len, &at->dir, &at->len);
	if (!at->at_work) /* part of a directory */
		index_inorder_stop(o);
}

static struct index_stretch *new_stretch(struct index_inorder *o, size_t need)
{
	struct index_stretch *s = __atomic_exchange_n(&o->spare, NULL, __ATOMIC_ACQUIRE);

	if (s && s->cap >= need && s->cap / 4 <= need) /* what waits counts with all of it */
		return s;
	free(s);
	s = malloc(need);
	if (s)
		s->cap = need;
	return s;
}

static bool lies_in(const struct index_inorder_at *at, const void *name, size_t len)
{
	return at->len == 0 || (len > at->len + 1 && ((const char *)name)[at->len] == '/' &&
				memcmp(name, at->dir, at->len) == 0);
}

/* A stretch while entries are copied into it, in order. */
struct copying {
	struct index_stretch *stretch;
	uint8_t *names; /* behind the most entries that there can be */
	uint32_t fill;
};

static void start_copy(struct copying *c, struct index_stretch *s, size_t nr)
{
	s->nr = s->at = 0;
	*c = (struct copying){ .stretch = s, .names = (uint8_t *)&s->entry[nr] };
}

static int compare_to_last(const struct copying *c, const void *name, size_t len)
{
	const struct kept *last;

	if (c->stretch->nr == 0)
		return 1;
	last = &c->stretch->entry[c->stretch->nr - 1];
	return shoal_name_compare(name, len, c->names + last->off, last->len);
}

/* False: it is out of order. Of equal names, which a file system may tell while a directory
 * changes, the last counts. */
static bool copy(struct copying *c, const void *name, size_t len, uint64_t size)
{
	struct index_stretch *s = c->stretch;
	int order = compare_to_last(c, name, len);

	if (order < 0)
		return false;
	if (order == 0) {
		s->entry[s->nr - 1].size = size;
		return true;
	}
	s->entry[s->nr++] = (struct kept){ .size = size, .off = c->fill, .len = (uint32_t)len };
	memcpy(c->names + c->fill, name, len);
	c->fill += (uint32_t)len;
	return true;
}

/* All @nr are copied, or were repeated: the names move up behind their entries. */
static void end_copy(struct index_inorder *o, const struct copying *c, size_t nr)
{
	struct index_stretch *s = c->stretch;

	if (s->nr == nr)
		return;
	memmove(&s->entry[s->nr], c->names, c->fill);
	__atomic_fetch_add(&o->repeated, nr - s->nr, __ATOMIC_RELAXED);
}

static bool copy_all(struct copying *c, const struct store_entry *entries, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!copy(c, entries[i].name, entries[i].len, entries[i].size))
			return false;
	return true;
}

static bool is_empty(const struct index_inorder_at *at)
{
	return !at->found && !(at->gathered && at->gathered->nr > 0);
}

bool index_inorder_found(struct index_inorder *o, unsigned thread,
			 const struct store_entry *entries, size_t nr)
{
	struct index_inorder_at *at = &o->at[thread];
	const struct store_entry *last = &entries[nr - 1];
	struct index_stretch *s = NULL;
	struct copying c;
	size_t bytes = 0;

	assert(nr > 0 && nr <= STORE_FOUND_MAX); /* so that 32 bits are enough for the bytes */
	for (size_t i = 0; i < nr; i++)
		bytes += entries[i].len;
	if (is_empty(at) && lies_in(at, entries[0].name, entries[0].len) &&
	    lies_in(at, last->name, last->len))
		s = new_stretch(o, index_inorder_stretch_bytes(nr, bytes));
	if (s)
		start_copy(&c, s, nr);
	if (!s || !copy_all(&c, entries, nr)) {
		free(s);
		index_inorder_stop(o);
		return false;
	}
	end_copy(o, &c, nr);
	at->found = s;
	return true;
}

/* ---- What it finds part by part ---- */

bool index_inorder_found_some(struct index_inorder *o, unsigned thread,
			      const struct store_entry *entries, size_t nr)
{
	struct index_inorder_at *at = &o->at[thread];
	bool fits = !at->found;
	size_t grown;

	if (!at->gathered)
		at->gathered = index_gathered_new();
	for (size_t i = 0; i < nr; i++)
		fits &= lies_in(at, entries[i].name, entries[i].len);
	if (!at->gathered || !fits || !index_gathered_add(at->gathered, entries, nr, &grown)) {
		index_inorder_stop(o);
		return false;
	}
	hold(o, grown); /* and keep it for the next directory */
	return true;
}

/* Now all of it is known, and it is as if it had been found at once. Where it is over by now it
 * waits all the same. */
static int sort_gathered(struct index_inorder *o, struct index_inorder_at *at,
			 struct shoal_err *err)
{
	struct index_gathered *g = at->gathered;
	struct copying c;

	if (!g || g->nr == 0)
		return 0;
	at->found = new_stretch(o, index_inorder_stretch_bytes(g->nr, g->fill));
	if (!at->found)
		return shoal_fail(err, -ENOMEM, "out of memory");
	index_gathered_sort(g, at->len ? (uint32_t)at->len + 1 : 0);
	start_copy(&c, at->found, g->nr);
	for (size_t i = 0; i < g->nr; i++) {
		const struct index_ref *ref = &g->ref[i];

		if (!copy(&c, g->names + ref->off, ref->len, g->size[ref->tag]))
			return shoal_fail(
				err, -EBADMSG,
				"a directory was sorted out of order: please report this");
	}
	end_copy(o, &c, g->nr);
	index_gathered_clear(g);
	return 0;
}

/* False: without memory, or it would be too much. */
static bool make_room(struct index_inorder *o, struct index_inorder_at *at, size_t need)
{
	size_t cap = (size_t)shoal_min(INDEX_INORDER_UNITS_BYTES, shoal_max(4096, 2 * need));
	uint8_t *grown;

	if (need <= at->cap)
		return true;
	grown = need <= cap ? realloc(at->units, cap) : NULL;
	if (!grown)
		return false;
	if (cap > UNITS_KEPT)
		hold(o, cap - (at->cap > UNITS_KEPT ? at->cap : 0));
	at->units = grown;
	at->cap = cap;
	return true;
}

bool index_inorder_more(struct index_inorder *o, unsigned thread, const void *unit, size_t len)
{
	struct index_inorder_at *at = &o->at[thread];
	size_t need = at->fill + sizeof(uint32_t) + len;
	uint32_t mark = (uint32_t)len;
	const char *dir;
	size_t dir_len;

	if (!make_room(o, at, need) || !store_unit_dir(o->store, unit, len, &dir, &dir_len)) {
		index_inorder_stop(o);
		return false;
	}
	memcpy(at->units + at->fill, &mark, sizeof(mark));
	memcpy(at->units + at->fill + sizeof(mark), unit, len);
	at->fill = need;
	at->nr++;
	return true;
}

static int compare_units(const void *a, const void *b, void *store)
{
	const struct index_unit_ref *x = a, *y = b;
	const char *dir[2] = { "", "" };
	size_t len[2] = { 0 };

	(void)store_unit_dir(store, x->unit, x->len, &dir[0], &len[0]);
	(void)store_unit_dir(store, y->unit, y->len, &dir[1], &len[1]);
	return compare_dirs(dir[0], len[0], dir[1], len[1]);
}

static bool unit_is_before(void *store, const struct index_unit_ref *a,
			   const struct index_unit_ref *b)
{
	return compare_units(a, b, store) < 0;
}

static void refer_to_units(const struct index_inorder_at *at, struct index_unit_ref *refs)
{
	const uint8_t *p = at->units;

	for (size_t i = 0; i < at->nr; i++) {
		uint32_t mark;

		memcpy(&mark, p, sizeof(mark));
		refs[i] = (struct index_unit_ref){ .unit = p + sizeof(mark), .len = mark };
		p += sizeof(mark) + mark;
	}
}

int index_inorder_sort(struct index_inorder *o, unsigned thread, struct shoal_err *err)
{
	struct index_inorder_at *at = &o->at[thread];
	int rc = sort_gathered(o, at, err);

	if (at->nr == 0 || rc < 0 || index_inorder_is_over(o))
		return rc;
	/* 16 bytes for a directory, of those in one directory, while it ends. */
	at->sorted = malloc(at->nr * sizeof(*at->sorted));
	if (!at->sorted) {
		index_inorder_stop(o);
		return 0;
	}
	refer_to_units(at, at->sorted);
	qsort_r(at->sorted, at->nr, sizeof(*at->sorted), compare_units, o->store);
	return 0;
}

/* ---- What waits ---- */

static void put_after(struct index_inorder *o, struct index_stretch *before,
		      struct index_stretch *s)
{
	s->before = before;
	s->next = before ? before->next : o->first;
	*(s->next ? &s->next->before : &o->last) = s;
	*(before ? &before->next : &o->first) = s;
}

/* A new one comes after most others: look from the end. */
static void put_in_list(struct index_inorder *o, struct index_stretch *s)
{
	struct index_stretch *before = o->last;

	while (before && compare_stretches(s, before) < 0)
		before = before->before;
	put_after(o, before, s);
}

/* What is left of the first is still among the first. */
static void put_back(struct index_inorder *o, struct index_stretch *s)
{
	struct index_stretch *next = o->first;

	while (next && compare_stretches(next, s) < 0)
		next = next->next;
	put_after(o, next ? next->before : o->last, s);
}

static void take_first(struct index_inorder *o)
{
	o->first = o->first->next;
	*(o->first ? &o->first->before : &o->last) = NULL;
}

static void drop(struct index_inorder *o, struct index_stretch *s)
{
	o->used -= s->cap;
	free(__atomic_exchange_n(&o->spare, s, __ATOMIC_RELEASE));
}

/* In order, or, when it is over, as they came. */
static int push_units(struct index_inorder *o, struct index_inorder_at *at,
		      struct index_units *units, struct shoal_err *err)
{
	const uint8_t *p = at->units;
	size_t nr = at->nr;
	int rc = 0;

	at->fill = at->nr = 0;
	if (nr == 0)
		return 0;
	if (at->sorted && !index_inorder_is_over(o) &&
	    index_units_insert(units, at->sorted, nr, unit_is_before, o->store))
		return 0;
	index_inorder_stop(o);
	for (size_t i = 0; i < nr && rc == 0; i++) {
		uint32_t mark;

		memcpy(&mark, p, sizeof(mark));
		rc = index_units_push(units, p + sizeof(mark), mark, err);
		p += sizeof(mark) + mark;
	}
	return rc;
}

bool index_inorder_holds_units(const struct index_inorder *o, unsigned thread)
{
	return o->at[thread].nr > 0;
}

int index_inorder_let_go(struct index_inorder *o, unsigned thread, struct index_units *units,
			 struct shoal_err *err)
{
	return push_units(o, &o->at[thread], units, err);
}

int index_inorder_end(struct index_inorder *o, unsigned thread, struct index_units *units,
		      struct shoal_err *err)
{
	struct index_inorder_at *at = &o->at[thread];
	int rc = push_units(o, at, units, err);

	if (at->found) {
		o->used += at->found->cap;
		put_in_list(o, at->found);
	}
	if (o->used + __atomic_load_n(&o->held, __ATOMIC_RELAXED) > o->room)
		index_inorder_stop(o);
	if (at->cap > UNITS_KEPT) {
		let_loose(o, at->cap);
		free(at->units);
		at->units = NULL;
		at->cap = 0;
	}
	if (index_inorder_is_over(o)) { /* nothing is gathered any more */
		free(at->gathered);
		at->gathered = NULL;
	}
	free(at->sorted);
	at->sorted = NULL;
	at->found = NULL;
	at->at_work = false;
	return rc;
}

/* ---- Handing on ---- */

/* Those that are at work will find something to wait, too: there is half of the room for that. */
bool index_inorder_is_behind(const struct index_inorder *o)
{
	return o->busy && !index_inorder_is_over(o) &&
	       o->used + __atomic_load_n(&o->held, __ATOMIC_RELAXED) > o->room / 2;
}

struct limit {
	bool any;
	const char *dir;
	size_t len;
};

static void lower(struct limit *l, const char *dir, size_t len)
{
	if (!l->any || compare_dirs(dir, len, l->dir, l->len) < 0)
		*l = (struct limit){ .any = true, .dir = dir, .len = len };
}

/* The first directory that is not listed to its end. False: that cannot be told. */
static bool find_limit(struct index_inorder *o, struct index_units *units, struct limit *ret_limit)
{
	struct index_unit_ref top;
	const char *dir;
	size_t len;
	int rc = index_units_top(units, &top, NULL);

	*ret_limit = (struct limit){ 0 };
	if (rc < 0 || (rc > 0 && !store_unit_dir(o->store, top.unit, top.len, &dir, &len)))
		return false;
	if (rc > 0)
		lower(ret_limit, dir, len);
	for (unsigned i = 0; i < o->nr_threads; i++)
		if (o->at[i].at_work)
			lower(ret_limit, o->at[i].dir, o->at[i].len);
	return true;
}

static bool is_within(const struct index_stretch *s, size_t i, const struct limit *l)
{
	const uint8_t *name = name_at(s, i);
	size_t len = s->entry[i].len;

	if (l->any && !is_before_dir(name, len, l->dir, l->len))
		return false;
	return !s->next || shoal_name_compare(name, len, name_at(s->next, s->next->at),
					      s->next->entry[s->next->at].len) < 0;
}

/* How many of the first stretch come before the limit, and before all other stretches. */
static size_t count_within(const struct index_stretch *s, const struct limit *l)
{
	size_t low = s->at, high = s->nr;

	if (is_within(s, s->nr - 1, l))
		return s->nr - s->at;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_within(s, middle, l))
			low = middle + 1;
		else
			high = middle;
	}
	return low - s->at;
}

/* Two of one name, as of two listings of one directory: one is as good as the other. */
static bool drop_repeated(struct index_inorder *o)
{
	struct index_stretch *s = o->first;

	if (!s->next || compare_stretches(s, s->next) != 0)
		return false;
	take_first(o);
	__atomic_fetch_add(&o->repeated, 1, __ATOMIC_RELAXED);
	if (++s->at == s->nr)
		drop(o, s);
	else
		put_back(o, s);
	return true;
}

struct index_stretch *index_inorder_next(struct index_inorder *o, struct index_units *units,
					 size_t *ret_nr)
{
	struct limit limit;

	if (!o->first || !find_limit(o, units, &limit))
		return NULL;
	while (o->first && !index_inorder_is_over(o)) {
		struct index_stretch *s = o->first;
		size_t nr = count_within(s, &limit);

		if (nr > 0) {
			take_first(o);
			*ret_nr = nr;
			return s;
		}
		if (!drop_repeated(o))
			break;
	}
	return NULL;
}

/*
 * The names of a stretch rise: that was seen when they were copied. That one stretch comes after
 * another follows from all of the above, and who takes them relies on it: a look at each first name
 * costs nothing, and a catalog out of order would be damaged.
 */
static int check_that_it_follows(const struct index_inorder *o, const struct index_stretch *s,
				 struct shoal_err *err)
{
	const uint8_t *name = name_at(s, s->at);
	size_t len = s->entry[s->at].len;

	if (shoal_name_compare(o->last_name, o->last_len, name, len) < 0)
		return 0;
	return shoal_fail(err, -EBADMSG,
			  "'%.*s' was listed after '%.*s', out of order: please report this",
			  (int)shoal_min(len, 200), (const char *)name,
			  (int)shoal_min(o->last_len, 200), (const char *)o->last_name);
}

static void remember_last(struct index_inorder *o, const struct index_stretch *s)
{
	o->last_len = s->entry[s->at - 1].len;
	memcpy(o->last_name, name_at(s, s->at - 1), o->last_len);
}

int index_inorder_hand_on(struct index_inorder *o, struct index_stretch *s, size_t nr,
			  struct shoal_err *err)
{
	int rc = check_that_it_follows(o, s, err);

	for (; nr > 0 && rc == 0; nr--, s->at++) {
		struct shoal_entry e = { .name = name_at(s, s->at),
					 .len = s->entry[s->at].len,
					 .size = s->entry[s->at].size,
					 .samples = o->samples };

		rc = o->take(o->self, &e, err);
	}
	if (rc == 0)
		remember_last(o, s);
	return rc;
}

void index_inorder_give_back(struct index_inorder *o, struct index_stretch *s)
{
	if (s->at == s->nr)
		drop(o, s);
	else
		put_back(o, s);
}

int index_inorder_rest(struct index_inorder *o, size_t most,
		       int (*take)(void *self, const struct store_entry *entries, size_t nr,
				   struct shoal_err *err),
		       void *self, struct shoal_err *err)
{
	int rc = 0;

	while (o->first && most > 0 && rc == 0) {
		struct index_stretch *s = o->first;

		for (; s->at < s->nr && most > 0 && rc == 0; s->at++, most--) {
			struct store_entry e = { .name = (const char *)name_at(s, s->at),
						 .len = s->entry[s->at].len,
						 .size = s->entry[s->at].size };

			rc = take(self, &e, 1, err);
		}
		if (s->at < s->nr)
			break;
		take_first(o);
		drop(o, s);
	}
	return rc;
}
