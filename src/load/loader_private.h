/* loader_private.h - shared by the two sides of a loader: the caller's, in loader.c, and the
 * thread that reads ahead, in ahead.c. */
#ifndef SHOAL_LOAD_LOADER_PRIVATE_H
#define SHOAL_LOAD_LOADER_PRIVATE_H

#include <pthread.h>

#include "catalog/recent.h"
#include "load/audit.h"
#include "load/cached.h"
#include "load/engine_private.h"
#include "load/loader.h"
#include "load/pool.h"

/* One sample, or a piece of one, that is being read. */
struct load_slot {
	struct load_request request; /* first member: the engine returns this */
	struct load_batch *batch;
	uint32_t index;   /* of the batch's slots */
	uint32_t place;   /* index of the sample in the step */
	uint64_t off;     /* where the piece begins in the sample */
	uint64_t size;    /* of the sample, or of the room for it if its size is not known */
	bool last;        /* it is the sample's last piece */
	bool in_flight;   /* submitted to the engine */
	struct etag etag; /* of the file, with if_match */
	uint64_t file;    /* in the catalog */
	uint64_t len;     /* of this sample or piece; the request may be longer */
	uint64_t own_cap; /* buffers that it and those that follow it would have by themselves */
	bool inside;      /* the same of request.inside */
	bool follows;     /* it is read by the request of another slot of the batch */
	struct load_slot *next; /* the next one that this slot's request reads, or NULL */
};

/* The samples of one step, of a batch that may have several steps. */
struct load_part {
	struct shoal_batch public; /* first member: the caller receives this */
	struct load_batch *batch;
	uint32_t first; /* index of its first sample in the batch */
	bool held;      /* by the caller */
};

/* BATCH_WAITING: its samples are known, but there is no memory for it yet. BATCH_READY: the caller
 * can take its parts. BATCH_HELD: all were taken. */
enum load_batch_state { BATCH_FREE, BATCH_WAITING, BATCH_FILLING, BATCH_READY, BATCH_HELD };

/* What is read together: a step or, if steps are small, several steps in a row. */
struct load_batch {
	enum load_batch_state state;
	uint64_t number; /* number in the epoch */
	struct load_part *part;
	uint32_t nr_parts, nr_taken, nr_given; /* parts; taken by the caller; given back */
	uint32_t nr, nr_submitted, nr_done;    /* samples */
	struct shoal_sample *sample;
	struct load_slot *slot;
	char *names;   /* names of its files, one after another; room for the longest ones */
	uint64_t need; /* bytes of buffer for all its samples */
	struct load_room room; /* the memory of these. Used by the thread only */
};

/* The next sample, or piece, to add to a batch. */
struct load_cursor {
	uint64_t step;
	uint64_t *ids; /* the samples of the step, of this rank */
	uint64_t nr;
	uint64_t next; /* index of the next one in ids */
	uint64_t off;  /* where the next piece begins in that sample */
	bool begun;    /* ids are those of the step */
	uint32_t file; /* index of the file that its pieces share, in the loader's files */
};

struct shoal_loader {
	const struct shoal_catalog *cat;
	struct shoal_load_options options;
	struct shoal_order *order;
	uint64_t rank;
	bool sizes;          /* the catalog has sizes */
	bool synthetic;      /* the store computes the bytes, of any size */
	uint64_t slot_bytes; /* size of the largest sample, or piece, that is read */
	uint64_t buffer_len; /* room for each sample; 0: by its own size */
	bool anywhere;       /* samples begin at any offset of a file */
	uint64_t piece; /* bytes of each piece but a sample's last; UINT64_MAX: samples are not cut
			 */
	struct store *store;
	struct load_engine *engine;
	struct load_pool pool; /* used only by the thread once it runs */
	struct load_batch *ring;
	uint32_t nr_ring;
	uint32_t together; /* steps per batch of the ring */
	struct load_part *parts;
	struct shoal_sample *samples;
	struct load_slot *slots;
	char *names;
	struct load_file *files; /* shared by pieces or samples; NULL: there are none */
	uint32_t nr_files;
	struct kept_file *kept; /* which files these are; NULL: see kept_files.h */
	uint64_t nr_kept_uses;
	struct load_slot **sorted; /* of a batch, by place in files; NULL: reads are not merged */
	struct load_cursor cursor; /* used by the thread only */
	struct cat_recent recent;  /* the same */
	struct load_cached cached;
	pthread_t thread;
	bool started;
	char detail[LOAD_DETAIL]; /* lent to the caller */

	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t work, news;
	bool closing;
	uint64_t epoch, wanted,
		running; /* generations: the last epoch requested, and the last begun */
	uint64_t steps;
	uint64_t next_fill, next_submit, next_take; /* the next batch of each */
	bool all_filled;                            /* the epoch has no batch after next_fill - 1 */
	bool reaping;               /* the thread waits for reads and could submit more */
	struct load_batch *waiting; /* the batch that waits for memory, or NULL */
	bool blocked;               /* there was no memory: wait until a batch is given back */
	bool beyond;                /* the batch may exceed the limit */
	int unfit;                  /* it will never get memory, for this reason */
	struct shoal_err unfit_err;
	uint32_t nr_held; /* parts that the caller holds */
	bool freed;       /* batches were given back whose memory may still be in use */
	bool spoiled;     /* a piece of the sample that is being taken is missing */
	bool late;        /* the requested epoch waits for a read that is overdue */
	int broken;       /* the engine's error, after which no epoch can begin */
	int rc;           /* why the epoch ended early */
	struct shoal_err err;
	struct shoal_load_stats stats;
	struct load_sums sums;
	struct histogram latency, open, read;
};

/* The thread, which runs while the loader is open. It frees the engine. */
void *load_ahead(void *loader);

/* With the lock held: the batch of that number, if it is being filled or ready, or NULL. */
struct load_batch *load_batch_of(const struct shoal_loader *l, uint64_t number);

/* With the lock held: end the epoch here. Only the first reason is kept. */
void load_end_epoch(struct shoal_loader *l, int rc, const struct shoal_err *err);

/* The result of a sample: 0, or an error and, if @err is not NULL, its message. */
int load_judge(const struct shoal_loader *l, const struct load_slot *s, struct shoal_err *err);

#endif
