/*
 * datagen.h - write the dataset of a workload. Every file is a function of the workload and its
 * number, so that any number of ranks and threads writes the same bytes, and existing files can be
 * compared with what they should be.
 *
 * Files go through the store; each gets its name when it is complete. Memory is a few buffers per
 * thread, whatever the number of files. The catalog is written at the end from computed names and
 * sizes, without listing.
 */
#ifndef SHOAL_DATAGEN_DATAGEN_H
#define SHOAL_DATAGEN_DATAGEN_H

#include "catalog/extents_writer.h"
#include "comm/comm.h"
#include "store/store.h"
#include "workload/workload.h"

/* The catalog of train and valid, below the data folder; `run` looks for it there. */
#define DATAGEN_CATALOG_NAME "catalog.shoal"

/*
 * The keys that the dataset was made with, one line "dataset.key=value" each; below the data
 * folder.
 */
#define DATAGEN_NOTE_NAME ".shoal-dataset"

/* Held while files are written, if the store is a directory. */
#define DATAGEN_LOCK_NAME ".shoal-lock"

enum datagen_mode {
	DATAGEN_WRITE,  /* all files; refused if some exist already */
	DATAGEN_RESUME, /* those that are missing, of the wrong size, or damaged */
	DATAGEN_VERIFY, /* none: read and compare everything */
};

enum datagen_phase {
	DATAGEN_FILES,
	DATAGEN_LEFTOVERS, /* looking for partial files of an interrupted run */
	DATAGEN_CATALOG,
};

/* Over all ranks. */
struct datagen_progress {
	enum datagen_phase phase;
	uint64_t nr_done, nr_files;
	uint64_t nr_bytes; /* written, or read and compared */
};

struct datagen_options {
	const char *data;
	/* a directory, which is created if missing, or a URI */
	struct store *store;
	/* lent; used instead of opening one. NULL: that of @data */
	const struct shoal_store_config *config;
	/* how to reach it; NULL: from the environment */
	enum datagen_mode mode;
	bool check_all; /* resume: compare the content of every file, not of a sample of them */
	bool force;     /* write even if files of this or another dataset exist */
	bool dry_run;   /* only refuse what would be refused at the start */
	/*
	 * NULL: DATAGEN_CATALOG_NAME in the directory; "" for none. If there are valid files, two
	 * further catalogs are written: "NAME-train.shoal", "NAME-valid.shoal".
	 */
	const char *catalog;
	bool no_sync;        /* do not wait for the disk before sealing the catalog */
	unsigned nr_threads; /* per rank; 0: automatic */
	const int *stop;     /* return -ECANCELED once it is not 0. May be NULL */
	/* On rank 0: called now and then. May be NULL. */
	void (*progress)(void *self, const struct datagen_progress *now);
	/*
	 * Reports a missing or wrong file, on the rank that found it: at most ten per rank. Called
	 * by any thread, but never at the same time as another warning or progress. May be NULL.
	 */
	void (*warn)(void *self, const char *words);
	void *self;
};

/* Over all ranks, and the same on all of them. Side files count with their data file. */
struct datagen_counts {
	uint64_t nr_written, bytes_written;
	uint64_t nr_good;     /* existed and were kept */
	uint64_t nr_compared; /* of those, read and compared */
	uint64_t bytes_compared;
	uint64_t nr_missing, nr_resized, nr_damaged; /* as found; resume then wrote them */
	uint64_t nr_leftovers; /* partial files of an interrupted run, removed */
};

struct datagen_result {
	struct datagen_counts counts;
	uint64_t nr_files;
	unsigned nr_threads;
	double seconds;      /* for the files, until they are on the disk */
	double sync_seconds; /* part of that: the time of the sync; 0 without one */
	char catalog[4200];  /* "" if there is none */
	bool parts;          /* catalogs of train and valid were written too */
};

/*
 * Collective over @comm. In verify mode missing or wrong files are not an error: see the counts.
 * -EEXIST: files exist, and neither resume nor force was given. -ENOSPC: too little space, which is
 * checked before anything is written, unless force was given. -EBUSY: another process is writing
 * there. -EINVAL: the format does not allow such files; see the message. Otherwise the store's
 * error, with the file's name; the files written so far stay, and resume completes them.
 */
int datagen_execute(struct comm *comm, const struct workload *w,
		    const struct datagen_options *options, struct datagen_result *ret_result,
		    struct shoal_err *err) MUST_USE;

/*
 * The extents of the samples of workload files in a catalog that is being written, for formats
 * whose samples are not equal parts of a file. All files have one layout, or each layout is
 * computed.
 */
struct datagen_layout {
	const struct workload *w;
	struct cat_layout *layout; /* of a file of @size bytes; NULL: the format has none */
	uint64_t size;
};

int datagen_layout_init(struct datagen_layout *l, const struct workload *w,
			struct shoal_err *err) MUST_USE;
void datagen_layout_release(struct datagen_layout *l);

/* Add file @id, of the given name and of @size bytes, with its extents if it has some. */
int datagen_layout_add(struct datagen_layout *l, struct shoal_writer *to, const char *name,
		       size_t len, uint64_t size, struct shoal_err *err) MUST_USE;

#endif
