/* datagen_private.h - shared by the files of data generation: one rank's part of the work. */
#ifndef SHOAL_DATAGEN_DATAGEN_PRIVATE_H
#define SHOAL_DATAGEN_DATAGEN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "datagen/datagen.h"
#include "format/format.h"
#include "store/uri.h"

#define DATAGEN_BUFFER (1u << 20) /* bytes generated, written and read at a time */
#define DATAGEN_NAMED  10         /* wrong files named per rank */

struct datagen {
	const struct workload *w;
	const struct datagen_options *o;
	struct comm *comm;
	const struct format *format;
	struct store *store;
	uint64_t rank, nr_ranks;
	uint64_t nr_train, nr_files; /* valid files are numbered after those of train */
	unsigned nr_threads;
	int place_lock;      /* rank 0: descriptor of the directory's lock; otherwise -1 */
	unsigned place_made; /* rank 0: how many directories were missing */

	/* Atomic. */
	_Atomic uint64_t next; /* the first of this rank's files that no thread has taken */
	_Atomic uint64_t nr_done, nr_bytes; /* for progress */
	atomic_bool ended;                  /* something failed, here or on another rank */
	atomic_uint nr_running;             /* threads still running */

	pthread_mutex_t lock; /* guards the members below */
	int rc;               /* the first error of a thread */
	struct shoal_err err;
	struct datagen_counts counts;
	uint64_t nr_named;
};

/* One of the threads, and its buffers. */
struct datagen_worker {
	struct datagen *g;
	pthread_t thread;
	bool started;
	uint8_t *made, *read; /* DATAGEN_BUFFER each */
	struct format_maker maker;
	struct datagen_counts counts;
	struct shoal_err err;
};

/* Whether to stop: a signal, or an error on any rank. */
static inline bool datagen_stopped(const struct datagen *g)
{
	return atomic_load_explicit(&g->ended, memory_order_relaxed) || stop_requested(g->o->stop);
}

/* ---- files.c ---- */

/* Write or check file @index of all. Returns 0 or an error, with the message in wk->err. */
int datagen_file(struct datagen_worker *wk, uint64_t index) MUST_USE;

/* The name of the file, or with @part of one of its side files: see format.h. */
int datagen_name(const struct datagen *g, bool valid, uint64_t id, unsigned part,
		 char name[WORKLOAD_NAME_MAX]) MUST_USE;

/* ---- place.c ---- */

/*
 * On rank 0: open the store, created if necessary; refuse it if it holds another dataset; write the
 * note. Then the other ranks open it and check that they see the same note.
 */
int datagen_place_open(struct datagen *g, struct shoal_err *err) MUST_USE;

/* For a dry run: only refuse what datagen_place_open() would refuse. */
int datagen_place_try(struct datagen *g, struct shoal_err *err) MUST_USE;
int datagen_place_join(struct datagen *g, struct shoal_err *err) MUST_USE;

/* On rank 0: release the lock. Idempotent. */
void datagen_place_unlock(struct datagen *g);

/* Remove the partial files of an interrupted run, in this rank's share of the folders. */
int datagen_leftovers(struct datagen *g, struct shoal_err *err) MUST_USE;

/* ---- catalog.c ---- */

/* On rank 0: seal the catalog, and those of train and valid. */
int datagen_seal(struct datagen *g, struct datagen_result *result, struct shoal_err *err) MUST_USE;

/* Write the path of the catalog to @path; empty if there is none. */
int datagen_catalog_path(const struct datagen *g, char *path, size_t cap,
			 struct shoal_err *err) MUST_USE;

#endif
