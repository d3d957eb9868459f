/*
 * walk.h - list a store with several threads.
 *
 * Each thread takes a unit (a directory, say), lists it, and puts back the units it found. What
 * they find goes to one taker, a batch at a time. The owner, whose thread does not list, waits,
 * shows how far it is, and may give units away to other ranks or bring some from there.
 */
#ifndef SHOAL_INDEX_WALK_H
#define SHOAL_INDEX_WALK_H

#include "index/filter.h"
#include "index/sort.h"
#include "index/units.h"
#include "store/store.h"

struct index_walk;

struct index_walk_options {
	struct shoal_store *store; /* lent */
	struct store_list_options list;
	unsigned nr_threads;
	/* Cores they may use: as many threads begin, the others when those leave cores idle.
	 * 0: all threads begin at once. */
	unsigned nr_cores;
	bool (*wanted)(void *self, const char *name, size_t len, bool is_dir); /* NULL: all */
	/* As the sink's; the sink is for what is known. NULL: nothing is. */
	int (*known)(void *self, struct store_sink *sink, const struct store_dir *dir,
		     struct shoal_err *err);
	bool keep_going; /* over what cannot be listed, after telling: */
	void (*trouble)(void *self, const char *words); /* by one thread at a time */
	const char *tmp_dir;                            /* lent */
	/* Take entries: called by one thread at a time. */
	int (*take)(void *self, const struct store_entry *entries, size_t nr,
		    struct shoal_err *err);
	void *self;
	/* Takes what is known to be next in order, by one thread at a time, until something is not;
	 * of the whole, what it took comes first, and goes to nobody else. NULL: all go to @take.
	 * No checkpoints then, and no sharing. */
	shoal_entry_fn *take_next;
	void *next_self;
	uint64_t samples;   /* of each entry for take_next */
	size_t next_memory; /* bytes that may wait for it */
};

struct index_walk_state {
	uint64_t nr_names, nr_units, nr_pending; /* found, begun, waiting */
	uint64_t nr_directories;                 /* read to their end: a unit may be less */
	uint64_t nr_steps;    /* what makes a new checkpoint worth it: directories, pages, gifts */
	uint64_t nr_foreign;  /* of them on other file systems than the root's */
	uint64_t nr_trouble;  /* what could not be listed */
	uint64_t nr_repeated; /* names found twice, of those that were taken in order */
	uint64_t skipped[STORE_NR_SKIPS];
	bool idle;       /* nothing is left and nobody is at work */
	char where[256]; /* the name found last, cut off where it is long */
};

/* @with_all: with all of the store to list, else with nothing. */
int index_walk_start(const struct index_walk_options *options, bool with_all,
		     struct index_walk **ret_walk, struct shoal_err *err) SHOAL_MUST_USE;

/* Wait until it is idle, has something to spare for others who are hungry, or @timeout_us. */
int index_walk_wait(struct index_walk *w, uint64_t timeout_us, struct index_walk_state *ret_state,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Stop the threads and free everything. NULL is fine. Returns NULL. */
struct index_walk *index_walk_free(struct index_walk *w);

/* ---- Sharing with other ranks ---- */

/* Say whether ranks elsewhere are idle: threads then cut what can be cut. */
void index_walk_set_hungry(struct index_walk *w, bool hungry);

/*
 * Take up to half of the units into @buf, oldest first: bytes used, 0 when there is none to spare.
 * When @nr is not 0 this is gift @nr to rank @to, and stays in our own checkpoints until
 * index_walk_forget(): else a unit on its way could be in nobody's.
 */
size_t index_walk_give(struct index_walk *w, int to, uint64_t nr, uint8_t *buf, size_t room);

/* The gifts to rank @to up to @nr are in a checkpoint of its own. */
void index_walk_forget(struct index_walk *w, int to, uint64_t nr);

/* Put in a unit. */
int index_walk_push(struct index_walk *w, const void *unit, size_t len,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Put in what another rank's index_walk_give() made. */
int index_walk_bring(struct index_walk *w, const uint8_t *units, size_t len,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* ---- Stopping in between ---- */

/* Where a unit went. */
struct index_walk_gift {
	int to;
	uint64_t nr; /* as of index_walk_give() */
};

/* @gift: it was given away, and is not known to be in the taker's checkpoint; NULL: it is ours. */
typedef int index_walk_unit_fn(void *self, const struct index_walk_gift *gift, const void *unit,
			       size_t len, struct shoal_err *err);

/*
 * Hold the threads at a point where nothing is on its way to the taker, and hand out what would
 * have to be listed after that: units waiting, units begun, and units given away that are in no
 * other checkpoint yet. Then call @then, and go on.
 */
int index_walk_checkpoint(struct index_walk *w, index_walk_unit_fn *unit,
			  int (*then)(void *self, struct shoal_err *err), void *self,
			  struct shoal_err *err) SHOAL_MUST_USE;

#endif
