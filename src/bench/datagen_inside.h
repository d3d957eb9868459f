/* datagen_inside.h - what the files of data generation share: one rank's part of the work. */
#ifndef SHOAL_BENCH_DATAGEN_INSIDE_H
#define SHOAL_BENCH_DATAGEN_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/datagen.h"
#include "format/format.h"
#include "store/store.h"

#define DATAGEN_BUFFER (1u << 20) /* bytes made, written and read at a time */
#define DATAGEN_NAMED  10         /* files that are wrong and named, a rank */

struct datagen {
	const struct bench_workload *w;
	const struct bench_datagen_options *o;
	struct shoal_comm *comm;
	const struct format *format;
	struct shoal_store *store;
	uint64_t rank, nr_ranks;
	uint64_t nr_train, nr_files; /* valid ones come behind those of train */
	unsigned nr_threads;
	int place_lock; /* rank 0: of the directory; else -1 */

	/* Atomic. */
	_Atomic uint64_t next;              /* of this rank's files, the first that nobody has */
	_Atomic uint64_t nr_done, nr_bytes; /* for progress */
	atomic_bool ended;                  /* something failed, here or elsewhere */
	atomic_uint nr_running;             /* threads */

	pthread_mutex_t lock; /* of what follows */
	int rc;               /* the first error of a thread */
	struct shoal_err err;
	struct bench_datagen_counts counts;
	uint64_t nr_named;
};

/* One of the threads, and its buffers. */
struct datagen_worker {
	struct datagen *g;
	pthread_t thread;
	bool started;
	uint8_t *made, *read; /* DATAGEN_BUFFER each */
	struct format_maker maker;
	struct bench_datagen_counts counts;
	struct shoal_err err;
};

/* Whether to stop: a signal, or an error somewhere. */
static inline bool datagen_stopped(const struct datagen *g)
{
	return atomic_load_explicit(&g->ended, memory_order_relaxed) ||
	       (g->o->stop && __atomic_load_n(g->o->stop, __ATOMIC_RELAXED));
}

/* ---- datagen_files.c ---- */

/* Write or check file @index of all: 0 or an error, with words in wk->err. */
int datagen_file(struct datagen_worker *wk, uint64_t index) SHOAL_MUST_USE;

/* Name of the file, or with @part of one that goes with it: see format.h. */
int datagen_name(const struct datagen *g, bool valid, uint64_t id, unsigned part,
		 char name[BENCH_NAME_MAX]) SHOAL_MUST_USE;

/* ---- datagen_place.c ---- */

/*
 * Rank 0: open the store, made if need be; refuse it when it holds something else; note what is
 * made there. Then the others open it, and see whether they see the same.
 */
int datagen_place_first(struct datagen *g, struct shoal_err *err) SHOAL_MUST_USE;
int datagen_place_others(struct datagen *g, struct shoal_err *err) SHOAL_MUST_USE;

/* Rank 0: let others write there. Idempotent. */
void datagen_place_leave(struct datagen *g);

/* Remove what an interrupted run left half, in this rank's share of the folders. */
int datagen_leftovers(struct datagen *g, struct shoal_err *err) SHOAL_MUST_USE;

/* ---- datagen_catalog.c ---- */

/* Rank 0: seal the catalog, and those of its parts. */
int datagen_seal(struct datagen *g, struct bench_datagen_result *result,
		 struct shoal_err *err) SHOAL_MUST_USE;

/* Where the catalog goes: into @path, which is empty when there is none. */
int datagen_catalog_path(const struct datagen *g, char *path, size_t cap,
			 struct shoal_err *err) SHOAL_MUST_USE;

#endif
