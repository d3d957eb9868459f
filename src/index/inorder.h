/*
 * inorder.h - hand entries on in order, while other directories are still being listed.
 *
 * Directories are begun in the order of their names, those in a directory before its neighbours.
 * So what comes before all that are being listed, and before all that wait, is known to the last
 * name: it can go into the catalog at once, and needs no sorter. This lasts until a directory is
 * too large to be sorted at once, or too much waits for a slow one. From there on entries go to the
 * sorter, where all that was not handed on follows.
 *
 * Calls are made with the walk's lock held, but where it says otherwise.
 */
#ifndef SHOAL_INDEX_INORDER_H
#define SHOAL_INDEX_INORDER_H

#include "index/gathered.h"
#include "index/sort.h"
#include "index/units.h"
#include "store/store.h"

/* Of the directories in one: with more their order is not worth the wait of other threads. */
#define INDEX_INORDER_UNITS_BYTES (1u << 20)

/* Entries of one directory, in order. */
struct index_stretch;

/* What a stretch of @nr entries takes whose names have @bytes in all. */
size_t index_inorder_stretch_bytes(size_t nr, size_t bytes);

/* The directory that a thread is at, and what it has found there. */
struct index_inorder_at {
	bool at_work;
	const char *dir; /* lent: of the thread's unit */
	size_t len;
	struct index_stretch *found;
	struct index_gathered *gathered; /* kept for the next one; NULL before it is needed */
	/* Directories in it: units after their lengths, and where these are, in order when they
	 * have been sorted. */
	uint8_t *units;
	size_t fill, cap, nr;
	struct index_unit_ref *sorted;
};

struct index_inorder {
	struct shoal_store *store; /* lent, as all above the line */
	shoal_entry_fn *take;
	void *self;
	size_t room;      /* bytes of stretches that may wait */
	uint64_t samples; /* of each entry */
	unsigned nr_threads;
	/* ---- */
	struct index_inorder_at *at;        /* one for each thread */
	struct index_stretch *first, *last; /* that wait, by their next name */
	struct index_stretch *spare;        /* one whose memory can be used again */
	size_t used;
	size_t held;       /* atomic: bytes that threads hold, but for what each may */
	bool busy;         /* a thread hands on */
	bool over;         /* atomic: nothing is handed on any more */
	uint64_t repeated; /* atomic: names dropped because there was another */
	size_t last_len;   /* of the name handed on last: who hands on */
	uint8_t last_name[SHOAL_NAME_MAX];
};

/* The fields above the line are set. False without memory. */
bool index_inorder_init(struct index_inorder *o) SHOAL_MUST_USE;
void index_inorder_release(struct index_inorder *o);

static inline bool index_inorder_is_over(const struct index_inorder *o)
{
	return __atomic_load_n(&o->over, __ATOMIC_RELAXED);
}

/* From here on entries go to the sorter. Without the lock, too. */
void index_inorder_stop(struct index_inorder *o);

/* A thread begins with @unit, which it keeps until the end. */
void index_inorder_begin(struct index_inorder *o, unsigned thread, const void *unit, size_t len);

/* It found entries, all that are in the directory, in order; or some of them, in any order; or a
 * directory. Without the lock. False: they are not taken, and it is over. */
bool index_inorder_found(struct index_inorder *o, unsigned thread,
			 const struct store_entry *entries, size_t nr) SHOAL_MUST_USE;
bool index_inorder_found_some(struct index_inorder *o, unsigned thread,
			      const struct store_entry *entries, size_t nr) SHOAL_MUST_USE;
bool index_inorder_more(struct index_inorder *o, unsigned thread, const void *unit,
			size_t len) SHOAL_MUST_USE;

/* Whether it has directories that nobody else knows of. Without the lock. When it is over there is
 * nothing to keep them for: let others begin with them while it goes on. */
bool index_inorder_holds_units(const struct index_inorder *o, unsigned thread);
int index_inorder_let_go(struct index_inorder *o, unsigned thread, struct index_units *units,
			 struct shoal_err *err) SHOAL_MUST_USE;

/* Bring what it found into order. Without the lock, before the end. */
int index_inorder_sort(struct index_inorder *o, unsigned thread,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* It is through with its unit: what it found waits now, the directories among @units. */
int index_inorder_end(struct index_inorder *o, unsigned thread, struct index_units *units,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* Whether it is handing on that cannot keep up, and not a slow directory that all wait for: then
 * whoever begins with another one had better wait, too. */
bool index_inorder_is_behind(const struct index_inorder *o);

/* The first @ret_nr entries of the stretch can be handed on. It is the caller's until it is given
 * back. NULL: none can. */
struct index_stretch *index_inorder_next(struct index_inorder *o, struct index_units *units,
					 size_t *ret_nr);

/* Without the lock, by one thread at a time. */
int index_inorder_hand_on(struct index_inorder *o, struct index_stretch *s, size_t nr,
			  struct shoal_err *err) SHOAL_MUST_USE;

/* With the lock again. */
void index_inorder_give_back(struct index_inorder *o, struct index_stretch *s);

/* After the walk: hand up to @most of what still waits to @take. Nothing is left when `first` is
 * NULL. */
int index_inorder_rest(struct index_inorder *o, size_t most,
		       int (*take)(void *self, const struct store_entry *entries, size_t nr,
				   struct shoal_err *err),
		       void *self, struct shoal_err *err) SHOAL_MUST_USE;

#endif
