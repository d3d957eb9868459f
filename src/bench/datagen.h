/*
 * datagen.h - write the dataset of a workload: every file a function of the workload and its
 * number, so that any number of ranks and threads writes the same, and what is there can be checked
 * against what should be.
 *
 * Files go through the store, each under its name at once when it is whole. Memory is a few buffers
 * a thread, whatever the number of files. The catalog is written at the end from names and sizes
 * that are computed: nothing is listed for it.
 */
#ifndef SHOAL_BENCH_DATAGEN_H
#define SHOAL_BENCH_DATAGEN_H

#include "bench/workload.h"
#include "comm/comm.h"
#include "store/store.h"

/* Where the catalog of train and valid goes, below the data folder; `run` looks for it there. */
#define BENCH_CATALOG_NAME "catalog.shoal"

/* What the dataset was made with, a line "dataset.key=value" each; below the data folder. */
#define BENCH_NOTE_NAME ".shoal-dataset"

/* Held while files are written, where the store is a directory. */
#define BENCH_LOCK_NAME ".shoal-lock"

enum bench_datagen_mode {
	BENCH_DATAGEN_WRITE,  /* all files; refused where there are some already */
	BENCH_DATAGEN_RESUME, /* those that are missing, of another size, or damaged */
	BENCH_DATAGEN_VERIFY, /* none: read all of it and compare */
};

enum bench_datagen_phase {
	BENCH_DATAGEN_FILES,
	BENCH_DATAGEN_LEFTOVERS, /* looking for what an interrupted run left */
	BENCH_DATAGEN_CATALOG,
};

/* Of all ranks together. */
struct bench_datagen_progress {
	enum bench_datagen_phase phase;
	uint64_t nr_done, nr_files;
	uint64_t nr_bytes; /* written, or read and compared */
};

struct bench_datagen_options {
	const char *data;          /* a directory, which is made if it is missing, or a URI */
	struct shoal_store *store; /* lent: there instead. NULL: what @data says */
	enum bench_datagen_mode mode;
	bool check_all; /* resume: compare the content of every file, not of one in some */
	bool force;     /* write also where files of this or of another dataset are */
	/* NULL: BENCH_CATALOG_NAME in the directory; "" for none. With valid files there are also
	 * two of their parts: "NAME-train.shoal", "NAME-valid.shoal". */
	const char *catalog;
	bool no_sync;        /* do not wait for the disk before the catalog is sealed */
	unsigned nr_threads; /* of a rank; 0: what suits */
	const int *stop;     /* ends with -ECANCELED once it is not 0. May be NULL */
	/* Rank 0: called now and then. May be NULL. */
	void (*progress)(void *self, const struct bench_datagen_progress *now);
	/* A file that is missing or wrong, on the rank that found it: ten each. By any thread, but
	 * never while another warns or tells progress. May be NULL. */
	void (*warn)(void *self, const char *words);
	void *self;
};

/* Of all ranks together, and the same on all of them. Index files count with their data file. */
struct bench_datagen_counts {
	uint64_t nr_written, bytes_written;
	uint64_t nr_good;     /* were there, and stayed */
	uint64_t nr_compared; /* of them read and compared */
	uint64_t bytes_compared;
	uint64_t nr_missing, nr_resized, nr_damaged; /* found so; in resume then written */
	uint64_t nr_leftovers;                       /* of an interrupted run, removed */
};

struct bench_datagen_result {
	struct bench_datagen_counts counts;
	uint64_t nr_files;
	unsigned nr_threads;
	double seconds;      /* of the files, until they are on the disk */
	double sync_seconds; /* of those: what the sync took; 0 without one */
	char catalog[4200];  /* "" when there is none */
	bool parts;          /* and those of train and valid */
};

/*
 * Collective over @comm. What is missing or wrong when it only verifies is no error: see the
 * counts. -EEXIST: there are files, and neither resume nor force. -ENOSPC: there is too little
 * room, which was asked before anything is written, and not force. -EBUSY: another is writing
 * there. -EINVAL: what the format cannot be, in words. Otherwise what the store says, with the
 * file's name; then files written so far stay, and resume completes them.
 */
int bench_datagen(struct shoal_comm *comm, const struct bench_workload *w,
		  const struct bench_datagen_options *options,
		  struct bench_datagen_result *ret_result, struct shoal_err *err) SHOAL_MUST_USE;

#endif
