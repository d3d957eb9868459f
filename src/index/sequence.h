/*
 * sequence.h - deliver entries in order, while other units are still being listed.
 *
 * Units are intervals of names, and are begun in order; the directories in a directory come before
 * its neighbours. So everything that comes before all units that are being listed, and before all
 * entries that wait, is complete: it can go into the catalog at once, without the sorter. This
 * lasts until a directory is too large for one thread, or too much waits for a slow unit. After
 * that, entries go to the sorter, including those that were not delivered.
 *
 * Calls are made with the walk's lock held, unless stated otherwise.
 */
#ifndef SHOAL_INDEX_SEQUENCE_H
#define SHOAL_INDEX_SEQUENCE_H

#include "catalog/digest.h"
#include "index/queue.h"
#include "sort/sort.h"
#include "store/store.h"

/* Limit of subdirectories per directory: with more, sorting them would make other threads wait
 * too long. */
#define INDEX_SEQUENCE_UNITS_BYTES (1u << 20)

/* A thread collects a directory in this much memory, up to this many entries. Larger directories
 * are better split for several threads, and sorted with all others. */
#define INDEX_DIR_MAX   16384u
#define INDEX_DIR_BYTES (1u << 20)

/* The part of it that is not counted as reserved: a directory that the store lists at once. */
#define INDEX_DIR_FREE (192u << 10)

typedef int index_take_pack_fn(void *self, const uint8_t *at, const uint8_t *to,
			       const struct cat_digest *digest, struct shoal_err *err);

/* A pack of entries that waits for its turn. */
struct index_waiting;

/* The unit that a thread lists, and the entries it has found. */
struct index_sequence_at {
	bool at_work;
	const char *start; /* what will be found comes after this; lent, of the unit */
	size_t start_len;
	uint8_t *bytes; /* entries of dir, with spare memory after it; NULL before it is needed */
	struct packer dir;
	size_t reserved; /* bytes of these, beyond INDEX_DIR_FREE */
	struct index_waiting *found;
	/*
	 * Its subdirectories: a list of units, and where these are; in order once they have been
	 * sorted.
	 */
	uint8_t *units;
	size_t fill, cap, nr;
	struct index_unit_ref *sorted;
};

struct index_sequence {
	struct store *store; /* lent, like everything above */
	sort_entry_fn *take;
	/*
	 * Packs that are delivered whole need not be digested by the one thread that delivers:
	 * @see digests a pack on the thread that found it, or returns false if its entries must be
	 * taken one by one; @take_pack takes it, from @at up to @to. NULL: all are taken one by
	 * one.
	 */
	bool (*see)(void *self, const struct pack *pack, struct cat_digest *ret_digest);
	index_take_pack_fn *take_pack;
	void *self;
	size_t room; /* bytes that may wait */
	unsigned nr_threads;
	/* ---- */
	struct index_sequence_at *at;       /* one per thread */
	struct index_waiting *first, *last; /* by their next name */
	struct index_waiting *spare;        /* one whose memory can be reused */
	size_t used;
	size_t held;       /* atomic: bytes that threads have reserved */
	bool busy;         /* a thread is delivering */
	bool over;         /* atomic: in-order delivery has ended */
	uint64_t repeated; /* atomic: names dropped as duplicates */
	size_t last_len;   /* the name delivered last: used by the delivering thread */
	uint8_t last_name[SHOAL_NAME_MAX];
};

/* The fields above the line are set. False without memory. */
bool index_sequence_init(struct index_sequence *o) MUST_USE;
void index_sequence_release(struct index_sequence *o);

static inline bool index_sequence_is_over(const struct index_sequence *o)
{
	return __atomic_load_n(&o->over, __ATOMIC_RELAXED);
}

/* End in-order delivery: from here on entries go to the sorter. May be called without the lock. */
void index_sequence_stop(struct index_sequence *o);

/* A thread begins @unit, or the rest of it. It keeps the bytes until the end. */
void index_sequence_begin(struct index_sequence *o, unsigned thread, const void *unit, size_t len);

/* Report entries, in any order; or a directory. Call without the lock. False: they are not
 * taken, because in-order delivery has ended. */
bool index_sequence_found(struct index_sequence *o, unsigned thread,
			  const struct sort_entry *entries, size_t nr) MUST_USE;
bool index_sequence_more(struct index_sequence *o, unsigned thread, const void *unit,
			 size_t len) MUST_USE;

/* Whether it has directories that no other thread knows of. Call without the lock. After
 * in-order delivery has ended there is no reason to keep them: release them to other threads. */
bool index_sequence_holds_units(const struct index_sequence *o, unsigned thread);
int index_sequence_release_units(struct index_sequence *o, unsigned thread,
				 struct index_queue *units, struct shoal_err *err) MUST_USE;

/* Sort what it found. Call without the lock, before the two that follow. */
int index_sequence_sort(struct index_sequence *o, unsigned thread, struct shoal_err *err) MUST_USE;

/* What it found so far now waits for delivery. */
void index_sequence_put(struct index_sequence *o, unsigned thread);

/* The same, and its unit is finished: its directories are now in @units. */
int index_sequence_end(struct index_sequence *o, unsigned thread, struct index_queue *units,
		       struct shoal_err *err) MUST_USE;

/* Insert a unit into @units, at its place. False: it has none, and in-order delivery has ended. */
bool index_sequence_insert(struct index_sequence *o, struct index_queue *units, const void *unit,
			   size_t len) MUST_USE;

/* Whether delivery cannot keep up, as opposed to a slow unit that everything waits for: then a
 * thread should wait before it begins another unit. */
bool index_sequence_is_behind(const struct index_sequence *o);

/* The entries up to *@ret_to can be delivered. The pack is the caller's until it is given back.
 * NULL: there are none. */
struct index_waiting *index_sequence_next(struct index_sequence *o, struct index_queue *units,
					  const uint8_t **ret_to);

/* Called without the lock, by one thread at a time. */
int index_sequence_hand_on(struct index_sequence *o, struct index_waiting *w, const uint8_t *to,
			   struct shoal_err *err) MUST_USE;

/* Called with the lock again. */
void index_sequence_give_back(struct index_sequence *o, struct index_waiting *w);

/* After the walk: deliver up to @most of the waiting entries to @take, some at a time. Nothing
 * is left when `first` is NULL. */
int index_sequence_rest(struct index_sequence *o, size_t most,
			int (*take)(void *self, unsigned thread, const struct sort_entry *entries,
				    size_t nr, bool group, struct shoal_err *err),
			void *self, struct shoal_err *err) MUST_USE;

#endif
