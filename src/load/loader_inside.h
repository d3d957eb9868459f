/*
 * loader_inside.h - what the two sides of a loader share: the caller's, in loader.c, and that of
 * the thread that reads ahead, in ahead.c.
 */
#ifndef SHOAL_LOAD_LOADER_INSIDE_H
#define SHOAL_LOAD_LOADER_INSIDE_H

#include <pthread.h>

#include "load/audit.h"
#include "load/cached.h"
#include "load/engine_inside.h"
#include "load/loader.h"
#include "load/pool.h"

/* One sample on its way. */
struct load_slot {
	struct load_request request; /* first: it is what comes back */
	struct load_batch *batch;
	uint32_t index; /* in the batch */
	bool more;      /* the file goes on behind it: bytes there are no growth */
	bool in_flight; /* the engine has it */
	char name[SHOAL_NAME_MAX + 1];
};

enum load_batch_state { BATCH_FREE, BATCH_FILLING, BATCH_READY, BATCH_HELD };

struct load_batch {
	struct shoal_batch public; /* first: it is what the caller has */
	uint64_t turn;             /* which of this loader's batches it is */
	enum load_batch_state state;
	uint32_t nr_submitted, nr_done;
	struct shoal_sample *sample;
	struct load_slot *slot;
	uint64_t *ids;
};

struct shoal_loader {
	const struct shoal_catalog *cat;
	struct shoal_load_options options;
	struct shoal_order *order;
	uint64_t rank;
	bool sizes;   /* the catalog has them */
	bool made_up; /* by a store that has any size */
	uint64_t slot_bytes;
	struct shoal_store *store;
	struct load_engine *engine;
	struct load_pool pool;
	struct load_batch *ring;
	uint32_t nr_ring;
	struct shoal_sample *samples;
	struct load_slot *slots;
	uint64_t *ids;
	struct load_cached cached;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work, news;
	bool closing;
	uint64_t epoch, wanted, running; /* generations: an epoch was asked for, and is begun */
	uint64_t turns, next_fill, next_submit, next_take; /* which turn comes next in each */
	int rc; /* why the epoch ended early, and the words */
	struct shoal_err err;
	struct shoal_load_stats stats;
	struct load_sums sums;
	struct load_histogram latency;
};

/* The thread, from the loader's opening to its closing. It frees the engine. */
void *load_ahead(void *loader);

/* With the lock held: the batch that has the turn's samples, or will have, or NULL. */
struct load_batch *load_batch_of(const struct shoal_loader *l, uint64_t turn);

/* With the lock held: the epoch ends here. The first reason counts. */
void load_end_epoch(struct shoal_loader *l, int rc, const char *words);

/* What became of a sample: 0, or an error and, where @err is not NULL, words. */
int load_judge(const struct shoal_loader *l, const struct load_slot *s, struct shoal_err *err);

#endif
