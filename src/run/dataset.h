/*
 * dataset.h - the files that a run reads: from a catalog, from a listing, or with computed names.
 */
#ifndef SHOAL_RUN_DATASET_H
#define SHOAL_RUN_DATASET_H

#include "comm/comm.h"
#include "run/folder.h"
#include "workload/workload.h"

/* Consecutive files of a catalog, and their samples. */
struct run_data_part {
	const struct shoal_catalog *cat; /* lent */
	uint64_t first_file, nr_files;
	uint64_t first_sample, nr_samples;
	double bytes; /* estimated from a sample of the sizes; 0 if the catalog has none */
	/*
	 * What the workload counts, if a sample of the catalog is a group of rows: then more than
	 * nr_samples; otherwise the same.
	 */
	uint64_t nr_rows;
};

struct run_data {
	struct shoal_catalog *cat, *cat_eval; /* the second only if it is another file */
	struct run_data_part train, eval;
	const char *store; /* where the files are, if not at the catalog's root; otherwise NULL */
	char root[1024];   /* where the files are, from the catalog */
	char how[1200];    /* how the catalog was found: a sentence */
	bool kept;         /* its catalogs are in the results folder */
	unsigned made;     /* rank 0: which of them this start created, as bits */
};

/* A canonical form of --data, the same however a path is spelled; "" if it is not given. */
#define RUN_DATA_NAME 4096
void run_data_name(const char *data, char buf[RUN_DATA_NAME]);

struct run_data_options {
	const char *data;     /* a catalog, a directory or a URI; NULL: names from the workload */
	const char *store;    /* read from there instead; NULL: the catalog's root */
	bool synthetic;       /* that store is synthetic: there are no files to check */
	bool etags;           /* required: without a catalog, list with ETags */
	const char *folder;   /* for new catalogs: train.shoal, valid.shoal */
	bool reuse;           /* reuse an existing catalog: for a resumed run */
	uint64_t object_size; /* of every file of a synthetic store; 0: the workload's */
	const int *stop;
	struct shoal_catalog_options open; /* how catalogs are opened, and buckets reached */
	/* As in shoal_index_options; may be NULL. */
	void (*progress)(void *self, const struct shoal_index_progress *progress);
	void (*say)(void *self,
		    const char *words); /* reports what is being done; on rank 0. May be NULL */
	void *self;
};

/*
 * Collective. -EINVAL, -ENOENT or -ENODATA, with a message, if the files are not those that the
 * workload reads: too few, of another format, or with another number of samples.
 */
int run_data_open(struct run_data *d, struct comm *comm, const struct workload *w,
		  const struct run_data_options *o, struct shoal_err *err) MUST_USE;
void run_data_close(struct run_data *d); /* idempotent */

/* On rank 0, for a run that never began: remove the catalogs that were made for it. */
void run_data_forget(struct run_data *d, const char *folder);

#endif
