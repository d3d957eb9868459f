/*
 * dataset.h - the files that a run reads: from a catalog, or found, or computed from their names.
 */
#ifndef SHOAL_BENCH_DATASET_H
#define SHOAL_BENCH_DATASET_H

#include "bench/workload.h"
#include "comm/comm.h"

/* Consecutive files of a catalog, and their samples. */
struct bench_part {
	const struct shoal_catalog *cat; /* lent */
	uint64_t first_file, nr_files;
	uint64_t first_sample, nr_samples;
	double bytes; /* by the sizes of files spread over it; 0 when the catalog has none */
};

struct bench_data {
	struct shoal_catalog *cat, *cat_eval; /* the second only where it is another file */
	struct bench_part train, eval;
	const char *store; /* where they are, if not where the catalog says: else NULL */
	char root[1024];   /* where the files are, as the catalog says */
	char how[1200];    /* how the catalog was come by: a sentence */
	bool kept;         /* its catalogs lie in the results folder */
	unsigned made;     /* rank 0: which of them were put there by this start, a bit each */
};

/* What --data says, in a way that is the same however a path is spelt; "" when it says nothing. */
#define BENCH_DATA_NAME 4096
void bench_data_name(const char *data, char buf[BENCH_DATA_NAME]);

struct bench_data_options {
	const char
		*data; /* a catalog, a directory or a URI; NULL: names as the workload has them */
	const char *store;    /* read from there instead; NULL: the catalog's root */
	bool made_up;         /* by that store: there is nothing to look at */
	bool etags;           /* are needed: what has no catalog is listed, with them */
	const char *folder;   /* for catalogs that are made: train.shoal, valid.shoal */
	bool reuse;           /* a catalog that is there from before: of a run that is resumed */
	uint64_t object_size; /* of every file of a store that makes them up; 0: the workload's */
	const int *stop;
	int (*open)(const char *path, struct shoal_catalog **ret_cat, struct shoal_err *err);
	/* As in shoal_index_options; may be NULL. */
	void (*progress)(void *self, const struct shoal_index_progress *progress);
	void (*say)(void *self, const char *words); /* what is being done; by rank 0. May be NULL */
	void *self;
};

/*
 * Collective. -EINVAL, -ENOENT or -ENODATA, in words, when the files are not those that the
 * workload reads: fewer of them, of another format, with other samples in them.
 */
int bench_data_open(struct bench_data *d, struct shoal_comm *comm, const struct bench_workload *w,
		    const struct bench_data_options *o, struct shoal_err *err) SHOAL_MUST_USE;
void bench_data_close(struct bench_data *d); /* idempotent */

/* Rank 0, of a run that never began: remove the catalogs that were made for it. */
void bench_data_forget(struct bench_data *d, const char *folder);

#endif
