/*
 * walk.h - list a store with several threads.
 *
 * Each thread takes a unit (a directory, for example), lists it, and puts back the units it found.
 * The entries found go to the consumer, many at a time. The owner, whose thread does not list,
 * waits, reports progress, and may hand units to other ranks or receive some.
 */
#ifndef SHOAL_INDEX_WALK_H
#define SHOAL_INDEX_WALK_H

#include "index/filter.h"
#include "index/sequence.h"
#include "sort/sort.h"
#include "store/store.h"

struct index_walk;

struct index_walk_options {
	struct store *store; /* lent */
	struct store_list_options list;
	unsigned nr_threads;
	/*
	 * Cores they may use: this many threads begin, the others when cores stay idle. 0: all
	 * threads begin at once.
	 */
	unsigned nr_cores;
	bool (*wanted)(void *self, const char *name, size_t len, bool is_dir); /* NULL: all */
	/* As the sink's known(); the sink takes what is known. NULL: nothing is known. */
	int (*known)(void *self, struct store_sink *sink, const struct store_dir *dir,
		     struct shoal_err *err);
	bool keep_going; /* Continue without entries that cannot be listed, after reporting them: */
	void (*trouble)(void *self, const char *words); /* by one thread at a time */
	const char *tmp_dir;                            /* lent */
	/*
	 * Takes entries with an index_record as their payload; @group: they are a whole directory.
	 * Called by any number of threads at once.
	 */
	int (*take)(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		    bool group, struct shoal_err *err);
	void *self;
	uint64_t samples;     /* of each entry */
	const char *own_name; /* not listed: the catalog's own name; lent, may be NULL */
	/*
	 * Takes entries in order, from one thread at a time, while that is possible; they
	 * precede all others, and are not passed to @take. NULL: all entries go to @take.
	 * Excludes checkpoints and handoffs.
	 */
	sort_entry_fn *take_next;
	/* As in struct index_sequence. */
	bool (*see_next)(void *self, const struct pack *pack, struct cat_digest *ret_digest);
	index_take_pack_fn *take_next_pack;
	size_t next_memory; /* bytes that may wait for it */
};

struct index_walk_state {
	uint64_t nr_names, nr_units, nr_pending; /* found, begun, waiting */
	uint64_t nr_directories; /* entries read to their end; a unit may be smaller */
	uint64_t nr_steps;   /* a measure of progress since the last checkpoint: directories, pages,
				handoffs */
	uint64_t nr_foreign; /* of them on other file systems than the root's */
	uint64_t nr_trouble; /* entries that could not be listed */
	uint64_t nr_repeated; /* duplicate names among those delivered in order */
	uint64_t skipped[STORE_NR_SKIPS];
	bool idle;       /* no unit is left and no thread is busy */
	char where[256]; /* the name found last, truncated if long */
};

/* @with_all: list all of the store; otherwise start with nothing. */
int index_walk_start(const struct index_walk_options *options, bool with_all,
		     struct index_walk **ret_walk, struct shoal_err *err) MUST_USE;

/* Wait until it is idle, has units to spare for idle ranks, or @timeout_us. */
int index_walk_wait(struct index_walk *w, uint64_t timeout_us, struct index_walk_state *ret_state,
		    struct shoal_err *err) MUST_USE;

/* While a thread asks whether a directory is known: add its entries, which were not read and have
 * @nr_names names. */
int index_walk_add(struct store_sink *sink, const struct sort_entry *entries, size_t nr,
		   uint64_t nr_names, struct shoal_err *err) MUST_USE;

/* Stop the threads and free everything. @w may be NULL. Returns NULL. */
struct index_walk *index_walk_free(struct index_walk *w);

/* ---- Handoffs to other ranks ---- */

/* Set whether other ranks are idle: threads then split what can be split. */
void index_walk_set_idle_elsewhere(struct index_walk *w, bool idle);

/*
 * Take up to half of the units into @buf, oldest first. Returns the bytes used, 0 if there are
 * none to spare. If @nr is not 0 this is handoff @nr to rank @to, and stays in our own
 * checkpoints until index_walk_ack(): otherwise a unit in transit could be in no checkpoint.
 */
size_t index_walk_export_units(struct index_walk *w, int to, uint64_t nr, uint8_t *buf,
			       size_t room);

/* The handoffs to rank @to up to @nr are in a checkpoint of that rank. */
void index_walk_ack(struct index_walk *w, int to, uint64_t nr);

/* Add a unit. */
int index_walk_push(struct index_walk *w, const void *unit, size_t len,
		    struct shoal_err *err) MUST_USE;

/* Add what another rank's index_walk_export_units() made. */
int index_walk_import_units(struct index_walk *w, const uint8_t *units, size_t len,
			    struct shoal_err *err) MUST_USE;

/* ---- Checkpoints ---- */

/*
 * The caller holds the consumer, so that no thread has entries on their way to it. List everything
 * that would have to be listed after that: units waiting, units begun, and units handed off that
 * are in no other checkpoint yet. Then call @then, and continue.
 */
int index_walk_checkpoint(struct index_walk *w, index_unit_fn *unit,
			  int (*then)(void *self, struct shoal_err *err), void *self,
			  struct shoal_err *err) MUST_USE;

#endif
