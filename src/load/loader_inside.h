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

/* One sample on its way, or a piece of one. */
struct load_slot {
	struct load_request request; /* first: it is what comes back */
	struct load_batch *batch;
	uint32_t index;         /* in the batch */
	uint32_t place;         /* of the sample among those of the step */
	uint64_t off;           /* of the piece in the sample */
	uint64_t size;          /* of the sample, or the room for it where its size is not known */
	bool last;              /* piece of the sample */
	bool in_flight;         /* the engine has it */
	struct shoal_etag etag; /* of the file, with if_match */
	char name[SHOAL_NAME_MAX + 1];
};

enum load_batch_state { BATCH_FREE, BATCH_FILLING, BATCH_READY, BATCH_HELD };

struct load_batch {
	struct shoal_batch public; /* first: it is what the caller has */
	enum load_batch_state state;
	uint64_t number; /* among those of the epoch */
	uint32_t nr_submitted, nr_done;
	struct shoal_sample *sample;
	struct load_slot *slot;
};

/* What is filled in next. */
struct load_cursor {
	uint64_t step;
	uint64_t *ids; /* of the step's samples */
	uint64_t nr;
	uint64_t next; /* of them */
	uint64_t off;  /* in that sample */
	bool begun;    /* ids are the step's */
	uint32_t file; /* that its pieces share, of the loader's files */
};

struct shoal_loader {
	const struct shoal_catalog *cat;
	struct shoal_load_options options;
	struct shoal_order *order;
	uint64_t rank;
	bool sizes;   /* the catalog has them */
	bool made_up; /* by a store that has any size */
	uint64_t slot_bytes;
	uint64_t piece; /* bytes of each but the last of a sample; UINT64_MAX: none is cut */
	struct shoal_store *store;
	struct load_engine *engine;
	struct load_pool pool;
	struct load_batch *ring;
	uint32_t nr_ring;
	struct shoal_sample *samples;
	struct load_slot *slots;
	struct load_file *files; /* that pieces share; NULL: none do */
	uint32_t nr_files;
	struct load_cursor cursor; /* the thread's */
	struct load_cached cached;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work, news;
	bool closing;
	uint64_t epoch, wanted, running; /* generations: an epoch was asked for, and is begun */
	uint64_t steps;
	uint64_t next_fill, next_submit, next_take; /* which batch comes next in each */
	bool all_filled;                            /* there is none after next_fill - 1 */
	bool reaping; /* the thread waits for reads, and has room for more */
	bool spoiled; /* a piece of the sample whose pieces are being taken is missing */
	bool late;    /* the epoch asked for waits for a read that is past its time */
	int broken;   /* the engine failed, with this: no epoch can begin any more */
	int rc;       /* why the epoch ended early, and the words */
	struct shoal_err err;
	struct shoal_load_stats stats;
	struct load_sums sums;
	struct load_histogram latency, open, read;
};

/* The thread, from the loader's opening to its closing. It frees the engine. */
void *load_ahead(void *loader);

/* With the lock held: the batch of that number, if it is being filled or ready, or NULL. */
struct load_batch *load_batch_of(const struct shoal_loader *l, uint64_t number);

/* With the lock held: the epoch ends here. The first reason counts. */
void load_end_epoch(struct shoal_loader *l, int rc, const char *words);

/* What became of a sample: 0, or an error and, where @err is not NULL, words. */
int load_judge(const struct shoal_loader *l, const struct load_slot *s, struct shoal_err *err);

#endif
