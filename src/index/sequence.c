#include "index/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/name.h"

/* Memory that a thread keeps for the next directory, and may reserve without asking. */
#define UNITS_KEPT (64u << 10)

/* References of a directory, to sort it. */
#define SPARE_BYTES (INDEX_DIR_MAX * sizeof(struct sort_ref))

/* Mapped, not allocated: freeing an allocation of this size would raise malloc's threshold, and
 * buffers of 64 connections that are freed would stay resident (8 MB). */
#define DIR_AND_SPARE (INDEX_DIR_BYTES + SPARE_BYTES)

struct index_waiting {
	struct index_waiting *next, *before;
	size_t cap; /* bytes in all */
	struct pack pack;
	const uint8_t *at; /* the next entry to deliver */
	bool digested;
	struct cat_digest digest; /* of the whole pack */
	uint8_t bytes[];
};

static bool is_empty(const struct index_waiting *w)
{
	return w->at == w->pack.bytes + w->pack.len;
}

bool index_sequence_init(struct index_sequence *o)
{
	o->at = calloc(o->nr_threads, sizeof(*o->at));
	return o->at;
}

static bool sequence_make_dir(struct index_sequence_at *at)
{
	if (!at->bytes) {
		void *bytes = mmap(NULL, DIR_AND_SPARE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (bytes == MAP_FAILED)
			return false;
		at->bytes = bytes;
		packer_init(&at->dir, at->bytes, INDEX_DIR_BYTES);
	}
	return true;
}

static void free_dir(struct index_sequence_at *at)
{
	if (at->bytes)
		munmap(at->bytes, DIR_AND_SPARE);
	at->bytes = NULL;
}

void index_sequence_release(struct index_sequence *o)
{
	for (unsigned i = 0; o->at && i < o->nr_threads; i++) {
		free(o->at[i].found);
		free_dir(&o->at[i]);
		free(o->at[i].sorted);
		free(o->at[i].units);
	}
	free(o->at);
	o->at = NULL;
	while (o->first) {
		struct index_waiting *w = o->first;

		o->first = w->next;
		free(w);
	}
	free(o->spare);
	o->spare = NULL;
}

void index_sequence_stop(struct index_sequence *o)
{
	__atomic_store_n(&o->over, true, __ATOMIC_RELAXED);
}

/* Threads may reserve half of the room; the other half is for packs that wait. */
static void reserve(struct index_sequence *o, size_t more)
{
	if (__atomic_add_fetch(&o->held, more, __ATOMIC_RELAXED) > o->room / 2)
		index_sequence_stop(o);
}

static void unreserve(struct index_sequence *o, size_t less)
{
	__atomic_sub_fetch(&o->held, less, __ATOMIC_RELAXED);
}

/* ---- What a thread finds ---- */

void index_sequence_begin(struct index_sequence *o, unsigned thread, const void *unit, size_t len)
{
	struct index_sequence_at *at = &o->at[thread];

	at->at_work = store_unit_start(o->store, unit, len, &at->start, &at->start_len);
	if (!at->at_work) /* part of a directory */
		index_sequence_stop(o);
}

/* Memory is used as it fills, and kept for the next directory. */
static void reserve_for_dir(struct index_sequence *o, struct index_sequence_at *at)
{
	size_t used = at->dir.fill + 2 * at->dir.nr * sizeof(struct sort_ref);

	if (used > INDEX_DIR_FREE + at->reserved) {
		reserve(o, used - INDEX_DIR_FREE - at->reserved);
		at->reserved = used - INDEX_DIR_FREE;
	}
}

bool index_sequence_found(struct index_sequence *o, unsigned thread,
			  const struct sort_entry *entries, size_t nr)
{
	struct index_sequence_at *at = &o->at[thread];
	struct packer before;
	bool fits = sequence_make_dir(at) && nr <= INDEX_DIR_MAX - at->dir.nr;

	if (fits) {
		before = at->dir;
		fits = packer_put(&at->dir, entries, nr) == nr;
		if (!fits)
			at->dir = before;
	}
	if (!fits) {
		index_sequence_stop(o);
		return false;
	}
	reserve_for_dir(o, at);
	return true;
}

static struct index_waiting *new_waiting(struct index_sequence *o, size_t need)
{
	struct index_waiting *w = __atomic_exchange_n(&o->spare, NULL, __ATOMIC_ACQUIRE);

	if (w && w->cap >= need &&
	    w->cap / 4 <= need) /* a waiting pack counts with all its memory */
		return w;
	free(w);
	w = malloc(need);
	if (w)
		w->cap = need;
	return w;
}

/* Appending the digest of fewer entries takes longer than digesting them. */
#define DIGEST_LEAST 8u

static void digest_pack(const struct index_sequence *o, struct index_waiting *w)
{
	w->digest = (struct cat_digest){ .nr_files = 0 };
	w->digested = o->see && w->pack.nr >= DIGEST_LEAST && o->see(o->self, &w->pack, &w->digest);
}

/* The directory is complete. It waits even if in-order delivery has ended meanwhile. */
static int sort_found(struct index_sequence *o, struct index_sequence_at *at, struct shoal_err *err)
{
	struct index_waiting *w;
	size_t len;
	const uint8_t *name;

	if (!at->bytes || at->dir.nr == 0)
		return 0;
	at->found = w = new_waiting(o, sizeof(*w) + packer_packed(&at->dir));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->pack = packer_sort(&at->dir, at->bytes + INDEX_DIR_BYTES, w->bytes);
	w->at = w->pack.bytes;
	digest_pack(o, w);
	/* A file system may return a name twice while a directory changes. */
	__atomic_fetch_add(&o->repeated, w->pack.repeated, __ATOMIC_RELAXED);
	packer_init(&at->dir, at->bytes, INDEX_DIR_BYTES);
	name = pack_name(w->at, &len);
	if (name_compare(name, len, at->start, at->start_len) <= 0)
		index_sequence_stop(
			o); /* the store is not of this unit: the names before it are not known */
	return 0;
}

/* ---- Directories in a directory ---- */

/* False: out of memory, or it would be too much. */
static bool sequence_make_room(struct index_sequence *o, struct index_sequence_at *at, size_t need)
{
	size_t cap = (size_t)u64_min(INDEX_SEQUENCE_UNITS_BYTES, u64_max(4096, 2 * need));
	uint8_t *grown;

	if (need <= at->cap)
		return true;
	grown = need <= cap ? realloc(at->units, cap) : NULL;
	if (!grown)
		return false;
	if (cap > UNITS_KEPT)
		reserve(o, cap - (at->cap > UNITS_KEPT ? at->cap : 0));
	at->units = grown;
	at->cap = cap;
	return true;
}

bool index_sequence_more(struct index_sequence *o, unsigned thread, const void *unit, size_t len)
{
	struct index_sequence_at *at = &o->at[thread];
	size_t need = at->fill + INDEX_UNIT_HEAD + len;
	const char *start;
	size_t start_len;

	if (!sequence_make_room(o, at, need) ||
	    !store_unit_start(o->store, unit, len, &start, &start_len)) {
		index_sequence_stop(o);
		return false;
	}
	index_unit_put(at->units + at->fill, unit, len);
	at->fill = need;
	at->nr++;
	return true;
}

static int compare_units(const void *a, const void *b, void *store)
{
	const struct index_unit_ref *x = a, *y = b;
	const char *start[2] = { "", "" };
	size_t len[2] = { 0 };

	(void)store_unit_start(store, x->unit, x->len, &start[0], &len[0]);
	(void)store_unit_start(store, y->unit, y->len, &start[1], &len[1]);
	return name_compare(start[0], len[0], start[1], len[1]);
}

static bool unit_is_before(void *store, const struct index_unit_ref *a,
			   const struct index_unit_ref *b)
{
	return compare_units(a, b, store) < 0;
}

int index_sequence_sort(struct index_sequence *o, unsigned thread, struct shoal_err *err)
{
	struct index_sequence_at *at = &o->at[thread];
	struct span list = { .p = at->units, .end = at->units + at->fill };
	int rc = sort_found(o, at, err);

	if (at->nr == 0 || rc < 0 || index_sequence_is_over(o))
		return rc;
	/* 16 bytes per subdirectory, while the directory ends. */
	at->sorted = malloc(at->nr * sizeof(*at->sorted));
	if (!at->sorted) {
		index_sequence_stop(o);
		return 0;
	}
	for (size_t i = 0; i < at->nr && index_unit_next(&list, &at->sorted[i]) > 0; i++)
		;
	qsort_r(at->sorted, at->nr, sizeof(*at->sorted), compare_units, o->store);
	return 0;
}

/* In order, or as they came if in-order delivery has ended. */
static int sequence_push_units(struct index_sequence *o, struct index_sequence_at *at,
			       struct index_queue *units, struct shoal_err *err)
{
	struct span list = { .p = at->units, .end = at->units + at->fill };
	struct index_unit_ref ref;
	size_t nr = at->nr;
	int rc = 0;

	at->fill = at->nr = 0;
	if (nr == 0)
		return 0;
	if (at->sorted && !index_sequence_is_over(o) &&
	    index_queue_insert(units, at->sorted, nr, unit_is_before, o->store))
		return 0;
	index_sequence_stop(o);
	while (rc == 0 && index_unit_next(&list, &ref) > 0)
		rc = index_queue_push(units, ref.unit, ref.len, err);
	return rc;
}

bool index_sequence_holds_units(const struct index_sequence *o, unsigned thread)
{
	return o->at[thread].nr > 0;
}

int index_sequence_release_units(struct index_sequence *o, unsigned thread,
				 struct index_queue *units, struct shoal_err *err)
{
	return sequence_push_units(o, &o->at[thread], units, err);
}

bool index_sequence_insert(struct index_sequence *o, struct index_queue *units, const void *unit,
			   size_t len)
{
	const struct index_unit_ref ref = { .unit = unit, .len = len };

	if (index_queue_insert(units, &ref, 1, unit_is_before, o->store))
		return true;
	index_sequence_stop(o);
	return false;
}

/* ---- Waiting packs ---- */

static int compare_waiting(const struct index_waiting *a, const struct index_waiting *b)
{
	size_t a_len, b_len;
	const uint8_t *x = pack_name(a->at, &a_len), *y = pack_name(b->at, &b_len);

	return name_compare(x, a_len, y, b_len);
}

static void put_after(struct index_sequence *o, struct index_waiting *before,
		      struct index_waiting *w)
{
	w->before = before;
	w->next = before ? before->next : o->first;
	*(w->next ? &w->next->before : &o->last) = w;
	*(before ? &before->next : &o->first) = w;
}

/* A new pack comes after most others: search from the end. */
static void put_in_list(struct index_sequence *o, struct index_waiting *w)
{
	struct index_waiting *before = o->last;

	while (before && compare_waiting(w, before) < 0)
		before = before->before;
	put_after(o, before, w);
}

/* The rest of the first pack is still among the first. */
static void sequence_put_back(struct index_sequence *o, struct index_waiting *w)
{
	struct index_waiting *next = o->first;

	while (next && compare_waiting(next, w) < 0)
		next = next->next;
	put_after(o, next ? next->before : o->last, w);
}

static void take_first(struct index_sequence *o)
{
	o->first = o->first->next;
	*(o->first ? &o->first->before : &o->last) = NULL;
}

void index_sequence_give_back(struct index_sequence *o, struct index_waiting *w)
{
	if (!is_empty(w)) {
		sequence_put_back(o, w);
		return;
	}
	o->used -= w->cap;
	free(__atomic_exchange_n(&o->spare, w, __ATOMIC_RELEASE));
}

void index_sequence_put(struct index_sequence *o, unsigned thread)
{
	struct index_sequence_at *at = &o->at[thread];

	if (at->found) {
		o->used += at->found->cap;
		put_in_list(o, at->found);
		at->found = NULL;
	}
	if (o->used + __atomic_load_n(&o->held, __ATOMIC_RELAXED) > o->room)
		index_sequence_stop(o);
	if (index_sequence_is_over(o)) /* no more is collected */
		free_dir(at);
}

int index_sequence_end(struct index_sequence *o, unsigned thread, struct index_queue *units,
		       struct shoal_err *err)
{
	struct index_sequence_at *at = &o->at[thread];
	int rc = sequence_push_units(o, at, units, err);

	index_sequence_put(o, thread);
	if (at->cap > UNITS_KEPT) {
		unreserve(o, at->cap);
		free(at->units);
		at->units = NULL;
		at->cap = 0;
	}
	free(at->sorted);
	at->sorted = NULL;
	at->at_work = false;
	return rc;
}

/* ---- Delivery ---- */

/* Units being listed will find more that has to wait: half of the room is for that. */
bool index_sequence_is_behind(const struct index_sequence *o)
{
	return o->busy && !index_sequence_is_over(o) &&
	       o->used + __atomic_load_n(&o->held, __ATOMIC_RELAXED) > o->room / 2;
}

/* A name before which everything is known. */
struct limit {
	bool any;
	const void *name;
	size_t len;
};

static void lower(struct limit *l, const void *name, size_t len)
{
	if (!l->any || name_compare(name, len, l->name, l->len) < 0)
		*l = (struct limit){ .any = true, .name = name, .len = len };
}

/* Where the first unfinished unit starts. False: that is not known. */
static bool find_limit(struct index_sequence *o, struct index_queue *units, struct limit *ret_limit)
{
	struct index_unit_ref top;
	const char *start;
	size_t len;
	int rc = index_queue_top(units, &top, NULL);

	*ret_limit = (struct limit){ 0 };
	if (rc < 0 || (rc > 0 && !store_unit_start(o->store, top.unit, top.len, &start, &len)))
		return false;
	if (rc > 0)
		lower(ret_limit, start, len);
	for (unsigned i = 0; i < o->nr_threads; i++)
		if (o->at[i].at_work)
			lower(ret_limit, o->at[i].start, o->at[i].start_len);
	return true;
}

/* How far entries of the first pack come before the limit, and before all other packs. */
static const uint8_t *split_first(const struct index_waiting *w, const struct limit *limit)
{
	struct limit next = { .any = w->next };

	if (w->next)
		next.name = pack_name(w->next->at, &next.len);
	/* A unit finds names after its start, so an equal name is known. */
	if (limit->any &&
	    (!next.any || name_compare(limit->name, limit->len, next.name, next.len) < 0))
		return pack_split(&w->pack, w->at, limit->name, limit->len, true);
	return next.any ? pack_split(&w->pack, w->at, next.name, next.len, false)
			: w->pack.bytes + w->pack.len;
}

/* Two entries of one name, as from two listings of one directory: either is good. */
static bool drop_repeated(struct index_sequence *o)
{
	struct index_waiting *w = o->first;
	struct sort_entry e;

	if (!w->next || compare_waiting(w, w->next) != 0)
		return false;
	take_first(o);
	__atomic_fetch_add(&o->repeated, 1, __ATOMIC_RELAXED);
	w->at = pack_entry(w->at, &e);
	index_sequence_give_back(o, w);
	return true;
}

struct index_waiting *index_sequence_next(struct index_sequence *o, struct index_queue *units,
					  const uint8_t **ret_to)
{
	struct limit limit;

	if (!o->first || !find_limit(o, units, &limit))
		return NULL;
	while (o->first && !index_sequence_is_over(o)) {
		struct index_waiting *w = o->first;
		const uint8_t *to = split_first(w, &limit);

		if (to > w->at) {
			take_first(o);
			*ret_to = to;
			return w;
		}
		if (!drop_repeated(o))
			break;
	}
	return NULL;
}

/*
 * The names of a pack are in ascending order. The rules above ensure that packs follow each other,
 * and the consumer relies on it: checking each first name costs nothing, and an unsorted catalog
 * would be damaged.
 */
static int check_that_it_follows(const struct index_sequence *o, const struct index_waiting *w,
				 struct shoal_err *err)
{
	size_t len;
	const uint8_t *name = pack_name(w->at, &len);

	if (name_compare(o->last_name, o->last_len, name, len) < 0)
		return 0;
	return err_set(err, -EBADMSG,
		       "'%.*s' was listed after '%.*s', out of order; please report this as a bug",
		       (int)u64_min(len, 200), (const char *)name, (int)u64_min(o->last_len, 200),
		       (const char *)o->last_name);
}

int index_sequence_hand_on(struct index_sequence *o, struct index_waiting *w, const uint8_t *to,
			   struct shoal_err *err)
{
	bool whole = w->digested && w->at == w->pack.bytes && to == w->at + w->pack.len;
	struct sort_entry e = { .len = 0 };
	int rc = check_that_it_follows(o, w, err);

	if (rc == 0 && whole) {
		rc = o->take_pack(o->self, w->at, to, &w->digest, err);
		w->at = to;
		(void)pack_entry(w->pack.last, &e);
	}
	while (w->at < to && rc == 0) {
		w->at = pack_entry(w->at, &e);
		rc = o->take(o->self, &e, err);
	}
	if (rc == 0 && e.name) {
		o->last_len = e.len;
		memcpy(o->last_name, e.name, e.len);
	}
	return rc;
}

/* Entries delivered per call. */
#define REST_ENTRIES 256u

int index_sequence_rest(struct index_sequence *o, size_t most,
			int (*take)(void *self, unsigned thread, const struct sort_entry *entries,
				    size_t nr, bool group, struct shoal_err *err),
			void *self, struct shoal_err *err)
{
	int rc = 0;

	for (size_t done = 0; o->first && done < most && rc == 0;) {
		struct index_waiting *w = o->first;
		struct sort_entry entry[REST_ENTRIES];
		size_t nr = pack_entries(&w->at, w->pack.bytes + w->pack.len, entry,
					 (size_t)u64_min(REST_ENTRIES, most - done));

		rc = take(self, 0, entry, nr, false, err);
		done += nr;
		if (is_empty(w)) {
			take_first(o);
			index_sequence_give_back(o, w);
		}
	}
	return rc;
}
